"""One search with several detectors: where they disagree, the longer value counts, then the surer kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from artelier.errors import InvalidRequest, PatternTimeout
from artelier.pii.detectors.addresses import Emails, Ips
from artelier.pii.detectors.check_digits import Cards, Ibans, NationalIds
from artelier.pii.detectors.phone import Phones
from artelier.pii.detectors.secret import Secrets
from artelier.pii.detectors.text_view import Shipped, TextReading
from artelier.ports.pii import Detector, Found

if TYPE_CHECKING:
    import regex


def builtin_detectors() -> tuple[Detector, ...]:
    """The detectors that come with Artelier, the most certain first."""
    return (Secrets(), Ibans(), Cards(), Emails(), NationalIds(), Ips(), Phones())


def find_all(detectors: Sequence[Detector], text: str) -> list[Found]:
    """Return what the detectors find in the text: ascending, no two overlap.

    Of two that overlap the longer is kept, of two as long that of the detector which stands first.
    Errors: what a detector raises; `InvalidRequest` if one answers with a place outside the text or another
    kind. Then the text was not searched whole and may not be sent on.
    Cost: about 30 µs for 1,000 characters of prose with the shipped ones, which read the text together.
    """
    reading = TextReading(text)
    ranked: list[tuple[int, int, Found]] = []
    for rank, detector in enumerate(detectors):
        if isinstance(detector, Shipped):
            ranked.extend((found.start - found.end, rank, found) for found in detector.read(reading))
        else:
            ranked.extend((found.start - found.end, rank, found) for found in _find_checked(detector, text))
    if len(ranked) < 2:
        return [found for _, _, found in ranked]
    ranked.sort()
    return sorted(_apart(ranked, len(text)))


def _apart(ranked: Sequence[tuple[int, int, Found]], length: int) -> Iterator[Found]:
    """Yield those that overlap none before them, the longest first. Cost: O(length + findings)."""
    taken = bytearray(length)
    for _, _, found in ranked:
        # None is longer than one that was taken before: where they overlap, one of its ends is in that.
        if not (taken[found.start] or taken[found.end - 1]):
            taken[found.start : found.end] = b"\1" * (found.end - found.start)
            yield found


def _find_checked(detector: Detector, text: str) -> Iterable[Found]:
    for found in detector.find(text):
        if not (0 <= found.start < found.end <= len(text)) or found.kind != detector.kind:
            raise InvalidRequest(
                f"the detector of {detector.kind} answers with what is not in the text",
                expected=f"{detector.kind} within 0 to {len(text)}",
                got=f"{found.kind} from {found.start} to {found.end}",
            )
        if not found.normal:
            raise InvalidRequest(f"the detector of {detector.kind} gives a value without a normal form")
        yield found


# --------------------------------------------------------------------------- pattern
# Patterns that a tenant brings: regular expressions of strangers, run with a limit of time.


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
