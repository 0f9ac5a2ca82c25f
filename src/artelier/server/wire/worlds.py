"""Worlds as the API shows and takes them. Money is scrip, times are ticks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from artelier.server.sweeps import POINTS_MAX, PROCESSES_MAX, SEEDS_MAX, SweepFacts, SweepLimits
from artelier.server.sweeps import TICKS_MAX as SWEEP_TICKS_MAX
from artelier.server.wire.base import FaultOut, Page, RequestBody, ResponseModel, describe_record
from artelier.world.figures.metrics import TickPrice
from artelier.world.history.world_diff import (
    AgentDifference,
    EventDifference,
    FieldDifference,
    ShownEvent,
    Sides,
    WorldDiff,
    WorldHash,
)
from artelier.world.queries.market import OfferRow
from artelier.world.queries.reports import WorldEventRow
from artelier.world.queries.worlds import AgentStanding, ListedWorld

TICKS_AT_ONCE = 100
"""That one request waits for."""
TICKS_MAX = 1_000_000
TOML_CHARS_MAX = 1_000_000


@describe_record(ListedWorld)
class WorldLine(ResponseModel):
    """A world of a list."""


class WorldsPage(Page[WorldLine]):
    """Worlds, and the names of those that are shipped."""

    templates: list[str]


class WorldSource(RequestBody):
    """A world in one of three ways."""

    template: str | None = Field(default=None, max_length=64)
    """Name of a shipped world."""
    world: dict[str, Any] | None = None
    """`{world, settle, agents, artifacts}` as in a world file, in which no file is named."""
    toml: str | None = Field(default=None, max_length=TOML_CHARS_MAX)
    """The text of a world file, in which no file is named."""


class WorldNew(WorldSource):
    """A new world: a shipped one, one that is described here, or (neither) an empty one."""

    id: str = Field(max_length=128)
    seed: int | None = Field(default=None, ge=0, le=2**53)
    """Instead of that of the settings."""


class Passing(ResponseModel):
    """Ticks that are passed, or have been."""

    asked: int
    passed: int = 0
    tick: int | None = None
    """The newest that passed; null before the first of these."""
    acted: int = 0
    rejected: int = 0
    held: Held | None = None
    """Why the next tick cannot be passed yet; null if it can."""

    @property
    def is_over(self) -> bool:
        """No further tick of these will pass."""
        return self.passed >= self.asked or self.held is not None


class Held(ResponseModel):
    """An agent's run that waits for somebody: money, or an approval."""

    run_id: str
    status: str
    reason: str | None


class WorldShown(ResponseModel):
    """The state of a world."""

    id: str
    tick: int
    seed: int
    paused: bool
    parent: str | None
    forked_at: int | None
    agents: int
    artifacts: int
    scrip: int
    """That principals have; what is set aside is in `held`."""
    held: int
    open_offers: int
    sold: int
    settings: dict[str, Any]
    passing: Passing | None
    """Ticks that this server passes at the moment."""
    failed: FaultOut | None
    """Why the last ticks that were asked for ended early."""


class TickAsk(RequestBody):
    """Ticks to pass while the answer is waited for."""

    count: int = Field(default=1, ge=1, le=TICKS_AT_ONCE)


class RunAsk(RequestBody):
    """Ticks to pass in the server, until they are done or the world is paused."""

    ticks: int = Field(ge=1, le=TICKS_MAX)


class ForkAsk(RequestBody):
    """Another world with the same history."""

    at: int | None = Field(default=None, ge=0, le=2**53)
    """Up to and including this tick: else the newest."""
    id: str | None = Field(default=None, max_length=128)
    """By default `<id>.fork-<n>`."""
    artifacts: dict[str, Any] | None = None
    """Other contents by id, right after that tick."""
    settings: dict[str, Any] | None = None
    """Other settings, by name."""


class WorldInjection(RequestBody):
    """Something that happens to a world."""

    text: str = Field(min_length=1, max_length=100_000)
    to: list[str] = Field(default=[], max_length=10_000)
    """Agents that learn of it: else all."""


@describe_record(AgentStanding)
class WorldAgent(ResponseModel):
    """The state of an agent in a world."""


@describe_record(TickPrice)
class PriceFigures(ResponseModel):
    """The prices paid for one kind of artifact, sold in one way."""


class TickFigures(ResponseModel):
    """One tick; money as it stands at its end."""

    tick: int
    gini: float
    """Of the balances of agents: 0 if all have the same."""
    median: float
    richest: int
    circulating: int
    agents: int
    """Scrip with agents that act; `services`, `others` and `held` are the rest."""
    services: int
    others: int
    held: int
    issued: int
    minted: int
    returned: int
    trades: int
    volume: int
    prices: list[PriceFigures]
    acted: int
    rejected: int
    rejections: dict[str, int]
    """By code."""
    tokens: int
    cost_microusd: int
    balances: dict[str, int]
    """Of the agents that were named; without any of all, if they are few."""


class WorldMetrics(ResponseModel):
    """Figures of some ticks, in order."""

    world: str
    items: list[TickFigures]
    next: int | None
    """Give it as `from_tick` for more; null at the newest tick."""


@describe_record(OfferRow)
class OfferOut(ResponseModel):
    """Something that is for sale, or was."""


@describe_record(WorldEventRow)
class WorldEvent(ResponseModel):
    """An event of a world with what was said in it."""


@describe_record(WorldHash)
class WorldHashed(ResponseModel):
    """The hash of a world in hex, and the part of its history that it covers."""


@describe_record(ShownEvent)
class ComparedEvent(ResponseModel):
    """An event with its texts in place of references to them."""


@describe_record(FieldDifference)
class DifferentField(ResponseModel):
    """A field that differs; `act.action` is one within another."""


@describe_record(EventDifference)
class Parting(ResponseModel):
    """The first event in which two worlds part."""


@describe_record(Sides)
class BothSides(ResponseModel):
    """A value of both worlds."""

    a: Any
    b: Any


@describe_record(AgentDifference)
class DifferentAgent(ResponseModel):
    """The differences of an agent now; what is the same is left out."""

    balance: BothSides | None = None
    state: BothSides | None = None
    active: BothSides | None = None
    actions: dict[str, BothSides] = {}
    """By name, how often the agent did it."""
    owned: BothSides | None = None
    """Ids that only one side has."""
    versions: dict[str, BothSides] = {}


@describe_record(WorldDiff)
class WorldDifference(ResponseModel):
    """The place where two worlds part, and how their agents differ."""

    next: str | None
    """The last of these agents if there are more: give it as `after`."""


class WorldDescription(ResponseModel):
    """A world by the ODD protocol."""

    world: str
    markdown: str


class Market(ResponseModel):
    """The market of a world at a glance."""

    world: str
    tick: int
    open: list[OfferOut]
    """The newest first."""
    closed: list[OfferOut]
    """That are not open any more, or have sold something; the newest first."""
    prices: list[PriceFigures]
    """Of the last ticks together."""
    from_tick: int
    """The first of these ticks."""


# Sweeps: times are seconds, unless their names say otherwise.

Value = Annotated[int, Field(ge=-(2**53), le=2**53)] | Annotated[str, Field(max_length=200)] | None
Values = Annotated[list[Value], Field(min_length=1, max_length=POINTS_MAX)]


class SweepNew(WorldSource):
    """A world, and what is varied; agents have rules or the offline model, which costs nothing."""

    params: dict[str, Values] = Field(default={}, max_length=20)
    """Values by setting, such as `mint.every`, or of `agents`: how many each template with `{n}` makes."""
    seeds: int = Field(default=1, ge=1, le=SEEDS_MAX)
    """Seeds of each combination, from the world's on."""
    ticks: int = Field(default=100, ge=1, le=SWEEP_TICKS_MAX)
    """Of each run."""
    processes: int = Field(default=PROCESSES_MAX, ge=1, le=PROCESSES_MAX)
    """That pass runs side by side."""


@describe_record(SweepLimits)
class SweepLimitsOut(ResponseModel):
    """The limits of sweeps on this server."""


@describe_record(SweepFacts)
class SweepShown(ResponseModel):
    """A sweep: what was asked for, and how far it is."""

    status: Literal["working", "done", "stopped", "failed", "interrupted"]
    """`interrupted`: the server ended meanwhile. What is neither `working` nor `done` can be resumed."""
    failed: FaultOut | None
    """Why it ended before its time; null if it did not, or somebody stopped it."""
    limits: SweepLimitsOut


class SweepsPage(Page[SweepShown]):
    """Sweeps of the tenant, the newest first."""

    limits: SweepLimitsOut


Passing.model_rebuild()
