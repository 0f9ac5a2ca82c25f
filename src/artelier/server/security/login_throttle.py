"""Limits on the number of password attempts."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict

from artelier.clock import Clock
from artelier.server.errors import TooManyAttempts

FAILURES_MAX = 5
"""For one name from one address, within the window."""
ADDRESS_MAX = 100
"""Over all names, from one address. Nothing is counted over all addresses: whoever guesses would lock
everybody else out with it."""
WINDOW_S = 300
KEYS_MAX = 10_000
CHECKED_AT_ONCE = 2
"""Passwords. Each takes a processor for a tenth of a second, by intention: more at once would leave none."""


class Attempts:
    """Counts logins that did not succeed. Where one failed too often, one waits, also with the right
    password; from another address nobody notices."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: OrderedDict[tuple[str, str | None], list[int]] = OrderedDict()
        self.checking = asyncio.Semaphore(CHECKED_AT_ONCE)
        """Held while a password is checked."""

    def begin(self, name: str, address: str) -> None:
        """Count a try before it is made, so that many at once are no way around.

        Errors: `TooManyAttempts`.
        """
        now_us = self._clock.now_us()
        since_us = now_us - WINDOW_S * 1_000_000
        place = place_of(address)
        tries: list[tuple[tuple[str, str | None], list[int]]] = []
        for key, most in (((place, name), FAILURES_MAX), ((place, None), ADDRESS_MAX)):
            times = [at for at in self._failed.get(key, []) if at > since_us]
            if len(times) >= most:
                wait_s = (times[0] - since_us) // 1_000_000 + 1
                raise TooManyAttempts(
                    "too many failed logins", hint=f"Try again in {wait_s} seconds.", retry_after_s=wait_s
                )
            tries.append((key, [*times, now_us]))
        for key, times in tries:
            self._failed[key] = times
            self._failed.move_to_end(key)
        while len(self._failed) > KEYS_MAX:
            self._failed.popitem(last=False)

    def note_success(self, name: str, address: str) -> None:
        """The right password: what came before it is forgotten."""
        place = place_of(address)
        everywhere = self._failed.get((place, None), [])
        for at in self._failed.pop((place, name), []):
            if at in everywhere:
                everywhere.remove(at)


def place_of(address: str) -> str:
    """Return what counts as one address: of IPv6 the network of 64 bits, since each home has a whole one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found), 64), strict=False))
