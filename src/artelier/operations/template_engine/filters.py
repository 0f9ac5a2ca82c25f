"""Filters over texts, numbers and lists. Each result is bounded before it is made where it could grow."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast
from urllib.parse import quote_plus, unquote_plus

from artelier.operations.template_engine.renderer import (
    ITEM_WORK,
    TEXT_CHARS_MAX,
    TURNS_MAX,
    Rendering,
    TemplateFailed,
    TemplateLimit,
    TemplateUndefined,
    too_long,
)
from artelier.operations.template_engine.values import (
    MISSING,
    Messages,
    Undefined,
    check_integer,
    is_blank,
    is_true,
    item,
    not_data,
    same,
    text,
    to_json,
)

Number = int | float
NUMBER_CHARS_MAX = 40
Filter = Callable[..., Any]
"""Takes the state, the value and the arguments."""


def join_texts(parts: list[str], separator: str) -> str:
    """The parts with the separator between them. Errors: `TemplateLimit` before it is made."""
    size = sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1)
    if size > TEXT_CHARS_MAX:
        raise too_long()
    return separator.join(parts)


def _replace(whole: str, old: str, new: str) -> str:
    """Errors: `TemplateLimit` before a text is made that is too long."""
    if len(whole) + whole.count(old) * (len(new) - len(old)) > TEXT_CHARS_MAX:
        raise too_long()
    return whole.replace(old, new)


def _replaced_last(whole: str, old: str, new: str) -> str:
    at = whole.rfind(old)
    return whole if at < 0 else whole[:at] + new + whole[at + len(old) :]


def _newlines(whole: str, new: str) -> str:
    return _replace(whole.replace("\r\n", "\n"), "\n", new)


def _stripped_html(whole: str) -> str:
    """Without tags, comments, scripts and styles; one pass, so that it is linear."""
    kept: list[str] = []
    at = 0
    while (start := whole.find("<", at)) >= 0:
        kept.append(whole[at:start])
        end = _end_of_tag(whole, start)
        if end < 0:
            return "".join(kept) + whole[start:]
        at = end
    return "".join(kept) + whole[at:]


def _end_of_tag(whole: str, start: int) -> int:
    """Return where the text goes on after the tag at `start`; -1 if the tag has no end."""
    head = whole[start : start + 7].lower()
    for opening, closing in (("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>")):
        if head.startswith(opening):
            found = whole.find(closing, start)
            return -1 if found < 0 else found + len(closing)
    found = whole.find(">", start)
    return -1 if found < 0 else found + 1


def _truncate_text(whole: str, size: int, end: str) -> str:
    return whole if len(whole) <= size else whole[: max(0, size - len(end))] + end


def _truncated_words(whole: str, count: int, end: str) -> str:
    words = whole.split(None, max(1, count))
    return whole if len(words) <= max(1, count) else " ".join(words[: max(1, count)]) + end


def _one_text(function: Callable[[str], str]) -> Filter:
    def run(state: Rendering, value: object) -> str:
        whole = text(value, state)
        state.spend(len(whole))
        return state.check_size(function(whole))

    return run


def _two_texts(function: Callable[[str, str], str]) -> Filter:
    def run(state: Rendering, value: object, argument: object) -> str:
        whole = text(value, state)
        state.spend(len(whole))
        return state.check_size(function(whole, text(argument, state)))

    return run


def _three_texts(function: Callable[[str, str, str], str]) -> Filter:
    """The third is empty if it is left out."""

    def run(state: Rendering, value: object, argument: object, more: object = "") -> str:
        whole = text(value, state)
        state.spend(len(whole))
        return state.check_size(function(whole, text(argument, state), text(more, state)))

    return run


def _truncate(state: Rendering, value: object, size: object = 50, end: object = "...") -> str:
    whole = text(value, state)
    return state.check_size(_truncate_text(whole, integer(size), text(end, state)))


def _truncatewords(state: Rendering, value: object, count: object = 15, end: object = "...") -> str:
    whole = text(value, state)
    state.spend(len(whole))
    count = min(integer(count), TEXT_CHARS_MAX)
    return state.check_size(_truncated_words(whole, count, text(end, state)))


def number(value: object) -> Number:
    """A number, or the number that a text spells; 0 for anything else, as in Liquid."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return check_integer(value)
    if isinstance(value, float):
        return value
    if isinstance(value, str) and len(value) <= NUMBER_CHARS_MAX:
        for kind in (int, float):
            try:
                found = kind(value)
            except ValueError:
                continue
            return check_integer(found) if isinstance(found, int) else found
    return 0


def integer(value: object) -> int:
    """A whole number. Errors: `TemplateFailed` for anything that is none and spells none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return check_integer(value)
    if isinstance(value, float) and value.is_integer():
        return check_integer(int(value))
    if isinstance(value, str) and len(value) <= NUMBER_CHARS_MAX:
        try:
            return check_integer(int(value))
        except ValueError:
            pass
    raise TemplateFailed("not a whole number", got=type(value).__name__[:80])


def decimal(value: Number) -> Decimal:
    """Through its shortest spelling, so that 0.1 plus 0.2 prints as 0.3."""
    return Decimal(str(value))


def _numbers(whole: Callable[[int, int], int], other: Callable[[Decimal, Decimal], Decimal]) -> Filter:
    """A filter from a function over integers, and one for when either number has decimals."""

    def run(state: Rendering, value: object, argument: object) -> Number:
        left, right = number(value), number(argument)
        if isinstance(left, int) and isinstance(right, int):
            return check_integer(whole(left, right))
        return float(other(decimal(left), decimal(right)))

    return run


def _round(state: Rendering, value: object, digits: object = 0) -> Number:
    found = number(value)
    places = max(-30, min(30, integer(digits)))
    return check_integer(round(found)) if places == 0 else round(found, places)


def _one_number(function: Callable[[Number], Number]) -> Filter:
    def run(state: Rendering, value: object) -> Number:
        return function(number(value))

    return run


def _at_least(state: Rendering, value: object, low: object) -> Number:
    return max(number(value), number(low))


def _at_most(state: Rendering, value: object, high: object) -> Number:
    return min(number(value), number(high))


TEXT_FILTERS: dict[str, tuple[Filter, int, int]] = {
    "append": (_two_texts(lambda whole, more: join_texts([whole, more], "")), 1, 1),
    "prepend": (_two_texts(lambda whole, more: join_texts([more, whole], "")), 1, 1),
    "capitalize": (_one_text(str.capitalize), 0, 0),
    "downcase": (_one_text(str.lower), 0, 0),
    "upcase": (_one_text(str.upper), 0, 0),
    "strip": (_one_text(str.strip), 0, 0),
    "lstrip": (_one_text(str.lstrip), 0, 0),
    "rstrip": (_one_text(str.rstrip), 0, 0),
    "squish": (_one_text(lambda whole: " ".join(whole.split())), 0, 0),
    "strip_html": (_one_text(_stripped_html), 0, 0),
    "strip_newlines": (_one_text(lambda whole: _newlines(whole, "")), 0, 0),
    "newline_to_br": (_one_text(lambda whole: _newlines(whole, "<br />\n")), 0, 0),
    "escape": (_one_text(html.escape), 0, 0),
    "escape_once": (_one_text(lambda whole: html.escape(html.unescape(whole))), 0, 0),
    "url_encode": (_one_text(lambda whole: quote_plus(whole, errors="replace")), 0, 0),
    "url_decode": (_one_text(unquote_plus), 0, 0),
    "replace": (_three_texts(_replace), 1, 2),
    "replace_first": (_three_texts(lambda whole, old, new: whole.replace(old, new, 1)), 1, 2),
    "replace_last": (_three_texts(_replaced_last), 1, 2),
    "remove": (_two_texts(lambda whole, old: whole.replace(old, "")), 1, 1),
    "remove_first": (_two_texts(lambda whole, old: whole.replace(old, "", 1)), 1, 1),
    "remove_last": (_two_texts(lambda whole, old: _replaced_last(whole, old, "")), 1, 1),
    "truncate": (_truncate, 0, 2),
    "truncatewords": (_truncatewords, 0, 2),
    "plus": (_numbers(lambda a, b: a + b, lambda a, b: a + b), 1, 1),
    "minus": (_numbers(lambda a, b: a - b, lambda a, b: a - b), 1, 1),
    "times": (_numbers(lambda a, b: a * b, lambda a, b: a * b), 1, 1),
    "divided_by": (_numbers(lambda a, b: a // b, lambda a, b: a / b), 1, 1),
    "modulo": (_numbers(lambda a, b: a % b, lambda a, b: a % b), 1, 1),
    "at_least": (_at_least, 1, 1),
    "at_most": (_at_most, 1, 1),
    "abs": (_one_number(abs), 0, 0),
    "ceil": (_one_number(lambda value: check_integer(math.ceil(value))), 0, 0),
    "floor": (_one_number(lambda value: check_integer(math.floor(value))), 0, 0),
    "round": (_round, 0, 1),
}
"""By name: the function of state, value and arguments; how many arguments at least and at most."""


DATE_CHARS_MAX = 64
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def date(state: Rendering, value: object, form: object) -> str:
    """A date in a form such as `%Y-%m-%d`. The value is ISO 8601 text, seconds since 1970, or a `now`.

    `now` and `today` are what the scope calls `now`. A text that is no date is returned unchanged.
    """
    if value in ("now", "today"):
        value = state.scope.get("now", Undefined(path="now"))
        if isinstance(value, Undefined):
            raise TemplateUndefined("`now` has no value", hint="The scope gives no time.")
    if value is None or isinstance(value, Undefined):
        return text(value, state)
    moment = _moment(value)
    return text(value, state) if moment is None else _format_moment(moment, text(form, state), state)


def _moment(value: object) -> datetime | None:
    if isinstance(value, str):
        if len(value) > DATE_CHARS_MAX:
            return None
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value, tz=UTC)
        except (OverflowError, ValueError, OSError):
            raise TemplateFailed("not a time", expected="seconds since 1970") from None
    raise TemplateFailed("not a time", got=type(value).__name__[:80])


def _zone(moment: datetime, colon: str = "") -> str:
    offset = moment.utcoffset()
    seconds = 0 if offset is None else int(offset.total_seconds())
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02}{colon}{minutes:02}"


def _twelve(moment: datetime) -> int:
    return moment.hour % 12 or 12


_DIRECTIVES: dict[str, Callable[[datetime], str]] = {
    "Y": lambda m: f"{m.year:04}",
    "y": lambda m: f"{m.year % 100:02}",
    "C": lambda m: f"{m.year // 100:02}",
    "m": lambda m: f"{m.month:02}",
    "-m": lambda m: str(m.month),
    "B": lambda m: _MONTHS[m.month - 1],
    "b": lambda m: _MONTHS[m.month - 1][:3],
    "h": lambda m: _MONTHS[m.month - 1][:3],
    "d": lambda m: f"{m.day:02}",
    "-d": lambda m: str(m.day),
    "e": lambda m: f"{m.day:2}",
    "j": lambda m: f"{m.timetuple().tm_yday:03}",
    "A": lambda m: _DAYS[m.weekday()],
    "a": lambda m: _DAYS[m.weekday()][:3],
    "u": lambda m: str(m.isoweekday()),
    "w": lambda m: str(m.isoweekday() % 7),
    "V": lambda m: f"{m.isocalendar().week:02}",
    "G": lambda m: f"{m.isocalendar().year:04}",
    "H": lambda m: f"{m.hour:02}",
    "-H": lambda m: str(m.hour),
    "I": lambda m: f"{_twelve(m):02}",
    "-I": lambda m: str(_twelve(m)),
    "l": lambda m: f"{_twelve(m):2}",
    "M": lambda m: f"{m.minute:02}",
    "-M": lambda m: str(m.minute),
    "S": lambda m: f"{m.second:02}",
    "L": lambda m: f"{m.microsecond // 1000:03}",
    "p": lambda m: "AM" if m.hour < 12 else "PM",
    "P": lambda m: "am" if m.hour < 12 else "pm",
    "z": lambda m: _zone(m),
    ":z": lambda m: _zone(m, ":"),
    "s": lambda m: str(int((m if m.tzinfo else m.replace(tzinfo=UTC)).timestamp())),
    "F": lambda m: f"{m.year:04}-{m.month:02}-{m.day:02}",
    "D": lambda m: f"{m.month:02}/{m.day:02}/{m.year % 100:02}",
    "T": lambda m: f"{m.hour:02}:{m.minute:02}:{m.second:02}",
    "X": lambda m: f"{m.hour:02}:{m.minute:02}:{m.second:02}",
    "R": lambda m: f"{m.hour:02}:{m.minute:02}",
    "n": lambda m: "\n",
    "t": lambda m: "\t",
    "%": lambda m: "%",
}


def _format_moment(moment: datetime, form: str, state: Rendering) -> str:
    """The form with its directives filled in; one that is unknown stays as it is."""
    parts: list[str] = []
    at = 0
    while (found := form.find("%", at)) >= 0:
        parts.append(form[at:found])
        size = 2 if form[found + 1 : found + 2] in ("-", ":") else 1
        name = form[found + 1 : found + 1 + size]
        show = _DIRECTIVES.get(name)
        parts.append(f"%{name}" if show is None else show(moment))
        at = found + 1 + size
    state.spend(len(form) + 8 * len(parts))
    return state.check_size(join_texts([*parts, form[at:]], ""))


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


def _order(each: object, state: Rendering, *, natural: bool) -> tuple[int, int | float | str]:
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
