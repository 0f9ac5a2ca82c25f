"""The tools of one place, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from artelier.errors import InvalidConfig, InvalidRequest, NotFound
from artelier.plugins import TOOLS, PluginPoint
from artelier.ports.model import ToolSchema
from artelier.ports.tool import ToolPort


class ToolRegistry:
    """An unchanging set of tools, ordered by name: prompts and hashes don't depend on imports."""

    def __init__(self, tools: Iterable[ToolPort] = ()) -> None:
        """Errors: `InvalidRequest` if two tools share a name."""
        self._tools: dict[str, ToolPort] = {}
        for item in sorted(tools, key=lambda each: each.name):
            if item.name in self._tools:
                raise InvalidRequest(
                    f"two tools are named `{item.name}`",
                    expected="one tool per name",
                    hint="Give one of them another name with @tool(name=...).",
                )
            self._tools[item.name] = item

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def get(self, name: str) -> ToolPort:
        """The tool of that name. Errors: `NotFound` that suggests a name that exists."""
        found = self._tools.get(name)
        if found is None:
            import difflib

            near = difflib.get_close_matches(str(name)[:64], self._tools, n=1)
            raise NotFound(
                "no such tool",
                expected=f"one of {', '.join(self._tools)[:500] or 'none'}",
                got=repr(name)[:100],
                hint=f"Did you mean `{near[0]}`?" if near else None,
            )
        return found

    def schemas(self, names: Iterable[str] | None = None) -> tuple[ToolSchema, ...]:
        """Return what a model sees of these tools (all of them by default), ordered by name."""
        chosen = self._tools if names is None else sorted(set(names))
        return tuple(self.get(name).schema for name in chosen)

    def __iter__(self) -> Iterator[ToolPort]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools


SHIPPED = frozenset(
    (
        *("ask_person", "calculator", "describe_tables", "http_json", "list_dir", "python", "query_sql"),
        *("read_file", "search_text", "write_file", "read_artifact", "delegate"),
        *("load_skill", "use_skill", "unload_skill", "read_skill_file", "search_skills"),
        *("core_memory_append", "core_memory_replace", "core_memory_search", "remember", "recall", "forget"),
        "history_search",
    )
)
"""Names of tools that Artelier gives to agents itself."""


def _accepted(name: str, loaded: Any) -> ToolPort:
    """Return the tool of a plugin, which must go by the name of its entry point: a list needs no import."""
    if not isinstance(getattr(loaded, "schema", None), ToolSchema):
        raise InvalidConfig(f"{name!r} is no tool", expected="a function with @tool", got=repr(loaded)[:80])
    if loaded.name != name:
        raise InvalidConfig("the tool has another name", expected=name, got=repr(loaded.name)[:80])
    return cast(ToolPort, loaded)


TOOL_POINT = PluginPoint(TOOLS, _accepted, taken=lambda: SHIPPED)
"""A tool of every run whose kernel allows the plugin."""
