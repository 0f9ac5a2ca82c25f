"""The list of skills in a prompt: one line each. A listing is journaled, so that a replay asks no source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast

import msgspec

from artelier.errors import ArtelierError
from artelier.ports.model import Value
from artelier.ports.tool import ToolPort
from artelier.tools.skills.injection_heuristics import invisible

# --------------------------------------------------------------------------- template
# Wording for models: template files with a version, filled once with values that are only data.


_SLOT = re.compile(r"\{\{([a-z_]+)\}\}")


@cache
def _template(name: str) -> str:
    return (files("artelier.tools.skills") / "templates" / name).read_text("utf-8").strip()


def render(name: str, /, **values: str) -> str:
    """A template with its slots filled; what looks like a slot inside a value stays text."""
    return _SLOT.sub(lambda slot: values[slot[1]], _template(name))


# --------------------------------------------------------------------------- listing


MANY = 30
"""With more skills, lines are shorter and `search_skills` is offered."""
LINE_CHARS_MAX = 80
LINE_CHARS_MANY = 60

_SENTENCE = re.compile(r"(?<=[.!?])\s")


class SkillLine(Value, frozen=True, kw_only=True):
    """One skill of a listing."""

    name: str
    line: str
    """`name: what it is for`; of a parked skill empty."""
    hash: str
    status: Literal["active", "parked"]


class Listing(Value, frozen=True, kw_only=True):
    """The skills of a tenant at one moment, by name. Refused ones are left out."""

    skills: tuple[SkillLine, ...] = ()
    silent: tuple[str, ...] = ()
    """Sources that could not be asked; what they had before is still listed."""

    def find(self, name: str) -> SkillLine | None:
        """The line of a skill, to compare its hash with that of a loaded one."""
        return next((one for one in self.skills if one.name == name), None)


def short_line(name: str, description: str, *, many: bool) -> str:
    """`name: first sentence`, on one line, bounded."""
    hidden = set(invisible(description))
    flat = " ".join("".join(one for one in description if one not in hidden).split())
    flat = flat.replace("<", "‹").replace(">", "›")
    sentence = _SENTENCE.split(flat, maxsplit=1)[0].rstrip(".")
    limit = LINE_CHARS_MANY if many else LINE_CHARS_MAX
    if len(sentence) > limit:
        sentence = sentence[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"
    return f"{name}: {sentence}" if sentence else name


def section_text(listing: Listing) -> str:
    """The prompt's section about skills; empty if there are none. Pure."""
    active = [one.line for one in listing.skills if one.status == "active"]
    parked = [one.name for one in listing.skills if one.status == "parked"]
    lines = [f"- {line}" for line in active]
    if parked:
        lines += [""] * bool(active) + [render("parked-1.md", names=", ".join(parked))]
    return render("skills-1.md", skills="\n".join(lines)) if lines else ""


# --------------------------------------------------------------------------- loaded
# The answer of `load_skill`, and the same value as text of a prompt.


CALL_WITH = "use_skill(name, arguments)"

_FENCE_END = re.compile(r"<(\s*/\s*skill)", re.IGNORECASE)


def skill_text(value: Mapping[str, Any]) -> str:
    """A value of `load_skill` as it stands in a prompt. Pure: the same value gives the same text."""
    name = str(value["skill"])
    details: list[str] = []
    if value.get("trust") == "untrusted":
        details.append(render("untrusted-1.md"))
    if value.get("parameters") is not None:
        details.append(render("call-1.md", parameters=_json(value["parameters"])))
    if value.get("example") is not None:
        details.append(render("example-1.md", name=name, example=_json(value["example"])))
    if value.get("allowed_tools") is not None:
        names = ", ".join(map(str, value["allowed_tools"])) or "none"
        details.append(render("allowed-1.md", tools=names))
    if value.get("files"):
        details.append(render("files-1.md", files=", ".join(map(str, value["files"]))))
    text = render(
        "skill-1.md",
        name=name,
        instructions=_inside(str(value.get("instructions", ""))),
        details=_inside("\n".join(details)),
    )
    return text.removesuffix("</skill>").rstrip() + "\n</skill>"


def loaded_text(values: Iterable[Mapping[str, Any]]) -> str:
    """All loaded skills, in the order given."""
    return "\n\n".join(map(skill_text, values))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _inside(text: str) -> str:
    """Text that can't end the fence it stands in."""
    return _FENCE_END.sub(r"<\\\1", text)


# --------------------------------------------------------------------------- worked examples
# A worked example of a call, made from its schema: the same schema gives the same example.


DEPTH_MAX = 8
OPTIONAL_MAX = 2
"""Optional parameters that an example shows."""

_FORMATS = {
    "date": "2026-03-01",
    "date-time": "2026-03-01T09:30:00Z",
    "time": "09:30:00Z",
    "email": "ada@example.org",
    "uri": "https://example.org/a",
    "url": "https://example.org/a",
    "uuid": "3b1f8b4c-7f0e-4f6e-9a55-0d6f6c1f2a10",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.org",
    "duration": "PT1H",
    "binary": "aGVsbG8=",
    "decimal": "1.5",
}

Schema = Mapping[str, Any]


def worked_example(tool: ToolPort) -> dict[str, Any] | None:
    """Arguments that the tool itself accepts, with some of its optional parameters; None if none is found."""
    schema = tool.schema.parameters
    for optional in (OPTIONAL_MAX, 0, 1_000):
        arguments = example_of(schema, optional=optional)
        if not isinstance(arguments, dict):
            return None
        try:
            return tool.validate(cast("dict[str, object]", arguments))
        except ArtelierError:
            continue  # a rule that no schema says; fewer or more parameters may keep it
    return None


def example_of(schema: Schema, *, optional: int = OPTIONAL_MAX) -> object:
    """A value that fits a JSON schema, for what it uses of draft 2020-12."""
    return _ExampleMaker(schema, optional=optional).make(schema, name="", depth=0)


class _ExampleMaker:
    def __init__(self, root: Schema, *, optional: int) -> None:
        self._root = root
        self._optional = optional

    def make(self, schema: Schema, *, name: str, depth: int) -> object:
        schema = self._resolve(schema)
        for key in ("const", "default"):
            if schema.get(key) is not None:
                return schema[key]
        for key in ("examples", "enum"):
            if isinstance(schema.get(key), list) and schema[key]:
                return schema[key][0]
        if schema.get("enum") is None and "const" in schema:
            return None
        if depth >= DEPTH_MAX:
            return None
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [one for one in cast("list[Any]", kind) if one != "null"]
            kind = kinds[0] if kinds else "null"
        if kind is None:
            kind = "object" if "properties" in schema else "string"
        return self._value_of_kind(str(kind), schema, name=name, depth=depth)

    def _value_of_kind(self, kind: str, schema: Schema, *, name: str, depth: int) -> object:
        if kind == "object":
            return self._object(schema, depth=depth)
        if kind == "array":
            return self._array(schema, name=name, depth=depth)
        if kind in ("integer", "number"):
            return _number(schema, whole=kind == "integer")
        if kind == "boolean":
            return True
        return None if kind == "null" else _text(schema, name=name)

    def _object(self, schema: Schema, *, depth: int) -> dict[str, Any]:
        properties: dict[str, Any] = schema.get("properties") or {}
        required = [key for key in schema.get("required") or () if key in properties]
        others = [key for key in properties if key not in required]
        wanted = self._optional if depth == 0 else 0
        chosen = {*required, *others[:wanted]}
        made = {
            key: self.make(value, name=key, depth=depth + 1)
            for key, value in properties.items()
            if key in chosen
        }
        extra = schema.get("additionalProperties")
        if not properties and isinstance(extra, dict):
            made["key"] = self.make(cast(Schema, extra), name="key", depth=depth + 1)
        return made

    def _array(self, schema: Schema, *, name: str, depth: int) -> list[object]:
        prefix: list[Any] = schema.get("prefixItems") or []
        made = [self.make(one, name=name, depth=depth + 1) for one in prefix]
        items = schema.get("items")
        count = max(int(schema.get("minItems") or 1), 1)
        if isinstance(items, dict) and depth + 1 < DEPTH_MAX:
            item = cast(Schema, items)
            while len(made) < min(count, 20):
                made.append(self.make(item, name=name.removesuffix("s"), depth=depth + 1))
        return made

    def _resolve(self, schema: Schema) -> Schema:
        """Without references and choices: the first that is not null."""
        for _ in range(DEPTH_MAX):
            reference = schema.get("$ref")
            if isinstance(reference, str):
                schema = self._at(reference)
                continue
            choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
            if not isinstance(choices, list) or not choices:
                return schema
            options = [
                cast("dict[str, Any]", one) for one in cast("list[object]", choices) if isinstance(one, dict)
            ]
            useful = [one for one in options if one.get("type") != "null"] or options
            if not useful:
                return schema
            rest = {key: value for key, value in schema.items() if not key.endswith("Of")}
            if rest.get("default", 0) is None:
                del rest["default"]
            schema = {**useful[0], **rest}
        return schema

    def _at(self, reference: str) -> Schema:
        here: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            here = cast(Schema, here).get(part) if isinstance(here, Mapping) else None
        return cast(Schema, here) if isinstance(here, Mapping) else {}


def _number(schema: Schema, *, whole: bool) -> int | float:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and schema.get("exclusiveMinimum") is not None:
        low = schema["exclusiveMinimum"] + 1
    if high is None and schema.get("exclusiveMaximum") is not None:
        high = schema["exclusiveMaximum"] - 1
    value: float = 1 if low is None else max(low, 1)
    if high is not None and value > high:
        value = high
    step = schema.get("multipleOf")
    if step and value % step:
        value = (value // step + 1) * step
    return int(value) if whole or value == int(value) else value


def _text(schema: Schema, *, name: str) -> str:
    known = _FORMATS.get(str(schema.get("format", "")))
    if known is not None:
        return known
    text = name.replace("_", " ").strip() or "text"
    short = int(schema.get("minLength") or 0)
    if len(text) < short:
        text = (text + " " + "x" * short)[: max(short, len(text))].ljust(short, "x")
    long = schema.get("maxLength")
    return text[: int(long)] if long is not None else text
