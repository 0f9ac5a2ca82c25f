"""Text files as they are quoted: their encoding, with a note where it could only be guessed, and excerpts of
lines that are too long to quote whole.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

UTF_8 = "utf-8-sig"
NOT_UTF8 = "it is not UTF-8; read as Windows-1252"
GUESS_SHARE_MAX = 0.3
"""Of the bytes, those beyond ASCII: a text in a Western language has few of them, another has most."""
_CONTROLS = bytes(one for one in range(0x20) if one not in b"\t\n\f\r\x1b")


class UnknownEncoding(ValueError):
    """A text whose encoding cannot be told; its message is for the model."""


def encoding_of(raw: bytes) -> tuple[str, str]:
    """Return the codec of a text and a note about it, empty for UTF-8 and UTF-16 with their marks.

    Errors: `UnknownEncoding` for binary content and for bytes that could be any of several encodings.
    """
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            raw.decode("utf-16")
        except UnicodeDecodeError:
            raise UnknownEncoding("the file is binary, not text") from None
        return "utf-16", ""
    if b"\0" in raw:
        raise UnknownEncoding("the file is binary, not text")
    try:
        raw.decode(UTF_8)
    except UnicodeDecodeError as error:
        return _guess(raw, at=error.start)
    return UTF_8, ""


def _guess(raw: bytes, *, at: int) -> tuple[str, str]:
    beyond = len(raw.translate(None, bytes(range(0x80))))
    controls = len(raw) - len(raw.translate(None, _CONTROLS))
    try:
        raw.decode("cp1252")
    except UnicodeDecodeError:
        beyond = len(raw)
    if controls or beyond > len(raw) * GUESS_SHARE_MAX:
        raise UnknownEncoding(f"it is not UTF-8 text (byte {at}), and its encoding is unknown")
    return "cp1252", NOT_UTF8


def decode(raw: bytes) -> tuple[str, str]:
    """Return a text and the note about its encoding. Errors: `UnknownEncoding`."""
    codec, note = encoding_of(raw)
    return raw.decode(codec), note


LINE_CHARS_MAX = 500
BEFORE_CHARS = 150
"""Of an excerpt, before what was found."""
EXCERPTS_MAX = 20
"""Of one line."""


def excerpts(line: str, places: Iterable[int]) -> list[tuple[str, int]]:
    """Return what is quoted of a line for the places where something was found in it.

    Shapes: the text and its column, counted from 1. A short line is quoted whole, once; of a long one, a
    piece around each place that no piece before it shows.
    """
    found: list[tuple[str, int]] = []
    shown = -1
    for place in places:
        if len(line) <= LINE_CHARS_MAX:
            return [(line, 1)]
        if place < shown:
            continue
        start = max(0, place - BEFORE_CHARS)
        shown = start + LINE_CHARS_MAX
        found.append((line[start:shown], start + 1))
        if len(found) >= EXCERPTS_MAX:
            break
    return found
