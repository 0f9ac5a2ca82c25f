"""Tools behind which another agent works: called where a prompt hands a task over, their answers quoted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.models.offline import figures
from artelier.models.offline.conversation import Ask, Desk
from artelier.models.offline.memory import with_required
from artelier.models.offline.parts import Part
from artelier.models.offline.schemas import as_schema, listed
from artelier.models.offline.words import name_words, stem
from artelier.ports.model import ModelRequest

HANDOVERS_MAX = 6
TASK_CHARS_MAX = 8_000
ANSWER_CHARS_MAX = 6_000

_DELEGATES = re.compile(r"\b(?:delegat\w*|sub-?agents?|agents?)\b", re.IGNORECASE)
_PARAMETERS = ("prompt", "task", "request", "question", "message", "instructions", "query", "goal")
_TO_WHOM = re.compile(
    r"\b(?:ask|tell|have|let|get|use|instruct|request)\s+(?:the\s+|our\s+|your\s+|an?\s+)?"
    r"[`\"']?([\w-]{2,60}(?: [\w-]{2,40})?)[`\"']?(?:\s+(?:sub-?)?agent)?"
    r"\s*(?::|,|\bto\b|\babout\b|\bfor\b)?\s+",
    re.IGNORECASE,
)
_HANDS_OVER = re.compile(
    r"\bdelegate\s+(.{1,4000}?)\s+to\s+(?:the\s+|our\s+|your\s+|an?\s+)?[`\"']?([\w-]{2,60}(?: [\w-]{2,40})?)"
    r"[`\"']?(?:\s+(?:sub-?)?agent)?\s*(?:[.;:]|$|\band\b|\bthen\b)",
    re.IGNORECASE | re.DOTALL,
)
_REFERS = re.compile(
    r"\b(?:it|this|that|these|those|them|results?|findings?|answers?|notes?)\b", re.IGNORECASE
)
_NEXT = re.compile(r"[,;.]?\s+(?:and then|then|and|afterwards|finally)?[,]?\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A task for one agent."""

    tool: str
    task: str
    start: int


def handovers(prompt: str, request: ModelRequest, desk: Desk) -> list[Handover]:
    """The tasks that a prompt hands over to agents behind tools, in its order."""
    agents = _agents(request, desk)
    text = prompt[:TASK_CHARS_MAX]
    if not agents or not text.strip():
        return []
    found: list[Handover] = []
    taken: list[tuple[int, int]] = []
    for match in _HANDS_OVER.finditer(text):
        tool = _named(match[2], agents)
        if tool is not None:
            found.append(Handover(tool=tool, task=match[1].strip(" :,"), start=match.start()))
            taken.append(match.span())
    named: list[tuple[int, int, str]] = []
    for match in _TO_WHOM.finditer(text):
        tool = _named(match[1], agents)
        inside = any(start <= match.start() < end for start, end in taken)
        if tool is not None and not inside:
            named.append((match.start(), _task_start(match, agents), tool))
    for at, (start, begin, tool) in enumerate(named):
        end = named[at + 1][0] if at + 1 < len(named) else len(text)
        end = min([end, *(one for one, _ in taken if one >= begin)])
        task = _NEXT.sub("", text[begin:end]).strip(" :,\n")
        if task:
            found.append(Handover(tool=tool, task=task, start=start))
    if not found and len(agents) == 1 and re.match(r"\s*(?:please\s+)?delegate\b", text, re.IGNORECASE):
        task = re.sub(r"^\s*(?:please\s+)?delegate\s*(?:this|that|it)?\s*[:,]?\s*", "", text, flags=re.I)
        found.append(Handover(tool=next(iter(agents)), task=task.strip() or text.strip(), start=0))
    return sorted(found, key=lambda one: one.start)[:HANDOVERS_MAX]


def handed_over(tasks: list[Handover], desk: Desk) -> list[Part]:
    """Return what the agents answered. A task that points back (`it`, `the result`) gets the answers before
    it.

    Errors: `Wanted` until they have answered.
    """
    parts: list[Part] = []
    before: list[str] = []
    pending: list[Ask] = []
    for task in tasks:
        refers = bool(_REFERS.search(task.task))
        if pending and refers:
            break
        text = task.task
        if before and refers:
            text = f"{text}\n\nAnswers so far:\n" + "\n\n".join(before)[:TASK_CHARS_MAX]
        parameters = desk.parameters(task.tool)
        arguments = with_required({_parameter(parameters): text}, parameters)
        ask = Ask(tool=task.tool, arguments=arguments)
        if not desk.was_called(ask):
            pending.append(ask)
            continue
        answer, failed = _answer(ask, desk)
        before.append(f"{task.tool}: {answer}")
        parts.append(_part(task, answer, failed=failed))
    if pending:
        desk.want(pending)
    return parts


def _agents(request: ModelRequest, desk: Desk) -> dict[str, str]:
    """Tools that delegate, with what they say of themselves."""
    found = {
        tool.name: tool.description
        for tool in request.tools
        if _DELEGATES.search(tool.description[:2_000]) and _takes_text(tool.parameters)
    }
    skills = desk.skills.described.items()
    return found | {name: said for name, said in skills if _DELEGATES.search(said[:2_000])}


def _takes_text(parameters: Mapping[str, Any]) -> bool:
    return any(name in as_schema(parameters.get("properties")) for name in _PARAMETERS)


def _parameter(parameters: Mapping[str, Any]) -> str:
    properties = as_schema(parameters.get("properties"))
    known = [name for name in _PARAMETERS if name in properties]
    needed = [name for name in known if name in listed(parameters.get("required"))]
    return (needed or known or ["prompt"])[0]


def _named(words: str, agents: Mapping[str, str]) -> str | None:
    """The agent that one or two words name."""
    said = [stem(word) for word in name_words(words[:100])]
    for count in (2, 1):
        wanted = set(said[:count])
        for tool in agents:
            stems = {stem(word) for word in name_words(tool)}
            if wanted and (wanted <= stems or stems <= wanted):
                return tool
    return None


def _task_start(match: re.Match[str], agents: Mapping[str, str]) -> int:
    """Return where the task begins: a second word that is no part of the name belongs to it."""
    words = match[1].split(" ")
    if len(words) == 2 and words[1].lower() not in ("agent", "subagent"):
        tool = _named(words[0], agents)
        stems = {stem(word) for word in name_words(tool or "")}
        if tool is not None and stem(words[1].lower()) not in stems:
            start = match.start(1) + len(words[0]) + 1
            return start + (3 if words[1].lower() == "to" else 0)
    return match.end()


def _answer(ask: Ask, desk: Desk) -> tuple[str, bool]:
    """The text of an answer, and whether the agent failed."""
    try:
        value = desk.once(ask)
    except OfflineCannot as failure:
        return failure.message, True
    if value is None:
        return "its answer is not there any more", True
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        status = fields.get("status")
        failed = isinstance(status, str) and status not in ("completed", "ok", "done", "success")
        for name in ("text", "answer", "result", "output", "summary", "message"):
            inner: Any = fields.get(name)
            if inner:
                return (inner if isinstance(inner, str) else figures.compact(inner)), failed
        return figures.compact(fields), failed
    return (value if isinstance(value, str) else figures.compact(value)), False


def _part(task: Handover, answer: str, *, failed: bool) -> Part:
    name = figures.code(task.tool)
    short = answer if len(answer) <= ANSWER_CHARS_MAX else answer[: ANSWER_CHARS_MAX - 2] + " …"
    flat = " ".join(short.split())
    said = f"{name} did not do it: {flat[:500]}" if failed else f"{name} answered: {flat}"
    return Part(
        title=f"Answer of {task.tool}",
        sentences=(said,),
        quotes=() if failed or "\n" not in short else (figures.block(short, "text"),),
        sources=(task.tool,),
        passages=() if failed else (short,),
    )
