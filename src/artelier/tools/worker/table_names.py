"""Names of tables: from file names to SQL identifiers that need no quotes."""

from __future__ import annotations

from collections.abc import Iterable

NAME_CHARS_MAX = 60

# Words that DuckDB 2.0 does not take as the name of a table without quotes; a test compares.
RESERVED: frozenset[str] = frozenset(
    "all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by "
    "case cast check collate collation column concurrently constraint create cross default "
    "deferrable desc describe distinct do else end except false fetch for foreign freeze from full "
    "glob group having ilike in initially inner intersect into is isnull join lambda lateral "
    "leading left like limit natural not notnull null offset on only or order outer overlaps pivot "
    "pivot_longer pivot_wider placing positional primary qualify references returning right select "
    "semi show similar some summarize symmetric table tablesample then to trailing true union "
    "unique unpack unpivot using variadic verbose when where window with".split()
)


def identifier(text: str) -> str:
    """Lower case, everything but letters and digits as `_`, never empty, never reserved."""
    name = "".join(char if char.isalnum() else "_" for char in text.lower())[:NAME_CHARS_MAX]
    if not name.strip("_"):
        name = "table_"
    if name[0].isdigit():
        name = f"t_{name}"
    return f"{name}_" if name in RESERVED else name


def unused(name: str, taken: Iterable[str]) -> str:
    """The name, or with the first free suffix `_2`, `_3`, ..."""
    used = set(taken)
    number, chosen = 1, name
    while chosen in used:
        number += 1
        chosen = f"{name}_{number}"
    return chosen


def quoted(name: str) -> str:
    """A name as an SQL identifier, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def columns_from(header: Iterable[str]) -> list[str]:
    """Names for the columns of a header: trimmed, never empty, never twice (case ignored)."""
    names: list[str] = []
    lowered: set[str] = set()
    for number, text in enumerate(header, start=1):
        name = text.strip() or f"column_{number}"
        chosen = name
        suffix = 1
        while chosen.lower() in lowered:
            suffix += 1
            chosen = f"{name}_{suffix}"
        lowered.add(chosen.lower())
        names.append(chosen)
    return names
