"""The check of a value against a JSON schema, for replies whose form a schema alone describes.

A schema may come from a recorded run, whose class is not at hand. Not checked: `format`,
`if`/`then`/`else`, `contains`, `patternProperties`, and patterns of other dialects than that of `re`.

Others choose the schema and the reply, so all work is counted. On an event loop, more than a little work
is refused; the caller then uses a thread (`structured_output.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from reprlib import Repr
from typing import Any, NoReturn, cast

from artelier.errors import InvalidRequest, OutputInvalid, PatternTimeout
from artelier.kernel.steps.json_schema import pattern_of, resolve_ref
from artelier.patterns import Allowance, Pattern

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


def check_json(value: object, schema: Mapping[str, Any], path: str = "$", *, quick: bool = False) -> Any:
    """Return the value, if it fits the schema.

    `quick`: on an event loop. Errors: `OutputInvalid` with the path of the first misfit; `TooMuchAtOnce`
    if it is quick and would take more than some milliseconds. Cost: a few seconds at most, and three of
    the helper process for patterns.
    """
    check = _ValueCheck(schema, quick=quick)
    try:
        check.value(value, schema, path, refs=0)
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
            _misfit(f"{path} is not allowed", got=_format_value(value))
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
            _misfit(f"{path} has a form that is not allowed", got=_format_value(value))

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


def _format_value(value: object) -> str:
    """A wrong value as text, at a bounded cost however large it is."""
    if isinstance(value, str):
        return repr(value[:100])[:80]
    return _BRIEF.repr(value)[:80] if isinstance(value, list | dict) else repr(value)[:80]


def _check_plain(value: Any, rules: Mapping[str, Any], path: str) -> None:
    if "enum" in rules and not any(_is_same(value, one) for one in rules["enum"]):
        _misfit(f"{path} is not one of the allowed values", got=_format_value(value))
    if "const" in rules and not _is_same(value, rules["const"]):
        _misfit(
            f"{path} is not the allowed value", expected=repr(rules["const"])[:80], got=_format_value(value)
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
