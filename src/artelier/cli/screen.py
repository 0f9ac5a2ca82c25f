"""The output of commands: data on stdout, everything else on stderr, colours only on a terminal.

Nothing reaches a terminal unescaped: every text passes `display.safe` here, whoever wrote it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from artelier.cli.display import json_text, safe

if TYPE_CHECKING:
    from rich.console import Console

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
