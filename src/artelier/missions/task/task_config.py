"""The job of a run of the task loop: stored with it, so that any process can go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from artelier.errors import CorruptStore

if TYPE_CHECKING:
    from artelier.missions.definition import TaskContent

LOOP = "task"
"""Name of this loop in `run.started`."""

PROMPT_TOKENS_MIN = 256

RULES_HARD, RULES_ADVISE, RULES_HEED = 1, 2, 3
"""What rules about words are: faults that nobody overrules, as in runs that do not say; or advice. Under the
last, content that equals what a person has rejected does not pass either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJob:
    """A task as it was assigned when its run began."""

    task: str
    definition: Mapping[str, Any]
    """JSON of a `TaskContent`."""
    agent: str
    """Id of the agent: its artifact, and the principal that its outputs belong to."""
    name: str = ""
    role: str = ""
    model: str
    mission: str = ""
    """Empty for a task of its own."""
    steering: str = ""
    """Id of the agent's steering artifact; empty for none."""
    memory: str = ""
    """Id of the memory that somebody attached to the agent; empty for none."""
    tools: tuple[str, ...] = ()
    """Tools that the agent was planned with: they are listed first."""
    workspace: str = ""
    """Root of the workspace tools; empty if the kernel's are used."""
    window_tokens: int = 128_000
    max_output_tokens: int = 1_024
    """Of the model when the run began: what a prompt may take is decided by these alone."""
    scopes: tuple[str, ...] = ()
    """Limits beside those of run and tenant that it counts in: its agent's, its membranes'."""
    rules: int = RULES_HEED
    """The rules that outputs are judged by in this run, from its start to its end."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What whoever made the job keeps with it."""

    def settings(self) -> dict[str, Any]:
        """JSON data for `run.started`."""
        return {**asdict(self), "tools": list(self.tools), "scopes": list(self.scopes)}

    @classmethod
    def from_stored(cls, settings: Any) -> TaskJob:
        """The job of a recorded run. Errors: `CorruptStore` if the settings are not one's."""
        try:
            stored: dict[str, Any] = {"rules": RULES_HARD, **settings}
            for name in ("tools", "scopes"):
                stored[name] = tuple(stored.get(name, ()))
            return cls(**stored)
        except (TypeError, ValueError) as error:
            raise CorruptStore(f"the settings of a task cannot be read: {error}") from None

    def content(self) -> TaskContent:
        """Errors: `InvalidRequest`."""
        from artelier.missions.definition import TaskContent, validate_form

        return validate_form(TaskContent, dict(self.definition), what=f"task {self.task}")

    @property
    def advises(self) -> bool:
        """True if rules about words advise the judge."""
        return self.rules >= RULES_ADVISE

    @property
    def heeds(self) -> bool:
        """True if what equals a rejected version does not pass."""
        return self.rules >= RULES_HEED

    @property
    def prompt_tokens_max(self) -> int:
        """The most tokens that a prompt may be billed as, so that the reply still fits."""
        return max(PROMPT_TOKENS_MIN, self.window_tokens - self.max_output_tokens)

    @property
    def result_bytes_max(self) -> int:
        """The most bytes of one tool result: an eighth of the window, at four bytes a token."""
        return max(2_000, self.window_tokens * 4 // 8)

    @property
    def input_tokens_max(self) -> int:
        """The most tokens of all inputs shown in one prompt: a quarter of the window."""
        return max(200, self.window_tokens // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The state of a task after a drive."""

    task: str
    status: str
    """Of the task: `done`, `failed`, `blocked`, `cancelled`, or `active` if its run can be resumed."""
    reason: str = ""
    run_status: str = ""
    outputs: tuple[str, ...] = ()
    """Refs with versions."""
    iterations: int = 0
    text: str = ""
    """Content of the newest output; of a task that failed without one, why."""
