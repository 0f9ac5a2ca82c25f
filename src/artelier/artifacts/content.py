"""Content as stored bytes and back: text and bytes exactly as given, JSON in its canonical form."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Literal, TypeAlias, cast

import msgspec

from artelier.artifacts.safe_repr import shown
from artelier.errors import CorruptStore, InvalidArtifact
from artelier.log.blobs import LARGE_BYTES

Media = Literal["text", "json", "bytes"]

Content: TypeAlias = "str | bytes | dict[str, Any] | list[Any] | int | float | bool | None"
"""What an artifact holds: text, bytes, or JSON data (lists and tuples are the same)."""

CONTENT_BYTES_MAX = 64 * 1024 * 1024
"""Stored bytes of one version (guess: a large report; larger data belongs into files)."""

JSON_DEPTH_MAX = 100
"""Nesting of JSON content (guess: far above any honest document, far below the interpreter's stack)."""

_INT_MAX = 2**63 - 1

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


def media_of(content: object) -> Media:
    """Return how some content is stored: `str` as text, `bytes` as bytes, all else as JSON."""
    if isinstance(content, str):
        return "text"
    return "bytes" if isinstance(content, bytes) else "json"


def encode_content(content: object, *, limit_bytes: int = CONTENT_BYTES_MAX) -> tuple[Media, bytes]:
    """Media type and stored bytes.

    Errors: `InvalidArtifact` for what is neither text, bytes nor JSON data, or is too large.
    """
    media = media_of(content)
    if isinstance(content, bytes):
        stored = content
    elif isinstance(content, str):
        stored = _utf8(content)
    else:
        stored = canonical_json(content)
    if len(stored) > limit_bytes:
        raise InvalidArtifact("content too large", expected=f"at most {limit_bytes} bytes", got=len(stored))
    return media, stored


def decode_content(media: str, stored: bytes) -> Any:
    """The content again. Errors: `CorruptStore` if the bytes are not what `media` says."""
    try:
        if media == "text":
            return stored.decode()
        return _decode(stored) if media == "json" else stored
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptStore(f"content of an artifact is not {media}: {error}") from None


async def decoded_content(media: str, stored: bytes) -> Any:
    """Return the content again; what is large is decoded in a thread. Errors: as of `decode_content`."""
    if len(stored) <= LARGE_BYTES:
        return decode_content(media, stored)
    return await asyncio.to_thread(decode_content, media, stored)


def is_small(content: object, *, bytes_max: int) -> bool:
    """Return whether content certainly takes no more than so many bytes. Cost: O(bytes_max)."""
    left, waiting = bytes_max, [content]
    while waiting and left >= 0:
        item = waiting.pop()
        left -= 8  # of a number, or the signs around what is in it
        if isinstance(item, str | bytes):
            left -= len(item) if isinstance(item, bytes) or item.isascii() else 6 * len(item)
        elif isinstance(item, dict):
            members = cast("dict[object, object]", item)
            left -= 8 * len(members)
            if left >= 0:
                waiting += members.keys()
                waiting += members.values()
        elif isinstance(item, list | tuple):
            members_listed = cast("list[object]", item)
            left -= len(members_listed)
            if left >= 0:
                waiting += members_listed
    return left >= 0


def canonical_json(value: object) -> bytes:
    """Canonical JSON: sorted keys, UTF-8, no spaces. Errors: `InvalidArtifact` for anything but JSON."""
    check_json(value)
    return _encode(value)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArtifact("text that is no Unicode", expected="text without lone surrogates") from None


def check_json(value: object) -> None:
    """Refuse what JSON cannot hold, or would hold as something else: NaN, keys that are no text, bytes.

    Errors: `InvalidArtifact`.
    """
    stack: list[tuple[object, int]] = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if depth > JSON_DEPTH_MAX:
            raise InvalidArtifact(
                "JSON content nested too deeply", expected=f"at most {JSON_DEPTH_MAX} levels"
            )
        if isinstance(item, dict):
            members = cast("dict[object, object]", item)
            for key in members:
                if not isinstance(key, str):
                    raise InvalidArtifact("a key of JSON content is no text", expected="text", got=shown(key))
                if not key.isascii():
                    _utf8(key)
            for member in members.values():
                # Most of it is plain and costs no turn of the loop.
                if depth < JSON_DEPTH_MAX and (
                    (type(member) is str and member.isascii())
                    or (type(member) is int and -_INT_MAX <= member <= _INT_MAX)
                    or member is None
                ):
                    continue
                stack.append((member, depth + 1))
        elif isinstance(item, list | tuple):
            stack.extend((member, depth + 1) for member in cast("list[object]", item))
        else:
            _check_scalar(item)


def _check_scalar(item: object) -> None:
    if isinstance(item, str):
        _utf8(item)
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise InvalidArtifact("JSON has no such number", expected="a finite number", got=repr(item))
    elif isinstance(item, int):
        if abs(item) > _INT_MAX:
            raise InvalidArtifact(
                "integer too large for JSON content", expected="at most 64 bits", hint="Write it as text."
            )
    elif item is not None:
        raise InvalidArtifact(
            "content is neither text, bytes nor JSON",
            expected="str, bytes, or dict, list, int, float, bool, None",
            got=type(item).__name__,
        )
