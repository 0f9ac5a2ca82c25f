"""`/erasures`: what was stored of somebody is taken out of the database, in two steps, by admins."""

from __future__ import annotations

from artelier.kernel.erasure import Erasure
from artelier.server.deps import Admin, Desk, Door
from artelier.server.erasure_confirmations import Confirmations
from artelier.server.routes import resource
from artelier.server.security.identity import Identity, IdentityGate
from artelier.server.wire.server import ErasureAsked, ErasureConfirmed, ErasurePreview, ErasureShown

router = resource("erasures")


@router.post("/preview", operation_id="erasures_preview")
async def preview(desk: Desk, who: Admin, door: Door, asked: ErasureAsked) -> ErasurePreview:
    """Say what would be erased; only admins may. Nothing is changed.

    The `token` confirms exactly that, for ten minutes, for the same person, in `POST /erasures`.
    """
    found = await desk.erase(subject=asked.subject, by=who.actor, dry=True)
    token, until_us = _confirmations(desk, who, door).make(found, subject=asked.subject)
    return ErasurePreview.model_validate({**_describe_erasure(found), "token": token, "until_us": until_us})


@router.post("", operation_id="erasures_create")
async def create(desk: Desk, who: Admin, door: Door, asked: ErasureConfirmed) -> ErasureShown:
    """Erase what a preview has shown, for good; only admins may.

    If something else would go by now, nothing is erased (`conflict`). The same request again erases nothing
    more. An event names who did it, and up to which key it reached.
    """
    shown = _confirmations(desk, who, door).read(asked.token, subject=asked.subject)
    found = await desk.erase(subject=asked.subject, by=who.actor, preview=shown)
    return ErasureShown.model_validate(_describe_erasure(found))


def _confirmations(desk: Desk, who: Identity, door: IdentityGate) -> Confirmations:
    return Confirmations(door.sessions, desk.services.clock, tenant=desk.id, actor=who.actor)


def _describe_erasure(found: Erasure) -> dict[str, object]:
    return {
        "tenant": found.tenant,
        "whole": found.whole,
        "keys": found.keys,
        "contents": found.blobs,
        "size_bytes": found.size_bytes,
        "values": found.values,
        "runs": list(found.runs),
        "again": found.again,
        "cleaned": found.cleaned,
    }
