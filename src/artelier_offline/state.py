"""Small written work that profiles ask for by headings: a state kept up to date, facts, a question alone.

Nothing is inferred: a state keeps what nobody changed, facts are the words of who stated them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.ports.model import ModelRequest
from artelier_offline.conversation import json_in, sections
from artelier_offline.memory import is_statement, statements
from artelier_offline.words import flat, folded, name_words

ITEMS_MAX = 20
"""Of a list in a state; the oldest are dropped."""
TEXT_CHARS_MAX = 200
PROPERTIES_MAX = 60
READ_CHARS_MAX = 8_000

_STATE = re.compile(
    r"(?:[\w' -]{0,40} )?state(?: so far| before| until now)?|current state|previous state", re.I
)
_TALK = re.compile(r"conversation|exchange|messages?|what was (?:just )?said|dialogue", re.I)
_QUESTION = re.compile(r"^## (?:the |newest )?question[ \t]*\n", re.I | re.M)
_REWRITE = re.compile(r"\W*(?:please )?(?:rewrite|rephrase|reformulate)\b[^\n]{0,200}\bquestion\b", re.I)
_LISTS = re.compile(r"\W*(?:please )?(?:list|note|collect|extract|write down)\b[^\n]{0,120}\bfacts\b", re.I)
_SPEAKER = re.compile(r"^([^:\n]{1,60}): ?", re.M)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|them|their|this|that|those|these|he|him|his|she|her|there)\b", re.I
)
_FOLLOWS = re.compile(r"^\s*(?:and|what about|how about|also|then)\b", re.I)
_TERM = re.compile(r"\b[A-Z][\w-]+(?:\s+[A-Z][\w-]+)*|\b[a-z][\w-]{5,}\b")
_ARTICLE = re.compile(r"(?:The|A|An|My|Our|His|Her|Their)\s+")
_COMMON = frozenset(
    "please question answer should could because before between through during without really"
    " always something anything nothing everything another".split()
)
_SUBJECT = frozenset("issue problem topic goal request subject".split())
_TOLD = _SUBJECT | {"summary", "event", "happened", "last", "latest"}
_MOOD_NAMES = frozenset("mood feeling emotion tone sentiment temper atmosphere".split())
_THINGS = frozenset("inventory item thing possession carry equipment".split())
_PEOPLE = frozenset("character person present name participant who".split())
_ABOUT = re.compile(r"(?:the|my|our|his|her|their|its|this|that|in \d{4})\b", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchange:
    """The messages so far, the oldest first."""

    said: Sequence[tuple[str, str]]

    @property
    def words(self) -> str:
        return "\n".join(text for _, text in self.said)[:READ_CHARS_MAX]

    @property
    def of_person(self) -> str:
        """The words of everybody but the last speaker, who is the model itself."""
        model = self.said[-1][0] if len({name for name, _ in self.said}) > 1 else ""
        return "\n".join(text for name, text in self.said if name != model)[:READ_CHARS_MAX]


def written(request: ModelRequest) -> str | None:
    """Return what is asked to be written; None if nothing of the kind is."""
    last = request.messages[-1] if request.messages else None
    if request.tools or last is None or last.role != "user":
        return None
    headed: dict[str, str] = {}
    for title, lines in sections(last.text):
        for name, pattern in (("state", _STATE), ("talk", _TALK)):
            if pattern.fullmatch(title.strip()):
                headed.setdefault(name, "\n".join(lines).strip())
    marks = list(_SPEAKER.finditer(headed.get("talk", "")))
    ends = [*(mark.start() for mark in marks), len(headed.get("talk", ""))][1:]
    talk = _Exchange(
        said=[
            (mark[1].strip(), headed["talk"][mark.end() : end].strip())
            for mark, end in zip(marks, ends, strict=True)
        ]
    )
    if _REWRITE.match(last.text) and request.output_schema is None:
        asked = _QUESTION.split(last.text, maxsplit=1)[1:]  # to the end, whatever it looks like
        return _standing_alone(asked[0], talk) if asked and asked[0].strip() else None
    if not talk.said or not ("state" in headed or _LISTS.match(last.text)):
        return None
    if request.output_schema is not None:
        return json.dumps(
            _filled(request.output_schema, json_in(headed.get("state", "")), talk), ensure_ascii=False
        )
    return "\n".join(f"- {one}" for one in _facts(talk)) or "None." if _LISTS.match(last.text) else None


def _facts(talk: _Exchange) -> list[str]:
    """Return the sentences of people that state something, as they are."""
    found = [
        one
        for one in statements(talk.of_person)
        if is_statement(one.rstrip(".!")) or (_ABOUT.match(one) and one.count(" ") >= 3)
    ]
    return list(dict.fromkeys(flat(one, TEXT_CHARS_MAX) for one in found))[:ITEMS_MAX]


def _standing_alone(asked: str, talk: _Exchange) -> str:
    """Return the question; if it points back, with the last thing that was talked of."""
    question = flat(asked, 1_000)
    if not (_POINTS_BACK.search(question) or _FOLLOWS.match(question)):
        return question
    known = set(name_words(question))
    for _, text in reversed(talk.said):
        terms = [one for one in _terms(text) if not set(name_words(one)) <= known]
        named = [one for one in terms if one[0].isupper()]
        if terms and " ".join(text.split()) != question:
            return f"{question.rstrip('? ')} (about {(named or terms)[-1]})?"
    return question


def _terms(text: str) -> list[str]:
    """Return the names and the longer words of a text."""
    found: list[str] = []
    for match in _TERM.finditer(text[:READ_CHARS_MAX]):
        term = _ARTICLE.sub("", match.group())
        begins = text[: match.start()].rstrip()[-1:] in ("", *'.!?”“":')
        if begins and match.group()[0].isupper() and " " not in match.group():
            term = term.lower()
        if len(term) > 5 or term[:1].isupper():
            found.append(term)
    return [one for one in found if one.lower() not in _COMMON]


# The fields of a state


def _filled(schema: Mapping[str, Any], before: object, talk: _Exchange) -> dict[str, Any]:
    state = cast("dict[str, Any]", before) if isinstance(before, dict) else {}
    properties: dict[str, Any] = schema.get("properties") or {}
    return {
        name: _value(
            name, cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}, state.get(name), talk
        )
        for name, inner in list(properties.items())[:PROPERTIES_MAX]
    }


def _value(name: str, schema: Mapping[str, Any], before: object, talk: _Exchange) -> Any:
    words, kind = set(name_words(name)), schema.get("type")
    choices: Any = schema.get("enum")
    if isinstance(choices, list):
        texts = [one for one in cast("list[Any]", choices) if isinstance(one, str)]
        named = mood_in(talk.words, choices=texts) if words & _MOOD_NAMES else _named(texts, talk.of_person)
        return named or (before if before in choices else cast("list[Any]", choices)[0])
    if kind == "array":
        kept = cast("list[Any]", before) if isinstance(before, list) else []
        most = schema.get("maxItems")
        return _items(words, kept, talk)[-min(ITEMS_MAX, most if isinstance(most, int) else ITEMS_MAX) :]
    if kind in ("integer", "number"):
        known = before if isinstance(before, int | float) and not isinstance(before, bool) else 0
        return known + 1 if words & {"turn", "round", "exchange"} else known
    if kind == "boolean":
        return before is True
    if kind == "string":
        if before and words & _SUBJECT:
            return before  # what it is about stays what it is about
        return _text(words, name, talk) or before or ""
    return before


def _named(choices: Sequence[str], text: str) -> str:
    """Return the only one of some texts that is said."""
    said = f" {folded(text)} "
    found = [one for one in choices if one and f" {folded(one)} " in said]
    return found[0] if len(found) == 1 else ""


def _items(words: set[str], before: list[Any], talk: _Exchange) -> list[Any]:
    if words & _THINGS:
        gone = {_plain(one).lower() for one in _DROPS.findall(talk.of_person)}
        before = [one for one in before if one not in gone]
        fresh: Sequence[str] = [_plain(one).lower() for one in _TAKES.findall(talk.of_person) if _plain(one)]
    elif words & _PEOPLE:
        fresh = [*(name for name, _ in talk.said), *people_in(talk.words)]
    elif "question" in words:
        fresh = [flat(one, TEXT_CHARS_MAX) for one in re.findall(r"[^.!?\n]+\?", talk.of_person)]
    else:
        fresh = _facts(talk)
    return [*before, *(one for one in dict.fromkeys(fresh) if one not in before)]


def _text(words: set[str], name: str, talk: _Exchange) -> str:
    if words & {"location", "place", "where", "scene", "setting"}:
        found = [*_GOES.finditer(talk.words), *_ENTERS.finditer(talk.words)]
        last = max(found, key=lambda one: one.start(), default=None)
        return _plain(last[1]) if last is not None else ""
    if "time" in words:
        times = _TIMES.findall(talk.words)
        return times[-1].lower() if times else ""
    if words & _MOOD_NAMES:
        return mood_in(talk.words)
    if words & _TOLD:
        sentences = [one for one in re.split(r"(?<=[.!?])\s+|\n+", talk.of_person) if one.strip()]
        return flat(sentences[0], TEXT_CHARS_MAX) if sentences else ""
    return _stated(name, talk.of_person)


def _stated(name: str, text: str) -> str:
    """Return the text behind a field's name: `name: Ada`, `name is Ada`, `order AB-77`."""
    pattern = r"[\s_-]+".join(map(re.escape, name_words(name)))
    match = re.search(
        rf"(?<!\w){pattern}\s*(?:[:=]|\bis\b)\s*(\"[^\"\n]{{1,300}}\"|[^\n;,]{{1,300}})", text, re.I
    )
    match = match or re.search(
        rf"(?i:(?<!\w){pattern})\s+((?=[\w./-]{{0,60}}\d)[A-Z0-9][\w./-]{{1,60}})", text
    )
    if match is None:
        return ""
    return re.split(r"\.(?:\s|$)|\s+(?:and|but)\s+", match[1].strip().strip('"'))[0].strip()[:TEXT_CHARS_MAX]


# What a scene says of places, things and moods

_END = "and|with|to|where|but|then|while|as|from|for|so|when|because|in|at|on"
_WORDS = rf"([\w'’-]+(?:[ ]+(?!(?:{_END})\b)[\w'’-]+){{0,3}})"
_OF = r"(?:the |an? |my |our |his |her |their |some |this |that )"
_HOW = "back|out|up|down|over|quickly|slowly|quietly|together"


def _said(verbs: str, between: str) -> re.Pattern[str]:
    """Forms of some verbs, then what they are about: at most four words."""
    return re.compile(rf"\b(?:{'|'.join(verbs.split())})\b{between}{_WORDS}", re.I)


_GOES = _said(
    "go goes going went walk walks walked run runs ran head heads headed travel travels return returned"
    " climb climbs ride rides rode sail sails move moves moved step steps stepped hurry come comes came get"
    " gets got arrive arrives arrived leave leaves left",
    rf"(?:[ ]+(?:{_HOW})){{0,2}}[ ]+(?:into|inside|onto|towards?|through|to|in|at|for)[ ]+{_OF}?",
)
_ENTERS = _said("enter enters entered reach reaches reached", rf"[ ]+{_OF}?")
_TAKES = _said(
    "take takes took grab grabs grabbed buy buys bought find finds found get gets got receive received pick"
    " picks picked",
    rf"(?:[ ]+up)?[ ]+{_OF}",
)
_DROPS = _said(
    "drop drops dropped give gives gave lose loses lost sell sells sold throw throws threw",
    rf"(?:[ ]+away)?[ ]+{_OF}",
)
_TIMES = re.compile(
    r"\b(dawn|sunrise|morning|noon|midday|afternoon|evening|dusk|sunset|midnight|night)\b", re.I
)
_PERSON = re.compile(r"(?<=[a-z,;] )([A-Z][a-z][\w'-]{1,30}(?: [A-Z][a-z][\w'-]{1,30})*)")
_NO_PERSON = frozenset("I I'm The A An And But We You He She They It Then".split())
_MOODS = {
    "angry": "angry anger furious shout shouts shouted rage hate insult complain outrageous unacceptable",
    "tense": "attack attacks attacked fight fights sword strike strikes danger threaten blood shoot enemy",
    "afraid": "afraid fear scared terrified frightened panic flee flees",
    "sad": "sad cry cries cried tears grief mourn lonely sorry",
    "happy": "happy glad smile smiles smiled laugh laughs laughed joy thanks thank great wonderful cheer",
    "calm": "calm rest rests quiet quietly peace peaceful sit sits sleep sleeps relax tea",
    "curious": "curious wonder wonders look looks search searches examine explore read reads",
    "worried": "worried worry urgent asap problem broken fails failed error waiting",
}
_MOOD_OF = {word: mood for mood, words in _MOODS.items() for word in words.split()}


def mood_in(text: str, *, choices: Iterable[str] = ()) -> str:
    """Return the mood that most words speak of, the later one of two; empty if none does."""
    allowed = set(choices)
    moods = [_MOOD_OF[word] for word in re.findall(r"[a-z]+", text.lower()) if word in _MOOD_OF]
    moods = [mood for mood in moods if not allowed or mood in allowed]
    return max(reversed(moods), key=moods.count, default="")


def people_in(text: str) -> list[str]:
    """Return the names inside sentences; behind `the`, `at`, `in` or `to` stands a place or a thing."""
    found = [
        match[1]
        for match in _PERSON.finditer(text)
        if not text[: match.start()].lower().endswith(("the ", " at ", " in ", " to "))
    ]
    return [one for one in dict.fromkeys(found) if one not in _NO_PERSON and not one.endswith(("'s", "’s"))]


def _plain(words: str) -> str:
    return " ".join(words.split()).strip(" '’-")[:60]
