"""The table of all actions, generated from their classes; `docs/actions.md` is compared with it by a test."""

from __future__ import annotations

from typing import Any

from artelier.world.actions.action import ACTION_BYTES_MAX, ACTIONS
from artelier.world.actions.schema import meaning, schema_of


def actions_page() -> str:
    """Markdown: each action with its fields, their types and bounds, and its meaning."""
    lines = [
        "# Actions",
        "",
        "What an agent may do in a world, one per tick. Generated from the classes in "
        "`artelier.world.actions`;",
        "`make docs` writes it, a test compares it. A reply is one JSON object with `action`, `reasoning`",
        f"(text, may be left out) and the fields below, at most {ACTION_BYTES_MAX // 1024} KiB. A field",
        "with `?` may be left out. What is no valid action becomes a `rejected` event whose reason the",
        "agent reads at its next tick.",
        "",
        "| action | fields | meaning |",
        "|---|---|---|",
    ]
    for name, cls in ACTIONS.items():
        lines.append(f"| `{name}` | {_fields(schema_of(name))} | {meaning(cls)} |")
    return "\n".join(lines) + "\n"


def _fields(schema: dict[str, Any]) -> str:
    return "<br>".join(
        f"`{field}{'' if field in schema['required'] else '?'}` {_type(shape)}".rstrip()
        for field, shape in schema["properties"].items()
        if field not in ("action", "reasoning")
    )


def _type(shape: dict[str, Any]) -> str:
    if "anyOf" in shape:
        kinds = " or ".join(_type({**kind, "description": ""}) for kind in shape["anyOf"])
        return _describe(kinds, shape)
    if "enum" in shape:
        return " ".join(f"`{value}`" for value in sorted(shape["enum"]))
    kind = str(shape.get("type", "any JSON"))
    if kind == "object" and shape.get("properties"):
        kind = "{" + ", ".join(shape["properties"]) + "}"
    if "minimum" in shape:
        kind += f" {shape['minimum']} to {shape['maximum']}"
    elif "maxLength" in shape:
        kind += f", at most {shape['maxLength']} characters"
    return _describe(kind, shape)


def _describe(kind: str, shape: dict[str, Any]) -> str:
    text = shape.get("description", "")
    inner = [kind["description"] for kind in shape.get("anyOf", ()) if kind.get("description")]
    text = text or (inner[0] if inner else "")
    return f"{kind} ({text})" if text else kind
