"""The conversation so far: what is asked, and what tools have answered to which call.

The rules ask a `Desk` for the answer of a tool as if it were there. The first answer that is missing ends
the attempt with `Wanted`, which becomes the next tool call; the next request holds the answer, and the
rules run again from their start. So the model keeps no state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.ports.model import ChatMessage, ModelRequest, ToolCall
from artelier_offline.words import flat

CALLS_MAX = 2
"""A call that was made so often without an answer that can be read will not be answered."""
TEXT_CHARS_MAX = 200_000
"""Of a system text; the rest is not read."""
CHARS_PER_TOKEN = 4

MESSAGE_CHARS_MAX = 2_000_000
"""Of one message; the rest is not read."""
TURNS_MAX = 100
_SECTION = re.compile(r"#{1,2} (\S[^\n]{0,120})$")
_DATA = re.compile(r"<data\b([^>\n]{0,400})>$")
_SOURCE = re.compile(r'\bsource="([^"\n]{0,200})"')
_RESULT = re.compile(r"Result of iteration (\d{1,4})\b")
_TOOL = re.compile(r"(?:-|###) `?([A-Za-z_][\w./-]{0,79})`?(?:$|:)", re.M)
_TAIL = re.compile(r"\n[ \t]*\n(?=## [^\n]{1,80}(?:\n|$))")
_ASKING = re.compile(r"\b(?:question|task|request|goal|query|prompt|instructions?)\b", re.I)
_REPAIR = re.compile(
    r"Your reply (?:does not fit|was empty|was cut off)\b|Not done yet\. Before this can end\b"
    r"|What came with the task:"
)
"""Messages of an agent's loop that ask nothing new."""
_HEADING = re.compile(r"(#{1,6})\s+(.{1,100}?)\s*#*$|<([A-Za-z][\w -]{0,60})>$")
_ALONE = re.compile(r"\s*## [^\n]{1,80}\n")
_PAST = "Past Events Summary:"


class Wanted(Exception):
    """The answer of a tool is missing: the call to make now."""

    def __init__(self, tool: str, arguments: Mapping[str, Any]) -> None:
        super().__init__(tool)
        self.tool, self.arguments = tool, dict(arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that was made, and its answer as JSON data; None without a readable one."""

    tool: str
    arguments: Mapping[str, Any]
    answer: Any


class Desk:
    """The tools of a task and their answers. A tool that has answered counts although it is off by now."""

    def __init__(self, tools: Collection[str], calls: Sequence[Call]) -> None:
        self.tools = frozenset(tools) | {one.tool for one in calls}
        self.calls = calls

    def has(self, *tools: str) -> bool:
        return all(tool in self.tools for tool in tools)

    def require(self, *tools: str) -> None:
        """Errors: `OfflineCannot` that names the tools which cannot be called."""
        lacking = [tool for tool in tools if tool not in self.tools]
        if lacking:
            raise OfflineCannot(
                f"{' and '.join(lacking)} is needed and cannot be used",
                expected=", ".join(tools),
                got=", ".join(sorted(self.tools)[:50]) or "no tools",
                hint="Give the agent the workspace tools.",
            )

    def ask(self, tool: str, **arguments: Any) -> Any:
        """Return the answer of a call.

        Errors: `Wanted` if it was not made; `OfflineCannot` if it failed or its answer cannot be read.
        """
        made = [one for one in self.calls if one.tool == tool and _fits(one.arguments, arguments)]
        answer: Any = next((one.answer for one in reversed(made) if one.answer is not None), None)
        if answer is None:
            self.require(tool)
            if len(made) >= CALLS_MAX:
                raise OfflineCannot(f"{tool} was called {len(made)} times without an answer that can be read")
            raise Wanted(tool, arguments)
        fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        if fields.get("error"):
            raise OfflineCannot(f"the tool {tool} failed: {_message(fields['error'])}")
        if {"head", "total_chars"} <= set(fields):
            raise OfflineCannot(f"the answer of {tool} is too large to be read whole")
        return cast("Any", answer)


def _fits(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(given.get(name) == value for name, value in wanted.items())


def _message(error: object) -> str:
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
    return str(fields.get("message") or "no reason given")[:300]


def desk_of(request: ModelRequest) -> Desk:
    """Return the desk of an agent's conversation: the calls since its last question."""
    texts = {one.tool_call_id: one.text for one in request.messages if one.role == "tool"}
    after = request.messages[asked_at(request.messages) + 1 :]
    calls = [
        Call(tool=call.name, arguments=call.arguments, answer=json_in(body_of(texts.get(call.id, ""))))
        for message in after
        for call in message.tool_calls
    ]
    return Desk([tool.name for tool in request.tools], calls)


def tool_call(wanted: Wanted, request: ModelRequest) -> ToolCall:
    """Return a missing answer as a call with an id of its own."""
    made = [call.id for message in request.messages for call in message.tool_calls]
    numbers = [int(one[5:]) for one in made if re.fullmatch(r"call_\d{1,9}", one)]
    number = max([len(made), *numbers]) + 1
    return ToolCall(id=f"call_{number}", name=wanted.tool, arguments=wanted.arguments)


def json_in(text: str) -> Any:
    """Return the whole text as JSON, or the first object or list in it; None if there is none."""
    for start in sorted(at for at in (text.find("{"), text.find("[")) if at >= 0):
        try:
            return json.JSONDecoder().raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
    return None


# Messages


def body_of(text: str) -> str:
    """Return a message without the volatile facts below it. Cost: linear."""
    said = re.search(r"\S", text)
    for match in _TAIL.finditer(text, said.start() if said else len(text)):
        if not _ASKING.search(text[match.end() : match.end() + 90].partition("\n")[0]):
            return text[: match.start()]
    return text


def asked_at(messages: Sequence[ChatMessage]) -> int:
    """Return where the last message stands in which a person asks something; -1 if nowhere."""
    users = [at for at, message in enumerate(messages) if message.role == "user"]
    for at in reversed(users):
        text = messages[at].text[:200]
        is_tail = at == len(messages) - 1 and at != users[0] and _ALONE.match(text)
        if not is_tail and not _REPAIR.match(text.lstrip()):
            return at
    return -1


def question_of(messages: Sequence[ChatMessage]) -> str:
    """Return what the last message of a person asks; empty if there is none."""
    at = asked_at(messages)
    return body_of(messages[at].text) if at >= 0 else ""


def system_texts(messages: Sequence[ChatMessage], *, past: bool = False) -> list[str]:
    """Return the system texts; with `past`, the summaries of compacted messages instead."""
    texts = [one.text[:TEXT_CHARS_MAX] for one in messages if one.role == "system"]
    return [text for text in texts if text[:200].lstrip().startswith(_PAST) is past]


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Return the headed parts of a text as title and lines, the smaller ones below included."""
    found: list[tuple[str, list[str]]] = []
    open_parts: list[tuple[int, list[str]]] = []
    for line in text[:TEXT_CHARS_MAX].splitlines():
        match = _HEADING.match(line.strip()) if len(line) <= 200 else None
        depth = len(match[1]) if match and match[1] else 6
        if match is not None:
            open_parts = [part for part in open_parts if part[0] < depth]
        for _, lines in open_parts:
            lines.append(line)
        if match is not None:
            found.append((match[2] or match[3], []))
            open_parts.append((depth, found[-1][1]))
    return found


def chars_max(request: ModelRequest) -> int | None:
    """Return how many characters the reply may have; None if nothing limits it."""
    tokens = request.params.get("max_output_tokens")
    return tokens * CHARS_PER_TOKEN if isinstance(tokens, int) and not isinstance(tokens, bool) else None


# Requests of missions


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A decision, and the text of its result."""

    decision: Mapping[str, Any]
    result: str

    @property
    def is_written(self) -> bool:
        """True if an artifact was made."""
        return self.decision.get("action") == "create_artifact" and not self.result.lstrip().startswith(
            "Nothing was written"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A text between fences, with the name of its source."""

    source: str
    text: str


class Prompt:
    """The content of a mission's request. Cost: linear in its text."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self._sections: list[tuple[str, str]] = []
        self.turns: list[Turn] = []
        decision: dict[str, Any] | None = None
        for message in request.messages:
            if message.role == "assistant":
                value = json_in(message.text)
                decision = cast("dict[str, Any]", value) if isinstance(value, dict) else None
                continue
            found = _marked(message.text[:MESSAGE_CHARS_MAX])
            self._sections += [one for one in found if not _RESULT.match(one[0])]
            results = [text for title, text in found if _RESULT.match(title)]
            if decision is not None and len(self.turns) < TURNS_MAX:
                said = results or [found[0][1] if found and not found[0][0] else ""]
                self.turns.append(Turn(decision=decision, result="\n\n".join(said)))
            decision = None

    def section(self, *titles: str, last: bool = False) -> str:
        """Return the text below the first of these headings; with `last`, below the last of that name."""
        for title in titles:
            found = [text.strip() for name, text in self._sections if name.lower() == title.lower()]
            if found:
                return found[-1 if last else 0]
        return ""

    def shown(self, title: str) -> list[Shown]:
        """Return the fenced texts of some sections."""
        return [one for name, text in self._sections if name.lower() == title.lower() for one in fences(text)]

    @property
    def tools(self) -> list[str]:
        """The names of the listed tools."""
        text = self.section("Tools", last=True)
        marked = [line for line in text.splitlines() if line.startswith("### ")]
        lines = marked or [line for line in text.splitlines() if line.startswith("- ")]
        return list(dict.fromkeys(match[1] for line in lines if (match := _TOOL.match(line[:4_000]))))

    @property
    def goal(self) -> str:
        """The text below the heading of the goal, with headings of its own."""
        for message in self.request.messages:
            if message.role == "user" and message.text.startswith("## Goal\n"):
                ends = [message.text.rfind(f"\n\n## {title}\n") for title in ("Workspace", "Tools")]
                end = min((one for one in ends if one >= 0), default=len(message.text))
                return message.text[len("## Goal\n") : end].strip()
        return self.section("Goal")

    def desk(self) -> Desk:
        """Return the tools of a task and what they answered to its decisions."""
        calls: list[Call] = []
        for turn in self.turns:
            tool, given = turn.decision.get("tool"), turn.decision.get("input")
            if turn.decision.get("action") == "use_tool" and isinstance(tool, str):
                arguments = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
                calls.append(Call(tool=tool, arguments=arguments, answer=_value(turn.result)))
        return Desk(self.tools, calls)


def _value(result: str) -> Any:
    for text in [*(one.text for one in fences(result)), result]:
        value = json_in(text)
        if value is not None:
            return value
    return {"error": {"message": flat(result, 300) or "no result"}}


def _marked(text: str) -> list[tuple[str, str]]:
    """Return the headed parts in order; what stands before the first heading has no title."""
    found: list[tuple[str, str]] = []
    title, lines, inside = "", list[str](), False
    for line in [*text.splitlines(), None]:
        match = None if inside or line is None else _SECTION.match(line[:200].rstrip())
        if match is not None or line is None:
            if title or any(one.strip() for one in lines):
                found.append((title, "\n".join(lines)))
            title, lines = match[1].strip() if match else "", []
            continue
        if not inside and _DATA.match(line.strip()[:500]):
            inside = True
        elif inside and line.strip() == "</data>":
            inside = False
        lines.append(line)
    return found


def fences(text: str) -> list[Shown]:
    """Return the fenced texts in order; one whose end was cut off goes to the end."""
    found: list[Shown] = []
    source, lines, inside = "", list[str](), False
    for line in text.splitlines():
        match = None if inside else _DATA.match(line.strip()[:500])
        if match is not None:
            named = _SOURCE.search(match[1])
            source, lines, inside = named[1] if named else "", [], True
        elif inside and line.strip() == "</data>":
            found.append(Shown(source=source, text="\n".join(lines)))
            inside = False
        elif inside:
            lines.append(line)
    return [*found, Shown(source=source, text="\n".join(lines))] if inside else found
