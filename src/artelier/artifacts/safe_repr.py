"""Values of strangers in error messages: short, and never an error of their own."""

from __future__ import annotations

from reprlib import Repr

from artelier.errors import Erased, Locked

_repr = Repr()
_repr.maxstring = _repr.maxother = 120
_repr.maxlevel = 3


def shown(value: object) -> str:
    """A value as Python would print it, cut off. Depth, length and huge integers do no harm."""
    try:
        return _repr.repr(value)
    except ValueError:  # Python prints no integer above 4300 digits
        return type(value).__name__


ERASED, LOCKED = Erased.mark, Locked.mark
"""Texts that stand where content was, or cannot be read without the vault key."""
