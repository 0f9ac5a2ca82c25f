"""The measure of a ranking: a superlative, a `by` phrase or a verb asks for it."""

from __future__ import annotations

from dataclasses import replace

from artelier.models.offline import lexicon
from artelier.models.offline.columns import CORE, HEAD, STRONG
from artelier.models.offline.comparisons import family_column
from artelier.models.offline.counts import IRREGULAR_PARTICIPLES, check_count, count_at, count_column
from artelier.models.offline.draft import Draft, some
from artelier.models.offline.measures import MONEY_TABLES, measure_at, only_measure, verb_measure
from artelier.models.offline.reading import AGGREGATE_OF, Aggregate, Group, Measure, Missing, Unreadable
from artelier.models.offline.schema import Column
from artelier.models.offline.words import stem

DIRECTIONS = {
    "most": True,
    "max": True,
    "top": True,
    "best": True,
    "frequent": True,
    "latest": True,
    "least": False,
    "min": False,
    "bottom": False,
    "worst": False,
    "rare": False,
    "earliest": False,
}

COMPARATIVES = {"more": True, "less": False, "fewer": False}
"""`Which year had more rain?` asks for the most, unless a `than` follows."""


def ranking_figure(draft: Draft, superlatives: list[int], group: Group) -> tuple[Measure, bool]:
    """Return the measure to rank by, and True if more comes first."""
    last = _strongest(draft, superlatives)
    descending = _direction(draft, superlatives)
    found = _by_phrase(draft) or _degree_measure(draft, superlatives, group, descending)
    found = found or _named(draft, last, descending) or _date_measure(draft, last, descending)
    found = found or _verb(draft, group) or _remaining(draft, last, descending)
    if found is None:
        found = _rows(draft, last, group)
    return found, descending


def _strongest(draft: Draft, superlatives: list[int]) -> int:
    """`top 5 ... with the lowest price`: the later word says the order, `top` only how many."""
    rest = [place for place in superlatives if not draft.is_op(place, "top", "bottom")]
    return rest[-1] if rest else superlatives[-1]


def _direction(draft: Draft, superlatives: list[int]) -> bool:
    descending = True
    for place in superlatives:
        chunk = draft.chunks[place]
        if chunk.kind == "degree":
            _, more, degree = lexicon.DEGREES[chunk.text]
            before = draft.before(place)
            flipped = degree == "base" and draft.is_op(before, "least", "min", "worst", "bottom")
            return more != flipped
        if chunk.text in COMPARATIVES:
            descending = COMPARATIVES[chunk.text]
        elif chunk.op != "top":
            descending = DIRECTIONS[chunk.op]
    return descending


def _by_phrase(draft: Draft) -> Measure | None:
    """`... by amount`, `... by number of orders`, `... by average age`."""
    for place in draft.ops("per", "="):
        at = draft.after(place)
        if at is None:
            continue
        named = draft.numeric(at, least=HEAD)
        if draft.is_op(at, *AGGREGATE_OF, "count", "distinct"):
            measure = _after(draft, place, descending=True)
        elif named is not None and named.nature != "intensive":
            draft.take_column(at, named)
            measure = Measure(aggregate="sum", table=named.table, column=named)
        elif named is not None:
            draft.take_column(at, named)
            measure = Measure(aggregate="avg", table=named.table, column=named, why="either")
        else:
            noun = draft.chunks[at].noun
            if noun is not None and noun.verb:
                measure = verb_measure(draft, at, noun.verb, "sum")
            elif noun is not None and noun.table is not None:
                measure = count_at(draft, at, distinct=False)
            else:
                continue
        if measure is not None:
            draft.take(place)
            return measure
    return None


def _degree_measure(draft: Draft, superlatives: list[int], group: Group, descending: bool) -> Measure | None:
    for place in superlatives:
        chunk = draft.chunks[place]
        if chunk.kind != "degree":
            continue
        column = family_column(draft, lexicon.DEGREES[chunk.text][0], chunk.text)
        if column is None:
            raise Unreadable(
                f'"{chunk.text}" fits no numeric column; name the column, as in `highest ...`',
                weight=draft.weight() + 5,
            )
        draft.take(place)
        draft.mentioned.add(column.table)
        return _degree_figure(draft, column, group, descending)
    return None


def _degree_figure(draft: Draft, column: Column, group: Group, descending: bool) -> Measure:
    """`the wettest month` adds up; `the hottest station` may mean its mean or a single value.

    The rival must give the same ranking, else the question is refused.
    """
    average = next(draft.ops("avg", "median"), None)
    if average is not None:
        draft.take(average)
        aggregate = AGGREGATE_OF[draft.chunks[average].op]
        return Measure(aggregate=aggregate, table=column.table, column=column)
    if group.entity == column.table or (group.grain == "day" and column.nature == "intensive"):
        return _extreme(column, descending)
    if column.nature == "additive" and group.grain in ("week", "month", "quarter", "year"):
        return Measure(aggregate="sum", table=column.table, column=column)
    if set(column.stems) & lexicon.PROPERTIES:
        return replace(_extreme(column, descending), why="either")
    aggregate = "avg" if column.nature == "intensive" else "sum"
    return Measure(aggregate=aggregate, table=column.table, column=column, why="either")


def _extreme(column: Column, descending: bool) -> Measure:
    return Measure(aggregate="max" if descending else "min", table=column.table, column=column)


def _named(draft: Draft, place: int, descending: bool) -> Measure | None:
    """The measure right after the superlative: `highest average price`, `most units`."""
    if draft.is_op(place, "frequent", "rare", "latest", "earliest"):
        return None
    measure = _after(draft, place, descending=descending)
    if measure is not None and draft.is_op(place, "best", "worst"):
        column = measure.column
        if column is None or not set(column.stems) & lexicon.MORE_IS_BETTER:
            raise Unreadable(
                f'"{draft.chunks[place].text}" may mean the highest or the lowest; say which',
                weight=draft.weight() + 8,
            )
    return measure


def _after(draft: Draft, place: int, *, descending: bool) -> Measure | None:
    at = draft.after(place)
    while at is not None and (
        draft.used[at] or draft.is_op(at, "values", "single") or draft.chunks[at].kind == "degree"
    ):
        if draft.is_op(at, "single"):
            draft.take(at)
        at = draft.after(at)
    if at is None:
        return None
    if draft.is_op(at, *AGGREGATE_OF):
        return _aggregated(draft, at)
    if draft.is_op(at, "count", "distinct"):
        return _counted(draft, at)
    if draft.is_op(at, "missing"):
        return None
    if draft.is_op(at, "rows"):
        draft.take(at)
        return Measure(aggregate="count", table=_base(draft))
    if draft.chunks[at].kind != "noun" or draft.chunks[at].optional:
        return None
    return _of_noun(draft, place, at, descending)


def _aggregated(draft: Draft, at: int) -> Measure | None:
    op = draft.chunks[at].op
    following = draft.after(at)
    while draft.is_op(following, "values", "count") and following is not None:
        if (column := count_column(draft, following)) is not None:
            draft.take(at, following, level=CORE)
            draft.mentioned.add(column.table)
            return Measure(aggregate=AGGREGATE_OF[op], table=column.table, column=column)
        if draft.is_op(following, "count"):
            draft.take(at)
            return _counted(draft, following)
        following = draft.after(following)
    if following is not None and not draft.used[following]:
        measure = measure_at(draft, following, AGGREGATE_OF[op])
        if measure is not None:
            draft.take(at)
            return measure
    column = draft.numeric(at, least=CORE)
    if column is None and op == "sum":
        tables = draft.scope.tables
        column = only_measure(draft, tables[0], "total") if len(tables) == 1 else None
    if column is not None:
        draft.take(at)
        return Measure(
            aggregate="sum" if op == "sum" else AGGREGATE_OF[op], table=column.table, column=column
        )
    return None


def _counted(draft: Draft, at: int) -> Measure | None:
    """`number of orders`, `number of different products`."""
    check_count(draft, at)
    distinct = draft.is_op(at, "distinct")
    draft.take(at)
    following = draft.after(at)
    while draft.is_op(following, "distinct", "rows") and following is not None:
        distinct = distinct or draft.is_op(following, "distinct")
        draft.take(following)
        if draft.is_op(following, "rows"):
            return Measure(aggregate="count", table=_base(draft))
        following = draft.after(following)
    if following is None or draft.chunks[following].kind != "noun":
        return Measure(aggregate="count", table=_base(draft))
    return count_at(draft, following, distinct=distinct)


def _of_noun(draft: Draft, place: int, at: int, descending: bool) -> Measure | None:
    noun = draft.chunks[at].noun
    most = draft.is_op(place, "most", "least", "top", "bottom", ">", "<")
    table = noun.table if noun and noun.table in draft.scope.tables else None
    column = draft.numeric(at, least=STRONG if table else 6)
    if column is not None and table is not None and noun is not None:
        if noun.tables[0][0] > noun.columns[0][0]:
            column = None
    if column is not None and column.is_measure:
        draft.take_column(at, column)
        return _ranking_measure(draft, column, most=most, descending=descending)
    if noun is not None and noun.verb and (table is None or not most or _is_flow(noun.verb, draft, at)):
        return verb_measure(draft, at, noun.verb, "sum")
    if most:
        return _most(draft, at)
    if table is not None:
        found = only_measure(draft, table, draft.chunks[at].text)
        draft.take_table(at, table)
        return _extreme(found, descending)
    dates = [one for one in draft.scope.columns() if one.type == "date"]
    if (date := draft.column_at(at, dates, least=9)) is not None:
        draft.take_column(at, date)
        return _extreme(date, descending)
    return None


def _most(draft: Draft, at: int) -> Measure:
    """`the most books`: every row that mentions one counts, unless `different` is said."""
    event = event_table(draft)
    measure = count_at(draft, at, distinct=True)
    if event and measure.aggregate in ("count", "distinct") and measure.table != event:
        draft.reasons.append(f"every row of `{event}` counts")
        return Measure(aggregate="count", table=event)
    if measure.aggregate != "distinct" or measure.column is None:
        return measure
    column = measure.column
    draft.reasons.append(f"every row of `{column.table}` counts, a repeated `{column.name}` each time")
    return Measure(aggregate="count", table=column.table)


def _is_flow(verb: str, draft: Draft, at: int) -> bool:
    """`the most sales` counts rows only if the table has nothing that `sell` could measure."""
    return verb == "sell" and any(
        column.is_money or column.is_quantity for table in draft.scope.tables for column in table.columns
    )


def _ranking_measure(draft: Draft, column: Column, *, most: bool, descending: bool) -> Measure:
    """Return how single values become a figure of a group: amounts are added, levels are compared."""
    single = next(draft.ops("single"), None)
    if single is not None:
        draft.take(single)
        return _extreme(column, descending)
    if most or (column.nature == "additive" and set(column.stems) & lexicon.FLOWS):
        if column.nature != "intensive":
            return Measure(aggregate="sum", table=column.table, column=column)
    if column.nature == "intensive":
        return _extreme(column, descending)
    return replace(_extreme(column, descending), why="either")


def _date_measure(draft: Draft, place: int, descending: bool) -> Measure | None:
    """`hired last`, `the newest member`, `the most recent order`."""
    if not draft.is_op(place, "latest", "earliest"):
        return None
    dates = [column for column in draft.scope.columns() if column.type == "date"]
    for at in draft.nouns():
        found = draft.column_at(at, dates, least=9)
        if found is not None:
            draft.take_column(at, found)
            return _extreme(found, descending)
    if len(dates) == 1:
        return _extreme(dates[0], descending)
    return None


def _verb(draft: Draft, group: Group) -> Measure | None:
    """`sold most`, `best-selling`, `spent the least`."""
    for at in draft.nouns():
        noun = draft.chunks[at].noun
        if noun is None or not noun.verb:
            continue
        names = [*(group.columns[:1]), *group.columns]
        if noun.verb == "sell" and any(set(name.stems) & lexicon.BUYERS for name in names):
            raise Unreadable(
                f'"{draft.chunks[at].text}" is not what `{names[0].name}` does; say `spent`, or name a'
                " column",
                weight=draft.weight() + 8,
            )
        return verb_measure(draft, at, noun.verb, "sum")
    return None


def _remaining(draft: Draft, place: int, descending: bool) -> Measure | None:
    """A measure named elsewhere: `in which month was the cost highest`."""
    for at, chunk in enumerate(draft.chunks):
        if draft.used[at]:
            continue
        if draft.is_op(at, *AGGREGATE_OF) and at != place and chunk.op in ("sum", "avg", "median"):
            measure = _aggregated(draft, at)
            if measure is not None:
                return measure
        if draft.is_op(at, "count"):
            return _counted(draft, at)
    for at in draft.nouns():
        column = draft.numeric(at, least=HEAD)
        if column is not None and column.is_measure:
            draft.take_column(at, column)
            most = draft.is_op(place, "most", "least", "top", "bottom")
            return _ranking_measure(draft, column, most=most, descending=descending)
    return None


def _rows(draft: Draft, place: int, group: Group) -> Measure:
    """No measure is named: the most frequent group, or the only amount there is."""
    event = event_table(draft)
    if event and draft.is_op(place, "most", "least") and (money := _flow(draft, event)):
        why = f"`{money.name}` is the only amount of money of `{event}`"
        return Measure(aggregate="sum", table=event, column=money, why=why)
    if event and draft.is_op(place, "frequent", "rare", "most", "least"):
        draft.reasons.append(f"every row of `{event}` counts as one time")
        return Measure(aggregate="count", table=event)
    if draft.is_op(place, "frequent", "rare"):
        base = _base(draft, group)
        draft.reasons.append(f"every row of `{base}` counts as one time")
        return Measure(aggregate="count", table=base)
    nulls = [one for one in draft.conditions if isinstance(one, Missing) and not one.negated]
    if len(nulls) == 1 and draft.is_op(place, "most", "least", "max", "min"):
        return Measure(aggregate="count", table=nulls[0].column.table)  # most missing prices
    measures = [
        column for table in draft.scope.tables for column in table.measures if column not in group.columns
    ]
    if draft.is_op(place, "most", "least"):
        for at in draft.nouns():
            noun = draft.chunks[at].noun
            names = [table.name for table in draft.scope.tables]
            tables = [table for _, table in noun.tables if table.name in names] if noun else []
            if tables and not measures:
                draft.take_table(at, tables[0])
                return Measure(aggregate="count", table=tables[0].name)
        if not measures:
            return Measure(aggregate="count", table=_base(draft, group))
        measures_named = some(f"`{column.name}`" for column in measures)
        raise Unreadable(
            f'"{draft.chunks[place].text}" does not say of what (numeric columns: {measures_named});'
            " name the column, or say `most often` to count rows",
            weight=draft.weight() + 10,
        )
    if draft.is_op(place, "top", "bottom"):
        amounts = [column for column in measures if column.is_money or column.is_quantity]
        measures = measures if len(measures) != 1 else amounts or [*measures, *measures]
    if len(measures) == 1 and not draft.is_op(place, "best", "worst"):
        column = measures[0]
        why = f"`{column.name}` is the only measure of `{column.table}`"
        aggregate: Aggregate = "sum" if column.nature != "intensive" else "max"
        return Measure(aggregate=aggregate, table=column.table, column=column, why=why)
    names = some(dict.fromkeys(f"`{column.name}`" for column in measures)) or "none"
    raise Unreadable(
        f'it is not clear by what "{draft.chunks[place].text}" is measured (numeric columns: {names});'
        " name the column",
        weight=draft.weight() + 10,
    )


def _base(draft: Draft, group: Group | None = None) -> str:
    """The table whose rows are counted: the only one, or the one that is not the group's."""
    tables = draft.scope.tables
    if len(tables) == 1:
        return tables[0].name
    if group is not None and group.entity:
        return next(table.name for table in tables if table.name != group.entity)
    named = {
        chunk.noun.table.name
        for chunk in draft.chunks
        if chunk.kind == "noun" and chunk.noun is not None and chunk.noun.table is not None
    }
    if len(named) == 1:
        return named.pop()
    raise Unreadable("it is not clear the rows of which table should be counted", weight=draft.weight())


def _flow(draft: Draft, name: str) -> Column | None:
    """The amount of a table that records money by its name: `expenses`, `payments`."""
    table = draft.scope.table(name)
    money = [column for column in table.measures if column.is_money]
    return money[0] if len(money) == 1 and set(table.stems) & MONEY_TABLES else None


def event_table(draft: Draft) -> str:
    """The table that records what a participle says: `borrowed` names a column or the table itself.

    A row is then one time that it happened. Empty if no such word is there, or several tables fit.
    """
    found: set[str] = set()
    for chunk in draft.chunks:
        happened = chunk.text.endswith("ed") or chunk.text in IRREGULAR_PARTICIPLES
        if chunk.kind not in ("noun", "unknown") or not happened:
            continue
        if chunk.noun is not None and chunk.noun.verb:
            continue
        word = stem(chunk.text)
        for table in draft.scope.tables:
            names = {one for column in table.columns if column.type == "date" for one in column.stems}
            if word in names | set(table.stems):
                found.add(table.name)
    return found.pop() if len(found) == 1 else ""
