"""JSON schemas: what a reference means, how alternatives join, and whether a value fits.

Covered is what schemas of replies use (draft 2020-12 without dynamic references); an unknown keyword
constrains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, cast

from artelier.models.offline.matching import is_match, spend

REFS_MAX = 32
DEPTH_MAX = 40

Schema = Mapping[str, Any]
NOTHING: Schema = {}

_FORMATS: dict[str, str] = {
    "email": r"[^@\s]+@[^@\s]+\.[^@\s]+",
    "uri": r"[a-z][a-z0-9+.-]*:\S+",
    "url": r"[a-z][a-z0-9+.-]*:\S+",
    "uuid": r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "ipv4": r"\d{1,3}(?:\.\d{1,3}){3}",
    "hostname": r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*",
    "duration": r"P(?=.)(?:\d+[YMWD])*(?:T(?:\d+[HMS])+)?",
}


def as_schema(value: object) -> Schema:
    """A schema from its JSON; true allows all, and so does what is no schema at all."""
    if value is False:
        return {"not": {}}
    return cast(Schema, value) if isinstance(value, Mapping) else NOTHING


def listed(value: object) -> list[Any]:
    """A list of a schema, or an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def resolved(schema: Schema, root: Schema) -> Schema:
    """The schema behind references, with what stands beside them and in `allOf` joined in.

    A reference that leads nowhere, or in a circle, gives a schema that nothing fits.
    """
    for _ in range(REFS_MAX):
        ref = schema.get("$ref")
        if isinstance(ref, str):
            target = _target(ref, root)
            if target is None:
                return {"not": {}}
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = _joined(target, rest) if rest else target
            continue
        parts = listed(schema.get("allOf"))
        if not parts:
            return schema
        joined: Schema = {key: value for key, value in schema.items() if key != "allOf"}
        for part in parts[:REFS_MAX]:
            joined = _joined(joined, resolved(as_schema(part), root))
        schema = joined
    return {"not": {}}


def _target(ref: str, root: Schema) -> Schema | None:
    here: object = root
    for step in ref.removeprefix("#").strip("/").split("/"):
        if step:
            step = step.replace("~1", "/").replace("~0", "~")
            here = as_schema(here).get(step)
    return as_schema(cast(object, here)) if isinstance(here, Mapping | bool) else None


def _joined(one: Schema, other: Schema) -> Schema:
    """A schema for what fits both, as far as plain keywords say it."""
    found = dict(one)
    for key, value in other.items():
        mine: Any = found.get(key)
        if key not in found or mine == value:
            found[key] = value
        elif key == "properties":
            found[key] = {**as_schema(mine), **as_schema(value)}
        elif key == "required":
            found[key] = list(dict.fromkeys([*listed(mine), *listed(value)]))
        elif key in ("minimum", "minLength", "minItems", "exclusiveMinimum", "minProperties"):
            found[key] = max(mine, value)
        elif key in ("maximum", "maxLength", "maxItems", "exclusiveMaximum", "maxProperties"):
            found[key] = min(mine, value)
        elif key == "enum":
            found[key] = [choice for choice in listed(mine) if choice in listed(value)]
        else:
            found[key] = value
    return found


def kinds_of(schema: Schema) -> tuple[str, ...]:
    """The types that a resolved schema names or lets be guessed; empty if it allows any."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return (kind,)
    if isinstance(kind, list):
        return tuple(str(one) for one in cast("list[Any]", kind))
    for key, meant in (("properties", "object"), ("items", "array"), ("pattern", "string")):
        if key in schema:
            return (meant,)
    return ("number",) if "minimum" in schema or "maximum" in schema else ()


def fits(value: Any, schema: Schema, root: Schema, *, depth: int = 0) -> bool:
    """Return True if a value fits a schema."""
    if depth > DEPTH_MAX or not spend(1 + len(listed(schema.get("enum"))) // 8):
        return False
    schema = resolved(schema, root)
    kinds = kinds_of(schema) if "type" in schema else ()
    if kinds and not any(_has_kind(value, kind) for kind in kinds):
        return False
    if "enum" in schema and not any(_same(value, one) for one in listed(schema["enum"])):
        return False
    if "const" in schema and not _same(value, schema["const"]):
        return False
    if not _fits_choices(value, schema, root, depth):
        return False
    if isinstance(value, str):
        return _fits_text(value, schema)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _fits_number(value, schema)
    if isinstance(value, list):
        return _fits_list(cast("list[Any]", value), schema, root, depth)
    if isinstance(value, dict):
        return _fits_object(cast("dict[str, Any]", value), schema, root, depth)
    return True


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _has_kind(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int)
    kinds: dict[str, type | tuple[type, ...]] = {
        "object": dict,
        "array": list,
        "string": str,
        "null": type(None),
        "number": (int, float),
        "boolean": bool,
    }
    return isinstance(value, kinds.get(kind, object))


def _fits_choices(value: Any, schema: Schema, root: Schema, depth: int) -> bool:
    def one(inner: object) -> bool:
        return fits(value, as_schema(inner), root, depth=depth + 1)

    if "anyOf" in schema and not any(map(one, listed(schema["anyOf"]))):
        return False
    if "oneOf" in schema and sum(map(one, listed(schema["oneOf"]))) != 1:
        return False
    if "not" in schema and one(schema["not"]):
        return False
    if "if" in schema:
        branch = schema.get("then" if one(schema["if"]) else "else", True)
        return one(branch)
    return True


def _fits_text(value: str, schema: Schema) -> bool:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return False
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not is_match(pattern, value):
        return False
    return _has_format(value, str(schema.get("format", "")))


def _has_format(value: str, name: str) -> bool:
    readers = {"date": date.fromisoformat, "date-time": datetime.fromisoformat, "time": time.fromisoformat}
    if name in readers:
        try:
            readers[name](value)
        except ValueError:
            return False
        return name == "date" or value[-1:] == "Z" or "+" in value or name == "time"
    form = _FORMATS.get(name)
    return form is None or re.fullmatch(form, value[:2_000]) is not None


def _fits_number(value: int | float, schema: Schema) -> bool:
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        return False
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        return False
    step = schema.get("multipleOf")
    return not step or Decimal(str(value)) % Decimal(str(step)) == 0


def _fits_list(value: list[Any], schema: Schema, root: Schema, depth: int) -> bool:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return False
    if schema.get("uniqueItems") and not (spend(len(value) ** 2 // 64) and _are_distinct(value)):
        return False
    prefix = listed(schema.get("prefixItems"))
    inner = as_schema(schema.get("items", True))
    for at, item in enumerate(value):
        wanted = as_schema(prefix[at]) if at < len(prefix) else inner
        if not fits(item, wanted, root, depth=depth + 1):
            return False
    if "contains" in schema:
        wanted = as_schema(schema["contains"])
        hits = sum(fits(item, wanted, root, depth=depth + 1) for item in value)
        return schema.get("minContains", 1) <= hits <= schema.get("maxContains", hits)
    return True


def _are_distinct(value: list[Any]) -> bool:
    return not any(one in value[:at] for at, one in enumerate(value))


def _fits_object(value: dict[str, Any], schema: Schema, root: Schema, depth: int) -> bool:
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        return False
    if any(name not in value for name in listed(schema.get("required"))):
        return False
    properties = as_schema(schema.get("properties"))
    patterns = as_schema(schema.get("patternProperties"))
    names = as_schema(schema.get("propertyNames"))
    for name, item in value.items():
        if names and not fits(name, names, root, depth=depth + 1):
            return False
        wanted = [properties[name]] if name in properties else []
        wanted += [inner for pattern, inner in patterns.items() if is_match(pattern, name)]
        if not wanted:
            wanted = [schema.get("additionalProperties", True)]
        if not all(fits(item, as_schema(one), root, depth=depth + 1) for one in wanted):
            return False
    depending = as_schema(schema.get("dependentRequired"))
    return all(
        other in value for name, others in depending.items() if name in value for other in listed(others)
    )
