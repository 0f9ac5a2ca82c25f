"""Rankings: `which three cities sold most`, `top 5 customers by amount`, `the coldest station`.

A ranking needs what is ranked (a group), by what (a measure) and which way. Without a group a
superlative is an extreme of a single value and is left to `measures.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from artelier.models.offline import lexicon
from artelier.models.offline.columns import HEAD
from artelier.models.offline.draft import Draft
from artelier.models.offline.grouping import group_at, persons, take_group
from artelier.models.offline.ranked_by import COMPARATIVES, DIRECTIONS, ranking_figure
from artelier.models.offline.reading import Group, Rank, Unreadable

TOP_MAX = 100
"""More than a person reads; a larger number is refused."""

_RELATIVES = frozenset("with that who which having where whose by has had have".split())

_PASS = frozenset("of the our all a an ones one these those were was is are".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    place: int | None
    group: Group
    top: int | None
    number: int | None = None
    """Where the number stands, to be taken with the group."""


def bind_rank(draft: Draft) -> None:
    """Read a ranking, if the clause holds one."""
    superlatives = _superlatives(draft)
    if not superlatives:
        return
    ranked = _ranked(draft, superlatives)
    if ranked is None:
        return
    _take_ranked(draft, ranked)
    measure, descending = ranking_figure(draft, superlatives, ranked.group)
    draft.groups.append(ranked.group)
    draft.measures.append(measure)
    draft.rank = Rank(descending=descending, top=ranked.top)
    for place in draft.ops(*DIRECTIONS):
        draft.take(place)
    for place in superlatives:
        draft.take(place)


def _superlatives(draft: Draft) -> list[int]:
    """Operators and adjectives that say `first in some order`."""
    found: list[int] = []
    for place, chunk in enumerate(draft.chunks):
        if draft.used[place]:
            continue
        if chunk.kind == "op" and chunk.op in DIRECTIONS:
            found.append(place)
        elif chunk.kind == "op" and chunk.text in COMPARATIVES and not _has_than(draft):
            found.append(place)
        elif chunk.kind == "degree":
            degree = lexicon.DEGREES[chunk.text][2]
            before = draft.before(place)
            if degree == "superlative" or draft.is_op(
                before, "most", "least", "max", "min", "best", "worst", "top"
            ):
                found.append(place)
    return found


def _has_than(draft: Draft) -> bool:
    return any(chunk.text == "than" for chunk in draft.chunks)


def _ranked(draft: Draft, superlatives: list[int]) -> _Ranked | None:
    return (
        _asked(draft)
        or _persons(draft, superlatives)
        or _after_superlative(draft, superlatives)
        or _before_superlative(draft, superlatives)
        or _grain_between(draft, superlatives)
    )


def _asked(draft: Draft) -> _Ranked | None:
    """`which three cities`, `what product`, `who`, `when`, `in which month`."""
    for place in draft.ops("which", "what"):
        strict = draft.chunks[place].op == "what"
        at = draft.after(place, over=() if strict else _PASS)
        number = None
        if at is not None and draft.chunks[at].kind == "number":
            number, at = at, draft.after(at, over=_PASS)
        while at is not None and at in _superlatives(draft) and not strict:
            at = draft.after(at)
        if at is not None and strict and draft.numeric(at, least=HEAD) is not None:
            continue
        group = group_at(draft, at)
        if group is not None:
            draft.take(place)
            return _Ranked(place=at, group=group, top=_top(draft, number, group), number=number)
    first = _first(draft)
    if draft.is_op(first, "when") and first is not None:
        if any(column.type == "date" for column in draft.scope.columns()):
            draft.take(first)
            return _Ranked(place=None, group=Group(grain="day"), top=1)
    return None


def _first(draft: Draft) -> int | None:
    return next((at for at, chunk in enumerate(draft.chunks) if chunk.kind != "filler"), None)


def _persons(draft: Draft, superlatives: list[int]) -> _Ranked | None:
    """`who sold most`, `who are the three highest paid employees`."""
    first = _first(draft)
    if not draft.is_op(first, "who") or first is None:
        return None
    group = persons(draft)
    if group is None:
        return None
    draft.take(first)
    named = _after_superlative(draft, superlatives) or _before_superlative(draft, superlatives)
    if named is not None and named.group.columns == group.columns:
        return named
    return _Ranked(place=None, group=group, top=1)


def _after_superlative(draft: Draft, superlatives: list[int]) -> _Ranked | None:
    """`top 5 customers`, `the five most expensive products`, `the coldest station`, `largest order`."""
    for place in superlatives:
        at = draft.after(place)
        number = None
        skipped_verb = False
        while at is not None:
            chunk = draft.chunks[at]
            if chunk.kind == "number" and number is None:
                number = at
            elif chunk.kind == "noun" and chunk.noun and chunk.noun.verb and not chunk.noun.table:
                skipped_verb = True
            elif at not in superlatives:
                break
            at = draft.after(at)
        if at is None:
            continue
        before = draft.before(place)
        if number is None and before is not None and draft.chunks[before].kind == "number":
            number = before
        if not _may_follow(draft, place, at, superlatives, skipped_verb=skipped_verb):
            continue
        group = group_at(draft, at)
        if group is not None:
            return _Ranked(place=at, group=group, top=_top(draft, number, group), number=number)
    return None


def _may_follow(draft: Draft, place: int, at: int, superlatives: list[int], *, skipped_verb: bool) -> bool:
    """Return True if a noun right after this superlative is ranked rather than measured."""
    chunk = draft.chunks[place]
    if draft.numeric(at, least=HEAD) is not None:
        return False
    degrees = any(draft.chunks[one].kind == "degree" for one in superlatives)
    if chunk.kind == "degree" or degrees or skipped_verb:
        return True
    if chunk.op in ("top", "bottom", "best", "worst", "frequent", "rare"):
        return True
    noun = draft.chunks[at].noun
    if noun is not None and noun.table and chunk.op in ("max", "min", "latest", "earliest"):
        return draft.rank is None and _other_noun(draft, at) is None
    return False


def _other_noun(draft: Draft, at: int) -> int | None:
    """A group named before: `the city with the largest order`."""
    for place in draft.nouns(0, at):
        following = draft.after(place, over=())
        if following is not None and draft.chunks[following].text in _RELATIVES:
            return place
    return None


def _before_superlative(draft: Draft, superlatives: list[int]) -> _Ranked | None:
    """`the three cities with the highest sales`, `the product that sold most`."""
    first = min(superlatives)
    for place in draft.nouns(0, first):
        following = place + 1
        if following >= len(draft) or draft.chunks[following].text not in _RELATIVES:
            if not _numbered(draft, place):
                continue
        group = group_at(draft, place)
        if group is None or draft.numeric(place, least=HEAD) is not None:
            continue
        number = _numbered(draft, place)
        return _Ranked(place=place, group=group, top=_top(draft, number, group), number=number)
    return None


def _numbered(draft: Draft, place: int) -> int | None:
    before = draft.before(place, over=("of", "the", "our"))
    if before is not None and draft.chunks[before].kind == "number" and not draft.used[before]:
        return before
    return None


def _grain_between(draft: Draft, superlatives: list[int]) -> _Ranked | None:
    """`highest monthly sales`."""
    for place in superlatives:
        at = draft.after(place)
        if at is not None and draft.chunks[at].text in lexicon.GRAIN_ADJECTIVES:
            group = group_at(draft, at)
            if group is not None:
                return _Ranked(place=at, group=group, top=1)
    return None


def _top(draft: Draft, number: int | None, group: Group) -> int | None:
    if number is None:
        return None if group.plural else 1
    value = draft.chunks[number].number
    if value is None or value != value.to_integral_value() or not 1 <= value <= TOP_MAX:
        raise Unreadable(
            f"a ranking shows 1 to {TOP_MAX} places, not {draft.chunks[number].text}",
            weight=draft.weight() + 20,
        )
    return int(value)


def _take_ranked(draft: Draft, ranked: _Ranked) -> None:
    if ranked.number is not None:
        draft.take(ranked.number)
    if ranked.place is not None:
        take_group(draft, ranked.place, ranked.group)
