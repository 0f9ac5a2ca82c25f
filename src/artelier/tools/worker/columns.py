"""The type of each column of a text table, by the form of all its values and never of a sample.

A column of figures or dates in another spelling than SQL's (1.234,56; 24.11.2026; 9 March 2024) becomes
numbers or dates if every value can be read in one way only, and a note says how. One that could be read in
two ways, or only in part, stays text, and its note says that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from artelier.tools.worker.queries import RawTable, literal, quote_identifier

AUTO = "auto"
"""A column of a file that has no types: whatever the form of its values says."""
WRITTEN = "written"
"""A column whose values the file marks as text: digits alone are no number."""
PLAIN = "plain"
"""A column whose values the file marks as numbers or truth values: in no other spelling than SQL's."""

# The forms by which a column is recognised, tried in this order. A number with a leading zero or a plus
# is an identifier or a telephone number, so it stays text; so does a number of more digits than the type
# can hold, and `yes`.
FORMS: tuple[tuple[str, str], ...] = (
    ("BIGINT", r"-?(0|[1-9][0-9]{0,17})"),
    ("DOUBLE", r"-?(0|[1-9][0-9]{0,14})?(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,2})?"),
    ("BOOLEAN", r"(?i)true|false"),
    ("DATE", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    ("TIMESTAMP", r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"),
)

COLUMNS_AT_ONCE = 16
"""Planning a query takes time in the square of its expressions: 9 s for 500 columns, 2 s like this."""
MOSTLY = 0.8
"""Of the values: from here on the rest is named, since somebody will take the column for figures or dates."""

_EUROPEAN = r"-?(0|[1-9][0-9]{0,14}|[1-9][0-9]{0,2}([. '’" + "\u00a0\u202f" + r"][0-9]{3})+)(,[0-9]{1,12})?"
_ENGLISH = r"-?(0|[1-9][0-9]{0,14}|[1-9][0-9]{0,2}([, '’" + "\u00a0\u202f" + r"][0-9]{3})+)(\.[0-9]{1,12})?"
_SURELY_EUROPEAN = (
    r",([0-9]{1,2}|[0-9]{4,})$|[.][0-9]{3}[.,]|^-?0,[0-9]|[ '’" + "\u00a0\u202f" + r"][0-9]{3},"
)
_SURELY_ENGLISH = (
    r"[.]([0-9]{1,2}|[0-9]{4,})$|,[0-9]{3}[.,]|^-?0[.][0-9]|[ '’" + "\u00a0\u202f" + r"][0-9]{3}[.]"
)
_UNIT = "€|[$]|£|¥|EUR|USD|GBP|CHF|%"
_GROUPED_ONLY = r"-?[1-9][0-9]{0,2}([.,][0-9]{3})+"

_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}[.]?"
_CLOCK = r"([ T]+[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,6})?)?)?"
_DATES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", ("%Y-%m-%d",)),
    (r"[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}", ("%Y/%m/%d",)),
    (r"[0-9]{1,2}[.][0-9]{1,2}[.][0-9]{4}", ("%d.%m.%Y",)),
    (r"(?i)[0-9]{1,2}[.]? " + _MONTH + " [0-9]{4}", ("%d %b %Y", "%d %B %Y", "%d. %b %Y", "%d. %B %Y")),
    (r"(?i)" + _MONTH + " [0-9]{1,2},? [0-9]{4}", ("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y")),
    (r"(?i)[0-9]{1,2}-" + _MONTH + "-[0-9]{4}", ("%d-%b-%Y", "%d-%B-%Y")),
)
"""Spellings of a day that mean one day only."""
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
_INSTANT = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:?[0-9]{2})"
)
_TURNED = r"[0-9]{1,2}[/-][0-9]{1,2}[/-][0-9]{4}"
"""Day or month first: only a day past the twelfth tells."""


class ColumnForm(NamedTuple):
    """The form of the values in a column of text."""

    expression: str
    """SQL of the value, with the column's name."""
    note: str = ""
    convention: str = ""
    """`european` or `english`, of figures that could not be read the other way."""


def forms_of(
    raw: RawTable, columns: Sequence[str], types: Sequence[str | None], *, is_semicolon: bool
) -> list[ColumnForm]:
    """Return the form of each column of the table `raw`.

    Shapes: a type is AUTO, WRITTEN, PLAIN, None for text as it is, or one of DuckDB's.
    """
    plain: dict[str, str | None] = {}
    asked = [name for name, kind in zip(columns, types, strict=True) if kind in (AUTO, WRITTEN, PLAIN)]
    for start in range(0, len(asked), COLUMNS_AT_ONCE):
        batch = asked[start : start + COLUMNS_AT_ONCE]
        plain.update(zip(batch, _plain_forms(raw, batch), strict=True))
    found: dict[str, ColumnForm] = {}
    for name, kind in zip(columns, types, strict=True):
        chosen = plain.get(name) if kind in (AUTO, WRITTEN, PLAIN) else kind
        if kind == WRITTEN and chosen not in ("DATE", "TIMESTAMP"):
            chosen = None
        found[name] = ColumnForm(_cast(name, chosen))
        if chosen is None and kind in (AUTO, WRITTEN) and _is_worth_a_look(raw, name):
            look = _date_form(raw, name)
            if look is None:
                look = _number_form(raw, name)
                # Digits that a file marks as text may be a version or a code; a decimal comma makes figures.
                if look is not None and kind == WRITTEN and look.convention != "european":
                    look = None
            found[name] = look or found[name]
    _settle_thousands(raw, columns, types, plain, found, is_semicolon=is_semicolon)
    return [found[name] for name in columns]


def _plain_forms(raw: RawTable, columns: Sequence[str]) -> list[str | None]:
    """Return for each column the first of `FORMS` that all its values have; None if there is none, or no
    value.
    """
    tests: list[str] = []
    for name in columns:
        column = quote_identifier(name)
        tests.append(f"count({column}) > 0")
        for kind, form in FORMS:
            fits = f"regexp_full_match(trim({column}), {literal(form)})"
            if kind in ("DATE", "TIMESTAMP", "DOUBLE"):
                fits += f" AND TRY_CAST(trim({column}) AS {kind}) IS NOT NULL"
            tests.append(f"coalesce(bool_and({column} IS NULL OR ({fits})), false)")
    flags = raw.evaluate(tests)
    width = len(FORMS) + 1
    found: list[str | None] = []
    for start in range(0, len(flags), width):
        filled = flags[start]
        fits = flags[start + 1 : start + width]
        kinds = [kind for (kind, _), fit in zip(FORMS, fits, strict=True) if fit]
        found.append(kinds[0] if filled and kinds else None)
    return found


def _cast(name: str, kind: str | None) -> str:
    column = quote_identifier(name)
    return column if kind is None else f"CAST(trim({column}) AS {kind}) AS {column}"


def _is_worth_a_look(raw: RawTable, name: str) -> bool:
    share = raw.digit_share(name)
    return share is not None and share >= MOSTLY


# --------------------------------------------------------------------------- dates


def _date_form(raw: RawTable, name: str) -> ColumnForm | None:
    column = quote_identifier(name)
    text = f"trim({column})"
    spelled = {
        f"s{n}": f"regexp_full_match({text}, {literal(form + _CLOCK)})" for n, (form, _) in enumerate(_DATES)
    }
    turned = f"regexp_full_match({text}, {literal(_TURNED)})"
    first, second = (
        f"TRY_CAST(regexp_extract({text}, '([0-9]+)[/-]([0-9]+)', {n}) AS INTEGER)" for n in (1, 2)
    )
    instant = f"regexp_full_match({text}, {literal(_INSTANT)})"
    counts = raw.count_where(
        all=f"{column} IS NOT NULL",
        timed=f"regexp_matches({text}, '[0-9]:[0-9]')",
        instant=instant,
        turned=turned,
        day_first=f"{turned} AND {first} > 12",
        month_first=f"{turned} AND {second} > 12",
        **spelled,
    )
    dated = sum(counts[one] for one in spelled) + counts["turned"] + counts["instant"]
    if dated < counts["all"] * MOSTLY or not dated:
        return None
    if dated < counts["all"]:
        other = " OR ".join([turned, instant, *spelled.values()])
        left = counts["all"] - dated
        said = f"{name}: text; all but {left} are dates, {raw.example(name, f'NOT ({other})')} is not"
        return ColumnForm(column, said)
    if counts["instant"]:
        if counts["instant"] < counts["all"]:
            return ColumnForm(column, f"{name}: text; some times have a zone and others none")
        value = f"CAST(TRY_CAST({text} AS TIMESTAMPTZ) AS TIMESTAMP)"
        return _checked(raw, name, value, "TIMESTAMP", f"{name}: times in UTC")
    return _spelled_dates(raw, name, counts, [one for one in spelled if counts[one]], spelled, turned)


def _spelled_dates(
    raw: RawTable,
    name: str,
    counts: dict[str, int],
    used: Sequence[str],
    spelled: dict[str, str],
    turned: str,
) -> ColumnForm:
    column = quote_identifier(name)
    formats = [one for key in used for one in _DATES[int(key[1:])][1]]
    examples = [raw.example(name, spelled[key]) for key in used]
    if counts["turned"]:
        example = raw.example(name, turned)
        if bool(counts["day_first"]) == bool(counts["month_first"]):
            why = (
                "some with the day first and some with the month"
                if counts["day_first"]
                else "day or month first"
            )
            return ColumnForm(
                column, f"{name}: text; dates such as {example}, {why}: it cannot be told which"
            )
        order = "%d{0}%m{0}%Y" if counts["day_first"] else "%m{0}%d{0}%Y"
        formats += [order.format("/"), order.format("-")]
        examples.append(f"{example} ({'day' if counts['day_first'] else 'month'} first)")
    listed = ", ".join(literal(one + clock) for one in formats for clock in _CLOCKS)
    clean = f"regexp_replace(trim({column}), '[ T]+([0-9]{{1,2}}:)', ' \\1')"
    clean = f"regexp_replace(regexp_replace({clean}, '(:[0-9]{{2}}),', '\\1.'), '([A-Za-z])[.]', '\\1')"
    value = f"try_strptime({clean}, [{listed}])"
    kind = "TIMESTAMP" if counts["timed"] else "DATE"
    return _checked(raw, name, value, kind, f"{name}: dates written as {', '.join(examples)}")


def _checked(raw: RawTable, name: str, value: str, kind: str, note: str) -> ColumnForm:
    """Return the form if every value can be read so, else text that says which cannot."""
    column = quote_identifier(name)
    wrong = f"{column} IS NOT NULL AND {value} IS NULL"
    if raw.count_where(wrong=wrong)["wrong"]:
        return ColumnForm(
            column, f"{name}: text; dates, but {raw.example(name, wrong)} is none that is read here"
        )
    return ColumnForm(f"CAST({value} AS {kind}) AS {column}", note)


# --------------------------------------------------------------------------- numbers


def _bare(name: str) -> str:
    """SQL of a figure without its currency or percent sign."""
    trimmed = f"trim({quote_identifier(name)}, ' \u00a0')"
    return f"trim(regexp_replace({trimmed}, '^({_UNIT})|({_UNIT})$', ''), ' \u00a0')"


def _number_form(raw: RawTable, name: str) -> ColumnForm | None:
    column, bare = quote_identifier(name), _bare(name)
    european = f"regexp_full_match({bare}, {literal(_EUROPEAN)})"
    english = f"regexp_full_match({bare}, {literal(_ENGLISH)})"
    counts = raw.count_where(
        all=f"{column} IS NOT NULL",
        european=european,
        english=english,
        either=f"{european} OR {english}",
        surely_european=f"{european} AND regexp_matches({bare}, {literal(_SURELY_EUROPEAN)})",
        surely_english=f"{english} AND regexp_matches({bare}, {literal(_SURELY_ENGLISH)})",
        marked=f"regexp_matches({bare}, '[.,]')",
    )
    unit, is_mixed = _unit(raw, name)
    if counts["either"] < counts["all"] * MOSTLY:
        return None
    if counts["either"] < counts["all"]:
        left = counts["all"] - counts["either"]
        other = raw.example(name, f"NOT ({european} OR {english})")
        return ColumnForm(column, f"{name}: text; all but {left} are numbers, {other} is not")
    if is_mixed:
        return ColumnForm(column, f"{name}: text; amounts in several currencies or units")
    sure = counts["surely_european"], counts["surely_english"]
    if all(sure):
        return ColumnForm(column, f"{name}: text; numbers with decimal commas and with decimal points")
    if sure[0] and counts["european"] == counts["all"]:
        return _as_european(raw, name, unit)
    if (sure[1] or not counts["marked"]) and counts["english"] == counts["all"]:
        value = f"regexp_replace({bare}, '[, ''’\u00a0\u202f]', '', 'g')"
        example = raw.example(name, f"{column} IS NOT NULL")
        said = f"{name}: numbers written as {example}{unit}"
        return _numbers(name, value, said, "english" if sure[1] else "")
    return ColumnForm(column, _ambiguous(raw, name))


def _unit(raw: RawTable, name: str) -> tuple[str, bool]:
    """Return how a note names the currency or unit of a column, and True if there are several."""
    column = quote_identifier(name)
    sign = f"regexp_extract(trim({column}, ' \u00a0'), '^({_UNIT})|({_UNIT})$')"
    units = raw.distinct(sign, name, limit=3)
    if len(units) != 1:
        return "", len(units) > 1
    return (f", unit {units[0]}" if units[0] else ""), False


def _as_european(raw: RawTable, name: str, unit: str) -> ColumnForm:
    bare = _bare(name)
    value = f"replace(regexp_replace({bare}, '[. ''’\u00a0\u202f]', '', 'g'), ',', '.')"
    example = raw.example(name, f"regexp_matches({quote_identifier(name)}, '[.,]')")
    return _numbers(
        name, value, f"{name}: numbers written as {example}, with a decimal comma{unit}", "european"
    )


def _numbers(name: str, value: str, note: str, convention: str) -> ColumnForm:
    return ColumnForm(f"CAST({value} AS DOUBLE) AS {quote_identifier(name)}", note, convention)


def _ambiguous(raw: RawTable, name: str) -> str:
    example = raw.example(name, f"regexp_matches({_bare(name)}, '[.,]')")
    return f"{name}: text; {example} may be thousands or decimals, it cannot be told which"


def _settle_thousands(
    raw: RawTable,
    columns: Sequence[str],
    types: Sequence[str | None],
    plain: dict[str, str | None],
    found: dict[str, ColumnForm],
    *,
    is_semicolon: bool,
) -> None:
    """Decide on columns such as `9.800` by what the other figures of the file are."""
    conventions = {form.convention for form in found.values()} - {""}
    open_columns: list[str] = []
    for name, kind in zip(columns, types, strict=True):
        if kind in (AUTO, WRITTEN) and (plain[name] == "DOUBLE" or "may be thousands" in found[name].note):
            grouped = f"regexp_full_match({_bare(name)}, {literal(_GROUPED_ONLY)})"
            marked = f"regexp_matches({_bare(name)}, '[.,eE]')"
            counts = raw.count_where(grouped=grouped, other=f"{marked} AND NOT {grouped}")
            if counts["other"]:
                conventions.add("english")
            elif counts["grouped"]:
                open_columns.append(name)
    for name in open_columns:
        column = quote_identifier(name)
        if conventions == {"european"}:
            found[name] = _as_european(raw, name, _unit(raw, name)[0])
        elif conventions == {"english"} and plain[name] != "DOUBLE":
            value = f"regexp_replace({_bare(name)}, '[, ''’\u00a0\u202f]', '', 'g')"
            example = raw.example(name, f"regexp_matches({column}, ',')")
            found[name] = _numbers(name, value, f"{name}: numbers written as {example}", "english")
        elif plain[name] == "DOUBLE" and is_semicolon and not conventions:
            found[name] = ColumnForm(column, _ambiguous(raw, name))
