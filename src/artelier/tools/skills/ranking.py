"""The ranking of skills for a query: rare words weigh more, and more again if they are in a name."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from artelier.tools.skills.prompt.listing import short_line
from artelier.tools.skills.skill import Skill

QUERY_CHARS_MAX = 400
TEXT_CHARS_MAX = 4_000
"""Of one skill's instructions that are looked at."""
NAME_WEIGHT, DESCRIPTION_WEIGHT = 6, 3
"""A guess: what a skill is called says most about it."""

_WORD = re.compile(r"[a-z0-9]+")
_EMPTY = frozenset(
    "a an and are as at be by can do for from has have how i in into is it me my of on or our please"
    " s that the their this to want was we what when where which who with you your".split()
)


def best(query: str, skills: Sequence[Skill], *, limit: int) -> list[dict[str, str]]:
    """The skills that a query fits best, as `{name, line}`; BM25 without its length term's default."""
    wanted = set(_words(query[:QUERY_CHARS_MAX]))
    weights = [_weights(skill) for skill in skills]
    have = Counter(word for one in weights for word in one.keys() & wanted)
    rare = {word: math.log(1 + (len(skills) - count + 0.5) / (count + 0.5)) for word, count in have.items()}
    scored = [
        (sum(rare[word] * one[word] / (one[word] + 2.0) for word in one.keys() & wanted), skill)
        for one, skill in zip(weights, skills, strict=True)
    ]
    found = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].name))
    return [
        {"name": skill.name, "line": short_line(skill.name, skill.definition.description, many=False)}
        for _, skill in found[:limit]
    ]


def _weights(skill: Skill) -> Counter[str]:
    definition = skill.definition
    counts: Counter[str] = Counter(_words(definition.instructions[:TEXT_CHARS_MAX]))
    for word in _words(skill.name):
        counts[word] += NAME_WEIGHT
    for word in _words(definition.description):
        counts[word] += DESCRIPTION_WEIGHT
    return counts


def _words(text: str) -> list[str]:
    """Lower-case words that say something, without the endings of English plurals and participles."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _EMPTY]


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word.removesuffix("ies") + "y"
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word
