"""Structured output: the fields of a schema, filled from computed facts and from nothing else.

A field is matched by its name: texts by what they are called (`title`, `report`, `summary`), numbers and
lists by the measure or the group they name. A required field that no fact fits is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.models.offline.figures import exact, number_from
from artelier.models.offline.parts import Grid, Part
from artelier.models.offline.report import LABEL
from artelier.models.offline.words import name_words, stem

DEPTH_MAX = 12
Schema = Mapping[str, Any]

TITLES = frozenset(("title", "heading", "headline", "subject", "topic"))
REPORTS = frozenset("report markdown body content document text output article essay".split())
ANSWERS = frozenset(
    "summary answer conclusion result finding response insight explanation description abstract analysis"
    " overview message statement reply".split()
)
LABELS = frozenset("author label method model writer provenance generator disclaimer".split())
LISTS = {
    "source": "sources",
    "file": "sources",
    "table": "sources",
    "reference": "sources",
    "query": "queries",
    "sql": "queries",
    "note": "notes",
    "caveat": "notes",
    "limitation": "notes",
    "assumption": "notes",
    "warning": "notes",
    "quote": "passages",
    "passage": "passages",
    "citation": "passages",
    "evidence": "passages",
    "finding": "sentences",
    "insight": "sentences",
    "bullet": "sentences",
    "highlight": "sentences",
    "sentence": "sentences",
    "point": "sentences",
    "paragraph": "sentences",
    "conclusion": "sentences",
    "answer": "sentences",
    "takeaway": "sentences",
    "fact": "sentences",
    "result": "sentences",
}
_GENERIC = frozenset("value answer result number figure amount total count metric output sum".split())
_NAMES = frozenset("name label group key category item title entity".split())
_SKIPPED = frozenset(
    "the a of by in per top best worst first all key main list and overall highest lowest percent".split()
)


class Unfilled(Exception):
    """No fact fits a field: its path and why."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path)
        self.path, self.why = path, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The computed facts, for the fields of a schema."""

    parts: Sequence[Part]
    report: str
    root: Schema

    @property
    def title(self) -> str:
        return " · ".join(part.title for part in self.parts)

    @property
    def answer(self) -> str:
        return " ".join(_plain(sentence) for part in self.parts for sentence in part.sentences)

    def strings(self, field: str) -> list[str]:
        values = [text for part in self.parts for text in getattr(part, field)]
        return [_plain(text) for text in dict.fromkeys(values)]


def filled(schema: Schema, parts: Sequence[Part], *, report: str) -> Any:
    """The output that fits a schema.

    Errors: `OfflineCannot` that names the first required field without a fact.
    """
    facts = Facts(parts=parts, report=report, root=schema)
    try:
        return fill("", schema, facts, path="(the output)", depth=0)
    except Unfilled as unfilled:
        raise OfflineCannot(
            f"the field `{unfilled.path}` of the output schema cannot be filled: {unfilled.why}",
            hint="Make the field optional, or name it after a figure that the question asks for.",
        ) from None


def _plain(text: str) -> str:
    return text.replace("**", "").replace("`", "")


def fill(name: str, schema: Schema, facts: Facts, *, path: str, depth: int) -> Any:
    """The value of one field. Errors: `Unfilled` if no fact fits it."""
    if depth > DEPTH_MAX:
        raise Unfilled(path, "the schema is nested too deeply")
    schema = _resolved(schema, facts.root, path)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return _any_of(name, schema[union], facts, path=path, depth=depth)
    kind = schema.get("type")
    if isinstance(kind, list):
        choices = [{**schema, "type": one} for one in cast(list[str], kind)]
        return _any_of(name, choices, facts, path=path, depth=depth)
    if kind == "object" or (kind is None and "properties" in schema):
        return _object(schema, facts, path=path, depth=depth)
    if kind == "string":
        return _checked(_string(name, facts, path=path), schema, path)
    if kind in ("number", "integer"):
        return _checked(_number(name, facts, path=path, whole=kind == "integer"), schema, path)
    if kind == "array":
        return _checked(_array(name, schema, facts, path=path, depth=depth), schema, path)
    raise Unfilled(path, f"the offline model computes no value of type {kind or 'any'}")


def _resolved(schema: Schema, root: Schema, path: str) -> Schema:
    for _ in range(DEPTH_MAX):
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            return schema
        inside = dict(root)
        for step in ref.removeprefix("#/").split("/"):
            found: Any = inside.get(step)
            inside = cast(dict[str, Any], found) if isinstance(found, dict) else {}
        if not inside:
            break
        schema = inside
    raise Unfilled(path, "its $ref leads nowhere")


def _any_of(name: str, choices: Any, facts: Facts, *, path: str, depth: int) -> Any:
    failure = Unfilled(path, "no alternative can be filled")
    nullable = False
    for one in cast(list[Any], choices) if isinstance(choices, list) else []:
        choice = cast(dict[str, Any], one) if isinstance(one, dict) else {}
        if choice.get("type") == "null":
            nullable = True
            continue
        try:
            return fill(name, choice, facts, path=path, depth=depth + 1)
        except Unfilled as unfilled:
            failure = unfilled
    if nullable:
        return None
    raise failure


def _object(schema: Schema, facts: Facts, *, path: str, depth: int) -> dict[str, Any]:
    properties = cast(Mapping[str, Any], schema.get("properties") or {})
    required = set(cast(list[str], schema.get("required") or []))
    found: dict[str, Any] = {}
    for name, inner in properties.items():
        place = name if depth == 0 else f"{path}.{name}"
        try:
            found[name] = fill(name, cast(Schema, inner), facts, path=place, depth=depth + 1)
        except Unfilled:
            if name in required:
                raise
    missing = sorted(required - set(found))
    if missing:
        raise Unfilled(missing[0], "the schema requires it and does not describe it")
    return found


def _words(name: str) -> list[str]:
    return [stem(word) for word in name_words(name)]


def one_of(name: str, wanted: frozenset[str]) -> bool:
    """Return True if a field's name holds one of these words."""
    return bool(set(_words(name)) & {stem(word) for word in wanted})


def _string(name: str, facts: Facts, *, path: str) -> str:
    if (named := _named_text(name, facts)) is not None:
        return named
    if one_of(name, TITLES):
        return facts.title
    if one_of(name, REPORTS):
        return facts.report
    if one_of(name, ANSWERS):
        return facts.answer
    if one_of(name, LABELS):
        return LABEL.strip("*")
    for word, field in LISTS.items():
        if stem(word) in _words(name):
            values = facts.strings(field)
            if len(values) == 1:
                return values[0]
    scalar = _scalar(name, facts)
    if scalar is not None:
        return exact(scalar)
    raise Unfilled(path, "its name is neither that of a text nor that of a computed figure")


def _named_text(name: str, facts: Facts) -> str | None:
    """`top_city`: the first place of the only ranking of cities."""
    words = set(_words(name)) - {stem(word) for word in _SKIPPED}
    found = [
        part.names[0]
        for part in facts.parts
        if part.names and part.ranked and words and words <= set(_words(part.group))
    ]
    return found[0] if len(found) == 1 else None


def _number(name: str, facts: Facts, *, path: str, whole: bool) -> int | float:
    value = number_from(_scalar(name, facts))
    if value is None:
        raise Unfilled(path, "no single computed figure has this name")
    if value == value.to_integral_value() and (whole or isinstance(_scalar(name, facts), int)):
        return int(value)
    if whole:
        raise Unfilled(path, f"the computed figure {value} is not a whole number")
    return float(value)


def _scalar(name: str, facts: Facts) -> Any:
    """The figure whose name fits; None if none or several do."""
    scalars = [pair for part in facts.parts for pair in part.scalars if pair[1] is not None]
    words = set(_words(name))
    exact_fit = [value for label, value in scalars if set(_words(label)) == words]
    if len(exact_fit) == 1:
        return exact_fit[0]
    bare = words - {stem(word) for word in _SKIPPED}
    close = [
        value
        for label, value in scalars
        if bare
        and bare <= set(_words(label)) | {"percentag", "pct", "valu", "amount"}
        and bare & set(_words(label))
    ]
    if len(close) == 1:
        return close[0]
    generic = words <= {stem(word) for word in _GENERIC}
    return scalars[0][1] if generic and len(scalars) == 1 else None


def _array(name: str, schema: Schema, facts: Facts, *, path: str, depth: int) -> list[Any]:
    inner = schema.get("items")
    if not isinstance(inner, Mapping):
        raise Unfilled(path, "the schema does not say what its items are")
    items = _resolved(cast(Schema, inner), facts.root, path)
    kind = items.get("type")
    if kind == "string":
        return _strings(name, facts, path=path)
    if kind == "object" or "properties" in items:
        return _rows(name, items, facts, path=path, depth=depth)
    if kind in ("number", "integer"):
        return _column(name, facts, path=path, whole=kind == "integer")
    raise Unfilled(path, f"no list of {kind or 'anything'} was computed")


def _strings(name: str, facts: Facts, *, path: str) -> list[str]:
    words = set(_words(name)) - {stem(word) for word in _SKIPPED}
    named = [part for part in facts.parts if part.names and words & set(_words(part.group))]
    if len(named) == 1:
        return list(named[0].names)
    for word, field in LISTS.items():
        if stem(word) in words:
            return facts.strings(field)
    listed = [part for part in facts.parts if part.names]
    if len(listed) == 1 and words <= {stem(word) for word in (*_NAMES, *_GENERIC, "ranking", "names")}:
        return list(listed[0].names)
    raise Unfilled(path, "no list of this name was computed")


def _column(name: str, facts: Facts, *, path: str, whole: bool) -> list[int | float]:
    words = set(_words(name)) - {stem(word) for word in _SKIPPED}
    for part in facts.parts:
        for grid in part.grids:
            for at, heading in enumerate(grid.headings):
                if words & set(_words(heading)) and len(grid.rows) > 1:
                    values = [number_from(row[at]) for row in grid.rows]
                    if all(one is not None for one in values):
                        return [_plain_number(one, whole, path) for one in values if one is not None]
    raise Unfilled(path, "no column of figures has this name")


def _plain_number(value: Decimal, whole: bool, path: str) -> int | float:
    if value == value.to_integral_value():
        return int(value)
    if whole:
        raise Unfilled(path, f"the computed figure {value} is not a whole number")
    return float(value)


def _rows(name: str, items: Schema, facts: Facts, *, path: str, depth: int) -> list[dict[str, Any]]:
    """The rows of the first table whose columns fit every required property; sections for prose."""
    properties = cast(Mapping[str, Any], items.get("properties") or {})
    required = set(cast(list[str], items.get("required") or []))
    tables = [(part, grid) for part in facts.parts for grid in part.grids]
    tables.sort(key=lambda pair: len(pair[1].rows) < 2)
    for part, grid in tables:
        places = {field: _heading(field, grid, part) for field in properties}
        if all(places.get(field) is not None for field in required) and any(
            place is not None for place in places.values()
        ):
            return [
                _row(row, number, properties, places, facts, path)
                for number, row in enumerate(grid.rows, start=1)
            ]
    if any(one_of(field, TITLES | REPORTS | ANSWERS) for field in properties):
        return [_object(items, _single(facts, part), path=path, depth=depth + 1) for part in facts.parts]
    raise Unfilled(path, "no computed table has these columns")


def _single(facts: Facts, part: Part) -> Facts:
    text = " ".join(part.sentences)
    return Facts(parts=[part], report=text, root=facts.root)


_RANKS = frozenset(("rank", "position", "place"))


def _heading(field: str, grid: Grid, part: Part) -> int | None:
    """The column of a table that a property names; -1 counts the rows."""
    words = set(_words(field))
    if words & {stem(word) for word in _RANKS}:
        return -1
    headings = [set(_words(heading.replace("%", "percent"))) for heading in grid.headings]
    for fits in (
        [at for at, one in enumerate(headings) if one == words],
        [at for at, one in enumerate(headings) if words <= one],
        [at for at, one in enumerate(headings) if one <= words],
    ):
        if len(fits) == 1:
            return fits[0]
    if words & {stem(word) for word in _NAMES}:
        return part.label_at if part.label_at < len(grid.headings) else 0
    figures = [
        at
        for at in range(len(grid.headings))
        if grid.rows and all(number_from(row[at]) is not None or row[at] is None for row in grid.rows)
    ]
    if words & {stem(word) for word in _GENERIC} and len(figures) == 1:
        return figures[0]
    return None


def _row(
    row: Sequence[Any],
    number: int,
    properties: Mapping[str, Any],
    places: Mapping[str, int | None],
    facts: Facts,
    path: str,
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, inner in properties.items():
        place = places[field]
        if place is None:
            continue
        value = number if place < 0 else row[place]
        found[field] = _cast(value, _resolved(cast(Schema, inner), facts.root, path), f"{path}.{field}")
    return found


def _cast(value: Any, schema: Schema, path: str) -> Any:
    kinds = [schema.get("type")]
    for union in ("anyOf", "oneOf"):
        kinds += [one.get("type") for one in cast(list[Any], schema.get(union) or [])]
    kinds = [one for kind in kinds for one in (cast(list[Any], kind) if isinstance(kind, list) else [kind])]
    figure = number_from(value)
    if value is None and "null" in kinds:
        return None
    if figure is not None and ("number" in kinds or "integer" in kinds):
        return _plain_number(figure, "number" not in kinds, path)
    if "string" in kinds:
        return "" if value is None else (exact(value) if figure is not None else str(value))
    raise Unfilled(path, f"the value {str(value)[:40]!r} does not fit its type")


def _checked(value: Any, schema: Schema, path: str) -> Any:
    """Errors: `Unfilled` if a value is against a bound of its schema."""
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in cast(list[Any], choices):
        raise Unfilled(path, "the computed value is not among the allowed ones")
    if "const" in schema and value != schema["const"]:
        raise Unfilled(path, "the computed value is not the required one")
    if "pattern" in schema:
        raise Unfilled(path, "texts with a pattern are not made")
    bounds = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum"))
    size = value if isinstance(value, int | float) else len(value)
    for low, high in bounds if not isinstance(value, int | float) else bounds[2:]:
        if isinstance(schema.get(low), int | float) and size < schema[low]:
            raise Unfilled(path, f"the computed value is below {low} {schema[low]}")
        if isinstance(schema.get(high), int | float) and size > schema[high]:
            raise Unfilled(path, f"the computed value is above {high} {schema[high]}")
    return value
