"""References to artifacts: `id`, `id@7`, `id#part`, and from a world `main:<ref>`."""

from __future__ import annotations

import re
from typing import NamedTuple

from artelier.artifacts.safe_repr import shown
from artelier.errors import InvalidRequest
from artelier.ids import MAIN_SPACE, check_artifact_id

MAIN_PREFIX = "main:"

RESERVED = (MAIN_PREFIX, "b:")
"""What no id begins with: in an event, `b:` and 43 characters would be a reference to content."""

ACTORS = "artifact:"
"""What the principals of executable artifacts begin with, and no id: an artifact of such an id, as the
principal that some artifacts are, would be another artifact."""

# 15 digits: every version fits in 64 bits, and no text can be a number without end.
_VERSION = re.compile(r"[1-9][0-9]{0,14}")
_PART = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


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
                    got=shown(text),
                )
            rest, space = rest.removeprefix(MAIN_PREFIX), MAIN_SPACE
        if at_mark and not _VERSION.fullmatch(version):
            raise InvalidRequest(
                "not a version of an artifact", expected="id@<number from 1>", got=shown(text)
            )
        if hash_mark and not _PART.fullmatch(part):
            raise InvalidRequest(
                "not a part of an artifact",
                expected="id#<1-128 characters of A-Z a-z 0-9 . _ : / ->",
                got=shown(text),
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
            got=shown(id_),
        )
    return id_
