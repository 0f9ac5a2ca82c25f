"""Skills with code: it runs in the sandbox, with no files, no network and no tools; it can only answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from artelier.errors import InvalidArguments
from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox import MontySandbox
from artelier.tools.skills.skill import Skill

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


def misfit(value: Any, schema: Mapping[str, Any], *, where: str, depth: int = 0) -> str:
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


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, (object,)))
