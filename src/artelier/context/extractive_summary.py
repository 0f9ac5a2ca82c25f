"""A summary without a model: the sentences that carry facts, in order, within a size. Deterministic."""

from __future__ import annotations

import re
from collections.abc import Sequence

from artelier.context.loss import facts_of
from artelier.tokens import estimate_tokens
from artelier.tokens.estimate import cut

LINE_TOKENS = 60
"""Of one message in an extract, at most, beside its facts."""

FACTS_SHARE = 3
"""Of three tokens, one is for the list of facts."""


def extract(texts: Sequence[str], *, tokens: int, previous: str = "") -> str:
    """The texts (one a message) within `tokens`: an earlier summary, the newest lines, the facts of all.

    Cost: O(n).
    """
    parts: list[str] = []
    room = tokens
    if previous:
        earlier = cut(previous, tokens=tokens // 3, where="middle")
        parts.append(earlier)
        room -= estimate_tokens(earlier)
    facts = _facts(texts, tokens=room // FACTS_SHARE)
    if facts:
        room -= estimate_tokens(facts)
    kept: list[str] = []
    for text in reversed(texts):
        line = _line(text)
        size = estimate_tokens(line) + 1
        if size > room:
            break
        kept.append(line)
        room -= size
    left_out = len(texts) - len(kept)
    if left_out:
        parts.append(f"({left_out} earlier messages are only in the log.)")
    parts.extend(reversed(kept))
    if facts:
        parts.append(facts)
    return "\n".join(parts)


def _line(text: str) -> str:
    flat = re.sub(r"\s+", " ", text).strip()
    return cut(flat, tokens=LINE_TOKENS, where="middle").replace("\n", " ")


def _facts(texts: Sequence[str], *, tokens: int) -> str:
    """`Seen: a, b, c`, the newest facts first in line for the room there is."""
    found: dict[str, None] = {}
    room = tokens
    for text in reversed(texts):
        facts = facts_of(text)
        for fact in (*facts["identifiers"], *facts["paths"], *facts["numbers"]):
            size = estimate_tokens(fact) + 1
            if fact in found:
                continue
            if size > room:
                return _seen(found)
            found[fact] = None
            room -= size
    return _seen(found)


def _seen(found: dict[str, None]) -> str:
    return f"Seen: {', '.join(found)}" if found else ""
