"""The content of a profile: operations, how they are used, what they may change, and what prompts include.

These are the stored values; `operation_profile.py` makes them from people's data and names every mistake. The
forms of `params` belong to the kinds (`kinds/`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Hook = Literal["before_main_llm", "after_main_llm"]
Trigger = Literal["generate", "regenerate"]
Usage = Literal["prompt_only", "ui_only", "prompt+ui", "internal"]
Role = Literal["system", "user", "assistant"]

BEFORE: Hook = "before_main_llm"
AFTER: Hook = "after_main_llm"
HOOKS: tuple[Hook, ...] = (BEFORE, AFTER)

TAG = r"^[a-z][a-z0-9_]{0,63}$"
ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""Of operations, profiles and sessions of profiles."""

OPERATIONS_MAX = 500
EFFECTS_MAX = 16
"""Of one operation."""
INCLUSIONS_MAX = 64
TEMPLATE_CHARS_MAX = 65_536
VALUE_BYTES_MAX = 1_048_576
"""Of what one operation finds, as JSON."""
VERSIONS_MAX = 1_000
FEED_VERSIONS = 50
"""Entries of a feed that says nothing else."""
STATE_VERSIONS = 10
"""Earlier values of any other artifact that says nothing else."""
PARALLEL_MAX = 16
ORDER_MAX = 1e12


Text = Annotated[str, Field(max_length=TEMPLATE_CHARS_MAX)]
"""A template."""
ArtifactRef = Annotated[str, Field(min_length=1, max_length=300)]


class Form(BaseModel):
    """A frozen value that takes no field it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Retention(Form):
    """The history that an artifact keeps."""

    max_versions: int | None = Field(default=None, ge=0, le=VERSIONS_MAX)
    """Earlier values; of a feed its entries. None: 10, of a feed 50."""
    ttl_s: int | None = Field(default=None, ge=1)
    """How long; None for ever."""


# Effects


class SystemUpdate(Form):
    """Changes the system prompt of the main call. Only before it."""

    type: Literal["prompt.system_update"]
    mode: Literal["prepend", "append", "replace"]
    text: Text | None = None
    """A template; None: the operation's value as text. The same in all effects."""


class InsertAfterLastUser(Form):
    """A message behind the user message that started the run. Only before the main call."""

    type: Literal["prompt.insert_after_last_user"]
    role: Role = "system"
    text: Text | None = None


class InsertAtDepth(Form):
    """A message so many messages from the end: 0 is the tail, n stands before the n-th last."""

    type: Literal["prompt.insert_at_depth"]
    depth_from_end: int = Field(ge=0, le=10_000)
    role: Role = "system"
    text: Text | None = None


class UserVariant(Form):
    """Other words in place of the person's, for this variant of the turn."""

    type: Literal["turn.user_variant.upsert_and_select"]
    text: Text | None = None


class AssistantPatch(Form):
    """Changes the reply. Only after the main call."""

    type: Literal["turn.assistant_variant.patch"]
    mode: Literal["replace", "prepend", "append"] = "replace"
    text: Text | None = None


class ReplyBlock(Form):
    """A part of the reply beside its text."""

    channel: Literal["text", "reasoning", "tool", "state"] = "state"
    text: Text | None = None
    prompt: bool = False
    """Whether later prompts show it."""
    ui: bool = True


class AssistantBlocks(Form):
    """Adds parts to the reply. Only after the main call."""

    type: Literal["turn.assistant_blocks.update"]
    blocks: tuple[ReplyBlock, ...] = Field(default=(ReplyBlock(),), min_length=1, max_length=16)


class ArtifactUpsert(Form):
    """Writes `art.<tag>`."""

    type: Literal["artifact.upsert"]
    tag: str
    persistence: Literal["persisted", "run_only"] = "persisted"
    usage: Usage = "internal"
    semantics: str = Field(default="state", min_length=1, max_length=64)
    write_mode: Literal["replace", "append"] = "replace"
    retention: Retention = Retention()
    title: str = Field(default="", max_length=120)
    """What people see as its name; empty: the tag."""
    value: Text | None = None
    """A template that gives a text; None: the operation's value, JSON as JSON."""

    @property
    def versions_max(self) -> int:
        if self.retention.max_versions is not None:
            return self.retention.max_versions
        return FEED_VERSIONS if self.write_mode == "append" else STATE_VERSIONS

    @property
    def in_prompt(self) -> bool:
        return self.usage in ("prompt_only", "prompt+ui")

    @property
    def in_ui(self) -> bool:
        return self.usage in ("ui_only", "prompt+ui")


Effect = Annotated[
    SystemUpdate
    | InsertAfterLastUser
    | InsertAtDepth
    | UserVariant
    | AssistantPatch
    | AssistantBlocks
    | ArtifactUpsert,
    Field(discriminator="type"),
]

ONLY_BEFORE = (SystemUpdate, InsertAfterLastUser, InsertAtDepth)
ONLY_AFTER = (AssistantPatch, AssistantBlocks)


# Operations


class RunCondition(Form):
    """Runs the operation only if a guard found so."""

    type: Literal["guard_output"] = "guard_output"
    source: str
    """The guard's operation id; it must be in `depends_on`."""
    key: str
    operator: Literal["is_true", "is_false"]


class Activation(Form):
    """The interval at which an operation is due, counted from the last time; one of the two at least."""

    every_n_turns: int | None = Field(default=None, ge=1)
    every_n_context_tokens: int | None = Field(default=None, ge=1)
    """Estimated tokens that the conversation has grown by."""
    match: Literal["all", "any"] = "all"
    """Whether both must be reached, if both are given, or whichever comes first."""

    def is_due(self, *, turns: int, tokens: int) -> bool:
        """Return True if so many turns and tokens after the last time are enough."""
        reached = [
            now >= wanted
            for now, wanted in ((turns, self.every_n_turns), (tokens, self.every_n_context_tokens))
            if wanted is not None
        ]
        return any(reached) if self.match == "any" else all(reached)


class Debug(Form):
    """Further records for people who look for a mistake."""

    keep_scope: bool = False
    """Keep the values that the operation saw with its result."""


class OperationConfig(Form):
    """The settings with which a profile uses an operation."""

    enabled: bool = True
    required: bool = False
    hooks: tuple[Hook, ...] = Field(default=("before_main_llm",), min_length=1, max_length=2)
    triggers: tuple[Trigger, ...] = Field(default=("generate", "regenerate"), min_length=1, max_length=2)
    order: float = Field(ge=-ORDER_MAX, le=ORDER_MAX, allow_inf_nan=False)
    depends_on: tuple[str, ...] = Field(default=(), max_length=OPERATIONS_MAX)
    run_conditions: tuple[RunCondition, ...] = Field(default=(), max_length=16)
    activation: Activation | None = None
    params: Any
    """The params of the kind (`kinds/`): a `Params`."""
    debug: Debug = Debug()


class OperationDefinition(Form):
    """The definition of an operation."""

    operation_id: str = Field(pattern=ID)
    name: str = Field(default="", max_length=120)
    kind: str
    description: str = Field(default="", max_length=2_000)


class Operation(OperationDefinition, OperationConfig):
    """An operation with how its profile uses it: the form in which profiles are written."""

    @property
    def effects(self) -> tuple[Effect, ...]:
        return self.params.effects

    @property
    def artifact(self) -> ArtifactUpsert | None:
        """The one artifact that it may write."""
        for effect in self.effects:
            if isinstance(effect, ArtifactUpsert):
                return effect
        return None


class Params(Form):
    """The params that every kind has."""

    effects: tuple[Effect, ...] = Field(default=(), max_length=EFFECTS_MAX)
    timeout_s: float = Field(default=60.0, gt=0, le=3_600)


# What prompts include


class When(Form):
    """The conditions of a rule; all that are given must hold."""

    trigger: Trigger | None = None
    condition: str | None = Field(default=None, max_length=4_096)
    """A template; it holds if the text is neither empty nor `false`, `0`, `no`, `null`."""


class PromptInclusion(Form):
    """Puts an artifact into the prompt of the main call."""

    source: str
    """`art.<tag>`."""
    when: When = When()
    place: str = Field(
        default="tail",
        pattern=r"^(system_prepend|system_append|after_last_user|before_last_user|depth\(\d{1,5}\)|tail)$",
    )
    role: Role = "system"
    template: Text | None = None
    """Has `value` and all other names in scope; None: `## <tag>` and the value."""
    max_tokens: int | None = Field(default=None, ge=1)
    priority: int = Field(default=50, ge=0, le=100)
    on_missing: Literal["skip", "error"] = "skip"
    on_trim: Literal["drop", "keep", "summarise"] = "drop"
    """What happens to a text over `max_tokens` or the prompt's budget: it is left out, it stays whole (and is
    pinned), or it is made shorter by an auxiliary model call."""

    @property
    def tag(self) -> str:
        return self.source.removeprefix("art.")
