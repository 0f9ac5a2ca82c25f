"""Time in a clause: single periods, ranges, and the two periods that a change is between."""

from __future__ import annotations

from artelier.models.offline import lexicon
from artelier.models.offline.draft import Draft
from artelier.models.offline.periods import Period
from artelier.models.offline.reading import Axis, Change, During, PeriodOp, Scope, Unreadable
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.words import stem

_LINKS = ("and", "or", "to", "until", "versus", "from", "between", "<=", "change")
_RANGE = ("to", "until", "<=")
_PARTS: dict[tuple[str, ...], str] = {
    ("year",): "year",
    ("season",): "year",
    ("yr",): "year",
    ("fiscal", "year"): "year",
    ("quarter",): "quarter",
    ("qtr",): "quarter",
    ("month",): "month",
}
_LEADS: dict[str, PeriodOp] = {
    "since": "since",
    "before": "before",
    "after": "after",
    ">": "after",
    "until": "until",
    "<=": "until",
    ">=": "since",
    "<": "before",
}


def bind_times(draft: Draft) -> None:
    """Read every period as a condition, or two of them as the sides of a change."""
    places = [
        place for place, chunk in enumerate(draft.chunks) if chunk.kind == "period" and not draft.used[place]
    ]
    if not places:
        return
    if not _has_axis(draft.scope):
        return  # a text column may hold `Q2`; values.py looks
    periods = {place: _period(draft, place) for place in places}
    places = _spread_years(draft, places, periods)
    if _is_change(draft, places, periods):
        _bind_change(draft, places, periods)
        return
    runs = _runs(draft, places)
    for run in runs:
        draft.conditions.append(_during(draft, run, periods))
    if len([one for one in draft.conditions if isinstance(one, During)]) > 2:
        raise Unreadable("the question names too many periods", weight=draft.weight())


def _period(draft: Draft, place: int) -> Period:
    period = draft.chunks[place].period
    assert period is not None
    return period


def _spread_years(draft: Draft, places: list[int], periods: dict[int, Period]) -> list[int]:
    """Give periods without a year the year that the clause names for them; returns what is left."""
    bare = [place for place in places if periods[place].grain == "year"]
    finer = [place for place in places if periods[place].grain != "year"]
    yearless = [place for place in finer if periods[place].year is None]
    if not yearless:
        return places
    if len(bare) == 1:
        year = periods[bare[0]].year
        if year is None or any(periods[place].year for place in finer):
            return places
        for place in yearless:
            periods[place] = periods[place].in_year(year)
        draft.take(bare[0])
        _take_lead(draft, bare[0])
        return finer
    if len(bare) == 2 and len(yearless) == 1:  # March, from 2023 to 2024
        for place in bare:
            year = periods[place].year
            if year is not None:
                periods[place] = periods[yearless[0]].in_year(year)
        draft.take(yearless[0])
        return bare
    dated = [place for place in finer if periods[place].year is not None]
    if len(dated) == 1:  # Q2 and Q3 2024
        year = periods[dated[0]].year
        for place in yearless:
            if year is not None and _linked(draft, *sorted((place, dated[0]))):
                periods[place] = periods[place].in_year(year)
    return places


def _take_lead(draft: Draft, place: int) -> None:
    lead = draft.before(place)
    if draft.is_op(lead, "per") and lead is not None and draft.chunks[lead].text == "within":
        draft.take(lead)


def _linked(draft: Draft, first: int, second: int) -> bool:
    """Return True if nothing but conjunctions and other periods stands between two chunks."""
    return all(
        chunk.kind in ("filler", "mark", "period") or (chunk.kind == "op" and chunk.op in _LINKS)
        for chunk in draft.between(first, second)
    )


def _is_change(draft: Draft, places: list[int], periods: dict[int, Period]) -> bool:
    if len(places) != 2:
        return False
    wanted = [*draft.ops("change")]
    compared = [place for place in draft.ops("versus") if places[0] < place < places[1]]
    return bool(wanted or compared) or draft.has("versus")


def _bind_change(draft: Draft, places: list[int], periods: dict[int, Period]) -> None:
    first, second = places
    between = [chunk for chunk in draft.between(first, second) if chunk.kind == "op"]
    links = {chunk.op for chunk in between}
    lead = draft.before(first)
    stated = bool(links & set(_RANGE)) or draft.is_op(lead, "from")
    texts = " ".join(chunk.text for chunk in between if chunk.op == "versus")
    comparing = any(chunk.text.startswith("compar") for chunk in draft.chunks)
    if "compared" in texts or "relative" in texts or "in comparison" in texts:
        first, second = second, first  # Q3 compared to Q2
    elif comparing and not stated and "versus" not in links:
        first, second = _chronological(first, second, periods)
    elif not stated:
        first, second = _chronological(first, second, periods)
    hint = _hint(draft, places[0])
    draft.take(*places, *draft.ops("change", "versus"))
    for place in (lead, *range(places[0] + 1, places[1])):
        if draft.is_op(place, "from", "between", "and", "to", "until", "since", "<=", "or"):
            assert place is not None
            draft.take(place)
    _take_how(draft)
    draft.change = Change(
        before=During(op="in", periods=(periods[first],), hint=hint),
        after=During(op="in", periods=(periods[second],), hint=hint),
    )


def _take_how(draft: Draft) -> None:
    """`how did ...`, `by how much`, `from one quarter to the next`: words that go with a change."""
    draft.take(*draft.ops("how", "much"))
    for place in draft.ops("per"):
        following = draft.after(place)
        if following is None or draft.used[following]:
            draft.take(place)


def _chronological(first: int, second: int, periods: dict[int, Period]) -> tuple[int, int]:
    one, other = periods[first], periods[second]

    def order(period: Period) -> tuple[int, int, int]:
        return period.year or 0, period.number, period.day

    if one.year is not None and other.year is not None:
        return (first, second) if order(one) <= order(other) else (second, first)
    same = order(one)[1:] <= order(other)[1:]
    return (first, second) if same else (second, first)


def _runs(draft: Draft, places: list[int]) -> list[list[int]]:
    """Periods that conjunctions bind together."""
    runs: list[list[int]] = []
    for place in places:
        if runs and _linked(draft, runs[-1][-1], place):
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _during(draft: Draft, run: list[int], periods: dict[int, Period]) -> During:
    first, last = run[0], run[-1]
    lead = draft.before(first)
    hint = _hint(draft, first)
    draft.take(*run)
    _take_part_word(draft, run[-1])
    joints = [place for place in range(first + 1, last) if draft.chunks[place].kind in ("op", "mark")]
    ranged = any(
        draft.is_op(place, *_RANGE) or draft.chunks[place].text in ("-", "–", "—") for place in joints
    )
    if len(run) == 2 and (ranged or draft.is_op(lead, "between")):
        draft.take(*[place for place in joints if draft.chunks[place].kind == "op"])
        if lead is not None and draft.is_op(lead, "between", "from", "since"):
            draft.take(lead)
        return During(op="between", periods=(periods[first], periods[last]), hint=hint)
    op = _single_op(draft, lead, last, periods[first])
    if len(run) > 1:
        if op != "in" or any(
            not draft.is_op(place, "and", "or") and draft.chunks[place].kind == "op" for place in joints
        ):
            raise Unreadable("the periods of the question do not fit together", weight=10)
        draft.take(*[place for place in joints if draft.chunks[place].kind == "op"])
    return During(op=op, periods=tuple(periods[place] for place in run), hint=hint)


def _take_part_word(draft: Draft, last: int) -> None:
    """`the 2022 season`: the word only says again what the number is."""
    following = draft.after(last, over=())
    if following is None or draft.chunks[following].kind != "noun":
        return
    noun = draft.chunks[following].noun
    columns = [column for table in draft.scope.tables for column in _part_columns(table)]
    found = noun.best(columns, least=26) if noun else []
    if found:
        draft.take_column(following, found[0])


def _part_columns(table: Table) -> list[Column]:
    axis = parts_axis(table)
    parts = (axis.year, axis.quarter, axis.month) if axis else ()
    return [part for part in parts if part is not None]


def _single_op(draft: Draft, lead: int | None, last: int, period: Period) -> PeriodOp:
    following = draft.after(last)
    if following is not None and draft.is_op(following, "onwards", "or more"):
        draft.take(following)
        if lead is not None and draft.is_op(lead, "from", "since"):
            draft.take(lead)
        return "since"
    if following is not None and draft.is_op(following, "earlier", "or less"):
        draft.take(following)
        return "until"
    if lead is None or draft.used[lead] or draft.chunks[lead].kind != "op":
        return "in"
    name = draft.chunks[lead].op
    if name in _LEADS:
        draft.take(lead)
        return _LEADS[name]
    if name == "from":
        if period.grain == "day":
            raise Unreadable(
                f'"from {period.label}" may mean that day or everything since; say `on` or `since`',
                weight=draft.weight() + 5,
            )
        draft.take(lead)
    elif name == "=":
        draft.take(lead)
    return "in"


def _hint(draft: Draft, first: int) -> Column | None:
    """The date column named right before a period: `shipped in`, `with a hire date before`."""
    dates = [column for column in draft.scope.columns() if column.type == "date"]
    at = draft.before(first)
    while at is not None and draft.chunks[at].kind == "op" and draft.chunks[at].op != "and":
        at = draft.before(at)
    if at is None or draft.chunks[at].kind not in ("noun", "degree"):
        return None
    noun = draft.chunks[at].noun
    if noun is None:
        return None
    found = draft.one_of_joined(noun.best(dates))
    if not found:
        return None
    if len(found) > 1:
        defaults = [axis.date for table in draft.scope.tables if (axis := default_axis(table))]
        found = [column for column in found if column in defaults] or found
    if len(found) > 1:
        raise draft.ambiguous(draft.chunks[at].text, found)
    stands_alone = noun.table is not None or noun.values
    numeric = noun.best([column for column in draft.scope.columns() if column.type != "date"])
    if not stands_alone and not numeric and not draft.used[at]:
        draft.take_column(at, found[0])
    return found[0]


def _has_axis(scope: Scope) -> bool:
    return any(table.dates or parts_axis(table) for table in scope.tables)


def parts_axis(table: Table) -> Axis | None:
    """Columns for parts of a date, if there is at least a year, a quarter or a month."""
    parts: dict[str, Column] = {}
    for column in table.columns:
        part = _PARTS.get(column.words, "")
        if column.type == "number" or (column.type == "text" and part in ("quarter", "month")):
            if part:
                parts.setdefault(part, column)
    if not parts:
        return None
    return Axis(year=parts.get("year"), quarter=parts.get("quarter"), month=parts.get("month"))


def default_axis(table: Table) -> Axis | None:
    """The time of a table's rows when no column is named.

    Errors: `Unreadable` if several columns may be meant, or the only one dates something else.
    """
    dates = table.dates
    if not dates:
        return parts_axis(table)
    plain = [column for column in dates if set(column.stems) <= _plain_words(column)]
    own = [
        column for column in dates if set(column.stems) - lexicon.PLAIN_DATES and _names_row(column, table)
    ]
    starts = [column for column in dates if set(column.stems) & lexicon.STARTS]
    for found in (plain, own, starts):
        if len(found) == 1:
            return Axis(date=found[0])
    only = dates[0]
    if len(dates) == 1 and not set(only.stems) & lexicon.EVENT_DATES:
        return Axis(date=only)
    names = ", ".join(f"`{column.name}`" for column in dates)
    raise Unreadable(f"`{table.name}` has the dates {names}; say which one is meant", weight=5)


def _plain_words(column: Column) -> frozenset[str]:
    """Return what a name may be made of to say nothing but `when`; a month in text is such a when itself."""
    parts = {stem(word) for word in ("month", "quarter", "period", "year", "qtr")}
    return lexicon.PLAIN_DATES | parts if column.dated else lexicon.PLAIN_DATES


def _names_row(column: Column, table: Table) -> bool:
    """`order_date` of `orders`, `loaned_on` of `loans`."""
    own = set(column.stems) - lexicon.PLAIN_DATES
    return bool(own) and own <= set(table.stems)
