"""Which regular expressions of a stranger may be tried here: those that cannot take long on this text."""

from __future__ import annotations

import re
from functools import lru_cache

PATTERN_CHARS_MAX = 500
STEPS_MAX = 5_000_000
"""Of backtracking at worst: about half a second."""

_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPED = re.compile(r"\\[^0-9gkPx]|\\x[0-9a-fA-F]{2}")
_FIXED = re.compile(r"\{\d{1,3}\}")


def is_harmless(pattern: object, text: str) -> bool:
    """Whether trying the pattern on the text surely ends soon; if not, the server must judge."""
    if not isinstance(pattern, str) or len(pattern) > PATTERN_CHARS_MAX:
        return False
    shape = _shape(pattern)
    if shape is None:
        return False
    repeats, branches = shape
    return (len(text) + 1) ** (repeats + 1) * 2**branches <= STEPS_MAX


@lru_cache(maxsize=1_000)
def _shape(pattern: str) -> tuple[int, int] | None:
    """How many open repetitions and choices a pattern has, or None if it repeats groups or looks back.

    Without repeated groups each repetition tries at most every length, and each choice at most doubles.
    """
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None
    bare = _ESCAPED.sub("x", _CLASS.sub("x", pattern)).replace("(?:", "(")
    if "\\" in bare or "(?" in bare or re.search(r"\)[*+{]", bare):
        return None
    bare = _FIXED.sub("", bare)
    return len(re.findall(r"[*+{]", bare)), len(re.findall(r"[?|]", bare))
