"""The grouping of rows: by a column, by the rows of another table, or by a grain of time."""

from __future__ import annotations

from artelier.models.offline import lexicon
from artelier.models.offline.columns import CORE, HEAD, STRONG
from artelier.models.offline.draft import Draft
from artelier.models.offline.reading import Group, Unreadable
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.words import lemma

LABEL_BONUS = 5
"""A reading that can say what things are called is better than one with bare keys."""

ROW_COLUMNS_MAX = 6
"""How many columns stand for a row of a table that has neither a key nor a name."""


def group_at(draft: Draft, place: int | None, *, measures: bool = False) -> Group | None:
    """The grouping that the chunk names, or None; measures count only if asked for.

    Errors: `Unreadable` if several columns are named equally well.
    """
    if place is None or not 0 <= place < len(draft) or draft.used[place]:
        return None
    chunk = draft.chunks[place]
    noun = chunk.noun
    if noun is None or chunk.kind not in ("noun", "op"):
        return None
    last = chunk.text.split()[-1].removesuffix("'s").removesuffix("'")
    plural = lemma(last) != last
    dates = [column for column in draft.scope.columns() if column.type == "date"]
    if noun.grain and dates:
        return Group(grain=noun.grain, plural=plural)
    table = noun.table
    table_level = noun.tables[0][0] if noun.tables else 0
    columns = _groupable(draft, measures=measures)
    found = noun.best(columns, least=9)
    level = next((level for level, one in noun.columns if found and one == found[0]), 0)
    if table is not None and table in draft.scope.tables and table_level > level:
        return _entity(draft, table, plural=plural)
    if not found:
        return None
    found = draft.one_of_joined(found)
    if len(found) == 1 and found[0].type == "date":
        return Group(grain="day", plural=plural) if level >= CORE else None
    return Group(columns=_one(draft, chunk.text, found), plural=plural)


def _groupable(draft: Draft, *, measures: bool) -> list[Column]:
    return [
        column
        for column in draft.scope.columns()
        if measures or column.nature in ("none", "name", "intensive", "unknown")
    ]


def _one(draft: Draft, text: str, found: list[Column]) -> tuple[Column, ...]:
    """One column, or an id with its label; of several weak matches the only text column."""
    if len(found) == 1:
        return (found[0], *_label(draft, found[0]))
    ids = [column for column in found if column.is_id]
    labels = [column for column in found if column.is_label]
    if len(ids) == 1 and len(labels) == 1 and len(found) == 2:
        return ids[0], labels[0]
    texts = [column for column in found if column.type == "text"]
    if len(texts) == 1:
        return (texts[0],)
    raise draft.ambiguous(text, found)


def _label(draft: Draft, column: Column) -> tuple[Column, ...]:
    """The label beside an id: `customer_name` in the table of `customer_id`."""
    if not column.is_id or not column.thing:
        return ()
    table = draft.scope.table(column.table)
    found = [one for one in table.columns if one.is_label and one.thing == column.thing]
    return tuple(found[:1])


def _entity(draft: Draft, table: Table, *, plural: bool) -> Group:
    """The rows of a table as groups: its key and what its rows are called."""
    key = table.key
    join = draft.scope.join
    if key is None and join is not None:
        key = join.left if join.left.table == table.name else join.right
    labels = table.labels
    draft.bonus += LABEL_BONUS if labels else 0
    if key is None and not labels:
        rows = tuple(column for column in table.columns if column.type != "other")
        return Group(columns=rows[:ROW_COLUMNS_MAX], entity=table.name, plural=plural)
    columns = tuple(dict.fromkeys(column for column in (key, *labels) if column is not None))
    return Group(columns=columns, entity=table.name, plural=plural)


def take_group(draft: Draft, place: int, group: Group) -> None:
    """Account for the chunk that named a group."""
    if group.entity:
        draft.take_table(place, draft.scope.table(group.entity))
    elif group.columns:
        draft.take_column(place, group.columns[0])
    else:
        draft.take(place, level=HEAD + 1)


def bind_groups(draft: Draft) -> None:
    """Read `by city`, `per month and product`, `for each station`, `monthly`."""
    for place in list(draft.ops("per")):
        if not draft.used[place]:
            _bind_per(draft, place)
    for place in list(draft.nouns()):
        chunk = draft.chunks[place]
        if chunk.text in lexicon.GRAIN_ADJECTIVES and not _is_superlative_measure(draft, place):
            group = group_at(draft, place)
            if group is not None and group.grain:
                draft.take(place, level=HEAD + 1)
                draft.groups.append(group)


def _is_superlative_measure(draft: Draft, place: int) -> bool:
    """`highest monthly sales`: the month is what is ranked, not what is listed."""
    before = draft.before(place)
    return draft.is_op(before, "max", "min", "avg", "median", "best", "worst", "most", "least")


def _bind_per(draft: Draft, place: int) -> None:
    at = draft.after(place)
    while draft.is_op(at, "distinct", "per", "single") and at is not None:
        draft.take(at)
        at = draft.after(at)
    if at is None or draft.used[at]:
        return
    if draft.is_op(at, "count", "sum", "avg", "median", "max", "min"):
        return  # by number of orders: what a ranking is made by
    ranked = draft.has("top", "bottom", "best", "worst", "most", "least", "max", "min")
    if ranked and draft.numeric(at, least=HEAD) is not None and _measure_only(draft, at):
        return
    if _is_agent(draft, place, at):
        draft.take(place)
        return
    group = group_at(draft, at)
    if group is None:
        column = draft.numeric(at, least=HEAD)
        if column is not None and not ranked:
            raise Unreadable(
                f'"{draft.chunks[place].text} {draft.chunks[at].text}" would group by the measure'
                f" `{column.name}`; ratios are not supported",
                weight=draft.weight() + 5,
            )
        return
    if group.grain and draft.chunks[place].text == "per" and draft.has("avg", "median"):
        draft.per_time = draft.chunks[at].text
    draft.take(place)
    take_group(draft, at, group)
    draft.groups.append(group)
    _take_column_word(draft, at)
    _bind_more(draft, at)


def _is_agent(draft: Draft, place: int, at: int) -> bool:
    """`orders placed by customers from Berlin`: who did it, not a grouping."""
    noun = draft.chunks[at].noun
    if draft.chunks[place].text != "by" or noun is None or noun.table is None:
        return False
    verb = draft.chunks[place - 1].text if place else ""
    if not (verb.endswith("ed") or verb in ("made", "taken", "sold", "bought", "given", "written")):
        return False
    following = draft.after(at)
    return following is not None and draft.used[following]


def _measure_only(draft: Draft, place: int) -> bool:
    column = draft.numeric(place, least=HEAD)
    return column is not None and column.is_measure


def _take_column_word(draft: Draft, place: int) -> None:
    following = draft.after(place)
    if draft.is_op(following, "columns") and following is not None:
        draft.take(following)


def _bind_more(draft: Draft, place: int) -> None:
    """`... and product`, `..., month`: further groups joined to the first."""
    at = place
    while True:
        joint = draft.after(at)
        if joint is None or not (draft.is_op(joint, "and") or draft.chunks[joint].text == ","):
            return
        following = draft.after(joint)
        if draft.is_op(joint + 1, "and"):
            joint, following = joint + 1, draft.after(joint + 1)
        if following is None or draft.is_op(following, "per"):
            return
        group = group_at(draft, following)
        noun = draft.chunks[following].noun
        if group is None or noun is None or noun.level < STRONG:
            return
        draft.take(joint)
        take_group(draft, following, group)
        draft.groups.append(group)
        at = following


def persons(draft: Draft) -> Group | None:
    """Return what `who` asks for: the only table or column of persons in scope."""
    tables = [table for table in draft.scope.tables if set(table.stems) & lexicon.PERSONS]
    if len(tables) == 1:
        return _entity(draft, tables[0], plural=False)
    columns = [
        column
        for column in draft.scope.columns()
        if set(column.stems) & lexicon.PERSONS and column.nature in ("none", "name")
        if column.type != "date" and column.type != "truth"
    ]
    columns = draft.one_of_joined(columns)
    if len(columns) == 1 and not tables:
        return Group(columns=(columns[0], *_label(draft, columns[0])))
    labelled = [column for column in columns if column.is_label or column.is_id]
    if len(columns) == 2 and len(labelled) == 2 and labelled[0].thing == labelled[1].thing:
        ordered = sorted(columns, key=lambda column: not column.is_id)
        return Group(columns=tuple(ordered))
    if columns or tables:
        raise draft.ambiguous("who", columns or [c for table in tables for c in table.columns[:1]])
    return None
