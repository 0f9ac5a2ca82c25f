"""A skill as the catalogue holds it for one tenant, and what loading it says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any, cast

from artelier.errors import InvalidArguments
from artelier.ports.sandbox import SandboxLimits
from artelier.ports.tool import ToolPort
from artelier.sandbox import MontySandbox
from artelier.tools.skills.listing import CALL_WITH, example_of, worked_example
from artelier.tools.skills.source import SKILL_FILE, Definition, FoundSkill

# --------------------------------------------------------------------------- skill names
# The name that models use for a skill: its own, or with its source's name where two have the same.


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

NAME_CHARS_MAX = 64


class SkillNames:
    """Names that are given once and stay: a name that became free is not given to another skill."""

    def __init__(self, taken: SkillNames | None = None) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self._above = taken

    def give(self, source: str, name: str, *, hide: bool = False) -> str:
        """The name of a skill. `hide`: do not show its own, which would be read by a model."""
        key = (source, name)
        above = self._above
        if key not in self._given or (above is not None and above.has(self._given[key])):
            chosen = self._choose(source, name, hide=hide)
            self._given[key] = chosen
            self._taken.add(chosen)
        return self._given[key]

    def has(self, name: str) -> bool:
        """Return True if this name is given to some skill."""
        return name in self._taken

    def _choose(self, source: str, name: str, *, hide: bool) -> str:
        mark = sha256(f"{source}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
        if hide or not _NAME.fullmatch(name):
            return f"unnamed-{mark}"
        if not self._is_taken(name):
            return name
        prefix = re.sub(r"[^A-Za-z0-9]+", "_", source.rpartition("/")[2].rpartition(":")[2])
        longer = f"{prefix.strip('_')[:20] or 'other'}__{name}"[:NAME_CHARS_MAX]
        return longer if not self._is_taken(longer) else f"{name[:54]}__{mark}"

    def _is_taken(self, name: str) -> bool:
        return self.has(name) or (self._above is not None and self._above.has(name))


# --------------------------------------------------------------------------- skill


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

    def _example(self) -> object:
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


# --------------------------------------------------------------------------- code
# Skills with code: it runs in the sandbox, with no files, no network and no tools; it can only answer.


LIMITS = SandboxLimits(time_ms=2_000, memory_bytes=64 * 1024 * 1024)
DEPTH_MAX = 8

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@cache
def _sandbox() -> MontySandbox:
    """One pool for all skills, started with the first call."""
    return MontySandbox()


async def run_code(skill: Skill, arguments: dict[str, Any], *, at_us: int) -> dict[str, Any]:
    """The value of the code's last expression, with `arguments` as its one input.

    Errors: `InvalidArguments`, `SandboxError`.
    """
    problem = misfit(arguments, skill.definition.parameters or {}, where="arguments")
    if problem:
        raise InvalidArguments(
            f"arguments of `{skill.name}` do not fit: {problem}",
            hint=f"load_skill('{skill.name}') shows the schema.",
        )
    result = await _sandbox().run(
        skill.definition.code, inputs={"arguments": arguments}, limits=LIMITS, at_us=at_us
    )
    return {"skill": skill.name, "value": result.value, "printed": result.printed}


def misfit(value: object, schema: Mapping[str, Any], *, where: str, depth: int = 0) -> str:
    """Return what does not fit, or nothing.

    Types, required and unknown keys and choices are checked; the rest is up to the code itself.
    """
    if depth > DEPTH_MAX:
        return f"{where} is too deep"
    kinds = schema.get("type")
    names = cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds] if kinds else []
    if names and not any(_is(value, str(name)) for name in names):
        return f"{where} is no {' or '.join(map(str, names))}"
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        return f"{where} is none of its choices"
    if isinstance(value, dict):
        return _object_misfit(cast("dict[str, Any]", value), schema, where=where, depth=depth)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        for number, one in enumerate(cast("list[Any]", value)):
            inner = cast("dict[str, Any]", items)
            if problem := misfit(one, inner, where=f"{where}[{number}]", depth=depth + 1):
                return problem
    return ""


def _object_misfit(value: dict[str, Any], schema: Mapping[str, Any], *, where: str, depth: int) -> str:
    required: list[Any] = schema.get("required") or []
    missing = [str(key) for key in required if key not in value]
    if missing:
        return f"{where} lacks {', '.join(missing[:5])}"
    properties: dict[str, Any] = schema.get("properties") or {}
    for key, one in value.items():
        if key in properties:
            if problem := misfit(one, properties[key], where=f"{where}.{key}", depth=depth + 1):
                return problem
        elif schema.get("additionalProperties") is False:
            return f"{where} has no key {key[:40]!r}"
    return ""


def _is(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, (object,)))
