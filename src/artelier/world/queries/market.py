"""Reads of a world's market: offers, licences, royalties, bids, uses and fees."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from artelier.log import Store
from artelier.log.queries import fetch_all, fetch_column, fetch_first, fetch_value

OPEN_SALE = "status = 'open' AND sells = 'ownership'"


class OfferRow(msgspec.Struct, frozen=True):
    """An offer, open or not."""

    offer: str
    artifact: str
    version: int
    kind: str
    seller: str
    price: int
    sells: str
    """`ownership`, `copy` or `licence`."""
    to: str
    """The only one who may buy; empty for anyone."""
    uses: int | None
    ticks: int | None
    royalty_percent: int
    made: int
    status: str
    buyer: str | None
    closed: int | None
    sold: int


class OpenOffer(NamedTuple):
    """An offer as a tick sees it; one that it has sold or cancelled is kept with `is_open` False."""

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


class OfferPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that may be seen before buying, as they are stored with an offer."""

    title: str = ""
    """The owner's words, as is the summary."""
    summary: str = ""
    kind: str = ""
    version: int = 0
    access: str = ""
    """The policy's name; empty for none."""
    size_bytes: int = 0
    users: int = 0
    """Others that have used it."""
    uses: int = 0


class OfferFact(msgspec.Struct, frozen=True, kw_only=True):
    """An open offer as facts and prompts of agents have it; fields are in the order of a prompt."""

    offer: str
    artifact: str
    kind: str
    seller: str
    price: int
    """In scrip."""
    sells: str
    to: str
    """The only one who may accept it; empty for all."""
    royalty_percent: int
    title: str
    summary: str
    users: int
    access: str


class ShownOffer(NamedTuple):
    """An open offer as agents are shown it."""

    offer: str
    artifact: str
    kind: str
    seller: str
    price: int
    sells: str
    to: str
    royalty_percent: int
    preview: str | None
    """A reference to JSON."""
    n: int


_OFFER = (
    "SELECT offer, artifact, version, kind, seller, price, sells, buyer_only, uses, ticks, royalty_percent,"
    " made, status, buyer, closed, sold FROM world_offers WHERE tenant = ? AND space = ?"
)
_TERMS = "o.offer, o.artifact, o.version, o.seller, o.price, o.sells, o.buyer_only, o.uses, o.ticks"
_OPEN = f"SELECT {_TERMS}, o.royalty_percent, o.status = 'open' FROM world_offers o"


async def offer_rows(
    store: Store, tenant: str, space: str, *, closed: bool = False, limit: int
) -> list[OfferRow]:
    """Return offers, newest first: open ones; or those that are not any more, or have sold something."""
    wanted = "(status != 'open' OR sold > 0)" if closed else "status = 'open'"
    return await fetch_all(
        store, OfferRow, f"{_OFFER} AND {wanted} ORDER BY n DESC LIMIT ?", (tenant, space, limit)
    )


async def find_offer(store: Store, tenant: str, space: str, offer: str) -> OpenOffer | None:
    """Return an offer, open or not; None if there is none."""
    rows = await store.query(
        f"{_OPEN} WHERE o.tenant = ? AND o.space = ? AND o.offer = ?", (tenant, space, offer)
    )
    return _open_offer(rows[0]) if rows else None


async def open_offers(store: Store, tenant: str, space: str, artifact: str, seller: str) -> list[OpenOffer]:
    """Return the open offers of an artifact by one seller."""
    rows = await store.query(
        f"{_OPEN} WHERE o.tenant = ? AND o.space = ? AND o.artifact = ? AND o.status = 'open'"
        " AND o.seller = ?",
        (tenant, space, artifact, seller),
    )
    return [_open_offer(row) for row in rows]


async def void_offers(store: Store, tenant: str, space: str, *, escrow: str) -> list[OpenOffer]:
    """Return open offers of what the seller, or the escrow, no longer has, in the order they were made."""
    rows = await store.query(
        f"{_OPEN} JOIN artifact_heads a ON a.tenant = o.tenant AND a.space = o.space AND a.id = o.artifact"
        " WHERE o.tenant = ? AND o.space = ? AND o.status = 'open' AND (a.deleted = 1 OR"
        " a.owner <> CASE o.sells WHEN 'ownership' THEN ? ELSE o.seller END) ORDER BY o.n",
        (tenant, space, escrow),
    )
    return [_open_offer(row) for row in rows]


def _open_offer(row: tuple[Any, ...]) -> OpenOffer:
    return OpenOffer(*row)._replace(is_open=bool(row[10]))


async def count_open_offers(store: Store, tenant: str, space: str, *, seller: str | None = None) -> int:
    """Return how many offers are open, of one seller or of all."""
    more = "" if seller is None else " AND seller = ?"
    return await fetch_value(
        store,
        f"SELECT COUNT(*) FROM world_offers WHERE tenant = ? AND space = ? AND status = 'open'{more}",
        (tenant, space) if seller is None else (tenant, space, seller),
    )


async def count_sold(store: Store, tenant: str, space: str) -> int:
    """Return how often offers were accepted."""
    return await fetch_value(
        store,
        "SELECT COALESCE(SUM(sold), 0) FROM world_offers WHERE tenant = ? AND space = ?",
        (tenant, space),
    )


async def shown_offers(
    store: Store, tenant: str, space: str, *, of_one: int, to_all: int, to_one: int
) -> list[ShownOffer]:
    """Return open offers, newest first: at most so many of a seller, to all, and to one buyer."""
    return await fetch_all(
        store,
        ShownOffer,
        "SELECT offer, artifact, kind, seller, price, sells, buyer_only, royalty_percent, preview, n"
        " FROM (SELECT *,"
        " ROW_NUMBER() OVER (PARTITION BY buyer_only ORDER BY n DESC) AS place FROM (SELECT *,"
        " ROW_NUMBER() OVER (PARTITION BY buyer_only, seller ORDER BY n DESC) AS own"
        " FROM world_offers WHERE tenant = ? AND space = ? AND status = 'open') WHERE own <= ?)"
        " WHERE place <= CASE buyer_only WHEN '' THEN CAST(? AS INTEGER) ELSE CAST(? AS INTEGER) END"
        " ORDER BY n DESC",
        (tenant, space, of_one, to_all, to_one),
    )


async def sale_seller(store: Store, tenant: str, space: str, artifact: str) -> str | None:
    """Return the seller of an artifact that is itself for sale; None if it is not."""
    return await fetch_value(
        store,
        f"SELECT seller FROM world_offers WHERE tenant = ? AND space = ? AND artifact = ? AND {OPEN_SALE}",
        (tenant, space, artifact),
    )


async def sales_of(store: Store, tenant: str, space: str, artifact: str, seller: str) -> list[str]:
    """Return the open offers by which a seller sells an artifact itself."""
    return await fetch_column(
        store,
        "SELECT offer FROM world_offers WHERE tenant = ? AND space = ? AND artifact = ?"
        f" AND {OPEN_SALE} AND seller = ?",
        (tenant, space, artifact, seller),
    )


async def bytes_for_sale(store: Store, tenant: str, space: str, seller: str, *, escrow: str) -> int:
    """Return the bytes of what the escrow holds for a seller."""
    return await fetch_value(
        store,
        "SELECT COALESCE(SUM(a.size_bytes), 0) FROM world_offers o"
        " JOIN artifact_heads a ON a.tenant = o.tenant AND a.space = o.space AND a.id = o.artifact"
        " WHERE o.tenant = ? AND o.space = ? AND o.seller = ?"
        " AND o.status = 'open' AND o.sells = 'ownership' AND a.owner = ? AND a.deleted = 0",
        (tenant, space, seller, escrow),
    )


# Licences and royalties


class LicenceRow(NamedTuple):
    """A licence that holds; `uses_left` is None for one that is not counted."""

    licence: str
    uses_left: int | None


class RoyaltyRow(NamedTuple):
    """The share of what a copy earns, for the owner of its origin."""

    origin: str
    percent: int


async def licences_of(
    store: Store, tenant: str, space: str, artifact: str, holder: str, *, tick: int, limit: int
) -> list[LicenceRow]:
    """Return the licences of a holder that hold in a tick, those that are not counted first."""
    return await fetch_all(
        store,
        LicenceRow,
        "SELECT licence, uses_left FROM world_licences WHERE tenant = ? AND space = ?"
        " AND artifact = ? AND holder = ? AND (uses_left IS NULL OR uses_left > 0)"
        " AND (until_tick IS NULL OR until_tick >= ?) ORDER BY uses_left, licence LIMIT ?",
        (tenant, space, artifact, holder, tick, limit),
    )


async def royalty_of(store: Store, tenant: str, space: str, artifact: str) -> RoyaltyRow | None:
    """Return what a copy owes to its origin; None for what owes nothing."""
    return await fetch_first(
        store,
        RoyaltyRow,
        "SELECT origin, percent FROM world_royalties WHERE tenant = ? AND space = ? AND artifact = ?",
        (tenant, space, artifact),
    )


async def traded_ids(store: Store, tenant: str, space: str) -> set[str]:
    """Return the artifacts that licences were sold for, and the copies that owe a share."""
    return set(
        await fetch_column(
            store,
            "SELECT artifact FROM world_licences WHERE tenant = ? AND space = ?"
            " UNION SELECT artifact FROM world_royalties WHERE tenant = ? AND space = ?",
            (tenant, space) * 2,
        )
    )


# The mint


class BidRow(NamedTuple):
    """A bid of the round, placed by the `n`th event."""

    agent: str
    artifact: str
    amount: int
    n: int


class UseCount(NamedTuple):
    """The number of others that have used an artifact, and of their uses."""

    users: int
    uses: int


async def bids_of(store: Store, tenant: str, space: str, *, agent: str | None = None) -> list[BidRow]:
    """Return the bids of the round, of one agent or of all, in no order. Cost: O(bids)."""
    more = "" if agent is None else " AND agent = ?"
    return await fetch_all(
        store,
        BidRow,
        f"SELECT agent, artifact, amount, n FROM world_bids WHERE tenant = ? AND space = ?{more}",
        (tenant, space) if agent is None else (tenant, space, agent),
    )


async def scored_at(store: Store, tenant: str, space: str, artifact: str) -> int:
    """Return the tick in which an artifact was last scored; 0 if it never was."""
    return await fetch_value(
        store,
        "SELECT COALESCE(MAX(tick), 0) FROM world_rounds WHERE tenant = ? AND space = ? AND artifact = ?",
        (tenant, space, artifact),
    )


async def users_between(
    store: Store, tenant: str, space: str, artifact: str, *, beside: tuple[str, str], since: int, until: int
) -> list[str]:
    """Return who used an artifact in the ticks `since <= tick < until`, `beside` left out."""
    return await fetch_column(
        store,
        "SELECT user FROM world_uses WHERE tenant = ? AND space = ? AND artifact = ?"
        " AND user <> ? AND user <> ? AND used >= ? AND used < ?",
        (tenant, space, artifact, *beside, since, until),
    )


async def count_agents_using(
    store: Store, tenant: str, space: str, artifact: str, *, beside: tuple[str, str]
) -> int:
    """Return how many agents, `beside` left out, have ever used an artifact."""
    return await fetch_value(
        store,
        "SELECT COUNT(*) FROM world_uses u JOIN world_agents g ON g.tenant = u.tenant"
        " AND g.space = u.space AND g.agent = u.user"
        " WHERE u.tenant = ? AND u.space = ? AND u.artifact = ? AND u.user <> ? AND u.user <> ?",
        (tenant, space, artifact, *beside),
    )


async def use_count(store: Store, tenant: str, space: str, artifact: str) -> UseCount:
    """Return how much others have used an artifact."""
    rows = await store.query(
        "SELECT COUNT(*), COALESCE(SUM(times), 0) FROM world_uses"
        " WHERE tenant = ? AND space = ? AND artifact = ?",
        (tenant, space, artifact),
    )
    return UseCount(*rows[0])


async def fees_of(store: Store, tenant: str, space: str) -> dict[str, int]:
    """Return what principals have paid to services since fees were shared."""
    return dict(
        await store.query(
            "SELECT payer, amount FROM world_fees WHERE tenant = ? AND space = ?", (tenant, space)
        )
    )
