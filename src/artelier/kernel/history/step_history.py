"""The records of a run, read forward in pages as its code asks for them again.

A fork's history is its origin's up to the fork, then its own. A built-in loop starts at its snapshot, so
that resuming costs the same at any age.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from artelier.errors import Erased, Exhausted
from artelier.kernel import events as ev
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.queries.runs import is_below
from artelier.kernel.steps.step_keys import beside, bounded_id
from artelier.kernel.tool_calls.dispatches import ProcessId
from artelier.kernel.tool_calls.tool_questions import ToolQuestions
from artelier.log import BlobRef, Event, EventData, Store, Stream, Tx
from artelier.log.queries import events_since, newest_position, stream_events

LATE_EVENTS = 64
"""How far behind an outcome may stand that the code cancelled the step all the same (see `Delivery`)."""

GAP = 1 << 32
"""Between the positions of two events. Cancellations fall in between: they are recorded later than they
were."""

FIRST, TIMEOUT = "first", "timeout"
"""Names of the computed steps of `run.first` and `run.timeout`."""

_AROUND = (FIRST, TIMEOUT)
"""Computed steps around others, which the code asks for all the same."""

PAGE = 500
"""Events per read: about 10 ms of folding, so that other runs of the loop get their turn."""


@dataclass(slots=True, kw_only=True)
class Recorded:
    """A step as the log has it."""

    key: str
    kind: str
    request: EventData | None = None
    context: ev.ContextAssembled | None = None
    outcome: EventData | None = None
    status: str = "requested"
    """`requested`, `completed`, `failed`, `unknown`, `retry` (a person decided so) or `open`."""
    actor: str = ""
    at_us: int = 0
    inherited: bool = False
    """True if it belongs to the origin of a fork: its request is not compared."""
    repeated: bool = False
    """Whether an earlier request of its own run was broken off, which has numbered messages already."""
    owner: str = ""
    """The run that asked for it first: a fork settles a call of its origin under the origin's key."""
    began: int = 0
    """Position of its first event among requests and outcomes; of its only one, if nothing tells when it
    began."""
    ended: int = 0
    """Position of its outcome; 0 if it has none."""
    place: int = 0
    """Position of the failure that the run was reopened for, if code has gone on from there: its new outcome
    takes that place."""
    began_us: int = 0
    resumed_us: int = 0
    """When the drive had begun in which it began; 0 for the first one."""
    process: ProcessId = ()
    """The process that entered a side effect last; empty if nobody recorded it."""
    redispatched: int = 0
    """How often it was entered again because its probe said that it had not happened."""
    charged: Counter[int] = field(default_factory=Counter[int])
    """How many spends of each amount its tool was charged for."""
    left_us: int = 0
    """When the code came to its end, while this tool step was at work; 0 if it did not."""
    is_past: bool = False
    """True if code began it behind a failure that the run was reopened for: it is done, and code that does
    not fail does not ask for it there, if at all."""
    may_be_past: bool = False
    """True if the run was reopened since, and no failed step tells where the path that is past begins."""
    late: Event | None = None
    """Its outcome from after that end, of which the code knows nothing unless the run is reopened."""

    def must_match(self, policy: str) -> bool:
        """Return True if code that asks for something else is not given it."""
        return self.is_past or not (self.inherited or policy == "allow_prompt_drift")


@dataclass(frozen=True, slots=True)
class RepeatedQuestion:
    """A question that was asked again about a call: the answers before it have decided nothing."""

    number: int
    """Counts the questions about the call; 2 for the first that was asked again."""
    question: BlobRef
    inherited: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of history: a stream from `after` (exclusive) up to `upto` (inclusive)."""

    stream_id: int
    stream: Stream
    after: int
    upto: int
    inherited: bool


class History:
    """Finds recorded steps by key. Cost: each event is read once, however many steps are asked for."""

    def __init__(self, store: Store, segments: list[Segment]) -> None:
        self._store = store
        self._segments = segments
        self._steps: dict[str, Recorded] = {}
        self._contexts: dict[str, ev.ContextAssembled] = {}
        self.found = 0
        """Recorded steps handed out."""
        self.asking: dict[str, Recorded] = {}
        """Steps that the code is about to ask for: found, and not compared yet."""
        self._known: set[str] = set()
        """Keys of steps that a replay takes from the log: nobody asks for what they have done inside."""
        self.past: set[str] = set()
        """Keys of steps on a path that is past, see `Recorded.is_past`."""
        self._passed: set[str] = set()
        """Keys that nobody waits for any more."""
        self._reopened: dict[int, int] = {}
        """Seq of the last `run.reopened` of each stream, once that matters."""
        self._position = 0
        self._resumed_us = 0
        self._last_cut: list[str] = []
        """Steps that the code has cancelled, and after which it has asked for nothing."""
        self.questions = ToolQuestions()
        """The questions of tools, here and in this drive."""
        self.edits: dict[str, RepeatedQuestion] = {}
        """The newest question about each call whose edited arguments did not fit."""
        self._stands = 0
        """Position of the last request or outcome that is neither a failure nor a cancellation."""

    @property
    def at_end(self) -> bool:
        """True when everything recorded has been read and asked for."""
        return not self._segments and not self._steps

    @property
    def count(self) -> int:
        """Requests and outcomes that were read; all that there are, once a step was not found."""
        return self._position // GAP

    async def find(self, key: str) -> Recorded | None:
        """The record of a step and its outcome so far; None if the run has never asked for it."""
        while self._segments:
            step = self._steps.get(key)
            if step is not None and step.status in ("completed", "cancelled"):
                if self._position - step.ended >= GAP * LATE_EVENTS and not await self._reopens_later():
                    break
            await self._read_page()
        step = self._steps.pop(key, None)
        self.found += step is not None
        return step

    def missing(self, began: int, ended: int) -> Recorded | None:
        """A step that was asked for before position `ended`, by code that did so while another step was at
        work since `began`, and that is still to be asked for again. `ended` 0 means to the end, -1 never.
        """
        if ended < 0:
            return None
        for step in (*self.asking.values(), *self._first_left(ended)):
            if step.key in self._passed or belongs_elsewhere(step) or self._is_inside(step.key):
                continue
            if not ended or step.began < ended:
                if not step.ended or step.ended > began:
                    return step
        return None

    def _first_left(self, ended: int) -> Iterator[Recorded]:
        for step in self._steps.values():  # in the order in which they began
            if ended and step.began > ended:
                return
            yield step

    def _is_inside(self, key: str) -> bool:
        """Return True if a step was taken by another step, whose outcome is recorded as a whole."""
        cut = key.rfind("/")
        while cut > 0:
            if key[:cut] in self._known:
                return True
            cut = key.rfind("/", 0, cut)
        return False

    def skip(self, key: str) -> None:
        """Nobody waits for this step to be asked for any more."""
        self._passed.add(key)

    def put_back(self, step: Recorded) -> None:
        """Let a recorded step be found once more."""
        self._steps[step.key] = step

    async def knows(self, key: str) -> bool:
        """Return True if a recorded step has this key and is still to be asked for."""
        while self._segments and key not in self._steps:
            await self._read_page()
        return key in self._steps

    def pass_over(self, parent: str) -> None:
        """Nobody will ask for the steps under this parent: what they led to is recorded itself."""
        for key in [key for key in self._steps if key.startswith(f"{parent}/")]:
            del self._steps[key]
            self.found += 1

    def expects(self, parent: str) -> bool:
        """Return True if a recorded step under this parent is still to be asked for; False for the run
        itself.
        """
        return bool(parent) and any(
            key.startswith(f"{parent}/") and not step.is_past for key, step in self._steps.items()
        )

    def is_bound(self, parent: str) -> bool:
        """Return True if a step under this parent is still to be asked for just as it was recorded.

        A computed value is returned whatever the code has seen by then. A request that came to nothing (its
        failure ended the run, or its drive was cut off) is made anew.
        """
        return bool(parent) and any(
            key.startswith(f"{parent}/")
            and step.kind != "compute"
            and step.status != "open"
            and not step.is_past
            and not self._is_inside(key)
            for key, step in self._steps.items()
        )

    async def expects_more(self) -> bool:
        """Return True if a recorded step is still to be asked for: the code is in the run's past.

        Cost: reads on to the next such step.
        """
        while self._segments and all(map(belongs_elsewhere, self._steps.values())):
            await self._read_page()
        return not all(map(belongs_elsewhere, self._steps.values()))

    async def read_unasked(self) -> list[Recorded]:
        """Recorded steps that nobody has asked for; reads the history to its end."""
        while self._segments:
            await self._read_page()
        return list(self._steps.values())

    async def _read_page(self) -> None:
        segment = self._segments[0]
        events = await self._store.read(segment.stream, after=segment.after, limit=PAGE)
        for stored in events:
            if stored.seq <= segment.upto:
                self._fold(stored, segment.inherited)
        if len(events) < PAGE or events[-1].seq >= segment.upto:
            self._segments.pop(0)
        else:
            self._segments[0] = replace(segment, after=events[-1].seq)

    async def _reopens_later(self) -> bool:
        """Return True if the run was reopened behind what was read: cleaning up before that may be long."""
        for segment in self._segments:
            number = segment.stream_id
            if number not in self._reopened:
                kind, upto = ev.RunReopened.KIND, segment.upto
                rows = await stream_events(self._store, number, kind, upto=upto, newest=1)
                self._reopened[number] = rows[0].seq if rows else 0
            if self._reopened[number] > segment.after:
                return True
        return False

    def _fold(self, stored: Event, inherited: bool) -> None:
        data, at_us = stored.decode(), stored.at_us
        self._position += GAP * asks_or_ends(data)
        self._note_last(data)
        if isinstance(data, ev.ContextAssembled):
            self._contexts[data.key] = data
        elif isinstance(data, ev.RunCompleted | ev.RunFailed):
            if not inherited:
                self._leave(at_us)
        elif isinstance(data, ev.RunReopened):
            self._take_up()
            self._ask_cut_again(data)
            for key in data.steps:
                if (step := self._steps.get(key)) is not None:
                    if not data.from_failure and (not data.in_order or self._stands > step.ended):
                        step.place = step.place or step.ended
                    step.status, step.outcome, step.ended = "open", None, 0
        elif isinstance(data, ev.RunResumed):
            self._resumed_us = at_us
        elif isinstance(data, ev.ToolRetried):
            # A decision to retry holds for one dispatch; the outcome of that one is unknown again.
            if (step := self._steps.get(data.key)) is not None:
                step.status, step.outcome, step.ended = "requested", None, 0
                step.process = data.process
                step.redispatched += data.by == "probe"
        elif isinstance(data, ev.ToolCharged):
            if data.once and (step := self._steps.get(data.key)) is not None:
                step.charged[data.cost] += 1
        elif (kind := _REQUESTS.get(type(data))) is not None:
            self._fold_request(stored, data, kind, inherited)
        elif (outcome := _outcome(data)) is not None:
            self._fold_outcome(stored, data, outcome, inherited)
        self.questions.fold(data)

    def _note_last(self, data: EventData) -> None:
        """Note what the code cancels, and that it goes on after that."""
        if asks_or_ends(data) and not isinstance(data, ev.StepCancelled | ev.ModelFailed | ev.StepFailed):
            self._stands = self._position
        if isinstance(data, ev.StepCancelled):
            self._last_cut.append(data.key)
        elif self._last_cut and (key := _asked_key(data)) is not None:
            self._last_cut = [cut for cut in self._last_cut if beside(cut, key)]

    def _ask_cut_again(self, reopened: ev.RunReopened) -> None:
        """Forget cancellations that came of the failure: code that does not meet it does not cancel.

        Those are the last that the code did, after the failure that the run was reopened for.
        """
        failed = [step.ended for key in reopened.steps if (step := self._steps.get(key)) is not None]
        if reopened.cleaned_up and failed:
            self._last_cut = self._note_past(min(failed), from_failure=reopened.from_failure)
        if not failed:
            for step in self._steps.values():
                step.may_be_past = True
        for key in self._last_cut:
            step = self._steps.get(key)
            if step is None or step.status != "cancelled" or step.ended < min(failed, default=0):
                continue
            self._known.discard(key)
            self._drop_questions(key)
            # Of a tool that must not be repeated unasked, the probe tells what it did.
            step.status = "requested" if step.kind == "tool" else "open"
            step.outcome, step.ended = None, 0
            if step.kind == "approval" or (step.request is None and step.kind != "compute"):
                del self._steps[key]  # nobody can answer it any more; or it was never made
        self._last_cut = []

    def _note_past(self, failed: int, *, from_failure: bool) -> list[str]:
        """Return what the code has cut off behind a failure, and note what it has begun there."""
        ends = ev.Cut if from_failure else ev.StepCancelled
        cut = [one for one in self._steps.values() if isinstance(one.outcome, ends) and one.ended >= failed]
        since = failed if from_failure else min((step.ended for step in cut), default=self._position)
        for step in self._steps.values():
            if step.began > since:
                step.is_past = True
                self.past.add(step.key)
        return [step.key for step in cut]

    def _drop_questions(self, key: str) -> None:
        """Nobody can answer what a call that was cut off has asked: it asks again."""
        for question in [one for one in self._steps.values() if one.key.startswith(f"{key}/")]:
            if question.kind == "approval" and question.outcome is None:
                del self._steps[question.key]

    def _leave(self, at_us: int) -> None:
        """The code has come to its end: what tools are at work on then, it does not hear of."""
        for step in self._steps.values():
            if step.kind == "tool" and step.status in ("requested", "unknown"):
                step.left_us = at_us

    def _take_up(self) -> None:
        """The code goes on, and hears of what was settled meanwhile."""
        for step in [step for step in self._steps.values() if step.left_us]:
            late, step.left_us, step.late = step.late, 0, None
            if late is not None and (outcome := _outcome(data := late.decode())) is not None:
                self._fold_outcome(late, data, outcome, False)

    def _fold_outcome(
        self, stored: Event, data: EventData, outcome: tuple[str, str], inherited: bool
    ) -> None:
        key = cast(ev.ModelCompleted, data).key
        step = self._steps.get(key)
        if step is None or (step.is_past and step.status == "open"):
            step = self._steps[key] = Recorded(
                key=key,
                kind=outcome[0],
                inherited=inherited,
                began=self._position,
                began_us=stored.at_us,
                resumed_us=self._resumed_us,
            )
        if step.left_us:
            step.late = stored
            return
        if not (isinstance(data, ev.StepCompleted) and data.name in _AROUND):
            self._known.add(key)
        step.outcome, step.status = data, outcome[1]
        step.ended = step.place or self._position
        if isinstance(data, ev.Cut):  # between two others, and behind those that came before it
            step.ended = self._position + 1 + data.nth - GAP * (1 + data.late)
            if data.asked and step.request is None:
                nth = data.asked_nth - 1 if data.asked_nth else 1
                step.began = self._position + nth - GAP * (data.late + data.asked)
        step.actor, step.at_us = stored.actor, stored.at_us
        if isinstance(data, ev.ModelFailed) and data.family == "cancelled":
            step.outcome, step.status, step.ended = None, "open", 0
        if isinstance(data, ev.ModelCompleted) and data.invalid:
            step.status = "failed"
        if isinstance(data, ev.ToolReconciled) and data.answer == "retry":
            step.status = "retry"

    def _fold_request(self, stored: Event, data: EventData, kind: str, inherited: bool) -> None:
        key = cast(ev.ModelRequested, data).key
        if isinstance(data, ev.ApprovalRequested) and (edit := _EDIT.fullmatch(key)) is not None:
            self.edits[edit[1]] = RepeatedQuestion(int(edit[2]), data.question, inherited)
        before = self._steps.get(key)
        repeats = None if key in self.questions else before  # if it has done nothing, this call is another
        first = None if before is None or before.is_past else before
        self._steps[key] = Recorded(
            key=key,
            kind=kind,
            request=data,
            context=self._contexts.pop(key, None),
            actor=stored.actor,
            at_us=stored.at_us,
            inherited=inherited,
            repeated=before is not None and not before.inherited,
            process=data.process if isinstance(data, ev.ToolRequested) else (),
            owner=_owner(repeats) or stored.stream.id,
            place=0 if first is None else first.place,
            began=self._position if first is None else first.began,
            began_us=stored.at_us if first is None else first.began_us,
            resumed_us=self._resumed_us if first is None else first.resumed_us,
            charged=_count_charges(before, is_another=repeats is not before),
        )


def belongs_elsewhere(step: Recorded) -> bool:
    """Return True if no code asks for a step by itself: a tool's questions come with its call, an undoing
    with the plan that it belongs to; or if it lies on a path that is past.
    """
    if step.is_past:
        return True
    if step.kind == "approval":
        return "/ask/" in step.key or step.key.endswith("/approval")
    if isinstance(step.outcome, ev.CompensationPlanned):
        return step.outcome.asked
    undo = step.request or step.outcome
    return isinstance(undo, ev.ToolRequested | ev.ToolRefused) and bool(undo.undoes)


def question_key(key: str, number: int) -> str:
    """Key of the question number so-and-so that a tool step asks a person."""
    return f"{key}/ask/{number}"


def approval_key(key: str, number: int) -> str:
    """Key of the question number so-and-so about a call: edited arguments that do not fit lead to another."""
    return f"{key}/approval" if number == 1 else f"{key}/edit-{number}/approval"


_EDIT = re.compile(r"(.+)/edit-([0-9]+)/approval")


def _owner(before: Recorded | None) -> str:
    """Return whose side effect a request repeats, if an earlier one is without an outcome."""
    request = before.request if before is not None else None
    once = isinstance(request, ev.ToolRequested) and request.side_effect
    return before.owner if before is not None and once else ""


def _count_charges(before: Recorded | None, *, is_another: bool) -> Counter[int]:
    """Return what a repeated request need not pay for: nothing, if a fork asks anew what its origin asked."""
    if before is None or (before.inherited and (is_another or not _owner(before))):
        return Counter()
    return before.charged


def _outcome(data: EventData) -> tuple[str, str] | None:
    """Kind and status of the step that an event ends; None for an event that ends none."""
    if (known := _OUTCOMES.get(type(data))) is not None:
        return known
    if isinstance(data, ev.StepReceipt):
        return "compute", "completed"
    return (data.kind, "cancelled") if isinstance(data, ev.Cut) else None


def ends_step(data: EventData) -> bool:
    """Return True if a step is done by this event, with or without success."""
    if isinstance(data, ev.ModelFailed):
        return data.family != "cancelled"
    if isinstance(data, ev.ToolReconciled):
        return data.answer != "retry"
    return not isinstance(data, ev.ToolUnresolved) and _outcome(data) is not None


def asks_or_ends(data: EventData) -> bool:
    """Return True if an event is what the run's code does: it asks for a step, or gets an outcome."""
    return type(data) in _REQUESTS or isinstance(data, ev.ContextAssembled) or ends_step(data)


def _asked_key(data: EventData) -> str | None:
    """Return the key of the step that the code asks for by this event; None if it asks for none.

    A computed step has no request: one that failed beside others was asked for before those ended.
    """
    is_computed = _OUTCOMES.get(type(data)) == ("compute", "completed") or isinstance(data, ev.StepReceipt)
    is_asked = (
        type(data) in _REQUESTS or is_computed or isinstance(data, ev.ContextAssembled | ev.ToolRefused)
    )
    if is_asked or (isinstance(data, ev.StepFailed) and not data.beside):
        return cast(ev.ModelRequested, data).key
    return None


_REQUESTS: dict[type[EventData], str] = {
    ev.ModelRequested: "model",
    ev.ToolRequested: "tool",
    ev.ApprovalRequested: "approval",
    ev.WaitStarted: "wait",
}
_OUTCOMES: dict[type[EventData], tuple[str, str]] = {
    ev.ModelCompleted: ("model", "completed"),
    ev.ModelFailed: ("model", "failed"),
    ev.ToolCompleted: ("tool", "completed"),
    ev.ToolRefused: ("tool", "completed"),
    ev.ToolUnresolved: ("tool", "unknown"),
    ev.ToolReconciled: ("tool", "completed"),
    ev.StepCompleted: ("compute", "completed"),
    ev.StepFailed: ("compute", "failed"),
    ev.ContextCompacted: ("compute", "completed"),
    ev.ContextRestored: ("compute", "completed"),
    ev.ApprovalGiven: ("approval", "completed"),
    ev.WaitEnded: ("wait", "completed"),
}


# --------------------------------------------------------------------------- recorded calls
# The rules of a fork, and the recorded calls that it and the runs below it may still return.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A completed tool call of an origin, as a fork may return it."""

    run_id: str
    key: str
    """The step that was dispatched; not that of a fork which returned it."""
    step: str
    """The step of the origin itself, empty for one of a run below it."""
    name: str
    asked: tuple[BlobRef, ...]
    """Canonical arguments: those that were asked for, and those that the tool was given."""
    result: BlobRef | None
    is_error: bool
    artifact: str = ""
    preview: bool = False
    media: tuple[str, ...] = ()


class TakenElsewhere(Exhausted):
    """A recorded call was returned to another run below the fork, by another process. Nobody sees this."""


class RunContent(Protocol):
    """The content that a run has stored."""

    def ref_of(self, value: object) -> BlobRef: ...

    async def load(self, ref: str) -> bytes: ...


class ForkEffects:
    """The rules for one fork and all runs below it, and the recorded calls that they may still return."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        run_id: str,
        *,
        read_unused: Callable[[], Awaitable[list[RecordedCall]]],
        forked: ev.RunForked,
        replaced: Mapping[str, str],
    ) -> None:
        self._store = store
        self._read_unused = read_unused
        self._tenant = tenant
        self.run_id = run_id
        """The fork."""
        self.mode: ev.Effects = forked.effects
        self.folder = forked.folder
        """What ids of its artifacts begin with; empty for old forks, and drift forks."""
        self.replaced = replaced
        """Refs that its artifacts, skills, tools and models stand for, each with the one to use instead."""
        self.lock = asyncio.Lock()
        """Held from the search for a recorded call until its use is durable."""
        self._left: list[RecordedCall] | None = None
        self._seen = 0
        """Position in the log up to which the uses of the fork and of the runs below it are known."""
        self._taken: set[tuple[str, str]] = set()
        """Calls, by run and key, that they were found to have used after the unused ones were read."""

    async def find(
        self, run: RunContent, name: str, arguments: object, *, step: str = ""
    ) -> RecordedCall | None:
        """Return the oldest equal call that is left; with `step`, only that of a step that the run shares.

        Cost: O(recorded tool calls) for the first search, then O(those that are left).
        """
        if self.mode != "recorded":
            return None
        if self._left is None:
            self._seen = await newest_position(self._store)
            self._left = await self._read_unused()
        ref, content = run.ref_of(arguments), encode_json(arguments)
        for call in self._left:
            if call.name != name or (step and call.step != step):
                continue
            if (call.run_id, call.key) in self._taken:
                continue
            with suppress(Erased):  # what is gone equals nothing, and cannot be returned
                # Runs under different data keys have different references to the same content.
                if ref in call.asked or content in [await run.load(one) for one in call.asked]:
                    if call.result is not None:
                        await run.load(call.result)
                    return call
        return None

    def guard(self, call: RecordedCall) -> Callable[[Tx], None]:
        """Return a guard that refuses to use a call which another process has used for this fork meanwhile.

        Errors: `TakenElsewhere`; `find` passes over the call from then on. Cost: O(new events of the log).
        """

        def check(tx: Tx) -> None:
            for stream, row in events_since(tx, self._seen, ev.ToolCompleted.KIND, containing='"recorded"'):
                done = row.decode()
                used = done.recorded if isinstance(done, ev.ToolCompleted) else None
                if used is not None and is_below(tx, self._tenant, stream, self.run_id):
                    self._taken.add((used.run, used.key))
                self._seen = row.position
            if (call.run_id, call.key) in self._taken:
                raise TakenElsewhere(f"call {call.key} of {call.run_id} is used already")

        return check

    def own_id(self, id_: str) -> str:
        """Return the id under which the fork keeps what its origin would call `id_`: never its origin's."""
        if not self.folder or id_.startswith(f"{self.folder}/"):
            return id_
        return bounded_id(f"{self.folder}/{id_}")

    def use(self, call: RecordedCall) -> None:
        """Take a call out, once its use is durable."""
        assert self._left is not None
        self._left.remove(call)
