"""The events of missions: decisions in the stream of a task's run, the plan in the stream of a mission.

A task's run has the task's id, so its receipts need not name it. Texts (decisions, verdicts, plans) are in
blobs; names, numbers and refs are inline.
"""

from __future__ import annotations

from artelier.kernel.events import StepReceipt
from artelier.log import BlobRef, EventData, event

# In the stream of a mission's run


@event("mission.planned")
class MissionPlanned(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """A goal was taken apart. Nothing of it is there yet: people may change it before it is launched."""

    plan: BlobRef
    """JSON of a `Plan`."""
    calls: int = 0
    """Estimate: model calls, about."""
    cost: int | None = None
    """Estimate in micro-dollars, about; None if a price is unknown."""
    is_limit: bool = False
    """Whether it is enforced: then the plan costs that at most."""


@event("mission.launched")
class MissionLaunched(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """The plan as it was launched. What it made stands in events of its own, in the same batch."""

    plan: BlobRef
    agents: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    membranes: tuple[str, ...] = ()
    edited: bool = False
    """Whether a person changed the plan."""
    budget: int | None = None
    """Cap in micro-dollars that the estimate of this plan gave the goal, beyond what planning has cost."""


@event("task.blocked")
class TaskBlocked(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """A task cannot start. `reason`: `dependency_failed` or `missing_input`; `by` names what is missing."""

    task: str
    reason: str
    by: str = ""


# In the stream of a task's artifact


@event("task.created")
class TaskCreated(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A task is there, in the same batch as the first version of its artifact."""

    task: str
    mission: str = ""
    """Empty for a task of its own."""
    agent: str = ""
    parent: str = ""
    depends_on: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    max_iterations: int


@event("task.changed")
class TaskChanged(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A task was assigned, or its definition changed, in the same batch as the artifact's new version."""

    task: str
    agent: str = ""
    depends_on: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    max_iterations: int


@event("task.cancelled")
class TaskCancelled(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A task that nobody had begun with is not to be done. One with a run is cancelled by its run."""

    task: str


@event("task.reopened")
class TaskReopened(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A task that could not be begun is to be done after all, if need be without its mission."""

    task: str


@event("output.judged")
class OutputJudged(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A person has accepted or rejected what a task has made; the event's actor says who."""

    task: str
    ref: str
    """Of the output, with its version."""
    accepted: bool
    """Then the task is done, whatever an evaluator has said; else it has failed."""
    note: BlobRef | None = None
    """JSON text: why."""


# In the stream of a task's run


@event("task.begun")
class TaskBegun(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """An agent begins to work on its task."""

    agent: str
    inputs: tuple[str, ...] = ()
    """Refs with versions, as they were found: those of the task, and what it depends on has made."""
    max_iterations: int
    missing: str = ""
    """The first input (or task that should have made one) that is not there or not to be read."""


@event("decision.taken")
class DecisionTaken(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """The model's decision in one iteration."""

    iteration: int
    """From 1."""
    decision: BlobRef
    """JSON of a `Decision`."""
    action: str
    tool: str = ""
    repaired: bool = False
    """Whether its first reply was no decision."""
    repeats: int = 0
    """How many equal decisions without new evidence came right before it; 1 raises `stuck`."""
    steering: str = ""
    """Ref of the agent's steering that was in force."""
    temperature: int | None = None
    """In thousandths, as it was asked for."""


@event("decision.invalid")
class DecisionInvalid(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """A reply and its repair are no decisions; the task fails for it."""

    iteration: int
    reply: BlobRef
    """JSON text of the last reply."""
    mistakes: BlobRef
    """JSON text: what is wrong with it."""


@event("decision.executed")
class DecisionExecuted(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a decision."""

    iteration: int
    action: str
    step: str = ""
    """Key of the tool step, or of the model step that wrote the artifact."""
    artifact: str = ""
    """Ref with version of what was made."""
    is_error: bool = False
    code: str = ""
    read: tuple[str, ...] = ()
    """Refs of artifacts whose content stood in the prompts of this iteration."""


@event("task.evaluated")
class TaskEvaluated(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """Outputs were judged against the success criteria, by those alone."""

    iteration: int
    passed: bool
    verdict: BlobRef
    """JSON: `{criteria: [{criterion, met, evidence: [{ref, quote}], missing}], checks: [...], summary}`."""
    void: str = ""
    """Why a model's verdict does not count: `quote_not_found`, `no_outputs`, `placeholder`, `invalid`, ..."""
    outputs: tuple[str, ...] = ()
    """Refs with versions that were judged."""


@event("task.ended")
class TaskEnded(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a task; the run ends right after it. Only a passed evaluation gives `done`."""

    status: str
    """`done`, `failed` or `blocked`."""
    reason: str = ""
    """Of the others: `max_iterations`, `stuck`, `decision_invalid`, `missing_input`, an error's code, ..."""
    iterations: int = 0
    outputs: tuple[str, ...] = ()
    by: str = ""
    """Of a blocked one: the ref that is missing. What a model says is missing stands in the run's message."""
