"""The events of a run as AG-UI events: a fold over the log, and the state of tasks beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
from ag_ui import core as agui

from artelier.agents.autonomous import LOOP as AGENT
from artelier.chat.turn.turn_config import LOOP as CHAT
from artelier.chat.turn.turn_config import chat_of
from artelier.missions.status import status_of
from artelier.missions.task.loop_state import LOOP, counts_anew, last_iteration
from artelier.missions.task.loop_state import LOOP as TASK
from artelier.server.event_encoder import BLOB, of_operation

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
class EventDraft:
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
    name: str = ""
    """Of the agent at work, for people."""
    is_open: bool = True
    step: str = ""
    """Iteration that has begun and not ended."""


_RUN = {
    "run.started": "running",
    "run.reopened": "running",
    "run.resumed": "running",
    "run.exhausted": "budget_exhausted",
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
}
"""Kind of an event to the status that its run has from then on."""


class _Mark(NamedTuple):
    """The progress of a task's loop at an event of its run: forks begin with it."""

    seq: int = 0
    iteration: int = 0
    before: int = 0
    """The iteration after which the limit counts."""
    ended: str = ""
    reason: str = ""


@dataclass(slots=True)
class _KnownTask:
    """The parts of a task's status."""

    ended: str = ""
    run: str | None = None
    marks: list[_Mark] = field(default_factory=lambda: [_Mark()])
    """Oldest first; the last is how it stands."""
    shown: dict[str, Any] = field(default_factory=lambda: {"iteration": 0, "reason": "", "outputs": []})

    def mark(self, seq: int, **changed: Any) -> None:
        """Note what an event changed in the progress of the loop."""
        self.marks.append(self.marks[-1]._replace(seq=seq, **changed))

    def to_show(self) -> dict[str, Any]:
        """Return it as clients see it."""
        most = self.shown.get("max_iterations")
        last = None if most is None else last_iteration(self.marks[-1].before, most)
        return deepcopy(self.shown) | {"last_iteration": last}


@dataclass(slots=True)
class TaskStates:
    """Tasks by id, each `{status, reason, iteration, max_iterations, last_iteration, agent, outputs}`."""

    _known: dict[str, _KnownTask] = field(default_factory=dict[str, _KnownTask])

    def copy_shown(self) -> dict[str, Any]:
        return {id_: one.to_show() for id_, one in self._known.items()}

    def take(
        self, stream: str, id_: str, kind: str, data: dict[str, Any], *, loop: str, seq: int
    ) -> list[dict[str, Any]]:
        """The patch that an event makes; empty if nothing changes. `loop` is that of a run's stream,
        `seq` the event's in its stream."""
        task = str(data.get("task", "")) if kind == "task.blocked" else id_
        before = self._known[task].to_show() if task in self._known else None
        if stream == "artifact":
            self._of_artifact(task, kind, data)
        elif stream == "run" and kind == "task.blocked":
            self._block(task, data)
        elif stream == "run" and loop == LOOP:
            self._of_run(task, kind, data, seq)
        known = self._known.get(task)
        if known is None:
            return []
        known.shown["status"] = status_of(known.ended, known.run)
        after = known.to_show()
        if after == before:
            return []
        path = f"/tasks/{task.replace('~', '~0').replace('/', '~1')}"
        return [{"op": "add", "path": path, "value": after}]

    def _of_artifact(self, task: str, kind: str, data: dict[str, Any]) -> None:
        if kind == "task.created":
            self._known[task] = _KnownTask()
        known = self._known.get(task)
        if known is None:
            return
        if kind in ("task.created", "task.changed"):
            known.shown["agent"] = data.get("agent", "")
            known.shown["max_iterations"] = data.get("max_iterations")
        elif kind == "task.cancelled" and known.ended in ("", "blocked"):
            known.ended, known.shown["reason"] = "cancelled", "cancelled"
        elif kind == "task.reopened" and known.ended in ("cancelled", "blocked"):
            known.ended, known.shown["reason"] = "", ""

    def _block(self, task: str, data: dict[str, Any]) -> None:
        known = self._known.get(task)
        if known is not None and not known.ended:
            known.ended, known.shown["reason"] = "blocked", data.get("reason", "")

    def _of_run(self, task: str, kind: str, data: dict[str, Any], seq: int) -> None:
        if kind == "run.forked":
            self._fork(task, data)
            return
        known = self._known.setdefault(task, _KnownTask())
        at = known.marks[-1]
        if kind == "run.reopened":
            is_anew = counts_anew(at.ended, at.reason, at.iteration)
            before = at.iteration if is_anew else at.before
            known.mark(seq, before=before, ended="", reason="")
        if kind in ("task.begun", "run.reopened"):
            known.ended, known.shown["reason"] = "", ""
        if kind == "task.begun":
            known.shown["agent"] = data.get("agent", "")
            known.shown["max_iterations"] = data.get("max_iterations")
        elif kind in ("decision.taken", "decision.invalid"):
            known.shown["iteration"] = data["iteration"]
            known.mark(seq, iteration=data["iteration"])
        elif kind == "task.ended":
            known.ended = data["status"]
            known.shown["reason"] = data.get("reason", "")
            known.shown["outputs"] = list(data.get("outputs", ()))
            known.shown["iteration"] = number = data.get("iterations", 0)
            known.mark(seq, iteration=number, ended=data["status"], reason=data.get("reason", ""))
        self._run_is(known, kind, data)

    def _fork(self, task: str, data: dict[str, Any]) -> None:
        """A fork of a task's run is a task of its own, as far on as the history that it shares."""
        origin = self._known.get(str(data.get("origin", "")))
        known = self._known[task] = _KnownTask(run="running")
        if origin is None:
            return
        at = [one for one in origin.marks if one.seq <= data["at"]][-1]
        known.marks = [at._replace(seq=0)]
        known.shown |= {name: origin.shown.get(name) for name in ("agent", "max_iterations")}
        known.shown["iteration"] = at.iteration

    def _run_is(self, known: _KnownTask, kind: str, data: dict[str, Any]) -> None:
        status = str(data.get("status", "")) if kind == "run.suspended" else _RUN.get(kind)
        if status is None:
            return
        known.run = status
        if status in ("cancelled", "budget_exhausted"):
            known.shown["reason"] = status
        elif status == "failed" and not known.ended:
            known.shown["reason"] = data.get("reason", "")
        elif status == "running" and not known.ended:
            known.shown["reason"] = ""


@dataclass(slots=True)
class Fold:
    """`take` facts in the order of the log. `root` is the run that it is about; empty for all runs."""

    root: str = ""
    tasks: TaskStates = field(default_factory=TaskStates)
    tracks: dict[str, Track] = field(default_factory=dict[str, Track])
    outside: set[str] = field(default_factory=set[str])
    """Forks of runs below the root, with the runs below those: they are no part of it."""

    @property
    def is_over(self) -> bool:
        """The root has ended, and every run below it."""
        return self.root in self.tracks and not any(one.is_open for one in self.tracks.values())

    def is_outside(self, fact: Fact) -> bool:
        """Return True if a fact is about a run that is no part of the root, and remember such runs."""
        kind_of_stream, _, id_ = fact.stream.partition(":")
        run = id_ if kind_of_stream == "run" else str(fact.data.get("run_id") or "")
        if self.root and run not in ("", self.root) and fact.kind in BEGINS:
            is_fork = fact.kind == "run.forked" and not fact.data.get("drift")
            if is_fork or fact.data.get("parent") in self.outside:
                self.outside.add(run)
        return run in self.outside

    def take(self, fact: Fact) -> list[EventDraft]:
        if self.is_outside(fact):
            return []
        kind_of_stream, _, id_ = fact.stream.partition(":")
        run = id_ if kind_of_stream == "run" else str(fact.data.get("run_id") or "")
        found: list[EventDraft] = []
        if kind_of_stream == "run":
            found += self._before(id_, fact)
        if kind_of_stream == "session" and fact.kind == "variant.ended":
            run = str(fact.data.get("run", ""))
            if self._tells_reply(run):
                found += _message(run, "reply", LazyText("said", run, is_message=True))
        if fact.kind in CUSTOM and kind_of_stream in ("run", "artifact"):
            found.append(EventDraft(agui.CustomEvent, _custom(fact)))
        loop = self.tracks[id_].loop if id_ in self.tracks else ""
        if delta := self.tasks.take(kind_of_stream, id_, fact.kind, fact.data, loop=loop, seq=fact.seq):
            found.append(EventDraft(agui.StateDeltaEvent, {"delta": delta}))
        if kind_of_stream == "run":
            found += self._after(id_, fact)
        return [self._with_origin(one, run, fact) for one in found]

    def snapshot(self) -> EventDraft:
        return EventDraft(agui.StateSnapshotEvent, {"snapshot": {"tasks": self.tasks.copy_shown()}})

    def suspend(self) -> Iterator[EventDraft]:
        """Close what is open, as the protocol wants it of a stream that ends before the run does."""
        for run, track in reversed(self.tracks.items()):
            if track.is_open and self.is_child(run):
                for one in (
                    *_step_ended(track, is_over=False),
                    EventDraft(agui.SubagentFinishedEvent, {"outcome": {"type": "suspended"}}),
                ):
                    yield EventDraft(one.made, {**one.fields, "subagent_run_id": run})

    def go_on(self) -> Iterator[EventDraft]:
        """Open again what an earlier stream has closed with `suspend`."""
        for run, track in self.tracks.items():
            if not track.is_open or not self.is_child(run):
                continue
            parent = track.parent if self.is_child(track.parent) else None
            opened: dict[str, Any] = {"name": track.name, "parent_subagent_run_id": parent}
            yield EventDraft(agui.SubagentStartedEvent, {**opened, "subagent_run_id": run})
            if track.step:
                step = {"step_name": track.step, "subagent_run_id": run}
                yield EventDraft(agui.StepStartedEvent, step)

    # What comes first, and what comes last

    def _before(self, run: str, fact: Fact) -> Iterator[EventDraft]:
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
                yield EventDraft(agui.StepStartedEvent, {"step_name": name})
        if not of_operation(key):
            yield from _of_tool(run, key, fact)
            if fact.kind == "model.completed" and _is_said(track.loop, key, fact.data):
                yield from _message(run, key, LazyText("reply", fact.data["reply"], is_message=True))

    def _begin_run(self, run: str, fact: Fact) -> Iterator[EventDraft]:
        known = self.tracks.get(run)
        if known is None:
            origin = self.tracks.get(str(fact.data.get("origin", "")))
            loop = str(fact.data.get("loop", "")) or (origin.loop if origin else "")
            name = str(fact.data.get("agent") or run.rpartition("/")[2])
            self.tracks[run] = Track(loop, str(fact.data.get("parent") or ""), name)
        else:
            known.is_open = True
        parent = self.tracks[run].parent
        if not self.is_child(run):
            yield EventDraft(
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
        yield EventDraft(
            agui.SubagentStartedEvent,
            {
                "name": self.tracks[run].name,
                "parent_subagent_run_id": parent if self.is_child(parent) else None,
                "parent_tool_call_id": f"{parent}#{step}" if step and "/tool" in step else None,
            },
        )

    def _after(self, run: str, fact: Fact) -> Iterator[EventDraft]:
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
                yield EventDraft(agui.RunErrorEvent, said)
            elif fact.kind == "run.cancelled":
                yield EventDraft(agui.RunFinishedEvent, {**ended, "outcome": {"type": "cancelled"}})
            else:
                yield EventDraft(agui.RunFinishedEvent, {**ended, "outcome": {"type": "success"}})
        elif fact.kind == "run.completed":
            yield EventDraft(agui.SubagentFinishedEvent, {"outcome": {"type": "success"}})
        else:
            yield EventDraft(agui.SubagentErrorEvent, said)

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

    def _with_origin(self, outline: EventDraft, run: str, fact: Fact) -> EventDraft:
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
        return EventDraft(outline.made, fields, outline.text, outline.into)


def _is_said(loop: str, key: str, data: dict[str, Any]) -> bool:
    """Return True if a model's reply is told as a message. A chat's are told by its turns, a task's by
    decisions.
    """
    if data.get("invalid"):
        return False
    if loop == AGENT:
        return _REPLY.fullmatch(key) is not None
    return not loop and _TICK.match(key) is None


def _message(run: str, key: str, text: LazyText) -> Iterator[EventDraft]:
    id_ = {"message_id": f"{run}#{key}"}
    yield EventDraft(agui.TextMessageStartEvent, {**id_, "role": "assistant"}, text)
    yield EventDraft(agui.TextMessageContentEvent, id_, text, "delta")
    yield EventDraft(agui.TextMessageEndEvent, id_, text)


def _of_tool(run: str, key: str, fact: Fact) -> Iterator[EventDraft]:
    call = {"tool_call_id": f"{run}#{key}"}
    if fact.kind in ("tool.requested", "tool.refused"):
        yield EventDraft(agui.ToolCallStartEvent, {**call, "tool_call_name": fact.data["name"]})
        if ref := fact.data.get("arguments"):
            yield EventDraft(agui.ToolCallArgsEvent, call, LazyText("blob", ref), "delta")
        yield EventDraft(agui.ToolCallEndEvent, call)
    result = {**call, "message_id": f"{run}#{key}/result", "role": "tool"}
    if fact.kind in ("tool.completed", "tool.refused"):
        yield EventDraft(agui.ToolCallResultEvent, result, LazyText("blob", fact.data["result"]), "content")
    elif fact.kind == "tool.reconciled" and fact.data.get("answer") != "retry":
        yield EventDraft(agui.ToolCallResultEvent, {**result, "content": str(fact.data.get("answer"))})


def _step_ended(track: Track, *, is_over: bool = True) -> Iterator[EventDraft]:
    if track.step:
        yield EventDraft(agui.StepFinishedEvent, {"step_name": track.step})
        track.step = "" if is_over else track.step


def _custom(fact: Fact) -> dict[str, Any]:
    """The fields of an event, with content in place of what names it."""
    value: dict[str, Any] = {"stream": fact.stream}
    for name, one in fact.data.items():
        if name in fact.texts:
            value[name] = _plain(fact.texts[name])
        elif name not in ("postings", "counts") and not (isinstance(one, str) and BLOB.fullmatch(one)):
            value[name] = one
    return {"name": fact.kind, "value": value}


def _plain(text: str) -> object:
    """JSON as what it is; any other text as text."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text
