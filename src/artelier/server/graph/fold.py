"""The fold of events into the state of the page, one event after the other.

It is the fold of `web/src/projection/fold.ts`, which goes on from here in the browser: the same events give
the same graph on both sides, whoever has folded how many of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from artelier.ids import MAIN_SPACE
from artelier.server.graph.event import SeenEvent
from artelier.server.graph.fold_artifacts import fold_artifact
from artelier.server.graph.fold_runs import fold_run
from artelier.server.graph.fold_tasks import fold_task
from artelier.server.graph.records import AskedTurn, Graph, mission_of

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
    """Note when something last happened to a chat, a world or a goal: as `projection/pulse.ts` does it."""
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
