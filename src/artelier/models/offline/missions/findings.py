"""The parts of texts by others: the sections of a text with their prose, tables, quotes and sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.models.offline import figures
from artelier.models.offline.missions.prompt import Shown, json_in
from artelier.models.offline.report import LABEL

CHARS_MAX = 400_000
"""Of one text."""

QUESTION = "Question: "
"""Begins the line in which findings repeat what was asked."""

SOURCES = "Sources: "

_HEADING = re.compile(r"(#{1,6})\s+(.{1,300}?)\s*#*$")
_RULE = re.compile(r"\|?(?:\s*:?-{3,}:?\s*\|)+\s*:?-*:?\s*\|?$")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_NUMBERED = re.compile(r"\d{1,2}\. ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A paragraph, a table, a list or a fenced text, as it stands."""

    kind: str
    """`prose`, `table`, `list` or `code`."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A headed part of a text."""

    title: str
    blocks: tuple[Block, ...]

    def of(self, *kinds: str) -> list[str]:
        return [block.text for block in self.blocks if block.kind in kinds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One text of somebody."""

    ref: str
    question: str = ""
    parts: tuple[Finding, ...] = ()
    sources: tuple[str, ...] = ()
    """As they are named there, in code marks."""
    queries: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(part.blocks for part in self.parts)


def findings_in(shown: Shown) -> Findings:
    """An artifact that a prompt shows, Markdown or JSON."""
    text = shown.text[:CHARS_MAX]
    value = json_in(text) if text.lstrip()[:1] in ("{", "[") else None
    if value is not None:
        return _from_json(shown.source, value)
    question, sources, queries = "", list[str](), list[str]()
    parts: list[Finding] = []
    for title, blocks in _sections(text):
        kept: list[Block] = []
        for block in blocks:
            if block.kind == "prose" and block.text.startswith(QUESTION):
                question = question or block.text.removeprefix(QUESTION)
            elif block.kind == "prose" and block.text.startswith(SOURCES):
                sources += re.findall(r"`([^`\n]{1,200})`", block.text)
            elif block.kind == "code" and block.text.startswith("```sql"):
                queries.append(block.text)
            elif block.text != LABEL:
                kept.append(block)
        if kept and not title.lower().startswith("how this was computed"):
            parts.append(Finding(title=title, blocks=tuple(kept)))
    return Findings(
        ref=shown.source,
        question=question,
        parts=tuple(parts),
        sources=tuple(dict.fromkeys(sources)),
        queries=tuple(queries),
    )


def _from_json(ref: str, value: Any) -> Findings:
    """JSON that this model wrote by its fields; of anybody else's the text itself."""
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    answer = [one for one in _list(fields.get("answer")) if isinstance(one, str)]
    if not answer:
        block = Block(kind="code", text=figures.block(figures.compact(value), "json"))
        return Findings(ref=ref, parts=(Finding(title=ref, blocks=(block,)),))
    blocks = [Block(kind="prose", text=" ".join(answer))]
    for table in _list(fields.get("tables")):
        rows = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
        columns = [str(one) for one in _list(rows.get("columns"))]
        cells = [_list(row) for row in _list(rows.get("rows"))]
        if columns and all(len(row) == len(columns) for row in cells):
            blocks.append(Block(kind="table", text=figures.table(columns, cells)))
    return Findings(
        ref=ref,
        question=str(fields.get("question", "")),
        parts=(Finding(title=str(fields.get("title", ref)), blocks=tuple(blocks)),),
        sources=tuple(str(one) for one in _list(fields.get("sources"))),
    )


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _sections(text: str) -> list[tuple[str, list[Block]]]:
    found: list[tuple[str, list[Block]]] = [("", [])]
    lines: list[str] = []
    fence = ""

    def close() -> None:
        if any(line.strip() for line in lines):
            body = "\n".join(lines).strip("\n")
            found[-1][1].append(Block(kind=_kind(body), text=body))
        lines.clear()

    for line in text.splitlines():
        bare = line.strip()
        if fence:
            lines.append(line)
            if bare == fence:
                fence = ""
                close()
            continue
        if bare.startswith("```"):
            close()
            fence = bare[: len(bare) - len(bare.lstrip("`"))]
            lines.append(line)
        elif match := _HEADING.match(line[:320]):
            close()
            found.append((_NUMBERED.sub("", match[2], count=1), []))
        elif not bare:
            close()
        else:
            lines.append(line)
    close()
    return found


def _kind(body: str) -> str:
    lines = body.splitlines()
    if lines[0].startswith("```"):
        return "code"
    if len(lines) > 1 and lines[0].lstrip().startswith("|") and _RULE.match(lines[1].strip()):
        return "table"
    return "list" if re.match(r"\s*(?:[-*+]|\d{1,3}\.)\s", lines[0]) else "prose"


def table_of(text: str) -> tuple[list[str], list[list[Any]]]:
    """Headings and rows of a Markdown table; cells that are numbers as numbers."""
    lines = [_cells(line) for line in text.splitlines()]
    rows = [[_value(cell) for cell in line] for line in lines[2:] if len(line) == len(lines[0])]
    return lines[0], rows


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _value(cell: str) -> Any:
    if cell == figures.MISSING:
        return None
    if _NUMBER.fullmatch(cell) and len(cell) <= 15:
        return float(cell) if "." in cell else int(cell)
    return re.sub(r"\\([\\`*\[\]<>|_~])", r"\1", cell)


def all_sources(found: Sequence[Findings]) -> list[str]:
    """Return what the texts name as their sources, then the texts themselves."""
    return list(dict.fromkeys([*(one for text in found for one in text.sources)]))
