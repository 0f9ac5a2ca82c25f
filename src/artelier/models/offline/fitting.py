"""The final reply: the report, or structured output, in the room that the request allows."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.errors import OfflineCannot
from artelier.models.offline.parts import Part
from artelier.models.offline.report import ROWS_SHOWN, document
from artelier.models.offline.structured import filled
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
    limit = _limit(request)
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
    raise OfflineCannot(
        "the answer does not fit",
        expected=f"max_output_tokens of at least {-(-size // CHARS_PER_TOKEN)}",
        got=request.params.get("max_output_tokens"),
    )


def _limit(request: ModelRequest) -> int | None:
    tokens = request.params.get("max_output_tokens")
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return None
    return tokens * CHARS_PER_TOKEN
