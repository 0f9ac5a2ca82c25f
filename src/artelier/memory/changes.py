"""The changes of a memory, newest first, and how each is taken back.

Nothing is ever deleted, so a change is undone by another change: entries come back, texts get their earlier
words again. An undo is a change itself and can be undone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.log import EventData
from artelier.memory import events as ev
from artelier.memory import queries
from artelier.memory.blocks import Blocks, taken_back
from artelier.memory.entries import LIMIT_MAX, Entries
from artelier.memory.memory_handle import MemoryScope, checked_key
from artelier.ports.memory import Change

SUMMARY_CHARS = 120


class _Opposite(NamedTuple):
    """The reversal of a change of entries."""

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    raised: tuple[ev.Raised, ...] = ()


class Changes:
    """The changes of one memory."""

    def __init__(self, scope: MemoryScope, blocks: Blocks, entries: Entries) -> None:
        self._scope = scope
        self._blocks = blocks
        self._entries = entries

    async def newest(self, limit: int = 20, *, before: int | None = None) -> list[Change]:
        """Changes, newest first, below the id `before`."""
        if not 1 <= limit <= LIMIT_MAX:
            raise InvalidRequest("limit", expected=f"1 to {LIMIT_MAX}", got=limit)
        if (opened := await self._scope.read_opened("read")) is None:
            return []
        found = await queries.changes_before(self._scope.store, opened.id, before or 1 << 62, limit=limit)
        return [await self.change(seq) for seq in found]

    async def change(self, change_id: int) -> Change:
        """Errors: `NotFound`."""
        found = await queries.find_change(self._scope.store, await self._scope.row_id(), change_id)
        if found is None:
            raise NotFound(f"no change {change_id} of this memory", hint="`changes` lists those there are.")
        return Change(
            id=change_id,
            kind=found.kind,
            summary=await self._summary(await self._event(change_id)),
            at_us=found.at_us,
            by=found.actor,
            run_id=found.run,
            undone_by=found.undone,
        )

    async def undo(
        self, change_id: int, *, key: str, by: str | None = None, run_id: str | None = None
    ) -> Change:
        """Take a change back; the change that did so.

        Errors: `NotFound`; `Conflict` if it was undone already, or if what it wrote was changed since.
        """
        scope, key = self._scope, checked_key(key)
        await scope.read_opened("write")
        found, event = await self.change(change_id), await self._event(change_id)
        label = event.label if isinstance(event, ev.BlockWritten) else ""
        asked = await scope.hash_request("undo", label, change_id)
        if (done := await scope.find_applied(key, asked)) is not None:
            return await self.change(done[0])
        if found.undone_by is not None:
            raise Conflict(
                f"change {change_id} was undone already",
                got=f"by change {found.undone_by}",
                hint=f"Undo change {found.undone_by} to have it again.",
            )
        try:
            if isinstance(event, ev.BlockWritten):
                await self._undo_block(event, change_id, key=key, by=by, run_id=run_id)
            else:
                opposite = msgspec.structs.replace(
                    self._opposite(event, change_id), key=key, asked=asked, run_id=run_id
                )
                await scope.record([opposite], by=by)
        except Conflict:
            if await scope.find_applied(key, asked) is None:
                raise  # else this call was repeated meanwhile, and the other one was faster
        done = await scope.find_applied(key, asked)
        assert done is not None
        return await self.change(done[0])

    async def _undo_block(
        self, event: ev.BlockWritten, change_id: int, *, key: str, by: str | None, run_id: str | None
    ) -> None:
        read = self._scope.artifacts.read
        slot = await self._blocks.slot(event.label)
        if slot.artifact != event.artifact:
            raise Conflict(
                f"block {event.label} is another artifact now", expected=event.artifact, got=slot.artifact
            )
        after = (await read(f"{event.artifact}@{event.version}", price_max=0)).content
        before = ""
        if event.version > 1:
            before = (await read(f"{event.artifact}@{event.version - 1}", price_max=0)).content
        await self._blocks.change(
            event.label,
            "undo",
            (change_id,),
            lambda now: taken_back(now, before=before, after=after),
            key=key,
            by=by,
            run_id=run_id,
            undoes=change_id,
        )

    def _opposite(self, event: EventData, change_id: int) -> ev.Keyed:
        """The event that takes another back."""
        store = self._scope.artifact
        if isinstance(event, ev.BlockAttached):
            if event.before is None:
                return ev.BlockDetached(
                    store=store,
                    label=event.label,
                    artifact=event.artifact,
                    limit_chars=event.limit_chars,
                    change=change_id,
                )
            return ev.BlockAttached(
                store=store,
                label=event.label,
                artifact=event.before,
                change=change_id,
                limit_chars=event.before_chars,
                before=event.artifact,
                before_chars=event.limit_chars,
            )
        if isinstance(event, ev.BlockDetached):
            return ev.BlockAttached(
                store=store,
                label=event.label,
                artifact=event.artifact,
                limit_chars=event.limit_chars,
                change=change_id,
            )
        gone = _opposite_of(event)
        return ev.MemoryRestored(
            store=store, change=change_id, restored=gone.restored, removed=gone.removed, raised=gone.raised
        )

    async def _event(self, seq: int) -> EventData:
        events = await self._scope.store.read(self._scope.stream, after=seq - 1, limit=1)
        if not events or events[0].seq != seq:
            raise NotFound(f"no change {seq} of this memory")
        return events[0].decode()

    async def _summary(self, event: EventData) -> str:
        """One line for people."""
        match event:
            case ev.MemoryAdded():
                return f"remembered {event.id}: {await self._text(event.id)}"
            case ev.MemoryRemoved():
                texts = [await self._text(id_) for id_ in event.ids[:1]]
                return f"forgot {', '.join(event.ids)}: {texts[0]}"
            case ev.MemoryPruned():
                return f"pruned {len(event.ids)} entries ({event.policy})"
            case ev.MemoryConsolidated():
                merged = sum(len(one.removed) for one in event.merged)
                return (
                    f"consolidated: {merged} merged, {len(event.aged)} aged,"
                    f" {len(event.boot)} boot text, {len(event.promoted)} promoted"
                )
            case ev.MemoryRestored():
                return (
                    f"undid change {event.change}: {len(event.restored)} back, {len(event.removed)} removed"
                )
            case ev.BlockWritten():
                what = f"undid change {event.change} of" if event.change else f"{event.how}:"
                return f"{what} block {event.label}, version {event.version}"
            case ev.BlockAttached():
                return f"attached {event.artifact} as block {event.label}"
            case ev.BlockDetached():
                return f"detached {event.artifact} from block {event.label}"
            case _:
                return event.KIND

    async def _text(self, id_: str) -> str:
        text = await self._entries.text_of(id_)
        line = " ".join(text.split())
        return line if len(line) <= SUMMARY_CHARS else f"{line[: SUMMARY_CHARS - 3]}..."


def _opposite_of(event: EventData) -> _Opposite:
    match event:
        case ev.MemoryAdded():
            return _Opposite(removed=(event.id,))
        case ev.MemoryRemoved() | ev.MemoryPruned():
            return _Opposite(restored=event.ids)
        case ev.MemoryConsolidated():
            merged = (id_ for one in event.merged for id_ in one.removed)
            return _Opposite(
                restored=(*merged, *event.aged, *event.boot),
                removed=event.promoted,
                raised=_back(event.raised),
            )
        case ev.MemoryRestored():
            return _Opposite(event.removed, event.restored, _back(event.raised))
        case _:
            raise InvalidRequest(f"{event.KIND} cannot be undone")


def _back(raised: Iterable[ev.Raised]) -> tuple[ev.Raised, ...]:
    return tuple(ev.Raised(id=one.id, before=one.after, after=one.before) for one in raised)
