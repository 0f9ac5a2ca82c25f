"""Chats for tests: events of turns as runs write them, one batch each, and what a store says of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from artelier import Kernel, ModelRequest
from artelier.app import TenantKernel
from artelier.chat import Session
from artelier.chat.queries import chats, tree
from artelier.chat.rows import run_name
from artelier.chat.turn.turn_events import session_stream
from artelier.kernel import events as kev
from artelier.kernel.prompt.manifest import encode_json
from artelier.log import (
    Batch,
    Blob,
    BlobRef,
    Draft,
    EventData,
    StreamAppend,
    decode_stored,
    make_blob,
    run_stream,
    stored_blob,
)
from artelier.operations import events as ev
from artelier.testing import ManualClock, ScriptedModel

T = TypeVar("T")

SCOPE = "p/default"


def kernel_of(session: Session) -> TenantKernel:
    """Return the kernel of a session's tenant, with all that it can do."""
    assert isinstance(session.desk, TenantKernel)
    return session.desk


def requests_of(session: Session) -> list[ModelRequest]:
    """Return what the scripted model `m` was asked."""
    port = session.desk.services.model("m")[1]
    assert isinstance(port, ScriptedModel)
    return port.requests


def play(scenario: Coroutine[Any, Any, T], *, within_s: float = 120.0) -> T:
    """Run a scenario to its end; one that hangs is a failure."""

    async def bounded() -> T:
        async with asyncio.timeout(within_s):
            return await scenario

    return asyncio.run(bounded())


def words(request: ModelRequest) -> str:
    """What the person said last."""
    return next((one.text for one in reversed(request.messages) if one.role == "user"), "")


def echo(request: ModelRequest) -> str:
    return f"re: {words(request)}"


def opened(
    folder: Path, answer: Callable[[ModelRequest], Any] = echo, *, name: str = "state", **more: Any
) -> Kernel:
    """A kernel whose model `m` answers by a function."""
    model = ScriptedModel(answer)
    return Kernel.open(folder / f"{name}.db", models={"m": model}, environ={}, **more)


class Chat:
    """Writes the stream of one chat, as sessions and runs do."""

    def __init__(self, kernel: Kernel, chat: str = "c", *, tenant: str = "default") -> None:
        self.kernel, self.chat, self.tenant = kernel, chat, tenant
        self.store = kernel.store
        self.runs = 0
        self.now_us = 1_000_000
        self._blobs: list[Blob] = []

    async def keep(self, value: Any) -> BlobRef:
        key = await self.store.data_key(self.tenant)
        ref, blob = make_blob(self.tenant, key, encode_json(value))
        self._blobs.append(blob)
        return ref

    async def put(self, *events: EventData, run: str = "", ends: EventData | None = None) -> None:
        """Append events of the chat, those of a new run around them, as one batch."""
        stream = session_stream(self.tenant, self.chat)
        appends = [StreamAppend(stream, [self._draft(data) for data in events])]
        if run:
            own = run_stream(self.tenant, run)
            started = Draft(kev.RunStarted(loop="chat"), self.now_us, "t")
            appends = [StreamAppend(stream, [self._draft(events[0])]), StreamAppend(own, [started])]
            if rest := [self._draft(data) for data in events[1:]]:
                appends.append(StreamAppend(stream, rest))
            if ends is not None:
                appends.append(StreamAppend(own, [self._draft(ends)]))
        await self.store.append(Batch(appends=appends, blobs=self._blobs))
        self._blobs = []

    def _draft(self, data: EventData) -> Draft:
        return Draft(data, self.now_us, "t")

    async def begin(self, *greetings: str) -> Chat:
        texts = tuple([await self.keep(text) for text in greetings])
        await self.put(ev.ChatOpened(settings=await self.keep({"model": "m"}), greetings=texts))
        return self

    async def change(self, tag: str, value: Any, **more: Any) -> ev.ArtifactUpdate:
        fields: dict[str, Any] = {"versions_max": 10, **more}
        return ev.ArtifactUpdate(tag=tag, value=await self.keep(value), **fields)

    async def asked(self, branch: str = "main", *, trigger: str = "generate", text: str = "hi") -> Any:
        self.runs += 1
        return ev.TurnAsked(
            branch=branch,
            run=run_name(self.chat, self.runs),
            trigger=trigger,
            settings=await self.keep({"chat": self.chat, "branch": branch, "model": "m"}),
            text=await self.keep(text) if trigger == "generate" else None,
            tokens=1,
        )

    async def parts(self, *texts: str) -> tuple[ev.ReplyPart, ...]:
        return tuple([ev.ReplyPart(text=await self.keep(text)) for text in texts])

    async def turn(
        self,
        reply: str = "yes",
        *,
        branch: str = "main",
        trigger: str = "generate",
        text: str = "hi",
        scope: str = SCOPE,
        before: Sequence[ev.ArtifactUpdate] = (),
        after: Sequence[ev.ArtifactUpdate] = (),
        at_us: int | None = None,
        **ended: Any,
    ) -> str:
        """A whole turn; its run. An empty `reply` is a main call that failed."""
        self.now_us = at_us if at_us is not None else self.now_us + 1_000_000
        asked = await self.asked(branch, trigger=trigger, text=text)
        begun = ev.VariantBegun(
            branch=branch, run=asked.run, profile="p@1" if scope else "", scope=scope, changes=tuple(before)
        )
        end = ev.VariantEnded(
            branch=branch,
            run=asked.run,
            status="done" if reply else "failed",
            parts=await self.parts(reply) if reply else (),
            changes=tuple(after),
            **ended,
        )
        ends = kev.RunCompleted() if reply else kev.RunFailed(reason="main_llm")
        await self.put(asked, begun, end, run=asked.run, ends=ends)
        return asked.run

    # Reading

    async def row(self) -> chats.ChatRow:
        return await chats.chat_row(self.store, self.tenant, self.chat)

    async def head(self, branch: str = "main") -> int:
        return (await chats.branch_of(self.store, await self.row(), branch)).head

    async def stand(self, branch: str = "main", *, scope: str = SCOPE, **more: Any) -> tree.NodeState:
        fields: dict[str, Any] = {"now_us": self.now_us, "node": await self.head(branch), **more}
        return await tree.stand(self.store, self.tenant, self.chat, scope=scope, **fields)

    async def state(self, branch: str = "main", *, scope: str = SCOPE, **more: Any) -> dict[str, Any]:
        """The artifacts at a branch's head: a value and what came before it, newest first, by tag."""
        found = await self.stand(branch, scope=scope, **more)
        return {seen.tag: [await self.json(ref) for ref in seen.values] for seen in found.artifacts}

    async def json(self, ref: str) -> Any:
        return decode_stored(await stored_blob(self.store, self.tenant, ref))

    async def said(self, branch: str = "main") -> list[str]:
        return [message.text for message in (await self.stand(branch)).said]

    async def nodes(self, branch: str = "main") -> list[tree.TurnNodes]:
        return await tree.path(self.store, (await self.row()).id, await self.head(branch), limit=99)


def scene(folder: Path, **more: Any) -> Kernel:
    return opened(folder, clock=ManualClock(), **more)


TABLES = (
    "chats",
    "chat_branches",
    "chat_nodes",
    "chat_sessions",
    "chat_scopes",
    "chat_art",
    "runs",
    "steps",
    "messages",
)


async def rows_of(kernel: Kernel, tables: Sequence[str] = TABLES) -> dict[str, list[Any]]:
    """Rows of views with streams called by their names: the same in any store that holds the same."""
    query = kernel.store.query
    names = dict(await query("SELECT id, name FROM streams"))
    found: dict[str, list[Any]] = {}
    for table in tables:
        rows = await query(f"SELECT * FROM {table}")
        found[table] = sorted((names[row[0]], *map(str, row[1:])) for row in rows)
    return found
