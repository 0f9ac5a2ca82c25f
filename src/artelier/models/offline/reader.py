"""The reader: tries a clause on every table and every joined pair, and keeps the one reading that fits.

A reading counts only if every word is accounted for. Two different readings of equal strength are an
ambiguity and are refused, never chosen between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from artelier.errors import OfflineCannot
from artelier.models.offline import lexicon
from artelier.models.offline.cells import bind_events, bind_truths, bind_values
from artelier.models.offline.chunks import Chunk, chunks
from artelier.models.offline.columns import STRONG, Names, Noun
from artelier.models.offline.comparisons import bind_comparisons
from artelier.models.offline.draft import Draft
from artelier.models.offline.finish import finish
from artelier.models.offline.grouping import bind_groups, group_at, persons, take_group
from artelier.models.offline.joins import joined_scopes
from artelier.models.offline.measures import bind_measures
from artelier.models.offline.nulls import bind_nulls
from artelier.models.offline.question import YES_NO, Clause, Question
from artelier.models.offline.ranking import bind_rank
from artelier.models.offline.reading import OneOf, Reading, Scope, Unreadable
from artelier.models.offline.times import bind_times
from artelier.models.offline.words import name_words, stem

PAIR_PENALTY = 3
"""A pair of tables must explain the words better than a single table does."""

CONTEXT_BONUS = 2
"""Between equals, a clause stays with the table of the clause before."""

_FALLS = frozenset(("fell", "fall", "fallen", "falls"))
_FALLING = frozenset(stem(word) for word in "rain rainfall precipitation snow snowfall".split())
_IGNORED = frozenset(("and", "to", "from", "what", "which", "rows", "values", "how", "who", "when"))
"""Operators that may be left over: conjunctions, and question words that have done their work."""


_SHARES = frozenset("share shares percentage percentages fraction proportion ratio".split())


class Reader:
    """Reads the clauses of one question; `names` knows all tables and the values that were found."""

    def __init__(self, question: Question, names: Names) -> None:
        self._question = question
        self._names = names
        self._nouns: dict[tuple[int, int], Noun | None] = {}

    def read(self, clause: Clause, context: Reading | None) -> tuple[Reading, ...]:
        """The reading of a clause; one per table if the missing values of all tables are asked for.

        Errors: `OfflineCannot` that says what was not understood or what is ambiguous.
        """
        _refuse_unanswerable(clause)
        self._refuse_share(clause)
        if _only_how_many(clause) and context is not None and context.kind == "missing":
            return ()  # which columns have missing values, and how many: both are in one table
        singles = [Scope(tables=(table,)) for table in self._names.tables]
        found, failures = self._try(clause, singles, context)
        pairs = joined_scopes(self._names.tables, self._mentions(clause, context))
        more, worse = self._try(clause, pairs, context)
        readings = found + [replace(one, score=one.score - PAIR_PENALTY) for one in more]
        if not readings:
            raise _refusal(clause, failures + worse)
        return _only(clause, readings)

    def matches(self, clause: Clause) -> bool:
        """Return True if any word of a clause means something in the tables."""
        places = range(clause.first, clause.first + len(clause.words))
        return any(self._noun(place, place + 1) is not None for place in places)

    def _refuse_share(self, clause: Clause) -> None:
        """Errors: `OfflineCannot` for a share of a whole, unless a column or a table is called so."""
        for at, word in enumerate(clause.words):
            noun = self._noun(clause.first + at, clause.first + at + 1)
            if word.lower in _SHARES and (noun is None or noun.level < STRONG):
                raise OfflineCannot(
                    f'"{clause.text}" asks for a part of a whole ("{word.lower}"), which the offline'
                    " model does not compute",
                    hint="Ask for the figures themselves, as in `total ... by ...`.",
                )

    def _try(
        self, clause: Clause, scopes: Sequence[Scope], context: Reading | None
    ) -> tuple[list[Reading], list[Unreadable]]:
        found: list[Reading] = []
        failures: list[Unreadable] = []
        for scope in scopes:
            try:
                found.append(self._read_in(clause, scope, context))
            except Unreadable as failure:
                failures.append(failure)
        return found, failures

    def _read_in(self, clause: Clause, scope: Scope, context: Reading | None) -> Reading:
        draft = Draft(
            self.chunks(clause, scope), scope, context, values=self._names.values, joined=clause.joined
        )
        steps: tuple[Callable[[Draft], None], ...] = (
            bind_comparisons,
            bind_nulls,
            bind_times,
            bind_values,
            bind_truths,
            bind_events,
            bind_groups,
            bind_rank,
            bind_measures,
            _bind_lists,
            _bind_mentions,
        )
        unknown = sum(chunk.kind == "unknown" for chunk in draft.chunks)
        try:
            for step in steps:
                step(draft)
        except Unreadable as failure:
            strange = [
                chunk.text
                for chunk in draft.chunks
                if chunk.kind == "unknown" and stem(chunk.text) not in lexicon.NEUTRAL_VERBS
            ]
            reason = _unclear(strange) if strange else failure.reason
            raise Unreadable(reason, weight=failure.weight - 10 * unknown) from None
        left = _left(draft)
        if left:
            raise Unreadable(_unclear(left), weight=draft.weight() - 10 * unknown)
        reading = finish(draft)
        same = context is not None and context.scope.tables == scope.tables
        bonus = CONTEXT_BONUS if same else 0
        return replace(reading, score=sum(draft.levels) + bonus + draft.bonus)

    def chunks(self, clause: Clause, scope: Scope) -> list[Chunk]:
        """The chunks of a clause as one scope sees them."""
        offset = clause.first
        names = {table.name for table in scope.tables}

        def find(start: int, end: int) -> Noun | None:
            return _within(self._noun(offset + start, offset + end), names)

        def find_anywhere(start: int, end: int) -> Noun | None:
            return self._noun(offset + start, offset + end)

        return chunks(clause.words, find, find_anywhere=find_anywhere)

    def _noun(self, start: int, end: int) -> Noun | None:
        key = (start, end)
        if key not in self._nouns:
            words = self._question.words[start:end]
            self._nouns[key] = self._names.noun(words, self._question.text)
        return self._nouns[key]

    def _mentions(self, clause: Clause, context: Reading | None) -> set[str]:
        """The tables that any word of the clause, or the clause before, may be about."""
        found = {table.name for table in context.scope.tables} if context else set[str]()
        offset = clause.first
        for start in range(len(clause.words)):
            for end in range(start + 1, min(start + 4, len(clause.words)) + 1):
                noun = self._noun(offset + start, offset + end)
                if clause.words[start].lower in ("who", "whom", "change", "changed"):
                    found |= {table.name for table in self._names.tables}
                if noun is not None and noun.verb:
                    found |= {table.name for table in self._names.tables if table.measures}
                if noun is not None:
                    found |= {table.name for _, table in noun.tables}
                    found |= {column.table for level, column in noun.columns if level > 5}
                    found |= {column.table for column in noun.values}
        return found


def _within(noun: Noun | None, names: set[str]) -> Noun | None:
    """Return what is left of a noun inside a scope."""
    if noun is None:
        return None
    values = {column: found for column, found in noun.values.items() if column.table in names}
    inner = replace(
        noun,
        tables=tuple(pair for pair in noun.tables if pair[1].name in names),
        columns=tuple(pair for pair in noun.columns if pair[1].table in names),
        values=values,
        values_level=noun.values_level if values else 0,
    )
    return inner if inner.level else None


def _only_how_many(clause: Clause) -> bool:
    return all(
        word.lower in ("and", "how", "many", "values", "are", "missing", "there") for word in clause.words
    )


def _bind_lists(draft: Draft) -> None:
    """`Which customers are in Berlin?`: without a measure, the things themselves are asked for."""
    if draft.measures or draft.rank or draft.change or draft.missing is not None:
        return
    if not (draft.conditions or draft.having or draft.has("which", "what", "distinct", "who")):
        return
    if _bind_persons(draft):
        return
    place = next(draft.nouns(), None)
    if place is None or draft.chunks[place].optional:
        return
    noun = draft.chunks[place].noun
    first = place
    while first > 0 and draft.used[first - 1]:
        first -= 1  # the adult members
    asked = draft.before(first, over=("the", "of", "all", "our", "are", "is", "was", "were"))
    if asked is not None and not draft.is_op(asked, "which", "what", "distinct", "who"):
        return
    near = draft.fillers_before(place)
    if draft.is_op(asked, "what") and asked != place - 1 and not near & {"is", "are", "was", "were"}:
        return
    group = group_at(draft, place, measures=False)
    if group is not None and not group.grain and noun is not None and noun.level >= STRONG:
        take_group(draft, place, group)
        draft.take(*draft.ops("distinct"))
        draft.lists = group


def _bind_persons(draft: Draft) -> bool:
    """`Who works in Oslo?`"""
    first = next((at for at, chunk in enumerate(draft.chunks) if chunk.kind != "filler"), None)
    others = [at for at in draft.nouns() if not draft.chunks[at].optional]
    if first is None or not draft.is_op(first, "who") or not draft.conditions or others:
        return False
    draft.lists = persons(draft)
    draft.take(first)
    return draft.lists is not None


def _bind_mentions(draft: Draft) -> None:
    """Tables named beside the measure (`price of products`), verbs of a table (`ordered`)."""
    from artelier.models.offline.measures import TAILS

    names = {table.name for table in draft.scope.tables}
    for place in list(draft.nouns()):
        noun = draft.chunks[place].noun
        if noun is None:
            continue
        table = next((table for level, table in noun.tables if level >= 10), None)
        strong = noun.best(draft.scope.columns(), least=STRONG)
        if table is not None and table.name in names and (noun.table or not strong):
            draft.take_table(place, table)
        elif noun.verb and draft.measures:
            draft.take(place)
    if draft.measures and draft.change is None:
        rain = any(_FALLING & set(one.column.stems) for one in draft.measures if one.column)
        draft.take(*[at for at in draft.ops("change") if rain and draft.chunks[at].text in _FALLS])
    for place in draft.ops("sum"):
        if draft.chunks[place].text in TAILS:
            draft.take(place)
    _take_neutral_verbs(draft)
    if draft.groups and draft.measures:
        draft.take(*draft.ops("change"))  # how did sales develop by month


def _take_neutral_verbs(draft: Draft) -> None:
    """`Who scored the most goals?`, `How many games were played?`: the noun says it all."""
    if not (draft.measures or draft.lists):
        return
    for place, chunk in enumerate(draft.chunks):
        weak = chunk.kind == "noun" and chunk.noun is not None and chunk.noun.level < STRONG
        if draft.used[place] or chunk.foreign or not (chunk.kind == "unknown" or weak):
            continue
        if not _is_verb_place(draft, place):
            continue
        if _is_agentive(draft, place):
            draft.take(place)
            continue
        if " " in chunk.text or stem(chunk.text) not in lexicon.NEUTRAL_VERBS:
            if chunk.text not in lexicon.PASSIVE_NEUTRAL:
                continue
        passive = draft.fillers_before(place) & {"was", "were", "been", "be", "being", "is", "are"}
        if not passive or chunk.text in lexicon.PASSIVE_NEUTRAL:
            draft.take(place)


def _is_verb_place(draft: Draft, place: int) -> bool:
    """A word right after `the`, `most` or a preposition is a noun, whatever it looks like."""
    if draft.chunks[place].text.endswith("ing"):
        return False
    if place == 0:
        return True
    before = draft.chunks[place - 1]
    if before.kind == "op":
        return before.op in ("who", "what", "which", "not", "to")
    return before.text not in ("the", "a", "an", "of", "in", "at", "by", "for", "with", "on")


def _is_agentive(draft: Draft, place: int) -> bool:
    """`written by M. Ito`, `supplied by Acme`: a participle before a `by` whose value is read."""
    text = draft.chunks[place].text
    lead, value = draft.after(place, over=()), draft.after(place + 1)
    if not text.endswith(("ed", "en")) or lead is None or value is None:
        return False
    chunk = draft.chunks[lead]
    if chunk.op != "per" or chunk.text != "by" or not draft.used[value]:
        return False
    columns = [one.column for one in draft.conditions if isinstance(one, OneOf)]
    return stem(text) in lexicon.NEUTRAL_VERBS or any(
        text[: max(4, len(text) - 3)] == word[: max(4, len(text) - 3)]
        for column in columns
        for word in name_words(column.name)
    )


def _unclear(texts: Sequence[str]) -> str:
    words = ", ".join(f'"{text}"' for text in dict.fromkeys(texts))
    return f"it is not clear what {words} means here"


def _left(draft: Draft) -> list[str]:
    return [
        draft.chunks[place].text
        for place, chunk in enumerate(draft.chunks)
        if not draft.used[place]
        and chunk.kind not in ("filler", "mark", "unit")
        and not chunk.optional
        and not (chunk.kind == "op" and chunk.op in _IGNORED)
    ]


def _refuse_unanswerable(clause: Clause) -> None:
    """Questions that no reading of a table could answer."""
    first = clause.words[0].lower
    if first in YES_NO and not any(word.lower == "missing" for word in clause.words):
        raise OfflineCannot(
            f'"{clause.text}" asks for a yes or a no, which the offline model does not give',
            hint="Ask for the figures themselves: how many, total, average, which ... most.",
        )
    for at, word in enumerate(clause.words):
        following = clause.words[at + 1 : at + 3]
        if at and clause.words[at - 1].lower in ("most", "least"):
            continue
        relative = word.lower in lexicon.RELATIVE_WORDS and any(
            one.lower in lexicon.GRAINS and one.lower not in ("date", "dates") for one in following
        )
        if word.lower in lexicon.RELATIVE_TIME or relative:
            raise OfflineCannot(
                f'"{" ".join([word.text, *(one.text for one in following)])}" counts from today, and the'
                " offline model has no clock",
                hint="Name the period, for example `in March 2024` or `since 2024-05-01`.",
            )


def _only(clause: Clause, readings: Sequence[Reading]) -> tuple[Reading, ...]:
    best = max(reading.score for reading in readings)
    winners = [reading for reading in readings if reading.score == best]
    if all(one.kind == "missing" and not one.columns for one in winners):
        return tuple(one for one in winners if len(one.scope.tables) == 1)
    if len(winners) > 1:
        tables = " or ".join(
            " with ".join(f"`{table.name}`" for table in one.scope.tables) for one in winners[:4]
        )
        raise OfflineCannot(
            f'"{clause.text}" could be answered from {tables}', hint="Name the table in the question."
        )
    if winners[0].scope.problem:
        raise OfflineCannot(winners[0].scope.problem, hint="Ask about one of the tables alone.")
    return (winners[0],)


def _refusal(clause: Clause, failures: Sequence[Unreadable]) -> OfflineCannot:
    """The failure of the scope that understood most."""
    worst = max(failures, key=lambda failure: failure.weight, default=None)
    reason = worst.reason if worst else "there is no table to ask"
    return OfflineCannot(
        f'"{clause.text}": {reason}',
        hint=(
            "The offline model answers counts, totals, averages, extremes, rankings, breakdowns, changes"
            " between two periods and missing values, over one table or two that share a column; and it"
            " quotes text files, as in `What do the notes say about ...?`."
        ),
    )
