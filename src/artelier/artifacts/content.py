"""Content as stored bytes and back: text and bytes exactly as given, JSON in its canonical form."""

from __future__ import annotations

import asyncio
import math
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias, cast

import msgspec

from artelier.artifacts.ref import safe_repr
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


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """In the place of content that is larger than was asked for: it was not read."""

    media: str
    size_bytes: int
    """As it is stored."""


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
                    raise InvalidArtifact(
                        "a key of JSON content is no text", expected="text", got=safe_repr(key)
                    )
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


# --------------------------------------------------------------------------- diff
# Differences between two versions: by lines for text, by paths for JSON, by size for bytes.


LINES_MAX = 2000
"""Changed region that is compared line by line; a larger one is shown as replaced (difflib may need
cubic time: this many lines took 0.1 s at worst, eight times as many more than a minute)."""

Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]

CHANGES_MAX = 1000
"""Structural changes that are listed."""


class JsonDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference of JSON content; an absent side is `UNSET`."""

    path: str
    """JSON pointer (RFC 6901); empty is the whole."""
    op: Literal["add", "remove", "replace"]
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between two versions."""

    media: Media
    """`text` or `json` if both versions are, else `bytes`."""
    text: str = ""
    """A unified diff for text, one line per change for JSON, a sentence for bytes; empty if equal."""
    changes: tuple[JsonDifference, ...] = ()
    """For JSON, at most `CHANGES_MAX`."""


def diff(before: Content, after: Content, *, names: tuple[str, str]) -> Diff:
    """Compare two contents; `names` head the unified diff."""
    if isinstance(before, str) and isinstance(after, str):
        return Diff(media="text", text=line_diff(before, after, names=names))
    if media_of(before) == media_of(after) == "json":
        changes = _changes(before, after)
        return Diff(media="json", text="\n".join(map(_line, changes)), changes=tuple(changes))
    if before == after:
        return Diff(media="bytes")
    shown = [
        f"{name}: {f'{len(content)} bytes' if isinstance(content, bytes) else media_of(content)}"
        for name, content in zip(names, (before, after), strict=True)
    ]
    return Diff(media="bytes", text=" -> ".join(shown))


class _Matcher(SequenceMatcher[str]):
    """Line by line between the first and the last difference only; beyond `LINES_MAX` one replacement."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        super().__init__()  # without the texts: only the region that differs is indexed
        self._old, self._new = old, new

    def get_opcodes(self) -> list[Opcode]:
        old, new = self._old, self._new
        start, most = 0, min(len(old), len(new))
        while start < most and old[start] == new[start]:
            start += 1
        tail = 0
        while tail < most - start and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        old_end, new_end = len(old) - tail, len(new) - tail
        middle: list[Opcode]
        if max(old_end, new_end) - start > LINES_MAX:
            middle = [("replace", start, old_end, start, new_end)]
        else:
            inner = SequenceMatcher(None, old[start:old_end], new[start:new_end])
            middle = [
                (tag, i1 + start, i2 + start, j1 + start, j2 + start)
                for tag, i1, i2, j1, j2 in inner.get_opcodes()
            ]
        return [("equal", 0, start, 0, start), *middle, ("equal", old_end, len(old), new_end, len(new))]


def line_diff(before: str, after: str, *, names: tuple[str, str], context: int = 3) -> str:
    """Return a unified diff of two texts, with so many lines around each change; empty if they are equal.

    Cost: 0.1 s at worst, whatever the texts are.
    """
    if before == after:
        return ""
    old, new = before.split("\n"), after.split("\n")
    lines = [f"--- {names[0]}", f"+++ {names[1]}"]
    for group in _Matcher(old, new).get_grouped_opcodes(context):
        _, i1, _, j1, _ = group[0]
        _, _, i2, _, j2 = group[-1]
        lines.append(f"@@ -{i1 + 1},{i2 - i1} +{j1 + 1},{j2 - j1} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
            else:
                lines += [f"-{line}" for line in old[i1:i2]]
                lines += [f"+{line}" for line in new[j1:j2]]
    return "\n".join(lines)


def _changes(before: Content, after: Content) -> list[JsonDifference]:
    found: list[JsonDifference] = []
    stack: list[tuple[str, Any, Any]] = [("", before, after)]
    while stack and len(found) < CHANGES_MAX:
        path, old, new = stack.pop()
        if old is msgspec.UNSET:
            found.append(JsonDifference(path=path, op="add", after=new))
        elif new is msgspec.UNSET:
            found.append(JsonDifference(path=path, op="remove", before=old))
        elif isinstance(old, dict) and isinstance(new, dict):
            stack.extend(_members(path, cast("dict[str, Any]", old), cast("dict[str, Any]", new)))
        elif isinstance(old, list) and isinstance(new, list):
            stack.extend(_items(path, cast("list[Any]", old), cast("list[Any]", new)))
        elif old != new or type(cast(object, old)) is not type(cast(object, new)):
            # The types too: 1, 1.0 and true are three values.
            found.append(JsonDifference(path=path, op="replace", before=old, after=new))
    return found


def _members(path: str, old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, object, object]]:
    """Pairs to compare, last key first: they go onto a stack."""
    return [
        (
            f"{path}/{key.replace('~', '~0').replace('/', '~1')}",
            old.get(key, msgspec.UNSET),
            new.get(key, msgspec.UNSET),
        )
        for key in sorted(old.keys() | new.keys(), reverse=True)
    ]


def _items(path: str, old: list[Any], new: list[Any]) -> list[tuple[str, object, object]]:
    return [
        (f"{path}/{n}", old[n] if n < len(old) else msgspec.UNSET, new[n] if n < len(new) else msgspec.UNSET)
        for n in reversed(range(max(len(old), len(new))))
    ]


def _line(change: JsonDifference) -> str:
    def to_json(value: object) -> str:
        return msgspec.json.encode(value).decode()

    if change.op == "add":
        return f"+ {change.path}: {to_json(change.after)}"
    if change.op == "remove":
        return f"- {change.path}: {to_json(change.before)}"
    return f"~ {change.path}: {to_json(change.before)} -> {to_json(change.after)}"
