"""The events of operations: what a run with a profile records, and what a chat's own stream records.

In the stream of the run stand its phases, its operations and the reports of its commits; each is the outcome
of a keyed step, so a resume finds it and does nothing twice. In the stream `session:<chat>` stand turns,
variants, branches and the changes of artifacts. Free text and values are in blobs.
"""

from __future__ import annotations

import msgspec

from artelier.kernel.events import StepReceipt
from artelier.log import BlobRef, EventData, event

# In the stream of a run


class PlannedOperation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of a plan, at one hook."""

    operation_id: str
    hook: str
    kind: str
    required: bool = False
    order: int = 0
    """In thousandths."""
    depends_on: tuple[str, ...] = ()
    skipped: str = ""
    """Why it will not be started (`disabled`, `trigger_mismatch`, `not_due`); empty if it may be."""
    counters: dict[str, int] = {}
    """Of one that is counted: `turns` and `tokens` since it was done last, and what it waits for,
    `every_n_turns` and `every_n_context_tokens`."""


@event("run.phase_changed")
class PhaseChanged(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """A run with operations enters a phase: planning, before_main_llm, barrier, main_llm, after_main_llm,
    commit, finished."""

    phase: str
    plan: tuple[PlannedOperation, ...] = ()
    """Of `planning`: every operation in order of commit, those that will be skipped included."""


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A persisted artifact as a run found it."""

    tag: str
    version: int
    values: tuple[BlobRef, ...]
    """Canonical JSON: of `replace` the value, then earlier ones, newest first; of `append` the entries,
    newest first."""
    at_us: tuple[int, ...]
    """When each of `values` was written."""
    append: bool = False
    usage: str = "internal"
    semantics: str = "state"
    operation: str = ""
    """Which operation wrote it last."""
    run: str = ""
    """In which run."""


@event("session.read", names_messages=True)
class SessionRead(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """The state that a run found: that of the conversation it goes on from, and the profile it works with."""

    settings: BlobRef
    """JSON: those of the chat."""
    profile: BlobRef | None = None
    """JSON: the profile; None for a plain main call."""
    base_run: str = ""
    """The run whose conversation goes on here; empty for none."""
    base_shown: int = 0
    """How many of its messages stand for the chat so far."""
    said: tuple[BlobRef, ...] = ()
    """JSON messages that come after those: what no run has recorded in this form."""
    artifacts: tuple[Seen, ...] = ()
    marks: dict[str, tuple[int, int]] = {}
    """When each operation was done last: `(turn, context tokens)`."""
    turn: int = 1
    """Number of the turn that this run replies in."""
    tokens: int = 0
    """Estimated tokens of the conversation up to here."""


@event("operation.started")
class OperationStarted(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """An operation begins: all that it depends on is done."""

    hook: str
    operation_id: str
    kind: str


@event("operation.finished")
class OperationFinished(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """An operation ended: `done`, `skipped`, `error` or `aborted`."""

    hook: str
    operation_id: str
    status: str
    reason: str = ""
    """Of `skipped`: disabled, trigger_mismatch, condition_false, guard_not_matched, not_due,
    dependency_failed, policy."""
    code: str = ""
    """Of `error` and `aborted`: a stable code."""
    message: BlobRef | None = None
    """JSON text that says what went wrong."""
    withheld: BlobRef | None = None
    """JSON text: the words that `message` withholds, since they may quote what people may not see. For
    operators alone."""
    scope: BlobRef | None = None
    """JSON: the names that one that failed saw, for operators alone; `{cut}` if they are too large."""
    details: BlobRef | None = None
    """JSON: the values that a condition saw, and such."""
    result: BlobRef | None = None
    """JSON `{value, effects}` of one that is done: what it found, and what it wants to change."""


class EffectReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one effect."""

    operation_id: str
    index: int
    """Its place among the operation's effects."""
    type: str
    status: str
    """`applied`, `skipped` or `error`."""
    tag: str = ""
    code: str = ""
    value: BlobRef | None = None
    """Canonical JSON: the value of an artifact; the text, or the blocks, of anything else."""
    version: int = 0
    """Of a persisted artifact."""


@event("commit.reported")
class CommitReported(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """The effects of one hook, in the order in which they were committed."""

    hook: str
    reports: tuple[EffectReport, ...] = ()


class LoreBook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lorebook that a turn has looked into."""

    ref: str
    """`id@version`; as it was named, if it could not be read."""
    missing: str = ""
    """Code of the error, if it could not."""


class LoreEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of a lorebook that stands in the prompt of a turn."""

    book: int = 0
    """Its place among the books of the event."""
    entry: str
    why: str
    """What brought it in: `constant`, `sticky`, or the key that was found."""
    place: str
    """`before`, `after` or `depth`."""
    depth: int = 0
    role: str = "system"
    text: BlobRef
    """JSON text: its content, with names."""


class LoreLeftOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry that was found, and does not stand in the prompt."""

    book: int = 0
    entry: str
    reason: str
    """`budget`, `probability`, `group`, `cooldown`, `delay`, `pattern_timeout`, `search_limit` or
    `too_many`."""


@event("lore.activated")
class LoreActivated(StepReceipt, frozen=True, kw_only=True, omit_defaults=True):
    """The entries that the lorebooks of a chat bring into the prompt of a turn."""

    books: tuple[LoreBook, ...] = ()
    entries: tuple[LoreEntry, ...] = ()
    """In order of insertion: the last stands nearest to the end."""
    left_out: tuple[LoreLeftOut, ...] = ()
    state: BlobRef | None = None
    """JSON `{book: {entry: turn}}`: when entries that stay, or rest, became active; for the turns after."""


# In the stream of a session


@event("chat.opened")
class ChatOpened(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A chat begins, with the branch `main`."""

    settings: BlobRef
    """JSON: who talks with whom, the system prompt, the model."""
    greetings: tuple[BlobRef, ...] = ()
    """JSON texts with which the character may begin; the first is selected."""
    speaker: BlobRef | None = None
    """JSON text: what the character is called that begins."""


@event("chat.changed")
class ChatChanged(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A chat's settings are others from now on."""

    settings: BlobRef


@event("turn.asked", names_messages=True)
class TurnAsked(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody wants a reply: a new turn, another variant of the newest, or more of the selected one."""

    branch: str
    run: str
    trigger: str
    """`generate`, `regenerate` or `continue`."""
    settings: BlobRef
    """JSON: all that the run needs, so that any process can drive it."""
    text: BlobRef | None = None
    """JSON text: what the person said, of a new turn."""
    tokens: int = 0
    persona: BlobRef | None = None
    """JSON text: what the person is called who says it."""
    is_wordless: bool = False
    """True of a new turn in which the person says nothing: a character goes on by itself."""
    process: tuple[int, ...] = ()
    """As in `tool.requested`: the process that is about to begin the run; empty in older histories."""


class ReplyPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of what was said, on one channel."""

    channel: str = "text"
    """`text`, `reasoning`, `tool` or `state`; `file` for what a file says beside a message, as JSON."""
    text: BlobRef
    """JSON text."""
    prompt: bool = True
    """Whether later prompts show it."""
    ui: bool = True
    """Whether people see it."""
    operation: str = ""
    """Which operation wrote it; empty for the main call and for people."""
    speaker: BlobRef | None = None
    """JSON text: what the one is called who says it; None in older histories, and if nobody has a name."""


class ArtifactUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new value of a persisted artifact."""

    tag: str
    value: BlobRef
    """Canonical JSON: the value, or the entry that is appended."""
    append: bool = False
    usage: str = "internal"
    semantics: str = "state"
    versions_max: int = 0
    """How many earlier values (of `append`: entries) are kept; 0 for none."""
    ttl_s: int = 0
    """How long; 0 for ever."""
    operation: str = ""


@event("variant.begun")
class VariantBegun(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A run has passed its barrier: a variant of a turn is there, with what the operations before changed."""

    branch: str
    run: str
    profile: str = ""
    """Profile with its version; empty for a plain call."""
    scope: str = ""
    """`<profile id>/<session id>`: whose artifacts these are; empty for a plain call."""
    user: tuple[ReplyPart, ...] = ()
    """What the model saw as the person's words, if an operation changed them."""
    changes: tuple[ArtifactUpdate, ...] = ()


@event("variant.ended")
class VariantEnded(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A variant is complete, with what the operations after it changed."""

    branch: str
    run: str
    status: str
    """`done`, `failed` or `aborted`."""
    finish_reason: str = ""
    """Of the main call; empty if there was none."""
    parts: tuple[ReplyPart, ...] = ()
    user: tuple[ReplyPart, ...] = ()
    changes: tuple[ArtifactUpdate, ...] = ()
    marks: dict[str, tuple[int, int]] = {}
    """Operations that were done in this run: `(turn, context tokens)`."""
    tokens: int = 0
    """Estimated tokens of the conversation with this variant."""
    shown: int = 0
    """How many messages of the run's conversation stand for the chat up to and with this variant."""
    patched: bool = False
    """Whether the reply is another text than the model's: then the last of those is not the reply."""


@event("step.taken")
class StepTaken(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A step of an agent has changed artifacts: those of the operations before it, or after it.

    What was said stands in the agent's run; the session has the artifacts alone.
    """

    branch: str
    run: str
    profile: str
    """Profile with its version."""
    scope: str
    changes: tuple[ArtifactUpdate, ...] = ()
    marks: dict[str, tuple[int, int]] = {}
    tokens: int = 0


@event("variant.selected")
class VariantSelected(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A branch goes on from another variant, with its state."""

    branch: str
    node: int


@event("branch.made")
class BranchMade(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A branch begins at a point of the conversation, with the state there."""

    branch: str
    origin: str
    """The branch it was made on."""
    node: int


@event("branch.rewound")
class BranchRewound(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A branch goes on from an earlier turn; what came after it is kept beside it."""

    branch: str
    node: int


@event("session.set")
class SessionSet(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A branch works with another session of a profile: a new, empty one, or an earlier one again."""

    branch: str
    profile_id: str
    session_id: str
    default: str
    """The profile's own session id at that moment: when it changes, that holds."""


class ImportedTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's message and the replies to it."""

    user: BlobRef | None = None
    """JSON text; None if the character began."""
    variants: tuple[BlobRef, ...] = ()
    selected: int = 0
    """Which of `variants`, from 0."""
    tokens: int = 0
    hidden: tuple[str, ...] = ()
    """`user`, `assistant`: whose message prompts leave out."""
    persona: BlobRef | None = None
    """JSON text: what the person is called in it."""
    speaker: BlobRef | None = None
    """JSON text: what the one is called who replies."""
    reasoning: tuple[BlobRef | None, ...] = ()
    """JSON texts: what the model thought before each of `variants`; shorter where the last have none."""
    sent_us: tuple[int, ...] = ()
    """The times at which the words, then each variant, were sent; 0 or a missing place: when it came here."""
    kept: tuple[BlobRef | None, ...] = ()
    """JSON texts: what the file says beside the words, then each variant, for its way out."""


@event("turns.imported")
class TurnsImported(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Turns of a conversation from elsewhere, at the end of a branch."""

    branch: str
    turns: tuple[ImportedTurn, ...]


# Edits of what was said. None of them changes an event before it.


@event("message.revised")
class MessageRevised(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A message says something else from now on; the turns after it stay."""

    branch: str
    node: int
    """The variant that the branch shows, or the turn before it has one."""
    role: str
    """`user` or `assistant`."""
    text: BlobRef
    """JSON text."""


@event("message.hidden")
class MessageHidden(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Later prompts leave a message out, or show it again; people see it."""

    branch: str
    node: int
    role: str
    """`user` or `assistant`."""
    hidden: bool = True


@event("turn.deleted")
class TurnDeleted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A turn is gone with all its variants; those after it stay."""

    branch: str
    turn: int
    """Its first node."""


@event("variant.deleted")
class VariantDeleted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """One reply of a turn is gone."""

    branch: str
    node: int
    erases: bool = False
    """Whether what the run that replied has recorded goes with it: then nothing goes on from that."""


@event("branch.deleted")
class BranchDeleted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A branch is gone, with the turns that no other branch shows."""

    branch: str


@event("chat.deleted")
class ChatDeleted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A chat is gone; its id is not used again."""


@event("chat.labeled")
class ChatLabeled(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A chat has a title, and stands among the archived ones or not."""

    title: BlobRef | None = None
    """JSON text; None for the chat's id."""
    archived: bool = False
