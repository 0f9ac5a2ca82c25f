"""The values of a template: data only. No attribute of a Python object is ever read.

A value is null, a boolean, a number, a text, a list, a mapping with text keys, or one of the small
classes here. Anything else is refused by name of its type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from artelier.operations.template_engine.renderer import (
    ITEM_WORK,
    TEXT_CHARS_MAX,
    Rendering,
    TemplateFailed,
    TemplateLimit,
    TemplateUndefined,
)

DEPTH_MAX = 64
"""Of nested values that are printed or compared."""
JSON_WORK_MAX = 4 * TEXT_CHARS_MAX
"""For one value that is printed as JSON; more would print too long anyway."""
INTEGER_MAX = 10**30
"""Larger ones come only from growth in a loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Someone or something with a name: prints as it, and has fields (`{{ char.description }}`)."""

    name: str
    fields: Mapping[str, Any]


class Messages(list[Any]):
    """A list of messages `{role, content, name?}`; prints as `name: content` lines, as nothing if empty.

    Other lists print so too when each of their items looks like a message.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Undefined:
    """A name without a value. `path` is as the template wrote it; dynamic keys show as `*`."""

    path: str


@dataclass(slots=True, kw_only=True)
class Loop:
    """`forloop` inside a loop."""

    length: int
    parent: Loop | None
    index0: int = -1

    def field(self, key: str) -> Any:
        """The value of a field, or None if there is no such field."""
        match key:
            case "index":
                return self.index0 + 1
            case "index0":
                return self.index0
            case "rindex":
                return self.length - self.index0
            case "rindex0":
                return self.length - self.index0 - 1
            case "first":
                return self.index0 == 0
            case "last":
                return self.index0 == self.length - 1
            case "length":
                return self.length
            case "parentloop":
                return self.parent
            case _:
                return None


class _Missing:
    """No value under a key."""


MISSING = _Missing()


def not_data(value: object) -> TemplateFailed:
    return TemplateFailed(
        "a value in scope is no data",
        expected="null, a boolean, a number, a text, a list or a mapping",
        got=type(value).__name__[:80],
    )


def undefined_error(value: Undefined) -> TemplateUndefined:
    return TemplateUndefined(
        f"`{value.path[:120]}` has no value", hint="Give it a value, or write `| default: ...`."
    )


def item(value: object, key: object) -> Any:
    """Return what a value holds under a key, or `MISSING`. Keys that begin with `_` hold nothing."""
    if isinstance(key, str):
        if key.startswith("_"):
            return MISSING
        if isinstance(value, Mapping):
            return _of_mapping(cast("Mapping[str, Any]", value), key)
        if isinstance(value, Named):
            return value.name if key == "name" else value.fields.get(key, MISSING)
        if isinstance(value, Loop):
            found = value.field(key)
            return MISSING if found is None else found
        if isinstance(value, str):
            return len(value) if key == "size" else MISSING
    if isinstance(value, list | tuple | range):
        return _of_list(cast("list[Any]", value), key)
    if value is None or isinstance(value, str | bool | int | float | Mapping | Named | Loop):
        return MISSING
    raise not_data(value)


def _of_mapping(value: Mapping[str, Any], key: str) -> object:
    found = value.get(key, MISSING)
    return len(value) if found is MISSING and key == "size" else found


def _of_list(value: list[Any], key: object) -> object:
    if isinstance(key, int) and not isinstance(key, bool):
        return value[key] if -len(value) <= key < len(value) else MISSING
    match key:
        case "size":
            return len(value)
        case "first":
            return value[0] if value else MISSING
        case "last":
            return value[-1] if value else MISSING
        case _:
            return MISSING


def is_true(value: object) -> bool:
    """Return True for all but null, false and undefined, as Liquid does; an empty text is true."""
    return not (value is None or value is False or isinstance(value, Undefined))


def is_empty(value: object) -> bool:
    return isinstance(value, str | list | tuple | range | Mapping) and not value


def is_blank(value: object) -> bool:
    if isinstance(value, str):
        return not value or value.isspace()
    return not is_true(value) or is_empty(value)


def same(left: object, right: object, *, state: Rendering, depth: int = 0) -> bool:
    """Equality of data: true is not 1, and a named value equals its name."""
    state.spend(ITEM_WORK)
    left, right = _comparable(left), _comparable(right)
    if isinstance(left, str) and isinstance(right, str):
        state.spend(min(len(left), len(right)))
        return left == right
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if depth >= DEPTH_MAX:
        raise TemplateLimit("values are nested too deeply to be compared")
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        first, second = cast("list[Any]", left), cast("list[Any]", right)
        return len(first) == len(second) and all(
            same(one, other, state=state, depth=depth + 1) for one, other in zip(first, second, strict=True)
        )
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        one, other = cast("Mapping[str, Any]", left), cast("Mapping[str, Any]", right)
        return len(one) == len(other) and all(
            key in other and same(value, other[key], state=state, depth=depth + 1)
            for key, value in one.items()
        )
    if isinstance(left, range) and isinstance(right, range):
        return left == right
    return False


def _comparable(value: object) -> object:
    if isinstance(value, Named):
        return value.name
    return None if isinstance(value, Undefined) else value


def text(value: Any, state: Rendering) -> str:
    """Return how a value prints. Errors: `TemplateUndefined` in strict mode, `TemplateLimit`,
    `TemplateFailed`.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(check_integer(value))
    if isinstance(value, float):
        return str(value)
    if isinstance(value, Undefined):
        if state.strict:
            raise undefined_error(value)
        return ""
    if isinstance(value, Named):
        return text(value.name, state)
    if isinstance(value, range):
        return f"{value.start}..{value.stop - 1}" if value else ""
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        if all(is_message(each) for each in items) and (items or isinstance(items, Messages)):
            return _lines(items, state)
    return to_json(value, state)


def is_message(value: object) -> bool:
    """Return True if a value looks like a message: a mapping with a text `role` and some `content`."""
    return (
        isinstance(value, Mapping)
        and "content" in value
        and isinstance(cast("Mapping[str, Any]", value).get("role"), str)
    )


def _lines(messages: list[Mapping[str, Any]], state: Rendering) -> str:
    lines: list[str] = []
    size = 0
    for message in messages:
        speaker = text(message.get("name") or message["role"], state)
        lines.append(f"{speaker}: {text(message['content'], state)}")
        size += len(lines[-1])
        state.spend(ITEM_WORK + len(lines[-1]))
        if size > TEXT_CHARS_MAX:
            raise TemplateLimit("the messages are too long to be printed", hint="Use `| last: 5`.")
    return "\n".join(lines)


def check_integer(number: int) -> int:
    """The number, if it is not absurdly large."""
    if -INTEGER_MAX <= number <= INTEGER_MAX:
        return number
    raise TemplateLimit("a number is too large", expected="at most 30 digits")


def to_json(value: Any, state: Rendering, *, indent: int | None = None) -> str:
    """The value as JSON text, keys in their own order. Numbers JSON does not know print as null."""
    kept = max(0, state.work_left - JSON_WORK_MAX)
    state.work_left -= kept
    data = plain(value, state)
    state.work_left += kept
    return state.check_size(json.dumps(data, ensure_ascii=False, indent=indent))


def plain(value: object, state: Rendering, depth: int = 0) -> Any:
    """The value as JSON data; what is undefined is null. Its size is counted before it is written."""
    state.spend(ITEM_WORK)
    if value is None or isinstance(value, bool | Undefined):
        return None if isinstance(value, Undefined) else value
    if isinstance(value, str):
        state.spend(len(value))
        return value
    if isinstance(value, int):
        return check_integer(value)
    if isinstance(value, float):
        return value if value - value == 0 else None
    if depth >= DEPTH_MAX:
        raise TemplateLimit("values are nested too deeply to be printed")
    if isinstance(value, Named):
        return plain({"name": value.name, **value.fields}, state, depth)
    if isinstance(value, list | tuple | range):
        return [plain(each, state, depth + 1) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {_key(key): plain(each, state, depth + 1) for key, each in pairs}
    if isinstance(value, Loop):
        return {"index": value.index0 + 1, "length": value.length}
    raise not_data(value)


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    raise not_data(key)


def is_below(left: Any, right: Any, state: Rendering, *, or_same: bool = False) -> bool:
    """Numbers with numbers, texts with texts; nothing is below null. Errors: `TemplateFailed` else."""
    for side in (left, right):
        if isinstance(side, Undefined) and state.strict:
            raise undefined_error(side)
        if side is None or isinstance(side, Undefined):
            return False
    if isinstance(left, str) and isinstance(right, str):
        state.spend(min(len(left), len(right)))
        return left <= right if or_same else left < right
    if _is_number(left) and _is_number(right):
        return left <= right if or_same else left < right
    raise TemplateFailed(
        "these values have no order",
        expected="two numbers or two texts",
        got=f"{type(left).__name__[:40]} and {type(right).__name__[:40]}",
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def contains(whole: object, part: object, state: Rendering) -> bool:
    """A text in a text, an item in a list, a key in a mapping; false for any other value."""
    if isinstance(whole, Undefined):
        if state.strict:
            raise undefined_error(whole)
        return False
    if isinstance(whole, Named):
        whole = whole.name
    if isinstance(whole, str):
        state.spend(len(whole))
        return not (part is None or isinstance(part, Undefined)) and text(part, state) in whole
    if isinstance(whole, list | tuple):
        return any(same(each, part, state=state) for each in cast("list[Any]", whole))
    if isinstance(whole, range):
        return isinstance(part, int) and part in whole
    return isinstance(whole, Mapping) and isinstance(part, str) and part in whole
