"""Filters over lists, and those that turn any value into text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from artelier.operations.template_engine.renderer import (
    ITEM_WORK,
    TURNS_MAX,
    Rendering,
    TemplateFailed,
    TemplateLimit,
)
from artelier.operations.template_engine.text_filters import (
    TEXT_FILTERS,
    Filter,
    date,
    decimal,
    integer,
    join_texts,
    number,
)
from artelier.operations.template_engine.values import (
    MISSING,
    Messages,
    Undefined,
    is_blank,
    is_true,
    item,
    not_data,
    same,
    text,
    to_json,
)

Items = list[Any]


def items(value: Any, state: Rendering) -> Items:
    """The items of a list; a single value is a list of it, null and what is undefined an empty one."""
    if value is None or isinstance(value, Undefined):
        return []
    if isinstance(value, range):
        _check_range(value)
    if isinstance(value, list | tuple | range):
        state.spend(ITEM_WORK * len(cast("Items", value)))
        return cast("Items", value) if isinstance(value, list) else list(cast("Items", value))
    return [value]


def _check_range(value: range) -> None:
    if len(value) > TURNS_MAX:
        raise TemplateLimit("a range is too long", expected=f"at most {TURNS_MAX} numbers")


def _like(source: Any, found: Items) -> Items:
    """A selection from messages prints as messages, also when it is empty."""
    return Messages(found) if isinstance(source, Messages) else found


def _field(value: Any, key: object) -> object:
    found = item(value, key)
    return None if found is MISSING else found


def _first(state: Rendering, value: object, count: object = None) -> object:
    if count is None:
        return _end(value, "first")
    return _like(value, _as_list(value)[: max(0, integer(count))])


def _last(state: Rendering, value: object, count: object = None) -> object:
    if count is None:
        return _end(value, "last")
    found, wanted = _as_list(value), max(0, integer(count))
    return _like(value, found[max(0, len(found) - wanted) :])


def _end(value: Any, key: str) -> object:
    return _field(value, key) if isinstance(value, list | tuple | range) else None


def _as_list(value: object) -> Items:
    if value is None or isinstance(value, Undefined):
        return []
    if isinstance(value, list):
        return cast("Items", value)
    if isinstance(value, tuple | range):
        if isinstance(value, range):
            _check_range(value)
        return list(cast("Items", value))
    raise TemplateFailed("not a list", got=type(value).__name__[:80])


def _slice(state: Rendering, value: Any, start: Any, length: Any = 1) -> object:
    whole = items(value, state) if isinstance(value, list | tuple | range) else text(value, state)
    begin, size = integer(start), max(0, integer(length))
    begin = begin if begin >= 0 else max(0, len(whole) + begin)
    found = whole[begin : begin + size]
    return state.check_size(found) if isinstance(found, str) else _like(value, found)


def _reverse(state: Rendering, value: object) -> Items:
    return _like(value, items(value, state)[::-1])


def _split(state: Rendering, value: object, separator: object) -> Items:
    whole, mark = text(value, state), text(separator, state)
    state.spend(len(whole))
    if not whole or whole == mark:
        return []
    parts = list(whole) if not mark else whole.split(None if mark == " " else mark)
    state.spend(ITEM_WORK * len(parts))
    return parts


def _join(state: Rendering, value: object, separator: object = " ") -> str:
    parts = [text(each, state) for each in items(value, state)]
    return state.check_size(join_texts(parts, text(separator, state)))


def _bullets(state: Rendering, value: object) -> str:
    lines = [text(each, state).replace("\n", "\n  ") for each in items(value, state)]
    return state.check_size(join_texts([f"- {line}" for line in lines], "\n"))


def _concat(state: Rendering, value: object, more: object) -> Items:
    return _like(value, [*items(value, state), *items(more, state)])


def _order(each: object, state: Rendering, *, natural: bool) -> tuple[int, Any]:
    """Numbers before texts before nothing, so that any list has an order."""
    if each is None or isinstance(each, Undefined):
        return (2, "")
    if isinstance(each, int | float) and not isinstance(each, bool):
        return (0, each)
    shown = text(each, state)
    state.spend(4 * len(shown))
    return (1, shown.casefold() if natural else shown)


def _sorting(*, natural: bool) -> Callable[..., Items]:
    def run(state: Rendering, value: object, key: object = None) -> Items:
        found = items(value, state)
        state.spend(ITEM_WORK * 4 * len(found))
        values = found if key is None else [_field(each, key) for each in found]
        order = [_order(each, state, natural=natural) for each in values]
        ranked = sorted(range(len(found)), key=order.__getitem__)
        return _like(value, [found[at] for at in ranked])

    return run


def _matches(each: object, key: object, wanted: object, state: Rendering) -> bool:
    found = _field(each, key)
    return is_true(found) if wanted is None else same(found, wanted, state=state)


def _where(state: Rendering, value: object, key: object, wanted: object = None) -> Items:
    found = items(value, state)
    return _like(value, [each for each in found if _matches(each, key, wanted, state)])


def _reject(state: Rendering, value: object, key: object, wanted: object = None) -> Items:
    found = items(value, state)
    return _like(value, [each for each in found if not _matches(each, key, wanted, state)])


def _find(state: Rendering, value: object, key: object, wanted: object = None) -> object:
    found = items(value, state)
    return next((each for each in found if _matches(each, key, wanted, state)), None)


def _has(state: Rendering, value: object, key: object, wanted: object = None) -> bool:
    return any(_matches(each, key, wanted, state) for each in items(value, state))


def _map(state: Rendering, value: object, key: object) -> Items:
    return [_field(each, key) for each in items(value, state)]


def _compact(state: Rendering, value: object) -> Items:
    return _like(value, [each for each in items(value, state) if each is not None])


def _uniq(state: Rendering, value: object, key: object = None) -> Items:
    seen: set[Any] = set()
    kept: Items = []
    for each in items(value, state):
        field = each if key is None else _field(each, key)
        mark = field if isinstance(field, str) else (to_json(field, state),)
        if mark not in seen:
            seen.add(mark)
            kept.append(each)
    return _like(value, kept)


def _sum(state: Rendering, value: object, key: object = None) -> int | float:
    found = items(value, state)
    numbers = [number(each if key is None else _field(each, key)) for each in found]
    if all(isinstance(each, int) for each in numbers):
        return sum(cast("list[int]", numbers))
    return float(sum(decimal(each) for each in numbers))


def _size(state: Rendering, value: object) -> int:
    if isinstance(value, str | list | tuple | range | Mapping):
        return len(cast("Items", value))
    if value is None or isinstance(value, bool | int | float | Undefined):
        return 0
    found = _field(value, "size")
    if isinstance(found, int):
        return found
    raise not_data(value)


def _default(state: Rendering, value: object, other: object = "", *, allow_false: object = False) -> object:
    """The other value where this one is undefined, null, false, or an empty text or collection."""
    if value is False and is_true(allow_false):
        return value
    spaces = isinstance(value, str) and value != ""
    return other if not spaces and is_blank(value) else value


def _json(state: Rendering, value: object, indent: object = None) -> str:
    return to_json(value, state, indent=None if indent is None else min(8, max(0, integer(indent))))


_LIST_FILTERS: dict[str, tuple[Filter, int, int]] = {
    "first": (_first, 0, 1),
    "last": (_last, 0, 1),
    "slice": (_slice, 1, 2),
    "split": (_split, 1, 1),
    "join": (_join, 0, 1),
    "bullets": (_bullets, 0, 0),
    "json": (_json, 0, 1),
    "concat": (_concat, 1, 1),
    "reverse": (_reverse, 0, 0),
    "sort": (_sorting(natural=False), 0, 1),
    "sort_natural": (_sorting(natural=True), 0, 1),
    "where": (_where, 1, 2),
    "reject": (_reject, 1, 2),
    "find": (_find, 1, 2),
    "has": (_has, 1, 2),
    "map": (_map, 1, 1),
    "compact": (_compact, 0, 0),
    "uniq": (_uniq, 0, 1),
    "sum": (_sum, 0, 1),
    "size": (_size, 0, 0),
    "default": (_default, 0, 1),
    "date": (date, 1, 1),
}

FILTERS = TEXT_FILTERS | _LIST_FILTERS
"""By name: the function of state, value and arguments; how many arguments at least and at most."""

ACCEPTS_UNDEFINED = frozenset({"default"})
"""Filters that may be asked about a name without a value, also in strict mode."""
NAMED_ARGUMENTS = {"default": frozenset({"allow_false"})}
"""By filter: arguments that are given by name."""
