"""The sources of skills: tools of the developer and tools of servers.

A source only finds definitions. Whether one may be used is decided by its pin (`skills/approval/pins.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from artelier.kernel import Services
from artelier.ports.tool import ToolPort
from artelier.tools.function import Tool
from artelier.tools.skills.approval.injection_heuristics import suspicions
from artelier.tools.skills.definition import Definition, Origin

TOOLS_MAX = 1_000
"""Tools of one server; more are left out (a guess: the largest servers have some hundreds)."""
DEFINITION_BYTES_MAX = 128 * 1024
"""JSON of one tool's definition."""


@runtime_checkable
class ToolSource(Protocol):
    """A server of tools, such as an MCP server. What it says is not trusted."""

    name: str
    """Names the server in pins and events, such as `mcp:github`."""

    async def tools(self) -> Sequence[ToolPort]:
        """Its tools as they are now.

        Errors: an `ArtelierError` or `OSError` if it can't be asked; its tools stay what they were.
        """
        ...


ReadFile = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSkill:
    """A definition that a source has now."""

    definition: Definition
    tool: ToolPort | None = None
    """What is called behind it."""
    reasons: tuple[str, ...] = ()
    """Why a person should look at it first."""
    read_file: ReadFile | None = None
    trust: str = "untrusted"
    """Label of its text."""


class SkillSource(Protocol):
    """The interface of a source to the catalogue."""

    name: str
    shared: bool
    """Whether all tenants get the same from it."""

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]: ...


class Functions:
    """The developer's own tools: never parked, pinned anew when they change."""

    name = "functions"
    shared = True

    def __init__(self, tools: Sequence[ToolPort]) -> None:
        self.tools = tuple(tools)

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]:
        """All of them."""
        return self.find_all()

    def find_all(self) -> tuple[FoundSkill, ...]:
        """All of them, asked of nobody."""
        return tuple(
            FoundSkill(definition=define(tool, origin="function"), tool=tool, trust="trusted")
            for tool in self.tools
        )


class ServedTools:
    """The tools of a `ToolSource`."""

    shared = True

    def __init__(self, source: ToolSource) -> None:
        self.name = source.name
        self._source = source
        self._judged: dict[str, tuple[str, ...]] = {}
        """What was found in a definition, by its hash: most are the same in the next listing."""

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]:
        """Return what the server has now."""
        tools = await self._source.tools()
        found = [self._make_found(tool) for tool in tools[:TOOLS_MAX]]
        self._judged = {one.definition.hash: one.reasons for one in found}
        return found

    def _make_found(self, tool: ToolPort) -> FoundSkill:
        definition = define(tool, origin="tool")
        known = self._judged.get(definition.hash)
        if known is not None:
            return FoundSkill(definition=definition, tool=tool, reasons=known)
        return _judge(tool, definition)


def _judge(tool: ToolPort, definition: Definition) -> FoundSkill:
    if len(definition.canonical()) > DEFINITION_BYTES_MAX:
        cut = Definition(
            origin="tool",
            name=tool.name,
            raw=definition.description[:2_000],
            broken=f"its definition is larger than {DEFINITION_BYTES_MAX} bytes",
        )
        return FoundSkill(definition=cut, reasons=(cut.broken,))
    texts = [tool.name.replace("-", " ").replace("_", " "), definition.description]
    texts += schema_texts(definition.parameters)
    return FoundSkill(definition=definition, tool=tool, reasons=suspicions("\n".join(texts)))


def define(tool: ToolPort, *, origin: Origin) -> Definition:
    """The definition of a tool, from its schema and its whole docstring."""
    schema = tool.schema
    return Definition(
        origin=origin,
        name=tool.name,
        description=schema.description,
        instructions=_docstring(tool) or schema.description,
        parameters=schema.parameters,
        side_effect=tool.side_effect,
        idempotent=tool.idempotent,
        risk=tool.risk,
        fingerprint=_fingerprint(tool),
    )


def _fingerprint(tool: ToolPort) -> str:
    """Return the fingerprint of a tool that knows more than its port shows, such as an MCP tool."""
    mark = getattr(tool, "fingerprint", "")
    return mark if isinstance(mark, str) else ""


def _docstring(tool: ToolPort) -> str:
    return (inspect.getdoc(tool.function) or "").strip() if isinstance(tool, Tool) else ""


def schema_texts(node: Any, *, texts_max: int = 2_000) -> list[str]:
    """Every text of a JSON schema, keys included: all of it reaches a model."""
    found: list[str] = []
    pending = [node]
    while pending and len(found) < texts_max:
        here = pending.pop()
        if isinstance(here, str):
            found.append(here)
        elif isinstance(here, dict):
            fields = cast("dict[Any, Any]", here)
            pending += [*fields.keys(), *fields.values()]
        elif isinstance(here, list | tuple):
            pending += list(cast("list[Any]", here))
    return found
