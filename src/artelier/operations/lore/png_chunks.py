"""The text chunks of a PNG: a reader of the container, which never unpacks anything.

Format: https://www.w3.org/TR/png-3/#5DataRep. Every chunk is `length, type, data, CRC`; pixels are not read.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator

from artelier.errors import InvalidImport

SIGNATURE = b"\x89PNG\r\n\x1a\n"

CHUNKS_MAX = 65_536
"""Of one file (guess: a large picture in the smallest usual pieces of 8 KiB has a tenth of it)."""

_HEADER_BYTES = 8
_CRC_BYTES = 4
_KEYWORD_BYTES_MAX = 79
_COMPRESSED = (b"zTXt", b"iTXt")


def card_json(data: bytes) -> bytes:
    """The JSON of the character card in a PNG: `ccv3`, or else `chara`, which older readers look at.

    Errors: `InvalidImport` for a damaged file, for none or two different cards, for a compressed chunk.
    """
    found: dict[str, bytes] = {}
    compressed: set[str] = set()
    for kind, body in chunks(data):
        if kind != b"tEXt" and kind not in _COMPRESSED:
            continue
        keyword, separator, text = body.partition(b"\0")
        name = keyword[:_KEYWORD_BYTES_MAX].decode("latin-1").lower()
        if name not in ("chara", "ccv3") or not separator:
            continue
        if kind in _COMPRESSED:
            compressed.add(name)
        elif found.setdefault(name, text) != text:
            raise InvalidImport(f"the PNG has two different cards in chunks `{name}`")
    if not found:
        raise InvalidImport(
            "the PNG has no character card",
            expected="a tEXt chunk `chara` or `ccv3`",
            got="a compressed one, which the format does not allow" if compressed else "none",
        )
    return _decode(found["ccv3"] if "ccv3" in found else found["chara"])


def _decode(text: bytes) -> bytes:
    packed = b"".join(text.split())
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except binascii.Error as error:
        raise InvalidImport(f"the card in the PNG is no base64: {error}") from None


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Type and data of each chunk up to IEND; what stands after it is not looked at.

    Errors: `InvalidImport` for what is no PNG, is cut off, has a wrong CRC or too many chunks.
    Cost:   O(n), the checksum.
    """
    if not data.startswith(SIGNATURE):
        raise InvalidImport("this is no PNG", expected="its signature", got=repr(data[:8]))
    at = len(SIGNATURE)
    for number in range(CHUNKS_MAX):
        if at + _HEADER_BYTES + _CRC_BYTES > len(data):
            raise InvalidImport("the PNG is cut off", expected="a chunk IEND at its end")
        size_bytes = int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + _HEADER_BYTES]
        end = at + _HEADER_BYTES + size_bytes
        if not (kind.isascii() and kind.isalpha()) or (number == 0 and kind != b"IHDR"):
            raise InvalidImport(f"the PNG is damaged at byte {at:,}", expected="a chunk", got=repr(kind))
        if end + _CRC_BYTES > len(data):
            raise InvalidImport(
                f"the PNG is cut off in its chunk {kind.decode()} at byte {at:,}",
                expected=f"{size_bytes:,} bytes",
                got=max(0, len(data) - at - _HEADER_BYTES - _CRC_BYTES),
            )
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + _CRC_BYTES], "big"):
            raise InvalidImport(f"the PNG is damaged: wrong checksum of {kind.decode()} at byte {at:,}")
        if kind == b"IEND":
            return
        yield kind, data[at + _HEADER_BYTES : end]
        at = end + _CRC_BYTES
    raise InvalidImport("the PNG has too many chunks", expected=f"at most {CHUNKS_MAX:,}")
