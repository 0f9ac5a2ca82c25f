"""How often somebody may guess a password."""

from __future__ import annotations

from collections import OrderedDict

from artelier.clock import Clock
from artelier.server.errors import TooManyAttempts

FAILURES_MAX = 5
"""Per name, and twenty times as many over all names, within the window."""
ALL_MAX = 100
WINDOW_S = 300
NAMES_MAX = 10_000


class Attempts:
    """Counts logins that did not succeed. A name that failed too often waits, whoever has it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, list[int]] = OrderedDict()
        self._all: list[int] = []

    def begin(self, name: str) -> None:
        """Count a try before it is made, so that many at once are no way around.

        Errors: `TooManyAttempts`.
        """
        now_us = self._clock.now_us()
        since_us = now_us - WINDOW_S * 1_000_000
        own = [at for at in self._failed.get(name, []) if at > since_us]
        self._all = [at for at in self._all if at > since_us]
        for times, most in ((own, FAILURES_MAX), (self._all, ALL_MAX)):
            if len(times) >= most:
                wait_s = (times[0] - since_us) // 1_000_000 + 1
                raise TooManyAttempts(
                    "too many failed logins", hint=f"Try again in {wait_s} seconds.",
                    retry_after_s=wait_s,
                )  # fmt: skip
        self._all.append(now_us)
        self._failed[name] = [*own, now_us]
        self._failed.move_to_end(name)
        if len(self._failed) > NAMES_MAX:
            self._failed.popitem(last=False)

    def succeeded(self, name: str) -> None:
        """The right password: what came before it is forgotten."""
        for at in self._failed.pop(name, []):
            if at in self._all:
                self._all.remove(at)
