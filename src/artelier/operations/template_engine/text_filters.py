"""Filters over texts and numbers. Each result is bounded before it is made where it could grow."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from artelier.operations.template_engine.renderer import (
    TEXT_CHARS_MAX,
    Rendering,
    TemplateFailed,
    TemplateUndefined,
    too_long,
)
from artelier.operations.template_engine.values import Undefined, check_integer, text

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
