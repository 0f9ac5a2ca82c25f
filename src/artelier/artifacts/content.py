"""Content as stored bytes and back: text and bytes exactly as given, JSON in its canonical form."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
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

DIFF_CHARS_MAX = 1_000_000
"""Characters of each text that are compared from the first difference on, and of all changes that are listed
(guess: more than anybody reads)."""

PATH_CHARS_MAX = 10_000
"""Characters of a path that are shown (guess: longer ones are made to be long)."""

_AROUND_CHARS = 100_000
"""Characters before and behind a difference in which the lines around it are looked for."""

_CUT = f"(the rest is left out: a difference is shown up to {DIFF_CHARS_MAX:,} characters)"


class JsonDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference of JSON content; a side that is absent, or too large to be listed, is `UNSET`."""

    path: str
    """JSON pointer (RFC 6901); empty is the whole. One of more than 10,000 characters is cut."""
    op: Literal["add", "remove", "replace"]
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between two versions."""

    media: Media
    """`text` or `json` if both versions are, else `bytes`."""
    text: str = ""
    """A unified diff for text, one line per change for JSON, a sentence for bytes; empty if equal. The last
    line says so where the rest is left out."""
    changes: tuple[JsonDifference, ...] = ()
    """For JSON, at most `CHANGES_MAX`."""


def diff(before: Content, after: Content, *, names: tuple[str, str]) -> Diff:
    """Compare two contents; `names` head the unified diff."""
    if isinstance(before, str) and isinstance(after, str):
        return Diff(media="text", text=line_diff(before, after, names=names))
    if media_of(before) == media_of(after) == "json":
        return _json_diff(before, after)
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

    Of very long ones it shows `DIFF_CHARS_MAX` characters each from the first difference on, and says so.
    Cost: 0.1 s at worst, whatever the texts are, and O(their size) to find where they differ.
    """
    if before == after:
        return ""
    above, before, after = _clip(before, after, context=context)
    old, new = before[:DIFF_CHARS_MAX].split("\n"), after[:DIFF_CHARS_MAX].split("\n")
    lines = [f"--- {names[0]}", f"+++ {names[1]}"]
    for group in _Matcher(old, new).get_grouped_opcodes(context):
        _, i1, _, j1, _ = group[0]
        _, _, i2, _, j2 = group[-1]
        lines.append(f"@@ -{above + i1 + 1},{i2 - i1} +{above + j1 + 1},{j2 - j1} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
            else:
                lines += [f"-{line}" for line in old[i1:i2]]
                lines += [f"+{line}" for line in new[j1:j2]]
    if max(len(before), len(after)) > DIFF_CHARS_MAX:
        lines.append(_CUT)
    return "\n".join(lines)


def _clip(before: str, after: str, *, context: int) -> tuple[int, str, str]:
    """Cut two texts down to where they differ and the lines around; first the number of lines above that.

    The texts as a whole may be too large to be made into lines.
    """
    most = min(len(before), len(after))
    low = _count_alike(most, lambda a, b: before[a:b] == after[a:b])
    old_end, new_end = len(before), len(after)
    tail = _count_alike(
        most - low, lambda a, b: before[old_end - b : old_end - a] == after[new_end - b : new_end - a]
    )
    head = before[max(0, low - _AROUND_CHARS) : low].split("\n")
    rest = before[old_end - tail :][:_AROUND_CHARS].split("\n")
    if low > _AROUND_CHARS and len(head) > 1:
        del head[0]  # a line without its beginning
    if tail > _AROUND_CHARS and len(rest) > 1:
        del rest[-1]
    low -= len("\n".join(head[-1 - context :]))
    tail -= len("\n".join(rest[: 1 + context]))
    return before.count("\n", 0, low), before[low : old_end - tail], after[low : new_end - tail]


def _count_alike(most: int, is_alike: Callable[[int, int], bool]) -> int:
    """Return up to where all is alike, in steps that become smaller."""
    found, step = 0, 1 << 20
    while step:
        if found + step <= most and is_alike(found, found + step):
            found += step
        else:
            step >>= 1
    return found


def _json_diff(before: Content, after: Content) -> Diff:
    changes: list[JsonDifference] = []
    lines: list[str] = []
    left = DIFF_CHARS_MAX
    for change in _changes(before, after):
        if left <= 0 or len(changes) == CHANGES_MAX:
            lines.append(_CUT if left <= 0 else f"(the rest is left out: {CHANGES_MAX:,} changes are shown)")
            break
        changes.append(change)
        lines.append(_line(change))
        left -= len(lines[-1])
    return Diff(media="json", text="\n".join(lines), changes=tuple(changes))


_Path: TypeAlias = "tuple[_Path, str] | None"
"""The keys to a place, the last one first: only of a change that is shown they become one text."""


def _changes(before: Content, after: Content) -> Iterator[JsonDifference]:
    stack: list[tuple[_Path, Any, Any]] = [(None, before, after)]
    while stack:
        path, old, new = stack.pop()
        if old is msgspec.UNSET:
            yield JsonDifference(path=_pointer(path), op="add", after=_listed(new))
        elif new is msgspec.UNSET:
            yield JsonDifference(path=_pointer(path), op="remove", before=_listed(old))
        elif isinstance(old, dict) and isinstance(new, dict):
            stack.extend(_members(path, cast("dict[str, Any]", old), cast("dict[str, Any]", new)))
        elif isinstance(old, list) and isinstance(new, list):
            stack.extend(_items(path, cast("list[Any]", old), cast("list[Any]", new)))
        elif old != new or type(cast(object, old)) is not type(cast(object, new)):
            # The types too: 1, 1.0 and true are three values.
            sides = (_listed(cast(object, old)), _listed(cast(object, new)))
            yield JsonDifference(path=_pointer(path), op="replace", before=sides[0], after=sides[1])


def _members(path: _Path, old: dict[str, Any], new: dict[str, Any]) -> list[tuple[_Path, object, object]]:
    """Pairs to compare, last key first: they go onto a stack."""
    return [
        ((path, key), old.get(key, msgspec.UNSET), new.get(key, msgspec.UNSET))
        for key in sorted(old.keys() | new.keys(), reverse=True)
    ]


def _items(path: _Path, old: list[Any], new: list[Any]) -> list[tuple[_Path, object, object]]:
    return [
        ((path, str(n)), old[n] if n < len(old) else msgspec.UNSET, new[n] if n < len(new) else msgspec.UNSET)
        for n in reversed(range(max(len(old), len(new))))
    ]


def _pointer(path: _Path) -> str:
    keys: list[str] = []
    while path is not None:
        path, key = path
        keys.append(key[:PATH_CHARS_MAX].replace("~", "~0").replace("/", "~1"))
    pointer = "".join(f"/{key}" for key in reversed(keys))
    return pointer if len(pointer) <= PATH_CHARS_MAX else f"{pointer[:PATH_CHARS_MAX]}..."


def _listed(value: object) -> object:
    return value if is_small(value, bytes_max=DIFF_CHARS_MAX) else msgspec.UNSET


def _line(change: JsonDifference) -> str:
    def to_json(value: object) -> str:
        return "(too large to be shown)" if value is msgspec.UNSET else msgspec.json.encode(value).decode()

    if change.op == "add":
        return f"+ {change.path}: {to_json(change.after)}"
    if change.op == "remove":
        return f"- {change.path}: {to_json(change.before)}"
    return f"~ {change.path}: {to_json(change.before)} -> {to_json(change.after)}"
