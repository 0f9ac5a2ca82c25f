"""Templates of users: Liquid that only substitutes declared values, with bounds on everything.

A template is rendered once and its values are data: `{{` inside a value comes out unchanged. Tags that
load other templates do not exist; no clock, file, regular expression or Python attribute is within reach.
The same template over the same values gives the same text on every machine, or the same error.

Where to read next: `compiler.py` (tags), `expressions.py`, `lists.py` (filters).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from artelier.operations.template_engine.renderer import (
    OUTPUT_BYTES_MAX,
    InvalidTemplate,
    Rendering,
    TemplateFailed,
    TemplateLimit,
    TemplateUndefined,
)
from artelier.operations.template_engine.values import Messages, Named

if TYPE_CHECKING:
    from artelier.operations.template_engine.compiler import TemplateProgram

__all__ = [
    "InvalidTemplate",
    "Messages",
    "Named",
    "Template",
    "TemplateFailed",
    "TemplateLimit",
    "TemplateUndefined",
]

TEMPLATE_BYTES_MAX = 64 * 1024
CACHED_CHARS_MAX = 1024 * 1024
"""Of the templates that are kept parsed; a parsed one takes some 50 bytes per character. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A parsed template. In strict mode a name without a value is an error, else it is empty.

    Also in strict mode such a name may be asked about: `if`, `==`, `!=` and `| default` accept it.
    """

    text: str
    strict: bool = True
    _program: TemplateProgram = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, *, strict: bool = True) -> Template:
        """Units: `text` has at most 64 KiB. Errors: `InvalidTemplate` with the line and what is wrong."""
        return cls(text=text, strict=strict, _program=_programs.get(text))

    def render(self, scope: Mapping[str, Any]) -> str:
        """The text, at most 256 KiB.

        Shapes: values of `scope` are JSON data, `Named` and `Messages`; `now` is ISO 8601 text; `user` and
                `char` with a name print as it.
        Errors: `TemplateUndefined`, `TemplateLimit`, and `TemplateFailed` for anything else.
        """
        state = Rendering(_with_people(scope), strict=self.strict)
        try:
            self._program.run(state)
        except RecursionError:
            raise TemplateLimit("the template or a value is nested too deeply") from None
        shown = "".join(state.pieces)
        try:
            size_bytes = len(shown) if shown.isascii() else len(shown.encode())
        except UnicodeEncodeError:
            raise TemplateFailed("a value is no valid Unicode text") from None
        if size_bytes > OUTPUT_BYTES_MAX:
            raise TemplateLimit(
                "the output of the template is too long", expected=f"at most {OUTPUT_BYTES_MAX} bytes"
            )
        return shown

    def paths(self) -> frozenset[tuple[str, ...]]:
        """Return what the template may read from its scope, such as `("art", "world_state", "value")`.

        Shapes: list positions are their digits; a key that is computed is `*`: `art[x]` reads
        `("art", "*")`. A shorter path stands for everything below it. Names that the template itself
        surely sets are left out.
        """
        return self._program.paths


def _with_people(scope: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scope, with `user` and `char` as someone who prints as a name."""
    people: dict[str, Any] = {}
    for who in ("user", "char"):
        person: Any = scope.get(who)
        if isinstance(person, Mapping):
            fields = cast("Mapping[str, Any]", person)
            if isinstance(name := fields.get("name"), str):
                people[who] = Named(name=name, fields=fields)
    return {**scope, **people} if people else scope


class _Programs:
    """Parsed templates by text, the least recently used dropped first. Threads may share it."""

    def __init__(self, *, chars_max: int) -> None:
        self._chars_max = chars_max
        self._chars = 0
        self._kept: OrderedDict[str, TemplateProgram] = OrderedDict()
        self._lock = Lock()

    def get(self, text: str) -> TemplateProgram:
        with self._lock:
            found = self._kept.get(text) if type(text) is str else None
            if found is not None:
                self._kept.move_to_end(text)
                return found
        program = _read(text)
        with self._lock:
            if text not in self._kept:
                self._kept[text] = program
                self._chars += len(text)
            while self._chars > self._chars_max:
                dropped, _ = self._kept.popitem(last=False)
                self._chars -= len(dropped)
        return program


def _read(text: object) -> TemplateProgram:
    if not isinstance(text, str):
        raise InvalidTemplate("not a template", expected="a text", got=type(text).__name__[:80])
    if len(text) > TEMPLATE_BYTES_MAX:
        size_bytes = len(text)
    else:
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError:
            raise InvalidTemplate("the template is no valid Unicode text") from None
    if size_bytes > TEMPLATE_BYTES_MAX:
        raise InvalidTemplate("the template is too long", expected=f"at most {TEMPLATE_BYTES_MAX} bytes")
    from artelier.operations.template_engine.compiler import TemplateProgram

    return TemplateProgram(text)


_programs = _Programs(chars_max=CACHED_CHARS_MAX)
