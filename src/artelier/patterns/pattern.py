"""A pattern of somebody else: refused, matched in linear time, or tried in a process that can be killed.

All engines give the same answer, which is that of `re` or of `regex`, as the dialect says; each gets only
what it can do. What none of them can do in time is a `PatternTimeout`, never a guess.
"""

from __future__ import annotations

import time
from functools import cache, lru_cache
from threading import Lock, Semaphore
from typing import Any

from artelier.child import START_S, ChildPool, ChildStopped, Question
from artelier.confinement import Needs
from artelier.errors import InvalidRequest, PatternTimeout, ToolFailed
from artelier.patterns.linear import Linear
from artelier.patterns.syntax import (
    SIZE_MAX,
    Dialect,
    NotLinear,
    NotRead,
    flags_of,
    parse_pattern,
    program_of,
    size_of,
)

CHARS_MAX = 2_000
"""Of any pattern; a door may take less."""
COMPILED_MAX = 64
"""Patterns that are kept ready."""
SEARCH_S = 1.0
"""Of the processor, for one text in the helper process."""
ALLOWANCE_S = 3.0
"""Of all searches that share an allowance."""
AT_ONCE_MAX = 2
"""Helper processes that match at once; further texts wait, each for a bounded time."""

_WORKER = "artelier.operations.transforms.worker"
"""The helper process of transforms. It is started by name and imports nothing of this process."""

_slots = Semaphore(AT_ONCE_MAX)


class Allowance:
    """The time that several searches may take of the helper process together."""

    def __init__(self, time_s: float = ALLOWANCE_S) -> None:
        self.left_s = time_s


def check_pattern(text: str, *, dialect: Dialect = "re", flags: str = "") -> None:
    """Refuse what is no pattern, or is too large to be compiled; nothing is compiled.

    Errors: `InvalidRequest` with the reason. What only `regex` can read is not read here.
    """
    if len(text) > CHARS_MAX:
        raise _refused_error(text, expected=f"at most {CHARS_MAX} characters", got=len(text))
    if dialect == "re":
        try:
            parse_pattern(text, flags_of(flags))
        except NotRead as error:
            raise _refused_error(text, expected="a regular expression", got=error) from None
    elif (size := size_of(text)) > SIZE_MAX:
        raise _refused_error(
            text, expected=f"at most {SIZE_MAX} parts with its repeats written out", got=size
        )


def _refused_error(text: str, *, expected: object, got: object) -> InvalidRequest:
    return InvalidRequest(
        f"the pattern {text[:60]!r} cannot be used",
        expected=expected,
        got=got if isinstance(got, int) else str(got)[:200],
        hint="Use fewer or smaller counted repeats, or a plain text." if isinstance(got, int) else None,
    )


@lru_cache(maxsize=COMPILED_MAX)
def compile_pattern(text: str, *, dialect: Dialect = "re", flags: str = "") -> Pattern:
    """Return a pattern whose searches end; it is compiled when it is first used.

    Shapes: `flags` are letters among `imsxa`, as in `(?i)`. Errors: as `check_pattern`.
    """
    check_pattern(text, dialect=dialect, flags=flags)
    return Pattern(text, dialect=dialect, flags=flags)


class Pattern:
    """A pattern that passed the check; made by `compile_pattern`."""

    def __init__(self, text: str, *, dialect: Dialect, flags: str) -> None:
        self.text = text
        self._dialect: Dialect = dialect
        self._flags = flags
        self._lock = Lock()
        self._made = False
        self._linear: Linear | None = None

    @property
    def is_linear(self) -> bool:
        """True if texts are searched in linear time, in this process."""
        return self._engine() is not None

    def is_quick(self, text: str) -> bool:
        """Return whether an event loop may search this text itself; else a thread must."""
        engine = self._engine()
        return engine is not None and engine.is_quick(text)

    def work(self, text: str) -> int:
        """Return what searching this text costs in this process, in steps of 5 ns at worst."""
        engine = self._engine()
        return len(text) if engine is None else engine.work(text)

    def search(self, text: str, *, allowance: Allowance | None = None) -> bool:
        """Return whether the pattern matches somewhere in the text.

        `allowance` bounds what many searches take of the helper process together.
        Errors: `PatternTimeout`; `InvalidRequest` if only now it is seen to be no pattern.
        Cost: O(text x pattern), or it blocks for `SEARCH_S` of a process, waiting for its turn before.
        """
        return self._matches(text, whole=False, allowance=allowance)

    def fullmatch(self, text: str, *, allowance: Allowance | None = None) -> bool:
        """Return whether the pattern matches the whole text; else as `search`."""
        return self._matches(text, whole=True, allowance=allowance)

    def _matches(self, text: str, *, whole: bool, allowance: Allowance | None) -> bool:
        engine = self._engine()
        try:
            found = None if engine is None else engine.matches(text, whole=whole)
        except NotLinear:  # with the characters of this text it has become too large
            found = None
        if found is not None:
            return found
        allowance = Allowance() if allowance is None else allowance
        time_s = min(SEARCH_S, allowance.left_s)
        began = time.monotonic()
        try:
            with _slots:
                began = time.monotonic()
                return self._ask_helper(text, whole=whole, time_s=time_s)
        finally:
            allowance.left_s -= time.monotonic() - began

    def _engine(self) -> Linear | None:
        with self._lock:
            if not self._made:
                self._made = True
                try:
                    program = program_of(self.text, dialect=self._dialect, flags=flags_of(self._flags))
                    self._linear = Linear(program, dialect=self._dialect)
                except NotLinear:
                    self._linear = None
            return self._linear

    def _ask_helper(self, text: str, *, whole: bool, time_s: float) -> bool:
        """The answer of the helper process."""
        if time_s <= 0:
            raise self._timeout("it took too long together with those before", text, time_s)
        match: dict[str, Any] = {
            "pattern": self.text,
            "dialect": self._dialect,
            "flags": flags_of(self._flags),
            "text": text,
            "whole": whole,
        }
        try:
            answer = Question(_pool()).ask({"match": match}, time_s=time_s)
        except (ToolFailed, ChildStopped) as error:
            raise PatternTimeout(
                f"the pattern {self.text[:60]!r} cannot be tried: {error}", kind=self._dialect
            ) from None
        if answer.get("failed") == "error":
            raise _refused_error(self.text, expected="a regular expression", got=answer["message"])
        if "failed" in answer:
            raise self._timeout(answer["message"], text, time_s)
        return bool(answer["value"])

    def _timeout(self, why: str, text: str, time_s: float) -> PatternTimeout:
        return PatternTimeout(
            f"the pattern {self.text[:60]!r} was given up over {len(text)} characters: {why}",
            expected=f"at most {max(0.0, time_s):.3g} s",
            hint="Write it without look-arounds and references back, or without repeats in"
            " repeats such as (a+)+.",
            kind=self._dialect,
        )


@cache
def _pool() -> ChildPool:
    ready = {"pattern": "", "dialect": "re", "flags": 0, "text": "", "whole": False}
    first = {"match": ready, "time_s": START_S}
    return ChildPool(_WORKER, first=first, needs=Needs(preload=("regex",)))
