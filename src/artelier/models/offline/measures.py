"""The computed measures: counts, sums, means, extremes, and the measures that verbs ask for.

A measure is named (`average price`), counted (`how many orders`), or asked for by a verb (`sold`). A verb
points to a column only if the table has exactly one of the kind; the report then says which.
"""

from __future__ import annotations

from artelier.models.offline import lexicon
from artelier.models.offline.columns import CORE, HEAD, STRONG
from artelier.models.offline.counts import bind_count, count_column, names_something, table_in_scope
from artelier.models.offline.draft import Draft, some
from artelier.models.offline.reading import (
    AGGREGATE_OF,
    SPOKEN,
    Aggregate,
    Measure,
    Missing,
    OneOf,
    Unreadable,
)
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.words import stem

_SKIPPED = ("values", "distinct", "rows", "single", "sum")

TAILS = frozenset(("overall", "in total", "altogether", "in all", "combined", "in sum"))
"""Sums that may close a question without a column of their own."""


def bind_measures(draft: Draft) -> None:
    """Read every measure that is named, in the order of the question."""
    for place in range(len(draft)):
        if draft.used[place]:
            continue
        if draft.is_op(place, "count"):
            bind_count(draft, place)
        elif draft.is_op(place, *AGGREGATE_OF):
            _bind_aggregate(draft, place)
        elif draft.is_op(place, "much"):
            _bind_much(draft, place)
        elif draft.is_op(place, "best", "worst"):
            _bind_best(draft, place)
    _bind_bare(draft)
    if not draft.measures:
        _bind_tables_and_verbs(draft)


def _bind_aggregate(draft: Draft, place: int) -> None:
    """`average price`, `minimum and maximum price`, `total`, `price on average`."""
    op = draft.chunks[place].op
    following = draft.after(place)
    if op in ("avg", "median", "max", "min") and draft.is_op(following, "count"):
        at = draft.after(following) if following is not None else None
        if following is not None and at is not None and draft.numeric(at, least=HEAD) is not None:
            draft.take(following)  # average number of pages
    counted = count_column(draft, following)
    if counted is not None and following is not None:
        draft.take(place, following, level=CORE)
        draft.mentioned.add(counted.table)
        measure = Measure(aggregate=AGGREGATE_OF[op], table=counted.table, column=counted)
        draft.measures.append(measure)
        return
    if op == "sum" and draft.is_op(following, "count"):
        draft.take(place)  # total number of
        return
    at = _aggregated(draft, place)
    if at is None and draft.chunks[place].text in TAILS:
        return
    if at is not None and following is not None and draft.is_op(following, "and"):
        other = draft.after(following)
        if draft.is_op(other, *AGGREGATE_OF) and other is not None and other < at:
            draft.take(following)
    if at is None:
        _bind_without_noun(draft, place)
        return
    measure = measure_at(draft, at, AGGREGATE_OF[op], keep=_is_shared(draft, place, at))
    if measure is not None:
        draft.take(place)
        if op in ("max", "min"):
            draft.take(*draft.ops("single"))
        draft.measures.append(measure)


def _is_shared(draft: Draft, place: int, at: int) -> bool:
    """Return True if a later aggregate needs the same noun: `minimum and maximum price`."""
    return any(
        draft.is_op(between, *AGGREGATE_OF) and not draft.used[between]
        for between in range(place + 1, at)
        if draft.chunks[between].noun is None or between != at
    )


def _aggregated(draft: Draft, place: int) -> int | None:
    at = draft.after(place)
    while at is not None:
        chunk = draft.chunks[at]
        if draft.used[at]:
            at = draft.after(at)
            continue
        if chunk.kind == "noun":
            return at if names_something(draft, at) else None
        if chunk.kind == "op" and chunk.noun is not None and draft.numeric(at, least=CORE):
            return at
        joined = chunk.kind == "op" and (
            chunk.op in _SKIPPED or chunk.op in AGGREGATE_OF or chunk.op == "and"
        )
        if not joined or (chunk.op == "and" and not _another_aggregate(draft, at)):
            return None
        at = draft.after(at)
    return None


def _another_aggregate(draft: Draft, place: int) -> bool:
    following = draft.after(place)
    return draft.is_op(following, *AGGREGATE_OF)


def measure_at(draft: Draft, place: int, aggregate: Aggregate, *, keep: bool = False) -> Measure | None:
    """The aggregate of the column that a noun names; `keep` leaves the noun for another one.

    Errors: `Unreadable` if the noun fits no column that can be aggregated so.
    """
    chunk = draft.chunks[place]
    table = table_in_scope(draft, place)
    column = draft.numeric(place, least=HEAD if table else 6)
    noun = chunk.noun
    if column is None and aggregate in ("max", "min") and noun is not None:
        dates = [one for one in draft.scope.columns() if one.type == "date"]
        column = draft.column_at(place, dates, least=9)
    if column is not None:
        if not keep:
            draft.take_column(place, column)
        return Measure(aggregate=aggregate, table=column.table, column=column)
    if noun is not None and noun.verb:
        return verb_measure(draft, place, noun.verb, aggregate)
    if table is not None:
        return _of_table(draft, place, table, aggregate)
    texts = noun.best(list(draft.scope.columns()), least=STRONG) if noun else []
    if texts:
        raise Unreadable(
            f"`{texts[0].name}` holds {texts[0].kind_name}, not numbers, so it has no {SPOKEN[aggregate]}",
            weight=draft.weight() + 8,
        )
    return None


def _of_table(draft: Draft, place: int, table: Table, aggregate: Aggregate) -> Measure:
    """`the largest order`, `the average reading`, `total orders`."""
    if aggregate == "sum":
        flows = set(table.stems) & MONEY_TABLES
        money = [column for column in table.columns if column.is_money]
        if flows and len(money) == 1:
            draft.take_table(place, table)
            return Measure(aggregate="sum", table=table.name, column=money[0])
        draft.take_table(place, table)
        return Measure(aggregate="count", table=table.name)
    column = only_measure(draft, table, draft.chunks[place].text)
    draft.take_table(place, table)
    why = f"`{column.name}` is the only measure of `{table.name}`"
    return Measure(aggregate=aggregate, table=table.name, column=column, why=why)


MONEY_TABLES = frozenset(
    stem(word) for word in "sale payment purchase donation expense fee fine spending cost".split()
)
"""Tables whose total is an amount of money rather than a number of rows."""


def only_measure(draft: Draft, table: Table, text: str) -> Column:
    """The single column of a table that can be measured.

    Errors: `Unreadable` that lists the candidates.
    """
    found = list(table.measures)
    if len(found) == 1:
        return found[0]
    names = some(f"`{column.name}`" for column in found) or "none"
    raise Unreadable(
        f'"{text}" may be measured by several columns of `{table.name}` ({names}); name one',
        weight=draft.weight() + 8,
    )


def _bind_without_noun(draft: Draft, place: int) -> None:
    """`what is the total`: a column called so, the noun on the left, or the only measure."""
    chunk = draft.chunks[place]
    column = draft.numeric(place, least=CORE)
    left = draft.before(place)
    if column is not None:
        aggregate: Aggregate = "sum" if column.nature == "additive" else AGGREGATE_OF[chunk.op]
        draft.take_column(place, column)
        draft.measures.append(Measure(aggregate=aggregate, table=column.table, column=column))
        return
    if left is not None and draft.chunks[left].kind == "noun" and not draft.used[left]:
        measure = measure_at(draft, left, AGGREGATE_OF[chunk.op])
        if measure is not None:
            draft.take(place)
            draft.measures.append(measure)
        return
    if draft.measures or draft.context is not None or draft.has_noun():
        return
    if len(draft.scope.tables) == 1:
        column = only_measure(draft, draft.scope.tables[0], chunk.text)
        draft.take(place)
        draft.measures.append(Measure(aggregate=AGGREGATE_OF[chunk.op], table=column.table, column=column))


def _bind_best(draft: Draft, place: int) -> None:
    """`her best score`: the highest, where more is better beyond doubt."""
    at = draft.after(place)
    column = draft.numeric(at, least=HEAD)
    if at is None or column is None or not set(column.stems) & lexicon.MORE_IS_BETTER:
        return
    draft.take(place)
    draft.take_column(at, column)
    aggregate: Aggregate = "max" if draft.chunks[place].op == "best" else "min"
    draft.measures.append(Measure(aggregate=aggregate, table=column.table, column=column))


def _bind_much(draft: Draft, place: int) -> None:
    """`how much rain`, `how much did Ann spend`."""
    for at in list(draft.nouns(place + 1)):
        noun = draft.chunks[at].noun
        table = table_in_scope(draft, at)
        column = draft.numeric(at, least=HEAD if table else 9)
        if column is not None and column.is_measure:
            draft.take(place)
            draft.measures.append(bare_measure(draft, at, column))
            return
        if noun is not None and noun.verb:
            draft.take(place)
            draft.measures.append(verb_measure(draft, at, noun.verb, "sum"))
            return
    for at in list(draft.nouns(place + 1)):  # how much did Ann claim
        table = table_in_scope(draft, at)
        if table is not None and len(table.measures) == 1:
            draft.take(place)
            draft.take_table(at, table)
            column = table.measures[0]
            why = f"`{column.name}` is the only measure of `{table.name}`"
            draft.measures.append(Measure(aggregate="sum", table=table.name, column=column, why=why))
            return


def bare_measure(draft: Draft, place: int, column: Column) -> Measure:
    """A column without an aggregate: amounts are added up.

    Errors: `Unreadable` for a column that may be added up or averaged.
    """
    lead = lexicon.OPERATORS.get((column.words[0],), "") if column.words else ""
    if column.nature == "additive":
        draft.take_column(place, column)
        return Measure(aggregate="sum", table=column.table, column=column)
    if lead in AGGREGATE_OF and lead != "sum":
        draft.take_column(place, column)
        return Measure(aggregate=AGGREGATE_OF[lead], table=column.table, column=column)
    if _looks_up(draft):
        draft.take_column(place, column)
        return Measure(aggregate="only", table=column.table, column=column)
    raise Unreadable(
        f"it is not clear whether `{column.name}` should be added up, averaged or ranked; say `total`,"
        " `average`, `highest` or `lowest`",
        weight=draft.weight() + 10,
    )


def _looks_up(draft: Draft) -> bool:
    """`the height of the tower`: a condition that may leave a single value."""
    named = [one for one in draft.conditions if isinstance(one, OneOf) and not one.negated]
    return bool(named) and not draft.groups and draft.change is None and draft.rank is None


def _bind_bare(draft: Draft) -> None:
    """Numeric columns without a word that says what to do with them."""
    for place in list(draft.nouns()):
        if draft.used[place] or draft.chunks[place].optional:
            continue
        table = table_in_scope(draft, place)
        column = draft.numeric(place, least=HEAD if not table else CORE)
        if column is None or not column.is_measure:
            continue
        if table is not None and not draft.measures:
            noun = draft.chunks[place].noun
            if noun is not None and noun.tables[0][0] > noun.columns[0][0]:
                continue
        previous = _joined_aggregate(draft, place)
        if previous is not None:
            draft.take_column(place, column)
            draft.measures.append(Measure(aggregate=previous, table=column.table, column=column))
        elif not draft.measures:
            draft.measures.append(bare_measure(draft, place, column))


def _joined_aggregate(draft: Draft, place: int) -> Aggregate | None:
    """`average price and quantity`: the second column shares the first one's aggregate."""
    joint = draft.before(place)
    if joint is None or not (draft.is_op(joint, "and") or draft.chunks[joint].text == ","):
        return None
    columns = [measure for measure in draft.measures if measure.column is not None]
    if not columns or len(columns) != len(draft.measures):
        return None
    draft.take(joint)
    return columns[-1].aggregate


def _bind_tables_and_verbs(draft: Draft) -> None:
    """`loans per month` counts rows; `sales by city` and `what did Ann sell` ask for a verb's measure."""
    candidates = list(draft.nouns())
    for place in candidates:
        noun = draft.chunks[place].noun
        if noun is not None and noun.verb and not draft.chunks[place].optional:
            draft.measures.append(verb_measure(draft, place, noun.verb, "sum"))
            return
    asks = bool(draft.groups or draft.change)
    for place in candidates:
        table = table_in_scope(draft, place)
        if table is not None and asks:
            draft.take_table(place, table)
            draft.measures.append(Measure(aggregate="count", table=table.name))
            return
    nulls = [one for one in draft.conditions if isinstance(one, Missing)]
    if len(nulls) == 1 and len(draft.conditions) == 1 and not draft.has_noun():
        draft.measures.append(Measure(aggregate="count", table=nulls[0].column.table))


def verb_measure(draft: Draft, place: int, family: str, aggregate: Aggregate) -> Measure:
    """The measure that a verb such as `sell` asks for.

    A column that shares the verb's own word wins; then the only amount of money; then the only quantity;
    then the only measure.
    Errors: `Unreadable` that lists the candidates.
    """
    text = draft.chunks[place].text
    columns = [column for table in draft.scope.tables for column in table.measures]
    word = stem(text.split()[-1])
    own = [column for column in columns if word in column.stems and column.nature == "additive"]
    stems = lexicon.FAMILIES[family]
    money = [column for column in columns if column.is_money and set(column.stems) & stems]
    if family in ("cost", "earn", "spend"):
        loose = [column for column in columns if set(column.stems) & stems]
        money = money or loose
    quantity = [column for column in columns if column.is_quantity] if family == "sell" else []
    for found, rule in ((own, "shares its word"), (money, "is the only amount of money")):
        if len(found) == 1:
            if len(quantity) == 1 and quantity != found:
                units = quantity[0]
                draft.rival = Measure(aggregate=aggregate, table=units.table, column=units)
            return _chosen(draft, place, found[0], aggregate, text, rule)
        if len(found) > 1:
            raise draft.ambiguous(text, found)
    rest = [column for column in columns if _may_be_sold(column)]
    for found, rule in ((quantity, "is the only quantity"), (rest, "is the only measure")):
        if len(found) == 1:
            return _chosen(draft, place, found[0], aggregate, text, rule)
    if not columns:
        raise Unreadable(f'nothing here measures "{text}"', weight=draft.weight())
    raise draft.ambiguous(text, columns)


def _may_be_sold(column: Column) -> bool:
    """A level such as a temperature, or a plan such as a target, is no amount that was sold."""
    return column.nature != "intensive" and not set(column.stems) & lexicon.NO_MONEY


def _chosen(draft: Draft, place: int, column: Column, aggregate: Aggregate, text: str, rule: str) -> Measure:
    noun = draft.chunks[place].noun
    levels = [level for level, table in noun.tables if table.name == column.table] if noun else []
    draft.take(place, level=max([5, *levels]))
    draft.mentioned.add(column.table)
    why = f'"{text}" is measured by `{column.name}`, which {rule} in `{column.table}`'
    return Measure(aggregate=aggregate, table=column.table, column=column, why=why)
