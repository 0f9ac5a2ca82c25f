"""Values of a query as JSON data."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any, cast

from artelier.tools.worker.failure import Failure

CELL_CHARS_MAX = 100_000


def plain_row(row: tuple[Any, ...]) -> tuple[list[Any], int]:
    """The row as JSON data and the bytes it takes. Errors: `Failure` for a huge cell."""
    plain = [plain_cell(value) for value in row]
    size = len(json.dumps(plain, ensure_ascii=False).encode(errors="replace"))
    return plain, size


def plain_cell(value: Any) -> Any:
    """Integers within 64 bits, finite floats, text, booleans and null stay. A decimal becomes a float if
    that is exact, else text; everything else its usual text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return _text(value.hex())
    if isinstance(value, list | tuple):
        return [plain_cell(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {str(plain_cell(key)): plain_cell(item) for key, item in items}
    return _text(str(value))


def describe_type(kind: object) -> str:
    return str(kind)[:200]


def _text(value: str) -> str:
    if len(value) > CELL_CHARS_MAX:
        raise Failure(
            f"a value has {len(value)} characters, more than {CELL_CHARS_MAX}",
            hint="Select a part of it with left() or substr().",
        )
    return value


def _decimal(value: Decimal) -> float | str:
    if not value.is_finite():
        return str(value)
    nearest = float(value)
    return nearest if math.isfinite(nearest) and Decimal(repr(nearest)) == value else str(value)
