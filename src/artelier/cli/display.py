"""Text for people: what a terminal would obey is made visible, long things are cut, numbers get units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec

# C0 and C1 controls, but for tab and newline; and the marks that change the direction of a line.
_HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile(r"\s+")


def safe(text: str) -> str:
    """Text that a terminal shows and does not obey: control characters become `\\x1b` and the like."""
    return _HOSTILE.sub(_escape_match, text.replace("\r\n", "\n"))


def _escape_match(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def line(text: str, *, chars_max: int = 160) -> str:
    """Text on one safe line, cut with an ellipsis."""
    flat = safe(_BREAKS.sub(" ", text[: chars_max * 4]).strip())
    return flat if len(flat) <= chars_max else flat[: chars_max - 1] + "…"


def compact(value: Any, *, chars_max: int = 160) -> str:
    """A JSON value on one safe line."""
    return line(msgspec.json.encode(value).decode(), chars_max=chars_max)


def arguments(value: object, *, chars_max: int = 160) -> str:
    """Arguments of a call as `name=value, ...`: short strings first, since they say most, other values last.

    Strings stand as they read, not as JSON escapes them.
    """
    if not isinstance(value, dict):
        return compact(value, chars_max=chars_max)
    pairs = sorted(cast("dict[str, Any]", value).items(), key=lambda pair: _weight(pair[1]))
    shown = ", ".join(f"{name}={_format_value(item)}" for name, item in pairs)
    return line(shown, chars_max=chars_max)


def _weight(value: object) -> tuple[bool, int]:
    is_text = isinstance(value, str)
    return (not is_text, len(value) if is_text else 0)


def _format_value(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else msgspec.json.encode(value).decode()


def json_text(value: object, *, indent: int = 2) -> str:
    """JSON that no terminal obeys: what `safe` would change is written as an escape."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    return _HOSTILE.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def value_text(value: Any) -> str | None:
    """A JSON value for people: text as it is, nothing for null."""
    return value if value is None or isinstance(value, str) else json_text(value)


def result_text(value: object) -> str | None:
    """The result of a run for people: of the built-in agent its text, else the value."""
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if set(fields) == {"text", "output", "artifact"}:
        return str(fields["text"])
    return value_text(value)


def size(size_bytes: int) -> str:
    """Bytes with a unit: `812 B`, `1.2 kB`."""
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def duration(us: int) -> str:
    """Microseconds with a unit: `12 ms`, `4.1 s`, `3 min 10 s`."""
    if us < 1_000_000:
        return f"{us // 1000} ms"
    seconds = us / 1_000_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def moment(at_us: int | None) -> str:
    """A time in the zone of whoever reads it; empty for None."""
    if at_us is None:
        return ""
    return datetime.fromtimestamp(at_us / 1_000_000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def minute(at_us: int) -> str:
    """A time for a table: its seconds are left out."""
    return moment(at_us).rpartition(":")[0]


def speeds(rates: Mapping[str, Mapping[str, int | None]]) -> str:
    """Rates a minute by name, such as `openai: 60 requests and 90000 tokens`."""
    return ", ".join(
        f"{name}: " + " and ".join(f"{most} {unit}" for unit, most in rate.items() if most)
        for name, rate in rates.items()
    )


def count(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number(value: object) -> str:
    """A number as sentences have it, `10,000`; anything else as it is."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
