"""The result of `query_sql`, with its numbers as exact as the tool sent them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from artelier.errors import OfflineCannot

DIGITS_MAX = 200
"""Of a number that came as text; no type of a table has so many, and reading more takes square time."""


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `query_sql`."""

    columns: list[str]
    rows: list[list[Any]]
    types: list[str] = []
    row_count: int | None = None
    truncated: bool = False


def rows_from(answer: Any) -> Rows:
    """Errors: `OfflineCannot` if the answer has another shape."""
    try:
        return _with_numbers(msgspec.convert(answer, Rows))
    except msgspec.ValidationError as error:
        raise OfflineCannot(
            f"the result of query_sql has another shape than expected: {error}",
            expected='{"columns": [...], "rows": [[...]]}',
        ) from None


_EXACT = ("DECIMAL", "HUGEINT", "UHUGEINT", "UBIGINT", "BIGINT", "NUMERIC")


def _with_numbers(found: Rows) -> Rows:
    """Numbers that JSON could not hold exactly came as text; the type says so.

    Errors: `OfflineCannot` if a row has not one cell per column.
    """
    if any(len(row) != len(found.columns) for row in found.rows):
        raise OfflineCannot("the result of query_sql has rows of another length than its columns")
    exact = [at for at, kind in enumerate(found.types) if kind.upper().startswith(_EXACT)]
    if not any(isinstance(row[at], str) for row in found.rows for at in exact if at < len(row)):
        return found
    rows = [list(row) for row in found.rows]
    for row in rows:
        for at in exact:
            if isinstance(row[at], str):
                row[at] = _decimal(row[at])
    return msgspec.structs.replace(found, rows=rows)


def _decimal(text: str) -> Decimal | int | str:
    if len(text) > DIGITS_MAX:
        return text
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return int(number) if "." not in text else number
