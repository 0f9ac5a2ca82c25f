"""Parts: what one answered reading says, in sentences, tables and notes. All figures come from results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from artelier.errors import OfflineCannot
from artelier.models.offline import figures
from artelier.models.offline.figures import cell, code, exact, number_from, percent, rounded, signed
from artelier.models.offline.phrases import (
    conditions_phrase,
    group_phrase,
    having_phrase,
    listed,
    measure_phrase,
    title,
)
from artelier.models.offline.plan import LISTED_MAX, Answer, Query, ranked_twice
from artelier.models.offline.reading import During, Group, Reading
from artelier.models.offline.source import measure_label
from artelier.models.offline.spans import coverage_of, side_label


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of the report."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cut: bool = False
    """Whether the tool returned less than there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The answer to one clause."""

    title: str
    sentences: tuple[str, ...]
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    scalars: tuple[tuple[str, Any], ...] = ()
    """Single figures by name, for structured output."""
    quotes: tuple[str, ...] = ()
    """Passages of text files, as Markdown."""
    passages: tuple[str, ...] = ()
    """The same passages as they stand in the files."""
    group: str = ""
    """By what the rows of the table are grouped, and what its rows are called."""
    names: tuple[str, ...] = ()
    ranked: bool = False
    label_at: int = 0
    """The column of the table that says what a row is called."""


def part_of(answer: Answer) -> Part:
    """The part of a report that one answered reading makes."""
    makers = {
        "aggregate": _aggregate,
        "rank": _rank,
        "change": _change,
        "missing": _missing,
        "list": _list,
        "groups": _groups,
    }
    made = makers[answer.reading.kind](answer)
    reading = answer.reading
    return Part(
        title=title(reading),
        sentences=made.sentences,
        grids=made.grids,
        notes=(*made.notes, *_reasons(reading)),
        queries=tuple(
            query.sql
            for query in (answer.main, answer.overall, answer.basis, answer.coverage)
            if query is not None
        ),
        sources=tuple(dict.fromkeys(table.source for table in answer.tables)),
        scalars=made.scalars,
        **_named(answer, made),
    )


def _named(answer: Answer, made: _Made) -> dict[str, Any]:
    """Return what the rows of the part's table are called, for structured output."""
    reading = answer.reading
    group = reading.listed or (reading.groups[0] if len(reading.groups) == 1 else None)
    if group is None or not made.grids:
        return {}
    width = 1 if group.grain else len(group.columns)
    at = 1 if width > 1 and group.columns[0].is_id else 0
    rows = made.grids[-1].rows
    return {
        "group": group.grain or f"{group.entity} {' '.join(one.name for one in group.columns)}",
        "names": tuple(" ".join(str(value) for value in row[at:width]) for row in rows),
        "ranked": reading.kind == "rank",
        "label_at": at,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    sentences: tuple[str, ...]
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()
    scalars: tuple[tuple[str, Any], ...] = ()


def _reasons(reading: Reading) -> list[str]:
    reasons = [measure.why for measure in reading.measures if measure.why] + list(reading.reasons)
    if reading.inherited:
        reasons.append(f"as in the part before: {conditions_phrase(reading.inherited)}")
    return [reason[:1].upper() + reason[1:] + "." for reason in reasons]


def _where(reading: Reading) -> str:
    return f" where {conditions_phrase(reading.conditions)}" if reading.conditions else ""


def _record(query: Query) -> dict[str, Any]:
    """The only row of a query by its headings.

    Errors: `OfflineCannot` if there is no such row.
    """
    if len(query.rows.rows) != 1:
        raise OfflineCannot(f"expected one row of a total, got {len(query.rows.rows)}")
    return dict(zip(query.rows.columns, query.rows.rows[0], strict=True))


def _grid(query: Query) -> Grid:
    return Grid(
        headings=tuple(query.rows.columns),
        rows=tuple(tuple(row) for row in query.rows.rows),
        cut=query.rows.truncated,
    )


def _aggregate(answer: Answer) -> _Made:
    reading = answer.reading
    totals = _record(answer.basis or answer.main)
    scalars: list[tuple[str, Any]] = []
    sentences: list[str] = []
    values = list(totals.values())
    overall = "Overall, " if reading.groups else ""
    for at, measure in enumerate(reading.measures):
        value = values[at]
        scalars.append((measure_label(measure), value))
        phrase = measure_phrase(measure)
        if value is None:
            text = f"no row{_where(reading)} has a value, so there is no figure for {phrase}"
        else:
            text = f"{overall}{phrase}{_where(reading)} is **{rounded(value)}**"
        sentences.append(text[:1].upper() + text[1:] + ".")
    notes = _skipped(reading, totals, grouped="shown as (missing)")
    if not reading.groups:
        grids = [_grid(answer.overall)] if answer.overall is not None else []
        whole = Grid(headings=tuple(name for name, _ in scalars), rows=(tuple(v for _, v in scalars),))
        return _Made(
            sentences=tuple(sentences), grids=(whole, *grids), notes=tuple(notes), scalars=tuple(scalars)
        )
    grid = _grid(answer.main)
    by = " and ".join(group_phrase(group) for group in reading.groups)
    having = "".join(f", only where {having_phrase(one)}" for one in reading.having)
    lead = f"{listed([measure_phrase(one) for one in reading.measures])} by {by}{_where(reading)}{having}"
    lead = f"{lead[:1].upper()}{lead[1:]}: {len(grid.rows)} groups, listed below."
    notes += _spelling_notes(reading, grid)
    first = [lead, *_extremes(reading, grid)]
    return _Made(sentences=(*first, *sentences), grids=(grid,), notes=tuple(notes), scalars=tuple(scalars))


def _spelling_notes(reading: Reading, grid: Grid) -> list[str]:
    """Grouped texts that a reader would take for one value: `Rome`, `rome`, `Rome `."""
    notes: list[str] = []
    for group in reading.groups:
        if group.grain or not group.columns or group.columns[0].type != "text":
            continue
        column = group.columns[0]
        if column.name not in grid.headings:
            continue
        at = grid.headings.index(column.name)
        spelled: dict[str, list[str]] = {}
        for row in grid.rows:
            value = row[at]
            if isinstance(value, str):
                forms = spelled.setdefault(" ".join(value.split()).casefold(), [])
                forms += [value] if value not in forms else []
        alike = [repr(form) for forms in spelled.values() if len(forms) > 1 for form in forms]
        if alike:
            notes.append(
                f"{code(column.name)} has values that differ only in case or spaces and count apart:"
                f" {', '.join(alike[:12])}."
            )
    return notes


def _extremes(reading: Reading, grid: Grid) -> list[str]:
    """The largest and the smallest group of a simple breakdown."""
    if len(reading.groups) != 1 or len(reading.measures) != 1 or len(grid.rows) < 2 or grid.cut:
        return []
    filled = [row for row in grid.rows if number_from(row[-1]) is not None]
    if len(filled) < 2:
        return []
    top = max(filled, key=_figure)
    low = min(filled, key=_figure)
    if _figure(top) == _figure(low):
        return []
    group = reading.groups[0]
    return [
        f"The highest is {_name(top, group)} with {rounded(top[-1])}, the lowest is {_name(low, group)}"
        f" with {rounded(low[-1])}."
    ]


def _figure(row: Sequence[Any]) -> Decimal:
    return number_from(row[-1]) or Decimal(0)


def _name(row: Sequence[Any], group: Group) -> str:
    """Return what a row of a grouped result is called: its label, with the key where both are there."""
    if group.grain:
        return cell(row[0])
    width = len(group.columns)
    parts = [cell(value) for value in row[:width] if value is not None]
    if width == 2 and len(parts) == 2 and group.columns[0].is_id:
        return f"{parts[1]} ({parts[0]})"
    if width == 3 and len(parts) == 3 and group.columns[0].is_id:
        return f"{parts[1]} {parts[2]} ({parts[0]})"
    return ", ".join(parts) or figures.MISSING


def _skipped(reading: Reading, totals: dict[str, Any], *, grouped: str) -> list[str]:
    """Notes on rows without a measured or a grouped value, and on finding no rows at all."""
    rows = totals.get("rows")
    if not isinstance(rows, int):
        return []
    where = _where(reading)
    measured = {one.column.name for one in reading.measures if one.column is not None}
    gaps = {
        heading.removeprefix("with "): rows - filled
        for heading, filled in totals.items()
        if heading.startswith("with ") and isinstance(filled, int) and filled < rows
    }
    skipped = {name: count for name, count in gaps.items() if name in measured}
    if len(measured) == 1 and len(skipped) == 1:
        (name, count), *_ = skipped.items()
        used = rows - count
        notes = [f"{used} of {rows} rows {_were(used)} used{where}: {count} {_have(count)} no {code(name)}."]
        gaps.pop(name)
    else:
        notes = [f"{rows} {'row' if rows == 1 else 'rows'} {_were(rows)} used{where}."]
    for name, count in gaps.items():
        what = f"not part of the figures of {code(name)}" if name in measured else grouped
        notes.append(f"{count} of {rows} rows {_have(count)} no {code(name)} and {_were(count)} {what}.")
    return notes


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _rank(answer: Answer) -> _Made:
    reading = answer.reading
    rank, group, measure = reading.rank, reading.groups[-1], reading.measures[0]
    assert rank is not None
    totals = _record(answer.basis) if answer.basis else {}
    rows = answer.main.rows.rows
    by_rival: list[list[Any]] = []
    if reading.rival is not None:
        rows, by_rival = ranked_twice(answer)
    width = len(answer.main.rows.columns) - (2 if reading.rival else 1)
    top = rank.top or LISTED_MAX
    shown = _places(rows, at=width, top=top)
    notes = _skipped(reading, totals, grouped="not ranked")
    notes += [
        f"{code(column.name)} has values that differ only in case or spaces; they count apart."
        for column in group.columns[:1]
        if totals.get(f"spellings of {column.name}")
    ]
    if not shown:
        sentence = f"No row{_where(reading)} has a value, so nothing can be ranked."
        return _Made(sentences=(sentence,), notes=tuple(notes))
    names = [f"**{_name(row, group)}** ({rounded(row[width])})" for row in shown]
    order = "highest" if rank.descending else "lowest"
    phrase = measure_phrase(measure).removeprefix("the ")
    phrase = phrase if measure.aggregate in ("max", "min") else f"{order} {phrase}"
    what = group_phrase(group)
    if rank.top == 1 and len(shown) == 1:
        sentence = f"The {what} with the {phrase}{_where(reading)} is {names[0]}."
    elif rank.top is None:
        sentence = (
            f"By the {phrase}{_where(reading)}, the first {what} is {names[0]};"
            f" {len(shown)} are listed below."
        )
    else:
        count = f"{len(shown)} " if len(shown) > 1 else ""
        many = f"{what}s" if group.grain or group.entity else f"{what} values"
        sentence = f"The {count}{many} with the {phrase}{_where(reading)} are {listed(names)}."
    sentences = [sentence]
    if len(shown) > top:
        notes.append(f"{len(shown)} are shown instead of {top}, because the last place is shared.")
    elif rank.top and len(shown) < rank.top:
        notes.append(f"There are only {len(shown)} to rank.")
    if reading.rival is not None:
        notes.append(_rival_note(reading, shown, _places(by_rival, at=width + 1, top=top)))
    grid = Grid(
        headings=tuple(answer.main.rows.columns),
        rows=tuple(tuple(row) for row in shown),
        cut=answer.main.rows.truncated,
    )
    return _Made(
        sentences=tuple(sentences),
        grids=(grid,),
        notes=tuple(notes),
        scalars=((measure_label(measure), shown[0][width]),),
    )


def _places(rows: Sequence[list[Any]], *, at: int, top: int) -> list[list[Any]]:
    """The first places, with all that share the last one."""
    if len(rows) <= top:
        return list(rows)
    last = rows[top - 1][at]
    return [row for place, row in enumerate(rows) if place < top or row[at] == last]


def _rival_note(reading: Reading, shown: list[list[Any]], by_rival: list[list[Any]]) -> str:
    assert reading.rival is not None
    group = reading.groups[-1]
    rival = measure_phrase(reading.rival)
    if [row[0] for row in shown] == [row[0] for row in by_rival]:
        return f"Ranked by {rival} the order is the same."
    names = listed([_name(row, group) for row in by_rival])
    return f"Ranked by {rival} the order would be different: {names}."


def _change(answer: Answer) -> _Made:
    reading = answer.reading
    change = reading.change
    assert change is not None and answer.overall is not None
    before, after = side_label(change.before), side_label(change.after)
    totals = _record(answer.overall)
    values = list(totals.values())
    empty_sides = _empty_sides(answer, totals)
    sentences: list[str] = []
    scalars: list[tuple[str, Any]] = []
    for at, measure in enumerate(reading.measures):
        old, new, difference, share = values[at * 4 : at * 4 + 4]
        phrase = measure_phrase(measure)
        if before in empty_sides:
            old = difference = share = None
        if after in empty_sides:
            new = difference = share = None
        scalars += [("change", difference), ("change percent", share), (before, old), (after, new)]
        if old is None or new is None:
            empty = " and ".join(name for name, value in ((before, old), (after, new)) if value is None)
            text = f"There is no figure for {phrase} in {empty}, so no change can be given"
            known = [(name, value) for name, value in ((before, old), (after, new)) if value]
            text += f"; in {known[0][0]} it is {rounded(known[0][1])}" if known else ""
            sentences.append(text + ".")
            continue
        number = number_from(difference) or Decimal(0)
        verb = "rose" if number > 0 else "fell" if number < 0 else "did not change"
        size = -difference if number < 0 and difference is not None else difference
        by = f" by {rounded(size)} ({percent(share)})" if number else ""
        text = f"{phrase}{_where(reading)} **{verb}{by}** from {before} to {after}:"
        text += f" {rounded(old)} to {rounded(new)}"
        sentences.append(text[:1].upper() + text[1:] + ".")
    notes = _change_notes(totals, before, after) + _coverage_notes(answer)
    whole = _grid(answer.overall)
    width = len(reading.measures) * 4
    grids = [Grid(headings=whole.headings[:width], rows=tuple(row[:width] for row in whole.rows))]
    if empty_sides:
        grids = []
    elif reading.groups:
        grid = _grid(answer.main)
        grids.append(grid)
        sentences += _movers(reading, grid)
    return _Made(sentences=tuple(sentences), grids=tuple(grids), notes=tuple(notes), scalars=tuple(scalars))


def _empty_sides(answer: Answer, totals: dict[str, Any]) -> set[str]:
    """The periods that the data says nothing about: a count of 0 there would be no figure.

    Without a condition no row at all says so; with one, the dates of the table must not reach it.
    """
    change = answer.reading.change
    assert change is not None
    found: set[str] = set()
    for side in (change.before, change.after):
        label = side_label(side)
        if totals.get(f"rows in {label}") == 0:
            if not answer.reading.conditions or answer.coverage is None:
                found.add(label)
            elif isinstance(side, During) and coverage_of(side, answer.coverage.rows) == "none":
                found.add(label)
    return found


def _coverage_notes(answer: Answer) -> list[str]:
    """Return which of the compared periods the dates of the table reach only in part."""
    change = answer.reading.change
    if change is None or answer.coverage is None or not answer.coverage.rows.rows:
        return []
    sides = [side for side in (change.before, change.after) if isinstance(side, During)]
    rows = answer.coverage.rows
    part = [side_label(side) for side in sides if coverage_of(side, rows) == "part"]
    if not part:
        return []
    first, last = (str(value)[:10] for value in rows.rows[0])
    return [f"The data runs from {first} to {last}, so it covers {listed(part)} only in part."]


def _movers(reading: Reading, grid: Grid) -> list[str]:
    """Return which group rose and which fell most."""
    if len(reading.groups) != 1 or len(reading.measures) != 1:
        return []
    group = reading.groups[0]
    at = (1 if group.grain else len(group.columns)) + 2
    moved = [row for row in grid.rows if number_from(row[at]) is not None]
    if len(moved) < 2:
        return []
    up = max(moved, key=lambda row: number_from(row[at]) or Decimal(0))
    down = min(moved, key=lambda row: number_from(row[at]) or Decimal(0))
    found: list[str] = []
    for word, row, sign in (("rise", up, 1), ("fall", down, -1)):
        number = number_from(row[at]) or Decimal(0)
        if number * sign > 0:
            found.append(
                f"The largest {word} is in {_name(row, group)}: {signed(row[at])} ({percent(row[at + 1])})."
            )
    return found


def _change_notes(totals: dict[str, Any], before: str, after: str) -> list[str]:
    notes: list[str] = []
    for label in (before, after):
        rows, skipped = totals.get(f"rows in {label}"), totals.get(f"skipped in {label}")
        if isinstance(rows, int):
            text = f"{label} has {rows} rows"
            if isinstance(skipped, int) and skipped:
                text += f"; {skipped} of them {_have(skipped)} no value and {_were(skipped)} skipped"
            notes.append(text + ".")
    return notes


def _missing(answer: Answer) -> _Made:
    reading = answer.reading
    counts = _record(answer.main)
    rows = counts.pop("all rows", None)
    table = code(reading.scope.tables[0].name)
    with_gaps = {name: count for name, count in counts.items() if isinstance(count, int) and count}
    total = sum(with_gaps.values())
    scalars: list[tuple[str, Any]] = [("missing values", total)]
    if not with_gaps:
        asked = listed([code(name) for name in list(counts)[:20]]) if reading.columns else "no column"
        verb = "has no missing values" if reading.columns else "has missing values"
        sentence = f"In {table}, {asked} {verb} ({rows} rows)."
    else:
        names = listed([f"{code(name)} ({count})" for name, count in list(with_gaps.items())[:20]])
        sentence = f"In {table}, **{total}** values are missing in {rows} rows: {names}."
    shown = with_gaps if not reading.columns else counts
    grid = Grid(headings=("column", "missing"), rows=tuple(shown.items()))
    notes = ("A value is missing if its cell is empty, and a text also if it is blank.",)
    return _Made(sentences=(sentence,), grids=(grid,) if shown else (), notes=notes, scalars=tuple(scalars))


def _list(answer: Answer) -> _Made:
    reading = answer.reading
    group = reading.listed
    assert group is not None and answer.basis is not None
    found = _record(answer.basis).get("found")
    rows = answer.main.rows.rows
    what = group_phrase(group)
    having = "".join(f" and {having_phrase(one)}" for one in reading.having)
    where = _where(reading) or (" where" + having.removeprefix(" and") if having else "")
    where += having if _where(reading) else ""
    if not rows:
        sentence = f"No {what} was found{where}."
    else:
        names = listed([_name(row, group) for row in rows[:20]])
        more = f" and {len(rows) - 20} more" if len(rows) > 20 else ""
        noun = "rows of " + code(group.entity) if group.entity else f"different {what} values"
        sentence = f"Found{where}: **{found}** {noun}: {names}{more}."
    return _Made(
        sentences=(sentence,), grids=(_grid(answer.main),) if rows else (), scalars=(("found", found),)
    )


def _groups(answer: Answer) -> _Made:
    reading = answer.reading
    value = answer.main.rows.rows[0][0] if answer.main.rows.rows else None
    having = " and ".join(having_phrase(one) for one in reading.having)
    phrase = measure_phrase(reading.measures[0])
    sentence = f"{phrase}{_where(reading)} for which {having} is **{exact(value)}**."
    return _Made(
        sentences=(sentence[:1].upper() + sentence[1:],),
        scalars=((measure_label(reading.measures[0]), value),),
    )
