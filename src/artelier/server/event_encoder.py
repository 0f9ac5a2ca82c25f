"""Events as clients see them: encoded once, with the texts that people may read.

`{position, stream, space, seq, kind, at_us, actor, cause, data, texts}`. `data` is the event's own
fields; those that hold their default are left out. A field that names content stays a name; `TEXTS`
lists the fields whose content is sent along, and nothing else ever is. No kind of a chat's own stream
is in it, and no tool call of an operation: their texts may become the value of an artifact that people
must not see.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from artelier.artifacts.access import Access
from artelier.artifacts.events import ArtifactWritten
from artelier.errors import ArtelierError, Erased
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.log import Event, TenantTurns, registered, stored_blob
from artelier.log.contract import Store, stored_name
from artelier.operations.profile.definition import HOOKS
from artelier.server.wire.artifacts import without_path

TEXTS: dict[str, tuple[str, ...]] = {
    "artifact.written": ("content", "metadata"),
    "run.started": ("goal",),
    "run.paused": ("note",),
    "run.cancelled": ("note",),
    "run.failed": ("message",),
    "step.failed": ("message",),
    "model.failed": ("message",),
    "step.cancelled": ("came",),
    "step.timed_out": ("came",),
    "note.injected": ("text",),
    "tool.requested": ("arguments",),
    "tool.refused": ("arguments", "result"),
    "tool.completed": ("result",),
    "approval.requested": ("question",),
    "approval.given": ("answer",),
    "mission.planned": ("plan",),
    "mission.launched": ("plan",),
    "decision.taken": ("decision",),
    "decision.invalid": ("reply", "mistakes"),
    "task.evaluated": ("verdict",),
    "operation.finished": ("message",),
    "schedule.added": ("job",),
    "schedule.changed": ("job",),
    "schedule.paused": ("note",),
    "schedule.failed": ("message",),
}
"""Kind to the fields of it whose content goes to clients: the one place that says so. Of an artifact only who
or what somebody is (`DESCRIBING`) and its metadata, and nothing that `operator` may not read."""

TOLD = ("run:", "artifact:", "schedule:")
"""Types of streams whose events may have texts."""

DESCRIBING = frozenset(("agent", "task", "membrane"))

TEXT_CHARS_MAX = 1000
STRING_CHARS_MAX = 300
"""Of a text inside JSON that is too long as a whole."""
ITEMS_MAX = 20
DEPTH_MAX = 5
BLOB = re.compile(r"b:[A-Za-z0-9_-]{43}")
REMEMBERED_MAX = 10_000
REMEMBERED_BYTES_MAX = 4 * 1024 * 1024
"""Encoded events that are kept, so that those who join late cost no second encoding."""
SLICE_BYTES = 128 * 1024
SLICE_EVENTS = 20
"""What is read and encoded before everybody else in the event loop has a turn."""

_json = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class WireEvent:
    """One event, encoded once; the other fields are what filters look at."""

    position: int
    space: str
    stream: str
    kind: str
    body: bytes
    """JSON."""

    def frame(self) -> bytes:
        """Return the event as a server-sent event. JSON has no line break, so it is one line."""
        return b"id: %d\ndata: %s\n\n" % (self.position, self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The events a client wants. `prefix` is the id of a run, mission or artifact; it includes all below."""

    tenant: str
    prefix: str = ""
    kinds: frozenset[str] = frozenset()

    @property
    def is_narrow(self) -> bool:
        """True if it may pass over most events."""
        return bool(self.prefix or self.kinds)

    def holds(self, event: Event) -> bool:
        """Return whether a stored event is wanted, before it is encoded."""
        return self.lets(WireEvent(0, event.stream.space, event.stream.local, event.kind, b""))

    def lets(self, event: WireEvent) -> bool:
        if self.kinds and event.kind not in self.kinds:
            return False
        if not self.prefix:
            return True
        _, _, id_ = event.stream.partition(":")
        return (
            id_ == self.prefix
            or id_.startswith((f"{self.prefix}/", f"{self.prefix}::"))
            or (event.space == MAIN_SPACE and event.stream == f"tenant:{self.tenant}")
        )


class Encoder:
    """Encodes the events of one tenant, each once as long as it is remembered, one after the other.

    However many ask, a tenant's events take the event loop for a slice at a time.
    """

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._known: OrderedDict[int, WireEvent] = OrderedDict()
        self._known_bytes = 0
        self._erasures = 0
        """How many there were when the oldest of these was encoded: none holds what was erased since."""
        self._turn = asyncio.Lock()
        self._reads = TenantTurns(at_once=1)
        self._slice_bytes = self._slice_events = 0
        self.encoded = 0
        """How many events were encoded so far."""

    async def read(self, *, after: int, limit: int) -> list[Event]:
        """Return what is stored after a position, of this tenant alone.

        However many streams of a tenant catch up: one of them reads in a pass of the event loop.
        """
        await self._reads.take(self._tenant)
        return await self._store.read_all(after=after, limit=limit, tenant=self._tenant)

    async def encode(self, event: Event) -> WireEvent:
        """Return one event as clients see it."""
        return (await self._encode_slice([event]))[0]

    async def encode_all(self, events: Sequence[Event]) -> AsyncGenerator[WireEvent]:
        """Encode events one after the other, a slice at a time: the texts of a slice are read at once."""
        for start in range(0, len(events), SLICE_EVENTS):
            for wire in await self._encode_slice(events[start : start + SLICE_EVENTS]):
                yield wire

    async def _encode_slice(self, events: Sequence[Event]) -> list[WireEvent]:
        if len(known := self._find_known(events)) < len(events):
            async with self._turn:
                # Who waited for a turn often finds that another has encoded them.
                known = self._find_known(events)
                await self._encode_new([one for one in events if one.position not in known], known)
        return [known[event.position] for event in events]

    def _find_known(self, events: Sequence[Event]) -> dict[int, WireEvent]:
        if self._erasures != (erasures := self._store.erasures()):
            self._erasures = erasures
            self._known.clear()
            self._known_bytes = 0
        return {one.position: self._known[one.position] for one in events if one.position in self._known}

    async def _encode_new(self, events: Sequence[Event], known: dict[int, WireEvent]) -> None:
        """Encode events that are not remembered, and remember those read since the last erasure."""
        await self._pass_turn()
        erasures = self._erasures
        contents = await self._read_small(events)
        for event in events:
            known[event.position] = await self._encode(event, contents)
            await self._pass_turn()
        if erasures == self._erasures == self._store.erasures():
            for event in events:
                self._remember(known[event.position])

    async def _pass_turn(self) -> None:
        """Let everything else run once if this slice is spent."""
        if self._slice_bytes >= SLICE_BYTES or self._slice_events >= SLICE_EVENTS:
            self._slice_bytes = self._slice_events = 0
            await asyncio.sleep(0)

    async def _read_small(self, events: Sequence[Event]) -> dict[bytes, bytes]:
        """Read contents that are small by their nature at once; what tools take and give is read alone."""
        names = {
            stored_name(ref)
            for event in events
            if not event.kind.startswith("tool.")
            for ref in _named(event).values()
        }
        return await self._store.blobs(self._tenant, [*names]) if len(names) > 1 else {}

    async def _encode(self, event: Event, contents: Mapping[bytes, bytes]) -> WireEvent:
        assert event.stream.tenant == self._tenant, "an encoder is of one tenant"
        body = _json(
            {
                "position": event.position,
                "stream": event.stream.local,
                "space": event.stream.space,
                "seq": event.seq,
                "kind": event.kind,
                "at_us": event.at_us,
                "actor": event.actor,
                "cause": event.cause,
                "data": _data(event),
                "texts": await self._texts(event, contents),
            }
        )
        self.encoded += 1
        self._slice_events += 1
        self._slice_bytes += len(body)
        return WireEvent(event.position, event.stream.space, event.stream.local, event.kind, body)

    def _remember(self, wire: WireEvent) -> None:
        """Keep an event whose texts were read since the last erasure."""
        self._known[wire.position] = wire
        self._known_bytes += len(wire.body)
        while len(self._known) > REMEMBERED_MAX or self._known_bytes > REMEMBERED_BYTES_MAX:
            _, oldest = self._known.popitem(last=False)
            self._known_bytes -= len(oldest.body)

    async def _texts(self, event: Event, contents: Mapping[bytes, bytes]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, ref in _named(event).items():
            text = await self._text(ref, contents)
            if text is not None and (name == "job" or (name == "metadata" and _is_task(event))):
                text = _without_path(text)
            if text is not None:
                found[name] = text
        return found

    async def _text(self, ref: str, contents: Mapping[bytes, bytes]) -> str | None:
        content = contents.get(stored_name(ref))
        if content is None:
            try:
                content = await stored_blob(self._store, self._tenant, ref)
            except Erased as error:
                return error.mark
            except ArtelierError:
                return None  # damaged: `artelier verify` says so, a stream goes on
        self._slice_bytes += len(content)
        return shorten_content(content)


def _named(event: Event) -> dict[str, str]:
    """Return the references whose content clients may see, by the field that has each."""
    fields = TEXTS.get(event.kind, ())
    if not fields or not event.stream.local.startswith(TOLD):
        return {}
    data = event.plain()
    if of_operation(data.get("key", "")) and event.kind.startswith("tool."):
        return {}
    is_written = event.kind == "artifact.written"
    return {
        name: ref
        for name in fields
        if isinstance(ref := data.get(name), str)
        and BLOB.fullmatch(ref)
        and (not is_written or _may_be_told(data, name))
    }


def _is_task(event: Event) -> bool:
    return event.plain().get("kind") == "task"


def _without_path(text: str) -> str:
    """Return the metadata of a task, or what a schedule starts, as JSON without a path of this machine."""
    try:
        found = without_path(msgspec.json.decode(text, type=dict[str, Any]))
    except msgspec.DecodeError:
        return "{}"  # it was cut
    if isinstance(settings := found.get("settings"), dict):
        found["settings"] = without_path(cast("dict[str, Any]", settings))
    return _json(found).decode()


def shorten_content(content: bytes) -> str:
    """Content as text of bounded length: a JSON text without its quotes, larger JSON with its texts cut.

    What is left of larger JSON can still be read as JSON.
    """
    # A character has at most four bytes, one of a JSON text at most twelve; so much is enough to cut from.
    if content[:1] == b'"' and len(content) <= 12 * TEXT_CHARS_MAX:
        try:
            text = msgspec.json.decode(content, type=str)
        except msgspec.MsgspecError:
            text = content.decode("utf-8", "replace")
    elif content[:1] in b"{[" and TEXT_CHARS_MAX < len(content) <= JSON_BYTES_MAX:
        return _shortened_json(content)
    else:
        text = content[: 4 * TEXT_CHARS_MAX + 4].decode("utf-8", "replace")
    return _cut(text, TEXT_CHARS_MAX)


JSON_BYTES_MAX = 256 * 1024
"""Larger JSON is cut as text: nobody reads it in a line."""


def _shortened_json(content: bytes) -> str:
    try:
        value = msgspec.json.decode(content)
    except msgspec.MsgspecError:
        return _cut(content.decode("utf-8", "replace"), TEXT_CHARS_MAX)
    # Much in a small form: less of each, until it is short. The last form is a few names.
    for chars, items in ((STRING_CHARS_MAX, ITEMS_MAX), (80, 8), (40, 3)):
        text = _json(_prune(value, chars=chars, items=items, depth=DEPTH_MAX)).decode()
        if len(text) <= 4 * TEXT_CHARS_MAX:
            return text
    return _cut(text, TEXT_CHARS_MAX)


def _prune(value: object, *, chars: int, items: int, depth: int) -> object:
    if isinstance(value, str):
        return _cut(value, chars)
    if isinstance(value, dict | list) and not depth:
        return "…"
    if isinstance(value, dict):
        pairs = list(cast("dict[str, Any]", value).items())[:items]
        return {k: _prune(v, chars=chars, items=items, depth=depth - 1) for k, v in pairs}
    if isinstance(value, list):
        some = cast("list[Any]", value)[:items]
        return [_prune(one, chars=chars, items=items, depth=depth - 1) for one in some]
    return value


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


def _may_be_told(data: dict[str, Any], field: str) -> bool:
    """Return True if people may see this of an artifact that was written."""
    if field == "content" and data.get("kind") not in DESCRIBING:
        return False
    try:
        written = msgspec.convert(data, ArtifactWritten)
    except msgspec.ValidationError:
        return False
    return Access.check("read", OPERATOR, written).allowed


def of_operation(key: object) -> bool:
    """Return True if a step belongs to an operation; its key then has the hook as one segment."""
    return isinstance(key, str) and any(segment in HOOKS for segment in key.split("/"))


def _data(event: Event) -> msgspec.Raw | Any:
    """The event's fields in its newest schema; an unknown kind as it is stored."""
    newest = _newest().get(event.kind)
    if newest is None or newest == event.version:
        return msgspec.Raw(event.data)
    try:
        return event.decode()
    except ArtelierError:
        return msgspec.Raw(event.data)


_versions: dict[str, int] = {}


def _newest() -> dict[str, int]:
    """Kind to its newest version; read once, when the first event is encoded."""
    if not _versions:
        for kind, version in registered():
            _versions[kind] = max(version, _versions.get(kind, 0))
    return _versions


def page_body(items: Sequence[WireEvent], *, next_: int | None, head: int) -> bytes:
    """A JSON page of events that were encoded before."""
    tail = b"null" if next_ is None else b"%d" % next_
    return b'{"items":[%s],"next":%s,"head":%d}' % (b",".join(one.body for one in items), tail, head)
