"""The port of detectors of personal data: text in, places of values out.

A detector says where a value stands and what it is in its one normal form. It changes nothing and keeps
nothing; placeholders are made from the normal form elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable


class DetectedValue(NamedTuple):
    """One value in a text."""

    start: int
    """Offset of its first character in the text that was searched."""

    end: int
    """Offset behind its last character; always greater than `start`."""

    kind: str
    """What it is, such as `EMAIL`: upper case, `[A-Z][A-Z0-9_]{1,23}`."""

    normal: str
    """The value in the one form that all its spellings share, such as the digits of a card. Never empty."""


@runtime_checkable
class Detector(Protocol):
    """Finds the values of one kind."""

    @property
    def kind(self) -> str:
        """The kind of everything it finds."""
        ...

    def find(self, text: str, /) -> Iterable[DetectedValue]:
        """Values of the text in any order; the same text always gives the same.

        Cost: it must be linear in the text, whatever the text is: it reads what strangers wrote.
        Errors: an `ArtelierError` if the text could not be searched whole. Then nobody may send it on.
        """
        ...


def __getattr__(name: str) -> object:
    if name == "Found":
        import warnings

        warnings.warn("artelier.ports.pii.Found is now DetectedValue", DeprecationWarning, stacklevel=2)
        return DetectedValue
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
