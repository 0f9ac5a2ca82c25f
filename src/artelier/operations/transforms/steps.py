"""The steps of a transform, and their failure. `forms.py` reads them from JSON, the worker runs them."""

from __future__ import annotations

from typing import Any

import msgspec


class TransformFailure(Exception):
    """`code` is `no_match`, `error`, `timeout` or `too_large`; the message holds nothing of the value."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.step: int | None = None
        """Which step, counted from 0."""


class JsonPatch(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="json_patch"):
    """A JSON Patch (RFC 6902). A text is read as JSON first."""

    patch: tuple[dict[str, Any], ...]


class Regex(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="regex"):
    """Replace what a pattern of Python's `re` matches; a text without a match stays as it is."""

    pattern: str
    replace: str
    flags: str = ""
    """Letters of `aimsx`."""
    count: int = 0
    """At most so many replacements; 0 for all."""


class Case(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="case"):
    to: str
    """`lower`, `upper`, `title` (each word) or `sentence` (after each full stop)."""


class Trim(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="trim"):
    chars: str | None = None
    """What to take away at both ends; None: spaces of all sorts."""
    max_chars: int | None = None
    """What is longer is cut there, after the trimming."""


class Extract(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="extract"):
    """Part of the value: exactly one of `path` (RFC 9535; a text is read as JSON) and `regex`."""

    path: str | None = None
    regex: str | None = None
    group: int | str = 0
    many: bool = False
    """All matches as a list, which may be empty; else the first, and none is an error."""


Step = JsonPatch | Regex | Case | Trim | Extract
