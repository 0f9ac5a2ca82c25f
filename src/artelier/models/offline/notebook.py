"""Small written work around a conversation: a state kept up to date, facts, a question that stands alone.

Asked for by headings of the prompt (`## State so far`, `## Conversation`, `## Question`). What is written was
said: a state keeps what nobody changed, facts are the words of who stated them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.models.offline import hints
from artelier.models.offline.chat import is_statement
from artelier.models.offline.given import choice_named, number_named, text_formed, text_named
from artelier.models.offline.recollection import statements
from artelier.models.offline.schemas import as_schema, fits, kinds_of, listed, resolved
from artelier.models.offline.turns import sections
from artelier.models.offline.words import name_words
from artelier.ports.model import ModelRequest

ITEMS_MAX = 20
"""Of a list in a state; the oldest go first."""
TEXT_CHARS = 200
PROPERTIES_MAX = 60

_STATE = re.compile(
    r"(?:[\w' -]{0,40} )?state(?: so far| before| until now)?|current state|previous state", re.I
)
_TALK = re.compile(r"conversation|exchange|messages?|what was (?:just )?said|dialogue", re.IGNORECASE)
_QUESTION = re.compile(r"^## (?:the |newest )?question[ \t]*\n", re.IGNORECASE | re.MULTILINE)
_REWRITE = re.compile(r"\W*(?:please )?(?:rewrite|rephrase|reformulate)\b[^\n]{0,200}\bquestion\b", re.I)
_LISTS = re.compile(r"\W*(?:please )?(?:list|note|collect|extract|write down)\b[^\n]{0,120}\bfacts\b", re.I)
_SPEAKER = re.compile(r"^([^:\n]{1,60}): ?", re.MULTILINE)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|them|their|this|that|those|these|he|him|his|she|her|there)\b", re.I
)
_FOLLOWS = re.compile(r"^\s*(?:and|what about|how about|also|then)\b", re.IGNORECASE)
_TERM = re.compile(r"\b[A-Z][\w-]+(?:\s+[A-Z][\w-]+)*|\b[a-z][\w-]{5,}\b")
_SUBJECT = frozenset("issue problem topic goal request subject".split())
_TOLD = _SUBJECT | {"summary", "event", "happened", "last", "latest"}
_ABOUT = re.compile(r"(?:the|my|our|his|her|their|its|this|that|in \d{4})\b", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:The|A|An|My|Our|His|Her|Their)\s+")
_COMMON = frozenset(
    "please question answer should could because before between through during without really always"
    " something anything nothing everything another".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """The text that a prompt asks for."""

    kind: str
    said: Sequence[tuple[str, str]]
    """Who said what, the oldest first."""
    state: Mapping[str, Any]
    question: str = ""

    @property
    def words(self) -> str:
        return "\n".join(text for _, text in self.said)

    @property
    def of_person(self) -> str:
        """The words of everybody but the last speaker: the last one is the model itself."""
        model = self.said[-1][0] if len({name for name, _ in self.said}) > 1 else ""
        return "\n".join(text for name, text in self.said if name != model)


def written(request: ModelRequest) -> str | None:
    """Return what is asked to be written; None if nothing of the kind is, or what it would be does not
    fit.
    """
    task = _task(request)
    if task is None:
        return None
    if task.kind == "question":
        return _standing_alone(task)
    facts = _facts(task)
    if request.output_schema is None:
        return "\n".join(f"- {one}" for one in facts) or "None." if task.kind == "facts" else None
    root = as_schema(request.output_schema)
    found = _filled(root, task, facts)
    return json.dumps(found, ensure_ascii=False) if fits(found, root, root) else None


def _task(request: ModelRequest) -> _Task | None:
    last = request.messages[-1] if request.messages else None
    if request.tools or last is None or last.role != "user":
        return None
    headed: dict[str, str] = {}
    for section in sections(last.text):
        for name, pattern in (("state", _STATE), ("talk", _TALK)):
            if pattern.fullmatch(section.title.strip()) and name not in headed:
                headed[name] = "\n".join(section.lines).strip()
    said = _said(headed.get("talk", ""))
    state = _json(headed.get("state", ""))
    schema = request.output_schema
    if "state" in headed and said and schema is not None:
        return _Task(kind="state", said=said, state=state)
    if _REWRITE.match(last.text) and schema is None:
        asked = _QUESTION.split(last.text, maxsplit=1)[1:]  # to the end, whatever it looks like
        if asked and asked[0].strip():
            return _Task(kind="question", said=said, state={}, question=asked[0].strip())
    if _LISTS.match(last.text) and said:
        return _Task(kind="facts", said=said, state={})
    return None


def _said(text: str) -> list[tuple[str, str]]:
    marks = list(_SPEAKER.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)][1:]
    return [(mark[1].strip(), text[mark.end() : end].strip()) for mark, end in zip(marks, ends, strict=True)]


def _json(text: str) -> Mapping[str, Any]:
    start, end = text.find("{"), text.rfind("}")
    try:
        found: object = json.loads(text[start : end + 1]) if start >= 0 else None
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _facts(task: _Task) -> list[str]:
    """The sentences of people that state something, as they are."""
    found = [
        one
        for one in statements(task.of_person)
        if is_statement(one.rstrip(".!")) or (_ABOUT.match(one) and one.count(" ") >= 3)
    ]
    return list(dict.fromkeys(" ".join(one.split())[:TEXT_CHARS] for one in found))[:ITEMS_MAX]


def _standing_alone(task: _Task) -> str:
    """The question; if it points back, with the last thing that was talked of."""
    question = " ".join(task.question.split())[:1_000]
    earlier = [text for _, text in task.said if " ".join(text.split()) != question]
    if not earlier or not (_POINTS_BACK.search(question) or _FOLLOWS.match(question)):
        return question
    known = set(name_words(question))
    for text in reversed(earlier):
        terms = [one for one in _terms(text) if not set(name_words(one)) <= known]
        named = [one for one in terms if one[0].isupper()]
        if terms:
            return f"{question.rstrip('? ')} (about {(named or terms)[-1]})?"
    return question


def _terms(text: str) -> list[str]:
    """Return what a text may be about: names, and longer words."""
    found: list[str] = []
    for match in _TERM.finditer(text[: hints.CHARS_MAX]):
        term = _ARTICLE.sub("", match.group())
        begins = text[: match.start()].rstrip()[-1:] in ("", *'.!?”“":')
        if begins and match.group()[0].isupper() and " " not in match.group():
            term = term.lower()
        if len(term) > 5 or term[:1].isupper():
            found.append(term)
    return [one for one in found if one.lower() not in _COMMON]


# Fields of a state


def _filled(root: Mapping[str, Any], task: _Task, facts: Sequence[str]) -> dict[str, Any]:
    schema = resolved(root, root)
    properties = as_schema(schema.get("properties"))
    required = set(listed(schema.get("required")))
    found: dict[str, Any] = {}
    for name in list(properties)[:PROPERTIES_MAX]:
        inner = resolved(as_schema(properties[name]), root)
        before = task.state.get(name)
        value = _value(name, inner, before, task, facts)
        if not fits(value, inner, root):
            value = before if fits(before, inner, root) else _empty(inner)
        if name in required or fits(value, inner, root):
            found[name] = value
    return found


def _value(name: str, schema: Mapping[str, Any], before: Any, task: _Task, facts: Sequence[str]) -> Any:
    words, kinds = set(name_words(name)), kinds_of(schema)
    if "enum" in schema:
        return _chosen(words, listed(schema["enum"]), before, task)
    if "array" in kinds:
        kept = cast("list[Any]", before) if isinstance(before, list) else []
        return _items(words, kept, task, facts)
    if "integer" in kinds or "number" in kinds:
        return _number(name, words, before, task)
    if "boolean" in kinds:
        return _is_so(words, task) or before is True
    if "string" in kinds:
        if before and words & _SUBJECT:
            return before  # what it is about stays what it is about
        return _text(name, words, schema, task) or before or _empty(schema)
    return before if before is not None else _empty(schema)


def _chosen(words: set[str], choices: list[Any], before: Any, task: _Task) -> Any:
    texts = [one for one in choices if isinstance(one, str)]
    if words & {"mood", "feeling", "emotion", "tone", "sentiment", "temper"}:
        named = hints.mood_in(task.words, choices=texts)
    else:
        named = choice_named(texts, task.of_person)
    if named:
        return named
    return before if before in choices else (choices[0] if choices else None)


def _items(words: set[str], before: list[Any], task: _Task, facts: Sequence[str]) -> list[Any]:
    if words & {"inventory", "items", "item", "things", "possessions", "carries", "equipment"}:
        gone = hints.dropped_in(task.of_person)
        fresh: Sequence[str] = hints.taken_in(task.of_person)
        before = [one for one in before if one not in gone]
    elif words & {"characters", "people", "present", "persons", "names", "participants", "who"}:
        fresh = [*(name for name, _ in task.said), *hints.people_in(task.words)]
    elif words & {"questions"}:
        asked = re.findall(r"[^.!?\n]+\?", task.of_person)
        fresh = [" ".join(one.split())[:TEXT_CHARS] for one in asked]
    else:
        fresh = facts
    return [*before, *(one for one in dict.fromkeys(fresh) if one not in before)][-ITEMS_MAX:]


def _number(name: str, words: set[str], before: Any, task: _Task) -> int | float:
    known = before if isinstance(before, int | float) and not isinstance(before, bool) else 0
    if words & {"turn", "turns", "round", "rounds", "exchanges"}:
        return known + 1
    said = number_named(name, task.of_person)
    if said is None:
        return known
    return int(said) if said == said.to_integral_value() else float(said)


def _is_so(words: set[str], task: _Task) -> bool:
    spoken = {one.lower() for one in re.findall(r"[A-Za-z]+", task.of_person[: hints.CHARS_MAX])}
    return bool((words - {"is", "has", "in", "the", "was", "needs"}) & spoken)


def _text(name: str, words: set[str], schema: Mapping[str, Any], task: _Task) -> str:
    if words & {"location", "place", "where", "scene", "setting"}:
        return hints.place_in(task.words)
    if words & {"time"}:
        return hints.time_in(task.words)
    if words & {"mood", "feeling", "emotion", "tone", "sentiment", "temper", "atmosphere"}:
        return hints.mood_in(task.words)
    if (form := schema.get("format")) and (formed := text_formed(str(form), task.of_person)):
        return formed
    if words & {"email"}:
        return text_formed("email", task.of_person) or ""
    if words & _TOLD:
        sentences = [one for one in re.split(r"(?<=[.!?])\s+|\n+", task.of_person) if one.strip()]
        return " ".join(sentences[0].split())[:TEXT_CHARS] if sentences else ""
    return text_named(name, task.of_person) or ""


def _empty(schema: Mapping[str, Any]) -> Any:
    """A value that says nothing, of the schema's first type."""
    if "default" in schema:
        return schema["default"]
    kinds = kinds_of(schema)
    if "null" in kinds:
        return None
    first = kinds[0] if kinds else "null"
    empty: dict[str, Any] = {
        "string": "",
        "integer": 0,
        "number": 0,
        "boolean": False,
        "array": [],
        "object": {},
    }
    return empty.get(first)
