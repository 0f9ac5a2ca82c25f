"""Patterns that a tenant brings: regular expressions of strangers, run with a limit of time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from artelier.errors import InvalidRequest, PatternTimeout
from artelier.ports.pii import Detector, Found

if TYPE_CHECKING:
    import regex

EXPRESSION_CHARS_MAX = 2_000
SEARCH_TIME_S = 0.25
"""For one search of one text. Prose of 1 MB takes a sane expression a few hundredths of a second."""

_KIND = re.compile(r"[A-Z][A-Z0-9_]{1,23}")


def pattern(kind: str, expression: str) -> Detector:
    """A detector of whatever the expression matches, in the syntax of the library `regex`.

    Groups have no meaning: the whole match is the value, and its own normal form. A text over which the
    expression takes longer than `SEARCH_TIME_S` is refused with `PatternTimeout`; it may not be sent on.
    Errors: `InvalidRequest` for a kind that is no `[A-Z][A-Z0-9_]{1,23}`, for an expression that cannot be
    read, is longer than 2,000 characters, or matches the empty text.
    """
    if not _KIND.fullmatch(kind):
        raise InvalidRequest(
            "the kind of a pattern is not a name",
            expected="2 to 24 of A-Z, 0-9 and _, a letter first",
            got=repr(kind),
        )
    return TenantPattern(kind, expression, _compile(kind, expression))


def _compile(kind: str, expression: str) -> regex.Pattern[str]:
    import regex

    from artelier.patterns import check_pattern

    if len(expression) > EXPRESSION_CHARS_MAX:
        raise InvalidRequest(
            f"the pattern of {kind} is too long",
            expected=f"at most {EXPRESSION_CHARS_MAX} characters",
            got=len(expression),
        )
    check_pattern(expression, dialect="regex")
    try:
        compiled = regex.compile(expression, cache_pattern=False)
        empty = compiled.search("", timeout=SEARCH_TIME_S) is not None
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError, TimeoutError) as error:
        raise InvalidRequest(
            f"the pattern of {kind} cannot be used", got=repr(expression), hint=str(error)
        ) from error
    if empty:
        raise InvalidRequest(
            f"the pattern of {kind} matches the empty text",
            got=repr(expression),
            hint="Use `+` in place of `*`, or name what must stand there.",
        )
    return compiled


class TenantPattern:
    """A detector of what an expression matches; `pattern` makes one."""

    def __init__(self, kind: str, expression: str, compiled: regex.Pattern[str]) -> None:
        self.kind = kind
        self.expression = expression
        self._compiled = compiled

    def find(self, text: str, /) -> Iterator[Found]:
        try:
            for match in self._compiled.finditer(text, timeout=SEARCH_TIME_S, concurrent=True):
                start, end = match.span()
                if end > start:
                    yield Found(start, end, self.kind, match[0])
        except (TimeoutError, MemoryError) as error:
            raise PatternTimeout(
                f"the pattern of {self.kind} took too long over a text of {len(text)} characters",
                expected=f"at most {SEARCH_TIME_S} s",
                hint="Make the expression simpler: no repetition inside a repetition.",
                kind=self.kind,
            ) from error
