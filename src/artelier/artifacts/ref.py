"""References to artifacts: `id`, `id@7`, `id#part`, and from a world `main:<ref>`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from reprlib import Repr
from typing import NamedTuple

from artelier.errors import Erased, InvalidRequest, Locked
from artelier.ids import MAIN_SPACE, check_artifact_id

# --------------------------------------------------------------------------- safe repr
# Values of strangers in error messages: short, and never an error of their own.


_repr = Repr()
_repr.maxstring = _repr.maxother = 120
_repr.maxlevel = 3


def safe_repr(value: object) -> str:
    """A value as Python would print it, cut off. Depth, length and huge integers do no harm."""
    try:
        return _repr.repr(value)
    except ValueError:  # Python prints no integer above 4300 digits
        return type(value).__name__


ERASED, LOCKED = Erased.mark, Locked.mark
"""Texts that stand where content was, or cannot be read without the vault key."""


# --------------------------------------------------------------------------- ref


MAIN_PREFIX = "main:"

RESERVED = (MAIN_PREFIX, "b:")
"""What no id begins with: in an event, `b:` and 43 characters would be a reference to content."""

ACTORS = "artifact:"
"""What the principals of executable artifacts begin with, and no id: an artifact of such an id, as the
principal that some artifacts are, would be another artifact."""

# 15 digits: every version fits in 64 bits, and no text can be a number without end.
_VERSION = re.compile(r"[1-9][0-9]{0,14}")
_PART = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
REF_CHARS_MAX = 5 + 128 + 1 + 15 + 1 + 128
"""Of `main:`, an id, `@` and a version, `#` and a part."""


class Ref(NamedTuple):
    """A parsed ref. `version` None is the newest, `space` None the space of whoever reads it."""

    id: str
    version: int | None = None
    part: str | None = None
    """A named part of a library, or an entry of a memory store."""
    space: str | None = None

    @classmethod
    def parse(cls, text: str, *, main_allowed: bool = False) -> Ref:
        """Read a ref. A version stands before a part: `library@3#ideate`.

        Errors: `InvalidRequest`, also for `main:` where it is not allowed.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from models
            raise InvalidRequest("not a ref", expected="text", got=type(text).__name__)
        rest, hash_mark, part = text.partition("#")
        rest, at_mark, version = rest.partition("@")
        space: str | None = None
        if rest.startswith(MAIN_PREFIX):
            if not main_allowed:
                raise InvalidRequest(
                    "this ref crosses a space",
                    expected="an id of this space; `main:` leads out of a world only",
                    got=safe_repr(text),
                )
            rest, space = rest.removeprefix(MAIN_PREFIX), MAIN_SPACE
        if at_mark and not _VERSION.fullmatch(version):
            raise InvalidRequest(
                "not a version of an artifact", expected="id@<number from 1>", got=safe_repr(text)
            )
        if hash_mark and not _PART.fullmatch(part):
            raise InvalidRequest(
                "not a part of an artifact",
                expected="id#<1-128 characters of A-Z a-z 0-9 . _ : / ->",
                got=safe_repr(text),
            )
        return cls(check_new_id(rest), int(version) if at_mark else None, part if hash_mark else None, space)

    def __str__(self) -> str:
        text = f"{MAIN_PREFIX}{self.id}" if self.space == MAIN_SPACE else self.id
        text = text if self.version is None else f"{text}@{self.version}"
        return text if self.part is None else f"{text}#{self.part}"


def check_new_id(value: object) -> str:
    """An id that an artifact may have. Errors: `InvalidRequest`."""
    id_ = check_artifact_id(value)
    if id_.startswith((*RESERVED, ACTORS)):
        raise InvalidRequest(
            "ids that begin with `main:`, `b:` or `artifact:` are reserved",
            expected="another id",
            got=safe_repr(id_),
        )
    return id_


# --------------------------------------------------------------------------- substitution
# Refs that stand for others while a fork is driven: every read of an artifact goes by them.


NONE: Mapping[str, str] = {}

substitutions: ContextVar[Mapping[str, str]] = ContextVar("substitutions", default=NONE)
"""Old refs to new ones, for what the current task reads; a run sets it as long as it is driven."""


def substitute(ref: str, given: Mapping[str, str] | None = None) -> str:
    """Return the ref to read in place of another, or the ref itself.

    `id@3=...` also holds for a read of `id` without a version, which the origin would have read as that one;
    `id=...` for each version. A part stays.
    """
    known = substitutions.get() if given is None else given
    if not known:
        return ref
    whole, mark, part = ref.partition("#")
    id_, _, version = whole.partition("@")
    found = known.get(whole) or known.get(id_)
    if found is None and not version:
        found = next((new for old, new in known.items() if old.partition("@")[0] == id_), None)
    if found is None:
        return ref
    return f"{found}#{part}" if mark and "#" not in found else found
