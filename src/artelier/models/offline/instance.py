"""Structured output of any schema: found facts where they fit, what the prompt states, else placeholders.

A placeholder is the plainest value that fits (null, nothing, 0, the first choice); where the schema has a
text that can say so, it names them. No figure is made up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.models.offline.given import choice_named, number_named, text_formed, text_matching, text_named
from artelier.models.offline.patterns import text_for
from artelier.models.offline.schemas import Schema, as_schema, fits, kinds_of, listed, resolved
from artelier.models.offline.story import UNKNOWN, Story
from artelier.models.offline.structured import Unfilled, fill

DEPTH_MAX = 14
ITEMS_MAX = 200
VALUES_MAX = 5_000
"""Of one output, as a bound for schemas that grow by themselves."""

_NEUTRAL = frozenset(
    "unknown none other undetermined undefined unspecified unclear pending neutral n/a na no_data"
    " not_available insufficient insufficient_data incomplete not_applicable not_found todo open".split()
)
_PLAIN = {
    "date": "1970-01-01",
    "date-time": "1970-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "unknown@example.invalid",
    "uri": "about:blank",
    "url": "about:blank",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "ipv4": "0.0.0.0",
    "hostname": "unknown.invalid",
    "duration": "PT0S",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An output that fits its schema, and how it came about."""

    value: Any
    placeholders: tuple[str, ...]
    """Paths of required fields for which nothing was found."""
    filled: int
    """Fields that hold what was found."""
    is_noted: bool
    """Whether a text of the output says what is not known."""


class _Nothing(Exception):
    """There is no value for a field that may be left out, or none that fits."""


def made(schema: Schema, story: Story) -> Made:
    """An output for a schema.

    Errors: `OfflineCannot` if no value fits it.
    """
    first = _attempt(schema, story)
    if not first.placeholders:
        return first
    return _attempt(schema, replace(story, missing=first.placeholders))


def _attempt(schema: Schema, story: Story) -> Made:
    maker = _Maker(schema, story)
    try:
        value = maker.make("", schema, path="", depth=0, must=True)
    except (_Nothing, RecursionError):
        value = None
        if not fits(value, schema, schema):
            raise OfflineCannot("no value fits the output schema", got=str(schema)[:200]) from None
    if not fits(value, schema, schema):
        raise OfflineCannot(
            "the output schema asks for more than the offline model can fill", got=str(schema)[:200]
        )
    return Made(
        value=value,
        placeholders=tuple(dict.fromkeys(maker.placeholders)),
        filled=maker.filled,
        is_noted=maker.noted,
    )


class _Maker:
    def __init__(self, root: Schema, story: Story) -> None:
        self._root = root
        self._story = story
        self._left = VALUES_MAX
        self.placeholders: list[str] = []
        self.filled = 0
        self.noted = False

    def make(self, name: str, schema: Schema, *, path: str, depth: int, must: bool, nth: int = 0) -> Any:
        """A value that fits; `nth` asks for another one than the first. Errors: `_Nothing`."""
        self._left -= 1
        if depth > DEPTH_MAX or self._left < 0:
            raise _Nothing
        schema = resolved(schema, self._root)
        if "const" in schema:
            return schema["const"]
        kinds = kinds_of(schema)
        if "object" not in kinds:
            fact = self._fact(name, schema, path, depth)
            if fact is not None and nth == 0:
                return fact
        choices = listed(schema.get("anyOf")) or listed(schema.get("oneOf"))
        if choices:
            return self._of_choices(name, schema, choices, path=path, depth=depth, must=must, nth=nth)
        if "enum" in schema:
            return self._choice(schema, path=path, must=must, nth=nth)
        if "null" in kinds or not kinds:
            try:
                return self._typed(name, schema, kinds, path=path, depth=depth, must=False, nth=nth)
            except _Nothing:
                if kinds:
                    return None
        return self._typed(name, schema, kinds, path=path, depth=depth, must=must, nth=nth)

    def _fact(self, name: str, schema: Schema, path: str, depth: int) -> Any:
        facts = self._story.facts
        if facts is None or not name:
            return None
        try:
            value = fill(name, schema, facts, path=path, depth=depth)
        except Unfilled:
            return None
        except (TypeError, ValueError, AttributeError):
            return None  # a schema of a form that facts are not filled into
        if value is None or not fits(value, schema, self._root):
            return None
        if value == [] and not self._is_list_of(name):
            return None
        self.filled += 1
        return self._with_note(name, value, schema)

    def _with_note(self, name: str, value: Any, schema: Schema) -> Any:
        """A text or a list of texts with what is not known, where its name lets expect that and it fits."""
        note = self._story.note
        longer: Any = None
        if note and isinstance(value, str) and self._story.tells(name):
            longer = f"{value} {note}"
        elif note and isinstance(value, list) and self._story.texts_for(name) is not None:
            longer = [*cast("list[Any]", value), note]
        if longer is None or not fits(longer, schema, self._root):
            return cast(Any, value)
        self.noted = True
        return longer

    def _is_list_of(self, name: str) -> bool:
        return self._story.texts_for(name) is None

    def _of_choices(
        self, name: str, schema: Schema, choices: list[Any], *, path: str, depth: int, must: bool, nth: int
    ) -> Any:
        """Return the first alternative that holds what was found, then null, then the first that fits."""
        base = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        options = [resolved({"allOf": [base, as_schema(one)]}, self._root) for one in choices[:ITEMS_MAX]]
        nullable = any("null" in kinds_of(one) for one in options) and fits(None, schema, self._root)
        for musts in (False, True):
            for option in options:
                if kinds_of(option) == ("null",):
                    continue
                mark = len(self.placeholders)
                try:
                    value = self.make(name, option, path=path, depth=depth + 1, must=musts, nth=nth)
                    if fits(value, schema, self._root):
                        if musts or len(self.placeholders) == mark:
                            return value
                except _Nothing:
                    pass
                del self.placeholders[mark:]
            if nullable:
                return None
            if not must:
                break
        raise _Nothing

    def _choice(self, schema: Schema, *, path: str, must: bool, nth: int) -> Any:
        options = listed(schema["enum"])
        named = choice_named(options, self._story.prompt)
        if named is not None and nth == 0 and fits(named, schema, self._root):
            return named
        neutral = [one for one in options if isinstance(one, str) and one.lower() in _NEUTRAL]
        ordered = [*([None] if None in options else []), *neutral, *options]
        found = [one for one in _distinct(ordered) if fits(one, schema, self._root)]
        if not must and not (found and (found[0] is None or found[0] in neutral)):
            raise _Nothing
        if nth >= len(found):
            raise _Nothing
        if found[nth] is not None and found[nth] not in neutral:
            self.placeholders.append(path)
        return found[nth]

    def _typed(
        self,
        name: str,
        schema: Schema,
        kinds: tuple[str, ...],
        *,
        path: str,
        depth: int,
        must: bool,
        nth: int,
    ) -> Any:
        for kind in [one for one in kinds if one != "null"] or (["null"] if kinds else ["string"]):
            try:
                if kind == "object":
                    return self._object(schema, path=path, depth=depth, must=must)
                if kind == "array":
                    return self._array(name, schema, path=path, depth=depth, must=must)
                if kind in ("number", "integer"):
                    return self._number(name, schema, path=path, must=must, nth=nth, whole=kind == "integer")
                if kind == "string":
                    return self._text(name, schema, path=path, must=must, nth=nth)
                if kind == "boolean":
                    return self._placed(self._first([False, True][nth:], schema), path, must)
                return None
            except _Nothing:
                continue
        raise _Nothing

    def _placed(self, value: Any, path: str, must: bool) -> Any:
        """A placeholder. Errors: `_Nothing` where the field may be left out."""
        if not must:
            raise _Nothing
        self.placeholders.append(path or "(the output)")
        return value

    def _first(self, candidates: Iterable[Any], schema: Schema) -> Any:
        for one in candidates:
            if fits(one, schema, self._root):
                return one
        raise _Nothing

    # Texts and numbers

    def _text(self, name: str, schema: Schema, *, path: str, must: bool, nth: int) -> str:
        story = self._story
        form, pattern = schema.get("format"), schema.get("pattern")
        is_free = not isinstance(pattern, str) and form not in _PLAIN
        text = story.text_for(name) if is_free else None
        if text is not None and (must or text != "None."):
            fitted = self._first(_lengths(text, schema, nth), schema)
            self.noted = self.noted or story.says_note(fitted)
            return fitted
        stated = [
            text_formed(str(form), story.prompt) if form else None,
            text_formed("email", story.prompt) if "email" in name.lower() else None,
            text_named(name, story.prompt),
            text_matching(pattern, story.prompt) if isinstance(pattern, str) else None,
        ]
        for one in stated:
            if one is not None and nth == 0 and fits(one, schema, self._root):
                return one
        if is_free and must:
            text = UNKNOWN if nth == 0 else f"{UNKNOWN} ({nth + 1})"
            return self._first([text, *_lengths(text, schema, nth), "x" * schema.get("minLength", 0)], schema)
        plain = [_PLAIN.get(str(form), UNKNOWN), text_for(str(pattern)) if pattern else None, ""]
        plain += [text for one in plain if one for text in _lengths(one, schema, nth)]
        return self._placed(self._first((one for one in plain if one is not None), schema), path, must)

    def _number(
        self, name: str, schema: Schema, *, path: str, must: bool, nth: int, whole: bool
    ) -> int | float:
        stated = number_named(name, self._story.prompt)
        if stated is not None and nth == 0:
            value = int(stated) if stated == stated.to_integral_value() else float(stated)
            if fits(value, schema, self._root):
                return value
        return self._placed(self._first(_numbers(schema, whole, nth), schema), path, must)

    # Lists and objects

    def _array(self, name: str, schema: Schema, *, path: str, depth: int, must: bool) -> list[Any]:
        items = resolved(as_schema(schema.get("items", True)), self._root)
        low, high = schema.get("minItems", 0), min(schema.get("maxItems", ITEMS_MAX), ITEMS_MAX)
        prefix = listed(schema.get("prefixItems"))
        if low > ITEMS_MAX or ("contains" in schema and low == 0):
            low = min(ITEMS_MAX, max(low, schema.get("minContains", 1)))
        texts = self._story.texts_for(name) if "string" in kinds_of(items) and not prefix else None
        found = [text for text in (texts or [])[:high] if fits(text, items, self._root)]
        self.noted = self.noted or any(map(self._story.says_note, found))
        if not found and low == 0 and not must:
            raise _Nothing
        count = max(low, len(prefix)) if must or low else 0
        single = name.removesuffix("s") or name
        for at in range(len(found), min(count, ITEMS_MAX)):
            inner = as_schema(prefix[at]) if at < len(prefix) else items
            inner = as_schema(schema["contains"]) if "contains" in schema and not prefix else inner
            nth = at if schema.get("uniqueItems") else 0
            place = f"{path}[{at}]"
            found.append(self.make(single, inner, path=place, depth=depth + 1, must=True, nth=nth))
        return found

    def _object(self, schema: Schema, *, path: str, depth: int, must: bool) -> dict[str, Any]:
        properties = as_schema(schema.get("properties"))
        required = set(map(str, listed(schema.get("required"))))
        if not must and not self._holds_anything(properties, path, depth):
            raise _Nothing
        found: dict[str, Any] = {}
        for name, inner in properties.items():
            place = f"{path}.{name}" if path else name
            is_needed = name in required or len(required | set(found)) < schema.get("minProperties", 0)
            try:
                found[name] = self.make(name, as_schema(inner), path=place, depth=depth + 1, must=is_needed)
            except _Nothing:
                if name in required:
                    raise
        extra = schema.get("additionalProperties", True)
        names = sorted(required - set(found))
        names += [f"note_{at}" for at in range(1, min(schema.get("minProperties", 0), ITEMS_MAX) + 1)]
        for name in names:
            if name in required or len(found) < schema.get("minProperties", 0):
                found[name] = self.make(
                    name, as_schema(extra), path=f"{path}.{name}".strip("."), depth=depth + 1, must=True
                )
        return found

    def _holds_anything(self, properties: Schema, path: str, depth: int) -> bool:
        """Return True if something was found for any field of an object that may be left out."""
        before = self.filled
        for name, inner in properties.items():
            value = self._fact(name, as_schema(inner), path, depth + 1)
            self.filled = before
            if value is not None:
                return True
        return False


def _distinct(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for one in values:
        if not any(one == other and type(one) is type(other) for other in found):
            found.append(one)
    return found


def _lengths(text: str, schema: Schema, nth: int) -> Iterator[str]:
    """A text within the bounds of its length."""
    if nth:
        text = f"{text} ({nth + 1})"
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    if len(text) < low and 0 < low <= 100_000:
        text = (f"{text} " * (low // (len(text) + 1) + 1))[: low + 1].rstrip().ljust(low, ".")
    if high is not None and len(text) > high:
        text = text[: max(0, high - 1)].rstrip() + "…" if high > 1 else text[:high]
        text = text.ljust(low, ".") if len(text) < low else text
    yield text


def _numbers(schema: Schema, whole: bool, nth: int) -> Iterator[int | float]:
    """0 if it fits, else what is nearest to it within the bounds; then others."""
    step = schema.get("multipleOf") or 1
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    starts = [0, *[bound for bound in (low, high) if bound is not None]]
    found: list[int | float] = []
    for start in starts:
        base = -(-start // step) * step
        for shift in range(ITEMS_MAX + 1):
            for value in (base + shift * step, base - shift * step):
                plain = int(value) if value == int(value) else value
                if plain not in found and fits(plain, schema, schema):
                    found.append(plain)
            if len(found) > nth:
                break
        if not whole:
            found += [one for one in (start, *_between(low, high)) if one not in found]
    yield from found[nth:]


def _between(low: Any, high: Any) -> list[float]:
    return [(low + high) / 2] if low is not None and high is not None else []
