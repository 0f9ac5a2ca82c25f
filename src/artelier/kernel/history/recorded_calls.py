"""The rules of a fork, and the recorded calls that it and the runs below it may still return."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from artelier.errors import Erased, Exhausted
from artelier.kernel import events as ev
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.queries.runs import is_below
from artelier.kernel.steps.step_keys import bounded_id
from artelier.log import BlobRef, Store, Tx
from artelier.log.queries import events_since, newest_position


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A completed tool call of an origin, as a fork may return it."""

    run_id: str
    key: str
    """The step that was dispatched; not that of a fork which returned it."""
    step: str
    """The step of the origin itself, empty for one of a run below it."""
    name: str
    asked: tuple[BlobRef, ...]
    """Canonical arguments: those that were asked for, and those that the tool was given."""
    result: BlobRef | None
    is_error: bool
    artifact: str = ""
    preview: bool = False


class TakenElsewhere(Exhausted):
    """A recorded call was returned to another run below the fork, by another process. Nobody sees this."""


class RunContent(Protocol):
    """The content that a run has stored."""

    def ref_of(self, value: Any) -> BlobRef: ...

    async def load(self, ref: str) -> bytes: ...


class ForkEffects:
    """The rules for one fork and all runs below it, and the recorded calls that they may still return."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        run_id: str,
        *,
        read_unused: Callable[[], Awaitable[list[RecordedCall]]],
        forked: ev.RunForked,
        replaced: Mapping[str, str],
    ) -> None:
        self._store = store
        self._read_unused = read_unused
        self._tenant = tenant
        self.run_id = run_id
        """The fork."""
        self.mode: ev.Effects = forked.effects
        self.folder = forked.folder
        """What ids of its artifacts begin with; empty for old forks, and drift forks."""
        self.replaced = replaced
        """Refs that its artifacts, skills, tools and models stand for, each with the one to use instead."""
        self.lock = asyncio.Lock()
        """Held from the search for a recorded call until its use is durable."""
        self._left: list[RecordedCall] | None = None
        self._seen = 0
        """Position in the log up to which the uses of the fork and of the runs below it are known."""
        self._taken: set[tuple[str, str]] = set()
        """Calls, by run and key, that they were found to have used after the unused ones were read."""

    async def find(
        self, run: RunContent, name: str, arguments: Any, *, step: str = ""
    ) -> RecordedCall | None:
        """Return the oldest equal call that is left; with `step`, only that of a step that the run shares.

        Cost: O(recorded tool calls) for the first search, then O(those that are left).
        """
        if self.mode != "recorded":
            return None
        if self._left is None:
            self._seen = await newest_position(self._store)
            self._left = await self._read_unused()
        ref, content = run.ref_of(arguments), encode_json(arguments)
        for call in self._left:
            if call.name != name or (step and call.step != step):
                continue
            if (call.run_id, call.key) in self._taken:
                continue
            with suppress(Erased):  # what is gone equals nothing, and cannot be returned
                # Runs under different data keys have different references to the same content.
                if ref in call.asked or content in [await run.load(one) for one in call.asked]:
                    if call.result is not None:
                        await run.load(call.result)
                    return call
        return None

    def guard(self, call: RecordedCall) -> Callable[[Tx], None]:
        """Return a guard that refuses to use a call which another process has used for this fork meanwhile.

        Errors: `TakenElsewhere`; `find` passes over the call from then on. Cost: O(new events of the log).
        """

        def check(tx: Tx) -> None:
            for stream, row in events_since(tx, self._seen, ev.ToolCompleted.KIND, containing='"recorded"'):
                done = row.decode()
                used = done.recorded if isinstance(done, ev.ToolCompleted) else None
                if used is not None and is_below(tx, self._tenant, stream, self.run_id):
                    self._taken.add((used.run, used.key))
                self._seen = row.position
            if (call.run_id, call.key) in self._taken:
                raise TakenElsewhere(f"call {call.key} of {call.run_id} is used already")

        return check

    def own_id(self, id_: str) -> str:
        """Return the id under which the fork keeps what its origin would call `id_`: never its origin's."""
        if not self.folder or id_.startswith(f"{self.folder}/"):
            return id_
        return bounded_id(f"{self.folder}/{id_}")

    def use(self, call: RecordedCall) -> None:
        """Take a call out, once its use is durable."""
        assert self._left is not None
        self._left.remove(call)
