"""The check of a JSON schema that a caller gives, before a run is asked to answer in its form.

A schema is data of a caller: its depth, its size and its references are bounded here, and each loop of
references goes down into the value, so that a check by it ends. Its patterns are read and never compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from artelier.errors import InvalidRequest
from artelier.patterns import Pattern, check_pattern, compile_pattern

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
DEPTH_MAX = 64
SCHEMAS_MAX = 10_000
"""Schemas within a schema, itself among them."""
BYTES_MAX = 256 * 1024
PATTERN_CHARS_MAX = 1_000
PATTERNS_CHARS_MAX = 16_000
"""Of all patterns of a schema together (a guess: some ten times what honest ones have)."""

_ONE = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
    "contentSchema",
)
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPPINGS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_COUNTS = (
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SAME_VALUE = ("anyOf", "oneOf", "allOf")
_KNOWN = frozenset(
    (
        *_ONE,
        *_LISTS,
        *_MAPPINGS,
        *_COUNTS,
        *_NUMBERS,
        "type",
        "enum",
        "const",
        "required",
        "pattern",
        "$ref",
        "title",
        "description",
        "default",
        "examples",
        "format",
        "deprecated",
        "readOnly",
        "writeOnly",
        "uniqueItems",
        "discriminator",
        "dependentRequired",
        "$comment",
        "$schema",
        "$id",
        "$anchor",
        "contentEncoding",
        "contentMediaType",
    )
)
_OTHER_DIALECT = re.compile(r"\\[pPzuk]|\(\?<[A-Za-z]")
"""What other engines of patterns know and ours does not."""


def check_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as a plain dict. Errors: `InvalidRequest` with the path of what is wrong."""
    try:
        _check(schema, "$")
        size_bytes = len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise _wrong("$", "JSON data", str(error)[:200]) from None
    if size_bytes > BYTES_MAX:
        raise _wrong("$", f"at most {BYTES_MAX} bytes", size_bytes)
    plain = dict(schema)
    _check_references(plain)
    return plain


def _wrong(path: str, expected: str, got: object) -> InvalidRequest:
    return InvalidRequest(
        f"the output schema is no JSON schema at {path}",
        expected=expected,
        got=got if isinstance(got, int) else str(got)[:100],
        hint='Write for example {"type": "object", "properties": {"n": {"type": "integer"}}},'
        " or pass a class.",
    )


def _format_value(value: object) -> str:
    """A wrong value as text; of what holds others only its type, since they may repeat without end."""
    return repr(value)[:80] if isinstance(value, str | int | float | None) else type(value).__name__


def _check(schema: object, path: str, *, count: int = 0) -> int:
    """`count`: schemas seen before, so that several checks share one bound. Returns those seen by now."""
    waiting, patterns = [(path, schema, 0)], 0
    while waiting:
        at, part, depth = waiting.pop()
        count += 1
        if depth > DEPTH_MAX or count > SCHEMAS_MAX:
            raise _wrong(at[:80], f"at most {DEPTH_MAX} levels and {SCHEMAS_MAX} schemas in all", "more")
        if isinstance(part, bool):
            continue
        one = _one(part, at)
        patterns += len(one.get("pattern") or "")
        if patterns > PATTERNS_CHARS_MAX:
            raise _wrong(at[:80], f"patterns of at most {PATTERNS_CHARS_MAX} characters", patterns)
        waiting += [(name, found, depth + 1) for name, found in _parts(one, at)]
    return count


def _one(schema: object, path: str) -> Mapping[str, Any]:
    """A schema whose own keywords make sense; what it holds is still to be looked at."""
    if not isinstance(schema, Mapping):
        raise _wrong(path, "a schema: an object", _format_value(schema))
    given = cast(Mapping[str, Any], schema)
    if any(not isinstance(name, str) for name in cast(Mapping[object, Any], schema)):
        raise _wrong(path, "names that are texts", "others")
    if given and _KNOWN.isdisjoint(given):
        raise _wrong(path, "a keyword such as type, properties or enum", ", ".join(given)[:80])
    _check_words(given, path)
    return given


def _parts(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, object]]:
    """The schemas within a schema, each with its path."""
    for word in _ONE:
        if word in schema:
            found = cast(object, schema[word])
            if word == "items" and isinstance(found, list):  # draft 7 for `prefixItems`
                yield from _list_parts(cast(object, found), f"{path}.{word}")
            else:
                yield f"{path}.{word}", found
    for word in _LISTS:
        if word in schema:
            yield from _list_parts(schema[word], f"{path}.{word}")
    for word in _MAPPINGS:
        if word in schema:
            if not isinstance(schema[word], Mapping):
                raise _wrong(f"{path}.{word}", "an object of schemas", _format_value(schema[word]))
            for name, part in cast(Mapping[object, object], schema[word]).items():
                if not isinstance(name, str):
                    raise _wrong(f"{path}.{word}", "names that are texts", _format_value(name))
                yield f"{path}.{word}.{name[:80]}", part


def _list_parts(found: object, path: str) -> Iterator[tuple[str, object]]:
    if not isinstance(found, list | tuple) or not found:
        raise _wrong(path, "a list of schemas", _format_value(cast(object, found)))
    for index, part in enumerate(cast(list[object], found)):
        yield f"{path}[{index}]", part


def _check_words(schema: Mapping[str, Any], path: str) -> None:
    """The keywords that hold no schemas."""
    for word, (fits, expected) in _FORMS.items():
        if word in schema and not fits(schema[word]):
            raise _wrong(f"{path}.{word}", expected, _format_value(schema[word]))
    if (pattern := schema.get("pattern")) is None:
        return
    try:
        check_pattern(pattern)
    except InvalidRequest as error:
        if _OTHER_DIALECT.search(pattern) is None:
            raise _wrong(f"{path}.pattern", "a regular expression", error.got) from None


def _is_type(found: object) -> bool:
    if isinstance(found, str):
        return found in TYPES
    kinds = cast(list[object], found) if isinstance(found, list | tuple) else []
    return bool(kinds) and all(isinstance(kind, str) and kind in TYPES for kind in kinds)


def _is_number(found: object) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _is_count(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


def _is_names(found: object) -> bool:
    if not isinstance(found, list | tuple):
        return False
    return all(isinstance(name, str) for name in cast(list[object], found))


def _is_values(found: object) -> bool:
    return isinstance(found, list | tuple) and found != [] and found != ()


def _is_local(found: object) -> bool:
    return isinstance(found, str) and (found == "#" or found.startswith("#/"))


_FORMS: dict[str, tuple[Callable[[object], bool], str]] = {
    "type": (_is_type, f"one of {', '.join(TYPES)}, or a list of them"),
    "enum": (_is_values, "a list of values"),
    "required": (_is_names, "a list of names"),
    "$ref": (_is_local, "a place in this schema, such as #/$defs/Name"),
    "pattern": (
        lambda found: isinstance(found, str) and len(found) <= PATTERN_CHARS_MAX,
        f"a regular expression of at most {PATTERN_CHARS_MAX} characters",
    ),
    **dict.fromkeys(_COUNTS, (_is_count, "a whole number, at least 0")),
    **dict.fromkeys(_NUMBERS, (_is_number, "a number")),
}


# References


def resolve_ref(root: Mapping[str, Any], ref: str) -> object:
    """The place that a local reference names; None if there is none."""
    place: object = root
    for step in ref.removeprefix("#").split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping):
            place = cast(Mapping[str, object], place).get(name)
        elif isinstance(place, list) and name.isascii() and name.isdigit() and len(name) < 9:
            items = cast(list[object], place)
            place = items[int(name)] if int(name) < len(items) else None
        else:
            return None
    return place


def _check_references(root: dict[str, Any]) -> None:
    """Errors: `InvalidRequest` for a reference to nothing, or one that only leads back to itself."""
    done: set[int] = set()
    seen = [0]
    waiting: list[tuple[str, object]] = [("$", root)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, Mapping):
            schema = cast(Mapping[str, Any], part)
            _check_ends(root, schema, path, above=[], done=done, seen=seen)
            waiting += _parts(schema, path)


def _check_ends(
    root: dict[str, Any],
    schema: Mapping[str, Any],
    path: str,
    *,
    above: list[int],
    done: set[int],
    seen: list[int],
) -> None:
    """Check that no value is checked by a schema within a check by the same schema.

    `seen`: how many schemas references have led to; they may lead to the same place repeatedly.
    Errors: `InvalidRequest`.
    """
    if id(schema) in above or len(above) > 4 * DEPTH_MAX:
        raise _wrong(path, "a reference that does not lead back to itself", "a loop")
    if id(schema) in done:
        return
    above.append(id(schema))
    if "$ref" in schema:
        target = resolve_ref(root, schema["$ref"])
        if not isinstance(target, Mapping | bool):
            raise _wrong(f"{path}.$ref", "a place in this schema", schema["$ref"])
        if isinstance(target, Mapping):
            found = cast(Mapping[str, Any], target)
            if id(found) not in done:  # it may be at a place that is no schema's
                seen[0] = _check(found, f"{path}.$ref", count=seen[0])
            _check_ends(root, found, f"{path}.$ref", above=above, done=done, seen=seen)
    parts = [part for word in _SAME_VALUE for part in schema.get(word, ())]
    for part in [*parts, schema.get("not")]:
        if isinstance(part, Mapping):
            _check_ends(root, cast(Mapping[str, Any], part), path, above=above, done=done, seen=seen)
    above.pop()
    done.add(id(schema))


# Patterns


def pattern_of(text: str) -> Pattern | None:
    """Return a pattern that can be tried; None for one of another dialect."""
    if len(text) > PATTERN_CHARS_MAX:
        return None
    try:
        return compile_pattern(text)
    except InvalidRequest:
        return None
