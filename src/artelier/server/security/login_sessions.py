"""Sessions of people who signed in: their cookies, their ends, and the throttle on wrong passwords."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import os
import secrets
import threading
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from artelier.atomic_file import replace_file
from artelier.clock import Clock
from artelier.errors import StoreUnavailable
from artelier.server.errors import TooManyAttempts
from artelier.server.security.users import url_text
from artelier.threads import PlaceTurns


def keep_session(response: Response, request: Request, name: str, value: str) -> None:
    """Let the browser keep a session."""
    response.set_cookie(
        name,
        value,
        max_age=SESSION_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


FAILURES_MAX = 5
"""For one name from one address, within the window."""
ADDRESS_MAX = 100
"""Over all names, from one address. Nothing is counted over all addresses: whoever guesses would lock
everybody else out with it."""
WINDOW_S = 300
KEYS_MAX = 10_000
CHECKED_AT_ONCE = 1
"""Passwords of addresses where somebody has signed in before, and of others. Each takes a processor for a
tenth of a second, by intention: more at once would leave none."""


class Attempts:
    """Counts logins that did not succeed. Where one failed too often, one waits, also with the right
    password; from another address nobody notices."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: OrderedDict[tuple[str, str | None], list[int]] = OrderedDict()
        self._known = OrderedDict[str, None]()
        """Addresses where somebody has signed in, the last one last."""
        self._checking = {is_known: PlaceTurns(CHECKED_AT_ONCE) for is_known in (True, False)}

    def turn(self, address: str) -> AbstractAsyncContextManager[None]:
        """Hold a turn to check a password: addresses where somebody has signed in do not wait for others."""
        place = place_of(address)
        return self._checking[place in self._known].turn(place)

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
        self._known[place] = None
        self._known.move_to_end(place)
        if len(self._known) > KEYS_MAX:
            self._known.popitem(last=False)
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


SESSION_S = 7 * 24 * 3600
"""After this one signs in again."""

LINK_S = 3600
"""How long a printed link can be used, once."""

LINKS_MAX = 16
ENDED_MAX = 256
"""Ended sessions of one user that are kept one by one; beyond it, all older ones of that user end too."""
COOKIE_CHARS_MAX = 1000


class _SessionFile(msgspec.Struct):
    """The file: the key, and which sessions were ended before their time."""

    key: str
    ended: dict[str, int] = {}
    """Session to the time at which it would have ended by itself; of files before users were kept apart."""
    ended_by: dict[str, dict[str, int]] = {}
    """The same for each user."""
    floors: dict[str, int] = {}
    """User to a time: sessions of theirs that would end by then have ended."""


class LoginSession(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a cookie."""

    id: str
    user: str
    """Empty for the one person of local mode."""
    until_us: int


class Sessions:
    """Makes and checks links and cookies. Errors of the constructor: `StoreUnavailable` for the file."""

    def __init__(self, clock: Clock, file: Path | None) -> None:
        self._clock = clock
        self._file = file
        self._kept = self._load()
        self._ending = threading.Lock()
        self._key = base64.urlsafe_b64decode(self._kept.key)
        self._links: dict[str, int] = {}
        # Browsers share cookies among the ports of a host: two servers must not sign each other out.
        self.cookie = f"artelier_{hashlib.sha256(self._key).hexdigest()[:8]}"

    # Links

    def link(self) -> str:
        """A new token for one use. Only the newest few stay valid."""
        token = secrets.token_urlsafe(32)
        self._links[_digest(token)] = self._clock.now_us() + LINK_S * 1_000_000
        while len(self._links) > LINKS_MAX:
            del self._links[next(iter(self._links))]
        return token

    def use_link(self, token: str) -> bool:
        """Return True if a token is good; it is not any more afterwards."""
        until_us = self._links.pop(_digest(token), 0)
        return until_us > self._clock.now_us()

    # Cookies

    def begin(self, user: str, stamp: bytes) -> str:
        """The cookie of a new session."""
        until_us = self._clock.now_us() + SESSION_S * 1_000_000
        session = LoginSession(id=secrets.token_urlsafe(18), user=user, until_us=until_us)
        payload = url_text(msgspec.json.encode(session))
        return f"v1.{payload}.{self._mac(payload, stamp)}"

    def read(self, cookie: str) -> LoginSession | None:
        """Return what a cookie claims, not yet believed: `proves` needs the stamp of the user that it
        names.
        """
        version, _, rest = cookie.partition(".")
        payload = rest.partition(".")[0]
        if version != "v1" or len(cookie) > COOKIE_CHARS_MAX:
            return None
        try:
            raw = base64.b64decode(payload + "=" * (-len(payload) % 4), b"-_", validate=True)
            return msgspec.json.decode(raw, type=LoginSession)
        except (ValueError, msgspec.MsgspecError):
            return None

    def proves(self, cookie: str, session: LoginSession, stamp: bytes) -> bool:
        """Return True if a cookie was made here for this user and has not ended."""
        payload, _, mac = cookie.partition(".")[2].partition(".")
        is_ours = hmac.compare_digest(mac.encode(), self._mac(payload, stamp).encode())
        return is_ours and self._is_alive(session)

    def _is_alive(self, session: LoginSession) -> bool:
        kept = self._kept
        return (
            session.until_us > max(self._clock.now_us(), kept.floors.get(session.user, 0))
            and session.id not in kept.ended
            and session.id not in kept.ended_by.get(session.user, {})
        )

    def csrf(self, session: LoginSession) -> str:
        """Return what requests of this session that change something carry in `X-CSRF-Token`."""
        return url_text(hmac.digest(self._key, b"csrf\0" + session.id.encode(), "sha256"))

    def sign(self, purpose: str, *parts: str) -> str:
        """Return a MAC of some texts under the key of this store; each purpose has signatures of its own."""
        key = hmac.digest(self._key, b"sign\0" + purpose.encode(), "sha256")
        return url_text(hmac.digest(key, msgspec.json.encode(parts), "sha256"))

    def end(self, session: LoginSession) -> None:
        """Sign out, for good: a copy of the cookie is worth nothing.

        No session ever comes back: of a user who ended too many to keep, those that began before the oldest
        of them end as well. Errors: `StoreUnavailable`.
        """
        with self._ending:
            self._keep_ended(session)
            self._save(self._kept)

    def _keep_ended(self, session: LoginSession) -> None:
        now_us, kept, user = self._clock.now_us(), self._kept, session.user
        kept.ended = _ahead(kept.ended, now_us)
        kept.floors = _ahead(kept.floors, now_us)
        kept.ended_by = {
            name: left for name, ended in kept.ended_by.items() if (left := _ahead(ended, now_us))
        }
        own = kept.ended_by.setdefault(user, {})
        own[session.id] = session.until_us
        while len(own) > ENDED_MAX:
            oldest = min(own, key=own.__getitem__)
            kept.floors[user] = max(kept.floors.get(user, 0), own.pop(oldest))

    def _mac(self, payload: str, stamp: bytes) -> str:
        key = hmac.digest(self._key, stamp, "sha256")
        return url_text(hmac.digest(key, payload.encode(), "sha256"))

    # The file

    def _load(self) -> _SessionFile:
        fresh = _SessionFile(key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
        if self._file is None:
            return fresh
        try:
            stored: Any = msgspec.json.decode(self._file.read_bytes(), type=_SessionFile)
            if len(base64.urlsafe_b64decode(stored.key)) == 32:
                os.chmod(self._file, 0o600)
                return stored
        except FileNotFoundError:
            pass
        except (ValueError, msgspec.MsgspecError):
            pass  # not ours any more: a new key ends all sessions, which is the safe side
        except OSError as error:
            raise StoreUnavailable(
                f"the file of the session key cannot be read: {error.strerror}", got=str(self._file)
            ) from None
        self._save(fresh)
        return fresh

    def _save(self, kept: _SessionFile) -> None:
        """Put the file in place at once; only its owner may read it."""
        if self._file is not None:
            with replace_file(self._file, "the file of the session key cannot be written") as file:
                file.write(msgspec.json.encode(kept))


def _ahead(times: dict[str, int], now_us: int) -> dict[str, int]:
    return {name: until for name, until in times.items() if until > now_us}


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
