"""Words, names and periods: what is one word, and what a stretch of time is."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import OfflineCannot
from artelier.models.offline.figures import cell, code, exact, percent, rounded, table
from artelier.models.offline.periods import Period, period_at
from artelier.models.offline.question import clean, question_from
from artelier.models.offline.sql import identifier, literal
from artelier.models.offline.words import folded, lemma, name_words, stem, tokens


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cities", "city"),
        ("boxes", "box"),
        ("movies", "movie"),
        ("calories", "calorie"),
        ("statuses", "status"),
        ("houses", "house"),
        ("classes", "class"),
        ("people", "person"),
        ("Ann's", "ann"),
        ("prices", "price"),
    ],
)
def test_plurals_share_a_lemma(one: str, other: str) -> None:
    assert lemma(one) == lemma(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sold", "sales"),
        ("shipped", "ship"),
        ("cancelled", "cancel"),
        ("hired", "hire"),
        ("returned", "returns"),
        ("spent", "spending"),
        ("born", "birth"),
        ("categories", "category"),
    ],
)
def test_verb_forms_share_a_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_different_words_stay_apart() -> None:
    words = "status state rating rate price prize month money order other unit united".split()

    pairs = [(one, other) for one in words for other in words if one < other]

    assert [pair for pair in pairs if lemma(pair[0]) == lemma(pair[1])] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("orderDate", "order date"),
        ("order_date", "order date"),
        ("Order Date", "order date"),
        ("HTTPStatus", "http status"),
        ("Amount (EUR)", "amount eur"),
        ("floor_area_m2", "floor area m2"),
        ("column12", "column 12"),
        ("été", "été"),
    ],
)
def test_names_fall_into_words(name: str, words: str) -> None:
    assert " ".join(name_words(name)) == words


@pytest.mark.parametrize(
    ("text", "number"), [("1,200", "1200"), ("10k", "10000"), ("-5", "-5"), ("3.25", "3.25"), ("2nd", "2")]
)
def test_numbers_are_read(text: str, number: str) -> None:
    (word,) = [one for one in tokens(f"over {text}") if one.number is not None]

    assert word.number == Decimal(number)


@given(st.text(max_size=300))
def test_any_text_has_tokens_and_either_a_question_or_a_reason(text: str) -> None:
    list(tokens(text))
    folded(text)
    try:
        question_from(text)
    except OfflineCannot:
        pass


@given(st.text(max_size=200))
def test_cleaning_leaves_one_printable_line(text: str) -> None:
    found = clean(text)

    assert "\n" not in found and "\x00" not in found
    assert clean(found) == found


@given(st.text(max_size=50))
def test_quoted_names_and_values_cannot_end_their_quotes(text: str) -> None:
    inner = identifier(text)[1:-1].replace('""', "")
    value = literal(text)[1:-1].replace("''", "")

    assert '"' not in inner
    assert "'" not in value


@given(st.text(max_size=80))
def test_a_cell_stays_on_its_line_and_in_its_column(text: str) -> None:
    shown = cell(text)

    assert "\n" not in shown and "\r" not in shown
    assert "|" not in shown.replace("\\|", "")
    assert len(table(["a", "b"], [[text, 1]]).split("\n")) == 3


@given(st.text(min_size=1, max_size=40))
def test_inline_code_cannot_be_closed_from_inside(text: str) -> None:
    shown = code(text)
    fence = shown[: len(shown) - len(shown.lstrip("`"))]

    assert shown.startswith(fence) and shown.endswith(fence)
    assert fence not in shown[len(fence) : -len(fence)]


@pytest.mark.parametrize(
    ("text", "label", "start", "end"),
    [
        ("Q3 2024", "Q3 2024", "2024-07-01", "2024-10-01"),
        ("2024 Q3", "Q3 2024", "2024-07-01", "2024-10-01"),
        ("2024Q3", "Q3 2024", "2024-07-01", "2024-10-01"),
        ("2024-Q3", "Q3 2024", "2024-07-01", "2024-10-01"),
        ("the third quarter of 2024", "Q3 2024", "2024-07-01", "2024-10-01"),
        ("H2 2024", "H2 2024", "2024-07-01", "2025-01-01"),
        ("first half of 2024", "H1 2024", "2024-01-01", "2024-07-01"),
        ("March 2024", "March 2024", "2024-03-01", "2024-04-01"),
        ("Feb, 2024", "February 2024", "2024-02-01", "2024-03-01"),
        ("2024-12", "December 2024", "2024-12-01", "2025-01-01"),
        ("2024-02-29", "2024-02-29", "2024-02-29", "2024-03-01"),
        ("March 5, 2024", "2024-03-05", "2024-03-05", "2024-03-06"),
        ("5th of March 2024", "2024-03-05", "2024-03-05", "2024-03-06"),
    ],
)
def test_periods_are_read(text: str, label: str, start: str, end: str) -> None:
    words = [word for word in tokens(text) if word.lower != "the"]

    found = period_at(words, 0)

    assert found is not None
    period, taken = found
    assert taken == len(words)
    assert period.label == label
    assert period.bounds(period.year or 0) == (date.fromisoformat(start), date.fromisoformat(end))


def test_the_verb_may_is_no_month() -> None:
    assert period_at(tokens("may be"), 0) is None
    assert period_at(tokens("May"), 0) == (Period(grain="month", number=5), 1)


def test_a_day_that_does_not_exist_is_refused() -> None:
    with pytest.raises(OfflineCannot, match="no day"):
        Period(grain="day", number=2, day=30).bounds(2024)


@pytest.mark.parametrize(
    ("value", "in_table", "in_words"),
    [
        (1200, "1200", "1200"),
        (1200.0, "1200.00", "1200.00"),
        (0.1 + 0.2, "0.30", "0.30"),
        (12.3456789, "12.345679", "12.35"),
        (-0.000001, "-0.000001", "-0.000001"),
        (2.0 / 3, "0.666667", "0.67"),
        (None, "(missing)", "(missing)"),
        (True, "true", "true"),
        ("007", "007", "007"),
    ],
)
def test_figures_are_shown_without_noise(value: object, in_table: str, in_words: str) -> None:
    assert exact(value) == in_table
    assert rounded(value) == in_words


def test_percentages_carry_their_sign() -> None:
    assert [percent(value) for value in (12.34, -3.0, 0, None)] == [
        "+12.3 %",
        "-3.0 %",
        "0.0 %",
        "no percentage",
    ]
