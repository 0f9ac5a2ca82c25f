"""Every event of runs, their control streams and tenants: what happened, in typed data.

Text of people, models and tools is behind a `BlobRef`; what stands here inline is names, numbers and hashes.
The table in `docs/events.md` is generated from these classes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from artelier.kernel.prompt.part_records import NUMBER_MAX as NUMBER_MAX
from artelier.kernel.prompt.part_records import Added as Added
from artelier.kernel.prompt.part_records import DroppedRecord as DroppedRecord
from artelier.kernel.prompt.part_records import MessageEntry as MessageEntry
from artelier.kernel.prompt.part_records import PartRecord as PartRecord
from artelier.kernel.prompt.part_records import Sent
from artelier.kernel.tenants.events import ImportedRun as ImportedRun
from artelier.kernel.tenants.events import (
    ImportSettled,
    RunsImported,
    TenantCreated,
    TenantDeclared,
    TenantUpdated,
)
from artelier.kernel.tool_calls.question_events import ApprovalHeard as ApprovalHeard
from artelier.kernel.tool_calls.question_events import ApprovalRequested as ApprovalRequested
from artelier.kernel.tool_calls.question_events import ToolQuestionLeft as ToolQuestionLeft
from artelier.ledger import CappingEvent, Counting, Moving
from artelier.log import BlobRef, EventData, event, upcaster

Effects = Literal["recorded", "stub", "live"]
EFFECTS: tuple[Effects, ...] = ("recorded", "stub", "live")
"""What a fork does where its code asks for a side effect."""


class CommandEffect(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """An event that a command led to. `command` is the command's seq in the control stream, 0 if none."""

    command: int = 0
    queued: bool = False
    """True if nobody drives the run at that moment, so that it waits for a worker or `resume`."""


class StepReceipt(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a computed step that is an event of its own kind (see `Run.receipt`)."""

    key: str


# A run's life


@event("run.started", names_messages=True)
class RunStarted(Counting, frozen=True, kw_only=True, omit_defaults=True):
    """A run begins. `loop` names the built-in loop that drives it; empty for hand-written code. `scopes` are
    those in which it counts what it uses, beside its own, its ancestors' and the tenant's."""

    loop: str = ""
    agent: str = ""
    model: str = ""
    goal: BlobRef | None = None
    settings: BlobRef | None = None
    """JSON that a built-in loop needs to drive the run again in another process."""
    tools: BlobRef | None = None
    """JSON list of `{name, hash, schema}`: the tools that this run sees."""
    params: BlobRef | None = None
    """JSON of the parameters of its model calls, for those that have none of their own."""
    grants: tuple[str, ...] = ()
    parent: str | None = None
    parent_step: str | None = None
    replay: str = "strict"
    code: str = ""
    """Version of Artelier that started it."""
    key_id: int | None = None
    """The row of `keys` under which its content is stored, if it is a subject's; else the tenant's."""
    part_key_id: int | None = None
    """The row of `keys` of its record alone, below that of its subject or its tenant; None if it has none."""
    pii_rules: int = 1
    """How values are looked for where personal data is replaced: 2 also where they are encoded or parted."""


@event("run.forked", version=2)
class RunForked(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A run begins as a branch of another: its history is the origin's up to and including `at`.

    Version 2 brought `effects`: a worker that does not know it must not drive the run.
    """

    origin: str
    at: int
    effects: Effects
    """`recorded`: a side-effecting call returns what an equal one of the origin did, any other waits for a
    person; `stub`: it is refused with a readable error; `live`: it acts. It holds for all runs below it."""
    changes: BlobRef | None = None
    """JSON of what differs from the origin (`model`, refs, steering)."""
    drift: bool = False
    """True if the origin goes on as this run, under replay policy `fork_on_drift`."""
    key_id: int | None = None
    """As in `run.started`: the origin's."""
    folder: str = ""
    """What ids of artifacts begin with that this run and those below it write."""


@upcaster("run.forked", 1)
def _forked_acts(data: dict[str, Any]) -> dict[str, Any]:
    """Before version 2 every fork acted."""
    return {**data, "effects": "live"}


@event("run.drifted")
class RunDrifted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The run's code asks for something else than was recorded: it goes on as a fork, and this run ends."""

    fork: str
    key: str
    """The step that differs, and what of it first."""
    section: str = ""


@event("run.resumed")
class RunResumed(CommandEffect, frozen=True, kw_only=True, omit_defaults=True):
    """A run goes on: after a pause, a wait in another process, or a crash. `stepping` tells that it pauses
    again after its next cycle, or after its next step if no built-in loop drives it."""

    stepping: bool = False


@event("run.paused")
class RunPaused(CommandEffect, frozen=True, kw_only=True, omit_defaults=True):
    """A person paused the run. `stopped` tells that the call in flight was cancelled as well."""

    stopped: bool = False
    note: BlobRef | None = None


@event("run.suspended")
class RunSuspendedEvent(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The process that drove the run left it in a resumable status."""

    status: str
    reason: str = ""
    unheard: tuple[str, ...] = ()
    """Questions of tools, asked before they act, whose answer came when the tool had left them already."""


@event("run.exhausted")
class RunExhausted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A limit was reached before anything was spent; the run goes on when the limit is raised."""

    scope: str
    unit: str
    reason: str = ""
    asked: int = 0
    """The most that the refused step could have used; 0 if it was refused whatever it would use."""


@event("run.completed")
class RunCompleted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The run reached its end."""

    result: BlobRef | None = None
    """Canonical JSON of the result."""


@event("run.failed")
class RunFailed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The run ended without success; `retry` reopens it."""

    reason: str
    """A stable code: an error's code, `max_iterations`, `stuck`, `deadline`, ..."""
    message: BlobRef | None = None
    result: BlobRef | None = None
    steps: tuple[str, ...] = ()
    """Of code of one's own: steps whose errors its failure is, holds or comes from. Empty in older ones."""


@event("run.cancelled")
class RunCancelled(CommandEffect, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody ended the run for good."""

    note: BlobRef | None = None


@event("run.reopened")
class RunReopened(CommandEffect, frozen=True, kw_only=True, omit_defaults=True):
    """A failed run may go on: the steps whose failure ended it are executed again when asked for, and those
    that its code cancelled because of it."""

    steps: tuple[str, ...] = ()
    """Keys of those steps. A failure that the run's code has handled stays recorded."""
    cycle: int = 0
    """Of a built-in loop: the completed cycles behind which `resets` and `limits` hold."""
    resets: tuple[str, ...] = ()
    """Counts of the loop that begin anew: `iterations`, `repeated` (equal calls), `repairs` (of replies)."""
    limits: dict[str, int] = {}
    """Raised limits of the loop: `max_iterations`, counted from the run's beginning; `stuck_after`."""
    in_order: bool = False
    """True if the new outcome of a step has its own place in the order, where nothing but cancellations
    stands behind its failure. Else, and in older histories, it takes the place of the failure."""
    cleaned_up: bool = False
    """True if what the code has cancelled behind the failure is asked again also where it then took steps of
    its own to clean up, which are done. False in older histories."""
    from_failure: bool = False
    """True if the path behind the failure is past: nobody misses what the code began there, cleaning up or
    not, and what was cut off behind it is asked again. False in older histories."""


@event("command.refused")
class CommandRefused(CommandEffect, frozen=True, kw_only=True, omit_defaults=True):
    """A command had no effect; `code` says why."""

    code: str


@event("note.injected")
class NoteInjected(CommandEffect, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody left the run a note, which it reads at its next cycle."""

    text: BlobRef


@event("prompt.drifted")
class PromptDrifted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A step asked on replay for something else than was recorded, and the policy allows it."""

    key: str
    section: str


@event("tools.changed")
class ToolsChanged(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The run sees other tools than were pinned before."""

    tools: BlobRef


@event("limit.set")
class LimitSet(CappingEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A cap of this run, set at its start or by a command; in a tenant's stream, that of a shared scope."""

    command: int = 0


# Prompts and models


@event("cycle.completed", names_messages=True)
class CycleCompleted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A built-in loop ended a cycle; `state` is all it needs to go on, of bounded size."""

    cycle: int
    state: dict[str, Any] = {}
    added: tuple[Added, ...] = ()
    """Messages that the cycle brought; so a resume finds all that the state counts."""


@event("context.assembled", names_messages=True)
class ContextAssembled(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The manifest of one prompt: together with blob and message rows it renders the same bytes again."""

    key: str
    head: BlobRef
    """JSON of `{model, params, tools, output_schema, parts}`: what stays equal from step to step."""
    parts: tuple[PartRecord, ...] = ()
    """The parts after the head's."""
    added: tuple[Added, ...] = ()
    dropped: tuple[DroppedRecord, ...] = ()
    prices: tuple[str, ...] = ()
    """What was paid for parts of it, as `bob -> alice 2 for handbook@7`; other events move the money."""
    pii: dict[str, int] = {}
    request: str
    """`h:` and the keyed hash of the canonical request."""


@event("model.requested")
class ModelRequested(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A model is about to be called. Money that it may cost is held."""

    key: str
    model: str
    input_tokens: int = 0
    """Of the input, by estimate; 0 where nothing is held."""
    input_cost: int = 0
    """Micro-dollars of those tokens: what is billed if no usage ever comes."""


@event("model.attempted")
class ModelAttempted(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A try failed in a passing way; another follows after `wait_ms`. The hold stays whole for that one."""

    key: str
    attempt: int
    code: str
    wait_ms: int
    cost: int = 0
    """Micro-dollars that the provider bills for this try all the same."""
    estimated: bool = False
    """True if that is what its input costs by estimate, since no usage came."""
    suspicious: bool = False
    """True if the provider claims more than ten times the tokens that the request allows."""
    model: str = ""
    """Which model was tried; empty in events of 0.1."""
    attempts_max: int = 0
    """The tries that the policy allows; 0 in events of earlier versions, and of a call cut off by a crash."""


@event("model.completed")
class ModelCompleted(Sent, frozen=True, kw_only=True, omit_defaults=True):
    """A model replied; what it cost is paid and the rest of the hold given back."""

    SETTLES: ClassVar[bool] = True

    key: str
    reply: BlobRef
    input_tokens: int = 0
    """Includes `cached_input_tokens` and `cache_write_input_tokens`."""
    cached_input_tokens: int = 0
    """Read from the provider's prompt cache."""
    cache_write_input_tokens: int = 0
    """Written to the provider's prompt cache."""
    output_tokens: int = 0
    """Includes `reasoning_tokens`."""
    reasoning_tokens: int = 0
    cost: int = 0
    """Micro-dollars."""
    invalid: bool = False
    """True if it did not fit the schema that was asked for: a failure, whose reply is kept."""
    misfit: BlobRef | None = None
    """JSON text that says what did not fit."""
    unpriced: bool = False
    """True if nobody knows the price and the tenant allows that; `cost` is then no amount."""
    estimated: bool = False
    """True if its provider did not say what was used, or had no time to: tokens and cost are an estimate."""
    suspicious: bool = False
    """True if the provider claims more than ten times the tokens that the request allows."""


@event("model.failed")
class ModelFailed(Sent, frozen=True, kw_only=True, omit_defaults=True):
    """A model step ended without a reply. `family`: transient, permanent, policy, timeout, cancelled."""

    SETTLES: ClassVar[bool] = True

    key: str
    family: str
    code: str
    message: BlobRef | None = None
    cost: int = 0
    """Micro-dollars that the provider bills all the same."""
    estimated: bool = False
    """True if that is what its input (and what came of a stream) costs by estimate, since no usage came."""
    suspicious: bool = False
    """True if the provider claims more than ten times the tokens that the request allows."""


class Cut(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A step that its code did not wait for to the end, and went on."""

    key: str
    kind: str
    """`model`, `tool`, `compute`, `wait` or `approval`."""
    name: str = ""
    """Of a computed step."""
    came: BlobRef | None = None
    """JSON list of the pieces that the reader of a stream was given."""
    cost: int = 0
    """Micro-dollars that the `model.failed` before it has billed."""
    left: bool = False
    """True if the reader left the stream."""
    raised: bool = False
    """True if nobody cancelled the step: it raised `CancelledError` itself."""
    late: int = 0
    """Requests and outcomes between the cancellation and this event, which waits until the code goes on."""
    nth: int = 0
    """Cancellations before it at the same place."""
    asked: int = 0
    """Of a computed step: one more than requests and outcomes while it was at work; 0 if unknown."""
    asked_nth: int = 0
    """Of a computed step: one more than the cancellations before it where it was asked for; 0 if unknown."""


@event("step.cancelled")
class StepCancelled(Cut, frozen=True, kw_only=True, omit_defaults=True):
    """The code cancelled a step and went on; on replay it waits until the code cancels it again."""


@event("step.timed_out")
class StepTimedOut(Cut, frozen=True, kw_only=True, omit_defaults=True):
    """The time of a `run.timeout` was up: the timeout itself (kind `timeout`), or a step inside of it."""


# Tools and computed steps


@event("tool.requested")
class ToolRequested(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A tool is about to be entered. A side-effecting one is entered only when this is durable."""

    key: str
    name: str
    arguments: BlobRef
    """What the tool is given."""
    asked: BlobRef | None = None
    """What was asked for, if a person changed the arguments."""
    side_effect: bool = False
    """True if it must not be repeated unasked."""
    undoes: str = ""
    """Key of the completed step that this call undoes with the tool's `compensate`; empty for others."""
    undoes_in: str = ""
    """The run that has that step, if it is another one: this run goes on in its stead."""
    process: tuple[int, ...] = ()
    """The process that enters a side effect, as numbers that name no machine; empty in older histories."""


@event("tool.refused")
class ToolRefused(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A call was not dispatched: unknown tool, bad arguments, no grant. The result is a readable error."""

    key: str
    name: str
    code: str
    result: BlobRef
    arguments: BlobRef | None = None
    """What was asked for; None if it has no form as JSON, and in histories of before it was kept."""
    undoes: str = ""
    """As in `tool.requested`."""


class RecordedStep(msgspec.Struct, frozen=True):
    """A tool step of another run."""

    run: str
    key: str


@event("tool.completed")
class ToolCompleted(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A tool's outcome is known."""

    key: str
    result: BlobRef
    is_error: bool = False
    ms: int = 0
    artifact: str = ""
    """Ref of the artifact that holds a large result."""
    preview: bool = False
    """True if models were shown a preview of it although no artifact holds it."""
    media: tuple[str, ...] = ()
    """Refs of the artifacts that hold the images, sounds, PDFs and texts of the result, in the order of its
    `attachments`; an empty one where no artifact does."""
    settled_by: str = ""
    """`probe` if the outcome was found by asking the outside system, `record` if a fork returned that of a
    call of its origin and nothing was dispatched."""
    recorded: RecordedStep | None = None
    """The call that was returned."""


@event("tool.retried", version=2)
class ToolRetried(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A tool is entered again with the same idempotency key."""

    key: str
    by: str = ""
    """`kernel`: it may be repeated; `person`: somebody decided so; `probe`: it says that the call has not
    happened. Empty in histories of version 1."""
    process: tuple[int, ...] = ()
    """As in `tool.requested`: the process that enters it now."""


@upcaster("tool.retried", 1)
def _retried_by_whom(data: dict[str, Any]) -> dict[str, Any]:
    return data


@event("tool.charged")
class ToolCharged(Moving, frozen=True, kw_only=True, omit_defaults=True):
    """A tool spends real money of the run's budget."""

    key: str
    cost: int
    once: bool = False
    """True if it pays for the same spend of later tries, too. False in older histories: each was charged."""


@event("tool.unresolved")
class ToolUnresolved(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a side-effecting call is not known; the run waits until somebody settles it."""

    key: str
    code: str
    probe_error: BlobRef | None = None
    """Why the tool's probe could not tell, if it raised or its answer cannot count."""


@event("tool.reconciled")
class ToolReconciled(CommandEffect, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody settled an unknown outcome: `succeeded`, `failed` (with a result) or `retry`."""

    key: str
    answer: str
    result: BlobRef | None = None


@event("step.completed")
class StepCompleted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A computed value, journaled."""

    key: str
    name: str = ""
    result: BlobRef
    took: int = 0
    """Seq of the newest injected note that this step has handed to the run's code."""
    beside: bool = False
    """True if another step was at work at the same time: a replay keeps their order."""


@event("step.failed")
class StepFailed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A computation raised an error, which a replay raises again."""

    key: str
    name: str = ""
    code: str
    message: BlobRef | None = None
    beside: bool = False
    """As in `step.completed`."""


@event("compensation.planned")
class CompensationPlanned(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """The effects of the run are to be undone, the newest first. The undoing follows, call by call."""

    plan: BlobRef
    """JSON of `{items, not_undone, upto, note}`; an item is a step, with the key of its undoing, or a run."""
    asked: bool = False
    """True if a person asked for it after the run had ended; False if the run's code did."""


@event("version.recorded")
class VersionRecorded(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The version of a change in its code that the run goes by, from here on and whenever it is resumed."""

    change: str
    version: int


# Conversations that became too long


@event("context.compacted")
class ContextCompacted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A summary stands from here on for messages `start..end`, which stay in the log. The receipt."""

    key: str
    conversation: str
    start: int
    end: int
    """Numbers of the first and last message of the block, inclusive."""
    summary: BlobRef
    """JSON text of all that the summary message says, earlier summaries included."""
    previous: BlobRef | None = None
    """The summary that stood before."""
    how: str
    """`model`, or `extract` if no model gave a summary."""
    model: str = ""
    """Who was asked for the summary, whether or not one came."""
    failure: str = ""
    """Code of the error for which the extract stands in."""
    policy: BlobRef
    """JSON of the strategy's settings."""
    why: str = ""
    """`messages`, `fraction`, `too_long` (the provider said so) or `asked`."""
    tokens_before: int = 0
    """Estimate of the whole prompt."""
    tokens_after: int = 0
    loss: BlobRef | None = None
    """JSON of what was in the block and is in neither the summary nor memory."""
    lost: int = 0
    trust: str = "trusted"


@event("context.restored")
class ContextRestored(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A compaction was undone: the messages it stood for are shown again."""

    key: str
    compaction: str
    """Key of the receipt that this undoes."""
    start: int
    summary: BlobRef | None = None
    """The summary that stands again, if there was an earlier one."""


# People and time


@event("approval.given", names_messages=True)
class ApprovalGiven(CommandEffect, frozen=True, kw_only=True, omit_defaults=True):
    """An answer to one approval, by a person or by the clock (`expired`)."""

    key: str
    decision: str
    """`approve`, `deny`, `edit` or `expired`."""
    answer: BlobRef | None = None
    """JSON of `{arguments, note, attachments}`: the last are media parts, if there are any."""


@event("wait.started")
class WaitStarted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The run waits for a time, or for a signal with a name (or both, whichever comes first)."""

    key: str
    name: str = ""
    until_us: int | None = None


@event("wait.ended")
class WaitEnded(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A wait is over."""

    key: str
    outcome: str
    """`elapsed`, `signalled` or `timeout`."""
    signal: int = 0
    """Seq of the `signal.received` that ended it."""
    data: BlobRef | None = None


@event("signal.received")
class SignalReceived(CommandEffect, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody handed the run data under a name."""

    name: str
    data: BlobRef | None = None


@event("command.given")
class CommandGiven(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A command to a run, in its control stream."""

    verb: str
    """`pause resume step cancel stop inject answer signal reconcile retry limit`."""
    key: str = ""
    """The step or name that it is about."""
    choice: str = ""
    payload: BlobRef | None = None
    """JSON; its shape depends on the verb."""
    request: str = ""
    """Names the request of another program that asked for it, which may come again."""


MOVING: list[type[Moving]] = [
    ModelRequested,
    ModelAttempted,
    ModelCompleted,
    ModelFailed,
    ToolRequested,
    ToolCompleted,
    ToolCharged,
    TenantCreated,
    TenantUpdated,
    RunsImported,
    ImportSettled,
]
"""Kinds that the ledger's view must see."""

BILLING: tuple[str, ...] = tuple(cls.KIND for cls in MOVING if "cost" in cls.__struct_fields__)
"""Kinds that say what a provider or a tool has billed, as their `cost`."""

CAPPING: list[type[CappingEvent]] = [LimitSet]
COUNTING: list[type[Counting]] = [RunStarted]

OF_TENANTS: tuple[type[EventData], ...] = (
    TenantCreated,
    TenantUpdated,
    TenantDeclared,
    RunsImported,
    ImportSettled,
)
"""Kinds of the stream of a tenant, beside the caps of shared scopes."""
