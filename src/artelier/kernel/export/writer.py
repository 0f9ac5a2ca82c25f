"""Writing the log to a file: events in the order in which they were recorded, then what they refer to."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator

import msgspec

from artelier.errors import CorruptStore, Erased
from artelier.kernel import events as ev
from artelier.kernel.export.archive import ArchiveWriter, Belongings, EventLine, KeyLine
from artelier.kernel.export.scope import check_place, head_refs
from artelier.kernel.run.services import Services
from artelier.log import DataKey, Event, Stream, blob_name, blob_ref
from artelier.log.blobs import name_blob
from artelier.log.event import event_hash
from artelier.log.queries import has_blob
from artelier.log.verify import blob_refs

PAGE = 5000
"""Events in memory, over all streams of an export."""


async def by_position(services: Services, streams: dict[Stream, int]) -> AsyncIterator[Event]:
    """The events of some streams in the order in which they were recorded."""
    size = max(20, min(500, PAGE // max(1, len(streams))))
    pages: dict[Stream, list[Event]] = {stream: [] for stream in streams}
    after = dict.fromkeys(streams, 0)

    async def fill(stream: Stream) -> None:
        page = await services.store.read(stream, after=after[stream], limit=size)
        pages[stream] = [event for event in page if event.position <= streams[stream]][::-1]
        if page:
            after[stream] = page[-1].seq
        if not pages[stream]:
            del pages[stream]
        await asyncio.sleep(0)

    for stream in streams:
        await fill(stream)
    waiting = [(page[-1].position, stream) for stream, page in pages.items()]
    heapq.heapify(waiting)
    while waiting:
        _, stream = waiting[0]
        yield pages[stream].pop()
        if not pages[stream]:
            await fill(stream)
        if stream in pages:
            heapq.heapreplace(waiting, (pages[stream][-1].position, stream))
        else:
            heapq.heappop(waiting)


class Packer:
    """Writes events, then whatever content they refer to. What is broken is not exported."""

    def __init__(
        self,
        services: Services,
        tenant: str,
        writer: ArchiveWriter,
        *,
        belongings: Belongings | None = None,
        beside: Packer | None = None,
    ) -> None:
        """`belongings` checks what an import would check. `beside` packs another store's events into the
        same file."""
        self._services = services
        self._tenant = tenant
        self.writer = writer
        self._belongings = belongings
        self._keys: dict[bytes, int] = beside._keys if beside else {}
        self._done: set[bytes] = beside._done if beside else set()
        self._wanted: set[bytes] = set()
        self._manifests: set[bytes] = set()
        self._loose: set[bytes] = set()
        """Content in which something may look like a reference and be none."""

    def key(self, key: DataKey) -> int | None:
        """Number of a key in this file; writes its line on first use."""
        if key.key_id is None:
            return None
        number = self._keys.get(key.secret)
        if number is None:
            number = self._keys[key.secret] = len(self._keys) + 1
            self.writer.write(KeyLine(id=number, secret=key.secret))
        return number

    def event(self, event: Event) -> None:
        """Errors: `CorruptStore` for a broken chain; `InvalidExport` for what could not be imported."""
        hash_ = event_hash(
            event.prev_hash,
            stream=event.stream.local,
            seq=event.seq,
            kind=event.kind,
            version=event.version,
            data=event.data,
            at_us=event.at_us,
            actor=event.actor,
            cause=event.cause,
        )
        if hash_ != event.hash:
            raise CorruptStore(
                f"event {event.seq} of {event.stream.local} is not what was written",
                hint="Run `artelier verify`.",
            )
        data = event.decode()
        belongings, local = self._belongings, event.stream.local
        if belongings is not None and belongings.has_stream(local):
            belongings.take_own(local, event.seq, data, at_us=event.at_us)
        else:
            kinds = belongings.kinds if belongings is not None else ()
            check_place(local, event.seq, event.kind, data, more=kinds)
            if belongings is not None and local.startswith("artifact:"):
                belongings.take(event.stream.id, event.seq, data)
        self.writer.write(
            EventLine(
                stream=event.stream.local,
                seq=event.seq,
                kind=event.kind,
                version=event.version,
                data=msgspec.Raw(event.data),
                at_us=event.at_us,
                actor=event.actor,
                cause=event.cause,
                hash=event.hash,
            )
        )
        self._wanted.update(blob_refs(event.data))
        if isinstance(data, ev.ContextAssembled):
            self._manifests.add(blob_name(data.head))
        if isinstance(data, ev.RunStarted) and data.settings is not None:
            self._loose.add(blob_name(data.settings))

    async def contents(self) -> None:
        """Every blob that an event needs, and those that these need, by name."""
        waiting = sorted(self._wanted - self._done)
        while waiting:
            more: set[bytes] = set()
            for name in waiting:
                self._done.add(name)
                content = await self._blob(name)
                if name in self._manifests:
                    more.update(blob_name(ref) for ref in head_refs(content))
                if name in self._loose:
                    more.update([found for found in blob_refs(content) if await self._has(found)])
                await asyncio.sleep(0)
            waiting = sorted(more - self._done)

    async def _has(self, name: bytes) -> bool:
        return await has_blob(self._services.store, self._tenant, name)

    async def _blob(self, name: bytes) -> bytes:
        key = await self._services.store.key_of(self._tenant, name)
        if key is None and await self._has(name):
            raise Erased(
                "something that belongs into the file was erased",
                got=blob_ref(name),
                hint="What was erased is not exported; an agent is, without its memory: --without-memory.",
            )
        if key is None:
            raise CorruptStore("content that the run needs is gone", got=blob_ref(name))
        content = await self._services.store.blob(self._tenant, name)
        if name_blob(key, content) != name:
            raise CorruptStore(
                f"content {blob_ref(name)} is not what was written", hint="Run `artelier verify`."
            )
        if self._belongings is not None and self._belongings.wants(name):
            self._belongings.content(name, content)
        self.writer.write_blob(name, self.key(key), content)
        return content
