"""Offers and sales: ownership through the escrow, copies, licences; each whole or not at all."""

from __future__ import annotations

from typing import Any

import msgspec

from artelier.artifacts import Access, Bill, Ref
from artelier.artifacts.content import decode_content
from artelier.artifacts.contracts import version_at
from artelier.artifacts.events import ArtifactTransferred, ArtifactWritten
from artelier.artifacts.queries import Standing
from artelier.errors import AccessDenied, Conflict, CorruptStore, InvalidArguments, LimitReached, NotFound
from artelier.log import BlobRef
from artelier.world.actions import Accept, CancelOffer, Offer
from artelier.world.events import OfferAccepted, OfferCancelled, OfferMade
from artelier.world.queries import market
from artelier.world.queries.market import OfferPreview, OpenOffer
from artelier.world.stores import copy_entries
from artelier.world.tick.tick_context import ActionStep, Scene
from artelier.world.tick.world_state import ESCROW

# --------------------------------------------------------------------------- offers
# Offers as they stand while the actions of a tick are decided.


TITLE_CHARS_MAX = 80
SUMMARY_CHARS_MAX = 400


async def find_offer(step: ActionStep, offer: str) -> OpenOffer:
    """An open offer. Errors: `NotFound` for one that is not, or not any more."""
    found: OpenOffer | None = step.working.pending(("offer", offer))
    if found is None:
        scene = step.scene
        found = await market.find_offer(scene.stage.store, scene.tenant, scene.space, offer)
    if found is None or not found.is_open:
        raise NotFound(f"there is no open offer {offer}")
    return found


async def offers_of(step: ActionStep, artifact: str, seller: str) -> list[OpenOffer]:
    """Return what a seller offers of an artifact now, the offers of this tick included."""
    scene = step.scene
    rows = await market.open_offers(scene.stage.store, scene.tenant, scene.space, artifact, seller)
    found = {row.offer: row for row in rows}
    fresh: tuple[str, ...] = step.working.pending(("offers", artifact)) or ()
    for offer in (*found, *fresh):
        pending: OpenOffer | None = step.working.pending(("offer", offer))
        if pending is not None:
            found[offer] = pending
    return [one for one in found.values() if one.is_open and one.seller == seller]


async def open_count(step: ActionStep) -> int:
    """Return how many offers an agent had open when the tick began. Cost: O(those)."""
    scene = step.scene
    return await market.count_open_offers(scene.stage.store, scene.tenant, scene.space, seller=step.agent)


async def void_offers(scene: Scene) -> list[OpenOffer]:
    """Offers of what the seller, or the escrow, no longer has, as of the tick before."""
    found = await market.void_offers(scene.stage.store, scene.tenant, scene.space, escrow=ESCROW)
    return [one for one in found if scene.working.pending(("offer", one.offer)) is None]


def keep_offer(step: ActionStep, offer: OpenOffer) -> None:
    """Have the rest of the tick see an offer as it is now."""
    step.working.keep(("offer", offer.offer), offer)


async def preview(step: ActionStep, standing: Standing) -> OfferPreview:
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
    scene = step.scene
    users, uses = await market.use_count(scene.stage.store, scene.tenant, scene.space, standing.id)
    return OfferPreview(
        title=_text(metadata, "title", TITLE_CHARS_MAX),
        summary=_text(metadata, "summary", SUMMARY_CHARS_MAX),
        kind=standing.kind,
        version=at.version,
        # The policy's name as it is now: what it grants by name or contract, a sale takes away.
        access=standing.access.policy if standing.access is not None else "",
        size_bytes=at.size_bytes,
        users=users,
        uses=uses,
    )


def _text(metadata: object, name: str, chars_max: int) -> str:
    value: object = metadata.get(name) if isinstance(metadata, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    return value[:chars_max] if isinstance(value, str) else ""


# --------------------------------------------------------------------------- trades


OWNERSHIP, COPY = "ownership", "copy"

STATIC = ("private", "owner_writes", "public")
"""Policies that stay with what is sold; any other one becomes private."""

ID_CHARS_MAX = 128

COPY_IDS_MAX = 1_000
"""Ids tried for a copy: they can be guessed, and whoever takes one must not stop a sale."""

OFFERS_MAX = 20
"""Open offers of one agent, so that nobody fills the market alone (guess)."""


async def offer(step: ActionStep, action: Offer) -> None:
    """Put something up for sale; what is sold itself goes to the escrow until it is sold or taken back.

    Errors: `AccessDenied` for what is not the agent's; `InvalidArguments` for agents; `Conflict` for what the
    agent offers already; `NotFound` for an offer to nobody; `LimitReached`.
    """
    verdict = await step.judge(Ref(action.artifact_id), "transfer")
    standing = verdict.granted()
    if standing.owner != step.agent:
        raise AccessDenied(f"only its owner may offer {standing.id}", artifact=standing.id)
    if standing.kind == "agent":
        raise InvalidArguments(
            "an agent cannot be sold: whoever owns it would act in its name",
            expected="something that it thinks with, knows or makes",
        )
    if action.to == step.agent:
        raise InvalidArguments("an offer to oneself")
    if action.to and action.to not in step.scene.agents:
        raise NotFound(f"there is no agent {action.to} to offer something to")
    if (used := await open_count(step)) >= OFFERS_MAX:
        raise LimitReached(
            f"you have {used} open offers; cancel one first",
            expected=f"at most {OFFERS_MAX}",
            scope=step.agent,
            unit="offers",
            cap=OFFERS_MAX,
            used=used,
            asked=1,
        )
    same = [one for one in await offers_of(step, standing.id, step.agent) if _alike(one, action)]
    if same:
        raise Conflict(f"{standing.id} is offered so already: {same[0].offer}; cancel that first")
    at = version_at(standing, Ref(standing.id))
    made = OpenOffer(
        offer=step.scene.fresh_id("offer"),
        artifact=standing.id,
        version=at.version,
        seller=step.agent,
        price=action.price,
        sells=action.sells,
        to=action.to or "",
        uses=action.uses,
        ticks=action.ticks,
        royalty_percent=action.royalty_percent,
    )
    shown = step.keep(msgspec.to_builtins(await preview(step, standing)))
    if action.sells == OWNERSHIP:
        await step.apply(ArtifactTransferred(id=standing.id, giver=step.agent, to=ESCROW))
    keep_offer(step, made)
    step.scene.unseen_offers.add(made.offer)
    fresh: tuple[str, ...] = step.working.pending(("offers", standing.id)) or ()
    step.working.keep(("offers", standing.id), (*fresh, made.offer))
    result = step.keep({"offer": made.offer})
    await step.apply(
        OfferMade(
            act=step.act(ref=standing.id, result=result),
            offer=made.offer,
            artifact=made.artifact,
            version=made.version,
            seller=made.seller,
            price=made.price,
            sells=made.sells,
            to=made.to,
            uses=made.uses,
            ticks=made.ticks,
            royalty_percent=made.royalty_percent,
            preview=shown,
        )
    )


def _alike(one: OpenOffer, action: Offer) -> bool:
    """Return True if an offer and a new one would sell the same to the same people."""
    return one.sells == action.sells and one.to == (action.to or "")


async def accept(step: ActionStep, action: Accept) -> None:
    """Buy: scrip and what is sold change hands in one batch.

    Errors: `NotFound` for what is not offered to the agent; `AccessDenied` above the agreed price;
    `InsufficientFunds`; `Conflict` for an offer that is void.
    """
    found = await find_offer(step, action.offer_id)
    scene = step.scene
    if found.to not in ("", step.agent) or not scene.sees(step.agent, found.seller):
        raise NotFound(f"there is no open offer {action.offer_id}")
    if found.seller == step.agent:
        raise InvalidArguments("this offer is your own; cancel_offer takes it back")
    agreed = action.price_max
    if agreed is None and scene.config.asks_consent and found.offer in scene.unseen_offers:
        agreed = 0  # its id was guessed: nobody has seen this price
    if agreed is not None and found.price > agreed:
        raise AccessDenied(
            f"offer {found.offer} costs more than agreed",
            expected=f"at most {agreed} scrip",
            got=f"{found.price} scrip",
        )
    standing = await _find_sold(step, found)
    royalty = await step.working.royalty(found.artifact)
    got, until = "", None
    if found.sells == OWNERSHIP:
        got = found.artifact
        access = _access_after(standing)
        await step.apply(ArtifactTransferred(id=got, giver=ESCROW, to=step.agent, access=access))
        keep_offer(step, found._replace(is_open=False))
    elif found.sells == COPY:
        got = await _copy(step, standing, found)
    elif found.ticks is not None:
        until = scene.tick + found.ticks
    told: dict[str, Any] = {"bought": found.sells, "of": found.artifact, "paid": found.price}
    if got:
        told["yours_now"] = got
    result = step.keep(told)
    await step.apply(
        OfferAccepted(
            act=step.act(ref=found.offer, result=result),
            offer=found.offer,
            artifact=found.artifact,
            buyer=step.agent,
            seller=found.seller,
            price=found.price,
            sells=found.sells,
            got=got,
            uses=found.uses,
            until_tick=until,
            royalty_percent=found.royalty_percent,
            postings=Bill.movement(step.agent, found.seller, found.price, royalty),
        )
    )


async def _find_sold(step: ActionStep, found: OpenOffer) -> Standing:
    """Return what is sold, if its seller still has it to sell. Errors: `Conflict`."""
    holder = ESCROW if found.sells == OWNERSHIP else found.seller
    standing = await step.working.standing(
        found.artifact, version=found.version if found.sells == COPY else None
    )
    if standing is None or standing.deleted or standing.owner != holder:
        raise Conflict(f"offer {found.offer} is void: {found.artifact} is not the seller's any more")
    if found.sells == OWNERSHIP and standing.version != found.version:
        raise Conflict(f"offer {found.offer} is void: {found.artifact} has changed since it was made")
    return standing


def _access_after(standing: Standing) -> Access | None:
    """Return what a sale makes of the policy: no grant of the seller, nor a rule of its choice, outlives
    it.
    """
    access = standing.access
    if access is not None and access.policy in STATIC:
        return None
    return Access(policy="private")


async def _copy(step: ActionStep, source: Standing, found: OpenOffer) -> str:
    """A new artifact of the buyer with the content that was offered; its id.

    It is private: what can be read for free cannot be sold, and the buyer may say otherwise.
    """
    at = version_at(source, Ref(source.id, found.version))
    own_id = await _copy_id(step, source.id)
    await step.apply(
        ArtifactWritten(
            id=own_id,
            kind=source.kind,
            version=1,
            content=BlobRef(at.content),
            media=at.media,
            size_bytes=at.size_bytes,
            creator=step.agent,
            owner=step.agent,
            access=Access(policy="private"),
            interface=None if at.interface is None else BlobRef(at.interface),
            metadata=None if at.metadata is None else BlobRef(at.metadata),
            derived_from=(f"{source.id}@{found.version}",),
        )
    )
    if source.kind == "memory_store":
        await copy_entries(step.working, source.id, own_id)
    return own_id


async def _copy_id(step: ActionStep, source: str) -> str:
    """Return an id for a copy that nobody has. Errors: `Conflict` if somebody has taken very many."""
    for _ in range(COPY_IDS_MAX):
        name = step.scene.fresh_id("copy")
        own_id = f"{source}.{name}" if len(source) + len(name) < ID_CHARS_MAX else name
        if await step.working.standing(own_id) is None:
            return own_id
    raise Conflict(f"there are {COPY_IDS_MAX} artifacts in the place of a copy of {source}")


async def cancel(step: ActionStep, action: CancelOffer) -> None:
    """Take back an offer of one's own. Errors: `NotFound`, also for those of others."""
    found = await find_offer(step, action.offer_id)
    if found.seller != step.agent:
        raise NotFound(f"you have no open offer {action.offer_id}")
    if found.sells == OWNERSHIP:
        standing = await step.working.standing(found.artifact)
        if standing is not None and not standing.deleted and standing.owner == ESCROW:
            await step.apply(ArtifactTransferred(id=standing.id, giver=ESCROW, to=step.agent))
    keep_offer(step, found._replace(is_open=False))
    await step.apply(OfferCancelled(offer=found.offer, act=step.act(ref=found.offer)))


async def clear_void(scene: Scene) -> None:
    """Take offers off the market whose seller no longer has what they offer."""
    for one in await void_offers(scene):
        scene.working.keep(("offer", one.offer), one._replace(is_open=False))
        await scene.working.apply(OfferCancelled(offer=one.offer), actor="world")
