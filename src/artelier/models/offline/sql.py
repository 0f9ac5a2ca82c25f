"""Quoting, the only door by which names and values reach SQL text."""

from __future__ import annotations

from decimal import Decimal


def identifier(name: str) -> str:
    """A name between double quotes, inner quotes doubled; NUL can stand in no name and is dropped."""
    return '"' + name.replace("\x00", "").replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text between single quotes, inner quotes doubled."""
    return "'" + text.replace("\x00", "").replace("'", "''") + "'"


def number(value: Decimal) -> str:
    """A plain decimal number; integers without a point."""
    if value == value.to_integral_value():
        return str(int(value))
    return format(value, "f")
