"""The state that Mission Control shows, as rows; the events that make it, and readers of their fields.

A page shows these rows and folds nothing: it begins with all of them (`GET /api/v1/graph`), then gets those
that change (`GET /api/v1/graph/stream`). Rows change in place, each in a `Table`, which notes what a fold
looks at. `pack_graph` keeps them as they are. Reading a field of an event never fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from artelier.server.event_encoder import WireEvent

T = TypeVar("T")


class Table(dict[str, T]):
    """Rows by id, and a note of those that were looked up or set: a fold can have changed no others."""

    __slots__ = ("_touched",)

    def __init__(self) -> None:
        super().__init__()
        self._touched: dict[str, None] = {}

    def take_touched(self) -> list[str]:
        """Return the ids of rows that may have changed since this was asked last, in order."""
        touched, self._touched = self._touched, {}
        return [*touched]

    def peek(self, id_: str) -> T | None:
        """Return a row that is not going to be changed."""
        return super().get(id_)

    def __getitem__(self, id_: str) -> T:
        self._touched[id_] = None
        return super().__getitem__(id_)

    def __setitem__(self, id_: str, row: T) -> None:
        self._touched[id_] = None
        super().__setitem__(id_, row)

    def get(self, id_: str, default: T | None = None) -> T | None:  # pyright: ignore[reportIncompatibleMethodOverride] - as folds call it
        return self[id_] if id_ in self else default

    def setdefault(self, id_: str, default: T) -> T:  # pyright: ignore[reportIncompatibleMethodOverride] - as folds call it
        if id_ not in self:
            self[id_] = default
        return self[id_]

    def pop(self, id_: str, default: T | None = None) -> T | None:  # pyright: ignore[reportIncompatibleMethodOverride] - as folds call it
        if id_ in self:
            self._touched[id_] = None
        return super().pop(id_, default)


RUN_STATUSES = (
    "pending",
    "running",
    "paused",
    "waiting",
    "waiting_approval",
    "unknown_outcome",
    "budget_exhausted",
    "completed",
    "failed",
    "cancelled",
)


@dataclass(slots=True, kw_only=True)
class Spend:
    """The cost of model calls and tools."""

    microusd: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    unpriced: int = 0
    """Calls whose price nobody knows: then `microusd` is a lower bound."""
    calls: int = 0

    def add(self, more: Spend) -> None:
        self.microusd += more.microusd
        self.input_tokens += more.input_tokens
        self.cached_tokens += more.cached_tokens
        self.output_tokens += more.output_tokens
        self.unpriced += more.unpriced
        self.calls += more.calls


@dataclass(slots=True, kw_only=True)
class FailedTry:
    """A try of a model call that failed in a passing way."""

    code: str
    at_us: int
    wait_ms: int
    """The time that the next one waits."""
    attempt: int = 0
    """Its number, from 1; 0 for a call that its process took along."""
    attempts_max: int = 0
    """The tries that the policy allows; 0 if the event does not say."""


@dataclass(slots=True, kw_only=True)
class GraphRun:
    """A run."""

    id: str
    loop: str = ""
    agent: str = ""
    model: str = ""
    goal: str = ""
    parent: str = ""
    origin: str = ""
    successor: str = ""
    """The fork as which it goes on, since its code had changed."""
    status: str = "running"
    reason: str = ""
    asked_microusd: int = 0
    """The most that the step could have cost that a limit of dollars refused last."""
    started_us: int
    ended_us: int | None = None
    cycles: int = 0
    spend: Spend = field(default_factory=Spend)
    prompt_tokens: int = 0
    """Of the newest request that was answered, as the provider counted."""
    prompt_cached_tokens: int = 0
    message: str = ""
    """Of the newest failure, as far as it is small."""
    last_kind: str = ""
    last_position: int = 0
    last_us: int = 0
    doing: str = ""
    """The step at work; empty if none."""
    doing_us: int = 0
    """The time at which that began; 0 if nothing is at work."""
    failed_tries: list[FailedTry] = field(default_factory=list[FailedTry])
    """Of the model call at work, oldest first."""
    waits: list[str] = field(default_factory=list[str])

    def rest(self) -> None:
        """Let no step be at work."""
        self.doing, self.doing_us, self.failed_tries = "", 0, []


@dataclass(slots=True, kw_only=True)
class GraphAgent:
    """An agent: an artifact of kind `agent`, or whoever runs are named after."""

    id: str
    mission: str
    name: str
    role: str = ""
    version: int = 0
    """Of its artifact; 0 if it has none."""
    deleted: bool = False
    run_id: str = ""
    """The newest run (for an agent of a mission: its newest task)."""
    task: str = ""
    action: str = ""
    iteration: int = 0
    iterations_max: int = 0
    steering: str = ""
    spend: Spend = field(default_factory=Spend)
    last_us: int = 0


@dataclass(slots=True, kw_only=True)
class IterationMark:
    """The progress of a task's loop at an event of its run."""

    seq: int = 0
    iteration: int = 0
    before: int = 0
    ended: str = ""
    """The end that the loop itself told, whatever people have said since."""
    reason: str = ""
    blocked_by: str = ""
    outputs: list[str] = field(default_factory=list[str])


@dataclass(slots=True, kw_only=True)
class GraphIteration:
    """One iteration of a task."""

    n: int
    position: int
    at_us: int
    action: str = ""
    tool: str = ""
    reason: str = ""
    repeats: int = 0
    steering: str = ""
    acted_seq: int = 0
    """Of the event that says what came of it: a fork before that does not know it."""
    artifact: str = ""
    is_error: bool = False
    code: str = ""
    judged_seq: int = 0
    passed: bool | None = None
    """Null until it was judged."""
    summary: str = ""
    void: str = ""

    def share(self, at: int) -> GraphIteration:
        """Return it as it was after an event of its run, for the history of a fork."""
        found = replace(self, acted_seq=0, judged_seq=0)
        if self.acted_seq > at:
            found.artifact, found.is_error, found.code = "", False, ""
        if self.judged_seq > at:
            found.passed, found.summary, found.void = None, "", ""
        return found


@dataclass(slots=True, kw_only=True)
class GraphTask:
    """A task."""

    id: str
    mission: str
    goal: str = ""
    criteria: str = ""
    agent: str = ""
    parent: str = ""
    status: str = "pending"
    ended: str = ""
    """The end that its loop told; empty while it works."""
    reason: str = ""
    blocked_by: str = ""
    iteration: int = 0
    iterations_max: int = 0
    """The last that is allowed, those before it was tried again included."""
    iterations_before: int = 0
    """The iteration after which the limit counts."""
    marks: list[IterationMark] = field(default_factory=list[IterationMark])
    """Progress of its loop at events of its run, oldest first: forks begin with one of these."""
    depends_on: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    outputs: list[str] = field(default_factory=list[str])
    iterations: list[GraphIteration] = field(default_factory=list[GraphIteration])


@dataclass(slots=True, kw_only=True)
class GraphArtifact:
    """The newest version of an artifact."""

    id: str
    kind: str
    title: str
    version: int
    media: str
    size_bytes: int
    owner: str
    creator: str
    mission: str
    run_id: str
    derived_from: list[str]
    membranes: list[str]
    """Ids of the membranes whose members may read it."""
    price_read: int
    deleted: bool
    created_us: int
    changed_us: int


@dataclass(slots=True, kw_only=True)
class GraphMembrane:
    """A membrane with its members and what they share."""

    id: str
    mission: str
    name: str
    version: int = 0
    members: list[str] = field(default_factory=list[str])
    shared: list[str] = field(default_factory=list[str])
    deleted: bool = False


@dataclass(slots=True, kw_only=True)
class GraphEdge:
    """Content that went from one to another, with a count."""

    id: str
    kind: str
    source: str
    target: str
    count: int = 0
    last_position: int = 0
    last_us: int = 0


@dataclass(slots=True, kw_only=True)
class GraphApproval:
    """A question to a person."""

    id: str
    """`run#key`."""
    run_id: str
    key: str
    question: str
    details: dict[str, Any]
    asked_us: int
    expires_us: int | None
    decision: str = ""
    """Empty while it waits."""
    by: str = ""


@dataclass(slots=True, kw_only=True)
class GraphMission:
    """A goal's plan, and what it became."""

    id: str
    planned_us: int
    launched_us: int | None = None
    calls_max: int
    cost_max: int | None
    agents: list[str] = field(default_factory=list[str])
    tasks: list[str] = field(default_factory=list[str])
    membranes: list[str] = field(default_factory=list[str])


@dataclass(slots=True, kw_only=True)
class GraphCosts:
    """Money of the tenant, in micro-dollars."""

    total: Spend = field(default_factory=Spend)
    by_model: dict[str, Spend] = field(default_factory=Table[Spend])
    held: dict[str, int | None] = field(default_factory=Table[int | None])
    """For calls in flight, by `run key`. Among changes, null is no longer held."""
    caps: dict[str, int | None] = field(default_factory=Table[int | None])
    """By scope (`tenant`, `run:x`, `agent:x`, `membrane:x`). Among changes, null is a limit that is gone."""


@dataclass(slots=True, kw_only=True)
class AskedTurn:
    """The run that answers what a chat's branch was asked last."""

    run: str
    trigger: str
    """`generate`, `regenerate` or `continue`."""


@dataclass(slots=True, kw_only=True)
class Pulse:
    """The newest events of chats, worlds and goals."""

    newest: dict[str, int] = field(default_factory=Table[int])
    """Position of the newest event by `session:x`, `world:w` or `mission:m`, and of each list of them."""
    asked: dict[str, AskedTurn] = field(default_factory=Table[AskedTurn])
    """By `chat#branch`."""
    ticks: dict[str, int] = field(default_factory=Table[int])
    """The newest tick by world."""


@dataclass(slots=True, kw_only=True)
class GraphIndex:
    """Answers that a fold would have to look through everything for; no client sees them."""

    order: dict[str, int] = field(default_factory=dict[str, int])
    """The place of each task among all."""
    dependants: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Tasks by one that each depends on, or did."""
    tasks_of: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Tasks by an agent that each has, or had."""
    sharing: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Artifacts by the membrane they are shared in, before that is known."""


@dataclass(slots=True, kw_only=True)
class Graph:
    """Everything that the page shows of a tenant, as it is after the event at `position`."""

    position: int = 0
    """Of the newest event that is folded in; 0 before the first."""
    at_us: int = 0
    events: int = 0
    runs: dict[str, GraphRun] = field(default_factory=Table[GraphRun])
    agents: dict[str, GraphAgent] = field(default_factory=Table[GraphAgent])
    tasks: dict[str, GraphTask] = field(default_factory=Table[GraphTask])
    artifacts: dict[str, GraphArtifact] = field(default_factory=Table[GraphArtifact])
    membranes: dict[str, GraphMembrane] = field(default_factory=Table[GraphMembrane])
    missions: dict[str, GraphMission] = field(default_factory=Table[GraphMission])
    edges: dict[str, GraphEdge] = field(default_factory=Table[GraphEdge])
    approvals: dict[str, GraphApproval] = field(default_factory=Table[GraphApproval])
    costs: GraphCosts = field(default_factory=GraphCosts)
    pulse: Pulse = field(default_factory=Pulse)
    index: GraphIndex = field(default_factory=GraphIndex)

    def tables(self) -> dict[str, Table[Any]]:
        """Return all tables by name."""
        owners: tuple[Any, ...] = (self, self.costs, self.pulse)
        columns = {one.name: getattr(owner, one.name) for owner in owners for one in fields(owner)}
        return {name: table for name, table in columns.items() if isinstance(table, Table)}

    def part(self, ids: Mapping[str, Sequence[str]]) -> Graph:
        """Return a graph of some rows by table, as they are now; a row that is gone is None."""
        part = Graph(position=self.position, at_us=self.at_us, events=self.events)
        part.costs.total = self.costs.total
        whole, tables = self.tables(), part.tables()
        for name, some in ids.items():
            tables[name].update((id_, whole[name].peek(id_)) for id_ in some)
        return part

    def agent(self, id_: str) -> GraphAgent:
        """Return the agent of that id, made if runs or tasks name it before its artifact does."""
        if (known := self.agents.get(id_)) is None:
            known = self.agents[id_] = GraphAgent(id=id_, mission=mission_of(id_), name=short_name(id_))
        return known

    def put_task(self, task: GraphTask) -> None:
        """Let a task be there and be found, however it was changed."""
        index = self.index
        self.tasks[task.id] = task
        index.order.setdefault(task.id, len(index.order))
        for other in task.depends_on:
            if task.id not in (behind := index.dependants.setdefault(other, [])):
                behind.append(task.id)
        if task.agent and task.id not in (own := index.tasks_of.setdefault(task.agent, [])):
            own.append(task.id)

    def dependants(self, id_: str) -> list[str]:
        """Return the tasks that depend on one, the first first."""
        found = [one for one in self.index.dependants.get(id_, ()) if id_ in self.tasks[one].depends_on]
        return sorted(found, key=self.index.order.__getitem__)

    def tasks_of(self, agent: str) -> list[GraphTask]:
        """Return the tasks of an agent, the first first."""
        found = [one for one in self.index.tasks_of.get(agent, ()) if self.tasks[one].agent == agent]
        return [self.tasks[one] for one in sorted(found, key=self.index.order.__getitem__)]


@dataclass(slots=True, kw_only=True)
class GraphOut:
    """The state of the page at a position: all rows, or those that have changed since an earlier one."""

    position: int
    at_us: int
    events: int
    """Number of the tenant's events that it was folded from."""
    window_from: int
    """A position of a while ago, of which `at` gives the state quickly: 0 if the log is short."""
    runs: list[GraphRun]
    agents: list[GraphAgent]
    tasks: list[GraphTask]
    artifacts: list[GraphArtifact]
    membranes: list[GraphMembrane]
    missions: list[GraphMission]
    edges: list[GraphEdge]
    approvals: list[GraphApproval]
    costs: GraphCosts
    pulse: Pulse


SLICE = 500
"""Records that are encoded or read at once: a tenant with many must not hold the others up."""

_json = msgspec.json.Encoder()
_pack = msgspec.msgpack.Encoder()
_readers = {name: msgspec.msgpack.Decoder(type_) for name, type_ in get_type_hints(Graph).items()}


def encode_row(row: object) -> bytes:
    """Return a row as JSON."""
    return _json.encode(row)


def encode_graph(graph: Graph, *, window_from: int) -> Iterator[bytes]:
    """Yield a graph as the JSON of `GraphOut`, piece by piece."""
    for number, one in enumerate(fields(GraphOut)):
        value: Any = window_from if one.name == "window_from" else getattr(graph, one.name)
        yield b'%s"%s":' % (b"," if number else b"{", one.name.encode())
        if isinstance(value, dict):
            yield b"["
            found = cast("dict[str, Any]", value).values()
            for count, records in enumerate(_slices(found)):
                yield (b"," if count else b"") + _json.encode(records)[1:-1]
            yield b"]"
        else:
            yield _json.encode(value)
    yield b"}"


def pack_graph(graph: Graph) -> Iterator[tuple[str, bytes]]:
    """Yield a graph in pieces, each with the name of its field; `unpack_piece` reads them."""
    for one in fields(Graph):
        value: Any = getattr(graph, one.name)
        if isinstance(value, dict):
            for records in _slices(cast("dict[str, Any]", value).items()):
                yield one.name, _pack.encode(dict(records))
        else:
            yield one.name, _pack.encode(value)


def unpack_piece(graph: Graph, name: str, packed: bytes) -> None:
    """Read one piece into a graph; with the last of `pack_graph` it is whole."""
    value: Any = _readers[name].decode(packed)
    if isinstance(value, dict):
        getattr(graph, name).update(value)
    else:
        setattr(graph, name, value)


def _slices(values: Iterable[T]) -> Iterator[list[T]]:
    left = iter(values)
    while some := list(islice(left, SLICE)):
        yield some


# Ids, as people read them


def mission_of(id_: str) -> str:
    """Return the mission that an id belongs to; "" for ids that stand alone."""
    mission, slash, _ = id_.partition("/")
    return mission if slash else ""


def short_name(id_: str) -> str:
    """Return the last part of an id."""
    return id_.rpartition("/")[2]


def id_of(ref: str) -> str:
    """Return the id that a ref points at: `letter@2` and `letter#intro` are about `letter`."""
    return ref.partition("@")[0].partition("#")[0]


INTEGER_MAX = 2**53 - 1
"""The largest whole number that a browser holds exactly; a larger one is none to either side."""


class SeenEvent(msgspec.Struct, frozen=True):
    """One event as a client sees it. Events of later versions may lack or change a field."""

    position: int
    stream: str
    space: str
    seq: int
    kind: str
    at_us: int
    actor: str
    data: dict[str, Any]
    texts: dict[str, str]

    @property
    def id(self) -> str:
        """The id in the name of its stream: `churn/figures` of `run:churn/figures`."""
        return self.stream.partition(":")[2]

    def text(self, field: str, fallback: str = "") -> str:
        value = self.data.get(field)
        return value if isinstance(value, str) else fallback

    def integer(self, field: str, fallback: int = 0) -> int:
        value = self.data.get(field)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > INTEGER_MAX:
            return fallback
        return value

    def flag(self, field: str) -> bool:
        return self.data.get(field) is True

    def strings(self, field: str) -> list[str]:
        return strings(self.data.get(field))

    def parsed(self, field: str) -> dict[str, Any]:
        """Return a small text that is JSON of an object; {} if it was cut or is something else."""
        try:
            return record(_parse(self.texts.get(field, "")))
        except (msgspec.DecodeError, RecursionError):
            return {}


_parse = msgspec.json.Decoder().decode
_decode = msgspec.json.Decoder(SeenEvent).decode


def seen(event: WireEvent) -> SeenEvent:
    """Return an event as whoever receives it reads it."""
    return _decode(event.body)


def strings(value: object) -> list[str]:
    """Return those of a list that are text."""
    return (
        [one for one in cast("list[Any]", value) if isinstance(one, str)] if isinstance(value, list) else []
    )


def record(value: object) -> dict[str, Any]:
    """Return a JSON object; {} for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def string(value: object) -> str:
    return value if isinstance(value, str) else ""
