"""Patterns that no engine of linear time can match. One may never end: this process is killed then."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import Any

from artelier.operations.transforms.worker.failure import TransformFailure


def matches(asked: dict[str, Any]) -> bool:
    """Return whether the text matches. Errors: `Failure` for what is no pattern."""
    compiled = _compile(asked["pattern"], asked["dialect"], asked["flags"])
    found = compiled.fullmatch if asked["whole"] else compiled.search
    return found(asked["text"]) is not None


@lru_cache(maxsize=64)
def _compile(pattern: str, dialect: str, flags: int) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if dialect == "re":
                return re.compile(pattern, flags)
            return _other(pattern, flags)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise TransformFailure("error", f"not a regular expression: {str(error)[:200]}") from None


def _other(pattern: str, flags: int) -> Any:
    import regex

    chosen = regex.RegexFlag(0)
    for ours, theirs in ((re.I, regex.I), (re.M, regex.M), (re.S, regex.S), (re.X, regex.X), (re.A, regex.A)):
        chosen |= theirs if flags & ours else regex.RegexFlag(0)
    try:
        return regex.compile(pattern, chosen, cache_pattern=False)
    except regex.error as error:
        raise ValueError(str(error)) from None
