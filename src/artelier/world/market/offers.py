"""Offers as they stand while the actions of a tick are decided."""

from __future__ import annotations

from typing import Any, NamedTuple

from artelier.artifacts.content import decode_content
from artelier.artifacts.queries import Standing
from artelier.errors import CorruptStore, NotFound
from artelier.world.tick.tick_context import ActionStep, Scene
from artelier.world.tick.world_state import ESCROW

TITLE_CHARS_MAX = 80
SUMMARY_CHARS_MAX = 400


class OpenOffer(NamedTuple):
    """One offer; a sold or cancelled one of this tick is kept with `is_open` False."""

    offer: str
    artifact: str
    version: int
    seller: str
    price: int
    sells: str
    to: str
    uses: int | None
    ticks: int | None
    royalty_percent: int
    is_open: bool = True


_COLUMNS = (
    "SELECT offer, artifact, version, seller, price, sells, buyer_only, uses, ticks,"
    " royalty_percent, status = 'open' FROM world_offers WHERE tenant = ? AND space = ? AND "
)


async def find_offer(step: ActionStep, offer: str) -> OpenOffer:
    """An open offer. Errors: `NotFound` for one that is not, or not any more."""
    found: OpenOffer | None = step.working.pending(("offer", offer))
    if found is None:
        rows = await step.scene.stage.store.query(
            f"{_COLUMNS}offer = ?", (step.scene.tenant, step.scene.space, offer)
        )
        found = _offer(rows[0]) if rows else None
    if found is None or not found.is_open:
        raise NotFound(f"there is no open offer {offer}")
    return found


async def offers_of(step: ActionStep, artifact: str, seller: str) -> list[OpenOffer]:
    """Return what a seller offers of an artifact now, the offers of this tick included."""
    rows = await step.scene.stage.store.query(
        f"{_COLUMNS}artifact = ? AND status = 'open' AND seller = ?",
        (step.scene.tenant, step.scene.space, artifact, seller),
    )
    found = {row[0]: _offer(row) for row in rows}
    fresh: tuple[str, ...] = step.working.pending(("offers", artifact)) or ()
    for offer in (*found, *fresh):
        pending: OpenOffer | None = step.working.pending(("offer", offer))
        if pending is not None:
            found[offer] = pending
    return [one for one in found.values() if one.is_open and one.seller == seller]


async def open_count(step: ActionStep) -> int:
    """Return how many offers an agent had open when the tick began. Cost: O(those)."""
    rows = await step.scene.stage.store.query(
        "SELECT COUNT(*) FROM world_offers WHERE tenant = ? AND space = ? AND seller = ? AND status = 'open'",
        (step.scene.tenant, step.scene.space, step.agent),
    )
    return rows[0][0]


async def void_offers(scene: Scene) -> list[OpenOffer]:
    """Offers of what the seller, or the escrow, no longer has, as of the tick before."""
    rows = await scene.stage.store.query(
        "SELECT o.offer, o.artifact, o.version, o.seller, o.price, o.sells, o.buyer_only, o.uses,"
        " o.ticks, o.royalty_percent, 1 FROM world_offers o JOIN artifacts a"
        " ON a.tenant = o.tenant AND a.space = o.space AND a.id = o.artifact"
        " WHERE o.tenant = ? AND o.space = ? AND o.status = 'open' AND (a.deleted = 1 OR"
        " a.owner <> CASE o.sells WHEN 'ownership' THEN ? ELSE o.seller END) ORDER BY o.n",
        (scene.tenant, scene.space, ESCROW),
    )
    found = [_offer(row) for row in rows]
    return [one for one in found if scene.working.pending(("offer", one.offer)) is None]


def keep_offer(step: ActionStep, offer: OpenOffer) -> None:
    """Have the rest of the tick see an offer as it is now."""
    step.working.keep(("offer", offer.offer), offer)


def _offer(row: tuple[Any, ...]) -> OpenOffer:
    return OpenOffer(*row[:-1], is_open=bool(row[-1]))


async def preview(step: ActionStep, standing: Standing) -> dict[str, Any]:
    """Return what may be seen before buying: title and summary of the owner's metadata, figures of the
    world.
    """
    at = standing.at
    assert at is not None
    metadata: Any = {}
    if at.metadata is not None:
        try:
            metadata = decode_content("json", await step.working.blob(at.metadata))
        except (NotFound, CorruptStore):
            metadata = {}
    rows = await step.scene.stage.store.query(
        "SELECT COUNT(*), SUM(times) FROM world_uses WHERE tenant = ? AND space = ? AND artifact = ?",
        (step.scene.tenant, step.scene.space, standing.id),
    )
    users, uses = rows[0]
    return {
        "title": _text(metadata, "title", TITLE_CHARS_MAX),
        "summary": _text(metadata, "summary", SUMMARY_CHARS_MAX),
        "kind": standing.kind,
        "version": at.version,
        # The policy's name as it is now: what it grants by name or contract, a sale takes away.
        "access": standing.access.policy if standing.access is not None else "",
        "size_bytes": at.size_bytes,
        "users": users,
        "uses": uses or 0,
    }


def _text(metadata: Any, name: str, chars_max: int) -> str:
    value: object = metadata.get(name) if isinstance(metadata, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    return value[:chars_max] if isinstance(value, str) else ""
