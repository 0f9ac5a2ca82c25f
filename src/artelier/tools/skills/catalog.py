"""The catalogue of skills: asks its sources, lets pins decide, and offers what may be used.

A listing is made live and journaled by the caller; a replay needs neither sources nor this file's state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from artelier.errors import ArtelierError, InvalidRequest, ToolFailed
from artelier.kernel import Services
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Compensate, Reversible, Risk, ToolContext, ToolPort
from artelier.tools.function import Tool
from artelier.tools.skills.approval import PinVerdict, SkillCandidate, settle
from artelier.tools.skills.folder import ArtifactSkills, SkillFolder, SkillsIn, skills_at
from artelier.tools.skills.injection_heuristics import suspicions
from artelier.tools.skills.listing import MANY, Listing, SkillLine, loaded_text, short_line
from artelier.tools.skills.meta_tools import meta_tools
from artelier.tools.skills.skill import Skill, SkillNames, TenantSkills
from artelier.tools.skills.source import FoundSkill, Functions, ServedTools, SkillSource, ToolSource
from artelier.tools.skills.view import pin_of

# --------------------------------------------------------------------------- catalog runtime
# The place where a catalogue works: the kernel's services, known once it was asked for a listing.


class CatalogPlace:
    """The kernel that a catalogue serves; a later one takes the place of an earlier one."""

    def __init__(self) -> None:
        self._services: Services | None = None

    @property
    def services(self) -> Services:
        if self._services is None:
            raise InvalidRequest("this catalogue of skills was not opened", hint="Ask for its listing first.")
        return self._services

    def move(self, services: Services) -> bool:
        """Serve this kernel; True if the store is another one than before."""
        is_new = self._services is None or self._services.store is not services.store
        self._services = services
        return is_new


# --------------------------------------------------------------------------- pin guard
# A tool from outside, callable only while its definition is the one that this tenant may use.


class GatedTool:
    """The tool of a server under the name that models use.

    Its pin is read before every call: what was loaded while it was approved is not called any more after it
    has changed or was refused. Its results are untrusted, whatever it says. Whoever holds it sees the tool as
    of the last listing.
    """

    def __init__(self, tool: ToolPort, *, name: str, source: str, hash: str, place: CatalogPlace) -> None:
        self.name = name
        self.trust = "untrusted"
        self._source = source
        self._place = place
        self.become(tool, hash=hash)

    def become(self, tool: ToolPort, *, hash: str) -> None:
        """Take the definition that a listing has found now."""
        self.description = tool.description
        self.side_effect: bool = tool.side_effect
        self.idempotent: bool = tool.idempotent
        self.grant: str | None = tool.grant
        self.timeout_s: float | None = tool.timeout_s
        self.heartbeat_timeout_s: float | None = tool.heartbeat_timeout_s
        self.risk: Risk = tool.risk
        self._tool = tool
        self._hash = hash
        # Kept, so that what is shown, pinned and checked is one definition.
        schema = tool.schema
        self._schema = ToolSchema(
            name=self.name, description=schema.description, parameters=schema.parameters
        )

    @property
    def schema(self) -> ToolSchema:
        return self._schema

    def validate(self, arguments: object) -> dict[str, Any]:
        """Validate the arguments like the tool itself."""
        return self._tool.validate(arguments)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> object:
        """Call the tool itself. Errors: `ToolFailed`, before anything happened, for a parked definition."""
        tool, hash = self._tool, self._hash  # a listing may change both while the pin is read
        await self._check(context.tenant_id, tool.name, hash)
        return await tool.call(arguments, context)

    @property
    def probe(self) -> Callable[[str, dict[str, Any]], Awaitable[object]] | None:
        """The probe of the tool itself: asking what happened needs no new approval."""
        return self._tool.probe

    @property
    def compensate(self) -> Compensate | None:
        """The compensation of the tool itself: a completed call may be undone under any definition."""
        return self._tool.compensate if isinstance(self._tool, Reversible) else None

    async def _check(self, tenant: str, name: str, hash: str) -> None:
        pin = await pin_of(self._place.services.store, tenant, self._source, name)
        if pin is None or pin.status != "active" or pin.hash != hash:
            raise ToolFailed(
                f"the skill `{self.name}` may not be used as it is now",
                hint="Its definition waits for a person. Go on without it.",
            )


# --------------------------------------------------------------------------- catalog


SKILLS_MAX = 2_000
TENANTS_MAX = 1_024
"""Whose skills are held in memory; the one unused for longest is asked anew."""
ASK_TIMEOUT_S = 30.0
"""For one source."""

Source = ToolPort | SkillFolder | SkillsIn | ArtifactSkills | ToolSource | str | Path | Callable[..., Any]


class SkillCatalog:
    """Skills from many sources behind a handful of tools."""

    def __init__(self, sources: Iterable[Source]) -> None:
        """Shapes: a tool or function is a skill of the developer; a path is a folder with a SKILL.md, or one
        of such folders; anything with `tools()` is a server.
        Errors: `InvalidRequest` for two tools, or two sources, of one name, and for what is no source.
        """
        functions: list[ToolPort] = []
        others: list[SkillSource] = []
        for item in sources:
            made = _source_from(item)
            if isinstance(made, (SkillFolder, SkillsIn, ArtifactSkills, ServedTools)):
                others.append(made)
            else:
                functions.append(made)
        self._functions = Functions(functions)
        # Artifacts last: what one tenant wrote must not decide how a skill is called for all.
        self._sources: list[SkillSource] = [
            self._functions,
            *sorted(others, key=lambda source: not source.shared),
        ]
        _check_names(self._functions, self._sources)
        self._names = SkillNames()
        self._place = CatalogPlace()
        self._shelves: dict[str, TenantSkills] = {}
        self._ports: dict[str, ToolPort] = {}
        self._gates: dict[str, GatedTool] = {}
        for tool in self._functions.tools:
            self._ports[self._names.give(self._functions.name, tool.name)] = tool

    async def listing(self, services: Services, tenant: str) -> Listing:
        """Ask all sources, pin or park what is new or changed, and say what there is.

        A source that does not answer in time keeps what it had and is named in `silent`.
        Errors: those of the store; `InvalidRequest` for more than 2,000 skills.
        """
        if self._place.move(services):
            self._shelves.clear()
        shelf = self._shelves.pop(tenant, None) or TenantSkills({}, SkillNames(self._names))
        silent: list[str] = []
        for source in self._sources:
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    shelf.heard[source.name] = tuple(await source.find(services, tenant))
            except (ArtelierError, OSError, TimeoutError):
                silent.append(source.name)
        candidates = self._candidates(shelf)
        asked = [source.name for source in self._sources if source.name not in silent]
        verdicts = await settle(services, tenant, candidates, asked=asked)
        shelf.skills = {
            one.skill: self._skill(one, verdicts[one.source, one.found.definition.name]) for one in candidates
        }
        self._keep(tenant, shelf)
        return _listing(shelf, silent)

    def ports(self) -> Mapping[str, ToolPort]:
        """The tools behind skills, by name, as far as sources were asked.

        Grants, approvals and the two phases of a side effect stay the kernel's.
        """
        return dict(self._ports)

    def meta_tools(self, services: Services) -> list[ToolPort]:
        """`load_skill`, `use_skill`, `unload_skill`; `read_skill_file` if a source may have files, and
        `search_skills` if there are more than 30 skills."""
        self._place.move(services)
        has_files = any(isinstance(one, SkillFolder | SkillsIn) for one in self._sources)
        many = max([len(self._ports), *(len(one.skills) for one in self._shelves.values())])
        return meta_tools(self, services, with_files=has_files, with_search=many > MANY)

    def loaded_text(self, values: Iterable[Mapping[str, Any]]) -> str:
        """Loaded skills as text of a prompt, from the values that `load_skill` gave."""
        return loaded_text(values)

    async def shelf(self, services: Services, tenant: str) -> TenantSkills:
        """The skills of a tenant, asked for if they are not known yet."""
        known = self._shelves.get(tenant)
        if known is None or self._place.move(services):
            await self.listing(services, tenant)
            known = self._shelves[tenant]
        return known

    def _candidates(self, shelf: TenantSkills) -> list[SkillCandidate]:
        found: list[SkillCandidate] = []
        for source in self._sources:
            names = self._names if source.shared else shelf.names
            for one in _each_once(shelf.heard.get(source.name, ())):
                name = one.definition.name
                hide = one.definition.origin != "function" and _is_sentence(name)
                skill = names.give(source.name, name, hide=hide)
                found.append(SkillCandidate(source.name, skill, one.definition.hash, one))
        if len(found) > SKILLS_MAX:
            raise InvalidRequest("too many skills", expected=f"at most {SKILLS_MAX}", got=len(found))
        return found

    def _skill(self, one: SkillCandidate, verdict: PinVerdict) -> Skill:
        tool = one.found.tool
        if tool is not None and one.source != self._functions.name:
            tool = self._ports[one.skill] = self._gate(one, tool)
        return Skill(
            name=one.skill,
            source=one.source,
            hash=one.hash,
            status=verdict.status,
            found=one.found,
            tool=tool,
        )

    def _gate(self, one: SkillCandidate, tool: ToolPort) -> GatedTool:
        """One per name for good, so that whoever holds it sees what was listed last."""
        gate = self._gates.get(one.skill)
        if gate is None:
            gate = self._gates[one.skill] = GatedTool(
                tool, name=one.skill, source=one.source, hash=one.hash, place=self._place
            )
        gate.become(tool, hash=one.hash)
        return gate

    def _keep(self, tenant: str, shelf: TenantSkills) -> None:
        if len(self._shelves) >= TENANTS_MAX:
            del self._shelves[next(iter(self._shelves))]
        self._shelves[tenant] = shelf


def _listing(shelf: TenantSkills, silent: Sequence[str]) -> Listing:
    many = sum(skill.status == "active" for skill in shelf.skills.values()) > MANY
    lines: list[SkillLine] = []
    for name, skill in sorted(shelf.skills.items()):
        if skill.status == "active":
            line = short_line(name, skill.definition.description, many=many)
            lines.append(SkillLine(name=name, line=line, hash=skill.hash, status="active"))
        elif skill.status == "parked":
            lines.append(SkillLine(name=name, line="", hash=skill.hash, status="parked"))
    return Listing(skills=tuple(lines), silent=tuple(silent))


def _source_from(item: Source) -> ToolPort | SkillFolder | SkillsIn | ArtifactSkills | ServedTools:
    if isinstance(item, str | Path):
        return skills_at(item)
    if isinstance(item, SkillFolder | SkillsIn | ArtifactSkills):
        return item
    if isinstance(item, Tool):
        return cast("Tool[..., Any]", item)
    if isinstance(item, ToolSource):
        return ServedTools(item)
    if hasattr(item, "schema") and hasattr(item, "call") and hasattr(item, "validate"):
        return item  # pyright: ignore[reportReturnType] - a ToolPort by its shape
    if callable(item):
        return Tool(item)
    raise InvalidRequest(
        "not a source of skills",
        expected="a tool, a function, a folder, ArtifactSkills or a server with `tools()`",
        got=type(item).__name__,
    )


def _check_names(functions: Functions, sources: Sequence[SkillSource]) -> None:
    for what, names in (
        ("tools", [tool.name for tool in functions.tools]),
        ("sources of skills", [source.name for source in sources]),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidRequest(f"two {what} have one name", got=", ".join(twice)[:200])


def _each_once(found: Iterable[FoundSkill]) -> Iterable[FoundSkill]:
    """A source that has two of one name can't be pinned by name: the first counts."""
    return {one.definition.name: one for one in reversed(tuple(found))}.values()


def _is_sentence(name: str) -> bool:
    """Return True if a name alone would say something to a model."""
    return bool(suspicions(name.replace("-", " ").replace("_", " ")))
