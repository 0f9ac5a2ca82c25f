"""The part of steering that rules can follow: how far to look, and how much to write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from artelier.models.offline.missions.prompt import Prompt

Length = Literal["terse", "short", "plain", "thorough"]

LOOKS_MAX = 3

_WEIGHED = re.compile(r"\bweigh (\d{1,2}) actions\b", re.IGNORECASE)
_WORDS = re.compile(r"\babout ([\d,]{1,9}) words\b", re.IGNORECASE)
_SIDES = re.compile(r"\bfrom several sides\b|\bseveral tools\b", re.IGNORECASE)
_SECOND = re.compile(r"\bby a second way\b|\bgather evidence before\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    looks: int = 0
    """How many looks at the data beside the question's own are wanted before anything is written."""
    texts: bool = False
    """Whether the texts are looked into as well."""
    length: Length = "plain"


def policy_of(prompt: Prompt) -> Policy:
    """The policy of a prompt; without any, nothing beyond the question is looked at."""
    text = prompt.section("Policy")
    weighed = int(match[1]) if (match := _WEIGHED.search(text)) else 0
    words = int(match[1].replace(",", "") or 0) if (match := _WORDS.search(text)) else 0
    sides = bool(_SIDES.search(text))
    looks = int(weighed > 2) + int(sides) + int(bool(_SECOND.search(text)))
    return Policy(looks=min(looks, LOOKS_MAX), texts=sides, length=_length(words))


def _length(words: int) -> Length:
    if not words:
        return "plain"
    if words <= 100:
        return "terse"
    return "short" if words <= 200 else "plain" if words <= 400 else "thorough"
