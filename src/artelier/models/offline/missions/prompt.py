"""A prompt of a mission as its sections, its fenced data, and what was decided so far.

Headings count only outside of fences, since what stands between `<data>` marks was written by others.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from artelier.ports.model import ChatMessage, ModelRequest, ToolSchema

CHARS_MAX = 2_000_000
"""Of one prompt; what lies behind is not read."""

TURNS_MAX = 50
TOOLS_MAX = 200

_HEADING = re.compile(r"#{1,2} (\S[^\n]{0,120})$")
_FENCE = re.compile(r"<data\b([^>\n]{0,400})>$")
_SOURCE = re.compile(r'\bsource="([^"\n]{0,200})"')
_RESULT = re.compile(r"Result of iteration (\d{1,4})\b")
_TURN = re.compile(r"[Ii]teration (\d{1,4}) of (\d{1,4})")
_TOOL = re.compile(r"(?:-|###) `?([A-Za-z_][\w./-]{0,79})`?(?:$|:(.*)$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: str
    text: str
    """Without its heading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A decision, and the text of what became of it."""

    decision: dict[str, Any]
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A text between fences, with what its mark says of it."""

    source: str
    text: str


class Prompt:
    """The content of a mission's request. Cost: linear in its text."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self._sections: list[Section] = []
        self.turns: list[Turn] = []
        decision: dict[str, Any] | None = None
        for message in request.messages:
            if message.role == "assistant":
                decision = _decision(message)
                continue
            found = sections(message.text[:CHARS_MAX])
            self._sections += [one for one in found if not _RESULT.match(one.title)]
            results = [one.text for one in found if _RESULT.match(one.title)]
            if decision is not None and len(self.turns) < TURNS_MAX:
                said = results or [found[0].text if found and not found[0].title else ""]
                self.turns.append(Turn(decision=decision, result="\n\n".join(said)))
            decision = None

    def section(self, *titles: str, last: bool = False) -> str:
        """The text below the first of these headings that is there; or nothing.

        `last`: of several sections of that name the last one, since texts of people come first.
        """
        for title in titles:
            found = self.notes(title)
            if found:
                return found[-1 if last else 0]
        return ""

    def notes(self, title: str) -> list[str]:
        """The texts below each heading of this name."""
        return [one.text.strip() for one in self._sections if one.title.lower() == title.lower()]

    @cached_property
    def iteration(self) -> tuple[int, int]:
        """The number of the iteration and the number of iterations; a first of five if nothing says so."""
        match = _TURN.search(self.section("Now", last=True))
        return (int(match[1]), int(match[2])) if match else (len(self.turns) + 1, 5)

    @cached_property
    def tools(self) -> dict[str, ToolSchema]:
        """The tools that are listed."""
        return tools_in(self.section("Tools", last=True))

    def shown(self, *titles: str) -> list[Shown]:
        """The fenced texts of some sections, or of all."""
        wanted = {title.lower() for title in titles}
        return [
            found
            for one in self._sections
            if not wanted or one.title.lower() in wanted
            for found in fences(one.text)
        ]


def sections(text: str) -> list[Section]:
    """The headed parts of a text in order; what stands before the first heading has no title."""
    found: list[Section] = []
    title, lines, inside = "", list[str](), False
    for line in text.splitlines():
        bare = line.strip()
        match = None if inside else _HEADING.match(line[:200].rstrip())
        if match is not None:
            if title or any(one.strip() for one in lines):
                found.append(Section(title=title, text="\n".join(lines)))
            title, lines = match[1].strip(), []
            continue
        if not inside and _FENCE.match(bare[:500]):
            inside = True
        elif inside and bare == "</data>":
            inside = False
        lines.append(line)
    if title or any(one.strip() for one in lines):
        found.append(Section(title=title, text="\n".join(lines)))
    return found


def fences(text: str) -> list[Shown]:
    """The fenced texts in order; one whose end was cut off goes to the end."""
    found: list[Shown] = []
    source, lines, inside = "", list[str](), False
    for line in text.splitlines():
        match = None if inside else _FENCE.match(line.strip()[:500])
        if match is not None:
            named = _SOURCE.search(match[1])
            source, lines, inside = named[1] if named else "", [], True
        elif inside and line.strip() == "</data>":
            found.append(Shown(source=source, text="\n".join(lines)))
            inside = False
        elif inside:
            lines.append(line)
    if inside:
        found.append(Shown(source=source, text="\n".join(lines)))
    return found


def unfenced(text: str) -> str:
    """Return what a text says outside of fences."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and _FENCE.match(line.strip()[:500]):
            inside = True
        elif inside and line.strip() == "</data>":
            inside = False
        elif not inside:
            kept.append(line)
    return "\n".join(kept).strip()


def value_in(result: str) -> Any:
    """The JSON value that a result shows, fenced or not; None if it shows none."""
    for text in [*(one.text for one in fences(result)), result]:
        value = json_in(text)
        if value is not None:
            return value
    return None


def tools_in(text: str) -> dict[str, ToolSchema]:
    """Tools by name: lines of a list or small headings, each with its schema as JSON below or beside it."""
    blocks: list[tuple[str, list[str]]] = []
    lines = text.splitlines()
    mark = "### " if any(line.startswith("### ") for line in lines) else "- "
    for line in lines:
        match = _TOOL.match(line[:4_000]) if line.startswith(mark) else None
        if match is not None and len(blocks) < TOOLS_MAX:
            blocks.append((match[1], [match[2] or ""]))
        elif blocks:
            blocks[-1][1].append(line)
    found: dict[str, ToolSchema] = {}
    for name, lines in blocks:
        said = "\n".join(lines)
        schema = json_in(said)
        parameters = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
        description = said.partition("{")[0].strip(" :\n`")
        found.setdefault(name, ToolSchema(name=name, description=description, parameters=parameters))
    return found


def _decision(message: ChatMessage) -> dict[str, Any] | None:
    try:
        value = json.loads(message.text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def json_in(text: str) -> Any:
    """The whole text as JSON, or the first object or list in it; None if there is none."""
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    for start in sorted(starts):
        try:
            return json.JSONDecoder().raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
    return None
