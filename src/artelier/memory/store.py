"""The memories of agents over a log: core memory, long-term memory, their changes, and the tools for them.

One implementation serves the kernel's own store and a file of its own (`sqlite.py`). Who forgets, merges
and promotes in the background is in `consolidation/job.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import msgspec

from artelier.clock import Clock
from artelier.errors import InvalidRequest
from artelier.log import Store
from artelier.log.queries import newest_position_of
from artelier.memory.blocks import (
    DEFAULT_BLOCKS,
    LIMIT_CHARS,
    LIMIT_CHARS_MAX,
    SCRATCHPAD,
    Blocks,
    append_line,
    check_label,
    replace_once,
)
from artelier.memory.changes import Changes
from artelier.memory.entries import SHELVES_MAX, Entries
from artelier.memory.index.near_duplicates import tokens_of
from artelier.memory.memory_handle import EVERYBODYS, MemoryScope, Sight
from artelier.memory.message_history import AgentHistory
from artelier.memory.queries import memory_sizes
from artelier.ports.memory import Block, Change, Embedder, Entry, Found, Recalled
from artelier.ports.tool import ToolPort

AGENTS_MAX = 256
"""Memories whose cache this process keeps; beyond it the one used longest ago is read again when needed."""

MAX_ENTRIES = 1_000
PRUNINGS = ("oldest", "lowest_score")

Trust = str | Callable[[], str]


class LogMemory:
    """The memory of one agent, over a log. Each change takes a `key` and is applied once per key."""

    def __init__(
        self, scope: MemoryScope, blocks: Mapping[str, int], embedder: Embedder, *, is_apart: bool = False
    ) -> None:
        self.scope = scope
        self.is_apart = is_apart
        """Whether its store was opened for memories alone, so that the agent's runs are elsewhere."""
        self.entries = Entries(scope, embedder)
        self.core = Blocks(scope, blocks)
        self.log = Changes(scope, self.core, self.entries)
        self._sight = EVERYBODYS
        self._histories: OrderedDict[tuple[Sight, int], AgentHistory] = OrderedDict()

    async def seen_in(self, run_id: str) -> LogMemory:
        """This memory as a run may see it: what is about other subjects is not there.

        Errors: `Erased` if what is about the run's own subject was erased.
        """
        seen = copy(self)
        seen._sight = await self.scope.sight_of(run_id)
        seen.entries, seen.core = self.entries.with_sight(seen._sight), self.core.with_sight(seen._sight)
        return seen

    @property
    def tenant(self) -> str:
        return self.scope.tenant

    @property
    def agent(self) -> str:
        return self.scope.agent

    # -- core memory

    async def blocks(self) -> tuple[Block, ...]:
        """Every block as it stands, default blocks first. One that cannot be read says why in `missing`."""
        return await self.core.blocks()

    async def append(
        self,
        content: str,
        block: str | None = None,
        *,
        key: str,
        by: str | None = None,
        run_id: str | None = None,
    ) -> Block:
        """Add a line to a block (`notes` unless said); concurrent appends lose nothing.

        Errors: `BlockFull`, and nothing was changed; `NotFound` for an unknown label; `AccessDenied`.
        """
        return await self.core.change(
            block,
            "append",
            (content,),
            lambda text: append_line(text, content),
            key=key,
            by=by,
            run_id=run_id,
        )

    async def replace(
        self,
        old: str,
        new: str,
        block: str | None = None,
        *,
        key: str,
        by: str | None = None,
        run_id: str | None = None,
    ) -> Block:
        """Replace a text that occurs exactly once in a block. Errors: those of `append`, `InvalidRequest`."""
        return await self.core.change(
            block,
            "replace",
            (old, new),
            lambda text: replace_once(text, old, new),
            key=key,
            by=by,
            run_id=run_id,
        )

    async def replace_all(
        self,
        content: str,
        block: str | None = None,
        *,
        key: str,
        by: str | None = None,
        run_id: str | None = None,
    ) -> Block:
        """Give a block another text. Errors: those of `append`."""
        return await self.core.change(
            block, "replace_all", (content,), lambda _: content, key=key, by=by, run_id=run_id
        )

    async def attach(
        self,
        label: str,
        artifact_id: str | None = None,
        *,
        limit_chars: int = LIMIT_CHARS,
        key: str,
        by: str | None = None,
    ) -> Block:
        """Make an artifact that this agent may read one of its blocks, or begin a new block of its own."""
        return await self.core.attach(label, artifact_id, limit_chars=limit_chars, key=key, by=by)

    async def detach(self, label: str, *, key: str, by: str | None = None) -> None:
        """Take an attached block out of core memory. Its artifact stays."""
        await self.core.detach(label, key=key, by=by)

    # -- long-term memory

    async def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        importance: float = 0.5,
        speaker: str = "",
        date: str = "",
        trust: str = "trusted",
        key: str,
        by: str | None = None,
        run_id: str | None = None,
    ) -> Entry:
        """Keep an entry; one that says the same as a living one is not stored (`deduplicated`).

        Units:  `importance` from 0 to 1.
        Errors: `InvalidRequest`; the embedder's, and nothing was stored; `Conflict` for a used key.
        Cost:   one event and two blobs, whatever the number of entries.
        """
        return await self.entries.remember(
            text,
            tags=tags,
            importance=importance,
            speaker=speaker,
            date=date,
            trust=trust,
            key=key,
            by=by,
            run_id=run_id,
        )

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        tags: Sequence[str] = (),
        min_importance: float | None = None,
        since: int | None = None,
        until: int | None = None,
        trust: str | Sequence[str] | None = None,
    ) -> list[Recalled]:
        """The entries that answer best, best first.

        Units: `since` and `until` are ticks as entries have them, both inclusive.
        """
        return await self.entries.recall(
            query,
            limit=limit,
            tags=tags,
            min_importance=min_importance,
            since=since,
            until=until,
            trust=trust,
        )

    async def forget(self, id: str, *, key: str, by: str | None = None, run_id: str | None = None) -> Entry:
        """Take an entry out; `undo` brings it back. Errors: `NotFound`."""
        return await self.entries.forget(id, key=key, by=by, run_id=run_id)

    # -- both

    async def search(self, query: str, limit: int = 10) -> list[Found]:
        """Hits in core blocks, the scratchpad and long-term memory, each labelled with its place.

        At most half of them come from blocks, so that a long block never hides the entries.
        """
        recalled = await self.entries.recall(query, limit=limit)
        core = _in_blocks(await self.core.blocks(), query)[: max(1, limit // 2)]
        entries = [
            Found(where="long-term", text=hit.text, score=hit.score, id=hit.id, trust=hit.trust)
            for hit in recalled
        ]
        return [*core, *entries][:limit]

    async def changes(self, limit: int = 20, *, before: int | None = None) -> list[Change]:
        """Return what was changed in this memory, newest first, below the id `before`."""
        return await self.log.newest(limit, before=before)

    async def undo(
        self, change_id: int, *, key: str, by: str | None = None, run_id: str | None = None
    ) -> Change:
        """Take a change back. Errors: `NotFound`; `Conflict` if it was undone, or overwritten since."""
        return await self.log.undo(change_id, key=key, by=by, run_id=run_id)

    async def version(self) -> int:
        """A number that grows with every change that `blocks` or `recall` could show.

        Cost: one query.
        """
        slots = await self.core.slots()
        names = [f"artifact:{slot.artifact}" for slot in slots]
        names.append(self.scope.stream.local)
        return await newest_position_of(self.scope.store, self.tenant, self.scope.stream.space, names)

    def history(self, runs: Store | None = None) -> AgentHistory:
        """All messages of the agent's runs. `runs` is the store they are in, if it is another one."""
        store = runs or self.scope.store
        found = self._histories.pop((self._sight, id(store)), None)
        if found is None or found.store is not store:
            found = AgentHistory(store, self.tenant, self.agent, sight=self._sight)
        self._histories[self._sight, id(store)] = found
        while len(self._histories) > SHELVES_MAX:
            self._histories.popitem(last=False)
        return found

    def tools(self, *, trust: Trust = "untrusted", runs: Store | None = None) -> list[ToolPort]:
        """The tools by which a model uses this memory; `runs` as for `history`.

        `trust` labels what is remembered: a label, or a function that is asked at each call. What a model
        writes is untrusted unless its run says otherwise.
        """
        from artelier.memory.tools import memory_tools

        return memory_tools(self, trust=trust, runs=runs)


class LogMemoryStore:
    """Memories over a store that has the view `memory` (that of a kernel, for one)."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        embedder: Embedder | str = "hashing",
        blocks: Mapping[str, int] = DEFAULT_BLOCKS,
        max_entries: int = MAX_ENTRIES,
        auto_prune: str = "oldest",
        is_apart: bool = False,
    ) -> None:
        """`blocks` are the default labels and limits in characters. `max_entries` and `auto_prune`
        (`oldest` or `lowest_score`) hold for memories that begin here.
        `is_apart`: the runs of these agents are in another store.
        """
        for label, limit_chars in blocks.items():
            check_label(label)
            if not 1 <= limit_chars <= LIMIT_CHARS_MAX:
                raise InvalidRequest("limit of a block", got=limit_chars)
        if max_entries < 1 or auto_prune not in PRUNINGS:
            raise InvalidRequest(
                "limits of a memory",
                expected=f"max_entries from 1, {' or '.join(PRUNINGS)}",
                got=f"{max_entries}, {auto_prune}",
            )
        self._store = store
        self._clock = clock
        self._named = embedder
        self._blocks = dict(blocks)
        self._max_entries = max_entries
        self._auto_prune = auto_prune
        self._is_apart = is_apart
        self._memories: OrderedDict[tuple[str, str], LogMemory] = OrderedDict()

    @property
    def store(self) -> Store:
        return self._store

    @property
    def embedder(self) -> Embedder:
        """The embedder that makes the vectors; loaded on first use."""
        if isinstance(self._named, str):
            from artelier.memory.embedders import embedder_named

            self._named = embedder_named(self._named)
        return self._named

    def settings(self) -> dict[str, Any]:
        """JSON data by which another process finds the same memories."""
        named = self._named
        name = named if isinstance(named, str) else named.name
        return {"log": True, "embedder": name, "blocks": self._blocks}

    def for_agent(self, tenant: str, agent_id: str) -> LogMemory:
        """The memory of an agent. Nothing is written before its first change.

        Errors: `InvalidRequest` for what is no tenant or agent id.
        """
        key = (tenant, agent_id)
        memory = self._memories.pop(key, None)
        if memory is None:
            config = msgspec.json.encode(
                {
                    "config": {
                        "max_entries": self._max_entries,
                        "auto_prune": self._auto_prune,
                        "embedder": self.embedder.name,
                        "dims": self.embedder.dims,
                    }
                }
            )
            scope = MemoryScope(self._store, self._clock, tenant, agent_id, config)
            memory = LogMemory(scope, self._blocks, self.embedder, is_apart=self._is_apart)
        self._memories[key] = memory
        while len(self._memories) > AGENTS_MAX:
            self._memories.popitem(last=False)
        return memory

    async def agents(self, tenant: str, *, limit: int = 1_000) -> list[tuple[str, int]]:
        """`(agent id, living entries)` of every memory that was opened, by agent id."""
        return await memory_sizes(self._store, tenant, limit=limit)


def _in_blocks(blocks: Sequence[Block], query: str) -> list[Found]:
    """Paragraphs of blocks that share words with a query, those that share most first."""
    wanted = set(tokens_of(query))
    found: list[Found] = []
    for block in blocks:
        where = SCRATCHPAD if block.label == SCRATCHPAD else f"core:{block.label}"
        for line in block.text.splitlines():
            shared = len(wanted & set(tokens_of(line))) if line.strip() else 0
            if shared:
                found.append(
                    Found(where=where, text=line, score=round(shared / len(wanted), 6), id=block.ref)
                )
    return sorted(found, key=lambda hit: -hit.score)
