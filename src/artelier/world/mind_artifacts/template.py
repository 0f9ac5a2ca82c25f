"""The engine of prompt templates: `{name}` is replaced once by a value, and nothing else ever happens.

No expressions, calls, attributes or second pass: a value that contains `{x}` stays what it is. Literal
braces of JSON or code need no doubling, because only `{name}`, `{name.key}`, `{name:.2f}` and `{name!r}` are
placeholders. Doubled braces are still read as `str.format` reads them, so that older templates keep working
and `{{name}}` writes a literal `{name}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

from artelier.errors import InvalidArtifact, InvalidRequest

TEMPLATE_BYTES_MAX = 64 * 1024
"""Guess: some 15,000 tokens of instructions are no template but a document."""

PLACEHOLDERS_MAX = 500
RENDERED_CHARS_MAX = 512 * 1024
"""Of one rendered template: many placeholders of one long value must not multiply without end."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_PLACEHOLDER = re.compile(
    rf"\{{(?P<name>{_NAME})(?P<keys>(?:\.{_NAME}){{0,4}})(?P<as>![rs])?"
    # Width and precision are small: `{x:999999999}` would be a gigabyte of blanks.
    r"(?::(?P<spec>[<>^]?[+ ]?0?[0-9]{0,3}[,_]?(?:\.[0-9]{1,2})?[defgs%]?))?\}"
)
_TOKEN = re.compile(rf"\{{\{{|{_PLACEHOLDER.pattern}|\{{|\}}")


class MissingVariable(InvalidRequest):
    """A template needs a value that nobody gave: `name` says which."""

    code = "missing_variable"
    audience = "agent"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the prompt needs a value for {{{name}}}",
            expected="a value, or a default in `variables`",
            hint=f"Write {{{{{name}}}}} if the braces are meant literally.",
            name=name,
        )
        self.name = name


class TemplateVariable(NamedTuple):
    name: str
    keys: tuple[str, ...]
    """Keys of a mapping, one inside the other; never attributes."""
    spec: str
    text: str = ""
    """As it stands in the template."""

    @property
    def path(self) -> str:
        return ".".join((self.name, *self.keys))


Piece: TypeAlias = str | TemplateVariable


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A template that has been read: texts and placeholders in turn."""

    pieces: tuple[Piece, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, each once, in order of appearance."""
        return tuple(
            dict.fromkeys(piece.name for piece in self.pieces if isinstance(piece, TemplateVariable))
        )

    def render(self, values: Mapping[str, object], *, keeps_unknown: bool = False) -> str:
        """Return the text with every placeholder replaced by its value. Values are JSON data.

        With `keeps_unknown` a placeholder without a value that fits stays as it is written.

        Errors: `MissingVariable`; `InvalidRequest` for a value that does not fit its format, or a text
        longer than `RENDERED_CHARS_MAX`.
        """
        texts: list[str] = []
        size = 0
        for piece in self.pieces:
            text = piece if isinstance(piece, str) else _fill(piece, values, keeps_unknown)
            size += len(text)
            if size > RENDERED_CHARS_MAX:
                raise InvalidRequest(
                    "the rendered prompt is too long", expected=f"at most {RENDERED_CHARS_MAX} characters"
                )
            texts.append(text)
        return "".join(texts)


@lru_cache(maxsize=512)
def read_template(text: str) -> PromptTemplate:
    """A template from its text. Errors: `InvalidArtifact` for one that is too long or too full."""
    size = len(text.encode("utf-8", "replace"))
    if size > TEMPLATE_BYTES_MAX:
        raise InvalidArtifact(
            "the template is too long", expected=f"at most {TEMPLATE_BYTES_MAX} bytes", got=size
        )
    pieces = _TemplateReader(text).pieces()
    if sum(isinstance(piece, TemplateVariable) for piece in pieces) > PLACEHOLDERS_MAX:
        raise InvalidArtifact(
            "the template has too many placeholders", expected=f"at most {PLACEHOLDERS_MAX}"
        )
    return PromptTemplate(pieces)


class _TemplateReader:
    """Cuts a template into pieces. A doubled brace counts only if a doubled one closes it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._out: list[Piece] = []
        self._open: list[int] = []
        """For each open brace the place of its `{{` in the output, -1 for a single one."""

    def pieces(self) -> tuple[Piece, ...]:
        at = 0
        while match := _TOKEN.search(self._text, at):
            self._out.append(self._text[at : match.start()])
            at = self._token(match)
        self._out.append(self._text[at:])
        return _join_texts(self._out)

    def _token(self, match: re.Match[str]) -> int:
        """Return what to do about a token; returns where to read on."""
        token = match.group()
        if token == "{{":
            self._open.append(len(self._out))
            self._out.append("{{")
        elif token == "{":
            self._open.append(-1)
            self._out.append("{")
        elif token != "}":
            keys = tuple(key for key in match["keys"].split(".") if key)
            self._out.append(TemplateVariable(match["name"], keys, match["spec"] or "", token))
        elif self._open and self._open[-1] >= 0 and self._text.startswith("}}", match.start()):
            self._out[self._open.pop()] = "{"
            self._out.append("}")
            return match.end() + 1
        else:
            self._close_one()
            self._out.append("}")
        return match.end()

    def _close_one(self) -> None:
        # A `{{` of which one brace closes alone was two single ones: one of them is still open.
        if self._open and self._open.pop() >= 0:
            self._open.append(-1)


def _join_texts(out: Sequence[Piece]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    texts: list[str] = []
    for piece in out:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        pieces += ["".join(texts), piece]
        texts = []
    pieces.append("".join(texts))
    return tuple(piece for piece in pieces if piece != "")


def _fill(hole: TemplateVariable, values: Mapping[str, object], keeps_unknown: bool) -> str:
    value: object = values
    for key in (hole.name, *hole.keys):
        inner = _mapping(value)
        if key not in inner:
            if keeps_unknown:
                return hole.text
            raise MissingVariable(hole.path if hole.name in values else hole.name)
        value = inner[key]
    if not hole.spec:
        return as_text(value)
    if keeps_unknown and not _fits(value, hole.spec):
        return hole.text
    if not isinstance(value, str | int | float):
        raise InvalidRequest(
            f"{{{hole.path}:{hole.spec}}} formats numbers and text only", got=type(value).__name__
        )
    try:
        return format(value, hole.spec)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"the value of {{{hole.path}}} does not fit the format {hole.spec!r}", got=type(value).__name__
        ) from None


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _fits(value: object, spec: str) -> bool:
    if not isinstance(value, str | int | float):
        return False
    try:
        format(value, spec)
    except (ValueError, OverflowError):
        return False
    return True


def as_text(value: object) -> str:
    """A value as a prompt shows it: text as it is, a list of simple values by commas, the rest as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if all(isinstance(item, str | int | float) for item in items):
            return ", ".join(map(as_text, items)) if items else "none"
    data = cast("object", value)
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidRequest("a value for a prompt is no JSON data", got=type(data).__name__) from None


# --------------------------------------------------------------------------- truncation
# Text within a number of bytes: cut between characters, with a mark, the mark included.


class Clipped(NamedTuple):
    text: str
    is_cut: bool


def clip(text: str, *, limit_bytes: int) -> Clipped:
    """The text as it is if it fits, else its beginning and a mark, together within `limit_bytes` of UTF-8.

    Errors: `InvalidRequest` for a limit that has no room for the mark.
    """
    # A lone surrogate has no UTF-8; it must not end a tick.
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return Clipped(data.decode(), False)
    mark = f"\n[cut: {len(data):,} bytes in all]"
    room = limit_bytes - len(mark)
    if room < 0:
        raise InvalidRequest(
            "a limit without room for the mark", expected=f"at least {len(mark)}", got=limit_bytes
        )
    return Clipped(data[:room].decode("utf-8", "ignore") + mark, True)
