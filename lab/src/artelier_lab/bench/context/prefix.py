"""The prefix that a prompt shares with the one before it, and the bytes that each step adds to the record.

It is measured on the requests that the model was really given, by an agent with everything that stands in a
prompt: identity, rules, a list of skills, core memory, and memories recalled into the tail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from artelier import Kernel, ModelReply, ModelRequest, ToolCall, Usage
from artelier.agents import AutonomousAgent
from artelier.context import ContextBuilder
from artelier.kernel import Manifest
from artelier.kernel.events import ContextAssembled
from artelier.log import blob_name
from artelier.memory import SQLiteMemoryStore
from artelier.ports.model import FREE, Price
from artelier.tokens import Window, estimate_tokens
from artelier.tokens.prompt_cache import without_tail
from artelier_lab.bench.context.requests import read_order, shared, tokens_of
from artelier_lab.bench.kernel.cycle import fetch
from artelier_lab.bench.kernel.turns import turn_keys
from artelier_lab.skills_fixture import fifty_tools

AGENT = "clerk"
NOTE_EVERY, REMEMBER_EVERY = 25, 10
"""Turns after which the agent writes into its core memory, and after which it remembers something."""

ENTRIES = 40
"""Memories that it begins with."""


class ClerkModel:
    """Loads a skill, uses it turn after turn, and now and then writes something down."""

    price: Price | None = FREE

    def __init__(self, turns: int) -> None:
        self.requests: list[ModelRequest] = []
        """Of the turns; those for summaries are left out."""
        self._turns = turns

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        usage = Usage(input_tokens=tokens_of(request), output_tokens=30)
        if not request.tools:
            return ModelReply(text="Rows were read, one by one.", usage=usage)
        self.requests.append(request)
        turn = len(self.requests)
        if turn > self._turns:
            return ModelReply(text="All rows were read.", usage=usage)
        return ModelReply(tool_calls=(self._call(turn),), usage=usage)

    def _call(self, turn: int) -> ToolCall:
        name, arguments = "use_skill", dict[str, Any](name="fetch", arguments={"n": turn})
        if turn == 1:
            name, arguments = "load_skill", {"skill_name": "fetch"}
        elif turn % NOTE_EVERY == 0:
            name, arguments = "core_memory_append", {"content": f"Read up to row {turn}."}
        elif turn % REMEMBER_EVERY == 0:
            text = f"Row {turn} differs from row {turn - 1} in column {turn % 7}."
            name, arguments = "remember", {"text": text}
        return ToolCall(id=f"c{turn}", name=name, arguments=arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompted:
    """One prompt of a turn: what was sent, what it was made of, and what its record took."""

    request: ModelRequest
    manifest: Manifest
    tail: str
    """Text that was added to its last message."""
    bytes: int
    """Of its event and of the content that no earlier manifest had."""

    def part(self, tag: str) -> str | None:
        """Content of the part with this tag, by reference."""
        return next((part.blob for part in self.manifest.parts if part.tag == tag), None)

    @property
    def start(self) -> int:
        """Number of the first message that stands verbatim."""
        return next((p.start for p in self.manifest.parts if p.conversation is not None), 1)


def bench_prefix(folder: Path, *, turns: int, progress: Callable[[str], None]) -> dict[str, float]:
    """Shared prefixes over the turns without compaction or memory write, and bytes of manifests.

    Recalled memories are other ones each turn; so what a growing conversation alone adds to the record is
    measured on an agent without them.
    """
    progress(f"context: prefixes of {turns} turns")
    recalling = asyncio.run(prompts_of(folder / "recalling", turns=turns))
    progress(f"context: manifests of {turns} turns")
    growing = asyncio.run(prompts_of(folder / "growing", turns=turns, recall_limit=0))
    return {**_prefixes(recalling), **_manifests(growing, recalling)}


async def prompts_of(folder: Path, *, turns: int, recall_limit: int = 5) -> list[Prompted]:
    """All prompts of the agent's turns, in order. `folder` is made."""
    folder.mkdir()
    model = ClerkModel(turns)
    windows = {"bench": Window(context_tokens=32_000, max_output_tokens=1_000)}
    with SQLiteMemoryStore(db_path=folder / "memory.db") as memories:
        await _fill(memories)
        builder = ContextBuilder(
            identity="You read rows and keep notes.",
            rules="Never skip a row.",
            memory_store=memories,
            progressive_skills=True,
            recall_limit=recall_limit,
        )
        with Kernel.open(
            folder / "prefix.db", models={"bench": model}, windows=windows, tools=[*fifty_tools(), fetch]
        ) as kernel:
            agent = AutonomousAgent(
                kernel=kernel, context_builder=builder, max_iterations=turns + 10, agent_id=AGENT
            )
            result = await agent.run(run_id="run", model="bench", prompt="Read the rows.")
            assert result.status == "completed", (result.status, result.reason)
            return await _prompted(kernel, model.requests)


async def _fill(memories: SQLiteMemoryStore) -> None:
    memory = memories.for_agent("default", AGENT)
    for number in range(ENTRIES):
        text = f"Row {number} belongs to customer {number * 37 % 101}, who reads the rows himself."
        await memory.remember(text, key=f"fill/{number}")


async def _prompted(kernel: Kernel, requests: Sequence[ModelRequest]) -> list[Prompted]:
    desk = kernel.for_tenant()
    sizes = await _record_bytes(kernel)
    found: list[Prompted] = []
    for key, request in zip(await turn_keys(kernel, "run"), requests, strict=True):
        assert (await desk.render("run", key)).canonical() == request.canonical(), key
        manifest = await desk.manifest("run", key)
        texts: list[str] = []
        for part in manifest.parts:
            if part.attach and part.blob is not None:
                name = blob_name(part.blob)
                texts.append((await desk.services.store.blob(desk.id, name)).decode())
        found.append(Prompted(request=request, manifest=manifest, tail="\n\n".join(texts), bytes=sizes[key]))
    return found


async def _record_bytes(kernel: Kernel) -> dict[str, int]:
    """Return by step the bytes of the manifest's event, and of content that no earlier manifest refers to."""
    store = kernel.for_tenant().services.store
    rows = await store.query("SELECT data FROM events WHERE kind = 'context.assembled' ORDER BY position")
    stored = await store.query("SELECT name, length(content) FROM blobs")
    left = {bytes(name): size for name, size in stored}
    sizes: dict[str, int] = {}
    for (data,) in rows:
        event = msgspec.json.decode(data, type=ContextAssembled)
        refs = [event.head, *(part.blob for part in event.parts)]
        new = sum(left.pop(blob_name(ref), 0) for ref in refs if ref is not None)
        sizes[event.key] = len(data) + new
    return sizes


def _only_grown(prompts: list[Prompted]) -> list[tuple[Prompted, Prompted]]:
    """Neighbours between which neither a compaction nor a memory write lies."""
    return [
        (before, after)
        for before, after in pairwise(prompts)
        if before.start == after.start and before.part("memory") == after.part("memory")
    ]


def _prefixes(prompts: list[Prompted]) -> dict[str, float]:
    found = [_shared_tokens(before, after.request) for before, after in _only_grown(prompts)]
    compacted = sum(before.start != after.start for before, after in pairwise(prompts))
    return {
        "prefix_shared_ratio": sum(common for common, _ in found) / sum(of for _, of in found),
        "prefix_shared_ratio_min": min(common / of for common, of in found),
        "prefix_turns": float(len(found)),
        "prefix_turns_compacted": float(compacted),
        "prefix_turns_memory": float(len(prompts) - 1 - len(found) - compacted),
    }


def _manifests(growing: list[Prompted], recalling: list[Prompted]) -> dict[str, float]:
    grown = [after.bytes for _, after in _only_grown(growing)]
    recalled = [after.bytes for _, after in _only_grown(recalling)]
    return {
        "manifest_bytes_per_step": sum(grown) / len(grown),
        "manifest_bytes_max": float(max(grown)),
        "manifest_bytes_per_step_recalled": sum(recalled) / len(recalled),
    }


def _shared_tokens(before: Prompted, request: ModelRequest) -> tuple[int, int]:
    """Tokens of the common prefix, and of the earlier request without its tail."""
    earlier = before.request
    if before.tail:
        *rest, last = earlier.messages
        earlier = msgspec.structs.replace(earlier, messages=(*rest, without_tail(last)))
    common = shared(read_order(before.request), read_order(request))
    return estimate_tokens(common), estimate_tokens(read_order(earlier))
