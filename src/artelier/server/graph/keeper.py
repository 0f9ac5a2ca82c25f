"""The graphs of tenants, kept in memory as far as they were folded, with checkpoints of their past.

A page holds the rows of a graph. It gets those that have changed since its position, so that one that was
slow, or away for a while, needs no more than the newest state of each.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, takewhile
from typing import TypeVar

from artelier.ids import MAIN_SPACE
from artelier.log.contract import Store
from artelier.server.event_encoder import Encoder
from artelier.server.graph.fold_artifacts import fold_artifact
from artelier.server.graph.fold_runs import fold_run
from artelier.server.graph.fold_tasks import fold_task
from artelier.server.graph.records import (
    AskedTurn,
    Graph,
    SeenEvent,
    encode_graph,
    encode_row,
    mission_of,
    pack_graph,
    seen,
    unpack_piece,
)

_TURN_RUN = re.compile(r"(.+)/r\d{6,}\Z", re.DOTALL)
_WORLD = "world:"


def fold_event(graph: Graph, event: SeenEvent) -> None:
    """Fold one more event into a graph. Shapes: events come in ascending order of position."""
    graph.position = event.position
    graph.events += 1
    is_main = event.space == MAIN_SPACE
    if is_main:
        graph.at_us = max(graph.at_us, event.at_us)
    _fold_pulse(graph, event)
    _fold_limits(graph, event)
    if event.stream.startswith("run:"):
        fold_run(graph, event)
    # Artifacts of worlds are shown with their world: their ids mean something there alone.
    if is_main:
        fold_artifact(graph, event)
        fold_task(graph, event)


def _fold_limits(graph: Graph, event: SeenEvent) -> None:
    if event.kind == "limit.set" and event.text("unit") == "usd":
        _set_cap(graph, event.text("scope"), event, "cap")
    elif event.kind in ("tenant.created", "tenant.updated"):
        _set_cap(graph, "tenant", event, "budget")


def _set_cap(graph: Graph, scope: str, event: SeenEvent, field: str) -> None:
    if event.data.get(field) is None:
        graph.costs.caps.pop(scope, None)
    else:
        graph.costs.caps[scope] = event.integer(field)


def _fold_pulse(graph: Graph, event: SeenEvent) -> None:
    """Note when something last happened to a chat, a world or a goal."""
    pulse = graph.pulse
    for key in _beats(graph, event):
        pulse.newest[key] = event.position
    if event.kind == "turn.asked":
        asked = AskedTurn(run=event.text("run"), trigger=event.text("trigger"))
        pulse.asked[f"{event.id}#{event.text('branch')}"] = asked
    elif event.kind == "tick.passed" and event.stream.startswith(_WORLD):
        pulse.ticks[event.id] = event.integer("tick")


def _beats(graph: Graph, event: SeenEvent) -> Iterator[str]:
    """The chats, worlds and goals that an event is about, and the lists that it changes."""
    newest, kind = graph.pulse.newest, event.kind
    type_, _, id_ = event.stream.partition(":")
    goal = f"mission:{mission_of(id_) or id_}"
    if event.space.startswith(_WORLD):
        yield from (event.space, "worlds")
    elif type_ == "session":
        yield from (event.stream, "sessions")
    elif type_ == "tenant" and kind.startswith("world."):
        yield "worlds"
    elif kind == "run.started" and event.text("loop") == "mission":
        yield from (f"mission:{id_}", "missions")
    elif goal in newest:
        yield from (goal, "missions")
    elif type_ == "run" and kind.startswith(("run.", "approval.")) and ".phase_changed" not in kind:
        world = f"{_WORLD}{id_.rpartition('/')[0]}"
        if (chat := _TURN_RUN.match(id_)) is not None:
            yield f"session:{chat[1]}"
        elif world in newest:
            yield world


T = TypeVar("T")

CHECKPOINT_EVENTS = 5_000
"""The most events that are folded again for a moment of the past."""
CHECKPOINTS_MAX = 64
"""Of one tenant; beyond it every second of the older ones goes, and the past takes longer."""
GRAPHS_MAX = 16
"""Tenants whose graph is remembered."""
EVENTS_MAX = 300_000
"""Events of all graphs that are remembered: 60,000 take some 20 MB. One that a page follows stays."""
CHANGES_MAX = 20_000
"""Rows of a graph whose last change is remembered; a page from before the oldest of these begins anew."""
BEHIND_MAX = 2_000
"""Events of one frame. To begin anew is quicker than to go on over more."""
ANEW = b'data: {"anew":true}\n\n'
"""The frame for a page that has to begin anew."""
WINDOW_EVENTS = 10_000
"""The fewest events that a page reads from before it was opened, if there are as many."""
PAGE = 500


async def _in_turns(pieces: Iterable[T]) -> AsyncIterator[T]:
    """Give everybody else a turn behind each piece, which takes some milliseconds."""
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class GraphCheckpoint:
    """A graph as it was, packed."""

    position: int
    events: int
    pieces: tuple[tuple[str, bytes], ...]

    async def open(self) -> Graph:
        graph = Graph()
        async for name, packed in _in_turns(self.pieces):
            unpack_piece(graph, name, zlib.decompress(packed))
        return graph


class RowChanges:
    """The rows of a graph in the order in which they have changed last."""

    def __init__(self) -> None:
        self.since = 0
        """Everything that has changed after this position is known."""
        self._rows: OrderedDict[tuple[str, str], tuple[int, int, int]] = OrderedDict()
        """By table and id: a number (smaller for an older row), the change's position, the row's hash."""
        self._numbers = count()

    def note(self, graph: Graph) -> None:
        """Note which rows have changed up to the position where a graph stands."""
        for name, table in graph.tables().items():
            for id_ in table.take_touched():
                key, look = (name, id_), hash(encode_row(table.peek(id_)))
                known = self._rows.get(key)
                if known is None or look != known[2]:
                    number = next(self._numbers) if known is None else known[0]
                    self._rows[key] = number, graph.position, look
                    self._rows.move_to_end(key)
        while len(self._rows) > CHANGES_MAX:
            _, (_, at, _) = self._rows.popitem(last=False)
            self.since = max(self.since, at)

    def after(self, position: int) -> dict[str, list[str]]:
        """Return the ids of rows that have changed after a position by table, older rows first."""
        changed = takewhile(lambda one: one[1][1] > position, reversed(self._rows.items()))
        found: dict[str, list[str]] = {}
        for _, (name, id_) in sorted((number, key) for key, (number, _, _) in changed):
            found.setdefault(name, []).append(id_)
        return found


class TenantGraph:
    """The state of one tenant's page, folded from its events as its clients see them.

    It holds texts, so it begins again after an erasure, as whatever else remembers content.
    """

    def __init__(self, store: Store, encoder: Encoder) -> None:
        self._store = store
        self._encoder = encoder
        self.erasures = store.erasures()
        """Of the store, when this was folded."""
        self._graph = Graph()
        self._changes = RowChanges()
        self._checkpoints: list[GraphCheckpoint] = []
        self._body: tuple[int, bytes] = (-1, b"")
        self._frame: tuple[int, int, bytes] = (-1, -1, b"")
        self._turn = asyncio.Lock()
        self.readers = 0
        """Pages that follow it."""

    async def read(self, *, at: int | None) -> bytes:
        """Return the JSON of the graph as it is now, or as it was after the event at a position.

        Cost: of now, what came since it was last read; of the past, at most `CHECKPOINT_EVENTS` beside
        unpacking, while every checkpoint is there.
        """
        async with self._turn:
            await self._catch_up()
            if at is not None and at < self._graph.position:
                return await self._encode(await self._past(at))
            if self._body[0] != self._graph.position:
                self._body = self._graph.position, await self._encode(self._graph)
            return self._body[1]

    async def follow(self, *, after: int, upto: int) -> tuple[int, bytes]:
        """Return a position, at least `upto`, and the frame that brings a page there that stands at `after`.

        It holds the events since then and the rows that have changed; it is `ANEW` if these are not known.
        Cost: what came since this was last read, once for all pages, and the rows that have changed.
        """
        async with self._turn:
            if self._graph.position < upto or self.erasures != self._store.erasures():
                await self._catch_up()
            position = self._graph.position
            if self._frame[:2] != (after, position):
                self._frame = after, position, await self._frame_of(after)
            return position, self._frame[2]

    async def _frame_of(self, after: int) -> bytes:
        graph = self._graph
        if not self._changes.since <= after <= graph.position:
            return ANEW
        bodies, at = list[bytes](), after
        while at < graph.position and (events := await self._encoder.read(after=at, limit=PAGE)):
            at = events[-1].position
            new = [
                one.body async for one in self._encoder.encode_all(events) if one.position <= graph.position
            ]
            bodies += new
            if len(bodies) > BEHIND_MAX:
                return ANEW
        changed = self._changes.after(after)
        rows = await self._encode(graph.part(changed), at_once=sum(map(len, changed.values())) <= PAGE)
        return b'id: %d\ndata: {"items":[%s],"graph":%s}\n\n' % (graph.position, b",".join(bodies), rows)

    async def _encode(self, graph: Graph, *, at_once: bool = False) -> bytes:
        pieces = encode_graph(graph, window_from=self._window_from())
        if at_once:
            return b"".join(pieces)
        return b"".join([piece async for piece in _in_turns(pieces)])

    @property
    def events(self) -> int:
        """Events that it was folded from."""
        return self._graph.events

    async def keep_up(self) -> None:
        """Fold what came, unless somebody is at it."""
        if not self._turn.locked():
            async with self._turn:
                await self._catch_up()

    async def _catch_up(self) -> None:
        is_anew = False
        while True:
            if self.erasures != (erasures := self._store.erasures()):
                is_anew = True
                self.erasures, self._graph, self._checkpoints = erasures, Graph(), []
                self._body, self._frame = (-1, b""), (-1, -1, b"")
                self._changes = RowChanges()
            await self._fold(self._graph, upto=None)
            if is_anew:  # what pages from before have may hold texts that are gone
                self._changes.since = self._graph.position
            if self.erasures == self._store.erasures():
                return

    async def _fold(self, graph: Graph, *, upto: int | None) -> None:
        """Fold stored events in, up to a position or to the end of the log."""
        while events := await self._encoder.read(after=graph.position, limit=PAGE):
            async for event in self._encoder.encode_all(events):
                if upto is not None and event.position > upto:
                    return
                fold_event(graph, seen(event))
                if upto is None and graph.events % CHECKPOINT_EVENTS == 0:
                    await self._keep(graph)
            if upto is None:
                self._changes.note(graph)

    async def _keep(self, graph: Graph) -> None:
        pieces = [(name, zlib.compress(piece, 1)) async for name, piece in _in_turns(pack_graph(graph))]
        self._checkpoints.append(GraphCheckpoint(graph.position, graph.events, tuple(pieces)))
        if len(self._checkpoints) > CHECKPOINTS_MAX:
            older = self._checkpoints[: CHECKPOINTS_MAX // 2]
            self._checkpoints = older[1::2] + self._checkpoints[CHECKPOINTS_MAX // 2 :]

    async def _past(self, at: int) -> Graph:
        before = [one for one in self._checkpoints if one.position <= at]
        graph = await before[-1].open() if before else Graph()
        await self._fold(graph, upto=at)
        return graph

    def _window_from(self) -> int:
        """Return the newest checkpoint with a window of events behind it; 0 while there is none."""
        reach = self._graph.events - WINDOW_EVENTS
        return next((one.position for one in reversed(self._checkpoints) if one.events <= reach), 0)


class GraphKeeper:
    """The graphs of the tenants that were asked for last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._graphs: OrderedDict[str, TenantGraph] = OrderedDict()

    def graph(self, tenant: str, encoder: Encoder) -> TenantGraph:
        """Return the graph of a tenant; it is folded when it is read."""
        if (known := self._graphs.get(tenant)) is None:
            known = self._graphs[tenant] = TenantGraph(self._store, encoder)
        self._graphs.move_to_end(tenant)
        idle = [name for name, graph in self._graphs.items() if graph is not known and not graph.readers]
        for name in idle:
            if len(self._graphs) <= GRAPHS_MAX and self._events() <= EVENTS_MAX:
                break
            del self._graphs[name]
        return known

    def _events(self) -> int:
        return sum(graph.events for graph in self._graphs.values())

    async def keep_up(self) -> None:
        """Fold what came to the graphs that are remembered, so that the next page opens at once."""
        for graph in tuple(self._graphs.values()):
            await graph.keep_up()
