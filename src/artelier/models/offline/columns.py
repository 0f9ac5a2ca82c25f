"""Matching: which tables, columns and values a run of words may mean, and how strongly.

The scale of strength, shared by all matches: 30 the full name, 26 the name without units, the table's
own name or an ending like `_id`; 25 a value of the data; 20 to 24 the head of a longer name; 22 the same
stem; below 20 weak (a part of a name, a synonym). Only plural and word endings are bridged, never
spelling, so that a match can be explained to the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TypeVar

from artelier.models.offline import lexicon
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.values import Values
from artelier.models.offline.words import Word, lemma, name_words, stem

T = TypeVar("T")

FULL, CORE, STEM, HEAD = 30, 26, 22, 20
STRONG = 20
"""From here on a match may stand for a noun that the asker meant."""

Ranked = tuple[tuple[int, Column], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """The meanings of a run of words in a scope; each list is ordered, strongest first."""

    tables: tuple[tuple[int, Table], ...] = ()
    columns: Ranked = ()
    values: dict[Column, tuple[str, ...]] = field(default_factory=dict[Column, tuple[str, ...]])
    values_level: int = 0
    grain: str = ""
    """`day`, `week`, `month`, `quarter` or `year` if the word names a stretch of time."""
    verb: str = ""
    """A family of `lexicon.FAMILIES` if the word asks for such a measure."""

    @property
    def level(self) -> int:
        levels = [level for level, _ in self.tables[:1]] + [level for level, _ in self.columns[:1]]
        extra = [self.values_level, HEAD + 1 if self.grain else 0, 5 if self.verb else 0]
        return max([*levels, *extra])

    @property
    def table(self) -> Table | None:
        """The table that is surely meant."""
        strong = [table for level, table in self.tables if level >= STRONG]
        return strong[0] if strong else None

    def best(self, columns: Iterable[Column], *, least: int = 1) -> list[Column]:
        """Return the most strongly matched of these columns; several if they tie."""
        wanted = set(columns)
        ranked = [pair for pair in self.columns if pair[1] in wanted and pair[0] >= least]
        return [column for level, column in ranked if level == ranked[0][0]]


class Names:
    """The names of all tables and columns, indexed by the words in them."""

    def __init__(self, tables: Sequence[Table], values: Values) -> None:
        self.tables = tuple(tables)
        self.values = values
        self._by_stem: dict[str, dict[Column, Table]] = {}
        self._joined: dict[str, dict[Column, Table]] = {}
        for table in tables:
            for column in table.columns:
                for word in column.stems:
                    self._by_stem.setdefault(word, {})[column] = table
                joined = "".join(name_words(column.name))
                self._joined.setdefault(joined, {})[column] = table

    def noun(self, words: Sequence[Word], text: str) -> Noun | None:
        """The meanings of these words over all tables, or None."""
        found = self.values.at(words, text)
        asked = _asked([word for word in words if word.text != "-"])
        if asked is None:
            return Noun(values=found[1], values_level=found[0]) if found else None
        single = asked[0] if len(asked) == 1 else ""
        ends = {asked[0], asked[-1]} if len(asked) > 1 else set[str]()
        least = FULL if ends & lexicon.FUNCTION_WORDS else 1
        noun = Noun(
            tables=_ranked(
                ((_table_level(asked, table.name, table.words, table.stems), table) for table in self.tables),
                least,
            ),
            columns=_ranked(
                ((_column_level(asked, column, table.words), column) for column, table in self._near(asked)),
                least,
            ),
            values=found[1] if found else {},
            values_level=found[0] if found else 0,
            grain=lexicon.GRAINS.get(single, ""),
            verb=lexicon.MEASURE_VERBS.get(stem(single), "") if single else "",
        )
        return noun if noun.level else None

    def _near(self, asked: tuple[str, ...]) -> Iterable[tuple[Column, Table]]:
        """The columns that share a word or a synonym with the words; no other can match."""
        near = dict(self._joined.get("".join(asked), {}))
        for word in _stems(asked):
            for same in (word, *sorted(_family(word))):
                near.update(self._by_stem.get(same, {}))
        return near.items()


def _asked(words: Sequence[Word]) -> tuple[str, ...] | None:
    """The words in lower case if they may be a name, None if they can only be a value."""
    if len(words) == 1 and words[0].kind == "quoted":
        return name_words(words[0].text) or None
    if any(word.kind not in ("word", "number") for word in words):
        return None
    asked = tuple(word.lower.removesuffix("'s") for word in words)
    if not asked or all(word in lexicon.FUNCTION_WORDS for word in asked) or words[0].kind == "number":
        return None
    return asked


def _ranked(pairs: Iterable[tuple[int, T]], least: int) -> tuple[tuple[int, T], ...]:
    return tuple(sorted((pair for pair in pairs if pair[0] >= least), key=lambda pair: -pair[0]))


@lru_cache(maxsize=65536)
def _table_level(asked: tuple[str, ...], name: str, own: tuple[str, ...], own_stems: tuple[str, ...]) -> int:
    lemmas, stems = _lemmas(asked), _stems(asked)
    if lemmas == own or "".join(asked) == "".join(name_words(name)):
        return FULL
    if _ends_with(own, lemmas):
        return HEAD + 4
    if stems == own_stems:
        return STEM
    if _ends_with(own_stems, stems):
        return 14
    if len(asked) == 1 and own_stems and _synonyms(stems[0], own_stems[-1]):
        return 10
    return 8 if len(asked) == 1 and lemmas[0] in own and _content(asked[0]) else 0


@lru_cache(maxsize=262144)
def _column_level(asked: tuple[str, ...], column: Column, owner: tuple[str, ...]) -> int:
    lemmas, stems = _lemmas(asked), _stems(asked)
    if lemmas == column.words or "".join(asked) == "".join(name_words(column.name)):
        return FULL
    own = owner[-1:]
    if len(lemmas) > 1 and lemmas[:1] == own and lemmas[1:] == column.words:
        return CORE  # the order amount: `amount` of `orders`
    cores = _cores(column, owner)
    if lemmas in cores:
        return CORE
    if len(lemmas) > 1 and _reordered(lemmas, column.words, cores):
        return CORE
    if not _content(asked[0]) and len(asked) == 1:
        return 0
    if stems == column.stems:
        return STEM
    if any(_ends_with(core, lemmas) for core in cores):
        return HEAD
    stem_cores = [tuple(stem(word) for word in core) for core in cores]
    if stems in stem_cores:
        return STEM - 2 if len(column.stems) == len(stems) else 16
    if len(asked) > 1:
        return 0
    if lemma("".join(asked)) in column.words:
        return 12
    if any(_synonyms(stems[0], core[0]) for core in stem_cores if len(core) == 1):
        return 10
    if stems[0] in column.stems:
        return 9
    return 6 if any(_synonyms(stems[0], core[-1]) for core in stem_cores) else 0


def _reordered(lemmas: tuple[str, ...], words: tuple[str, ...], cores: tuple[tuple[str, ...], ...]) -> bool:
    """`date of birth` for `birth_date`, `speed wind` for `wind_speed`."""
    bare = tuple(word for word in lemmas if word not in ("of", "the"))
    targets = (words, *cores)
    return len(bare) > 1 and any(sorted(bare) == sorted(target) for target in targets)


@lru_cache(maxsize=65536)
def _cores(column: Column, owner: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The name without its unit, without its table's name, without an ending like `_id`."""
    words = column.words
    raw = name_words(column.name)
    end = len(words)
    while end > 1 and raw[end - 1] in lexicon.UNIT_WORDS:
        end -= 1
    forms = [words[:end]]
    own = owner[-1:]
    if len(forms[0]) > 1 and forms[0][:1] == own:
        forms.append(forms[0][1:])
    if (column.is_id or column.is_label) and column.thing:
        forms.append(column.thing)
    if len(forms[0]) > 1 and raw[0] in ("is", "has", "was"):
        forms.append(forms[0][1:])
    return tuple(dict.fromkeys(forms))


@cache
def _lemmas(asked: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(lemma(word) for word in asked)


@cache
def _stems(asked: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(stem(word) for word in asked)


def _content(word: str) -> bool:
    return word not in lexicon.FUNCTION_WORDS and len(word) > 1


def _ends_with(whole: tuple[str, ...], end: tuple[str, ...]) -> bool:
    return len(whole) > len(end) > 0 and whole[-len(end) :] == end


@cache
def _synonyms(one: str, other: str) -> bool:
    return one != other and any(one in group and other in group for group in lexicon.SYNONYMS)


@cache
def _family(word: str) -> frozenset[str]:
    groups = [group for group in lexicon.SYNONYMS if word in group]
    return frozenset(other for group in groups for other in group) - {word}
