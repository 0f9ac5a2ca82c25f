"""Values of erasing content and of collecting garbage: the event, what is to go, and what went.

The database's side is `log/sqlite/erasure.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from artelier.errors import InvalidRequest
from artelier.log.event import EventData, event
from artelier.log.keyring import is_subject_name


@event("content.erased")
class ContentErased(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Keys were dropped, and all content under them; or the vault forgot what placeholders stand for."""

    keys: tuple[int, ...] = ()
    whole: bool = False
    """Everything that the tenant had stored, under keys up to `upto_key`."""
    what: str = ""
    """Keyed hash of the subject or value that was named: it tells who knows the name that it was done."""
    blobs: int = 0
    values: int = 0
    upto_key: int | None = None
    """The newest key that this may have reached. None: recorded by an older version, which did not say."""


IMPORTED = "import"
"""In `keys`, the subject of keys that came with exports; nobody else may be called so."""


SUBJECT_CHARS_MAX = 200


def check_subject(subject: object) -> str:
    """A subject's id, such as `customer-17`. Errors: `InvalidRequest`."""
    if (
        not isinstance(subject, str)
        or not 0 < len(subject) <= SUBJECT_CHARS_MAX
        or not subject.isprintable()
        or subject.strip() != subject
        or subject == IMPORTED
        or is_subject_name(subject)
    ):
        raise InvalidRequest(
            "this is no subject",
            expected=f"1 to {SUBJECT_CHARS_MAX} characters in one line, other than {IMPORTED!r}",
            got=repr(subject)[:80],
        )
    return subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasing:
    """The data of one tenant to remove. `whole` removes everything that it has stored."""

    tenant: str
    keys: tuple[int, ...] = ()
    """Rows of `keys`; all content under them goes with them."""
    placeholders: tuple[str, ...] = ()
    """Rows of the vault that lose what they stand for."""
    whole: bool = False
    upto_key: int | None = None
    """Only keys up to this one, and what is under them. None: all."""
    expected: Wiped | None = None
    """What the event says that goes; `wipe` takes that or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiped:
    """The amounts that were removed."""

    keys: int = 0
    blobs: int = 0
    size_bytes: int = 0
    """Of the content before compression."""
    values: int = 0
    """Placeholders that stand for nothing any more."""


Driving = Callable[[str, Sequence[Any]], bool]
"""Tells whether a lease holds, from its holder and its `expires_us` and `expires_uptime_us`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The garbage that was found and, except in a dry run, removed."""

    blobs: int = 0
    size_bytes: int = 0
    """As they were stored."""
    resealed: int = 0
    """Contents that were stored before there was a vault key, and are sealed now."""
    rates: int = 0
    """Rows of windows that are long over."""
    busy: tuple[str, ...] = ()
    """Tenants whose garbage stays this time: runs of theirs are driven."""
    cleaned: bool = True
    """Whether no byte of what was taken away is left in the file."""
