"""Reports, letters and the like, put together from the findings of others word for word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from artelier.models.offline import figures
from artelier.models.offline.figures import code
from artelier.models.offline.missions.findings import QUESTION, SOURCES, Finding, all_sources, table_of
from artelier.models.offline.missions.goal import short
from artelier.models.offline.missions.policy import Length
from artelier.models.offline.missions.work import Work
from artelier.models.offline.phrases import listed
from artelier.models.offline.report import LABEL

ROWS_SHOWN = (50, 20, 8, 0)
"""Rows of a table, from the roomiest form to the tightest."""

_NAME = re.compile(r"\A(?:name:\s*)?([^\n(:.,]{1,60})", re.IGNORECASE)
_ARTICLE = re.compile(r"\A(?:the|our|my|your|an?|all)\s+", re.IGNORECASE)
_SENT = ("letter", "email", "memo")


def forms(work: Work, *, title: str, length: Length, agent: str) -> list[str]:
    """The text in several forms, the roomiest first."""
    rows = {
        "terse": ROWS_SHOWN[3:],
        "short": ROWS_SHOWN[2:],
        "plain": ROWS_SHOWN[1:],
        "thorough": ROWS_SHOWN,
    }[length]
    make = _sent if work.goal.form in _SENT else _report
    texts = [make(work, title, length, agent, shown) for shown in rows]
    return [*texts, make(work, title, "terse", agent, 0)]


def _report(work: Work, title: str, length: Length, agent: str, rows: int) -> str:
    found = _ordered(work)
    several = len(found) > 1
    heading = title or f"Report: {short(work.goal.question or work.goal.text)}"
    lines = [f"# {figures.escaped(heading)}", ""]
    asked = " ".join(work.goal.question.split())
    lines += [f"{QUESTION}{asked}", ""] if asked else []
    leads = [_lead(part) for part in found] if several and length in ("plain", "thorough") else []
    if leads:
        lines += ["## In short", "", *(f"- {said}" for said in leads if said), ""]
    for part in found:
        body = list(_body(part, rows=rows, length=length, skipping=leads))
        lines += [f"## {part.title}", ""] if part.title and body else []
        lines += body
    return _closed(lines, work, length)


def _sent(work: Work, title: str, length: Length, agent: str, rows: int) -> str:
    whom = _ARTICLE.sub("", work.goal.whom)
    asked = " ".join(work.goal.question.split())
    lines = [f"# {figures.escaped(title)}", ""] if title and work.goal.form == "memo" else []
    lines += [f"Subject: {short(asked or work.goal.text, chars_max=100)}", ""]
    lines += [f"Dear {figures.escaped(whom)}," if whom else "Hello,", ""]
    lines += [f"this is what was found out on: {asked}", ""] if asked else []
    for part in _ordered(work):
        lines += _body(part, rows=rows, length=length)
    match = _NAME.match(agent)
    lines += ["Kind regards", "", *([match[1].strip()] if match else []), ""]
    return _closed(lines, work, length)


def _ordered(work: Work) -> list[Finding]:
    """The parts of all texts; of several texts with one part each, each is called by its question."""
    if len(work.inputs) < 2:
        return [part for text in work.inputs for part in text.parts]
    return [
        replace(part, title=figures.escaped(short(text.question)))
        if text.question and len(text.parts) == 1
        else part
        for text in work.inputs
        for part in text.parts
    ]


def _lead(part: Finding) -> str:
    """The first sentences of a part, at most two lines."""
    prose = part.of("prose")
    return " ".join(prose[0].split()) if prose else ""


def _body(part: Finding, *, rows: int, length: Length, skipping: Sequence[str] = ()) -> Iterator[str]:
    """A part with its tables cut to so many rows; none if there is no room for any."""
    for block in part.blocks:
        if " ".join(block.text.split()) in skipping:
            continue
        if block.kind == "table":
            if rows:
                yield from (*_cut(block.text, rows), "")
            continue
        if block.kind == "list" and length in ("terse", "short"):
            continue
        yield from (block.text, "")


def _cut(table: str, rows: int) -> list[str]:
    lines = table.splitlines()
    if len(lines) - 2 <= rows:
        return lines
    return [*lines[: rows + 2], "", f"The first {rows} of {len(lines) - 2} rows."]


def _closed(lines: Sequence[str], work: Work, length: Length) -> str:
    """The text with where it all is from, and who wrote it."""
    sources = [code(source) for source in all_sources(work.inputs)]
    from_whom = [code(name) for name in _names(work) if name]
    end: list[str] = []
    if length == "thorough":
        queries = dict.fromkeys(query for text in work.inputs for query in text.queries)
        end += ["## How this was computed", ""] if queries else []
        end += [line for query in queries for line in (query, "")]
    said = f"{SOURCES}{listed(sources)}, as found in {listed(from_whom)}."
    if not sources:
        said = f"{SOURCES}{listed(from_whom)}."
    return "\n".join([*lines, *end, said, "", LABEL, ""])


def _names(work: Work) -> list[str]:
    """Return what the inputs are called: findings by their own name alone, so that the same goal gives
    the same report, whatever its mission is called."""
    return [text.ref.rpartition("/")[2] if text.sources else text.ref for text in work.inputs]


def as_json(work: Work) -> str:
    """The findings as JSON: what they say in words, and their tables."""
    tables: list[dict[str, Any]] = []
    for part in _ordered(work):
        for text in part.of("table"):
            columns, rows = table_of(text)
            tables.append({"title": part.title, "columns": columns, "rows": rows})
    prose = [" ".join(text.split()) for part in _ordered(work) for text in part.of("prose")]
    value: dict[str, Any] = {
        "question": work.goal.question,
        "answer": [re.sub(r"\*\*|`", "", text) for text in prose],
        "tables": tables,
        "passages": [text for part in _ordered(work) for text in part.of("code")],
        "sources": [*all_sources(work.inputs), *_names(work)],
    }
    return json.dumps({name: one for name, one in value.items() if one}, ensure_ascii=False)
