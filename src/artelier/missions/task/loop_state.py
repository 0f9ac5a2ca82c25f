"""The state of the task loop: all that a resume needs, bounded by the number of iterations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from artelier.errors import CorruptStore
from artelier.log import BlobRef

STUCK_AFTER = 2
"""Equal decisions without new evidence before a third that end a task."""


class TaskOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An artifact that the task has made."""

    id: str
    version: int
    slug: str
    """Of its target: the same again makes a new version."""
    media: str
    """`markdown`, `json` or `text`."""
    reply: BlobRef
    """The model's reply that its content is."""

    @property
    def ref(self) -> str:
        return f"{self.id}@{self.version}"


class ToolSourceResult(msgspec.Struct, frozen=True, array_like=True):
    """A result of a tool that the task has received."""

    name: str
    key: str
    content: BlobRef
    given: BlobRef | None = None
    """JSON of the arguments that the model gave: figures that stand there are not learned from the result."""
    made: tuple[str, ...] = ()
    """Refs of what a task that was delegated has made, from these arguments."""


def id_of(ref: str) -> str:
    """Return the id of the artifact that a reference names."""
    return ref.partition("@")[0]


class TaskState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the loop after an iteration."""

    iteration: int = 0
    """Iterations completed."""
    messages: int = 0
    """Messages in the conversation."""
    base: int = 0
    """The iteration after which the limit counts: a retry begins to count anew."""
    allowed: int = 0
    """Iterations from there, as steering said last; 0 before it was read."""
    begun: int = 0
    """How often the inputs were looked for."""
    inputs: tuple[str, ...] = ()
    """Refs with versions."""
    outputs: tuple[TaskOutput, ...] = ()
    """The newest version of each, in the order of their writing."""
    sources: tuple[ToolSourceResult, ...] = ()
    reads: dict[str, BlobRef] = {}
    """Newest readings of what prompts depend on, by name."""
    tools: tuple[str, ...] = ()
    """Tools used so far."""
    decided: str = ""
    """Digest of the last decision."""
    led_to: str = ""
    """Digest of what came of it."""
    action: str = ""
    """Of the last decision."""
    repeats: int = 0
    """Equal decisions without new evidence in a row, the last one included."""
    judged: tuple[str, ...] = ()
    """Refs of the outputs at the last evaluation."""
    judged_by: int = 0
    """Sources there were then."""
    verdict: BlobRef | None = None
    void: str = ""

    def to_stored(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    @classmethod
    def from_stored(cls, state: Mapping[str, Any] | None) -> TaskState:
        """Errors: `CorruptStore` if the stored state is not one of this loop."""
        if state is None:
            return cls()
        try:
            return msgspec.convert(dict(state), cls)
        except msgspec.ValidationError as error:
            raise CorruptStore(f"the stored state of a task cannot be read: {error}") from None

    def replace(self, **fields: Any) -> TaskState:
        return msgspec.structs.replace(self, **fields)

    def of_made(self, source: ToolSourceResult, read: str) -> ToolSourceResult:
        """A source that is the reading of what a delegated task made: from the arguments of that."""
        for one in self.sources:
            if read and read in map(id_of, one.made):
                return ToolSourceResult(source.name, source.key, source.content, one.given)
        return source

    @property
    def own(self) -> frozenset[str]:
        """Ids of what the task has made: nothing that it says is grounds for it to say so."""
        return frozenset(output.id for output in self.outputs)

    @property
    def refs(self) -> tuple[str, ...]:
        return tuple(output.ref for output in self.outputs)
