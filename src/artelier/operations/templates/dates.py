"""The filter `date`. It reads no clock, no time zone and no language of the machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from artelier.operations.templates.renderer import Rendering, TemplateFailed, TemplateUndefined
from artelier.operations.templates.texts import join_texts
from artelier.operations.templates.values import Undefined, text

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


def date(state: Rendering, value: Any, form: Any) -> str:
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


def _moment(value: Any) -> datetime | None:
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
