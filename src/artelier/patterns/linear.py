"""Patterns in linear time: RE2, over a small alphabet instead of characters.

RE2 knows other classes of characters than Python. So it never sees a character: those that the same
atoms match, by the pattern's own engine, are one class, and each class is a byte. Left for RE2 are
sequences, choices and repeats, of which there is one meaning. Bytes that it takes for letters stand for
classes of letters, so that its `\\b` is right, and its newline for those that `^` and `$` look at.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import cache
from threading import Lock
from typing import Any

from artelier.patterns.syntax import Dialect, LinearProgram, NotLinear

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
def engine() -> Any | None:
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

    def _compile(self, symbols: dict[int, str], whole: bool) -> Any:
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


def _atom(source: str, flags: int, dialect: Dialect) -> Any:
    """Return an atom in the engine whose word counts: it matches one character, whatever stands around."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dialect == "re":
            return re.compile(source, flags)
        import regex

        chosen = regex.I if flags & re.I else regex.RegexFlag(0)
        chosen |= regex.A if flags & re.A else regex.RegexFlag(0)
        chosen |= regex.S if flags & re.S else regex.RegexFlag(0)
        return regex.compile(source, chosen, cache_pattern=False)
