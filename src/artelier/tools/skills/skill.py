"""A skill as the catalogue holds it for one tenant, and what loading it says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from artelier.ports.tool import ToolPort
from artelier.tools.skills.definition import SKILL_FILE, Definition
from artelier.tools.skills.prompt.example import example_of, worked_example
from artelier.tools.skills.prompt.loaded import CALL_WITH
from artelier.tools.skills.skill_names import SkillNames
from artelier.tools.skills.sources.source import FoundSkill


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A definition with the name that models use and what was decided about it."""

    name: str
    source: str
    hash: str
    status: str
    found: FoundSkill
    tool: ToolPort | None = None
    """What the kernel calls, already behind its gate."""

    @property
    def definition(self) -> Definition:
        return self.found.definition

    @property
    def is_callable(self) -> bool:
        """True if there is anything to run; else it is instructions to follow."""
        return self.tool is not None or bool(self.definition.code)

    def value(self, *, usable: Iterable[str]) -> dict[str, Any]:
        """Return what `load_skill` answers. `usable`: the names of tools that the tenant may use."""
        definition = self.definition
        value: dict[str, Any] = {
            "skill": self.name,
            "loaded": True,
            "hash": self.hash,
            "tool": self.tool.name if self.tool is not None else None,
            "instructions": definition.instructions,
            "parameters": definition.parameters,
            "example": self._example(),
            "files": [one.path for one in definition.files if one.path != SKILL_FILE],
            "call_with": CALL_WITH if self.is_callable else None,
            "trust": self.found.trust,
        }
        if definition.allowed_tools is not None:
            may = frozenset(usable)
            value["allowed_tools"] = [name for name in definition.allowed_tools if name in may]
        return value

    def _example(self) -> Any:
        if self.tool is not None:
            return worked_example(self.tool)
        parameters = self.definition.parameters
        return None if parameters is None else example_of(parameters)


@dataclass(slots=True)
class TenantSkills:
    """The skills of one tenant, as of its last listing."""

    skills: dict[str, Skill]
    """By the name that models use, refused ones included."""
    names: SkillNames
    """Of skills that only this tenant has."""
    heard: dict[str, tuple[FoundSkill, ...]] = field(default_factory=dict[str, "tuple[FoundSkill, ...]"])
    """What each source said last."""
