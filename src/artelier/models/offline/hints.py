"""Hints about a scene in the words of a conversation: places, belongings, moods."""

from __future__ import annotations

import re
from collections.abc import Iterable

CHARS_MAX = 8_000

_END = "and|with|to|where|but|then|while|as|from|for|so|when|because|in|at|on"
_WORDS = rf"([\w'’-]+(?:[ ]+(?!(?:{_END})\b)[\w'’-]+){{0,3}})"
_OF = r"(?:the |an? |my |our |his |her |their |some |this |that )"
_HOW = "back|out|up|down|over|quickly|slowly|quietly|together"


def _said(verbs: str, between: str) -> re.Pattern[str]:
    """Forms of some verbs, then what they are about: at most four words."""
    return re.compile(rf"\b(?:{'|'.join(verbs.split())})\b{between}{_WORDS}", re.IGNORECASE)


_GOES = _said(
    "go goes going went walk walks walked run runs ran head heads headed travel travels return returned"
    " climb climbs ride rides rode sail sails move moves moved step steps stepped hurry come comes came"
    " get gets got arrive arrives arrived leave leaves left",
    rf"(?:[ ]+(?:{_HOW})){{0,2}}[ ]+(?:into|inside|onto|towards?|through|to|in|at|for)[ ]+{_OF}?",
)
_ENTERS = _said("enter enters entered reach reaches reached", rf"[ ]+{_OF}?")
_TAKES = _said(
    "take takes took grab grabs grabbed buy buys bought find finds found get gets got receive received"
    " pick picks picked",
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

MOODS: dict[str, str] = {
    "angry": "angry anger furious shout shouts shouted rage hate insult complain outrageous unacceptable",
    "tense": "attack attacks attacked fight fights sword strike strikes danger threaten blood shoot enemy",
    "afraid": "afraid fear scared terrified frightened panic flee flees",
    "sad": "sad cry cries cried tears grief mourn lonely sorry",
    "happy": "happy glad smile smiles smiled laugh laughs laughed joy thanks thank great wonderful cheer",
    "calm": "calm rest rests quiet quietly peace peaceful sit sits sleep sleeps relax tea",
    "curious": "curious wonder wonders look looks search searches examine explore read reads",
    "worried": "worried worry urgent asap problem broken fails failed error waiting",
}
"""How a conversation feels, and words that say so."""

_MOOD_OF = {word: mood for mood, words in MOODS.items() for word in words.split()}


def place_in(text: str) -> str:
    """Return where somebody goes last; empty if nobody goes anywhere."""
    found = [*_GOES.finditer(text[:CHARS_MAX]), *_ENTERS.finditer(text[:CHARS_MAX])]
    last = max(found, key=lambda one: one.start(), default=None)
    return _plain(last[1]) if last is not None else ""


def time_in(text: str) -> str:
    """The last time of day that is named; empty for none."""
    found = _TIMES.findall(text[:CHARS_MAX])
    return found[-1].lower() if found else ""


def mood_in(text: str, *, choices: Iterable[str] = ()) -> str:
    """The mood that most words speak of, the later one of two; empty if none does."""
    words = [one.lower() for one in re.findall(r"[A-Za-z]+", text[:CHARS_MAX])]
    moods = [_MOOD_OF[word] for word in words if word in _MOOD_OF]
    allowed = set(choices)
    moods = [mood for mood in moods if not allowed or mood in allowed]
    return max(reversed(moods), key=moods.count, default="")


def taken_in(text: str) -> list[str]:
    """Things that somebody takes, in order."""
    return [_plain(one).lower() for one in _TAKES.findall(text[:CHARS_MAX]) if _plain(one)]


def dropped_in(text: str) -> set[str]:
    """Things that somebody gives away or loses."""
    return {_plain(one).lower() for one in _DROPS.findall(text[:CHARS_MAX])}


def people_in(text: str) -> list[str]:
    """Names inside sentences, each once."""
    found = [
        match[1]
        for match in _PERSON.finditer(text[:CHARS_MAX])
        if not text[: match.start()].lower().endswith(("the ", " at ", " in ", " to "))  # a place or a thing
    ]
    return [one for one in dict.fromkeys(found) if one not in _NO_PERSON and not one.endswith(("'s", "’s"))]


def _plain(words: str) -> str:
    return " ".join(words.split()).strip(" '’-")[:60]
