"""Comparisons with numbers: `over 100`, `at least 5 units`, `between 10 and 20`, `older than 30`."""

from __future__ import annotations

from decimal import Decimal

from artelier.models.offline import lexicon
from artelier.models.offline.columns import HEAD, STRONG
from artelier.models.offline.draft import COPULAS, Draft, some
from artelier.models.offline.reading import AGGREGATE_OF, Compare, Comparison, Having, Measure, Unreadable
from artelier.models.offline.schema import Column
from artelier.models.offline.words import stem

_NUMERIC: dict[str, Comparison] = {">": ">", ">=": ">=", "<": "<", "<=": "<=", "=": "=", "!=": "!="}
_DATES_TOO = {"after": ">", "before": "<"}
_FLIPPED: dict[Comparison, Comparison] = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_NUMBER_PASS = ("of", "the", "a", "an", "in", "than", "about", "or", "value", "values", "worth")


def bind_comparisons(draft: Draft) -> None:
    """Read every comparison whose number is a plain number."""
    for place in list(draft.ops("between", "from")):
        _bind_between(draft, place)
    for place in list(draft.ops(*_NUMERIC)):
        _bind_comparison(draft, place)
    for place in list(draft.ops("or more", "or less")):
        _bind_postfix(draft, place)
    for place, chunk in enumerate(draft.chunks):
        if chunk.kind == "degree" and not draft.used[place]:
            _bind_degree(draft, place)
    for place, chunk in enumerate(draft.chunks):
        if chunk.kind in ("number", "period") and not draft.used[place]:
            _bind_equality(draft, place)


def _number(draft: Draft, place: int | None) -> Decimal | None:
    """The number at a place, if it is one and unread."""
    if place is None or draft.used[place]:
        return None
    return draft.chunks[place].number


def _skip_units(draft: Draft, place: int) -> tuple[list[int], int | None]:
    """Units right after (or a currency sign right before) a number, and the chunk behind them."""
    units: list[int] = []
    if place > 0 and draft.chunks[place - 1].kind == "unit":
        units.append(place - 1)
    at = draft.after(place, over=_NUMBER_PASS)
    while at is not None and draft.chunks[at].kind == "unit":
        units.append(at)
        at = draft.after(at, over=_NUMBER_PASS)
    return units, at


def _after_currency(draft: Draft, place: int) -> int | None:
    at = draft.after(place)
    return at + 1 if at is not None and draft.chunks[at].kind == "unit" and at + 1 < len(draft) else at


def _bind_comparison(draft: Draft, place: int) -> None:
    op = _NUMERIC[draft.chunks[place].op]
    at = _after_currency(draft, place)
    degree = None
    if at is not None and draft.chunks[at].kind == "degree":  # more expensive than 20
        degree, at = at, _after_currency(draft, at)
    low = _number(draft, at)
    if at is None or low is None:
        return
    units, following = _skip_units(draft, at)
    if degree is not None:
        _, more, _ = lexicon.DEGREES[draft.chunks[degree].text]
        op = op if more else _FLIPPED.get(op, op)
        draft.take(degree)
    _add(draft, [place, at, *units], op, low, following=following, degree=degree)


def _bind_between(draft: Draft, place: int) -> None:
    first = _after_currency(draft, place)
    low = _number(draft, first)
    if first is None or low is None:
        return
    units, joint = _skip_units(draft, first)
    if joint is None or not draft.is_op(joint, "and", "to", "until", "<="):
        return
    second = _after_currency(draft, joint)
    high = _number(draft, second)
    if second is None or high is None:
        return
    more_units, following = _skip_units(draft, second)
    periods = [draft.chunks[at].period for at in (first, second)]
    if all(periods) and not _is_condition(draft, place, following):
        return  # years: a range of time
    taken = [place, first, joint, second, *units, *more_units]
    _add(draft, taken, "between", low, high=high, following=following)


def _is_condition(draft: Draft, place: int, following: int | None) -> bool:
    """Return True if two numbers that may be years stand beside a numeric column that a `with` introduces."""
    if draft.numeric(following, least=STRONG) is not None:
        return True
    before = draft.before(place, over=COPULAS)
    if before is None or draft.numeric(before, least=STRONG) is None:
        return False
    return bool(draft.fillers_before(before) & {"with", "where", "whose", "having", "has", "had"})


def _bind_postfix(draft: Draft, place: int) -> None:
    """`5 or more units`, `rated 4 or higher`."""
    at = place - 1
    units: list[int] = []
    while at >= 0 and draft.chunks[at].kind == "unit":
        units.append(at)
        at -= 1
    following = draft.after(place, over=_NUMBER_PASS)
    if at >= 0 and draft.chunks[at].kind == "noun" and _number(draft, at - 1) is not None:
        following, at = at, at - 1  # 5 units or more
    low = _number(draft, at) if at >= 0 else None
    if low is None:
        return
    op: Comparison = ">=" if draft.chunks[place].op == "or more" else "<="
    _add(draft, [place, at, *units], op, low, following=following, before=at)


def _bind_degree(draft: Draft, place: int) -> None:
    """`older than 30`; without a number the degree is left for the ranking."""
    text = draft.chunks[place].text
    stems, more, degree = lexicon.DEGREES[text]
    at = _after_currency(draft, place)
    low = _number(draft, at)
    if degree != "comparative" or at is None or low is None:
        return
    units, following = _skip_units(draft, at)
    named = draft.numeric(following, least=STRONG)
    column = named or family_column(draft, stems, text)
    if named is not None and following is not None:
        draft.take_column(following, named)  # longer than 300 pages
    if column is None:
        raise Unreadable(f'"{text}" fits no numeric column here', weight=draft.weight())
    draft.take(place, at, *units)
    draft.conditions.append(Compare(column=column, op=">" if more else "<", low=low))


def _bind_equality(draft: Draft, place: int) -> None:
    """`rating 5`, `with a rating of 5`, `orders of 5 units`."""
    low = _number(draft, place)
    if low is None or (draft.chunks[place].period and _has_dates(draft)):
        return
    before = draft.before(place, over=COPULAS)
    units, following = _skip_units(draft, place)
    number_columns = [column for column in draft.scope.columns() if column.type == "number"]
    if before is not None and draft.chunks[before].kind == "noun":
        column = draft.column_at(before, number_columns, least=HEAD)
        in_time = draft.fillers_before(place) & {"in", "for", "at", "on"}
        if column is not None and draft.chunks[place].period and column.is_measure and in_time:
            return
        noun = draft.chunks[before].noun
        is_rank = bool(noun and noun.table) or draft.is_op(before - 1, "top", "bottom", "per")
        if column is not None and not is_rank:
            draft.take_column(before, column)
            draft.take(place, *units)
            draft.conditions.append(Compare(column=column, op="=", low=low))
            return
    if units and (column := _by_unit(draft, units)) is not None and following != before:
        draft.take(place, *units)
        draft.conditions.append(Compare(column=column, op="=", low=low))
        return
    with_words = draft.fillers_before(place) & {"with", "of", "where", "having", "had", "have", "has"}
    column = draft.column_at(following, number_columns, least=HEAD)
    if column is not None and with_words and following is not None:
        if not _is_superlative(draft, following):
            draft.take_column(following, column)
            draft.take(place, *units)
            draft.conditions.append(Compare(column=column, op="=", low=low))


def _has_dates(draft: Draft) -> bool:
    return any(column.type == "date" for column in draft.scope.columns())


def _is_superlative(draft: Draft, place: int) -> bool:
    after = draft.after(place)
    return draft.is_op(after, "max", "min", "most", "least")


def _add(
    draft: Draft,
    taken: list[int],
    op: Comparison,
    low: Decimal,
    *,
    high: Decimal | None = None,
    following: int | None = None,
    before: int | None = None,
    degree: int | None = None,
) -> None:
    """Find what is compared: a group's own figure, the column beside the number, or the only measure."""
    start = min(taken) if before is None else before
    if _add_having(draft, taken, op, low, high, start=start, following=following):
        return
    column, place = _compared(draft, start, following, degree)
    if column is None:
        column = _by_unit(draft, taken) or _age(draft, start) or _only_measure(draft, start)
    if place is not None:
        draft.take_column(place, column)
    draft.take(*taken)
    lead = draft.before(start)
    if draft.is_op(lead, "per") and lead is not None:
        draft.take(lead)  # delayed by more than 30 minutes
    draft.conditions.append(Compare(column=column, op=op, low=low, high=high))


def _compared(
    draft: Draft, start: int, following: int | None, degree: int | None
) -> tuple[Column | None, int | None]:
    if degree is not None:
        text = draft.chunks[degree].text
        return family_column(draft, lexicon.DEGREES[text][0], text), None
    before = draft.before(start, over=COPULAS)
    while before is not None and draft.chunks[before].kind == "op":
        if draft.chunks[before].op not in ("values", "per", "not"):
            break
        before = draft.before(before, over=COPULAS)  # a temperature value over 30
    if before is not None and draft.chunks[before].kind == "degree":  # priced over 20
        stems, _, _ = lexicon.DEGREES[draft.chunks[before].text]
        column = family_column(draft, stems, draft.chunks[before].text)
        if column is not None:
            draft.take(before)
            return column, None
    if before is not None and (column := _verb_column(draft, before)) is not None:
        draft.take(before)
        return column, None
    for place in (before, following):
        noun = draft.chunks[place].noun if place is not None else None
        least = STRONG if noun and noun.table else 9
        column = draft.numeric(place, least=least)
        if column is not None:
            return column, place
    return None, None


def _verb_column(draft: Draft, place: int) -> Column | None:
    """`earn over 50000`, `cost less than 10`: the only column of the verb's family."""
    noun = draft.chunks[place].noun
    if draft.used[place] or noun is None or noun.verb not in ("earn", "cost", "spend"):
        return None
    if draft.numeric(place, least=HEAD) is not None:
        return None
    return family_column(draft, lexicon.FAMILIES[noun.verb], draft.chunks[place].text)


def _add_having(
    draft: Draft,
    taken: list[int],
    op: Comparison,
    low: Decimal,
    high: Decimal | None,
    *,
    start: int,
    following: int | None,
) -> bool:
    """`with total sales over 100`, `who placed more than 3 orders`."""
    noun = draft.chunks[following].noun if following is not None else None
    if noun is not None and noun.table and following is not None and not draft.used[following]:
        if noun.table.name in {table.name for table in draft.scope.tables}:
            if draft.numeric(following, least=STRONG) is None:
                draft.take_table(following, noun.table)
                draft.take(*taken)
                measure = Measure(aggregate="count", table=noun.table.name)
                draft.having.append(Having(measure=measure, op=op, low=low, high=high))
                return True
    before = draft.before(start, over=COPULAS)
    column = draft.numeric(before, least=9) if before is not None else None
    if before is None or column is None:
        return False
    lead = draft.before(before)
    if not draft.is_op(lead, *lexicon.AGGREGATES) or lead is None:
        return False
    if not draft.fillers_before(lead) & {"with", "where", "whose", "having", "has", "had", "have"}:
        raise Unreadable(
            f'it is not clear whether "{draft.chunks[before].text}" over a number means single rows or'
            " a total; say `with a total ... over ...` or name the column alone",
            weight=draft.weight() + 5,
        )
    aggregate = draft.chunks[lead].op
    draft.take_column(before, column)
    draft.take(lead, *taken)
    draft.having.append(
        Having(
            measure=Measure(aggregate=AGGREGATE_OF[aggregate], table=column.table, column=column),
            op=op,
            low=low,
            high=high,
        )
    )
    return True


def family_column(draft: Draft, stems: frozenset[str], text: str) -> Column | None:
    """The only numeric column of a word family, such as the one that holds temperatures."""
    numbers = [column for column in draft.scope.columns() if column.type == "number"]
    found = [column for column in numbers if set(column.stems) & stems]
    if len(found) > 1:
        plain = [column for column in found if len(column.words) == 1]
        found = plain if len(plain) == 1 else found
    if len(found) > 1:
        raise draft.ambiguous(text, found)
    return found[0] if found else None


def _by_unit(draft: Draft, taken: list[int]) -> Column | None:
    for place in taken:
        chunk = draft.chunks[place]
        family = lexicon.UNITS.get(chunk.text, "") if chunk.kind == "unit" else ""
        if family == "$":
            money = [column for column in draft.scope.columns() if column.is_money]
            if len(money) == 1:
                return money[0]
        elif family and family != "%":
            stems = frozenset(stem(word) for word in family.split())
            if found := family_column(draft, stems, chunk.text):
                return found
    return None


def _age(draft: Draft, start: int) -> Column | None:
    """`members over 40`: a bare number compared with persons is their age, if there is one."""
    before = draft.before(start, over=COPULAS)
    noun = draft.chunks[before].noun if before is not None else None
    table = noun.table if noun else None
    if table is None or not set(table.stems) & lexicon.PERSONS:
        return None
    ages = [column for column in table.columns if column.type == "number" and "age" in column.words]
    return ages[0] if len(ages) == 1 and table in draft.scope.tables else None


def _only_measure(draft: Draft, start: int) -> Column:
    """The one measure of the table named before the comparison, or of the tables in scope.

    Errors: `Unreadable` that lists the candidates.
    """
    before = draft.before(start, over=COPULAS)
    noun = draft.chunks[before].noun if before is not None else None
    named = noun.table if noun else None
    near = [named] if named is not None and named in draft.scope.tables else draft.scope.tables
    found = [column for table in near for column in table.measures]
    if len(found) == 1:
        return found[0]
    names = some(f"`{column.name}`" for column in found)
    which = f"of which column: {names}" if names else "no column here holds numbers"
    raise Unreadable(
        f'"{draft.chunks[start].text}" compares with a number, but {which}',
        weight=draft.weight() + (5 if found else 0),
    )
