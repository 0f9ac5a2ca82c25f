"""A summary of a text that stands in the prompt itself: its own sentences, chosen by rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from artelier.models.offline.parts import Part
from artelier.models.offline.summary import points_of, sentences

SENTENCES_MAX = 5
READ_CHARS_MAX = 1_000_000
SOURCE = "the text in the message"

_ASKED = re.compile(
    r"\W*(?:(?:please|now|can you|could you)\s+)*"
    r"(?:summari[sz]e|shorten|condense|give (?:me |us )?(?:a|the) (?:short |brief )?summary of|"
    r"(?:extract|list) (?:the )?(?:key|main) (?:points|facts) (?:of|from|in))\b[^:\n]{0,160}[:\n]\s*(?=\S)",
    re.IGNORECASE,
)


def excerpt_of(prompt: str) -> Part | None:
    """The sentences that matter most, in their order; None if the prompt brings no text of its own."""
    match = _ASKED.match(prompt[:2_000])
    if match is None:
        return None
    found = list(dict.fromkeys(sentences(prompt[match.end() : READ_CHARS_MAX])))
    if len(found) < 2:
        return None
    chosen = _best(found)
    count = f"{len(chosen)} of {len(found)} sentences, word for word"
    return Part(title="Summary of the given text", sentences=tuple(chosen), notes=(count,), sources=(SOURCE,))


def _best(found: Sequence[str]) -> list[str]:
    ranked = sorted(range(len(found)), key=lambda at: (-points_of(found[at]) - (at == 0), at))
    return [found[at] for at in sorted(ranked[:SENTENCES_MAX])]
