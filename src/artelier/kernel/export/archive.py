"""The file form of an export: `*.artelier`, a gzip file of JSON lines with a seal that covers every byte.

    member 1   header | key* run* | event+ | (key* blob+)* | end      one JSON object per line
    member 2   {"t": "seal", "sha256": "..."}                         of every byte of member 1

The second member is stored uncompressed and has one legal form, so that no byte of the file can change
unseen, headers and padding of gzip included. `zcat` shows all of it. The archive does not know what events
mean.

A file may be about more than runs and artifacts. Whoever exports and imports such files gives the kernel an
`Extension`: which other events may stand in the streams of artifacts, which other streams exist, what they
must say, and what importing them does.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import BinaryIO, NamedTuple, Protocol, Self, cast

import msgspec

from artelier.errors import InvalidExport
from artelier.ids import MAIN_SPACE
from artelier.kernel.run.services import Services
from artelier.log import Blob, EventData, Stream, Tx
from artelier.threads import give_way

FORMAT = "artelier.export"
VERSION = 5
"""Of every file that is written: its requests may be identified by their messages (`h2:`)."""

FORMS = {
    1: (True, False, False, False, False),
    2: (False, True, False, False, False),
    3: (False, False, True, True, False),
    4: (False, False, False, False, True),
}
"""What the header of a file holds (run, agent, world, ancestry, chat), by the version of earlier files."""

LINE_BYTES_MAX = 32 * 1024 * 1024
"""A line of a file: the manifest of a prompt that brings 200,000 messages at once fits."""

PIECE_BYTES = 1024 * 1024
"""Content per line; larger blobs take several lines."""

SIZE_BYTES_MAX = 2 * 1024**3
"""Decompressed, unless the reader allows more: a bomb must end before the disk does."""

_CHUNK = 256 * 1024


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", forbid_unknown_fields=True):
    """A line of the file."""


class Ancestry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The origin of a world's history."""

    tick: int
    """The last one of the file."""
    parent: str = ""
    """The world that it was forked off."""
    forked_at: int = 0
    ancestors: tuple[tuple[str, int], ...] = ()
    """Worlds whose history it shares, each up to a tick; the nearest first."""


class Header(Line, frozen=True, kw_only=True, tag="header", omit_defaults=True):
    format: str
    version: int
    tenant: str
    run: str
    """The run that was asked for, else empty; `run` lines name all runs."""
    agent: str = ""
    """The agent that was asked for."""
    world: str = ""
    """The world that was asked for."""
    ancestry: Ancestry | None = None
    """Of a world."""
    chat: str = ""
    """The chat that was asked for."""
    code: str
    """Version of Artelier that wrote the file."""
    position: int
    """Of the newest event of the store at that time; nothing newer is in the file."""
    head: str
    """The store's commit root at that position, hex."""

    @property
    def about(self) -> tuple[str, str]:
        """The kind and id of what was exported; the kind is `run`, `agent`, `world` or `chat`."""
        if self.chat:
            return "chat", self.chat
        if self.world:
            return "world", self.world
        return ("agent", self.agent) if self.agent else ("run", self.run)

    @classmethod
    def of_store(
        cls,
        position: int,
        root: bytes,
        *,
        tenant: str,
        code: str,
        run: str = "",
        agent: str = "",
        world: str = "",
        ancestry: Ancestry | None = None,
        chat: str = "",
    ) -> Header:
        """Return the header of a file that is written now, from a store that stands at a position."""
        return cls(
            format=FORMAT,
            version=VERSION,
            tenant=tenant,
            run=run,
            agent=agent,
            world=world,
            ancestry=ancestry,
            chat=chat,
            code=code,
            position=position,
            head=root.hex(),
        )


class KeyLine(Line, frozen=True, kw_only=True, tag="key", omit_defaults=True):
    """A key under which content is named. Without it no reader could check that a blob is what it was."""

    id: int
    """Number of the key in this file, from 1."""
    secret: bytes
    part: bool = False
    """Whether what is under it can be erased alone, as a message of a chat can."""


class GoneLine(Line, frozen=True, kw_only=True, tag="gone"):
    """Content that events name and that was erased as a part before the export; chats go out without it."""

    name: bytes


class RunLine(Line, frozen=True, kw_only=True, tag="run"):
    run: str
    key: int | None
    """The key of its prompts' hashes; None for plain SHA-256."""


class EventLine(Line, frozen=True, kw_only=True, tag="event"):
    """An event with all its fields. The hash of the event before it is known from that event."""

    stream: str
    """The local name, `<type>:<id>`."""
    seq: int
    kind: str
    version: int
    data: msgspec.Raw
    """As it was hashed, byte for byte."""
    at_us: int
    actor: str
    cause: str | None
    hash: bytes


class BlobLine(Line, frozen=True, kw_only=True, tag="blob"):
    """A blob or a piece of one. `size` is that of the whole."""

    name: bytes
    key: int | None
    size: int
    content: bytes
    more: bool = False
    """True if the next line goes on with it."""


class End(Line, frozen=True, kw_only=True, tag="end"):
    events: int
    blobs: int


AnyLine = Header | KeyLine | RunLine | EventLine | GoneLine | BlobLine | End

_decode = msgspec.json.Decoder(AnyLine).decode
_encode = msgspec.json.Encoder().encode


class _Hashing:
    """Writes to a file and hashes what goes there."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = sha256()
        self.is_abandoned = False

    def write(self, data: bytes) -> int:
        if self.is_abandoned:
            return len(data)
        self.digest.update(data)
        return self._file.write(data)


class ArchiveWriter:
    """Writes lines; `close` writes the counts and the seal. Use it in a `with` block."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hashing = _Hashing(file)
        sink = cast(BinaryIO, self._hashing)
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=sink, mtime=0)
        self.events = 0
        self.blobs = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let the compressor go: without `close`, what it still holds goes nowhere, now or later."""
        self._hashing.is_abandoned = True
        self._gzip.close()

    def write(self, line: AnyLine) -> None:
        """Errors: `InvalidExport` for a line that no reader would take."""
        text = _encode(line)
        if len(text) >= LINE_BYTES_MAX:
            raise InvalidExport(
                "an event is too large to be exported",
                expected=f"less than {LINE_BYTES_MAX} bytes",
                got=len(text),
            )
        self.events += isinstance(line, EventLine)
        self._gzip.write(text + b"\n")

    def write_blob(self, name: bytes, key: int | None, content: bytes) -> None:
        self.blobs += 1
        for start in range(0, max(1, len(content)), PIECE_BYTES):
            end = start + PIECE_BYTES
            self.write(
                BlobLine(
                    name=name, key=key, size=len(content), content=content[start:end], more=end < len(content)
                )
            )

    def close(self) -> str:
        """Finish the file; the SHA-256 of what the seal covers, hex."""
        self.write(End(events=self.events, blobs=self.blobs))
        self._gzip.close()
        digest = self._hashing.digest.hexdigest()
        self._file.write(_seal(digest))
        return digest


def _seal(digest: str) -> bytes:
    """The second member: one stored block, so that these bytes do not depend on a version of zlib."""
    text = b'{"t":"seal","sha256":"%s"}\n' % digest.encode()
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    block = struct.pack("<BHH", 1, len(text), len(text) ^ 0xFFFF) + text
    return head + block + struct.pack("<II", zlib.crc32(text), len(text))


SEAL_BYTES = len(_seal("0" * 64))


class _Stated(msgspec.Struct):
    """The words of a header that tell what the file is; whatever else stands there is not made."""

    format: str = ""
    version: msgspec.Raw = msgspec.Raw(b"null")


class ArchiveReader:
    """Reads a file that anybody may have made. Every refusal is an `InvalidExport` that says where."""

    def __init__(self, file: BinaryIO, *, size_max_bytes: int = SIZE_BYTES_MAX) -> None:
        self._file = file
        self._size_max = size_max_bytes
        self._body = file.seek(0, 2) - SEAL_BYTES
        self.line = 0
        """Number of the line read last."""

    def header(self) -> Header:
        """The first line, before anything else is believed.

        Errors: `InvalidExport` for a foreign file or one of a newer version.
        """
        for text in self._texts():
            return self._header(text)
        raise self._broken("it is empty")

    def _header(self, text: bytes) -> Header:
        try:
            stated = msgspec.json.decode(text, type=_Stated)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            stated = _Stated()
        if stated.format != FORMAT:
            raise InvalidExport("this file is no export of Artelier", got="another format")
        try:
            version = msgspec.json.decode(stated.version, type=int)
        except msgspec.MsgspecError:
            version = VERSION + 1
        if version > VERSION:
            raise InvalidExport(
                "this export was written by a newer Artelier; nothing was imported",
                expected=f"format version {VERSION}",
                got=bytes(stated.version)[:40].decode(errors="replace"),
                hint="Upgrade Artelier.",
            )
        line = self._decode_line(text)
        if not isinstance(line, Header) or line.version < 1:
            raise self._broken("its first line is no header")
        named = (
            bool(line.run),
            bool(line.agent),
            bool(line.world),
            line.ancestry is not None,
            bool(line.chat),
        )
        if named not in ([FORMS[version]] if version in FORMS else FORMS.values()):
            raise self._broken("its first line is no header of a run, an agent, a world or a chat")
        return line

    def check_seal(self) -> str:
        """Every byte is what was written; the SHA-256 of the body, hex."""
        digest = sha256()
        self._file.seek(0)
        left = self._body
        while left and (chunk := self._file.read(min(left, _CHUNK))):
            digest.update(chunk)
            left -= len(chunk)
            give_way()
        found = digest.hexdigest()
        if self._file.read() != _seal(found):
            raise InvalidExport(
                "this export was changed or cut off after it was written: its seal does not match",
                expected=f"a seal over sha256 {found}",
                hint="Export the run again, or copy the file again.",
            )
        return found

    def lines(self) -> Iterator[AnyLine]:
        """Every line after the header, in order, up to the end line."""
        texts = self._texts()
        self._header(next(texts, b""))
        for text in texts:
            yield self._decode_line(text)

    def _decode_line(self, text: bytes) -> AnyLine:
        try:
            return _decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise self._broken(str(error)[:200]) from None

    def _broken(self, why: str) -> InvalidExport:
        place = f" (line {self.line})" if self.line else ""
        return InvalidExport(f"this export cannot be read{place}: {why}")

    def _texts(self) -> Iterator[bytes]:
        """The lines of the first member, without their ends, each of bounded length."""
        self.line = 0
        rest = b""
        for chunk in self._chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                raise self._broken(f"a line is longer than {LINE_BYTES_MAX} bytes")
            for text in whole:
                self.line += 1
                yield text
        if rest:
            raise self._broken("its last line is cut off")

    def _chunks(self) -> Iterator[bytes]:
        """Decompressed bytes, a bounded piece at a time."""
        reader = zlib.decompressobj(wbits=31)
        size, left = 0, max(0, self._body)
        self._file.seek(0)
        try:
            while left and not reader.eof:
                compressed = self._file.read(min(left, _CHUNK))
                left -= len(compressed) or left
                full = True
                while full and not reader.eof:
                    chunk = reader.decompress(compressed, _CHUNK)
                    compressed = reader.unconsumed_tail
                    full = len(chunk) == _CHUNK or bool(compressed)
                    size += len(chunk)
                    if size > self._size_max:
                        raise InvalidExport(
                            "this export is too large when it is unpacked",
                            expected=f"at most {self._size_max} bytes",
                            hint="If you trust it, allow more.",
                        )
                    yield chunk
                    give_way()
        except zlib.error as error:
            raise self._broken(f"it is no gzip file, or a damaged one: {error}") from None
        if not reader.eof or reader.unused_data or left:
            raise self._broken("its compressed part does not end where it should")


class Arrival(NamedTuple):
    """The additions of an import to the batch that holds the file's own events."""

    events: Sequence[EventData] = ()
    """For the tenant's stream, after the history."""
    blobs: Sequence[Blob] = ()
    guard: Callable[[Tx], None] | None = None
    """Refuses the batch; see `Batch.guard`."""


NOTHING = Arrival()


class Belongings(Protocol):
    """Checks the lines of one file as they come. Every refusal is an `InvalidExport`."""

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of events that may stand in streams of artifacts beside those of artifacts."""
        ...

    @property
    def may_meet_runs(self) -> bool:
        """True if runs of the file that are here already, event for event, are left out, not refused."""
        return False

    @property
    def erased_parts(self) -> str:
        """The name of erasures of parts of it: what they took is left out. Empty where there are none."""
        return ""

    def gives_way(self, local: str) -> bool:
        """Return True if a stream of the file is left out where the tenant has its own of that name."""
        return False

    def has_stream(self, local: str) -> bool:
        """Return True if a stream is none of the kernel's and belongs here."""
        return False

    def take_own(self, local: str, seq: int, data: EventData, *, at_us: int) -> None:
        """Check the next event of such a stream."""

    def home(self, tenant: str, local: str) -> Stream:
        """Return where such a stream goes in the tenant that imports it."""
        return Stream(tenant, MAIN_SPACE, local)

    def take(self, artifact: str, seq: int, data: EventData) -> None:
        """Check the next event of an artifact, of whatever kind."""
        ...

    def wants(self, name: bytes) -> bool:
        """Return True if `content` must see the content of this name; asked after all events."""
        ...

    def content(self, name: bytes, content: bytes) -> None:
        """Check a piece of content."""
        ...

    def owns(self, artifact: str) -> bool:
        """Return True if an artifact belongs here although no run of the file has written it."""
        ...

    def end(self) -> None:
        """Check what only the whole file can tell."""
        ...

    async def arrival(self, services: Services, tenant: str, header: Header, sha256: str) -> Arrival:
        """Return what an import into this tenant brings about. Errors: `Conflict` if there is no room for
        it.
        """
        ...
