"""Tools that a person brings on the command line: files of Python and folders of skills."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.plugins import Plugins
    from artelier.ports.tool import ToolPort

ToolFiles = Annotated[
    list[str] | None, typer.Option("--tools", metavar="FILE", help="Python file of tools; repeatable.")
]
SkillFolders = Annotated[
    list[str] | None,
    typer.Option("--skills", metavar="DIR", help="Folder with a SKILL.md, or of such folders; repeatable."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtTools:
    """The tools that one command was given."""

    files: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()

    @classmethod
    def of(cls, files: Iterable[str] | None, skills: Iterable[str] | None = None) -> BroughtTools:
        return cls(files=tuple(files or ()), skills=tuple(skills or ()))

    @property
    def words(self) -> list[str]:
        """The options that bring them again, for a command line that goes on with a run."""
        options = (("--tools", self.files), ("--skills", self.skills))
        return [word for option, values in options for value in values for word in (option, value)]

    @asynccontextmanager
    async def open(self, plugins: Plugins) -> AsyncGenerator[list[ToolPort]]:
        """Give the tools that stand before a kernel is opened. Errors: those of `open_tool_files`."""
        if not self.files:
            yield []
            return
        from artelier.tools.tool_file import open_tool_files

        async with open_tool_files(self.files, plugins=plugins) as tools:
            yield tools

    async def add_skills(self, kernel: Kernel, tenant: str) -> list[str]:
        """Give the kernel the tool `skill`, over the folders; the names of parked skills.

        Errors: `NotFound` for a folder that is not there; `InvalidRequest` for one without a skill.
        """
        if not self.skills:
            return []
        from artelier.tools.skills.catalog import SkillCatalog
        from artelier.tools.skills.prompt.meta_tools import skill_tool

        catalog = SkillCatalog(self.skills)
        listing = await catalog.listing(kernel.services, tenant)
        kernel.add_tool(skill_tool(catalog, kernel.services, listing))
        return [one.name for one in listing.skills if one.status == "parked"]
