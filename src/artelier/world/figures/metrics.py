"""Figures of a world, tick by tick: money, trades, prices, actions, what models cost.

They are folded on demand from the events behind the nearest checkpoint; nothing in a tick reads them. What
the host did between two ticks belongs to the one that passed last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

import msgspec

from artelier.artifacts import ArtifactCharged, ArtifactInvoked, account_of
from artelier.artifacts.queries import kinds_of
from artelier.errors import InvalidRequest
from artelier.ledger import Moving, may_owe
from artelier.log import EventData
from artelier.money import SCRIP
from artelier.world import events as ev
from artelier.world.events import world_space
from artelier.world.figures.tables import Cell, Columns
from artelier.world.history.history_fold import AgentNow, SocietyState, act_of, asked_of, history_of, span_of
from artelier.world.queries.market import OfferRow
from artelier.world.queries.reports import offers
from artelier.world.queries.worlds import checkpoint_before
from artelier.world.world import World

__all__ = ["market"]


ValueT = TypeVar("ValueT")

HOLDS = "hold:"
MINTS = "mint:"
SERVICES = "genesis_"

FIGURES_MAX = 2_000_000
"""Balances in one `Metrics`: some 200 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickPrice:
    """The prices paid in a tick for one kind of artifact, sold in one way."""

    kind: str
    """Of the artifact, such as `prompt`."""
    sells: str
    """`ownership`, `copy` or `licence` of an offer; `invoke`, `read` or `include` of a paid use."""
    trades: int
    volume: int
    """What was paid for all of them."""
    low: int
    median: float
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TickUsage:
    """The model usage of one agent in a tick."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TickMetrics:
    """One tick. Money is scrip, as it stands at the end of the tick."""

    tick: int
    balances: Mapping[str, int]
    """Of the agents that act, in the order of their joining."""
    gini: float
    """Of these balances: 0 if all have the same, (n - 1) / n if one of n has all."""
    circulating: int
    """All that sources and mints have issued and not got back: agents, services, others and held."""
    agents: int
    """With the agents that act."""
    services: int
    others: int
    """With everybody else, such as agents that have left."""
    held: int
    """Set aside: bids, prices of invocations at work."""
    issued: int = 0
    """In this tick, by sources: starting scrip, shocks."""
    minted: int = 0
    """In this tick, by mints."""
    returned: int = 0
    """In this tick, to sources and mints."""
    trades: int = 0
    """Offers that were accepted, and uses that were paid for; services are not counted."""
    volume: int = 0
    """What was paid for them."""
    prices: tuple[TickPrice, ...] = ()
    actions: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """Steps of agents, the rejected ones too, by action and by who decided; `` for what was no action."""
    rejections: Mapping[str, int] = field(default_factory=dict[str, int])
    """By code of the error."""
    usage: Mapping[str, TickUsage] = field(default_factory=dict[str, TickUsage])
    """Of agents for which a model was asked."""

    @property
    def acted(self) -> int:
        return sum(sum(sources.values()) for sources in self.actions.values())

    @property
    def rejected(self) -> int:
        return sum(self.rejections.values())

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return sum(one.input_tokens + one.output_tokens for one in self.usage.values())

    @property
    def cost_microusd(self) -> int:
        return sum(one.cost_microusd for one in self.usage.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Figures of some ticks of a world, in order. `msgspec.to_builtins` gives their JSON form."""

    world: str
    from_tick: int
    to_tick: int
    ticks: tuple[TickMetrics, ...]


async def metrics(world: World, *, from_tick: int = 1, to_tick: int | None = None) -> Metrics:
    """The figures of some ticks, by default of all.

    Units: ticks are inclusive; tick 0 is what stood before the first. Cost: that of `tick_metrics`.
    Errors: `NotFound`; `InvalidRequest` for ticks that have not passed, or more figures than
    `FIGURES_MAX`: then `tick_metrics` gives them one by one.
    """
    span = await span_of(world.host, world.id, from_tick=from_tick, to_tick=to_tick)
    found: list[TickMetrics] = []
    figures = 0
    async for one in tick_metrics(world, from_tick=from_tick, to_tick=span.last):
        figures += len(one.balances)
        if figures > FIGURES_MAX:
            raise InvalidRequest(
                "these are too many figures at once",
                expected=f"at most {FIGURES_MAX} balances",
                hint="Ask for fewer ticks.",
            )
        found.append(one)
    return Metrics(world=world.id, from_tick=span.first, to_tick=span.last, ticks=tuple(found))


async def tick_metrics(
    world: World, *, from_tick: int = 1, to_tick: int | None = None
) -> AsyncIterator[TickMetrics]:
    """Like `metrics`, tick by tick: memory is O(agents + artifacts), however long the history is.

    Cost: the events of these ticks, and of those since the checkpoint before them.
    """
    span = await span_of(world.host, world.id, from_tick=from_tick, to_tick=to_tick)
    if span.last < span.first:
        return
    store, tenant = world.host.services.store, world.host.id
    since = await checkpoint_before(store, tenant, world.id, tick=span.first)
    kinds = await kinds_of(store, tenant, world_space(world.id)) if since.tick else {}
    society = SocietyState.from_checkpoint(since, kinds=kinds)
    happened = _TickTotals()
    usage = asked_of(world.host, world.id, span, since=since)
    asked = await anext(usage, None)
    tick = since.tick

    async def end_tick(tick: int) -> TickMetrics:
        nonlocal asked
        while asked is not None and asked.tick <= tick:
            happened.ask(
                asked.agent,
                TickUsage(
                    calls=1,
                    input_tokens=asked.input_tokens,
                    output_tokens=asked.output_tokens,
                    cost_microusd=asked.cost_microusd,
                ),
            )
            asked = await anext(usage, None)
        return happened.to_metrics(tick, society)

    async for event in history_of(world.host, world.id, to_tick=span.last, since=since):
        while tick < event.at_us:
            if tick >= span.first:
                yield await end_tick(tick)
            happened = _TickTotals()
            tick += 1
        happened.take(society.take(event), society)
    yield await end_tick(tick)


class _TickTotals:
    """The running totals of one tick."""

    def __init__(self) -> None:
        self.issued = self.minted = self.returned = 0
        self.paid: dict[tuple[str, str], list[int]] = {}
        self.actions: dict[str, dict[str, int]] = {}
        self.rejections: dict[str, int] = {}
        self.usage: dict[str, TickUsage] = {}

    def take(self, data: EventData, society: SocietyState) -> None:
        if isinstance(data, Moving):
            self._follow(data)
        if isinstance(data, ev.OfferAccepted):
            kind = society.kinds.get(data.artifact, "")
            self._sell(kind, data.sells, data.price)
        elif isinstance(data, ArtifactInvoked | ArtifactCharged):
            self._use(data, society)
        elif isinstance(data, ev.ActionRejected):
            self.rejections[data.code] = self.rejections.get(data.code, 0) + 1
        if (act := act_of(data)) is not None:
            sources = self.actions.setdefault(act.action, {})
            sources[act.source] = sources.get(act.source, 0) + 1

    def _sell(self, kind: str, sells: str, price: int) -> None:
        self.paid.setdefault((kind, sells), []).append(price)

    def _use(self, data: ArtifactInvoked | ArtifactCharged, society: SocietyState) -> None:
        """Count a use that moved money to somebody who is no service of the world."""
        if isinstance(data, ArtifactInvoked) and data.outcome != "done":
            return  # what was held went back
        paid = next((one for one in data.postings if one.asset == SCRIP), None)
        if paid is not None and not paid.target.startswith(account_of(SERVICES)):
            sells = data.action if isinstance(data, ArtifactCharged) else "invoke"
            self._sell(society.kinds.get(data.id, ""), sells, paid.amount)

    def _follow(self, data: Moving) -> None:
        for posting in data.postings:
            if posting.asset != SCRIP:
                continue
            if may_owe(posting.source):
                if posting.source.startswith(MINTS):
                    self.minted += posting.amount
                else:
                    self.issued += posting.amount
            if may_owe(posting.target):
                self.returned += posting.amount

    def ask(self, agent: str, more: TickUsage) -> None:
        before = self.usage.get(agent, TickUsage())
        self.usage[agent] = TickUsage(
            calls=before.calls + more.calls,
            input_tokens=before.input_tokens + more.input_tokens,
            output_tokens=before.output_tokens + more.output_tokens,
            cost_microusd=before.cost_microusd + more.cost_microusd,
        )

    def to_metrics(self, tick: int, society: SocietyState) -> TickMetrics:
        balances = {one.id: society.balance(one.id) for one in society.agents}
        money = _parts(society)
        return TickMetrics(
            tick=tick,
            balances=balances,
            gini=gini(balances.values()),
            **money,
            issued=self.issued,
            minted=self.minted,
            returned=self.returned,
            trades=sum(map(len, self.paid.values())),
            volume=sum(map(sum, self.paid.values())),
            prices=tuple(_price(*key, paid) for key, paid in sorted(self.paid.items())),
            actions=_sort(self.actions),
            rejections=_sort(self.rejections),
            usage=_sort(self.usage),
        )


def _sort(given: Mapping[str, ValueT]) -> dict[str, ValueT]:
    return dict(sorted(given.items()))


def _parts(society: SocietyState) -> dict[str, int]:
    """Return who has the money: `{circulating, agents, services, others, held}`."""
    found: dict[str, int] = dict.fromkeys(("circulating", "agents", "services", "others", "held"), 0)
    acting = {account_of(one.id) for one in society.agents}
    service = account_of(SERVICES)
    for account, amount in society.money.items():
        if may_owe(account):
            found["circulating"] -= amount
        elif account.startswith(HOLDS):
            found["held"] += amount
        elif account in acting:
            found["agents"] += amount
        else:
            found["services" if account.startswith(service) else "others"] += amount
    return found


def _price(kind: str, sells: str, paid: Sequence[int]) -> TickPrice:
    return TickPrice(
        kind=kind,
        sells=sells,
        trades=len(paid),
        volume=sum(paid),
        low=min(paid),
        median=median(paid),
        high=max(paid),
    )


def gini(amounts: Iterable[int]) -> float:
    """The Gini coefficient of amounts from 0: 0 if all are equal (or nothing is there), below 1 always.

    Cost: O(n log n). Source: https://en.wikipedia.org/wiki/Gini_coefficient, the form for sorted values.
    """
    ordered = sorted(amounts)
    count, total = len(ordered), sum(ordered)
    if total <= 0:
        return 0.0
    weighted = sum((2 * n - count - 1) * amount for n, amount in enumerate(ordered, start=1))
    return weighted / (count * total)


# --------------------------------------------------------------------------- market overview
# The market of a world at a glance: offers, and what was paid lately.


TICKS = 200
"""Over which prices are gathered."""


class MarketOverview(msgspec.Struct, frozen=True):
    """The market of a world at a glance."""

    world: str
    tick: int
    from_tick: int
    """The first tick that the prices are of."""
    prices: list[TickPrice]
    """One for each kind and way of selling."""
    open: list[OfferRow]
    closed: list[OfferRow]


async def market(world: World, *, limit: int = 100) -> MarketOverview:
    """Return prices over the last `TICKS` ticks together, and at most `limit` offers of each sort."""
    now = await world.tick_now()
    first = max(1, now - TICKS + 1)
    paid = (
        [price async for one in tick_metrics(world, from_tick=first, to_tick=now) for price in one.prices]
        if now
        else []
    )
    for_sale = await offers(world, limit=limit)
    shown = {one.offer for one in for_sale}
    # One that sells copies has sold some and is for sale still.
    gone = await offers(world, closed=True, limit=limit + len(for_sale))
    return MarketOverview(
        world=world.id,
        tick=now,
        from_tick=first,
        prices=merge_prices(paid),
        open=for_sale,
        closed=[one for one in gone if one.offer not in shown][:limit],
    )


def merge_prices(paid: list[TickPrice]) -> list[TickPrice]:
    """One row for each kind and way of selling. The median is that of the ticks' medians, by trades."""
    by_kind: dict[tuple[str, str], list[TickPrice]] = {}
    for one in paid:
        by_kind.setdefault((one.kind, one.sells), []).append(one)
    return [
        TickPrice(
            kind=kind,
            sells=sells,
            trades=sum(one.trades for one in prices),
            volume=sum(one.volume for one in prices),
            low=min(one.low for one in prices),
            median=_middle(prices),
            high=max(one.high for one in prices),
        )
        for (kind, sells), prices in sorted(by_kind.items())
    ]


def _middle(prices: list[TickPrice]) -> float:
    ordered = sorted(prices, key=lambda one: one.median)
    half = sum(one.trades for one in ordered) / 2
    seen = 0
    for one in ordered:
        seen += one.trades
        if seen >= half:
            return one.median
    return 0.0


# --------------------------------------------------------------------------- facts table
# A table of results: what expressions over an agent's facts are worth, one row for each tick and agent.
# The facts are folded on demand from the world's events, so every row is exact for the end of its tick.
# What a column may say is in `tables.py`.


async def collect(
    world: World, columns: Columns, *, from_tick: int = 1, to_tick: int | None = None
) -> AsyncIterator[tuple[Cell, ...]]:
    """The rows of some ticks, by default of all: by tick, agents in the order of their joining.

    Shapes: each row is as long as `columns.names`. Cost: every event up to `to_tick` is read once; memory is
    O(agents + artifacts). Errors: `NotFound`; `InvalidRequest` for ticks that have not passed.
    """
    span = await span_of(world.host, world.id, from_tick=from_tick, to_tick=to_tick)
    if span.last < span.first:
        return
    society = SocietyState()
    tick = 0
    async for event in history_of(world.host, world.id, to_tick=span.last):
        while tick < event.at_us:
            if tick >= span.first:
                for agent in society.agents:
                    yield columns.row(_facts(tick, agent, society))
            tick += 1
        society.take(event)
    for agent in society.agents:
        yield columns.row(_facts(tick, agent, society))


def _facts(tick: int, agent: AgentNow, society: SocietyState) -> dict[str, Any]:
    return {
        "tick": tick,
        "agent_id": agent.id,
        "balance": society.balance(agent.id),
        "owns": society.owned.get(agent.id, 0),
        "current_state": agent.state,
        "ticks_in_state": agent.ticks_in_state,
        "failure_count": agent.failures,
        "last_action": {"type": agent.last_action, "success": agent.last_ok},
    }
