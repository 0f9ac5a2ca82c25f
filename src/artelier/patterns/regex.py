"""A pattern of somebody else: refused, matched in linear time, or tried in a process that can be killed.

All engines give the same answer, which is that of `re` or of `regex`, as the dialect says; each gets only
what it can do. What none of them can do in time is a `PatternTimeout`, never a guess.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterable
from functools import cache, lru_cache
from threading import Lock, Semaphore
from types import ModuleType
from typing import Any, cast

from artelier.child import START_S, ChildPool, ChildStopped, HelperValue, Question
from artelier.confinement import Needs
from artelier.errors import InvalidRequest, PatternTimeout, ToolFailed
from artelier.patterns.regex_syntax import (
    SIZE_MAX,
    Dialect,
    LinearProgram,
    NotLinear,
    NotRead,
    flags_of,
    parse_pattern,
    program_of,
    size_of,
)

# --------------------------------------------------------------------------- linear
# Patterns in linear time: RE2, over a small alphabet instead of characters.
#
# RE2 knows other classes of characters than Python. So it never sees a character: those that the same atoms
# match, by the pattern's own engine, are one class, and each class is a byte. Left for RE2 are sequences,
# choices and repeats, of which there is one meaning. Bytes that it takes for letters stand for classes of
# letters, so that its `\b` is right, and its newline for those that `^` and `$` look at.

MEMORY_BYTES_MAX = 1024 * 1024
"""Of one compiled pattern and of what it remembers of texts."""

WORK_MAX = 200_000_000
"""Characters times instructions: one second at worst (measured: 5 ns), without holding the interpreter."""

QUICK_WORK_MAX = 1_000_000
QUICK_CHARS_MAX = 20_000
"""What an event loop may do by itself: some milliseconds."""

NEWLINE = "\n"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_OTHERS = "".join(
    chr(code)
    for code in [*range(128, 256), *range(1, 128)]
    if chr(code) not in _LETTERS and chr(code) != NEWLINE
)
_ASCII = "".join(map(chr, range(128)))
_NOTHING = r"[^\x00-\xff]"


@cache
def engine() -> ModuleType | None:
    """Return the package `re2`; None where it is not installed, and everything goes to the helper process."""
    try:
        import re2  # pyright: ignore[reportMissingTypeStubs] - it has none
    except ImportError:
        return None
    return re2


class Linear:
    """A pattern that is matched in linear time."""

    def __init__(self, program: LinearProgram, *, dialect: Dialect) -> None:
        """Errors: `NotLinear` if it is too large, or there is no engine."""
        self._program = program
        self._atoms = [_atom(source, flags, dialect) for source, flags in program.atoms]
        self._lock = Lock()
        self._table: dict[int, str] = {}
        self._symbols: dict[int, str] = {}
        """The byte of each class; a class is named by the atoms that match it, as bits."""
        self._engines: dict[bool, Any] = {}
        with self._lock:
            if not self._learn(_ASCII):
                raise NotLinear

    def work(self, text: str) -> int:
        """Return characters times instructions: about 5 ns each, at worst."""
        return (len(text) + 1) * self._size

    def is_quick(self, text: str) -> bool:
        """Return whether this text can be searched within some milliseconds."""
        is_known = len(text) <= QUICK_CHARS_MAX and set(map(ord, text)) <= self._table.keys()
        return is_known and self.work(text) <= QUICK_WORK_MAX

    def matches(self, text: str, *, whole: bool) -> bool | None:
        """Return whether the text matches, as a whole or somewhere; None if it would be too much work."""
        if self.work(text) > WORK_MAX or (not text and self._program.has_non_boundary):
            return None  # of `\\B` in no text at all, versions of Python disagree
        with self._lock:
            unknown = set(map(ord, set(text))) - self._table.keys()
            if unknown and not self._learn(map(chr, unknown)):
                return None
            compiled = self._engines[whole]
        symbols = text.translate(self._table)
        if self._program.line_ends == "last" and text.endswith(NEWLINE):
            symbols = symbols[:-1] + NEWLINE
        return compiled.search(symbols.encode("latin-1")) is not None

    def _learn(self, chars: Iterable[str]) -> bool:
        """Put characters into classes; False if there are too many classes for this alphabet."""
        joined = "".join(chars)
        classes = dict.fromkeys(joined, 0)
        for number, atom in enumerate(self._atoms):
            for char in set(atom.findall(joined)):
                classes[char] |= 1 << number
        if NEWLINE in classes:
            classes[NEWLINE] |= 1 << len(self._atoms)
        fresh = set(classes.values()) - self._symbols.keys()
        symbols = dict(self._symbols)
        for one in sorted(fresh):
            symbol = self._free(one, set(symbols.values()))
            if symbol is None:
                return False
            symbols[one] = symbol
        if fresh:
            self._engines = {whole: self._compile(symbols, whole) for whole in (False, True)}
            self._size = max(one.programsize + 1 for one in self._engines.values())
            self._symbols = symbols
        self._table.update((ord(char), symbols[one]) for char, one in classes.items())
        return True

    def _free(self, one: int, taken: set[str]) -> str | None:
        """Return a byte for a class: a letter for one of letters, where that counts."""
        word = self._program.word
        if one >> len(self._atoms) and self._program.line_ends != "last":
            return NEWLINE
        if word is None:
            pool = _OTHERS + _LETTERS
        else:
            pool = _LETTERS if one >> word & 1 else _OTHERS
        return next((symbol for symbol in pool if symbol not in taken), None)

    def _compile(self, symbols: dict[int, str], whole: bool) -> object:
        re2 = engine()
        if re2 is None:
            raise NotLinear
        newline = 1 << len(self._atoms)
        sources: list[str] = []
        for number in range(len(self._atoms)):
            bytes_ = {symbol for one, symbol in symbols.items() if one >> number & 1}
            if any(one & newline and one >> number & 1 for one in symbols):
                bytes_.add(NEWLINE)
            sources.append(_set(bytes_))
        source = "".join(
            sources[token] if isinstance(token, int) else token for token in self._program.tokens
        )
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = MEMORY_BYTES_MAX
        options.log_errors = False
        options.never_capture = True
        try:
            return re2.compile((rf"\A(?:{source})\z" if whole else source).encode(), options)
        except re2.error:
            raise NotLinear from None


def _set(symbols: set[str]) -> str:
    """Return the source of a set of bytes, as ranges."""
    if not symbols:
        return _NOTHING
    ranges: list[list[int]] = []
    for code in sorted(map(ord, symbols)):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(rf"\x{low:02x}-\x{high:02x}" for low, high in ranges) + "]"


def _atom(source: str, flags: int, dialect: Dialect) -> re.Pattern[str]:
    """Return an atom in the engine whose word counts: it matches one character, whatever stands around."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dialect == "re":
            return re.compile(source, flags)
        import regex

        chosen = regex.I if flags & re.I else regex.RegexFlag(0)
        chosen |= regex.A if flags & re.A else regex.RegexFlag(0)
        chosen |= regex.S if flags & re.S else regex.RegexFlag(0)
        return cast("re.Pattern[str]", regex.compile(source, chosen, cache_pattern=False))


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
        if isinstance(answer, HelperValue):
            return bool(answer.value)
        if answer.failed == "error":
            raise _refused_error(self.text, expected="a regular expression", got=answer.message)
        raise self._timeout(answer.message, text, time_s)

    def _timeout(self, why: str, text: str, time_s: float) -> PatternTimeout:
        return PatternTimeout(
            f"the pattern {self.text[:60]!r} was given up over {len(text)} characters: {why}",
            expected=f"at most {max(0.0, time_s):.3g} s",
            hint="Write it without look-arounds and references back, or without repeats in"
            " repeats such as (a+)+.",
            kind=self._dialect,
        )


@cache
def _pool() -> ChildPool[HelperValue]:
    ready = {"pattern": "", "dialect": "re", "flags": 0, "text": "", "whole": False}
    first = {"match": ready, "time_s": START_S}
    return ChildPool(_WORKER, first=first, answer=HelperValue, needs=Needs(preload=("regex",)))
