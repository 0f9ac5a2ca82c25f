"""The least that a request body of our OpenAPI document may hold, made from its schema."""

from __future__ import annotations

from typing import Any

TEXTS = {"goal": "g", "budget_usd": "1", "media": "text"}


def filled(spec: dict[str, Any], document: dict[str, Any]) -> Any:
    """A body that fits an operation; None if it takes none in JSON."""
    content = spec.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        return None
    return _value(content["application/json"]["schema"], document, name="")


def _value(schema: dict[str, Any], document: dict[str, Any], *, name: str) -> Any:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "default" in schema:
        return schema["default"]
    for chosen in ("const", "enum"):
        if chosen in schema:
            return schema[chosen] if chosen == "const" else schema[chosen][0]
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], document, name=name)
    kind = schema.get("type")
    if kind == "object":
        wanted = schema.get("required", ())
        return {one: _value(schema["properties"][one], document, name=one) for one in wanted}
    if kind == "array":
        count = schema.get("minItems", 0)
        return [_value(schema["items"], document, name=name) for _ in range(count)]
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    if kind == "boolean":
        return True
    return TEXTS.get(name, "x" * max(1, schema.get("minLength", 1)))
