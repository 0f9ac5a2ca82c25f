"""The request and outcome of one step, in a form in which two steps can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from artelier.kernel import events as ev
from artelier.log import Event, EventData

_KEYED = (
    ev.ModelRequested,
    ev.ModelCompleted,
    ev.ModelFailed,
    ev.ToolRequested,
    ev.ToolRefused,
    ev.ToolCompleted,
    ev.ToolUnresolved,
    ev.ToolReconciled,
    ev.StepCompleted,
    ev.StepFailed,
    ev.ApprovalRequested,
    ev.ApprovalGiven,
    ev.WaitStarted,
    ev.WaitEnded,
    ev.ContextCompacted,
    ev.ContextRestored,
    ev.StepReceipt,
    ev.StepCancelled,
    ev.StepTimedOut,
)
"""Events that belong to a step, other than notices on its way."""


def keyed_kinds() -> tuple[str, ...]:
    """Kinds of these events, receipts of other packages included."""
    receipts = ev.StepReceipt.__subclasses__()
    return tuple(cls.KIND for cls in (*_KEYED, *receipts) if cls is not ev.StepReceipt)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The end of a step: a label, the content, and the code of an error."""

    label: str = "open"
    ref: str | None = None
    code: str = ""

    def __str__(self) -> str:
        return f"{self.label} ({self.code})" if self.code else self.label


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """A step of one run."""

    key: str
    kind: str
    seq: int
    """Of its request, in the stream of `run_id`."""
    run_id: str
    """The run that asked: an origin of the one that was looked at, or itself."""
    request: EventData
    context: ev.ContextAssembled | None = None
    outcome: StepOutcome = field(default_factory=StepOutcome)

    def begins_at(self, stored: Event, *, since: int) -> bool:
        """Return True if an event is the first of this step after `since` in its stream."""
        elsewhere = stored.stream.id != self.run_id or self.seq <= since
        return elsewhere or stored.seq == self.seq

    @property
    def model(self) -> str:
        return self.request.model if isinstance(self.request, ev.ModelRequested) else ""

    @property
    def tool(self) -> str:
        return self.request.name if isinstance(self.request, ev.ToolRequested | ev.ToolRefused) else ""

    @property
    def arguments(self) -> str | None:
        """A reference to the request: a tool's arguments, or the question to a person."""
        if isinstance(self.request, ev.ToolRequested | ev.ToolRefused):
            return self.request.arguments
        return self.request.question if isinstance(self.request, ev.ApprovalRequested) else None


def key_of_step(data: EventData) -> str | None:
    """The key of the step that an event belongs to."""
    return data.key if isinstance(data, _KEYED) else None


def outcome_of(data: EventData | None) -> StepOutcome:
    """The outcome that an event says."""
    if isinstance(data, ev.ModelCompleted):
        return StepOutcome("completed", data.reply)
    if isinstance(data, ev.ModelFailed | ev.StepFailed):
        return StepOutcome("failed", data.message, data.code)
    if isinstance(data, ev.Cut):
        label = "timed_out" if isinstance(data, ev.StepTimedOut) else "cancelled"
        return StepOutcome(label, data.came)
    if isinstance(data, ev.ToolCompleted):
        return StepOutcome("error" if data.is_error else "completed", data.result)
    if isinstance(data, ev.ToolRefused):
        return StepOutcome("refused", data.result, data.code)
    if isinstance(data, ev.ToolUnresolved):
        return StepOutcome("unknown", data.probe_error, data.code)
    if isinstance(data, ev.ToolReconciled):
        labels = {"succeeded": "completed", "failed": "error"}
        return StepOutcome(labels.get(data.answer, "open"), data.result)
    if isinstance(data, ev.StepCompleted):
        return StepOutcome("completed", data.result)
    if isinstance(data, ev.ContextCompacted | ev.ContextRestored):
        return StepOutcome("completed", data.summary)
    if isinstance(data, ev.StepReceipt):
        return StepOutcome("completed")
    if isinstance(data, ev.ApprovalGiven):
        return StepOutcome(data.decision, data.answer)
    if isinstance(data, ev.WaitEnded):
        return StepOutcome(data.outcome, data.data)
    return StepOutcome()
