"""The information that a builder has when it makes the sections of one prompt. All of it is journaled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artelier.kernel import RangePart

Read = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The moment before one model call of an agent."""

    run_id: str
    tenant_id: str
    agent_id: str
    model: str
    cycle: int
    """Number of the cycle that this prompt begins, from 1."""
    window_tokens: int
    """Of the model: prompt and reply together."""
    task: str
    """What the run was asked to do."""
    task_kept: str = ""
    """Where all of it is kept, if it was too long to be shown."""
    conversation: RangePart | None = None
    """The messages that are shown verbatim."""
    summary: str = ""
    """What stands for the messages before them."""
    summary_trust: str = "trusted"
    summary_from: str = "log"
    """The receipt of the compaction that made it, as `<run>:<step>`."""
    query: str = ""
    """The newest words of the conversation: what a retrieval would look for."""
    skills: Mapping[str, Any] | None = None
    """The recorded listing of skills."""
    loaded: Sequence[Mapping[str, Any]] = ()
    """What `load_skill` returned for the skills whose loading is no longer among the messages."""
    reader: Read | None = field(default=None, repr=False)

    async def read(self, key: str, read: Callable[[], Awaitable[Any]]) -> Any:
        """A JSON value from outside, journaled: a replay gets what was read then, and calls nothing.

        It is recorded only when it differs from the last reading under this key. None means nothing there.
        Errors: what `read` raises.
        """
        return await self.read_own(f"own {key}", read)

    async def read_own(self, name: str, read: Callable[[], Awaitable[Any]]) -> Any:
        """Do the same as `read`, under the names of the shipped builder, which no other reading can take."""
        assert self.reader is not None, "a context outside a run reads nothing"
        return await self.reader(name, read)
