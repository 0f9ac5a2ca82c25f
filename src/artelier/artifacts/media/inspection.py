"""A medium that comes in: inspected off the event loop, refused with a reason, and kept under a key.

PDFs are opened in a helper process that can be killed; their text is read once, when they come in, and
stored beside them. So what a model without PDF input is sent is content of the log, whoever reads PDFs later.
"""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from weakref import WeakKeyDictionary

from artelier.child import ChildPool, ChildStopped, HelperFailure, Question
from artelier.confinement import Needs
from artelier.errors import InvalidRequest, ToolFailed
from artelier.log import Blob
from artelier.log.blobs import DataKey, prepared_blob
from artelier.ports.media import (
    ATTACHED_TEXT_BYTES_MAX,
    ATTACHMENTS_MAX,
    CALL_BYTES_MAX,
    MEDIA_TYPES,
    MEDIUM_BYTES_MAX,
    PAGES_MAX,
    Medium,
    PdfText,
)
from artelier.threads import PlaceTurns, owner_and_group

# The headers of images and sounds: their type, their size in pixels or seconds, and whether they are
# whole.

SIDE_PIXELS_MAX = 65_535
"""Of an image; more than any provider takes."""
SECONDS_MAX = 12 * 3600
"""Of a sound."""
SLOWEST_BYTES_PER_S = 1_000
"""Of an MP3: 8 kbit/s is the lowest rate that there is. What is no frame counts as that."""
PIECES_MAX = 50_000
"""Of an image or a WAV that are looked at: 20 MB in pieces of 400 bytes (a guess: libpng writes 8,192)."""
FRAMES_MAX = 250_000
"""Of an MP3 that are looked at: 20 MB have more only near the lowest rate, as which the rest counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaHeader:
    """The facts that an image or a sound states of itself."""

    media_type: str
    pixels: tuple[int, int] | None = None
    seconds: int | None = None


class BrokenMedium(InvalidRequest):
    """An image, a sound or a PDF that is not whole, or that cannot be opened; nothing of it was kept."""

    code = "broken_medium"
    audience = "operator"


def broken(what: str, why: str, **facts: str) -> BrokenMedium:
    """Return the error about content that cannot be sent."""
    return BrokenMedium(
        f"this {what} is broken: {why}", hint="Nothing of it was kept. Save it anew.", **facts
    )


PDF = "application/pdf"
TEXT = "text/plain"


def type_of(content: bytes) -> str | None:
    """Return the media type that content begins like; None for anything else."""
    if content.startswith(_PNG):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    if content.startswith(b"RIFF") and content[8:12] == b"WAVE":
        return "audio/wav"
    if b"%PDF-" in content[:1024]:
        return PDF
    if content.startswith(b"ID3") or _frame(content, 0) is not None:
        return "audio/mpeg"
    return None


def read_header(content: bytes, media_type: str) -> MediaHeader:
    """Return what an image or a sound says of itself. Errors: `BrokenMedium` that says what is wrong."""
    what, read = _READERS[media_type]
    try:
        header = read(content)
    except (struct.error, IndexError):
        raise broken(what, "it breaks off") from None
    if header.pixels is not None and not all(0 < side <= SIDE_PIXELS_MAX for side in header.pixels):
        raise broken(what, f"it says that it has {header.pixels[0]} x {header.pixels[1]} pixels")
    if header.seconds is not None and header.seconds > SECONDS_MAX:
        raise broken(what, f"it says that it lasts {header.seconds} s")
    return header


def _too_many(what: str) -> BrokenMedium:
    return broken(what, f"it has more than {PIECES_MAX:,} pieces")


# --------------------------------------------------------------------------- images

_PNG = b"\x89PNG\r\n\x1a\n"


def _png(content: bytes) -> MediaHeader:
    pixels: tuple[int, int] | None = None
    has_data, at = False, len(_PNG)
    for _ in range(PIECES_MAX):
        (length,) = struct.unpack_from(">I", content, at)
        kind = content[at + 4 : at + 8]
        end = at + 8 + length
        (checksum,) = struct.unpack_from(">I", content, end)
        if zlib.crc32(content[at + 4 : end]) != checksum:
            raise broken("PNG", f"its piece {_shown(kind)} has another checksum than it says")
        if pixels is None:
            if kind != b"IHDR":
                raise broken("PNG", "it does not begin with its size")
            pixels = struct.unpack_from(">II", content, at + 8)
        has_data = has_data or kind == b"IDAT"
        if kind == b"IEND":
            if not has_data:
                raise broken("PNG", "it holds no picture")
            return MediaHeader(media_type="image/png", pixels=pixels)
        at = end + 4
    raise _too_many("PNG")


def _shown(kind: bytes) -> str:
    return repr(kind.decode("latin-1"))[:20]


_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG behind which its size stands."""
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))
"""Markers without a length."""
_FILL_BYTES = 64 * 1024
"""Before a marker of a JPEG may stand any number of `ff`: so many are looked at in one call."""


def _jpeg(content: bytes) -> MediaHeader:
    if content.rfind(b"\xff\xd9") < 0:
        raise broken("JPEG", "it breaks off")
    at = 2
    for _ in range(PIECES_MAX):
        if content[at] != 0xFF:
            raise broken("JPEG", "a piece of it has another length than it says")
        marker = content[at + 1]
        if marker == 0xFF:
            fill = content[at : at + _FILL_BYTES]
            at += len(fill) - len(fill.lstrip(b"\xff")) - 1
            continue
        if marker in _BARE:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", content, at + 2)
        if marker in _SIZES:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return MediaHeader(media_type="image/jpeg", pixels=(width, height))
        if marker == 0xDA or length < 2:
            raise broken("JPEG", "it does not say its size")
        at += 2 + length
    raise _too_many("JPEG")


def _gif(content: bytes) -> MediaHeader:
    if not content.rstrip(b"\0").endswith(b";"):
        raise broken("GIF", "it breaks off")
    width, height = struct.unpack_from("<HH", content, 6)
    return MediaHeader(media_type="image/gif", pixels=(width, height))


def _webp(content: bytes) -> MediaHeader:
    (length,) = struct.unpack_from("<I", content, 4)
    if length + 8 > len(content) + 1:
        raise broken("WebP", "it breaks off")
    kind = content[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", content, 26)
        width, height = width & 0x3FFF, height & 0x3FFF
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", content, 21)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8X":
        width = int.from_bytes(content[24:27], "little") + 1
        height = int.from_bytes(content[27:30], "little") + 1
    else:
        raise broken("WebP", f"it begins with {_shown(kind)}")
    return MediaHeader(media_type="image/webp", pixels=(width, height))


# --------------------------------------------------------------------------- sounds


def _wav(content: bytes) -> MediaHeader:
    at, rate = 12, 0
    for _ in range(PIECES_MAX):
        (length,) = struct.unpack_from("<I", content, at + 4)
        kind = content[at : at + 4]
        if kind == b"fmt ":
            (rate,) = struct.unpack_from("<I", content, at + 16)
        if kind == b"data":
            if not rate:
                raise broken("WAV", "it does not say how fast it is played")
            size = min(length, len(content) - at - 8)  # what is written while it is recorded says too much
            return MediaHeader(media_type="audio/wav", seconds=-(-size // rate))
        at += 8 + length + length % 2
    raise _too_many("WAV")


_BITRATES = {
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Kilobits a second of Layer III, of MPEG 1 (3) or a later version (ISO 11172-3 and 13818-3)."""
_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
"""Samples a second by version."""


def _frame(content: bytes, at: int) -> tuple[int, float] | None:
    """Return length and seconds of the frame of an MP3 that begins here; None if none does."""
    head = content[at : at + 4]
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return None
    version, bits, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version not in _RATES or bits in (0, 15) or rate == 3:
        return None
    samples_a_second = _RATES[version][rate]
    samples = 1152 if version == 3 else 576
    kilobits = _BITRATES[3 if version == 3 else 2][bits]
    length = samples // 8 * kilobits * 1000 // samples_a_second + (head[2] >> 1 & 1)
    return length, samples / samples_a_second


def _mp3(content: bytes) -> MediaHeader:
    at = 0
    if content.startswith(b"ID3"):
        sizes = content[6:10]
        at = 10 + (sizes[0] << 21 | sizes[1] << 14 | sizes[2] << 7 | sizes[3])
    seconds, count = 0.0, 0
    for length, lasting in islice(_frames(content, at), FRAMES_MAX):
        at, seconds, count = at + length, seconds + lasting, count + 1
    if not count:
        raise broken("MP3", "it holds no sound")
    left = max(0, len(content) - at)
    return MediaHeader(media_type="audio/mpeg", seconds=int(seconds) + 1 + left // SLOWEST_BYTES_PER_S)


def _frames(content: bytes, at: int) -> Iterator[tuple[int, float]]:
    while (frame := _frame(content, at)) is not None:
        yield frame
        at += frame[0]


_READERS: dict[str, tuple[str, Callable[[bytes], MediaHeader]]] = {
    "image/png": ("PNG", _png),
    "image/jpeg": ("JPEG", _jpeg),
    "image/gif": ("GIF", _gif),
    "image/webp": ("WebP", _webp),
    "audio/wav": ("WAV", _wav),
    "audio/mpeg": ("MP3", _mp3),
}


TEXT_BYTES_MAX = 4 * 1024 * 1024
"""Of the text of a PDF: more than any model reads."""
PDF_TIME_S = 20.0
"""Of the processor, to open a PDF and read its text."""

_POOL = ChildPool(
    "artelier.artifacts.media.worker",
    first={"pdf": "", "pages_max": 0, "text_bytes_max": 0},
    answer=PdfText,
    # It reads what others wrote and runs none of it; the library loads tables and ciphers as it meets them.
    needs=Needs(walls=("limits", "namespaces", "privileges")),
)
PDFS_AT_ONCE = 2
"""Of which a user has one."""
_places: WeakKeyDictionary[asyncio.AbstractEventLoop, PlaceTurns] = WeakKeyDictionary()
"""For PDFs that are opened, by the event loop that waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFacts:
    """A medium as it came, before it is stored."""

    content: bytes
    header: MediaHeader
    pages: int | None = None
    text: str = ""

    def to_medium(self, *, blob: str = "", text: str | None = None, text_bytes: int = 0) -> Medium:
        """Return it under the names that its content has, or will have."""
        return Medium(
            blob=blob,
            media_type=self.header.media_type,
            size_bytes=len(self.content),
            pages=self.pages,
            pixels=self.header.pixels,
            seconds=self.header.seconds,
            text=text,
            text_bytes=text_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMedium:
    """A medium with a name, and what must be stored with whatever names it first."""

    medium: Medium
    blobs: tuple[Blob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultWithMedia:
    """The return value of a tool that shows something: JSON data, and media that a model is shown beside it.

    The kernel stores the media, and names them as `attachments` of the recorded result.
    """

    value: dict[str, object] | ToolFailed
    """A `ToolFailed` is the error of a call that has failed, as if it were raised."""
    media: tuple[MediaFacts | Medium, ...]
    """A `Medium` is stored under the run's key already, such as one that came with an answer."""


def failed_call(
    message: str,
    *,
    got: str | None = None,
    media: Sequence[MediaFacts | Medium] = (),
    notes: Iterable[str] = (),
) -> ResultWithMedia:
    """Return the error of a call that shows something of it. `notes`: what became of each medium that came.

    Errors: `ToolFailed`, the same error, if nothing is shown.
    """
    told = "; ".join(notes)
    failed = ToolFailed(message, got=got, hint=f"Media of the error: {told}." if told else None)
    if not media:
        raise failed
    return ResultWithMedia(value=failed, media=tuple(media))


def check_size(size_bytes: int) -> None:
    """Refuse what is too large before it is read. Errors: `InvalidRequest`."""
    if size_bytes > MEDIUM_BYTES_MAX:
        raise InvalidRequest(
            "this is too large to be sent to a model",
            expected=f"at most {MEDIUM_BYTES_MAX} bytes",
            got=size_bytes,
            hint="Scale the image down, or part the document.",
        )


_SIGNS = 1 << 20
"""Of base64 that are decoded at once, which holds up all other threads. A multiple of four."""


def decode_base64(encoded: str) -> bytes:
    """Return the bytes that come as base64, such as a medium. Errors: `ValueError` for what is none."""
    last = max(len(encoded) - 1, 0) // _SIGNS * _SIGNS
    if "=" in encoded[:last]:
        raise ValueError("padding before the end")
    pieces = range(0, len(encoded), _SIGNS)
    return b"".join(base64.b64decode(encoded[at : at + _SIGNS], validate=True) for at in pieces)


def check_attachments(contents: Sequence[bytes]) -> None:
    """Refuse more than one command or request may come with. Errors: `InvalidRequest`."""
    check_attachment_sizes([*map(len, contents)])


def check_attachment_sizes(sizes_bytes: Sequence[int]) -> None:
    """Do what `check_attachments` does, before contents are read. Errors: `InvalidRequest`."""
    if len(sizes_bytes) > ATTACHMENTS_MAX:
        raise InvalidRequest(
            "too many attachments at once", expected=f"at most {ATTACHMENTS_MAX}", got=len(sizes_bytes)
        )
    if (size := sum(sizes_bytes)) > CALL_BYTES_MAX:
        raise InvalidRequest(
            "the attachments are too large together",
            expected=f"at most {CALL_BYTES_MAX} bytes, which is what one call of a model takes",
            got=size,
        )


async def inspect_medium(content: bytes, *, media_type: str = "") -> MediaFacts:
    """Return what a medium is. `media_type` is what somebody says of it; its bytes decide.

    Errors: `InvalidRequest` for what is too large, of a type that no model takes, or of another type than is
    said; `BrokenMedium` for one that is not whole, or a PDF with a password.
    """
    check_size(len(content))
    found = type_of(content)
    if found is None:
        return _read_text(content, media_type=media_type)
    if media_type and _plain_type(media_type) != found:
        raise InvalidRequest(
            "this is another type of medium than is said", expected=found, got=media_type[:60]
        )
    if found != PDF:
        return MediaFacts(content=content, header=await asyncio.to_thread(read_header, content, found))
    return await _read_pdf(content)


class ShownMedia:
    """The media that one result of a tool shows, within the bounds of attachments.

    The call has succeeded: what is broken, too large or of a type that no model takes is left out of it.
    """

    def __init__(self) -> None:
        self.facts: list[MediaFacts] = []
        self._size_bytes = 0

    async def add(self, size_bytes: int, read: Callable[[], bytes], *, media_type: str = "") -> str:
        """Take one up, and return a note for the model. `read` is called in a thread, if the size fits."""
        try:
            if len(self.facts) == ATTACHMENTS_MAX:
                raise InvalidRequest(f"{ATTACHMENTS_MAX} media of one result are shown")
            check_size(size_bytes)
            if self._size_bytes + size_bytes > CALL_BYTES_MAX:
                raise InvalidRequest(f"one result shows {CALL_BYTES_MAX} bytes of media at most")
            content = await asyncio.to_thread(read)
            self.facts.append(await inspect_medium(content, media_type=media_type))
        except (InvalidRequest, ToolFailed) as error:
            return f"left out: {error.message}"
        self._size_bytes += len(content)
        return f"shown as attachment {len(self.facts)}"

    async def add_base64(self, encoded: str, *, media_type: str = "") -> str:
        """Take one up that comes as base64, and return a note for the model."""
        return await self.add(base64_size(encoded), partial(_decoded, encoded), media_type=media_type)


def base64_size(encoded: str) -> int:
    """Return how many bytes some base64 stands for."""
    return max(0, len(encoded) * 3 // 4 - encoded[-2:].count("="))


def _decoded(encoded: str) -> bytes:
    try:
        return decode_base64(encoded)
    except ValueError:
        raise InvalidRequest("it is no base64") from None


async def inspect_attachments(contents: Sequence[bytes]) -> list[MediaFacts]:
    """Return what comes with a command or a request. Errors: as of `check_attachments`, `inspect_medium`."""
    check_attachments(contents)
    return [await inspect_medium(one) for one in contents]


def _read_text(content: bytes, *, media_type: str) -> MediaFacts:
    """Return a text of UTF-8, whatever its kind. Errors: `InvalidRequest` for anything else.

    Of what is too long for a text, the beginning says whether it is one: the rest may be 20 MB.
    """
    said = _plain_type(media_type)
    is_said = not said or said.startswith("text/") or said in _TEXT_TYPES
    is_long = len(content) > ATTACHED_TEXT_BYTES_MAX
    head, decoder = content[:ATTACHED_TEXT_BYTES_MAX], getincrementaldecoder("utf-8-sig")()
    try:
        text = decoder.decode(head) if is_long else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if not is_said or "\0" in text:
        raise InvalidRequest(
            "this is no image, sound, PDF or text that a model takes",
            expected=", ".join(MEDIA_TYPES),
            got=repr(content[:12])[:60],
        )
    if not is_long and not text.strip():
        raise InvalidRequest("this file is empty", expected="a file that holds something")
    if is_long:
        raise InvalidRequest(
            "this text is too long to be sent to a model",
            expected=f"at most {ATTACHED_TEXT_BYTES_MAX} bytes",
            got=len(content),
            hint="Put it into the workspace, where tools read a part of it, or attach an excerpt.",
        )
    return MediaFacts(content=content, header=MediaHeader(media_type=TEXT), text=text)


_TEXT_TYPES = frozenset(
    ("application/json", "application/xml", "application/yaml", "application/octet-stream")
)

_OTHER_NAMES = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "application/x-pdf": PDF,
}


def _plain_type(media_type: str) -> str:
    name = media_type.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(name, name)


async def _read_pdf(content: bytes) -> MediaFacts:
    question = Question(_POOL)

    def ask() -> PdfText | HelperFailure:
        encoded = base64.b64encode(content).decode()
        message = {"pdf": encoded, "pages_max": PAGES_MAX, "text_bytes_max": TEXT_BYTES_MAX}
        return question.ask(message, time_s=PDF_TIME_S)

    places = _places.setdefault(asyncio.get_running_loop(), PlaceTurns(PDFS_AT_ONCE, owner_max=1))
    async with places.turn(owner_and_group()[1]):
        try:
            answer = await asyncio.to_thread(ask)
        except asyncio.CancelledError:
            question.stop()
            raise
        except ChildStopped as error:
            raise ToolFailed(f"the helper process does not start: {error}") from None
    if isinstance(answer, PdfText):
        header = MediaHeader(media_type=PDF)
        return MediaFacts(content=content, header=header, pages=answer.pages, text=answer.text)
    if answer.failed == "password":
        raise BrokenMedium(
            "this PDF has a password",
            expected="one that opens without",
            hint="Nothing of it was kept. Save it without its password.",
        )
    raise broken("PDF", answer.message[:200])


async def keep_medium(
    tenant: str, key: DataKey, facts: MediaFacts, *, escape: Callable[[str, str], str]
) -> KeptMedium:
    """Name a medium and its text under a key; personal data in the text is replaced, as in all content.

    `escape` makes what only looks like a placeholder none, in the text of a tenant: whoever wrote a PDF must
    not name the values of others. Errors: those of `prepared_blob`.
    """
    ref, blob = await prepared_blob(tenant, key, facts.content)
    blobs, text_ref, text_bytes = [blob], None, 0
    if facts.text.strip():
        text_ref, text = await prepared_blob(tenant, key, escape(tenant, facts.text).encode())
        blobs.append(text)
        text_bytes = len(text.content)
    medium = facts.to_medium(blob=ref, text=text_ref, text_bytes=text_bytes)
    return KeptMedium(medium=medium, blobs=tuple(blobs))
