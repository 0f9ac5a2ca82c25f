"""The tools that a model is given instead of all skills: they load, explain, find and forget."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Protocol

from artelier.artifacts.ref import substitute
from artelier.errors import ToolFailed
from artelier.kernel import Services
from artelier.ports.tool import ToolContext, ToolPort
from artelier.tools.function import Tool, tool
from artelier.tools.skills.approval.pins import pin_of
from artelier.tools.skills.approval.tool_filter import usable_tools
from artelier.tools.skills.code import run_code
from artelier.tools.skills.prompt.template import render
from artelier.tools.skills.ranking import best
from artelier.tools.skills.skill import Skill, TenantSkills

META_NAMES = frozenset(("load_skill", "use_skill", "unload_skill", "search_skills", "read_skill_file"))
FOUND_MAX = 10
NO_ARGUMENTS: dict[str, Any] = {}


class Catalog(Protocol):
    """The catalogue, as far as its tools need it."""

    async def shelf(self, services: Services, tenant: str) -> TenantSkills: ...

    def ports(self) -> Mapping[str, ToolPort]: ...


def meta_tools(
    catalog: Catalog, services: Services, *, with_files: bool, with_search: bool
) -> list[ToolPort]:
    """The tools of one catalogue, in a fixed order."""
    desk = _SkillLookup(catalog, services)
    tools = [_load(desk), _use(desk), _unload(desk)]
    if with_files:
        tools.append(_read(desk))
    if with_search:
        tools.append(_search(desk))
    return list(tools)


class _SkillLookup:
    """Finds skills for the tenant of a call."""

    def __init__(self, catalog: Catalog, services: Services) -> None:
        self.catalog = catalog
        self.services = services

    async def skill(self, name: str, context: ToolContext) -> Skill:
        """A skill that may be used now. Errors: `ToolFailed` that says what to do instead."""
        shelf = await self.catalog.shelf(self.services, context.tenant_id)
        name = substitute(name)
        skill = shelf.skills.get(name)
        if skill is None:
            raise _unknown(name, [one.name for one in shelf.skills.values() if _shown(one)])
        status = skill.status
        if skill.source != "functions" or status != "active":
            # A person may have decided since the listing.
            pin = await pin_of(self.services.store, context.tenant_id, skill.source, skill.definition.name)
            is_same = pin is not None and pin.hash == skill.hash
            status = pin.status if pin is not None and is_same else "parked"
        if status == "refused":
            raise ToolFailed(f"a person refused the skill `{name}`", hint="Go on without it.")
        if status != "active" or skill.definition.broken:
            raise ToolFailed(
                f"the skill `{name}` is parked: a person must approve it before it can be used",
                hint="Go on without it, and say that it waits for approval.",
            )
        return skill

    async def value(self, skill: Skill, context: ToolContext) -> dict[str, Any]:
        usable: frozenset[str] = frozenset()
        if skill.definition.allowed_tools is not None:
            known = {**self.services.tools, **self.catalog.ports()}
            usable = await usable_tools(self.services.store, context.tenant_id, known)
        return skill.value(usable=usable)


def _shown(skill: Skill) -> bool:
    return skill.status != "refused"


def _unknown(name: str, names: list[str]) -> ToolFailed:
    near = difflib.get_close_matches(name[:64], names, n=3, cutoff=0.5)
    near += [one for one in names if name and len(name) > 2 and name.lower() in one.lower()][:3]
    near = list(dict.fromkeys(near))[:3]
    if near:
        hint = "Did you mean " + " or ".join(f"`{one}`" for one in near) + "?"
    else:
        hint = "Use a name of the list of skills."
    return ToolFailed(f"there is no skill named {name[:64]!r}", hint=hint)


def _load(desk: _SkillLookup) -> Tool[..., Any]:
    @tool(side_effect=False)
    async def load_skill(skill_name: str, context: ToolContext) -> dict[str, Any]:
        """Get a skill's instructions, its schema and an example."""
        return await desk.value(await desk.skill(skill_name, context), context)

    return load_skill


def _use(desk: _SkillLookup) -> Tool[..., Any]:
    @tool(side_effect=False)
    async def use_skill(
        name: str, context: ToolContext, arguments: dict[str, Any] = NO_ARGUMENTS
    ) -> dict[str, Any]:
        """Call a loaded skill with the arguments of its schema."""
        skill = await desk.skill(name, context)
        if skill.definition.code:
            # It may run without being loaded first: in its sandbox it can do nothing but answer.
            return await run_code(skill, arguments, at_us=desk.services.clock.now_us())
        # The loop dispatches the tool of a loaded skill itself; whatever arrives here runs nothing.
        note = "not-executed-1.md" if skill.is_callable else "instructions-1.md"
        value = await desk.value(skill, context)
        return {**value, "executed": False, "note": render(note)}

    return use_skill


def _unload(desk: _SkillLookup) -> Tool[..., Any]:
    @tool(side_effect=False, trust="trusted")
    async def unload_skill(skill_name: str, context: ToolContext) -> dict[str, Any]:
        """Forget a loaded skill that is no longer needed."""
        shelf = await desk.catalog.shelf(desk.services, context.tenant_id)
        if skill_name not in shelf.skills:
            raise _unknown(skill_name, [one.name for one in shelf.skills.values() if _shown(one)])
        return {"skill": skill_name, "unloaded": True}

    return unload_skill


def _read(desk: _SkillLookup) -> Tool[..., Any]:
    @tool(side_effect=False)
    async def read_skill_file(skill_name: str, path: str, context: ToolContext) -> dict[str, Any]:
        """Read a text file that belongs to a skill."""
        skill = await desk.skill(skill_name, context)
        if skill.found.read_file is None:
            raise ToolFailed(f"the skill `{skill_name}` has no files")
        return {"skill": skill_name, "path": path, "text": await skill.found.read_file(path)}

    return read_skill_file


def _search(desk: _SkillLookup) -> Tool[..., Any]:
    @tool(side_effect=False)
    async def search_skills(query: str, context: ToolContext) -> dict[str, Any]:
        """Find skills by what they are for."""
        shelf = await desk.catalog.shelf(desk.services, context.tenant_id)
        active = [one for one in shelf.skills.values() if one.status == "active"]
        return {"query": query[:200], "skills": best(query, active, limit=FOUND_MAX)}

    return search_skills
