"""The output of commands: data on stdout, everything else on stderr, colours only on a terminal.

Nothing reaches a terminal unescaped: every text passes `safe` here, whoever wrote it. In text for people long
things are cut, and numbers get units.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO, cast

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

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


Row = Sequence[object]


class Screen:
    """The two streams of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._consoles: dict[int, Console] = {}

    @property
    def asks(self) -> bool:
        """True if a person sits there who can be asked."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    # Data

    def json(self, value: object, *, indent: int = 2) -> None:
        """One JSON value on stdout; with `indent` -1 on one line."""
        print(json_text(value, indent=indent), flush=True)

    def text(self, text: str) -> None:
        """Text as data: exact in a file or pipe, harmless on a terminal."""
        print(safe(text) if sys.stdout.isatty() else text, flush=True)

    def line(self, text: str = "", style: str = "") -> None:
        """One line on stdout."""
        self._print(sys.stdout, text, style)

    def facts(self, facts: Sequence[tuple[str, object]]) -> None:
        """Names and values, one pair per line; pairs without a value are left out."""
        shown = [(name, str(value)) for name, value in facts if value not in (None, "", [], {})]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            first, *rest = safe(value).split("\n")
            self.line(f"{name:<{width}}  {first}")
            for more in rest:
                self.line(f"{'':<{width}}  {more}")

    def table(self, columns: Sequence[str], rows: Sequence[Row], *, empty: str) -> None:
        """Rows under headings. A heading that begins with `>` is of numbers, aligned to the right."""
        if not rows:
            self.note(empty)
            return
        cells = [[safe(str(cell)).replace("\n", " ") for cell in row] for row in rows]
        if sys.stdout.isatty():
            self._rich_table(columns, cells)
        else:
            self._plain_table(columns, cells)

    def _plain_table(self, columns: Sequence[str], rows: list[list[str]]) -> None:
        names = [name.removeprefix(">") for name in columns]
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        for row in (names, *rows):
            aligned = [
                f"{cell:>{width}}" if name.startswith(">") else f"{cell:<{width}}"
                for name, cell, width in zip(columns, row, widths, strict=True)
            ]
            print("  ".join(aligned).rstrip())

    def _rich_table(self, columns: Sequence[str], rows: list[list[str]]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for index, name in enumerate(columns):
            right = name.startswith(">")
            table.add_column(
                name.removeprefix(">"),
                justify="right" if right else "left",
                overflow="fold",
                no_wrap=index == 0,  # the name of the row, to be copied in one piece
            )
        for row in rows:
            table.add_row(*map(Text, row))
        self._console(sys.stdout).print(table)

    # Diagnostics

    def note(self, text: str = "", style: str = "") -> None:
        """One line on stderr."""
        self._print(sys.stderr, text, style)

    @contextmanager
    def working(self, text: str) -> Generator[Callable[[str], None]]:
        """A spinner on stderr while something takes long; call what it gives with what is being done.

        Without a terminal each text is a line of its own.
        """
        if not sys.stderr.isatty():
            yield self.note
            return
        from rich.text import Text

        with self._console(sys.stderr).status(Text(safe(text))) as status:
            yield lambda text: status.update(Text(safe(text)))

    @contextmanager
    def counting(self, text: str, *, total: int) -> Generator[Callable[[str], None]]:
        """A progress bar on stderr: each call of what it gives is one of `total`, with a word on it.

        Without a terminal it says so about ten times on the way.
        """
        if not sys.stderr.isatty():
            yield self._tenths(total)
            return
        from rich import progress as bars

        columns = (
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.description}", markup=False),
        )
        with bars.Progress(*columns, console=self._console(sys.stderr), transient=True) as bar:
            task = bar.add_task(safe(text), total=total)
            yield lambda word: bar.update(task, advance=1, description=safe(word))

    def _tenths(self, total: int) -> Callable[[str], None]:
        seen = 0

        def count(word: str) -> None:
            nonlocal seen
            seen += 1
            if seen * 10 // total > (seen - 1) * 10 // total:
                self.note(word)

        return count

    def _print(self, stream: TextIO, text: str, style: str) -> None:
        if not stream.isatty():
            print(safe(text), file=stream, flush=True)
            return
        from rich.text import Text

        console = self._console(stream)
        console.print(Text(safe(text), style=style), soft_wrap=True)

    def _console(self, stream: TextIO) -> Console:
        found = self._consoles.get(id(stream))
        if found is None:
            from rich.console import Console

            found = self._consoles[id(stream)] = Console(
                file=stream, highlight=False, markup=False, emoji=False
            )
        return found
