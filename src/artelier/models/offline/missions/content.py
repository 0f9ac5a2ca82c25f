"""The content of an artifact: findings from what tools answered, or what is written from those of others.

All figures and passages stand as they were found; nothing is rephrased.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from artelier.errors import OfflineCannot
from artelier.models.offline import figures
from artelier.models.offline.fitting import FORMS
from artelier.models.offline.missions import written
from artelier.models.offline.missions.decision import is_written
from artelier.models.offline.missions.findings import QUESTION
from artelier.models.offline.missions.grounds import Grounds
from artelier.models.offline.missions.policy import Length
from artelier.models.offline.missions.prompt import Prompt
from artelier.models.offline.missions.work import Work, work_of
from artelier.models.offline.parts import Part
from artelier.models.offline.report import document

BYTES_PER_TOKEN = 3
"""By which a limit of bytes becomes one of tokens in the requests of tasks."""

SHORT_FORMS: tuple[tuple[int, int | None], ...] = ((10, 0), (5, 0))
"""Rows of a table, and queries of a part."""

_TYPE = re.compile(r"\btype\b[`*\"]*\s*[:=]?\s*[`*\"]*(markdown|json|text)\b", re.IGNORECASE)
_TOO_LARGE = re.compile(r"\bat most (\d[\d_]{0,9}) bytes\b")
_TITLE = re.compile(r"\b(?:title|target)\b[`*\"]*\s*[:=]\s*[`*\"]*([^\n`\"]{1,300})", re.IGNORECASE)


def write(prompt: Prompt) -> str:
    """The content that the prompt asks for.

    Errors: `OfflineCannot` if what it would be made of is not there, or it does not fit.
    """
    work = work_of(prompt, iterations_left=0)
    if work.failure is not None:
        raise work.failure
    if not (work.parts or work.inputs):
        raise OfflineCannot("nothing was found out yet that could be written")
    length = work.policy.length
    if any(is_written(turn) for turn in prompt.turns):
        length = "thorough"
    target = prompt.section("Target")
    kind = match[1].lower() if (match := _TYPE.search(target)) else "markdown"
    title = match[1].strip(" *`") if (match := _TITLE.search(target)) else ""
    limit = _limit(prompt)
    if work.inputs:
        forms = written.forms(work, title=title, length=length, agent=prompt.section("Agent"))
        texts = [written.as_json(work)] if kind == "json" else forms
    else:
        grounded = _grounded(work, prompt)
        texts = [_as_json(work)] if kind == "json" else _documents(work, grounded, title, length)
    for text in texts:
        if limit is None or len(text.encode("utf-8", "replace")) <= limit:
            return text
    raise OfflineCannot(
        "the content does not fit", expected=f"at most {limit} characters", got=len(texts[-1])
    )


def _limit(prompt: Prompt) -> int | None:
    """Bytes that the content may have: by the request, and by what was refused as too large before."""
    limits = [
        int(match[1].replace("_", ""))
        for turn in prompt.turns
        if not is_written(turn) and (match := _TOO_LARGE.search(turn.result))
    ]
    tokens = prompt.request.params.get("max_output_tokens")
    if isinstance(tokens, int) and not isinstance(tokens, bool):
        limits.append(tokens * BYTES_PER_TOKEN)
    return min(limits, default=None)


def _documents(work: Work, parts: Sequence[Part], title: str, length: Length) -> list[str]:
    """The findings, from the roomiest form to the tightest, which has the question's own answer alone."""
    own = [replace(part, notes=()) for part in parts[: len(work.parts)]]
    if length in ("terse", "short"):
        variants = [(own, rows, queries) for rows, queries in SHORT_FORMS]
    else:
        forms = FORMS if length == "thorough" else ((20, None), *FORMS[2:])
        variants = [(list(parts), rows, queries) for rows, queries in forms]
        variants += [(own, rows, queries) for rows, queries in SHORT_FORMS]
    heading = figures.escaped(title or work.goal.question)
    asked = f"{QUESTION}{' '.join(work.goal.question.split())}"
    found: list[str] = []
    for shown, rows, queries in variants:
        text = document(shown, rows_shown=rows, queries_shown=queries)
        body = text.partition("\n")[2].lstrip("\n")
        first = "" if len(shown) > 1 else f"## {figures.escaped(shown[0].title)}\n\n"
        found.append(f"# {heading}\n\n{asked}\n\n{first}{body}\n")
    return found


def _grounded(work: Work, prompt: Prompt) -> list[Part]:
    """The parts as far as their numbers were asked for or answered."""
    grounds = Grounds([prompt.section("Task"), *(turn.result for turn in prompt.turns)])
    return [grounds.cleaned(part) for part in (*work.parts, *work.looks)]


def _as_json(work: Work) -> str:
    """The answer as JSON: in words, as tables, with its sources."""
    parts = (*work.parts, *work.looks)
    value = {
        "question": work.goal.question,
        "title": " · ".join(part.title for part in parts),
        "answer": [_plain(sentence) for part in parts for sentence in part.sentences],
        "tables": [
            {
                "title": part.title,
                "columns": list(grid.headings),
                "rows": [[_cell(cell) for cell in row] for row in grid.rows],
            }
            for part in parts
            for grid in part.grids
        ],
        "passages": [passage for part in parts for passage in part.passages],
        "sources": list(dict.fromkeys(source for part in parts for source in part.sources)),
    }
    return json.dumps({name: one for name, one in value.items() if one}, ensure_ascii=False)


def _cell(value: object) -> object:
    """A cell as JSON, numbers rounded as a report shows them."""
    number = figures.number_from(value)
    if number is None:
        return value if isinstance(value, str | bool) or value is None else str(value)
    return int(number) if number == number.to_integral_value() else float(round(number, 6))


def _plain(text: str) -> str:
    """A sentence without the marks of Markdown."""
    bare = re.sub(r"\*\*|(?<!\\)`", "", text)
    return re.sub(r"\\([\\`*\[\]<>|_~])", r"\1", bare)
