"""The action schema as others see it: a JSON schema, a list of tools, and a text for the prompt."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from copy import deepcopy
from functools import lru_cache
from importlib.resources import files
from typing import Any, cast

import msgspec

from artelier.errors import InvalidRequest
from artelier.ports.model import ToolSchema
from artelier.world.actions.action import ACTIONS, Action


def choose_actions(names: Collection[str] | None) -> dict[str, type[Action]]:
    """The named actions in their order; None is all. Errors: `InvalidRequest` for an unknown name."""
    if names is None:
        return ACTIONS
    if unknown := sorted(set(names) - set(ACTIONS)):
        raise InvalidRequest("no such action", expected=", ".join(ACTIONS), got=unknown[0][:80])
    return {name: cls for name, cls in ACTIONS.items() if name in names}


def meaning(cls: type[Action]) -> str:
    """The sentence that explains an action."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split())


def schema_of(name: str) -> dict[str, Any]:
    """JSON schema of one action, `action` included, without references."""
    return deepcopy(_schemas()[name])


def action_schema(names: Collection[str] | None = None) -> dict[str, Any]:
    """JSON schema of a model's reply: one of the actions."""
    return {"oneOf": [schema_of(name) for name in choose_actions(names)]}


def action_tools(names: Collection[str] | None = None) -> tuple[ToolSchema, ...]:
    """Each action as a tool; `action_from_call` reads the calls."""
    tools: list[ToolSchema] = []
    for name, cls in choose_actions(names).items():
        schema = schema_of(name)
        del schema["properties"]["action"]
        schema["required"] = [field for field in schema["required"] if field != "action"]
        tools.append(ToolSchema(name=name, description=meaning(cls), parameters=schema))
    return tuple(tools)


def actions_prompt(names: Collection[str] | None = None) -> str:
    """Return what a prompt says about acting: the shape of the reply, and a line for each action."""
    lines = [
        f"- `{_signature(name)}`: {meaning(cls).removesuffix('.')}."
        for name, cls in choose_actions(names).items()
    ]
    return _wording().replace("<actions>", "\n".join(lines))


def _signature(name: str) -> str:
    """`write(artifact_id, content, kind?)`: optional fields carry a mark."""
    schema = _schemas()[name]
    fields = [
        field if field in schema["required"] else f"{field}?"
        for field in schema["properties"]
        if field not in ("action", "reasoning")
    ]
    return f"{name}({', '.join(fields)})"


@lru_cache(maxsize=1)
def _wording() -> str:
    text = (files("artelier.world.actions") / "templates" / "actions-1.md").read_text("utf-8")
    return text.strip()


@lru_cache(maxsize=1)
def _schemas() -> dict[str, dict[str, Any]]:
    shapes, parts = msgspec.json.schema_components(ACTIONS.values(), ref_template="{name}")
    result: dict[str, dict[str, Any]] = {}
    for name, shape in zip(ACTIONS, shapes, strict=True):
        schema = cast("dict[str, Any]", _whole(shape, parts))
        for noise in ("title", "description"):
            schema.pop(noise, None)
        order = ("action", "reasoning")
        fields: dict[str, Any] = schema["properties"]
        schema["properties"] = {key: fields[key] for key in (*order, *fields) if key in fields}
        result[name] = schema
    return result


def _whole(schema: Any, parts: dict[str, Any]) -> Any:
    """References replaced by what they name: some providers resolve none. No type here holds itself."""
    if isinstance(schema, dict):
        given = cast("dict[str, Any]", schema)
        if "$ref" in given:
            return _whole(parts[given["$ref"]], parts)
        return {key: _whole(value, parts) for key, value in given.items()}
    if isinstance(schema, list):
        return [_whole(value, parts) for value in cast("list[Any]", schema)]
    return schema
