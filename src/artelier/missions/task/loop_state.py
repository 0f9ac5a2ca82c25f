"""The state of the task loop: all that a resume needs, bounded by the number of iterations; and the limit of
these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from artelier.errors import CorruptStore
from artelier.kernel.history.fork_lineage import Place, lineage, newest_state
from artelier.kernel.run.services import Services
from artelier.kernel.tenants.scope import TenantScope
from artelier.log import BlobRef, decode_stored
from artelier.log.queries import events_between
from artelier.missions.events import TaskEnded

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


ENDS = ("task.ended", "run.reopened")
"""Events that end a task, and that let it go on behind an end."""

GOES_ON = frozenset(("max_iterations", "stuck", "decision_invalid", "missing_input"))
"""Ends after which a reopened task has something to try; the failure of a step is tried again by itself."""


def begins_anew(reason: str, iteration: int) -> bool:
    """Return True if a task that was reopened looks for its inputs first: it had ended without deciding
    anything.
    """
    return reason == "missing_input" and not iteration


def goes_on(status: str, reason: str) -> bool:
    """Return True if a reopened task iterates on behind an end: its result did not do, or a limit was met."""
    return status == "done" or reason in GOES_ON


def counts_anew(status: str, reason: str, iteration: int) -> bool:
    """Return True if the limit of a task that was reopened counts from where it had ended."""
    return goes_on(status, reason) and not begins_anew(reason, iteration)


def last_iteration(before: int, most: int) -> int:
    """Return the last iteration that a task may have which has `most` after those `before`."""
    return before + most


async def ends_passed(services: Services, places: Sequence[Place]) -> list[TaskEnded]:
    """Return the ends since the newest iteration from which the limit of a run counts, oldest first.

    `places`: its lineage. Cost: O(events since its newest iteration).
    """
    newest = await newest_state(services, places)
    first, after = (len(places) - 1, 0) if newest is None else newest[1]
    told: list[TaskEnded | None] = []
    for index in range(first, -1, -1):
        place = places[index]
        rows = await events_between(
            services.store, place.stream_id, ENDS, after=after if index == first else 0, upto=place.upto
        )
        told += [
            decode_stored(one.data, type=TaskEnded) if one.kind == TaskEnded.KIND else None for one in rows
        ]
    while told and told[-1] is not None:
        told.pop()  # nobody has reopened it since
    ends = [one for one in told if one is not None]
    return [one for one in ends if counts_anew(one.status, one.reason, one.iterations)]


async def counted_from(desk: TenantScope, task: str) -> int:
    """Return the iteration after which the limit counts of a task that a run works on."""
    places = await lineage(desk.services, desk.id, task)
    if passed := await ends_passed(desk.services, places):
        return passed[-1].iterations
    newest = await newest_state(desk.services, places)
    return TaskState.from_stored(None if newest is None else newest[0]).base
