"""Skills: tools that are listed by name, are loaded before their first use, and answer through one tool.

A plan asks for a tool by its name and does not know how it is reached. Here its call becomes `load_skill`
or `use_skill`, and a call of `use_skill` is read as a call of the tool behind it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.models.offline.turns import sections, system_texts
from artelier.ports.model import ModelRequest, ToolCall, ToolSchema

LOAD, USE, UNLOAD, SEARCH = "load_skill", "use_skill", "unload_skill", "search_skills"
FOUND_MAX = 200
"""Names read from the result of one search."""

_LINE = re.compile(r"\s*[-*+]\s+[`*]*([A-Za-z][\w./-]{0,79})[`*]*\s*(?:[:–—-]\s*(.*))?$")
_OPENED = re.compile(r"\s*(?:<skill name=\"([^\"\n]{1,80})\">|#{2,6}\s+`?([A-Za-z][\w./-]{0,79})`?)\s*$")
_ARGUMENT = re.compile(r"[\s_.-]+")


def plain(name: str) -> str:
    """The form in which names of skills and tools are compared."""
    return _ARGUMENT.sub("_", name).strip("_").lower()


class Skills:
    """The skills of one request: which are listed, and which are loaded."""

    def __init__(self, request: ModelRequest) -> None:
        tools = {tool.name: tool for tool in request.tools}
        self._load, self._use = tools.get(LOAD), tools.get(USE)
        self._search = tools.get(SEARCH)
        self.described: dict[str, str] = {}
        """Name to description, as listed."""
        self._by_tool: dict[str, str] = {}
        self._loaded: dict[str, dict[str, Any]] = {}
        self._failed: dict[str, str] = {}
        if self._load is not None and self._use is not None:
            for text in system_texts(request.messages):
                self._read(text)

    def _read(self, text: str) -> None:
        for section in sections(text):
            if "skill" not in section.title.lower():
                continue
            is_loaded = "loaded" in section.title.lower()
            for line in section.lines:
                opened = _OPENED.match(line[:200])
                if opened and (is_loaded or opened[1]):
                    self._loaded.setdefault(plain(opened[1] or opened[2]), {})
                elif not is_loaded and (listed := _LINE.match(line[:2_000])):
                    self._list(listed[1], listed[2] or "")

    def _list(self, name: str, description: str) -> None:
        self.described.setdefault(name, description)
        self._by_tool.setdefault(plain(name), name)

    def learn(self, calls: Sequence[ToolCall], answers: Mapping[str, Any]) -> None:
        """Take in what calls of `load_skill`, `unload_skill` and `search_skills` answered."""
        if self._load is None or self._use is None:
            return
        for call in calls:
            given: Any = call.arguments
            answer = answers.get(call.id)
            if call.name == SEARCH and answer is not None:
                for name, description in _names(answer):
                    self._list(name, description)
            if not isinstance(given, Mapping) or call.name not in (LOAD, USE, UNLOAD):
                continue
            values = cast(Mapping[str, Any], given).values()
            name = next((one for one in values if isinstance(one, str)), "")
            if call.name == UNLOAD:
                self._loaded.pop(plain(name), None)
            elif call.name == LOAD and answer is not None and not is_loading(answer):
                self._failed[plain(name)] = _reason(answer)
            elif is_loading(answer):
                fields = cast(dict[str, Any], answer)
                self._loaded[plain(name)] = fields
                self._list(name, "")
                if isinstance(fields.get("tool"), str):
                    self._by_tool.setdefault(plain(fields["tool"]), name)

    def skill_of(self, tool: str) -> str | None:
        """The skill behind which a tool stands, if one is listed."""
        return self._by_tool.get(plain(tool))

    def parameters(self, tool: str) -> Mapping[str, Any]:
        """The schema of a loaded skill's arguments, or nothing."""
        found = self._loaded.get(plain(self.skill_of(tool) or tool), {}).get("parameters")
        return cast(Mapping[str, Any], found) if isinstance(found, Mapping) else {}

    def is_loaded(self, skill: str) -> bool:
        return plain(skill) in self._loaded

    def search_for(self, tools: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
        """Calls that look for skills by name; none if there is nothing to search with."""
        if self._search is None or self._load is None or self._use is None:
            return []
        return [(SEARCH, {_parameter(self._search, "query"): tool}) for tool in tools]

    def call_of(self, skill: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The call that brings a skill's answer nearer: its use, or before that its loading.

        Errors: `OfflineCannot` if it was asked to load and did not.
        """
        assert self._load is not None and self._use is not None
        if not self.is_loaded(skill):
            if plain(skill) in self._failed:
                raise OfflineCannot(f"the skill {skill} does not load: {self._failed[plain(skill)]}")
            return LOAD, {_parameter(self._load, "skill_name", "name"): skill}
        name = _parameter(self._use, "name", "skill_name", "skill")
        return USE, {name: skill, "arguments": dict(arguments)}

    def behind(self, call: ToolCall) -> tuple[str, Any]:
        """The tool and the arguments that a call means; those of `use_skill` are inside it."""
        given: Any = call.arguments
        if call.name != USE or not isinstance(given, Mapping):
            return call.name, given
        fields = cast(Mapping[str, Any], given)
        name = next((one for key, one in fields.items() if key != "arguments" and isinstance(one, str)), "")
        inner: Any = fields.get("arguments")
        if isinstance(inner, str):
            try:
                inner = json.loads(inner)
            except (ValueError, RecursionError):
                inner = {}
        tool = self._loaded.get(plain(name), {}).get("tool")
        return tool if isinstance(tool, str) else name, inner


def is_loading(answer: Any) -> bool:
    """Return True if an answer brings a skill's instructions and schema rather than its result."""
    if not isinstance(answer, dict):
        return False
    fields = cast(dict[str, Any], answer)
    return "skill" in fields and fields.get("loaded") is True


def _reason(answer: Any) -> str:
    error = cast("dict[str, Any]", answer).get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict):
        return str(cast("dict[str, Any]", error).get("message", ""))[:300]
    return str(error)[:300] if error else "its answer is no skill"


def unwrapped(answer: Any) -> Any:
    """The tool's own result in the result of `use_skill`."""
    fields = cast(dict[str, Any], answer) if isinstance(answer, dict) else {}
    is_wrapped = len(fields) > 1 and set(fields) <= {"skill", "name", "tool", "result", "hash", "ok"}
    return fields["result"] if is_wrapped and "result" in fields else cast(Any, answer)


def _parameter(tool: ToolSchema, *names: str) -> str:
    """Return what the tool calls this parameter: one of the names, or its first."""
    properties: Any = tool.parameters.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return names[0]
    known = [str(name) for name in cast(Mapping[str, Any], properties)]
    return next((name for name in names if name in known), known[0])


def _names(answer: Any) -> list[tuple[str, str]]:
    """Names with descriptions, wherever they stand in the result of a search."""
    found: list[tuple[str, str]] = []
    waiting: list[Any] = [answer]
    while waiting and len(found) < FOUND_MAX:
        value = waiting.pop(0)
        if isinstance(value, dict):
            fields = cast(dict[str, Any], value)
            name = fields.get("name", fields.get("skill"))
            if isinstance(name, str):
                found.append((name, str(fields.get("description", ""))))
            waiting += [one for one in fields.values() if isinstance(one, list | dict)][:FOUND_MAX]
        elif isinstance(value, list):
            waiting += cast(list[Any], value)[:FOUND_MAX]
    return found
