"""A reading in the making: the chunks of a clause, and which of them are accounted for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from artelier.models.offline.chunks import Chunk
from artelier.models.offline.columns import CORE, FULL, STRONG
from artelier.models.offline.reading import (
    Change,
    Condition,
    Group,
    Having,
    Measure,
    Rank,
    Reading,
    Scope,
    Unreadable,
)
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.values import Values

COPULAS = frozenset(
    "is are was were be been being of the a an has have had that's with at in for than its their"
    " value values equal on as does do did it".split()
)


NAMES_SHOWN = 8


def some(names: Iterable[str]) -> str:
    """The first names of a list, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - NAMES_SHOWN} more" if len(found) > NAMES_SHOWN else ""
    return ", ".join(found[:NAMES_SHOWN]) + more


class Draft:
    """Binders read chunks from here, take them, and leave conditions, groups and measures."""

    def __init__(
        self,
        chunks: list[Chunk],
        scope: Scope,
        context: Reading | None,
        *,
        values: Values,
        joined: bool = False,
    ) -> None:
        self.chunks = chunks
        self.scope = scope
        self.context = context
        self.cells = values.of
        """The values of a column with a folded form."""
        self.joined = joined
        """Whether the clause continues the sentence of the clause before."""
        self.used = [False] * len(chunks)
        self.levels = [0] * len(chunks)
        self.conditions: list[Condition] = []
        self.groups: list[Group] = []
        self.measures: list[Measure] = []
        self.having: list[Having] = []
        self.rank: Rank | None = None
        self.change: Change | None = None
        self.missing: tuple[Column, ...] | None = None
        self.rival: Measure | None = None
        self.bonus = 0
        """Added to the score of the reading, for what no single chunk shows."""
        self.time_hint: Column | None = None
        """The date column that a participle far from the period names: `on which day ... opened`."""
        self.per_time = ""
        """The word of `average ... per month`, which may mean two things for amounts."""
        self.reasons: list[str] = []
        """Rules that were applied and that the report states."""
        self.lists: Group | None = None
        """What a bare `which X` asks to be listed."""
        self.mentioned: set[str] = set()
        """Names of tables that a taken chunk stands for."""

    def __len__(self) -> int:
        return len(self.chunks)

    def take(self, *places: int, level: int = 0) -> None:
        for place in places:
            self.used[place] = True
            self.levels[place] = max(self.levels[place], level)

    def take_column(self, place: int, column: Column) -> None:
        noun = self.chunks[place].noun
        level = next((level for level, one in noun.columns if one == column), 0) if noun else 0
        values = noun.values_level if noun and column in noun.values else 0
        self.take(place, level=max(level, values))
        self.mentioned.add(column.table)

    def take_table(self, place: int, table: Table) -> None:
        noun = self.chunks[place].noun
        level = next((level for level, one in noun.tables if one == table), 0) if noun else 0
        self.take(place, level=level)
        self.mentioned.add(table.name)

    def ops(self, *names: str) -> Iterator[int]:
        """Places of unread operators of these names."""
        for place, chunk in enumerate(self.chunks):
            if chunk.kind == "op" and chunk.op in names and not self.used[place]:
                yield place

    def has(self, *names: str) -> bool:
        """Return True if an unread operator of these names is there."""
        return next(self.ops(*names), None) is not None

    def has_noun(self) -> bool:
        return next(self.nouns(), None) is not None

    def nouns(self, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Places of unread nouns."""
        for place in range(max(start, 0), len(self) if end is None else end):
            if not self.used[place] and self.chunks[place].kind == "noun":
                yield place

    def is_op(self, place: int | None, *names: str) -> bool:
        if place is None or not 0 <= place < len(self):
            return False
        return self.chunks[place].kind == "op" and self.chunks[place].op in names

    def after(self, place: int, *, over: Iterable[str] | None = None) -> int | None:
        """The next chunk that is no filler; with `over`, only these fillers are passed."""
        return self._step(place, 1, over)

    def before(self, place: int, *, over: Iterable[str] | None = None) -> int | None:
        return self._step(place, -1, over)

    def _step(self, place: int, by: int, over: Iterable[str] | None) -> int | None:
        words = None if over is None else set(over)
        at = place + by
        while 0 <= at < len(self):
            chunk = self.chunks[at]
            passed = chunk.kind == "filler" and (words is None or chunk.text in words)
            if not passed:
                return at
            at += by
        return None

    def between(self, first: int, second: int) -> list[Chunk]:
        return self.chunks[first + 1 : second]

    def fillers_before(self, place: int) -> set[str]:
        """The fillers that stand directly before a chunk."""
        found: set[str] = set()
        at = place - 1
        while at >= 0 and self.chunks[at].kind == "filler":
            found.add(self.chunks[at].text)
            at -= 1
        return found

    def column_at(self, place: int | None, columns: Iterable[Column], *, least: int = 1) -> Column | None:
        """The one column among these that the chunk names.

        Errors: `Unreadable` if several columns are named equally well.
        """
        if place is None or not 0 <= place < len(self) or self.used[place]:
            return None
        noun = self.chunks[place].noun
        if noun is None or (self.chunks[place].kind not in ("noun", "op", "period")):
            return None
        found = self.one_of_joined(noun.best(columns, least=least))
        if len(found) > 1:
            raise self.ambiguous(self.chunks[place].text, found)
        return found[0] if found else None

    def one_of_joined(self, columns: list[Column]) -> list[Column]:
        """Both sides of the join are one column; the left one stands for it."""
        join = self.scope.join
        if join is None or join.left not in columns or join.right not in columns:
            return columns
        return [column for column in columns if column != join.right]

    def numeric(self, place: int | None, *, least: int = 1) -> Column | None:
        """The measure that the chunk names, or a number that names things if it is called exactly so.

        The word for a table is never its key: `orders` is not `order_id`.
        """
        columns = [column for column in self.scope.columns() if column.type == "number"]
        measures = [column for column in columns if column.is_measure]
        found = self.column_at(place, measures, least=max(least, STRONG))
        found = found or self.column_at(place, measures, least=least)
        noun = self.chunks[place].noun if place is not None and 0 <= place < len(self) else None
        if found is not None or noun is None or noun.table is not None:
            return found
        names = [column for column in columns if not column.is_id]
        found = self.column_at(place, columns, least=FULL)
        return found or self.column_at(place, names, least=max(least, CORE))

    def ambiguous(self, text: str, columns: Iterable[Column]) -> Unreadable:
        names = some(f"`{column.table}.{column.name}`" for column in columns)
        return Unreadable(f'"{text}" could mean {names}; name the column exactly', weight=self.weight() + 5)

    def weight(self) -> int:
        """Return how much was understood so far."""
        return sum(self.levels) + sum(self.used)
