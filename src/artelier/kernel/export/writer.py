"""Writing the log to a file: events in the order in which they were recorded, then what they refer to.

The scope of an export: the streams that it holds, how far each counts, and the events they may hold.

Views act on events by their kind. So a kind must stand where its handler expects it: a `tenant.updated` in
the stream of a run would change the tenant that imports it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from artelier.artifacts import GROUPING, check_principal
from artelier.artifacts import MOVING as ARTIFACT_EVENTS
from artelier.artifacts.queries import streams_written
from artelier.errors import CorruptStore, Erased, InvalidExport, InvalidRequest
from artelier.ids import MAIN_SPACE, check_artifact_id, check_run_id
from artelier.kernel import events as ev
from artelier.kernel.export.archive import ArchiveWriter, Belongings, EventLine, GoneLine, KeyLine
from artelier.kernel.history.fork_lineage import key_of, lineage, part_key_id
from artelier.kernel.prompt.manifest import decode_head
from artelier.kernel.queries.content import bases_of
from artelier.kernel.queries.runs import family_upto, run_row
from artelier.kernel.queries.tenants import erasures_of, imported_key
from artelier.kernel.run.services import Services
from artelier.log import DataKey, Event, EventData, Stream, blob_name, blob_ref, control_stream, run_stream
from artelier.log.blobs import ContentErased, blob_refs, name_blob
from artelier.log.event import event_hash, names_messages
from artelier.log.queries import causes_of, content_key, events_at, has_blob, part_keys_in, position_of
from artelier.ports.media import ATTACH, media_refs
from artelier.threads import read_beside_loop

_ELSEWHERE: tuple[type[EventData], ...] = (*ev.OF_TENANTS, ev.CommandGiven)

KINDS: dict[str, set[str]] = {
    "run": {
        cls.KIND
        for cls in vars(ev).values()
        if isinstance(cls, type) and issubclass(cls, EventData) and cls not in _ELSEWHERE
    }
    - {""},
    "control": {ev.CommandGiven.KIND},
    "artifact": {cls.KIND for cls in (*ARTIFACT_EVENTS, *GROUPING)},
}
"""Kinds of events by type of stream. A package that records its own in runs adds them here."""

BESIDE: dict[str, set[str]] = {"membrane": {cls.KIND for cls in GROUPING}}
"""Kinds of events that stand beside the versions of an artifact, by its kind; added to like `KINDS`."""

ABOUT: dict[str, str] = {cls.KIND: "group" for cls in GROUPING}
"""Which field names the artifact in whose stream an event of this kind stands, where that is not `id`."""

T = TypeVar("T")


def check_stream(local: str) -> tuple[str, str]:
    """Type and id of a stream that may be exported. Errors: `InvalidExport`."""
    kind, _, id_ = local.partition(":")
    try:
        if kind == "artifact":
            return kind, check_artifact_id(id_)
        if kind in ("run", "control"):
            return kind, check_run_id(id_)
    except InvalidRequest as error:
        raise InvalidExport(f"a stream has no legal name: {error}") from None
    raise InvalidExport(
        "this stream is nothing that runs are made of",
        expected="run:..., control:... or artifact:...",
        got=local[:120],
    )


def check_place(local: str, seq: int, kind: str, data: EventData, *, more: Collection[str] = ()) -> None:
    """An event stands in a stream of its kind; `more` kinds may stand in those of artifacts.

    What events of `more` kinds say is checked by whoever named them. Errors: `InvalidExport`.
    """
    type_, id_ = check_stream(local)
    where = f"event {seq} of {local[:120]}"
    if type_ == "artifact" and kind in more:
        return
    if kind not in KINDS[type_]:
        raise InvalidExport(f"{where}: {kind[:80]} does not belong in such a stream")
    if isinstance(data, ev.LimitSet) and data.scope != f"run:{id_}":
        raise InvalidExport(f"{where} sets a cap of somebody else", got=data.scope[:120])
    if isinstance(data, ev.RunStarted | ev.RunForked) != (type_ == "run" and seq == 1):
        raise InvalidExport(f"{where}: a run's stream begins with its start, and nowhere else")
    if type_ == "artifact" and getattr(data, ABOUT.get(kind, "id"), None) != id_:
        raise InvalidExport(f"{where} is about another artifact")
    if isinstance(data, GROUPING):
        try:
            check_principal(getattr(data, "principal", None))
        except InvalidRequest as error:
            raise InvalidExport(f"{where}: {error}") from None


def head_refs(content: bytes) -> Iterator[str]:
    """Return what the head of a manifest refers to. Errors: `CorruptStore` if it is none."""
    head = decode_head(content)
    yield from (ref for ref in (head.tools, head.output_schema) if ref is not None)
    yield from (part.blob for part in head.parts if part.blob is not None)


def messages_named(kind: str, stored: bytes | str, data: EventData) -> Iterator[bytes]:
    """Yield the names of content that may hold messages, of those that an event refers to."""
    is_attached = isinstance(data, ev.StepCompleted) and data.name == ATTACH
    is_shown = isinstance(data, ev.ToolCompleted) and bool(data.media)
    if names_messages(kind) or is_attached or is_shown:
        yield from blob_refs(stored)


async def streams_of(
    services: Services, tenant: str, run_ids: Sequence[str], *, position: int
) -> dict[Stream, int]:
    """Streams and the position up to which each counts. Errors: `NotFound`.

    A run and its descendants count whole, up to `position`; the origins of forks up to the branch, and the
    runs that conversations go on from up to the message in question. With a run come the commands that it
    was given and the artifacts that it wrote, these from their first version on, since a chain of hashes
    has no other beginning.
    """
    found: dict[Stream, int] = {}

    def take(stream: Stream, upto: int) -> None:
        found[stream] = max(upto, found.get(stream, 0))

    runs: dict[str, int] = {}
    for run_id in run_ids:
        await _add_runs(services, tenant, run_id, position, runs)
    for run, upto in runs.items():
        take(run_stream(tenant, run), upto)
        commands = control_stream(tenant, run)
        last = upto if upto == position else await _last_command(services, commands, upto)
        if last:
            take(commands, last)
        for stream, written in await _artifacts(services, tenant, run, upto):
            take(stream, written)
    return found


async def _add_runs(
    services: Services, tenant: str, run_id: str, position: int, found: dict[str, int]
) -> None:
    """Add a run's family: runs and the position up to which each counts."""
    if found.get(run_id) == position:
        return  # it came with its parent, and whatever is below it as well
    await lineage(services, tenant, run_id)
    for run in await family_upto(services.store, tenant, run_id, position):
        await _add_needed(services, tenant, run, position, found)


async def _add_needed(
    services: Services, tenant: str, run_id: str, position: int, found: dict[str, int]
) -> None:
    """Add a run up to a position, and those before it without which that part cannot be read."""
    waiting = [(run_id, position)]
    while waiting:
        run, upto = waiting.pop()
        if found.get(run, 0) >= upto:
            continue
        found[run] = upto
        row = await run_row(services.store, tenant, run)
        if row.origin is not None:
            origin = await run_row(services.store, tenant, row.origin)
            branch = await _position(services, origin.id, row.origin_seq or 0)
            waiting.append((row.origin, branch))
        waiting += await _bases(services, tenant, row.id, upto)


async def _bases(services: Services, tenant: str, stream_id: int, upto: int) -> list[tuple[str, int]]:
    """Runs that conversations of a run go on from, each up to the position of the message in question.

    Errors: `CorruptStore` if one is missing.
    """
    rows = await bases_of(services.store, tenant, stream_id, upto=upto)
    for run, number, position in rows:
        if position is None:
            raise CorruptStore(
                f"message {number} of run {run}, from which a conversation goes on, is missing",
                hint="Run `artelier verify`.",
            )
    return [(run, position or 0) for run, _, position in rows]


async def _position(services: Services, stream_id: int, seq: int) -> int:
    return (await events_at(services.store, stream_id, [seq]))[seq].position


async def _last_command(services: Services, commands: Stream, upto: int) -> int:
    """Position of the newest command whose effect stands in the part of an origin that counts."""
    prefix = f"{commands.local}@"
    stream = Stream(commands.tenant, MAIN_SPACE, f"run:{commands.id}")
    causes = await causes_of(services.store, stream, prefix=prefix, upto=upto)
    seqs = [int(cause.removeprefix(prefix)) for cause in causes]
    return await position_of(services.store, commands, max(seqs)) if seqs else 0


async def _artifacts(services: Services, tenant: str, run: str, upto: int) -> list[tuple[Stream, int]]:
    """Streams of the artifacts that a run wrote, each up to the run's newest version of it, or the newest
    event of those that stand beside versions (members of a group, changes of a task)."""
    beside = [(kind, name) for kind, names in BESIDE.items() for name in names]
    found = await streams_written(services.store, tenant, MAIN_SPACE, run, upto=upto, beside=beside)
    return [(Stream(tenant, MAIN_SPACE, name), position) for name, position in found]


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
        self._messages: set[bytes] = set()
        """Content that may hold messages, which name media."""
        self._loose: set[bytes] = set()
        """Content in which something may look like a reference and be none."""
        self._gone: frozenset[int] = frozenset()
        """Keys of parts that were erased: what was under them is left out."""
        self._parts: frozenset[int] = frozenset()
        """Keys under which content can be erased alone."""

    async def look_for_parts(self) -> None:
        """Find out what of the file's matter was erased, and what can be erased, as a part of it."""
        if self._belongings is not None and self._belongings.erased_parts:
            store, name = self._services.store, self._belongings.erased_parts
            self._parts = await part_keys_in(store, self._tenant)
            erasures = await erasures_of(store, self._tenant, whole=False, what=name)
            self._gone = frozenset(key for one in erasures for key in one.read(ContentErased).keys)

    async def run_key(self, run: str) -> int | None:
        """The number of the key of a run's record; None where that was erased as a part."""
        store, tenant = self._services.store, self._tenant
        places = await lineage(self._services, tenant, run)
        try:
            return self.key(await key_of(self._services, places))
        except Erased:
            brought = await imported_key(store, tenant, [run]) or ()
            if self._gone.isdisjoint((*brought, await part_key_id(store, places))):
                raise
            return None

    def key(self, key: DataKey) -> int | None:
        """Number of a key in this file; writes its line on first use."""
        if key.key_id is None:
            return None
        number = self._keys.get(key.secret)
        if number is None:
            number = self._keys[key.secret] = len(self._keys) + 1
            self.writer.write(KeyLine(id=number, secret=key.secret, part=key.key_id in self._parts))
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
        self._messages.update(messages_named(event.kind, event.data, data))
        if isinstance(data, ev.RunStarted) and data.settings is not None:
            self._loose.add(blob_name(data.settings))

    async def contents(self) -> None:
        """Every blob that an event needs, and those that these need, by name."""
        waiting = sorted(self._wanted - self._done)
        while waiting:
            more: set[bytes] = set()
            for name in waiting:
                self._done.add(name)
                if (content := await self._blob(name)) is None:
                    continue
                if name in self._manifests:
                    refs = [blob_name(ref) for ref in head_refs(content)]
                    more.update(refs)
                    self._messages.update(refs)
                if name in self._messages:
                    named = await read_beside_loop(len(content), _listed, media_refs, content)
                    more.update(map(blob_name, named))
                if name in self._loose:
                    others = await read_beside_loop(len(content), _listed, blob_refs, content)
                    more.update([found for found in others if await self._has(found)])
                await asyncio.sleep(0)
            waiting = sorted(more - self._done)

    async def _has(self, name: bytes) -> bool:
        return await has_blob(self._services.store, self._tenant, name)

    async def _blob(self, name: bytes) -> bytes | None:
        """Write a piece of content; None if it was erased as a part."""
        key = await self._services.store.key_of(self._tenant, name)
        if key is None and await self._has(name):
            if await content_key(self._services.store, self._tenant, name) in self._gone:
                self.writer.write(GoneLine(name=name))
                return None
            raise Erased(
                "something that belongs into the file was erased",
                got=blob_ref(name),
                hint="What was erased is not exported; an agent is, without its memory: --without-memory.",
            )
        if key is None:
            raise CorruptStore("content that the run needs is gone", got=blob_ref(name))
        content = await self._services.store.blob(self._tenant, name)
        if await read_beside_loop(len(content), name_blob, key, content) != name:
            raise CorruptStore(
                f"content {blob_ref(name)} is not what was written", hint="Run `artelier verify`."
            )
        if self._belongings is not None and self._belongings.wants(name):
            self._belongings.content(name, content)
        await read_beside_loop(len(content), self.writer.write_blob, name, self.key(key), content)
        return content


def _listed(find: Callable[[bytes], Iterable[T]], content: bytes) -> list[T]:
    return [*find(content)]
