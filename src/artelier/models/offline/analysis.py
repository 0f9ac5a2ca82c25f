"""A request to analyse data in general, as the plain questions that a table answers.

The questions are made of the names in the tables' description; each is read like any other, and those that
cannot be answered with certainty are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from artelier.models.offline.question import Question
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.words import tokens

MEASURES_MAX = 2
GROUPS_MAX = 2

_ASKED = re.compile(
    r"^\W*(?:please\s+|can you\s+|could you\s+|now\s+)*"
    r"(?:analy[sz]e|examine|investigate|explore|study|evaluate|assess|"
    r"(?:do|make|write|create|prepare|give me|give us)\s+(?:a|an|the)\s+(?:\w+\s+)?analysis\s+of)\b",
    re.IGNORECASE,
)
_QUARTER = re.compile(r"\bQ([1-4])(?:\s+(?:of\s+)?((?:19|20)\d\d))?\b", re.IGNORECASE)
_YEAR = re.compile(r"\b((?:19|20)\d\d)\b")
_SPECIFIC = re.compile(
    r"\b(?:by|per|top|each|which|how many|how much|average|compare[ds]?|versus|vs)\b", re.IGNORECASE
)


def is_wanted(raw: str) -> bool:
    """Return True if a prompt asks for an analysis and does not say of what in particular."""
    first = raw[:600]
    return bool(_ASKED.match(first)) and not _SPECIFIC.search(first)


def questions(question: Question, tables: Sequence[Table]) -> list[str]:
    """Plain questions on the table that a prompt means; none if no table or no measure is certain."""
    table = _meant(question, tables)
    if table is None:
        return []
    measures = _measures(table)
    period, before = _periods(question.text)
    during = f" in {period}" if period else ""
    found: list[str] = []
    for measure in measures:
        found.append(f"total `{measure.name}`{during}")
    if not measures:
        return [f"How many `{table.name}` are there{during}?"]
    lead = measures[0]
    found += [f"total `{lead.name}` by `{column.name}`{during}" for column in _groups(table)[:GROUPS_MAX]]
    if period and before:
        found.append(f"How did total `{lead.name}` change from {before} to {period}?")
    return found


def _meant(question: Question, tables: Sequence[Table]) -> Table | None:
    """The table that the words name, or the only one with a measure."""
    said = {word.stem for word in tokens(question.text) if word.kind == "word"}
    named = [table for table in tables if table.stems and set(table.stems) <= said]
    if len(named) != 1:
        named = [table for table in tables if _measures(table) and table.dates] if not named else named
    return named[0] if len(named) == 1 else None


def _measures(table: Table) -> list[Column]:
    """Return what may be added up, money first."""
    additive = [column for column in table.measures if column.nature == "additive"]
    return sorted(additive, key=lambda column: not column.is_money)[:MEASURES_MAX]


def _groups(table: Table) -> list[Column]:
    return [column for column in table.columns if column.type == "text" and not column.is_id]


def _periods(text: str) -> tuple[str, str]:
    """The period that a text names and the one before it, or nothing."""
    quarters = list(dict.fromkeys(match.groups() for match in _QUARTER.finditer(text)))
    if len(quarters) == 1:
        number, year = int(quarters[0][0]), quarters[0][1]
        of = f" {year}" if year else ""
        return f"Q{number}{of}", f"Q{number - 1}{of}" if number > 1 else ""
    years = list(dict.fromkeys(_YEAR.findall(text)))
    if len(years) == 1 and not quarters:
        return years[0], str(int(years[0]) - 1)
    return "", ""
