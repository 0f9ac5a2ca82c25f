"""The memory of an old agent: its working memory, and an empty store for the long term."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from artelier_migrate.format.diagnostics import Notes
from artelier_migrate.format.document import Fields, YamlNode
from artelier_migrate.specification import Specification

ENTRIES_MAX = 1000

_SETTINGS = ("max_entries", "auto_prune", "embedder", "dims")
_HABITS = ("enabled", "auto_inject", "include_in_rag", "max_size_bytes")
"""Of a working memory: it is always shown, within a limit of its own."""


class Memories(NamedTuple):
    """Both memories, and whether the agent looks things up in the long one."""

    artifacts: tuple[Specification, Specification]
    remembers: bool
    rag: dict[str, Any]
    """Settings of the search that are only kept."""


def read_memories(id: str, fields: Fields, notes: Notes) -> Memories:
    """The memories of the agent `id` by `memory`, `working_memory` and `rag`."""
    return _MemoryReader(fields, notes).memories(id)


class _MemoryReader:
    def __init__(self, fields: Fields, notes: Notes) -> None:
        self._fields = fields
        self._notes = notes
        self._config: dict[str, Any] = {"max_entries": ENTRIES_MAX, "auto_prune": "oldest"}
        self._working: dict[str, Any] = {
            "goal": "",
            "progress": "",
            "lessons": [],
            "objectives": [],
            "facts": {},
        }
        self._rag: dict[str, Any] = {}

    def memories(self, id: str) -> Memories:
        remembers = self._searches()
        node = self._fields.take("memory")
        if node is not None and node.members:
            fields = Fields(node, "memory", self._notes)
            enabled = fields.take("enabled")
            remembers = remembers and (enabled is None or enabled.value is not False)
            self._settings(fields)
            self._take_working(fields, "working", "working_memory")
            fields.report_left()
        elif node is not None and isinstance(node.value, bool):
            remembers = remembers and node.value
        elif node is not None:
            self._unused("expected a mapping", node, "memory")
        self._take_working(self._fields, "working_memory")
        working = Specification(
            id=f"{id}_working_memory", kind="document", content=self._working, access="private"
        )
        store = Specification(
            id=f"{id}_longterm_memory", kind="memory_store", content={"config": self._config}
        )
        return Memories((working, store), remembers, self._rag)

    def _searches(self) -> bool:
        """Return True if memories are looked up at each step."""
        node = self._fields.take("rag")
        if node is None or not node.members:
            return node is None or node.value is not False
        fields = Fields(node, "rag", self._notes)
        enabled = fields.take("enabled")
        for key in ("limit", "query_template"):
            if (given := fields.take(key)) is not None:
                self._rag[key] = given.plain()
                self._notes.add(
                    "kept",
                    "memories are looked up by state, goal and last result, five at a time",
                    line=given.line,
                    key=f"rag.{key}",
                )
        fields.report_left()
        return enabled is None or enabled.value is not False

    def _settings(self, fields: Fields) -> None:
        """Settings of the store, at the top of `memory` or below `longterm`."""
        nested = fields.take("longterm", "long_term", "config")
        places = [fields]
        if nested is not None and nested.members:
            places.append(Fields(nested, "memory.longterm", self._notes))
        elif nested is not None:
            self._unused("expected a mapping", nested, "memory.longterm")
        for place in places:
            for key in _SETTINGS:
                node = place.take(key)
                if node is not None and _fits(key, node.value):
                    self._config[key] = node.value
                elif node is not None:
                    self._unused("no such setting of a memory store", node, place.at(key))
            if place is not fields:
                place.report_left()

    def _take_working(self, fields: Fields, *names: str) -> None:
        node = fields.take(*names)
        if node is None:
            return
        if isinstance(node.value, str):
            self._working["goal"] = node.value.strip()
            return
        if not node.members:
            self._unused("expected text or a mapping", node, fields.at(names[0]))
            return
        given: dict[str, Any] = {}
        for key, value in node.members.items():
            if key in _HABITS:
                self._unused("nothing here uses it", value, fields.at(f"{names[0]}.{key}"))
            else:
                given[key] = value.plain()
        facts: Any = given.pop("facts", {})
        own = cast("dict[str, Any]", facts) if isinstance(facts, dict) else {"facts": facts}
        known = {key: given.pop(key) for key in self._working if key in given}
        # What it kept under names of its own, conditions find as facts.
        self._working = {**self._working, **known, "facts": {**given, **own}}

    def _unused(self, text: str, node: YamlNode, key: str) -> None:
        self._notes.add("unused", text, line=node.line, key=key)


def _fits(key: str, value: Any) -> bool:
    if key in ("max_entries", "dims"):
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10**9
    if key == "auto_prune":
        return value in ("oldest", "lowest_score")
    return isinstance(value, str)
