"""What these tests stand on: a kernel in memory, calls as the kernel makes them, and a server of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from artelier import Kernel
from artelier.errors import ProviderUnavailable
from artelier.ports.tool import ToolPort
from artelier.tools import Tool
from artelier.tools.skills import Listing, SkillCatalog
from tests.tools.contexts import Recorder

T = TypeVar("T")

BODY = "# Fill PDF forms\n\nOpen the form, list its fields, fill them and save a copy.\n"


def play(scenario: Coroutine[Any, Any, T], *, within_s: float = 30.0) -> T:
    """Run a scenario to its end; one that hangs is a failure."""

    async def bounded() -> T:
        async with asyncio.timeout(within_s):
            return await scenario

    return asyncio.run(bounded())


class Server:
    """A source of tools whose tools a test changes."""

    def __init__(self, *tools: ToolPort, name: str = "mcp:desk") -> None:
        self.name = name
        self.has: list[ToolPort] = list(tools)
        self.is_down = False

    async def tools(self) -> Sequence[ToolPort]:
        if self.is_down:
            raise ProviderUnavailable("the server does not answer")
        return list(self.has)


def described(function: Any, **facts: Any) -> Tool[..., Any]:
    """A tool made at run time, so that its description can differ."""
    return Tool(function, **facts)


async def call(
    catalog: SkillCatalog, kernel: Kernel, name: str, /, *, tenant: str = "acme", **arguments: Any
) -> Any:
    """Call a meta-tool as the kernel does."""
    tools = {tool.name: tool for tool in catalog.meta_tools(kernel.services)}
    return await call_port(tools[name], tenant=tenant, **arguments)


async def call_port(port: ToolPort, /, *, tenant: str = "acme", **arguments: Any) -> Any:
    context = Recorder().context()
    context.tenant_id = tenant
    return await port.call(port.validate(arguments), context)


def statuses(listing: Listing) -> dict[str, str]:
    return {one.name: one.status for one in listing.skills}


async def kinds(kernel: Kernel, tenant: str = "acme") -> list[str]:
    """The kinds of a tenant's events about skills, in order."""
    return [
        event.kind
        async for event in kernel.events()
        if event.stream.tenant == tenant and event.kind.startswith("skill.")
    ]


def write_skill(
    root: Path,
    name: str = "pdf-forms",
    *,
    description: str = "Fill PDF forms from a table of values.",
    more: str = "",
    body: str = BODY,
    files: dict[str, str] | None = None,
) -> Path:
    """A folder with a SKILL.md."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    head = f"---\nname: {name}\ndescription: {description}\n{more}---\n"
    (folder / "SKILL.md").write_text(head + body, encoding="utf-8")
    for path, text in (files or {}).items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder
