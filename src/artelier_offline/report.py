"""Answers in their form: a report in Markdown, or the fields of an output schema, within the room of the
request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from artelier.errors import OfflineCannot
from artelier.models.params import output_text
from artelier.ports.model import ModelReply, ModelRequest
from artelier_offline.conversation import CHARS_PER_TOKEN, chars_max
from artelier_offline.query import Part
from artelier_offline.words import LABEL, block, code, escaped, flat, listed, name_words, table

ROWS_SHOWN = (50, 10, 3)
"""Rows of a table, from the roomiest form of a report to the tightest."""

_TITLES = frozenset("title heading headline subject topic".split())
_TEXTS = frozenset("report markdown body content document text article".split())
_ANSWERS = frozenset(
    "summary answer conclusion result finding response description analysis message reply note reason".split()
)
_GENERIC = frozenset("value answer result number figure amount total count".split())
_KEYWORDS = frozenset("type title description default items examples".split())
"""What a schema of a field may say; a field with more is not filled."""


def document(
    parts: Sequence[Part],
    *,
    rows: int = ROWS_SHOWN[0],
    queries: bool = True,
    question: str = "",
    title: str = "",
) -> str:
    """Return the report in Markdown. With a `question` each part has a heading."""
    heading = title or " · ".join(part.title for part in parts)
    lines = [f"# {escaped(heading)}", "", *([f"Question: {question}", ""] if question else [])]
    for part in parts:
        if len(parts) > 1 or question:
            lines += [f"## {escaped(part.title)}", ""]
        lines += [" ".join(part.sentences), ""]
        for quote in part.quotes:
            lines += [quote, ""]
        for grid in part.grids:
            if rows:
                lines += [table(grid.headings, grid.rows[:rows]), ""]
            if len(grid.rows) > rows:
                lines += [f"{rows or 'None'} of {len(grid.rows)} rows are shown.", ""]
        lines += [*(f"- {note}" for note in dict.fromkeys(part.notes)), *([""] if part.notes else [])]
    shown = dict.fromkeys(query for part in parts for query in part.queries)
    if shown and queries:
        lines += ["## How this was computed", ""]
        lines += [line for query in shown for line in (block(query, "sql"), "")]
    sources = dict.fromkeys(source for part in parts for source in part.sources)
    lines += [f"Sources: {listed([code(one) for one in sources])}.", ""] if sources else []
    return "\n".join([*lines, LABEL, ""])


def reply(parts: Sequence[Part], request: ModelRequest) -> ModelReply:
    """Return the roomiest form of an answer that fits. Errors: `OfflineCannot` if none does."""
    limit, size = chars_max(request), 0
    for rows, queries in (*((one, True) for one in ROWS_SHOWN), (ROWS_SHOWN[-1], False), (0, False)):
        text = document(parts, rows=rows, queries=queries)
        schema = request.output_schema
        made = ModelReply(text=text) if schema is None else structured(schema, parts=parts, text=text)
        size = len(made.text)
        if limit is None or size <= limit:
            return made
    tokens = -(-size // CHARS_PER_TOKEN)
    raise OfflineCannot("the answer does not fit", expected=f"max_output_tokens of at least {tokens}")


def structured(
    schema: Mapping[str, Any], *, parts: Sequence[Part] = (), text: str = "", gap: str = "", topic: str = ""
) -> ModelReply:
    """Return the output for a schema of texts, lists of texts and figures, by the names of its fields.

    `gap`: why there is no answer; then only texts are filled, and each says so.
    Errors: `OfflineCannot` that names the first required field for which nothing was computed.
    """
    properties: dict[str, Any] = schema.get("properties") or {}
    required: list[Any] = schema.get("required") or []
    output: dict[str, Any] = {}
    for name, inner in properties.items():
        value = (
            None if set(inner) - _KEYWORDS else _field(name, str(inner.get("type")), parts, text, gap, topic)
        )
        if value is not None:
            output[name] = value
    if missing := [str(one) for one in required if one not in output]:
        why = f": {gap}" if gap else ""
        raise OfflineCannot(f"the field {code(missing[0])} of the output schema cannot be filled{why}")
    return ModelReply(text=output_text(output), output=output)


def _field(name: str, kind: str, parts: Sequence[Part], text: str, gap: str, topic: str) -> Any:
    words = set(name_words(name))
    said = [_bare(one) for part in parts for one in part.sentences]
    if kind == "string" and words & _TITLES:
        return " · ".join(part.title for part in parts) or flat(topic, 120) or "Not determined"
    if kind == "string" and words & (_TEXTS | _ANSWERS):
        return gap or (text if words & _TEXTS else " ".join(said))
    if kind == "array" and words & {"source", "file", "reference"}:
        return list(dict.fromkeys(one for part in parts for one in part.sources))
    if kind == "array" and words & {"note", "caveat", "finding", "answer", "sentence"}:
        return [gap] if gap else [*said, *(_bare(one) for part in parts for one in part.notes)]
    if kind == "array":
        ranked = [part.names for part in parts if part.names]
        return list(ranked[0]) if len(ranked) == 1 and not gap else None
    if kind in ("number", "integer") and not gap:
        figures = [(set(name_words(label)), value) for part in parts for label, value in part.figures]
        found = [value for label, value in figures if words <= label or words <= _GENERIC]
        return found[0] if len(found) == 1 and (kind == "number" or isinstance(found[0], int)) else None
    return None


def _bare(text: str) -> str:
    return text.replace("**", "").replace("`", "")
