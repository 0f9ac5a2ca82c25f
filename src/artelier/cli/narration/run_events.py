"""Events of a run as lines for people: what is asked, what comes back, how long it took, what it cost.

Durable events are told on stderr as they happen, while something in this process drives the run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, cast

import msgspec

from artelier.app import Kernel
from artelier.cli import display
from artelier.cli.display import Screen
from artelier.errors import ArtelierError, Erased
from artelier.kernel import events as ev
from artelier.kernel.events import ApprovalGiven, ApprovalRequested, RunStarted
from artelier.kernel.queries.runs import family_in_loop
from artelier.kernel.run.status import KERNEL
from artelier.kernel.tenants.events import PersonalReceived
from artelier.log import Event, EventData, Stream, blob_name, run_stream
from artelier.missions import events as mission_ev
from artelier.missions.handle import TASK
from artelier.missions.task.verdict import read_verdict
from artelier.money import format_usd

# The registry of what each kind of event says, and the memory of a story.

Load = Callable[[str], Awaitable[bytes]]
"""Content of a blob reference."""


class NarrationLine(NamedTuple):
    """One line; `style` is rich's."""

    text: str
    style: str = ""


class Narration:
    """Tells events in order; it remembers when a call began and what a tool is called."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._began: dict[str, int] = {}
        self._tools: dict[str, str] = {}

    async def lines(self, event: Event) -> list[NarrationLine]:
        """Return what an event tells; nothing for those that only keep books."""
        try:
            data = event.decode()
        except ArtelierError:
            return [NarrationLine(f"{event.kind} (of another version)", "dim")]
        teller = TELLERS.get(type(data))
        return [] if teller is None else await teller(self, data, event)

    def remember(self, event: Event) -> None:
        """Take note of a call that is not told, so that its end can be."""
        if event.kind in (ev.ModelRequested.KIND, ev.ToolRequested.KIND):
            fields = event.plain()
            self.begin(fields["key"], event.at_us)
            if "name" in fields:
                self.name_tool(fields["key"], fields["name"])

    async def json(self, ref: str | None) -> Any:
        if ref is None:
            return None
        try:
            return msgspec.json.decode(await self._load(ref))
        except Erased as error:
            return error.mark
        except ArtelierError:
            return None  # damaged: `verify` names it, a listing goes on

    async def fields(self, ref: str | None) -> dict[str, Any]:
        """A stored JSON object; empty for anything else."""
        value = await self.json(ref)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    def begin(self, key: str, at_us: int) -> None:
        if len(self._began) > 1000:  # calls that never ended, of a very long story
            self._began.clear()
            self._tools.clear()
        self._began[key] = at_us

    def took(self, key: str, at_us: int) -> str:
        began = self._began.pop(key, None)
        return "" if began is None else f" in {display.duration(max(0, at_us - began))}"

    def name_tool(self, key: str, name: str) -> None:
        self._tools[key] = name

    def tool(self, key: str) -> str:
        return self._tools.pop(key, key)


Teller = Callable[[Narration, Any, Event], Awaitable[list[NarrationLine]]]
TELLERS: dict[type[EventData], Teller] = {}


def tells(*kinds: type[EventData]) -> Callable[[Teller], Teller]:
    """Register what a kind of event says."""

    def register(teller: Teller) -> Teller:
        for kind in kinds:
            TELLERS[kind] = teller
        return teller

    return register


# Models


@tells(ev.ModelRequested)
async def _model_requested(story: Narration, data: ev.ModelRequested, event: Event) -> list[NarrationLine]:
    story.begin(data.key, event.at_us)
    return [NarrationLine(f"{data.key}  thinking ({data.model})", "dim")]


@tells(ev.ModelCompleted)
async def _model_completed(story: Narration, data: ev.ModelCompleted, event: Event) -> list[NarrationLine]:
    cached = f" ({data.cached_input_tokens:,} cached)" if data.cached_input_tokens else ""
    about = "about " if data.estimated else ""
    cost = "price unknown" if data.unpriced else f"{about}{format_usd(data.cost)} USD"
    told = [
        NarrationLine(
            f"{data.key}  {data.input_tokens:,} tokens in{cached}, {data.output_tokens:,} out,"
            f" {cost}{story.took(data.key, event.at_us)}",
            "cyan",
        )
    ]
    reply = await story.fields(data.reply)
    if reply.get("text") and reply.get("tool_calls"):  # an answer's text is printed at the end
        told.append(NarrationLine(f"{data.key}  “{display.line(str(reply['text']), chars_max=300)}”"))
    return told


@tells(ev.ModelAttempted)
async def _model_attempted(story: Narration, data: ev.ModelAttempted, event: Event) -> list[NarrationLine]:
    wait = display.duration(data.wait_ms * 1000)
    if not data.attempt:
        text = f"{data.key}  no reply came before the process ended{_cost_suffix(data)}; asked again"
        return [NarrationLine(text, "yellow")]
    which = f"try {data.attempt}" + (f" of {data.attempts_max}" if data.attempts_max else "")
    text = f"{data.key}  {which} failed ({data.code}{_cost_suffix(data)}); again in {wait}"
    return [NarrationLine(text, "yellow")]


@tells(ev.ModelFailed)
async def _model_failed(story: Narration, data: ev.ModelFailed, event: Event) -> list[NarrationLine]:
    why = await story.json(data.message)
    said = f": {display.line(str(why), chars_max=300)}" if why else ""
    took = story.took(data.key, event.at_us)
    return [NarrationLine(f"{data.key}  no reply ({data.code}{_cost_suffix(data)}){took}{said}", "red")]


def _cost_suffix(data: ev.ModelAttempted | ev.ModelFailed) -> str:
    """Return what a call without a reply cost all the same, to stand behind its code."""
    if not data.cost:
        return ""
    return f", {'about ' if data.estimated else ''}{format_usd(data.cost)} USD"


# Tools and computed steps


@tells(ev.ToolRequested)
async def _tool_requested(story: Narration, data: ev.ToolRequested, event: Event) -> list[NarrationLine]:
    story.name_tool(data.key, data.name)
    given = display.arguments(await story.json(data.arguments))
    undoes = f"undoes {data.undoes}: " if data.undoes else ""
    return [NarrationLine(f"{data.key}  {undoes}{data.name}({given})", "bold")]


@tells(ev.ToolCompleted)
async def _tool_completed(story: Narration, data: ev.ToolCompleted, event: Event) -> list[NarrationLine]:
    name, result = story.tool(data.key), await story.json(data.result)
    settled = f", settled by its {data.settled_by}" if data.settled_by else ""
    if data.is_error:
        return [NarrationLine(f"{data.key}  {name}: {_complaint(result)}", "red")]
    size = display.size(len(msgspec.json.encode(result)))
    kept = f", kept as {data.artifact}" if data.artifact else ""
    return [NarrationLine(f"{data.key}  {name}: {size} in {data.ms} ms{kept}{settled}", "green")]


@tells(ev.ToolRefused)
async def _tool_refused(story: Narration, data: ev.ToolRefused, event: Event) -> list[NarrationLine]:
    complaint = _complaint(await story.json(data.result))
    return [NarrationLine(f"{data.key}  {data.name} was not called: {complaint}", "red")]


@tells(ev.ToolRetried)
async def _tool_retried(story: Narration, data: ev.ToolRetried, event: Event) -> list[NarrationLine]:
    why = {"probe": ": its probe says that it has not happened", "person": ": a person decided so"}
    again = f"{data.key}  called again with the same idempotency key{why.get(data.by, '')}"
    return [NarrationLine(again, "yellow")]


@tells(ev.ToolCharged)
async def _tool_charged(story: Narration, data: ev.ToolCharged, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"{data.key}  spends {format_usd(data.cost)} USD", "cyan")]


@tells(ev.ToolUnresolved)
async def _tool_unresolved(story: Narration, data: ev.ToolUnresolved, event: Event) -> list[NarrationLine]:
    name = story.tool(data.key)
    return [NarrationLine(f"{data.key}  {name}: what it did is not known ({data.code})", "bold red")]


@tells(ev.ToolReconciled)
async def _tool_reconciled(story: Narration, data: ev.ToolReconciled, event: Event) -> list[NarrationLine]:
    by = "ended after the run" if event.actor == KERNEL else f"settled by {event.actor}"
    return [NarrationLine(f"{data.key}  {by}: {data.answer}", "green")]


@tells(ev.StepFailed)
async def _step_failed(story: Narration, data: ev.StepFailed, event: Event) -> list[NarrationLine]:
    why = display.line(str(await story.json(data.message) or ""))
    return [NarrationLine(f"{data.key}  failed ({data.code}) {why}".rstrip(), "red")]


def _complaint(result: Any) -> str:
    """The message of an error that is a tool's result."""
    try:
        return display.line(str(result["error"]["message"]), chars_max=300)
    except (KeyError, TypeError, IndexError):
        return display.compact(result, chars_max=300)


# People and time


@tells(ev.ApprovalRequested)
async def _approval_requested(
    story: Narration, data: ev.ApprovalRequested, event: Event
) -> list[NarrationLine]:
    asked = await story.fields(data.question)
    question = display.line(str(asked.get("question", "")), chars_max=300)
    [details] = _objects([asked.get("details")]) or [{}]
    given = details.get("arguments")
    about = f"({display.arguments(cast('object', given))})" if isinstance(given, dict) else ""
    return [NarrationLine(f"{data.key}  asks a person: {question}{about}", "bold yellow")]


@tells(ev.ApprovalGiven)
async def _approval_given(story: Narration, data: ev.ApprovalGiven, event: Event) -> list[NarrationLine]:
    answer = await story.fields(data.answer)
    note = f" ({display.line(str(answer['note']))})" if answer.get("note") else ""
    return [NarrationLine(f"{data.key}  {event.actor}: {data.decision}{note}", "yellow")]


@tells(ev.WaitStarted)
async def _wait_started(story: Narration, data: ev.WaitStarted, event: Event) -> list[NarrationLine]:
    what = f"for the signal {data.name}" if data.name else ""
    until = f"until {display.moment(data.until_us)}" if data.until_us else ""
    return [NarrationLine(f"{data.key}  waits {' or '.join(filter(None, (what, until)))}", "yellow")]


@tells(ev.WaitEnded)
async def _wait_ended(story: Narration, data: ev.WaitEnded, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"{data.key}  goes on ({data.outcome})", "yellow")]


@tells(ev.NoteInjected)
async def _note_injected(story: Narration, data: ev.NoteInjected, event: Event) -> list[NarrationLine]:
    note = display.line(str(await story.json(data.text)))
    return [NarrationLine(f"note from {event.actor}: {note}", "yellow")]


@tells(ev.SignalReceived)
async def _signal_received(story: Narration, data: ev.SignalReceived, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"signal {data.name} from {event.actor}", "yellow")]


@tells(ev.CommandRefused)
async def _command_refused(story: Narration, data: ev.CommandRefused, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"a command of {event.actor} was refused: {data.code}", "red")]


# A run's life


@tells(ev.RunStarted)
async def _run_started(story: Narration, data: ev.RunStarted, event: Event) -> list[NarrationLine]:
    by = f" {data.agent}" if data.agent else ""
    return [NarrationLine(f"started{by}{f' with {data.model}' if data.model else ''}", "dim")]


@tells(ev.RunForked)
async def _run_forked(story: Narration, data: ev.RunForked, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"forked from {data.origin} at {data.at}, effects {data.effects}", "dim")]


@tells(ev.RunResumed)
async def _run_resumed(story: Narration, data: ev.RunResumed, event: Event) -> list[NarrationLine]:
    goes = "waits for somebody to drive it" if data.queued else "resumed"
    return [NarrationLine(f"{goes}, for one step" if data.stepping else goes, "dim")]


@tells(ev.RunPaused)
async def _run_paused(story: Narration, data: ev.RunPaused, event: Event) -> list[NarrationLine]:
    note = f": {display.line(str(await story.json(data.note)))}" if data.note else ""
    return [NarrationLine(f"{'stopped' if data.stopped else 'paused'} by {event.actor}{note}", "yellow")]


@tells(ev.RunSuspendedEvent)
async def _run_suspended(story: Narration, data: ev.RunSuspendedEvent, event: Event) -> list[NarrationLine]:
    reason = f" ({display.line(data.reason)})" if data.reason else ""
    return [NarrationLine(f"left as {data.status}{reason}", "dim")]


@tells(ev.RunExhausted)
async def _run_exhausted(story: Narration, data: ev.RunExhausted, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"the {data.unit} limit of {data.scope} is reached", "bold red")]


@tells(ev.RunReopened)
async def _run_reopened(story: Narration, data: ev.RunReopened, event: Event) -> list[NarrationLine]:
    anew = f"; counted anew: {', '.join(data.resets)}" if data.resets else ""
    raised = "".join(f"; {name} {most}" for name, most in sorted(data.limits.items()))
    return [NarrationLine(f"reopened by {event.actor}{display.line(anew + raised)}", "yellow")]


@tells(ev.RunDrifted)
async def _run_drifted(story: Narration, data: ev.RunDrifted, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"its code has changed at step {data.key}: it goes on as {data.fork}", "yellow")]


@tells(ev.RunCompleted)
async def _run_completed(story: Narration, data: ev.RunCompleted, event: Event) -> list[NarrationLine]:
    return [NarrationLine("completed", "bold green")]


@tells(ev.RunFailed)
async def _run_failed(story: Narration, data: ev.RunFailed, event: Event) -> list[NarrationLine]:
    why = await story.json(data.message)
    said = f": {display.line(str(why), chars_max=300)}" if why else ""
    return [NarrationLine(f"failed ({data.reason}){said}", "bold red")]


@tells(ev.RunCancelled)
async def _run_cancelled(story: Narration, data: ev.RunCancelled, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"cancelled by {event.actor}", "bold yellow")]


@tells(ev.PromptDrifted)
async def _prompt_drifted(story: Narration, data: ev.PromptDrifted, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"{data.key}  the prompt drifted in {data.section}", "yellow")]


@tells(ev.VersionRecorded)
async def _version_recorded(story: Narration, data: ev.VersionRecorded, event: Event) -> list[NarrationLine]:
    change = display.line(data.change)
    return [NarrationLine(f"goes by version {data.version} of the change {change}", "yellow")]


@tells(ev.CompensationPlanned)
async def _compensation_planned(
    story: Narration, data: ev.CompensationPlanned, event: Event
) -> list[NarrationLine]:
    plan = await story.fields(data.plan)
    note = f": {display.line(str(plan['note']))}" if plan.get("note") else ""
    count = display.count(len(_objects(plan.get("items"))), "call")
    told = [NarrationLine(f"{count} to be undone, asked by {event.actor}{note}", "bold yellow")]
    for one in _objects(plan.get("not_undone")):
        stays = display.line(f"{one.get('key')} stays ({one.get('why')})")
        told.append(NarrationLine(f"  {stays}", "yellow"))
    return told


def _objects(value: object) -> list[dict[str, Any]]:
    """The objects of a JSON list; of anything else, none."""
    many = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", one) for one in many if isinstance(one, dict)]


@tells(PersonalReceived)
async def _personal_received(story: Narration, data: PersonalReceived, event: Event) -> list[NarrationLine]:
    shown = display.line(", ".join(data.placeholders), chars_max=200)
    return [NarrationLine(f"now knows {shown}", "dim")]


@tells(ev.ContextCompacted)
async def _context_compacted(
    story: Narration, data: ev.ContextCompacted, event: Event
) -> list[NarrationLine]:
    return [NarrationLine(f"{data.key}  messages {data.start} to {data.end} become a summary", "dim")]


@tells(ev.ContextRestored)
async def _context_restored(story: Narration, data: ev.ContextRestored, event: Event) -> list[NarrationLine]:
    return [NarrationLine(f"{data.key}  messages from {data.start} on are shown again", "dim")]


@tells(ev.ToolsChanged)
async def _tools_changed(story: Narration, data: ev.ToolsChanged, event: Event) -> list[NarrationLine]:
    return [NarrationLine("its tools changed", "dim")]


@tells(ev.LimitSet)
async def _limit_set(story: Narration, data: ev.LimitSet, event: Event) -> list[NarrationLine]:
    return [NarrationLine("a limit was set", "dim")]


# Events of missions and tasks as lines: plans, decisions, what came of them, verdicts, ends.

GOAL_CHARS = 140


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """A plan as people read it: each task with its agent, what it waits for, and what it must fulfil."""
    names = {str(agent.get("slug")): str(agent.get("name")) for agent in plan.get("agents", ())}
    lines: list[str] = []
    for task in plan.get("tasks", ()):
        after = f", after {', '.join(task['depends_on'])}" if task.get("depends_on") else ""
        agent = names.get(str(task.get("agent")), str(task.get("agent")))
        most = display.count(int(task.get("max_iterations") or 0), "iteration")
        lines.append(
            f"{task.get('slug')}  {agent}{after}, at most {most}:"
            f" {display.line(str(task.get('goal')), chars_max=GOAL_CHARS)}"
        )
        criteria = display.line(str(task.get("success_criteria")), chars_max=GOAL_CHARS)
        lines.append(f"    done when: {criteria}")
    return lines


def estimate_line(calls: int, cost_microusd: int | None, is_limit: bool = False) -> str:
    """Return what a plan takes: about that, or at most that if it is enforced."""
    cost = "price unknown" if cost_microusd is None else f"{format_usd(cost_microusd)} USD"
    if is_limit and cost_microusd is not None:
        cost = f"at most {cost}"
    return f"about {display.count(calls, 'model call')}, {cost}"


@tells(mission_ev.MissionPlanned)
async def _narrate_planned(
    story: Narration, data: mission_ev.MissionPlanned, event: Event
) -> list[NarrationLine]:
    plan = await story.fields(data.plan)
    agents, tasks = len(plan.get("agents", ())), len(plan.get("tasks", ()))
    made = f"planned  {display.count(agents, 'agent')}, {display.count(tasks, 'task')}"
    told = [NarrationLine(f"{made}: {estimate_line(data.calls, data.cost, data.is_limit)}", "bold")]
    return told + [NarrationLine(f"  {line}") for line in plan_lines(plan)]


@tells(mission_ev.MissionLaunched)
async def _narrate_launched(
    story: Narration, data: mission_ev.MissionLaunched, event: Event
) -> list[NarrationLine]:
    edited = " as it was edited" if data.edited else ""
    told = [NarrationLine(f"launched{edited}", "bold green")]
    if data.edited:
        plan = await story.fields(data.plan)
        told += [NarrationLine(f"  {line}") for line in plan_lines(plan)]
    return told


@tells(mission_ev.TaskBlocked)
async def _narrate_blocked(
    story: Narration, data: mission_ev.TaskBlocked, event: Event
) -> list[NarrationLine]:
    return [NarrationLine(f"{data.task} is blocked ({data.reason}: {data.by})", "yellow")]


@tells(mission_ev.TaskBegun)
async def _narrate_begun(story: Narration, data: mission_ev.TaskBegun, event: Event) -> list[NarrationLine]:
    reads = f", with {', '.join(data.inputs)}" if data.inputs else ""
    return [NarrationLine(f"begun by {data.agent}{reads}", "bold")]


@tells(mission_ev.DecisionTaken)
async def _narrate_decision(
    story: Narration, data: mission_ev.DecisionTaken, event: Event
) -> list[NarrationLine]:
    decision = await story.fields(data.decision)
    what = data.action + (f" {data.tool}" if data.tool else "")
    if target := decision.get("target"):
        what += f" “{display.line(str(target), chars_max=80)}”"
    why = display.line(str(decision.get("reason") or ""), chars_max=200)
    stuck = ", again" if data.repeats else ""
    return [NarrationLine(f"{data.iteration}. {what}{stuck}{f': {why}' if why else ''}", "bold")]


@tells(mission_ev.DecisionInvalid)
async def _narrate_invalid_decision(
    story: Narration, data: mission_ev.DecisionInvalid, event: Event
) -> list[NarrationLine]:
    why = display.line(str(await story.json(data.mistakes) or ""), chars_max=300)
    return [NarrationLine(f"{data.iteration}. no decision: {why}", "red")]


@tells(mission_ev.DecisionExecuted)
async def _narrate_execution(
    story: Narration, data: mission_ev.DecisionExecuted, event: Event
) -> list[NarrationLine]:
    if data.artifact:
        return [NarrationLine(f"{data.iteration}. wrote {data.artifact}", "green")]
    if data.is_error:
        return [NarrationLine(f"{data.iteration}. {data.action} failed ({data.code})", "red")]
    return []


@tells(mission_ev.TaskEvaluated)
async def _narrate_evaluation(
    story: Narration, data: mission_ev.TaskEvaluated, event: Event
) -> list[NarrationLine]:
    if data.passed:
        return [NarrationLine(f"{data.iteration}. evaluated: passed", "green")]
    why = f" (void: {data.void})" if data.void else ""
    missing = _missing(await story.json(data.verdict))
    return [NarrationLine(f"{data.iteration}. evaluated: not passed{why}{missing}", "yellow")]


def _missing(stored: object) -> str:
    """Return what broke a rule, else which check did not pass, else what the first criterion lacks."""
    if (verdict := read_verdict(stored)) is None:
        return ""
    for fault in verdict.faults:
        said = f"{fault.ref} {'; '.join(fault.found)}"
        return f": {display.line(said, chars_max=300)}"
    for check in verdict.checks:
        if not check.passed:
            return f": {display.line(f'check {check.kind}: {check.found}', chars_max=300)}"
    for one in verdict.criteria:
        if not one.met:
            return f": {display.line(one.missing or one.criterion, chars_max=200)}"
    return ""


@tells(mission_ev.TaskEnded)
async def _narrate_ended(story: Narration, data: mission_ev.TaskEnded, event: Event) -> list[NarrationLine]:
    after = display.count(data.iterations, "iteration")
    if data.status == "done":
        return [NarrationLine(f"done after {after}: {', '.join(data.outputs)}", "bold green")]
    return [NarrationLine(f"{data.status} after {after} ({data.reason})", "bold red")]


__all__ = [
    "GOAL_CHARS",
    "TELLERS",
    "Load",
    "Narration",
    "NarrationLine",
    "Teller",
    "estimate_line",
    "plan_lines",
    "tells",
]


RECALLED = 200
"""Events before the beginning that are looked through for calls in flight."""

HELD_MAX = 1000
"""Lines kept back while a question stands on the terminal; older ones are left out."""


class Watch:
    """`async with Watch(...)` tells what a run does from now on, and of a mission what its tasks do.

    `asked(run, step)` and `answered(run, step)` are called when a question to a person is recorded, and its
    answer; `asked` tells whether it will show the question itself.
    """

    def __init__(
        self,
        kernel: Kernel,
        tenant: str,
        run_id: str,
        screen: Screen,
        *,
        asked: Callable[[str, str], bool] = lambda run, step: False,
        answered: Callable[[str, str], None] = lambda run, step: None,
    ) -> None:
        self._kernel = kernel
        self._tenant = tenant
        self._run_id = run_id
        self._screen = screen
        self._asked = asked
        self._answered = answered
        self._stories: dict[Stream, Narration] = {}
        """By stream: that of the run, and those of the tasks below it."""
        self._position = 0
        self._held: deque[NarrationLine] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watch:
        store = self._kernel.store
        self._position = (await store.root())[0]
        for run in await tasks_below(self._kernel, self._tenant, self._run_id):
            stream, story = run_stream(self._tenant, run), self._follows(run)
            head, _ = await store.head(stream)
            for event in await store.read(stream, after=max(0, head - RECALLED)):
                story.remember(event)
        self._task = asyncio.create_task(self._follow(forever=True))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self.release()
        await self._follow(forever=False)  # what was committed since the task's last look

    def hold(self) -> None:
        """Keep lines back: somebody is typing."""
        self._held = self._held or deque(maxlen=HELD_MAX)

    def release(self) -> None:
        """Show what was kept back."""
        held, self._held = self._held, None
        for line in held or ():
            self._screen.note(line.text, line.style)

    async def _follow(self, *, forever: bool) -> None:
        events = self._kernel.events(after=self._position, follow=forever)
        async with contextlib.aclosing(events):
            async for event in events:
                if event.kind == RunStarted.KIND and self._is_task_below(event):
                    self._follows(event.stream.id)
                if event.stream in self._stories:
                    await self._tell(event)
                self._position = event.position

    async def _tell(self, event: Event) -> None:
        run = event.stream.id
        if event.kind == ApprovalRequested.KIND and self._asked(run, event.plain()["key"]):
            return
        label = "" if run == self._run_id else f"{run.removeprefix(f'{self._run_id}/')}  "
        for told in await self._stories[event.stream].lines(event):
            line = NarrationLine(label + told.text, told.style)
            if self._held is None:
                self._screen.note(line.text, line.style)
            else:
                self._held.append(line)
        if event.kind == ApprovalGiven.KIND:
            self._answered(run, event.plain()["key"])

    def _follows(self, run: str) -> Narration:
        kernel, tenant = self._kernel, self._tenant
        story = Narration(lambda ref: kernel.store.blob(tenant, blob_name(ref)))
        return self._stories.setdefault(run_stream(tenant, run), story)

    def _is_task_below(self, event: Event) -> bool:
        started = event.plain()
        parent = started.get("parent")
        if event.stream.tenant != self._tenant or not parent or started.get("loop") != TASK:
            return False
        return run_stream(self._tenant, parent) in self._stories


async def tasks_below(kernel: Kernel, tenant: str, run_id: str) -> list[str]:
    """The run itself, and the runs of tasks below it."""
    return await family_in_loop(kernel.store, tenant, run_id, TASK, limit=1000)
