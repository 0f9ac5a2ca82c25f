"""The tools that a model is given instead of all skills: they load, explain, find and forget."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from artelier.artifacts.ref import substitute
from artelier.errors import ToolFailed
from artelier.kernel import Services
from artelier.ports.tool import ToolContext, ToolPort
from artelier.tools.function import Tool, tool
from artelier.tools.skills.approval import usable_tools
from artelier.tools.skills.listing import Listing, render, short_line
from artelier.tools.skills.skill import Skill, TenantSkills, run_code
from artelier.tools.skills.view import pin_of

# --------------------------------------------------------------------------- ranking
# The ranking of skills for a query: rare words weigh more, and more again if they are in a name.


QUERY_CHARS_MAX = 400
TEXT_CHARS_MAX = 4_000
"""Of one skill's instructions that are looked at."""
NAME_WEIGHT, DESCRIPTION_WEIGHT = 6, 3
"""A guess: what a skill is called says most about it."""

_WORD = re.compile(r"[a-z0-9]+")
_EMPTY = frozenset(
    "a an and are as at be by can do for from has have how i in into is it me my of on or our please"
    " s that the their this to want was we what when where which who with you your".split()
)


def best(query: str, skills: Sequence[Skill], *, limit: int) -> list[dict[str, str]]:
    """The skills that a query fits best, as `{name, line}`; BM25 without its length term's default."""
    wanted = set(_words(query[:QUERY_CHARS_MAX]))
    weights = [_weights(skill) for skill in skills]
    have = Counter(word for one in weights for word in one.keys() & wanted)
    rare = {word: math.log(1 + (len(skills) - count + 0.5) / (count + 0.5)) for word, count in have.items()}
    scored = [
        (sum(rare[word] * one[word] / (one[word] + 2.0) for word in one.keys() & wanted), skill)
        for one, skill in zip(weights, skills, strict=True)
    ]
    found = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].name))
    return [
        {"name": skill.name, "line": short_line(skill.name, skill.definition.description, many=False)}
        for _, skill in found[:limit]
    ]


def _weights(skill: Skill) -> Counter[str]:
    definition = skill.definition
    counts: Counter[str] = Counter(_words(definition.instructions[:TEXT_CHARS_MAX]))
    for word in _words(skill.name):
        counts[word] += NAME_WEIGHT
    for word in _words(definition.description):
        counts[word] += DESCRIPTION_WEIGHT
    return counts


def _words(text: str) -> list[str]:
    """Lower-case words that say something, without the endings of English plurals and participles."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _EMPTY]


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word.removesuffix("ies") + "y"
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


# --------------------------------------------------------------------------- meta tools


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
            raise _unknown(name, [one.name for one in shelf.skills.values() if _is_shown(one)])
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


def _is_shown(skill: Skill) -> bool:
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


def skill_tool(catalog: Catalog, services: Services, listing: Listing) -> Tool[..., object]:
    """Return the one tool behind which the skills of some folders stand, for loops that list none.

    Its description names the active skills, as far as a description may be long.
    """
    desk = _SkillLookup(catalog, services)
    lines = [one.line for one in listing.skills if one.status == "active"]
    text = render("skill-tool-1.md", skills="; ".join(lines) or "none")

    @tool(side_effect=False, description=text)
    async def skill(name: str, context: ToolContext, file: str = "") -> dict[str, Any]:
        found = await desk.skill(name, context)
        if not file:
            return await desk.value(found, context)
        if found.found.read_file is None:
            raise ToolFailed(f"the skill `{name}` has no files")
        return {"skill": name, "path": file, "text": await found.found.read_file(file)}

    return skill


def _load(desk: _SkillLookup) -> Tool[..., object]:
    @tool(side_effect=False)
    async def load_skill(skill_name: str, context: ToolContext) -> dict[str, Any]:
        """Get a skill's instructions, its schema and an example."""
        return await desk.value(await desk.skill(skill_name, context), context)

    return load_skill


def _use(desk: _SkillLookup) -> Tool[..., object]:
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


def _unload(desk: _SkillLookup) -> Tool[..., object]:
    @tool(side_effect=False, trust="trusted")
    async def unload_skill(skill_name: str, context: ToolContext) -> dict[str, Any]:
        """Forget a loaded skill that is no longer needed."""
        shelf = await desk.catalog.shelf(desk.services, context.tenant_id)
        if skill_name not in shelf.skills:
            raise _unknown(skill_name, [one.name for one in shelf.skills.values() if _is_shown(one)])
        return {"skill": skill_name, "unloaded": True}

    return unload_skill


def _read(desk: _SkillLookup) -> Tool[..., object]:
    @tool(side_effect=False)
    async def read_skill_file(skill_name: str, path: str, context: ToolContext) -> dict[str, Any]:
        """Read a text file that belongs to a skill."""
        skill = await desk.skill(skill_name, context)
        if skill.found.read_file is None:
            raise ToolFailed(f"the skill `{skill_name}` has no files")
        return {"skill": skill_name, "path": path, "text": await skill.found.read_file(path)}

    return read_skill_file


def _search(desk: _SkillLookup) -> Tool[..., object]:
    @tool(side_effect=False)
    async def search_skills(query: str, context: ToolContext) -> dict[str, Any]:
        """Find skills by what they are for."""
        shelf = await desk.catalog.shelf(desk.services, context.tenant_id)
        active = [one for one in shelf.skills.values() if one.status == "active"]
        return {"query": query[:200], "skills": best(query, active, limit=FOUND_MAX)}

    return search_skills
