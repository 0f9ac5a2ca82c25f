"""The tools of one place, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from artelier.errors import InvalidRequest, NotFound
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
