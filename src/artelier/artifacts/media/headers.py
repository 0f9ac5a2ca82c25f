"""The headers of images and sounds: their type, their size in pixels or seconds, and whether they are whole.

Nothing is decoded. What is read is bounded by the length of the content, in a few passes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from artelier.errors import InvalidRequest

SIDE_PIXELS_MAX = 65_535
"""Of an image; more than any provider takes."""
SECONDS_MAX = 12 * 3600
"""Of a sound."""
SLOWEST_BYTES_PER_S = 1_000
"""Of an MP3: 8 kbit/s is the lowest rate that there is. What is no frame counts as that."""


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


# --------------------------------------------------------------------------- images

_PNG = b"\x89PNG\r\n\x1a\n"


def _png(content: bytes) -> MediaHeader:
    pixels: tuple[int, int] | None = None
    has_data, at = False, len(_PNG)
    while True:
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
            break
        at = end + 4
    if not has_data:
        raise broken("PNG", "it holds no picture")
    return MediaHeader(media_type="image/png", pixels=pixels)


def _shown(kind: bytes) -> str:
    return repr(kind.decode("latin-1"))[:20]


_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG behind which its size stands."""
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))
"""Markers without a length."""


def _jpeg(content: bytes) -> MediaHeader:
    if content.rfind(b"\xff\xd9") < 0:
        raise broken("JPEG", "it breaks off")
    at = 2
    while True:
        if content[at] != 0xFF:
            raise broken("JPEG", "a piece of it has another length than it says")
        marker = content[at + 1]
        if marker == 0xFF or marker in _BARE:
            at += 1 if marker == 0xFF else 2
            continue
        (length,) = struct.unpack_from(">H", content, at + 2)
        if marker in _SIZES:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return MediaHeader(media_type="image/jpeg", pixels=(width, height))
        if marker == 0xDA or length < 2:
            raise broken("JPEG", "it does not say its size")
        at += 2 + length


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
    while True:
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
    for length, lasting in _frames(content, at):
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
