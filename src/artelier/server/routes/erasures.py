"""`/erasures`: what was stored of somebody is taken out of the database, in two steps, by admins."""

from __future__ import annotations

import hmac

from artelier.clock import Clock
from artelier.errors import Conflict
from artelier.kernel.erasure import Erasure, Preview
from artelier.server.deps import Admin, Desk, Door
from artelier.server.routes import resource
from artelier.server.security.identity import Identity, IdentityGate
from artelier.server.security.login_sessions import Sessions
from artelier.server.wire.server import ErasureAsked, ErasureConfirmed, ErasurePreview, ErasureShown

router = resource("erasures")


@router.post("/preview", operation_id="erasures_preview")
async def preview(desk: Desk, who: Admin, door: Door, asked: ErasureAsked) -> ErasurePreview:
    """Say what would be erased; only admins may. Nothing is changed.

    The `token` confirms exactly that, for ten minutes, for the same person, in `POST /erasures`.
    """
    found = await desk.erase(subject=asked.subject, by=who.actor, dry=True)
    token, until_us = _confirmations(desk, who, door).make(found, subject=asked.subject)
    return ErasurePreview(**_describe_erasure(found).model_dump(), token=token, until_us=until_us)


@router.post("", operation_id="erasures_create")
async def create(desk: Desk, who: Admin, door: Door, asked: ErasureConfirmed) -> ErasureShown:
    """Erase what a preview has shown, for good; only admins may.

    If something else would go by now, nothing is erased (`conflict`). The same request again erases nothing
    more. An event names who did it, and up to which key it reached.
    """
    shown = _confirmations(desk, who, door).read(asked.token, subject=asked.subject)
    found = await desk.erase(subject=asked.subject, by=who.actor, preview=shown)
    return _describe_erasure(found)


def _confirmations(desk: Desk, who: Identity, door: IdentityGate) -> Confirmations:
    return Confirmations(door.sessions, desk.services.clock, tenant=desk.id, actor=who.actor)


def _describe_erasure(found: Erasure) -> ErasureShown:
    return ErasureShown(
        tenant=found.tenant,
        whole=found.whole,
        keys=found.keys,
        contents=found.blobs,
        size_bytes=found.size_bytes,
        values=found.values,
        runs=list(found.runs),
        again=found.again,
        cleaned=found.cleaned,
    )


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
