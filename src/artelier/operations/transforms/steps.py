"""The steps of a transform, their effect, and their failure. `forms.py` reads them from JSON.

Only `Case` and `Trim` are sure to end soon; the rest runs in the helper process (`worker.py`).
"""

from __future__ import annotations

import copy
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn, cast

import msgspec


class TransformFailure(Exception):
    """`code` is `no_match`, `error`, `timeout` or `too_large`; the message holds nothing of the value."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.step: int | None = None
        """Which step, counted from 0."""


class JsonPatch(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="json_patch"):
    """A JSON Patch (RFC 6902). A text is read as JSON first."""

    patch: tuple[dict[str, Any], ...]


class Regex(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="regex"):
    """Replace what a pattern of Python's `re` matches; a text without a match stays as it is."""

    pattern: str
    replace: str
    flags: str = ""
    """Letters of `aimsx`."""
    count: int = 0
    """At most so many replacements; 0 for all."""


class Case(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="case"):
    to: str
    """`lower`, `upper`, `title` (each word) or `sentence` (after each full stop)."""


class Trim(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="trim"):
    chars: str | None = None
    """What to take away at both ends; None: spaces of all sorts."""
    max_chars: int | None = None
    """What is longer is cut there, after the trimming."""


class Extract(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="extract"):
    """Part of the value: exactly one of `path` (RFC 9535; a text is read as JSON) and `regex`."""

    path: str | None = None
    regex: str | None = None
    group: int | str = 0
    many: bool = False
    """All matches as a list, which may be empty; else the first, and none is an error."""


Step = JsonPatch | Regex | Case | Trim | Extract


_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")


def apply_patch(document: object, patch: Sequence[Mapping[str, Any]]) -> object:
    """The document after all operations. Errors: `Failure` that says which can't be done."""
    for at, operation in enumerate(patch):
        try:
            document = _apply(document, operation)
        except TransformFailure as failure:
            raise TransformFailure(failure.code, f"operation {at} of the patch: {failure}") from None
    return document


def _apply(document: object, operation: Mapping[str, Any]) -> object:
    name, path = operation["op"], _tokens(operation["path"])
    match name:
        case "add":
            return _add(document, path, operation["value"])
        case "replace":
            _find(document, path)
            return _replace_at(document, path, operation["value"])
        case "remove":
            _remove(document, path)
            return document
        case "test":
            if not _same(_find(document, path), operation["value"]):
                raise TransformFailure("error", "the test failed")
            return document
        case "copy":
            source = _find(document, _tokens(operation["from"]))
            return _add(document, path, copy.deepcopy(source))
        case _:
            return _move(document, _tokens(operation["from"]), path)


def _move(document: object, source: list[str], path: list[str]) -> object:
    if path[: len(source)] == source and len(path) > len(source):
        raise TransformFailure("error", "a value can't move into itself")
    value = _find(document, source)
    if source == path:
        return document
    _remove(document, source)
    return _add(document, path, value)


def _tokens(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _missing() -> TransformFailure:
    return TransformFailure("error", "there is nothing at this place")


def _at(items: Sequence[object], token: str, *, end: int) -> int:
    if not _INDEX.fullmatch(token) or int(token) >= end:
        raise _missing()
    return int(token)


def _find(document: object, path: list[str]) -> object:
    for token in path:
        if isinstance(document, dict) and token in document:
            document = cast("dict[str, Any]", document)[token]
        elif isinstance(document, list):
            items = cast("list[Any]", document)
            document = items[_at(items, token, end=len(items))]
        else:
            raise _missing()
    return document


def _add(document: object, path: list[str], value: object) -> object:
    if not path:
        return value
    parent, last = _parent(document, path), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    else:
        parent.insert(len(parent) if last == "-" else _at(parent, last, end=len(parent) + 1), value)
    return document


def _parent(document: object, path: list[str]) -> dict[str, object] | list[object]:
    """Return what holds the last part of a path."""
    found = _find(document, path[:-1])
    if isinstance(found, dict):
        return cast("dict[str, object]", found)
    if isinstance(found, list):
        return cast("list[object]", found)
    raise _missing()


def _replace_at(document: object, path: list[str], value: object) -> object:
    if not path:
        return value
    parent, last = _parent(document, path), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    else:
        parent[int(last)] = value
    return document


def _remove(document: object, path: list[str]) -> None:
    if not path:
        raise TransformFailure("error", "the whole can't be removed")
    _find(document, path)
    parent, last = _parent(document, path), path[-1]
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[int(last)]


def _same(left: object, right: object) -> bool:
    """Equality of JSON: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        first, second = cast("list[Any]", left), cast("list[Any]", right)
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(left, dict) and isinstance(right, dict):
        one, other = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return left == right


_FLAGS = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"(\A\s*|[.!?]\s+)(\w)")


def run(steps: Sequence[Step], value: object) -> object:
    """The value after all steps; it may be changed in place. Errors: `Failure` with the step."""
    for at, step in enumerate(steps):
        try:
            value = _run(step, value)
        except TransformFailure as failure:
            failure.step = at
            raise
    return value


def _run(step: Step, value: object) -> object:
    match step:
        case JsonPatch():
            return apply_patch(_document(value), step.patch)
        case Regex():
            return _replace(step, _text(value))
        case Case():
            return _change_case(_text(value), step.to)
        case Trim():
            trimmed = _text(value).strip(step.chars)
            return trimmed if step.max_chars is None else trimmed[: step.max_chars]
        case Extract():
            return _extract(step, value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TransformFailure("error", f"a text is needed, not {_kind(value)}")
    return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"


def _no_constant(name: str) -> NoReturn:
    """`NaN` and its like are no JSON, though the standard library reads them."""
    raise ValueError(name)


def _document(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise TransformFailure("error", "the text is no JSON") from None


def _compile(pattern: str, flags: str = "") -> re.Pattern[str]:
    chosen = re.RegexFlag(0)
    for letter in flags:
        chosen |= _FLAGS[letter]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern, chosen)
    except (re.error, OverflowError, RecursionError) as error:
        raise TransformFailure("error", f"not a regular expression: {str(error)[:200]}") from None


def _replace(step: Regex, text: str) -> str:
    pattern = _compile(step.pattern, step.flags)
    try:
        return pattern.sub(step.replace, text, count=step.count)
    except (re.error, IndexError) as error:
        raise TransformFailure("error", f"the replacement does not fit: {str(error)[:200]}") from None


def _change_case(text: str, to: str) -> str:
    match to:
        case "lower":
            return text.lower()
        case "upper":
            return text.upper()
        case "title":
            return _WORD.sub(lambda word: word[0][:1].upper() + word[0][1:].lower(), text)
        case _:
            return _SENTENCE.sub(lambda found: found[1] + found[2].upper(), text.lower())


def _extract(step: Extract, value: object) -> object:
    found = _groups(step, _text(value)) if step.regex is not None else _nodes(step, value)
    if step.many:
        return list(found)
    for first in found:
        return first
    raise TransformFailure("no_match", "nothing matches")


def _groups(step: Extract, text: str) -> Iterator[str]:
    for found in _compile(step.regex or "").finditer(text):
        try:
            yield found[step.group] or ""
        except IndexError:
            raise TransformFailure("error", "the pattern has no such group") from None


def _nodes(step: Extract, value: object) -> Iterator[object]:
    from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError

    document: Any = _document(value)
    # The package would read a text as a document, and can't look into a bare value.
    if not isinstance(document, list | dict):
        if step.path == "$":
            yield document
        return
    try:
        path = JSONPathEnvironment().compile(step.path or "")
        for node in path.finditer(cast("Any", document)):
            yield node.value
    except (JSONPathError, RecursionError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise TransformFailure("error", f"the path can't be followed: {lines[0][:200]}") from None


def matches(asked: dict[str, Any]) -> bool:
    """Return whether the text matches. Errors: `Failure` for what is no pattern."""
    compiled = _compile_dialect(asked["pattern"], asked["dialect"], asked["flags"])
    found = compiled.fullmatch if asked["whole"] else compiled.search
    return found(asked["text"]) is not None


@lru_cache(maxsize=64)
def _compile_dialect(pattern: str, dialect: str, flags: int) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if dialect == "re":
                return re.compile(pattern, flags)
            return _other(pattern, flags)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise TransformFailure("error", f"not a regular expression: {str(error)[:200]}") from None


def _other(pattern: str, flags: int) -> Any:
    import regex

    chosen = regex.RegexFlag(0)
    for ours, theirs in ((re.I, regex.I), (re.M, regex.M), (re.S, regex.S), (re.X, regex.X), (re.A, regex.A)):
        chosen |= theirs if flags & ours else regex.RegexFlag(0)
    try:
        return regex.compile(pattern, chosen, cache_pattern=False)
    except regex.error as error:
        raise ValueError(str(error)) from None
