"""The work that schemas of others make for the offline model: counted for all of a reply together."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from artelier.errors import InvalidRequest, PatternTimeout
from artelier.patterns import Allowance, compile_pattern

PATTERN_CHARS_MAX = 500
TEXT_CHARS_MAX = 10_000
CHECKS_MAX = 300_000
"""Values that are compared with a schema, for one reply (measured: 3 us)."""
QUICK_CHECKS_MAX = 20_000
"""The same for a reply on an event loop."""
PATTERN_WORK = 600
"""Steps of a pattern that count as one of these (measured: 5 ns)."""


class TooMuchAtOnce(Exception):
    """A reply that an event loop has no time for."""


class _Bound:
    def __init__(self, *, quick: bool) -> None:
        self.allowance = Allowance()
        self.is_quick = quick
        self.left = QUICK_CHECKS_MAX if quick else CHECKS_MAX


_bound: ContextVar[_Bound | None] = ContextVar("bound", default=None)


@contextmanager
def bounded(*, quick: bool) -> Generator[None]:
    """Let all checks within share one bound. Errors: `TooMuchAtOnce` from within, if it is quick."""
    token = _bound.set(_Bound(quick=quick))
    try:
        yield
    finally:
        _bound.reset(token)


def spend(count: int = 1) -> bool:
    """Count a check; False if too many were made. Errors: `TooMuchAtOnce`."""
    return _spent(_bound.get() or _Bound(quick=False), count)


def _spent(bound: _Bound, count: int) -> bool:
    bound.left -= count
    if bound.left < 0 and bound.is_quick:
        raise TooMuchAtOnce
    return bound.left >= 0


def is_match(pattern: str, text: str, *, whole: bool = False) -> bool:
    """Return whether a text matches; False for what is no pattern, or would take too long.

    Errors: `TooMuchAtOnce`.
    """
    bound = _bound.get() or _Bound(quick=False)
    text = text[:TEXT_CHARS_MAX]
    try:
        compiled = compile_pattern(pattern[:PATTERN_CHARS_MAX])
        if bound.is_quick and not compiled.is_quick(text):
            raise TooMuchAtOnce
        if not _spent(bound, compiled.work(text) // PATTERN_WORK):
            return False
        match = compiled.fullmatch if whole else compiled.search
        return match(text, allowance=bound.allowance)
    except (InvalidRequest, PatternTimeout):
        return False
