"""Several queries as one, so that one decision brings all of their answers; and its answer taken apart.

Each query keeps its columns, behind its number: `2: total amount`. What is stacked can be told from its text
alone, since the model keeps nothing between two requests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from artelier.models.offline.conversation import ROWS_MAX

STACKED_MAX = 12
"""More are asked in the iterations that follow."""

_MARK = re.compile(r"^-- query (\d{1,2})$", re.MULTILINE)
_OPEN = (
    'SELECT {number} AS "query", row_number() OVER () AS "row",'
    " COLUMNS('(?s)^(.*)$') AS '{number}: \\1'\nFROM (\n"
)
_CLOSE = "\nLIMIT {limit})"
_END = '\nORDER BY "query", "row"'


def stacked(statements: Sequence[str]) -> str:
    """One statement for several; for a single one itself."""
    if len(statements) == 1:
        return statements[0]
    close = _CLOSE.format(limit=ROWS_MAX + 1)
    parts = [
        f"-- query {number}\n{_OPEN.format(number=number)}SELECT * FROM (\n{statement}\n){close}"
        for number, statement in enumerate(statements, start=1)
    ]
    return "\nUNION ALL BY NAME\n".join(parts) + _END


def statements_in(sql: str) -> list[str]:
    """The statements that were stacked; the statement itself if it is none of ours."""
    marks = list(_MARK.finditer(sql))
    if len(marks) < 2:
        return [sql]
    found: list[str] = []
    close = f"\n){_CLOSE.format(limit=ROWS_MAX + 1)}"
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(sql)
        text = sql[mark.end() + 1 : end]
        begin = f"{_OPEN.format(number=at + 1)}SELECT * FROM (\n"
        cut = text.rfind(close)
        if not text.startswith(begin) or cut < 0:
            return [sql]
        found.append(text[len(begin) : cut])
    return found if stacked(found) == sql else [sql]


def answers_in(answer: Any, count: int) -> list[dict[str, Any]] | None:
    """The answers to the stacked statements in order; None if it is not whole."""
    fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    columns, rows, types = fields.get("columns"), fields.get("rows"), fields.get("types")
    if not isinstance(columns, list) or not isinstance(rows, list) or fields.get("truncated"):
        return None
    names = [str(one) for one in cast("list[Any]", columns)]
    kinds = cast("list[Any]", types) if isinstance(types, list) else []
    if names[:2] != ["query", "row"] or (kinds and len(kinds) != len(names)):
        return None
    found: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        lead = f"{number}: "
        places = [at for at, name in enumerate(names) if name.startswith(lead)]
        chosen = [
            [row[at] for at in places]
            for row in cast("list[list[Any]]", rows)
            if len(row) == len(names) and row[0] == number
        ]
        found.append(
            {
                "columns": [names[at].removeprefix(lead) for at in places],
                "types": [kinds[at] for at in places] if kinds else [],
                "rows": chosen[:ROWS_MAX],
                "row_count": min(len(chosen), ROWS_MAX),
                "truncated": len(chosen) > ROWS_MAX,
            }
        )
    return found
