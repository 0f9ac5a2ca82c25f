"""The lines of a transcript in pieces that fit a summariser's window."""

from __future__ import annotations

from collections.abc import Iterable

from artelier.tokens import estimate_tokens


def pieces(texts: Iterable[str], *, tokens: int, count_max: int) -> list[range]:
    """Return which texts go together so that they are few and fit `tokens` each; at most `count_max` ranges.

    The oldest and the newest pieces are kept: a task's beginning and its present state.
    """
    found: list[range] = []
    start, size, index = 0, 0, -1
    for index, text in enumerate(texts):
        more = estimate_tokens(text) + 1
        if index > start and size + more > tokens:
            found.append(range(start, index))
            start, size = index, 0
        size += more
    if index >= start:
        found.append(range(start, index + 1))
    if len(found) <= count_max:
        return found
    return [found[0], *found[len(found) - count_max + 1 :]]
