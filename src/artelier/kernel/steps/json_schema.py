"""The check of a JSON schema that a caller gives, and of a value against one.

A schema is checked before a run is asked to answer in its form. It is data of a caller: its depth, its size
and its references are bounded here, and each loop of references goes down into the value, so that a check by
it ends. Its patterns are read and never compiled.

A value is checked where a schema alone describes the form of a reply: one may come from a recorded run,
whose class is not at hand. Not checked: `format`, `if`/`then`/`else`, `contains`, `patternProperties`, and
patterns of other dialects than that of `re`. Others choose the schema and the reply, so all work is counted.
On an event loop, more than a little work is refused; the caller then uses a thread (`structured_output.py`).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from reprlib import Repr
from typing import Any, NoReturn, cast
from urllib.parse import unquote

import msgspec

from artelier.errors import InvalidRequest, OutputInvalid, PatternTimeout
from artelier.patterns import Allowance, Pattern, check_pattern, compile_pattern

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


CHECKS_MAX = 500_000
"""Values checked in one reply, once per schema that looks at them, and what they are compared to."""

QUICK_CHECKS_MAX = 5_000
"""The same for a check on an event loop: some milliseconds."""

PATTERN_WORK = 200
"""Steps of a pattern that count as one check (measured: 5 ns, and 1 us)."""

PATH_CHARS_MAX = 400
"""Of the path that a misfit names; names of properties can be long."""

PATTERN_TEXT_CHARS_MAX = 5_000
"""Of a text that a pattern is tried on: some patterns take the square of it."""

_BRIEF = Repr()
_BRIEF.maxstring, _BRIEF.maxother, _BRIEF.maxlist, _BRIEF.maxdict, _BRIEF.maxlevel = (80, 80, 20, 20, 4)

_PYTHON: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}

_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "at least", operator.ge),
    ("maximum", "at most", operator.le),
    ("exclusiveMinimum", "above", operator.gt),
    ("exclusiveMaximum", "below", operator.lt),
)


class TooMuchAtOnce(Exception):
    """A check that an event loop has no time for."""


def check_json(value: object, schema: Mapping[str, Any], *, quick: bool = False) -> Any:
    """Return the value, if it fits the schema.

    `quick`: on an event loop. Errors: `OutputInvalid` with the path of the first misfit; `TooMuchAtOnce`
    if it is quick and would take more than some milliseconds. Cost: a few seconds at most, and three of
    the helper process for patterns.
    """
    check = _ValueCheck(schema, quick=quick)
    try:
        check.value(value, schema, "$", refs=0)
    except RecursionError:
        _misfit("the output is nested too deeply to be checked")
    return value


def _misfit(text: str, *, expected: object = None, got: object = None) -> NoReturn:
    raise OutputInvalid(text, expected=expected, got=got)


class _ValueCheck:
    """One check: the whole schema, for its references, and how much was looked at."""

    def __init__(self, root: Mapping[str, Any], *, quick: bool) -> None:
        self._root = root
        self._quick = quick
        self._left = QUICK_CHECKS_MAX if quick else CHECKS_MAX
        self._allowance = Allowance()

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left >= 0:
            return
        if self._quick:
            raise TooMuchAtOnce
        _misfit("the output is too large to be checked", expected=f"{CHECKS_MAX} checks")

    def value(self, value: object, schema: object, path: str, *, refs: int) -> None:
        """`refs` bounds references that lead to references."""
        self._spend(1)
        if refs > 300:
            _misfit("the output is too large to be checked", expected="300 references")
        if schema is False:
            _misfit(f"{path} is not allowed", got=_brief_value(value))
        if not isinstance(schema, Mapping):
            return
        rules = cast(Mapping[str, Any], schema)
        if isinstance(rules.get("$ref"), str):
            self.value(value, resolve_ref(self._root, rules["$ref"]), path, refs=refs + 1)
        if "enum" in rules:  # lists and objects are compared to their ends
            self._spend(len(rules["enum"]) * (10 if isinstance(value, list | dict) else 1) // 4)
        _check_plain(value, rules, path)
        self._choices(value, rules, path, refs=refs)
        if isinstance(value, dict):
            self._object(cast(dict[str, Any], value), rules, path)
        elif isinstance(value, list):
            self._array(cast(list[Any], value), rules, path)
        elif isinstance(value, str):
            self._text(value, rules, path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            _check_number(value, rules, path)

    def _fits(self, value: object, schema: object, path: str, *, refs: int) -> str:
        """Empty if it fits, else why not."""
        try:
            self.value(value, schema, path, refs=refs + 1)
        except OutputInvalid as error:
            if self._left < 0:
                raise
            return str(error)
        return ""

    def _choices(self, value: Any, rules: Mapping[str, Any], path: str, *, refs: int) -> None:
        for part in rules.get("allOf", ()):
            self.value(value, part, path, refs=refs + 1)
        if choices := rules.get("anyOf"):
            why = ""
            for part in choices:
                why = self._fits(value, part, path, refs=refs)
                if not why:
                    break
            else:
                _misfit(f"{path} fits none of the allowed forms: {why[:300]}")
        if choices := rules.get("oneOf"):
            found = [self._fits(value, part, path, refs=refs) for part in choices]
            if (fitting := found.count("")) != 1:
                _misfit(
                    f"{path} has to fit one of the allowed forms: {next(filter(None, found), '')[:300]}",
                    expected="exactly one",
                    got=fitting,
                )
        if "not" in rules and not self._fits(value, rules["not"], path, refs=refs):
            _misfit(f"{path} has a form that is not allowed", got=_brief_value(value))

    def _text(self, value: str, rules: Mapping[str, Any], path: str) -> None:
        _check_count(value, rules, path, "Length", "characters")
        if "pattern" not in rules or (pattern := pattern_of(rules["pattern"])) is None:
            return
        if len(value) > PATTERN_TEXT_CHARS_MAX:
            _misfit(
                f"{path} is too long for its pattern",
                expected=f"at most {PATTERN_TEXT_CHARS_MAX} characters",
                got=len(value),
            )
        if not self._matches(pattern, value, path):
            _misfit(f"{path} does not match its pattern", expected=rules["pattern"], got=value[:80])

    def _matches(self, pattern: Pattern, value: str, path: str) -> bool:
        if self._quick and not pattern.is_quick(value):
            raise TooMuchAtOnce
        self._spend(pattern.work(value) // PATTERN_WORK)
        try:
            return pattern.search(value, allowance=self._allowance)
        except InvalidRequest:  # no pattern after all, which was seen only now
            return True
        except PatternTimeout as error:
            self._left = -1  # no other choice is tried
            _misfit(f"{path} cannot be checked: {error}")

    def _object(self, fields: dict[str, Any], rules: Mapping[str, Any], path: str) -> None:
        self._spend((len(rules.get("required", ())) + len(fields)) // 8)
        for name in rules.get("required", ()):
            if name not in fields:
                _misfit(f"{path} lacks a property", expected=name)
        _check_count(fields, rules, path, "Properties", "properties")
        properties = cast(Mapping[str, Any], rules.get("properties", {}))
        others = True if "patternProperties" in rules else rules.get("additionalProperties", True)
        for name, item in fields.items():
            if name in properties:
                self.value(item, properties[name], _below(path, f".{name}"), refs=0)
            elif others is False:
                _misfit(f"{path} has a property that is not allowed", got=name[:80])
            elif others is not True:
                self.value(item, others, _below(path, f".{name[:80]}"), refs=0)

    def _array(self, items: list[Any], rules: Mapping[str, Any], path: str) -> None:
        _check_count(items, rules, path, "Items", "items")
        rest = rules.get("items", True)
        first = cast(list[Any], rest if isinstance(rest, list) else rules.get("prefixItems", ()))
        if isinstance(rest, list):  # draft 7
            rest = rules.get("additionalItems", True)
        for index, item in enumerate(items):
            schema = first[index] if index < len(first) else rest
            if schema is not True:
                self.value(item, schema, _below(path, f"[{index}]"), refs=0)


def _below(path: str, step: str) -> str:
    """The path one step down; one that is long already stays as it is."""
    return path if len(path) + len(step) > PATH_CHARS_MAX else path + step


def _brief_value(value: object) -> str:
    """A wrong value as text, at a bounded cost however large it is."""
    if isinstance(value, str):
        return repr(value[:100])[:80]
    return _BRIEF.repr(value)[:80] if isinstance(value, list | dict) else repr(value)[:80]


def _check_plain(value: Any, rules: Mapping[str, Any], path: str) -> None:
    if "enum" in rules and not any(_is_same(value, one) for one in rules["enum"]):
        _misfit(f"{path} is not one of the allowed values", got=_brief_value(value))
    if "const" in rules and not _is_same(value, rules["const"]):
        _misfit(
            f"{path} is not the allowed value", expected=repr(rules["const"])[:80], got=_brief_value(value)
        )
    kind = rules.get("type")
    if kind is None:
        return
    kinds = [kind] if isinstance(kind, str) else cast(list[str], kind)
    if not any(has_type(value, one) for one in kinds):
        _misfit(f"{path} has the wrong type", expected=" or ".join(kinds), got=type(value).__name__)


def _is_same(value: object, allowed: object) -> bool:
    """Equality of JSON, where true is not 1."""
    return isinstance(value, bool) == isinstance(allowed, bool) and value == allowed


def has_type(value: object, kind: str) -> bool:
    """Return True if a JSON value is of a type of JSON schema; types that nobody knows pass."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _PYTHON.get(kind, object))


def _check_count(
    value: dict[str, Any] | list[Any] | str, rules: Mapping[str, Any], path: str, word: str, of: str
) -> None:
    least, most, count = rules.get(f"min{word}"), rules.get(f"max{word}"), len(value)
    if least is not None and count < least:
        _misfit(f"{path} has too few {of}", expected=f"at least {least}", got=count)
    if most is not None and count > most:
        _misfit(f"{path} has too many {of}", expected=f"at most {most}", got=count)


def _check_number(value: float, rules: Mapping[str, Any], path: str) -> None:
    for word, expected, fits in _BOUNDS:
        if word in rules and not fits(value, rules[word]):
            _misfit(f"{path} is out of bounds", expected=f"{expected} {rules[word]}", got=value)
