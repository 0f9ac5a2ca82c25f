"""The log as events of AG-UI 1.0, for front ends that speak that protocol: a fold, event by event.

    run.started, run.forked, run.reopened   RUN_STARTED; of a child SUBAGENT_STARTED
    run.completed, run.failed, .cancelled   RUN_FINISHED or RUN_ERROR; SUBAGENT_FINISHED or SUBAGENT_ERROR
    an iteration of a built-in loop         STEP_STARTED, STEP_FINISHED
    an agent's reply, a turn of a chat      TEXT_MESSAGE_START, _CONTENT, _END
    tool.requested, .refused, .completed    TOOL_CALL_START, _ARGS, _END, _RESULT
    what changes where a task stands        STATE_DELTA on `{"tasks": {id: {status, iteration, ...}}}`
    `CUSTOM`                                CUSTOM of the same name

What an event of the log gives depends on nothing but the log before it, so `<position>.<n>` names the n-th of
them for ever. Texts are those that `server/live/event_encoder.py` lets through, replies of agents, and of
chats what their turns show to people (I9). Read next: `event_follower.py`, `chat_turn.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
from ag_ui import core as agui

from artelier.agents.autonomous import LOOP as AGENT
from artelier.chat.turn.turn_config import LOOP as CHAT
from artelier.chat.turn.turn_config import chat_of
from artelier.missions.task.task_config import LOOP as TASK
from artelier.server.agui.task_state import TaskStates
from artelier.server.live.event_encoder import BLOB, of_operation

PROTOCOL = "1.0"

CUSTOM = frozenset(
    (
        "mission.planned",
        "mission.launched",
        "decision.taken",
        "decision.invalid",
        "task.evaluated",
        "artifact.written",
        "approval.requested",
        "approval.given",
        "run.suspended",
        "run.resumed",
    )
)
"""Kinds that are sent as they are: fields that name content hold it instead, or are left out."""

BEGINS = frozenset(("run.started", "run.forked", "run.reopened"))
ENDS = frozenset(("run.completed", "run.failed", "run.cancelled"))

_ITERATION = re.compile(r"c(\d{1,9})/")
_REPLY = re.compile(r"c\d{1,9}/model(/again)?")
_TICK = re.compile(r"t\d{1,15}/")
"""What an agent of a world thinks in a tick is told by nobody but its world."""


class Fact(NamedTuple):
    """An event of the log, as far as the fold goes."""

    position: int
    stream: str
    seq: int
    kind: str
    at_us: int | None
    """None where time is counted in ticks."""
    data: dict[str, Any]
    texts: dict[str, str]


@dataclass(frozen=True, slots=True)
class LazyText:
    """Content that is read when an event is sent, and not when the past is only folded."""

    source: Literal["reply", "blob", "said"]
    """A model's reply, a blob, or what a chat's turn shows of a run."""
    name: str
    is_message: bool = False
    """A message that says nothing is left out; an empty result is a result."""


@dataclass(frozen=True, slots=True)
class Outline:
    """An AG-UI event; `into` is the field that takes the text, if it takes any."""

    made: type[agui.BaseEvent]
    fields: dict[str, Any]
    text: LazyText | None = None
    into: str = ""


@dataclass(slots=True)
class Track:
    """The state that the fold keeps of one run."""

    loop: str
    parent: str
    is_open: bool = True
    step: str = ""
    """Iteration that has begun and not ended."""


@dataclass(slots=True)
class Fold:
    """`take` facts in the order of the log. `root` is the run that it is about; empty for all runs."""

    root: str = ""
    tasks: TaskStates = field(default_factory=TaskStates)
    tracks: dict[str, Track] = field(default_factory=dict[str, Track])

    @property
    def is_over(self) -> bool:
        """The root has ended, and every run below it."""
        return self.root in self.tracks and not any(one.is_open for one in self.tracks.values())

    def take(self, fact: Fact) -> list[Outline]:
        kind_of_stream, _, id_ = fact.stream.partition(":")
        run = id_ if kind_of_stream == "run" else str(fact.data.get("run_id") or "")
        found: list[Outline] = []
        if kind_of_stream == "run":
            found += self._before(id_, fact)
        if kind_of_stream == "session" and fact.kind == "variant.ended":
            run = str(fact.data.get("run", ""))
            if self._tells_reply(run):
                found += _message(run, "reply", LazyText("said", run, is_message=True))
        if fact.kind in CUSTOM and kind_of_stream in ("run", "artifact"):
            found.append(Outline(agui.CustomEvent, _custom(fact)))
        loop = self.tracks[id_].loop if id_ in self.tracks else ""
        if delta := self.tasks.take(kind_of_stream, id_, fact.kind, fact.data, loop=loop, seq=fact.seq):
            found.append(Outline(agui.StateDeltaEvent, {"delta": delta}))
        if kind_of_stream == "run":
            found += self._after(id_, fact)
        return [self._with_origin(one, run, fact) for one in found]

    def snapshot(self) -> Outline:
        return Outline(agui.StateSnapshotEvent, {"snapshot": {"tasks": self.tasks.copy_shown()}})

    # What comes first, and what comes last

    def _before(self, run: str, fact: Fact) -> Iterator[Outline]:
        if fact.kind in BEGINS:
            yield from self._begin_run(run, fact)
        track = self.tracks.get(run)
        if track is None or not track.is_open:
            return
        key = str(fact.data.get("key", ""))
        if track.loop in (AGENT, TASK) and (number := _ITERATION.match(key)):
            name = f"{run}/c{int(number[1])}"
            if name != track.step:
                yield from _step_ended(track)
                track.step = name
                yield Outline(agui.StepStartedEvent, {"step_name": name})
        if not of_operation(key):
            yield from _of_tool(run, key, fact)
            if fact.kind == "model.completed" and _is_said(track.loop, key, fact.data):
                yield from _message(run, key, LazyText("reply", fact.data["reply"], is_message=True))

    def _begin_run(self, run: str, fact: Fact) -> Iterator[Outline]:
        known = self.tracks.get(run)
        if known is None:
            origin = self.tracks.get(str(fact.data.get("origin", "")))
            loop = str(fact.data.get("loop", "")) or (origin.loop if origin else "")
            self.tracks[run] = Track(loop, str(fact.data.get("parent") or ""))
        else:
            known.is_open = True
        parent = self.tracks[run].parent
        if not self.is_child(run):
            yield Outline(
                agui.RunStartedEvent,
                {
                    "thread_id": self.thread_of(run),
                    "run_id": run,
                    "protocol_version": PROTOCOL,
                    "parent_run_id": parent or None,
                },
            )
            if run == self.root and known is None:
                yield self.snapshot()
            return
        step = fact.data.get("parent_step")
        yield Outline(
            agui.SubagentStartedEvent,
            {
                "name": str(fact.data.get("agent") or run.rpartition("/")[2]),
                "parent_subagent_run_id": parent if self.is_child(parent) else None,
                "parent_tool_call_id": f"{parent}#{step}" if step and "/tool" in step else None,
            },
        )

    def _after(self, run: str, fact: Fact) -> Iterator[Outline]:
        track = self.tracks.get(run)
        if track is None:
            return
        if fact.kind == "cycle.completed" and track.step == f"{run}/c{fact.data.get('cycle')}":
            yield from _step_ended(track)
        if fact.kind not in ENDS:
            return
        yield from _step_ended(track)
        track.is_open = False
        reason = str(fact.data.get("reason") or fact.kind.removeprefix("run."))
        said = {"message": fact.texts.get("message") or reason, "code": reason}
        if not self.is_child(run):
            ended = {"thread_id": self.thread_of(run), "run_id": run}
            if fact.kind == "run.failed":
                yield Outline(agui.RunErrorEvent, said)
            elif fact.kind == "run.cancelled":
                yield Outline(agui.RunFinishedEvent, {**ended, "outcome": {"type": "cancelled"}})
            else:
                yield Outline(agui.RunFinishedEvent, {**ended, "outcome": {"type": "success"}})
        elif fact.kind == "run.completed":
            yield Outline(agui.SubagentFinishedEvent, {"outcome": {"type": "success"}})
        else:
            yield Outline(agui.SubagentErrorEvent, said)

    # Whose it is

    def is_child(self, run: str) -> bool:
        """Return True if a run is told as part of another."""
        if self.root:
            return run != self.root and run in self.tracks
        return run in self.tracks and bool(self.tracks[run].parent)

    def _tells_reply(self, run: str) -> bool:
        """Return whether what a chat's turn said belongs to this stream.

        The stream of a chat tells of all its turns. A client that follows one run gets that run's reply
        alone, and nothing behind its end.
        """
        if not self.root:
            return True
        return run == self.root and run in self.tracks and self.tracks[run].is_open

    def thread_of(self, run: str) -> str:
        return chat_of(run) if self.tracks[run].loop == CHAT else run

    def _with_origin(self, outline: Outline, run: str, fact: Fact) -> Outline:
        """With when it was and whose it is."""
        fields: dict[str, Any] = {**outline.fields, "metadata": {"run_id": run} if run else None}
        if fact.at_us is not None:
            fields["timestamp"] = fact.at_us // 1000
        # The state is that of all runs together, whoever changes it.
        if (
            self.is_child(run)
            and outline.made is not agui.StateDeltaEvent
            and "subagent_run_id" in outline.made.model_fields
        ):
            fields["subagent_run_id"] = run
        return Outline(outline.made, fields, outline.text, outline.into)


def _is_said(loop: str, key: str, data: dict[str, Any]) -> bool:
    """Return True if a model's reply is told as a message. A chat's are told by its turns, a task's by
    decisions.
    """
    if data.get("invalid"):
        return False
    if loop == AGENT:
        return _REPLY.fullmatch(key) is not None
    return not loop and _TICK.match(key) is None


def _message(run: str, key: str, text: LazyText) -> Iterator[Outline]:
    id_ = {"message_id": f"{run}#{key}"}
    yield Outline(agui.TextMessageStartEvent, {**id_, "role": "assistant"}, text)
    yield Outline(agui.TextMessageContentEvent, id_, text, "delta")
    yield Outline(agui.TextMessageEndEvent, id_, text)


def _of_tool(run: str, key: str, fact: Fact) -> Iterator[Outline]:
    call = {"tool_call_id": f"{run}#{key}"}
    if fact.kind in ("tool.requested", "tool.refused"):
        yield Outline(agui.ToolCallStartEvent, {**call, "tool_call_name": fact.data["name"]})
        if ref := fact.data.get("arguments"):
            yield Outline(agui.ToolCallArgsEvent, call, LazyText("blob", ref), "delta")
        yield Outline(agui.ToolCallEndEvent, call)
    result = {**call, "message_id": f"{run}#{key}/result", "role": "tool"}
    if fact.kind in ("tool.completed", "tool.refused"):
        yield Outline(agui.ToolCallResultEvent, result, LazyText("blob", fact.data["result"]), "content")
    elif fact.kind == "tool.reconciled" and fact.data.get("answer") != "retry":
        yield Outline(agui.ToolCallResultEvent, {**result, "content": str(fact.data.get("answer"))})


def _step_ended(track: Track) -> Iterator[Outline]:
    if track.step:
        yield Outline(agui.StepFinishedEvent, {"step_name": track.step})
        track.step = ""


def _custom(fact: Fact) -> dict[str, Any]:
    """The fields of an event, with content in place of what names it."""
    value: dict[str, Any] = {"stream": fact.stream}
    for name, one in fact.data.items():
        if name in fact.texts:
            value[name] = _plain(fact.texts[name])
        elif name not in ("postings", "counts") and not (isinstance(one, str) and BLOB.fullmatch(one)):
            value[name] = one
    return {"name": fact.kind, "value": value}


def _plain(text: str) -> Any:
    """JSON as what it is; any other text as text."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text
