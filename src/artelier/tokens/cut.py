"""Shortening text to a number of tokens, with a mark that says how much is gone."""

from __future__ import annotations

from typing import Literal

from artelier.tokens.estimate import estimate_tokens

Where = Literal["start", "end", "middle"]

MARK_TOKENS = 12
"""What the mark itself takes, about."""


def cut(text: str, *, tokens: int, where: Where) -> str:
    """The text within `tokens` (by estimate, mark included): its end, its start or its middle is gone.

    Empty if not even the mark fits. Cost: O(n), a few passes in C.
    """
    if estimate_tokens(text) <= tokens:
        return text
    room = tokens - MARK_TOKENS
    if room <= 0:
        return ""
    kept = _fitting(text, room, where)
    gone = len(text) - kept
    mark = f"[... {gone:,} characters left out ...]"
    if where == "end":
        return f"{text[:kept]}\n{mark}"
    if where == "start":
        return f"{mark}\n{text[gone:]}"
    head = (kept + 1) // 2
    return f"{text[:head]}\n{mark}\n{text[len(text) - (kept - head) :]}"


def _fitting(text: str, tokens: int, where: Where) -> int:
    """Return how many characters may stay. Tokens are not evenly spread, so the guess is refined."""
    low, high = 0, len(text)
    kept = min(high, tokens * 4)
    for _ in range(24):
        if estimate_tokens(_join_kept(text, kept, where)) <= tokens:
            low = kept
        else:
            high = kept - 1
        if low >= high:
            break
        kept = (low + high + 1) // 2
    return low


def _join_kept(text: str, count: int, where: Where) -> str:
    if where == "end":
        return text[:count]
    if where == "start":
        return text[len(text) - count :]
    head = (count + 1) // 2
    return text[:head] + text[len(text) - (count - head) :]
