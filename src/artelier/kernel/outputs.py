"""Structured output: the JSON schema of a type, and a reply's value of that type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from artelier.errors import InvalidRequest, OutputInvalid
from artelier.ports.model import ModelReply


def schema_of(output: Any) -> dict[str, Any] | None:
    """JSON schema of `output`: None, a schema, a pydantic model, a dataclass, a Struct, a TypedDict.

    Errors: `InvalidRequest` for a type that has none.
    """
    if output is None:
        return None
    if isinstance(output, Mapping):
        return dict(cast(Mapping[str, Any], output))
    if hasattr(output, "model_json_schema"):  # pydantic, without importing it
        return output.model_json_schema()
    try:
        return msgspec.json.schema(output)
    except (TypeError, msgspec.MsgspecError) as error:
        raise InvalidRequest(
            f"no JSON schema for this output type: {error}",
            expected="a JSON schema, a pydantic model, a dataclass, a Struct or a TypedDict",
            got=repr(output)[:100],
        ) from None


def value_of(reply: ModelReply, output: Any) -> Any:
    """The reply's structured output as `output`. A reply that calls tools has none yet: None.

    Errors: `OutputInvalid` that says what does not fit, with the reply in `facts["reply"]`.
    """
    try:
        return _value_of(reply, output)
    except OutputInvalid as error:
        error.facts["reply"] = reply
        raise


def _value_of(reply: ModelReply, output: Any) -> Any:
    if output is None:
        return reply.output
    if reply.tool_calls and reply.output is None:
        return None
    value = reply.output
    if value is None:
        try:
            value = msgspec.json.decode(reply.text)
        except msgspec.MsgspecError as error:
            raise OutputInvalid(
                "the reply is not the JSON that was asked for",
                expected="one JSON value", got=f"{reply.text[:80]!r} ({error})",
            ) from None  # fmt: skip
    if isinstance(output, Mapping):
        return check_json(value, cast(Mapping[str, Any], output))
    try:
        if hasattr(output, "model_validate"):
            return output.model_validate(value)
        return msgspec.convert(value, output)
    except (msgspec.ValidationError, ValueError) as error:
        raise OutputInvalid(
            f"the structured output does not fit: {str(error)[:800]}",
            expected=getattr(output, "__name__", "the schema"),
        ) from None


def check_json(value: Any, schema: Mapping[str, Any], path: str = "$") -> Any:
    """Check the parts of JSON schema that models are asked for: type, properties, required, items, enum.

    Errors: `OutputInvalid` with the path of the first misfit.
    """
    if "enum" in schema and value not in schema["enum"]:
        raise OutputInvalid(f"{path} is not one of the allowed values", got=repr(value)[:80])
    kind = schema.get("type")
    if isinstance(kind, str) and not _has_type(value, kind):
        raise OutputInvalid(f"{path} has the wrong type", expected=kind, got=type(value).__name__)
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        properties = cast(Mapping[str, Any], schema.get("properties", {}))
        for name in cast(list[str], schema.get("required", [])):
            if name not in fields:
                raise OutputInvalid(f"{path} lacks a property", expected=name)
        for name, item in fields.items():
            if name in properties:
                check_json(item, properties[name], f"{path}.{name}")
            elif schema.get("additionalProperties") is False:
                raise OutputInvalid(f"{path} has a property that is not allowed", got=name[:80])
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for index, item in enumerate(cast(list[Any], value)):
            check_json(item, schema["items"], f"{path}[{index}]")
    return cast(Any, value)


def _has_type(value: object, kind: str) -> bool:
    """Whether a JSON value is of a type of JSON schema; unknown types pass."""
    if isinstance(value, bool):
        return kind == "boolean"
    types: dict[str, type | tuple[type, ...]] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "null": type(None),
        "integer": int,
        "number": (int, float),
    }
    return isinstance(value, types.get(kind, object))
