"""A stranger's JSON schema: what a model is shown of it, and arguments checked against it within bounds.

A schema is a small program of its author, so its author must not be able to make a check run for ever:
patterns that only a backtracking engine can match are left to the server; each check has a budget of work.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from importlib import import_module
from itertools import islice
from typing import Any, cast

import msgspec

from artelier.errors import InvalidArguments, InvalidRequest
from artelier.patterns import Pattern, compile_pattern
from artelier.tools.json_conversion import NotJson, plain_json

# --------------------------------------------------------------------------- text
# Text of a server as people and models may see it: what nobody can see is taken out.


_KEPT = frozenset("\n\t")
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are letters or symbols by category and show nothing."""


def is_hidden(char: str) -> bool:
    """Return True if a character shows nothing: controls, formats, variation selectors, private ones,
    fillers.
    """
    if char.isascii():
        return char not in _KEPT and not char.isprintable()
    if char in _BLANK or 0xFE00 <= ord(char) <= 0xFE0F or 0xE0000 <= ord(char) <= 0xE0FFF:
        return True
    return unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")


def has_hidden(text: str) -> bool:
    """Return True if any of it shows nothing."""
    return any(map(is_hidden, text))


def visible(text: str, *, chars_max: int) -> str:
    """The text without hidden characters, cut to a length; what was cut is said by `…`."""
    # Cut first, generously: cleaning megabytes to keep a line of them would be work for nothing.
    shown = "".join(char for char in text[: chars_max * 4] if not is_hidden(char)).strip()
    return shown if len(shown) <= chars_max else shown[: chars_max - 1] + "…"


# --------------------------------------------------------------------------- schema


SCHEMA_BYTES_MAX = 64 * 1024
"""JSON of one input schema (guess: ten times the largest honest one)."""

SCHEMA_DEPTH_MAX = 40
TEXT_CHARS_MAX = 1_024
"""Of a description inside the schema."""

ARGUMENTS_BYTES_MAX = 1024 * 1024
PROBLEMS_MAX = 5
"""Misfits that a model is told of at once."""

WORK_MAX = 60_000
"""Keywords looked at in one check, and per 16 characters of complaint one more (measured: 0.4 s)."""

WORK_MIN = 10_000
"""The same for the smallest arguments; larger ones may take more, by a quarter of their bytes."""

PATTERN_CHARS_MAX = 500
PATTERN_WORK = 1_000
"""Steps of a pattern that count as one keyword."""

COMPARED_MAX = 300
"""Items of a list that are compared with each other, or names with patterns; more are left to the server."""

_PROSE = frozenset(("description", "title", "$comment"))
_REFERENCES = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))

Keyword = Callable[[Any, Any, Any, Any], Iterable[Any] | None]


class Unfit(Exception):
    """The reason why a tool is not offered."""


class _TooMuchWork(Exception):
    pass


_work: ContextVar[list[int]] = ContextVar("work")


class ArgumentSchema:
    """The parameters of one tool: `schema` is what a model sees."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Errors: `Unfit`."""
        self._dialect: object = raw.get("$schema")
        self.schema: dict[str, Any] = _readable(raw)
        self._validator: Any = None

    def check(self, arguments: object, *, tool: str) -> dict[str, Any]:
        """The arguments as JSON data that fits. Errors: `InvalidArguments`, for a model to act on."""
        plain, size_bytes = _object(arguments, tool=tool)
        if self._validator is None:
            self._validator = _validator(self.schema, self._dialect)
        token = _work.set([min(WORK_MAX, WORK_MIN + size_bytes // 4)])
        try:
            found = cast("Iterator[Any]", self._validator.iter_errors(plain))
            problems = list(islice(found, PROBLEMS_MAX))
        # The boundary to a stranger's schema: whatever it does to the checker, the answer is no.
        except Exception as error:
            raise InvalidArguments(
                f"arguments of `{tool}` cannot be checked against its schema",
                got="too much work" if isinstance(error, _TooMuchWork) else type(error).__name__,
                hint="Send fewer or simpler arguments, or use another tool.",
            ) from None
        finally:
            _work.reset(token)
        if problems:
            raise _complaint(tool, problems, self.schema)
        return plain


def _complaint(tool: str, problems: list[Any], schema: Mapping[str, Any]) -> InvalidArguments:
    lines = [f"{visible(one.json_path, chars_max=80)}: {_short(one.message)}" for one in problems]
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})
    required = set(cast("list[str]", schema.get("required") or []))
    names = [name if name in required else f"{name} (optional)" for name in properties]
    return InvalidArguments(
        f"arguments of `{tool}` do not fit: " + "; ".join(lines),
        expected=visible(", ".join(names), chars_max=500) or "no arguments",
    )


def _short(message: str) -> str:
    """Head and tail: such messages begin with the value and end with what is wrong."""
    if len(message) > 240:
        message = f"{message[:100]} … {message[-130:]}"
    return visible(message, chars_max=240)


def _object(arguments: object, *, tool: str) -> tuple[dict[str, Any], int]:
    """The arguments, and their bytes as JSON."""
    expected = "a JSON object with the tool's parameters as keys"
    try:
        value: Any = arguments
        if isinstance(value, str | bytes | bytearray):
            if len(value) > ARGUMENTS_BYTES_MAX:
                raise NotJson("", f"is larger than {ARGUMENTS_BYTES_MAX} bytes")
            # Providers send an empty text for a call without arguments.
            value = msgspec.json.decode(value) if value.strip() else dict[str, Any]()
        plain = plain_json(value)
        size = len(msgspec.json.encode(plain))
    except (NotJson, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidArguments(
            f"arguments of `{tool}` are not JSON data: {str(error)[:200]}", expected=expected
        ) from None
    if not isinstance(plain, dict):
        raise InvalidArguments(
            f"arguments of `{tool}` are not an object", expected=expected, got=type(plain).__name__
        )
    if size > ARGUMENTS_BYTES_MAX:
        raise InvalidArguments(
            f"arguments of `{tool}` are too large",
            expected=f"at most {ARGUMENTS_BYTES_MAX} bytes of JSON",
            got=f"{size} bytes",
        )
    return cast("dict[str, Any]", plain), size


# Reading a schema


def _readable(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as a model may see it. Errors: `Unfit`."""
    try:
        schema = cast("dict[str, Any]", plain_json(raw))
        size = len(msgspec.json.encode(schema))
    except (NotJson, RecursionError, ValueError):
        raise Unfit("its schema is not JSON data") from None
    if size > SCHEMA_BYTES_MAX:
        raise Unfit(f"its schema is larger than {SCHEMA_BYTES_MAX} bytes")
    dialect = schema.pop("$schema", None)
    schema.setdefault("type", "object")
    if schema["type"] != "object":
        raise Unfit("its schema is not that of an object")
    shown = cast("dict[str, Any]", _clean(schema, 0))
    checker = _checker(dialect)
    try:
        checker.check_schema(shown)
    # What the check of a stranger's schema raises depends on the schema.
    except Exception as error:
        text = str(getattr(error, "message", "") or type(error).__name__)
        raise Unfit(f"its schema is no JSON schema: {_short(text)}") from None
    return shown


def _clean(node: object, depth: int) -> Any:
    if depth > SCHEMA_DEPTH_MAX:
        raise Unfit(f"its schema is nested deeper than {SCHEMA_DEPTH_MAX} levels")
    if isinstance(node, list):
        return [_clean(item, depth + 1) for item in cast("list[Any]", node)]
    if isinstance(node, str) and has_hidden(node):
        raise Unfit("its schema holds characters that nobody can see")
    if not isinstance(node, dict):
        return node
    cleaned: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", node).items():
        if has_hidden(key):
            raise Unfit("its schema has a name with characters that nobody can see")
        if key in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
            raise Unfit(f"its schema refers to another document: {visible(value, chars_max=80)}")
        if key == "$schema" and isinstance(value, str):
            raise Unfit("its schema changes the dialect inside")
        if key in _PROSE and isinstance(value, str):
            cleaned[key] = visible(value, chars_max=TEXT_CHARS_MAX)
        else:
            cleaned[key] = _clean(value, depth + 1)
    return cleaned


# Checking with a schema


def _checker(dialect: object) -> Any:
    """The class that checks a dialect of JSON schema; 2020-12 if it is not said, or not known."""
    validators = import_module("jsonschema.validators")
    return validators.validator_for(
        {"$schema": dialect} if isinstance(dialect, str) else {}, default=validators.Draft202012Validator
    )


def _validator(schema: dict[str, Any], dialect: object) -> Any:
    validators, referencing = import_module("jsonschema.validators"), import_module("referencing")
    base = _checker(dialect)
    standard = cast("Mapping[str, Keyword]", base.VALIDATORS)
    standard = {
        **standard,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties(standard["additionalProperties"]),
    }
    keywords = {name: _count_work(_guard(name, function)) for name, function in standard.items()}
    # An empty registry: nothing outside the schema is ever fetched.
    return validators.extend(base, keywords)(schema, registry=referencing.Registry())


def _count_work(function: Keyword) -> Keyword:
    def check(validator: object, value: object, instance: object, schema: object) -> Iterator[Any]:
        left = _work.get()
        left[0] -= 1
        if left[0] < 0:
            raise _TooMuchWork
        for error in function(validator, value, instance, schema) or ():
            left[0] -= len(error.message) // 16
            yield error

    return check


def _guard(name: str, function: Keyword) -> Keyword:
    """The keyword, left to the server where trying it here could take long."""
    may_try = _GUARDS.get(name)
    if may_try is None:
        return function

    def check(validator: object, value: object, instance: object, schema: object) -> Iterable[Any]:
        if not may_try(value, instance, schema):
            return ()
        return function(validator, value, instance, schema) or ()

    return check


def _quick(pattern: object, text: str) -> Pattern | None:
    """The pattern, if it can be tried on this text at once; its work is counted. Else the server judges."""
    if not isinstance(pattern, str) or len(pattern) > PATTERN_CHARS_MAX:
        return None
    try:
        compiled = compile_pattern(pattern)
    except InvalidRequest:
        return None
    if not compiled.is_quick(text):
        return None
    left = _work.get()
    left[0] -= compiled.work(text) // PATTERN_WORK
    if left[0] < 0:
        raise _TooMuchWork
    return compiled


def _pattern(validator: object, value: object, instance: object, schema: object) -> Iterator[Any]:
    if isinstance(instance, str) and (compiled := _quick(value, instance)) is not None:
        if not compiled.search(instance):
            yield _misfit(f"{instance!r} does not match {value!r}")


def _pattern_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if (named := _names_by_pattern(instance, schema)) is None:
        return
    for pattern, names in named.items():
        for name in names:
            yield from validator.descend(instance[name], value[pattern], path=name, schema_path=pattern)


def _additional_properties(function: Keyword) -> Keyword:
    """The keyword, for the names that no pattern matches."""

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[Any]:
        if not isinstance(instance, dict) or "patternProperties" not in schema:
            return function(validator, value, instance, schema) or ()
        if (named := _names_by_pattern(cast("dict[str, Any]", instance), schema)) is None:
            return ()
        matched = {name for names in named.values() for name in names}
        fields = cast("dict[str, Any]", instance)
        others = {name: item for name, item in fields.items() if name not in matched}
        rules = {word: rule for word, rule in schema.items() if word != "patternProperties"}
        return function(validator, value, others, rules) or ()

    return check


def _names_by_pattern(instance: Any, schema: Any) -> dict[str, list[str]] | None:
    """Names of an object by the patterns that match them; None if it would take too long to say."""
    patterns = cast("Mapping[str, Any]", schema.get("patternProperties") or {})
    if not isinstance(instance, dict):
        return {}
    names = cast("dict[str, Any]", instance)
    if len(patterns) * len(names) > COMPARED_MAX:
        return None
    found: dict[str, list[str]] = {}
    for pattern in patterns:
        found[pattern] = []
        for name in names:
            if (compiled := _quick(pattern, name)) is None:
                return None
            if compiled.search(name):
                found[pattern].append(name)
    return found


def _misfit(message: str) -> Any:
    return import_module("jsonschema.exceptions").ValidationError(message)


def _may_compare(value: object, instance: object, schema: object) -> bool:
    return isinstance(instance, list) and len(cast("list[Any]", instance)) <= COMPARED_MAX


def _never(value: object, instance: object, schema: object) -> bool:
    return False


_GUARDS: dict[str, Callable[[Any, Any, Any], bool]] = {
    "uniqueItems": _may_compare,
    # They look into the patterns of schemas that are referred to.
    "unevaluatedProperties": _never,
    "unevaluatedItems": _never,
}
