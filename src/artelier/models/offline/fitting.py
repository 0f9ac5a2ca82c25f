"""The final reply: the report, or structured output, in the room that the request allows."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.errors import OfflineCannot
from artelier.models.offline.instance import Made, made
from artelier.models.offline.parts import Part
from artelier.models.offline.report import ROWS_SHOWN, document
from artelier.models.offline.story import Story
from artelier.models.offline.structured import Facts, filled
from artelier.models.output import output_text
from artelier.ports.model import ModelReply, ModelRequest

CHARS_PER_TOKEN = 4
FORMS: tuple[tuple[int, int | None], ...] = (
    *((rows, None) for rows in ROWS_SHOWN),
    (ROWS_SHOWN[0], 1),
    (ROWS_SHOWN[-1], 1),
    (ROWS_SHOWN[-1], 0),
)
"""From the roomiest to the tightest: rows of a table, and queries of a part (None: all)."""


def fitted(parts: Sequence[Part], request: ModelRequest) -> ModelReply:
    """The roomiest form that stays within `max_output_tokens`: long tables are shortened first, then the
    queries beside the main one of each part are left out, then all.

    Errors: `OfflineCannot` if even the tightest form is too long, or a schema cannot be filled.
    """
    limit = limit_of(request)
    size = 0
    for rows_shown, queries_shown in FORMS:
        text = document(parts, rows_shown=rows_shown, queries_shown=queries_shown)
        if request.output_schema is None:
            reply = ModelReply(text=text)
        else:
            output = filled(request.output_schema, parts, report=text)
            reply = ModelReply(text=output_text(output), output=output)
        size = len(reply.text)
        if limit is None or size <= limit:
            return reply
    raise _too_long(request, size)


def noted(
    parts: Sequence[Part],
    request: ModelRequest,
    *,
    prompt: str,
    story: Story | None = None,
    failure: OfflineCannot | None = None,
) -> ModelReply:
    """Structured output that says in its own texts what is not known.

    `failure`: why there is no answer; raised where the output has no text that could say so.
    Errors: `OfflineCannot` if no value fits the schema, or the reply would be too long.
    """
    schema = request.output_schema
    assert schema is not None
    if parts:
        try:
            return fitted(parts, request)
        except OfflineCannot as reason:
            failure = reason
    limit = limit_of(request)
    size = 0
    for rows_shown, queries_shown in FORMS if parts else FORMS[-1:]:
        told = story or Story(prompt=prompt)
        if parts:
            text = document(parts, rows_shown=rows_shown, queries_shown=queries_shown)
            told = Story(prompt=prompt, facts=Facts(parts=parts, report=text, root=schema))
        try:
            output = made(schema, told)
        except OfflineCannot as reason:
            raise failure or reason from None
        if failure is not None and not _is_honest(output, is_partial=bool(parts)):
            raise failure
        reply = ModelReply(text=output_text(output.value), output=output.value)
        size = len(reply.text)
        if limit is None or size <= limit:
            return reply
    raise _too_long(request, size)


def _is_honest(output: Made, *, is_partial: bool) -> bool:
    """Return True if what is not known is said, and, where something is known, any of it is there."""
    if is_partial and not output.filled:
        return False
    return output.is_noted or (is_partial and not output.placeholders)


def _too_long(request: ModelRequest, size: int) -> OfflineCannot:
    return OfflineCannot(
        "the answer does not fit",
        expected=f"max_output_tokens of at least {-(-size // CHARS_PER_TOKEN)}",
        got=request.params.get("max_output_tokens"),
    )


def limit_of(request: ModelRequest) -> int | None:
    """Characters that the reply may have; None if nothing limits it."""
    tokens = request.params.get("max_output_tokens")
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return None
    return tokens * CHARS_PER_TOKEN
