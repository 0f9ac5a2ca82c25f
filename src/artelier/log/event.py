"""Events: their form, the types of their data, and the upgrade of old shapes to new ones.

This file owns the registry of `(kind, version)`. It never interprets an event: views and folds do.
Read next: `contract.py` (how events are appended).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple, NewType, TypeVar

import msgspec

from artelier.errors import InvalidEvent, UnknownEvent
from artelier.ids import MAIN_SPACE

BlobRef = NewType("BlobRef", str)
"""`b:` and the base64url of a blob's 32-byte name. Free text is only behind such a reference."""

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


class Stream(NamedTuple):
    """The address of a stream: its scope and its local name `<type>:<id>`."""

    tenant: str
    space: str
    local: str

    @property
    def name(self) -> str:
        """The stored name, `<tenant>/<space>/<type>:<id>`."""
        return f"{self.tenant}/{self.space}/{self.local}"

    @property
    def id(self) -> str:
        """The id without its type."""
        return self.local.partition(":")[2]


def run_stream(tenant: str, run_id: str) -> Stream:
    return Stream(tenant, MAIN_SPACE, f"run:{run_id}")


def control_stream(tenant: str, run_id: str) -> Stream:
    return Stream(tenant, MAIN_SPACE, f"control:{run_id}")


def tenant_stream(tenant: str) -> Stream:
    return Stream(tenant, MAIN_SPACE, f"tenant:{tenant}")


class EventData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The typed data of one kind of event: integers, strings, booleans and containers; no floats."""

    KIND: ClassVar[str] = ""
    VERSION: ClassVar[int] = 1
    IS_RULE: ClassVar[bool] = False
    """Whether its texts are rules of an operator, looked at where they are set, not as names."""


DataT = TypeVar("DataT", bound=EventData)
Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

_registry: dict[tuple[str, int], type[EventData]] = {}
_newest: dict[str, int] = {}
_upcasters: dict[tuple[str, int], Upcaster] = {}
_naming_messages: set[str] = set()


def event(
    kind: str, version: int = 1, *, names_messages: bool = False
) -> Callable[[type[DataT]], type[DataT]]:
    """Register a data class for `(kind, version)`; `kind` is `noun.past_participle`.

    `names_messages`: content that it refers to may hold messages, and these may name media.
    """

    def register(cls: type[DataT]) -> type[DataT]:
        if names_messages:
            _naming_messages.add(kind)
        if (kind, version) in _registry:
            raise InvalidEvent("event kind registered twice", got=f"{kind} version {version}")
        cls.KIND = kind
        cls.VERSION = version
        _registry[kind, version] = cls
        _newest[kind] = max(version, _newest.get(kind, 0))
        return cls

    return register


def upcaster(kind: str, version: int) -> Callable[[Upcaster], Upcaster]:
    """Register the step from `version` to `version + 1` of a kind."""

    def register(function: Upcaster) -> Upcaster:
        _upcasters[kind, version] = function
        return function

    return register


def registered() -> dict[tuple[str, int], type[EventData]]:
    """Every known `(kind, version)`, for docs and tests."""
    return dict(_registry)


def names_messages(kind: str) -> bool:
    """Return True if content that events of this kind refer to may name further content, as messages do."""
    return kind in _naming_messages


def is_known(kind: str, version: int) -> bool:
    """Return True for a kind and version that this code registers, or can read as a newer version."""
    return (kind, version) in _registry or (kind, version) in _upcasters


def encode_data(data: EventData) -> bytes:
    """Canonical JSON of event data: sorted keys, UTF-8, defaults left out."""
    return _encode(data)


def decode_data(kind: str, version: int, data: bytes) -> EventData:
    """Typed data of a stored event, upcast to the newest version.

    Errors: `UnknownEvent` for a pair nobody registered or data that does not fit its schema.
    """
    cls = _registry.get((kind, version))
    newest = _newest.get(kind)
    try:
        if cls is not None and version == newest:
            return msgspec.json.decode(data, type=cls)
        if newest is not None and version < newest:
            plain = _decode(data)
            for step in range(version, newest):
                plain = _upcasters[kind, step](plain)
            return msgspec.convert(plain, _registry[kind, newest])
    except (msgspec.MsgspecError, KeyError) as error:
        raise UnknownEvent(
            f"event {kind} version {version} does not fit its schema: {error}", kind=kind, unfit=True
        ) from None
    raise UnknownEvent(
        f"unknown event {kind} version {version}",
        expected="a kind this version of Artelier registers",
        got=f"{kind} version {version}",
        hint="It was written by another version; verify keeps it, folding needs that version.",
        kind=kind,
    )


def decode_import(kind: str, version: int, data: bytes) -> EventData:
    """Typed data of an event from elsewhere; bare data, which no view handles, for an unknown kind.

    Errors: `InvalidEvent` if it is no canonical JSON object, `UnknownEvent` if a known kind does not fit.
    """
    try:
        plain = _decode(data)
        is_canonical = isinstance(plain, dict) and _encode(plain) == data
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        is_canonical = False
    if not is_canonical:
        raise InvalidEvent(
            f"the data of event {kind} is not canonical",
            expected="a JSON object with sorted keys, without spaces",
            got=repr(data[:100]),
        )
    newest = _newest.get(kind)
    if newest is None or version > newest:
        return EventData()
    return decode_data(kind, version, data)


class Draft(NamedTuple):
    """An event about to be appended; the log gives it seq, position and hash."""

    data: EventData
    at_us: int
    """Microseconds since the epoch; in a world's stream the tick."""
    actor: str
    cause: str | None = None
    """`<local stream>@<seq>` of the event that led to it."""


DATA_BYTES_A_ROW = 128
"""Of an event's data: views make a row of so many bytes of a list in it (guess)."""


class RawDraft(NamedTuple):
    """A draft whose data is already canonical JSON, for imports that keep hashes (any kind)."""

    kind: str
    version: int
    data: bytes
    at_us: int
    actor: str
    cause: str | None = None

    @property
    def rows(self) -> int:
        """Return about how many rows it makes: one event may stand for a thousand turns."""
        return 1 + len(self.data) // DATA_BYTES_A_ROW


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A stored fact. `data` is canonical JSON; `decode()` gives it typed and upcast."""

    stream: Stream
    seq: int
    """Gapless per stream, from 1."""
    kind: str
    version: int
    data: bytes
    at_us: int
    actor: str
    cause: str | None
    prev_hash: bytes
    hash: bytes
    position: int
    """Global order in this store, from 1; not part of the hash."""

    def decode(self) -> EventData:
        return decode_data(self.kind, self.version, self.data)

    def plain(self) -> dict[str, Any]:
        """Data as plain JSON values."""
        return _decode(self.data)


# --------------------------------------------------------------------------- chain
# The hash chain: what a changed, removed or reordered event breaks.
# `hash = SHA-256(prev_hash | canonical JSON of all other fields)`. The local stream name is hashed,
# tenant and position are not, so that a stream can be imported elsewhere. A commit root hashes the
# previous root and, for each event of the group commit in order, its hash and its full stream name; so a
# stream moved to another tenant, and a cut-off tail, are found too.


GENESIS = bytes(32)
"""`prev_hash` of the first event of a stream and previous root of the first commit."""


class _Hashed(msgspec.Struct, frozen=True):
    # Field order is the sorted order: it is the canonical form, and cheaper than sorting each time.
    actor: str
    at_us: int
    cause: str | None
    data: msgspec.Raw
    kind: str
    seq: int
    stream: str
    version: int


_encode_body = msgspec.json.Encoder().encode


def event_hash(
    prev_hash: bytes,
    *,
    stream: str,
    seq: int,
    kind: str,
    version: int,
    data: bytes,
    at_us: int,
    actor: str,
    cause: str | None,
) -> bytes:
    """SHA-256 of an event in its chain. Shapes: `stream` is the local name, `data` canonical JSON."""
    body = _encode_body(_Hashed(actor, at_us, cause, msgspec.Raw(data), kind, seq, stream, version))
    return sha256(prev_hash + body).digest()


def commit_root(previous: bytes, events: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Root of one group commit over `(event hash, full stream name in UTF-8)` pairs in position order."""
    digest = sha256(previous)
    for hash_, name in events:
        digest.update(hash_)
        digest.update(name)
    return digest.digest()
