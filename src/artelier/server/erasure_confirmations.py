"""Confirmations of erasures: what somebody was shown, for a while, and for that person alone.

Nothing is stored for one. It is a MAC under the server's key over tenant, person, subject, an end, and the
digest of all that would go; so the second request erases what the first has shown, or nothing.
"""

from __future__ import annotations

import hmac

from artelier.clock import Clock
from artelier.errors import Conflict
from artelier.kernel.erasure import Erasure, Preview
from artelier.server.security.login_sessions import Sessions

CONFIRM_S = 600
"""How long a confirmation holds: long enough to read what would go."""

_HINT = "Nothing was erased. Ask for a preview again, and confirm that."


class Confirmations:
    """Makes and checks confirmations for one person in one tenant."""

    def __init__(self, sessions: Sessions, clock: Clock, *, tenant: str, actor: str) -> None:
        self._sessions = sessions
        self._clock = clock
        self._scope = (tenant, actor)

    def make(self, found: Erasure, *, subject: str | None) -> tuple[str, int]:
        """Return the confirmation of what was found, and until when it holds."""
        until_us = self._clock.now_us() + CONFIRM_S * 1_000_000
        said = f"{until_us}.{found.upto_key}.{found.digest}"
        return f"{said}.{self._mac(said, subject)}", until_us

    def read(self, token: str, *, subject: str | None) -> Preview:
        """Return what a confirmation was made for.

        Errors: `Conflict` for one of another person, tenant or subject, for one that was changed, and for one
        that holds no more.
        """
        said, _, mac = token.rpartition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(said, subject).encode()):
            raise Conflict(
                "this confirms nothing that you would erase here",
                expected="the `token` of a preview, by the same person, of the same subject",
                hint=_HINT,
            )
        until_us, upto_key, digest = said.split(".")
        if int(until_us) <= self._clock.now_us():
            raise Conflict("this confirmation holds no more", hint=_HINT)
        return Preview(digest, int(upto_key))

    def _mac(self, said: str, subject: str | None) -> str:
        whom = ("whole", "") if subject is None else ("subject", subject)
        return self._sessions.sign("erasure", *self._scope, *whom, said)
