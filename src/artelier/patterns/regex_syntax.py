"""Patterns as trees: how large one is, and its form for an engine of linear time, if it has one.

Nothing is compiled or run here. A pattern is taken apart by the parser of `re`, so that it means what `re`
reads; what matches one character stays a small pattern of its own (an atom), which its own engine judges.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Dialect = Literal["re", "regex"]
LineEnds = Literal["", "last", "all"]

SIZE_MAX = 200_000
"""Of a pattern with its counted repeats written out, which `regex` does: 270 bytes each (measured)."""

LINEAR_SIZE_MAX = 10_000
"""The same, for the engine of linear time, whose work is this times the length of the text."""

ATOMS_MAX = 128
FOLDED_MAX = 30_000
"""Characters in ranges that are compared without case: `re` goes through them one by one to compile."""

REPEATS_MAX = 1_000
"""What the engine of linear time takes as a count (`kMaxRepeat` of RE2)."""

_FLAGS = {"i": re.I, "m": re.M, "s": re.S, "x": re.X, "a": re.A}
# An escape, a set, a counted repeat, or any one character.
_PIECES = re.compile(r"\\.|\[\^?\]?(?:[^\\\]]|\\.)*\]|\{(\d{1,9})?(,)?(\d{1,9})?\}|.", re.DOTALL)


ParsedItems = Iterable[tuple[object, Any]]
"""Parts of a pattern as the parser of `re` gives them: an operator, and an argument whose form it decides."""


class ParsedPattern(Protocol):
    """The tree of a whole pattern, as the parser of `re` gives it."""

    state: Any

    def __iter__(self) -> Iterator[tuple[object, Any]]: ...


class NotRead(ValueError):
    """No pattern; the message says why."""


class NotLinear(Exception):
    """A pattern that only a backtracking engine can match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearProgram:
    """A pattern for the engine of linear time, over atoms in place of characters."""

    tokens: tuple[str | int, ...]
    """Its source; a number stands for an atom."""
    atoms: tuple[tuple[str, int], ...]
    """What matches exactly one character, each as `(pattern, flags of re)`."""
    line_ends: LineEnds
    """Newlines that `^` and `$` look at: none, the one that ends the text, or all."""
    word: int | None
    r"""The atom of letters of words, where `\b` or `\B` stands."""
    has_non_boundary: bool


def flags_of(letters: str) -> int:
    """Return the flags of `re` for letters among `imsxa`."""
    return sum(_FLAGS[letter] for letter in set(letters))


def parse_pattern(text: str, flags: int = 0) -> ParsedPattern:
    """Return the tree of a pattern in the syntax of `re`. Errors: `NotRead`, also where `re` warns."""
    parser: Any = importlib.import_module("re._parser")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(text, flags)
        _check_look_behinds(tree)
    except (re.error, OverflowError, RecursionError) as error:
        raise NotRead(str(error)[:200]) from None
    return tree


def _check_look_behinds(tree: ParsedItems) -> None:
    """`re` finds these faults only when it compiles."""
    for name, value in _items(tree):
        if name in ("ASSERT", "ASSERT_NOT") and value[0] < 0:
            low, high = value[1].getwidth()
            if low != high:
                raise re.error("look-behind requires fixed-width pattern")


def _items(tree: ParsedItems) -> Iterator[tuple[str, Any]]:
    """All parts of a tree, at any depth."""
    waiting: list[ParsedItems] = [tree]
    while waiting:
        for op, value in waiting.pop():
            yield str(op), value
            waiting.extend(_inner(str(op), value))


def _inner(name: str, value: Any) -> list[ParsedItems]:
    match name:
        case "BRANCH":
            return list(value[1])
        case "SUBPATTERN" | "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [value[-1]]
        case "ASSERT" | "ASSERT_NOT":
            return [value[1]]
        case "ATOMIC_GROUP":
            return [value]
        case "GROUPREF_EXISTS":
            return [part for part in value[1:] if part is not None]
        case _:
            return []


def size_of(text: str) -> int:
    """Return how many pieces a pattern has when each counted repeat is written out, by nesting.

    Read from the text, so that it holds for what only `regex` can read. Cost: O(characters).
    """
    sizes = [0]
    last = 0
    for piece in _PIECES.finditer(text):
        part = piece[0]
        if part == "(":
            sizes.append(0)
            last = 0
        elif part == ")" and len(sizes) > 1:
            last = sizes.pop() + 1
            sizes[-1] += last
        elif part[0] == "{" and (piece[1] or piece[3]):
            count = max(int(piece[1] or 0), int(piece[3] or 0), 1)
            sizes[-1] += last * (count - 1)
            last *= count
        else:
            last = 1
            sizes[-1] += last
    return sum(sizes)


def _has_braces(text: str) -> bool:
    """Return True if a brace stands that is no counted repeat: `regex` reads it as how much may differ."""
    return any(
        piece[0] == "{" or (piece[0][0] == "{" and not (piece[1] or piece[3]))
        for piece in _PIECES.finditer(text)
    )


def program_of(text: str, *, dialect: Dialect, flags: int = 0) -> LinearProgram:
    """Return the pattern for the engine of linear time. Errors: `NotLinear`."""
    parser: Any = importlib.import_module("re._parser")
    try:
        with warnings.catch_warnings():
            # What `re` warns of, such as `[[`, the other engine may read otherwise.
            warnings.simplefilter("error" if dialect == "regex" else "ignore")
            tree = parser.parse(text, flags)
        if dialect == "regex" and (tree.state.flags & re.X or _has_braces(text)):
            raise NotLinear
        return _Translation().program(tree)
    except (re.error, OverflowError, RecursionError, Warning):
        raise NotLinear from None


class _Translation:
    def __init__(self) -> None:
        self._atoms: dict[tuple[str, int], int] = {}
        self._folded = 0
        self._line_ends: set[LineEnds] = set()
        self._words: set[int] = set()
        self._has_non_boundary = False

    def program(self, tree: ParsedPattern) -> LinearProgram:
        tokens: list[str | int] = []
        size = self._sequence(tree, tree.state.flags, tokens)
        if size > LINEAR_SIZE_MAX or len(self._line_ends) > 1 or len(self._words) > 1:
            raise NotLinear
        return LinearProgram(
            tokens=tuple(tokens),
            atoms=tuple(self._atoms),
            line_ends=self._line_ends.pop() if self._line_ends else "",
            word=next(iter(self._words), None),
            has_non_boundary=self._has_non_boundary,
        )

    def _sequence(self, items: ParsedItems, flags: int, tokens: list[str | int]) -> int:
        """Append the source of a sequence; return how large it is with repeats written out."""
        return sum(self._item(str(op), value, flags, tokens) for op, value in items) + 1

    def _item(self, name: str, value: Any, flags: int, tokens: list[str | int]) -> int:
        match name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                tokens.append(self._atom(name, value, flags))
                return 1
            case "AT":
                tokens.append(self._place(str(value), flags))
                return 1
            case "BRANCH":
                return self._branch(value[1], flags, tokens)
            case "SUBPATTERN":
                _, added, removed, inner = value
                if added & (re.A | re.U):  # `re` itself treats sets in such a group in two ways
                    raise NotLinear
                tokens.append("(?:")
                size = self._sequence(inner, (flags | added) & ~removed, tokens)
                tokens.append(")")
                return size
            case "MAX_REPEAT" | "MIN_REPEAT":  # where a match begins and ends is not asked
                return self._repeat(value, flags, tokens)
            case _:  # looks around, references back, groups that give nothing back
                raise NotLinear

    def _branch(self, parts: Iterable[ParsedItems], flags: int, tokens: list[str | int]) -> int:
        size = 1
        for number, part in enumerate(parts):
            tokens.append("|" if number else "(?:")
            size += self._sequence(part, flags, tokens)
        tokens.append(")")
        return size

    def _repeat(self, value: Any, flags: int, tokens: list[str | int]) -> int:
        low, high, inner = int(value[0]), value[1], value[2]
        is_open = str(high) == "MAXREPEAT"
        most = low if is_open else int(high)
        if most > REPEATS_MAX:
            raise NotLinear
        tokens.append("(?:")
        size = self._sequence(inner, flags, tokens)
        tokens.append(f"){{{low},}}" if is_open else f"){{{low},{most}}}")
        return size * max(most, 1) + 1

    def _place(self, name: str, flags: int) -> str:
        is_multi = bool(flags & re.M)
        match name:
            case "AT_BEGINNING_STRING":
                return r"\A"
            case "AT_END_STRING":
                return r"\z"
            case "AT_BEGINNING" if not is_multi:
                return r"\A"
            case "AT_BEGINNING":
                self._line_ends.add("all")
                return "(?m:^)"
            case "AT_END":
                self._line_ends.add("all" if is_multi else "last")
                return "(?m:$)"
            case "AT_BOUNDARY" | "AT_NON_BOUNDARY":
                self._words.add(self._atom_number(r"\w", flags & re.A))
                self._has_non_boundary |= name == "AT_NON_BOUNDARY"
                return r"\b" if name == "AT_BOUNDARY" else r"\B"
            case _:
                raise NotLinear

    def _atom(self, name: str, value: Any, flags: int) -> int:
        kept = flags & (re.I | re.A)
        if name == "ANY":
            return self._atom_number(".", flags & re.S)
        if name == "LITERAL":
            return self._atom_number(_char(value), kept)
        if name == "NOT_LITERAL":
            return self._atom_number(f"[^{_char(value)}]", kept)
        source = "["
        for op, part in value:
            match str(op):
                case "NEGATE":
                    source += "^"
                case "LITERAL":
                    source += _char(part)
                case "RANGE":
                    source += f"{_char(part[0])}-{_char(part[1])}"
                    self._folded += part[1] - part[0] if kept & re.I else 0
                case "CATEGORY":
                    source += _CATEGORIES[str(part)]
                case _:
                    raise NotLinear
        if self._folded > FOLDED_MAX:
            raise NotLinear
        return self._atom_number(source + "]", kept)

    def _atom_number(self, source: str, flags: int) -> int:
        number = self._atoms.setdefault((source, int(flags)), len(self._atoms))
        if number >= ATOMS_MAX:
            raise NotLinear
        return number


_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def _char(code: int) -> str:
    return f"\\U{code:08x}"
