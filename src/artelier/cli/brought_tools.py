"""Tools that a person brings on the command line: files of Python, folders of skills, and MCP servers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.cli.display import Screen
    from artelier.cli.settings.settings import Settings
    from artelier.plugins import Plugins
    from artelier.ports.tool import ToolPort

ToolFiles = Annotated[
    list[str] | None, typer.Option("--tools", metavar="FILE", help="Python file of tools; repeatable.")
]
SkillFolders = Annotated[
    list[str] | None,
    typer.Option("--skills", metavar="DIR", help="Folder with a SKILL.md, or of such folders; repeatable."),
]
McpServers = Annotated[
    bool | None,
    typer.Option(
        "--approve-mcp/--no-mcp",
        help="Approve the servers of ./.mcp.json and settings unasked, or leave them out.",
    ),
]
MCP_FILE = ".mcp.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtTools:
    """The tools that one command was given."""

    files: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    has_servers: bool = False
    """Whether the command uses the MCP servers of its folder and of the settings."""
    approves_servers: bool = False
    """Whether those that nobody has approved yet are approved by the command itself."""
    workspaces: tuple[str, ...] = ()
    """Folders in which agents can write: no file of servers is read there."""

    @classmethod
    def of(
        cls,
        files: Iterable[str] | None,
        skills: Iterable[str] | None = None,
        *,
        mcp: bool | None = None,
        workspaces: Iterable[str] = (),
    ) -> BroughtTools:
        """The tools of a command that works. `mcp`: see `McpServers`."""
        return cls(
            files=tuple(files or ()),
            skills=tuple(skills or ()),
            has_servers=mcp is not False,
            approves_servers=mcp is True,
            workspaces=tuple(workspaces),
        )

    @property
    def words(self) -> list[str]:
        """The options that bring them again, for a command line that goes on with a run."""
        options = (("--tools", self.files), ("--skills", self.skills))
        return [word for option, values in options for value in values for word in (option, value)]

    @asynccontextmanager
    async def open(
        self, screen: Screen, settings: Settings, plugins: Plugins
    ) -> AsyncGenerator[list[ToolPort]]:
        """Give the tools that stand before a kernel is opened.

        Errors: those of `open_tool_files` and of `open_servers`.
        """
        async with AsyncExitStack() as stack:
            tools: list[ToolPort] = []
            if self.files:
                from artelier.tools.adapters import open_tool_files

                tools = await stack.enter_async_context(open_tool_files(self.files, plugins=plugins))
            if self._names_servers(settings):
                from artelier.cli.work.mcp_servers import open_servers
                from artelier.tools.function import SHIPPED

                taken = {*SHIPPED, *(tool.name for tool in tools)}
                tools += await open_servers(
                    screen,
                    settings.mcp_servers,
                    stack,
                    approves=self.approves_servers,
                    workspaces=self.workspaces,
                    taken=taken,
                )
            yield tools

    def _names_servers(self, settings: Settings) -> bool:
        """Return True if there is anything to read, so that nothing is loaded for nothing."""
        if not self.has_servers:
            return False
        folders = (Path.cwd(), *map(Path, self.workspaces))
        return bool(settings.mcp_servers) or any((one / MCP_FILE).exists() for one in folders)

    async def add_skills(self, kernel: Kernel, tenant: str) -> list[str]:
        """Give the kernel the tool `skill`, over the folders; the names of parked skills.

        Errors: `NotFound` for a folder that is not there; `InvalidRequest` for one without a skill.
        """
        if not self.skills:
            return []
        from artelier.tools.skills.catalog import SkillCatalog
        from artelier.tools.skills.meta_tools import skill_tool

        catalog = SkillCatalog(self.skills)
        listing = await catalog.listing(kernel.services, tenant)
        kernel.add_tool(skill_tool(catalog, kernel.services, listing))
        return [one.name for one in listing.skills if one.status == "parked"]
