"""The state of one rendering, and the errors of a template.

    InvalidRequest ── InvalidTemplate       it can't be read; fact `line`, counted from 1
    External ──────── TemplateFailed        rendering ended early; code `template_error`
                      ├── TemplateUndefined     a name has no value, in strict mode
                      └── TemplateLimit         a bound was reached

Messages name the template's own words, never a value of the scope: values may be secret.

Work is counted, not timed, so that the same template over the same values always ends the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artelier.errors import External, InvalidRequest


class InvalidTemplate(InvalidRequest):
    code = "invalid_template"

    @property
    def line(self) -> int:
        """The line of the mistake, from 1; 0 if it concerns the whole template."""
        return int(self.facts.get("line", 0))


class TemplateFailed(External):
    code = "template_error"
    audience = "programmer"


class TemplateUndefined(TemplateFailed):
    code = "template_undefined"


class TemplateLimit(TemplateFailed):
    code = "template_limit"


OUTPUT_BYTES_MAX = 256 * 1024
TEXT_CHARS_MAX = 256 * 1024
"""Of any text that a filter or a capture makes on the way."""
TURNS_MAX = 10_000
"""Of all loops of one rendering together."""
WORK_MAX = 10_000_000
"""In characters touched; a tag, a filter or an item counts as several. Measured: about 1 s of CPU for
the worst templates of the tests. Ten variables take 30 us, of a template that is already parsed."""

NODE_WORK = 24
"""What the rendering of one tag or one filter counts, without the text that it touches."""
ITEM_WORK = 32
"""What one item of a list counts."""


class Rendering:
    """Shapes: `scope` is the caller's, `local` what the template assigned, `blocks` the loops around."""

    __slots__ = (
        "blocks",
        "counters",
        "cycles",
        "local",
        "pieces",
        "room",
        "scope",
        "stops",
        "strict",
        "turns_left",
        "work_left",
    )

    def __init__(self, scope: Mapping[str, Any], *, strict: bool) -> None:
        self.scope = scope
        self.strict = strict
        self.local: dict[str, Any] = {}
        self.blocks: list[dict[str, Any]] = []
        self.counters: dict[str, int] = {}
        self.cycles: dict[str, int] = {}
        self.stops: dict[str, int] = {}
        self.pieces: list[str] = []
        self.room = OUTPUT_BYTES_MAX
        self.work_left = WORK_MAX
        self.turns_left = TURNS_MAX

    def spend(self, work: int) -> None:
        """Errors: `TemplateLimit` when all work is used up."""
        self.work_left -= work
        if self.work_left < 0:
            raise TemplateLimit(
                "the template does too much work",
                hint="Use smaller lists, shorter texts or fewer loops inside loops.",
            )

    def turn(self) -> None:
        """Count one turn of a loop."""
        self.turns_left -= 1
        if self.turns_left < 0:
            raise TemplateLimit(
                "the loops of the template turn too often", expected=f"at most {TURNS_MAX} turns"
            )

    def write(self, text: str) -> None:
        """Append to the output, or to what is being captured."""
        self.spend(NODE_WORK + len(text))
        self.room -= len(text)
        if self.room < 0:
            raise TemplateLimit(
                "the output of the template is too long", expected=f"at most {OUTPUT_BYTES_MAX} bytes"
            )
        self.pieces.append(text)

    def check_size(self, text: str) -> str:
        """The text itself, if it is short enough to be kept."""
        if len(text) > TEXT_CHARS_MAX:
            raise too_long()
        self.spend(len(text))
        return text


def too_long() -> TemplateLimit:
    return TemplateLimit(
        "a text made by the template is too long", expected=f"at most {TEXT_CHARS_MAX} characters"
    )
