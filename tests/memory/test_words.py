"""Words: stems, irregular forms, stop words, other scripts."""

from __future__ import annotations

import pytest

from artelier.memory.index.query_parser import NO_DAYS, asked_days, day_of, month_of
from artelier.memory.index.tokenizer import associations_of, stem, stop_words, term_of, terms, words

# The examples of Porter's paper, step by step.
PORTER = """caresses caress, ponies poni, ties ti, caress caress, cats cat, feed feed, agreed agre,
plastered plaster, bled bled, motoring motor, sing sing, conflated conflat, troubled troubl,
sized size, hopping hop, tanned tan, falling fall, hissing hiss, fizzed fizz, failing fail,
filing file, happy happi, sky sky, relational relat, conditional condit, rational ration,
valenci valenc, digitizer digit, conformabli conform, radicalli radic, differentli differ,
vileli vile, analogousli analog, vietnamization vietnam, predication predic, operator oper,
feudalism feudal, decisiveness decis, hopefulness hope, callousness callous, formaliti formal,
sensitiviti sensit, sensibiliti sensibl, triplicate triplic, formative form, formalize formal,
electriciti electr, electrical electr, hopeful hope, goodness good, revival reviv,
allowance allow, inference infer, airliner airlin, gyroscopic gyroscop, adjustable adjust,
defensible defens, irritant irrit, replacement replac, adjustment adjust, dependent depend,
adoption adopt, communism commun, activate activ, angulariti angular, homologous homolog,
effective effect, bowdlerize bowdler, probate probat, rate rate, cease ceas, controll control,
roll roll"""


@pytest.mark.parametrize("pair", [pair.split() for pair in PORTER.split(",")], ids=" ".join)
def test_stems_are_those_of_the_paper(pair: list[str]) -> None:
    word, expected = pair

    assert stem(word) == expected


@pytest.mark.parametrize("word", ["a", "is", "2024", "x9", "naïve", "東京", "", "3.5"])
def test_what_is_no_english_word_keeps_its_form(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("went", "go"),
        ("bought", "buys"),
        ("children", "child"),
        ("painted", "painting"),
        ("mum", "mother"),
        ("hobbies", "hobby"),
        ("hiked", "hikes"),
        ("pics", "photograph"),
    ],
)
def test_forms_of_one_word_are_one_term(one: str, other: str) -> None:
    assert term_of(one) == term_of(other)


def test_case_accents_and_possessives_do_not_count() -> None:
    assert words("Zoë’s CAFÉ, Anna's e-mail (3.50)") == ["zoe", "cafe", "anna", "e", "mail", "3.50"]


def test_a_script_without_spaces_gives_pairs() -> None:
    assert words("東京都庁") == ["東京", "京都", "都庁"]
    assert set(words("私は東京に住む")) & set(words("東京"))


def test_stop_words_are_dropped_and_names_stay() -> None:
    assert terms("What did you do with the Cello?") == ["cello"]
    assert not {"dog", "may not"} & stop_words()


def test_a_class_speaks_for_its_members_less_than_the_word_itself() -> None:
    assert 0 < associations_of(term_of("instrument"))[term_of("violin")] < 1
    assert associations_of("no-such-term") == {}


@pytest.mark.parametrize(
    "text",
    [
        "1:56 pm on 8 May, 2023",
        "2023-05-08",
        "2023-05-08T13:56:00Z",
        "May 8, 2023",
        "8th of May 2023",
        "may 8th 2023",
    ],
)
def test_dates_are_read_in_the_ways_people_write_them(text: str) -> None:
    day = day_of(text)

    assert day == day_of("2023-05-08") > 0
    assert month_of(day) == 5


@pytest.mark.parametrize("text", ["", "soon", "31 February 2023", "2023-13-01", "99 May 2023", "May"])
def test_what_is_no_day_is_none(text: str) -> None:
    assert day_of(text) == 0


def test_questions_about_days_months_and_years() -> None:
    newest = day_of("2023-10-20")

    exact = asked_days("What happened on 7 May 2023?", newest=newest)
    assert exact.exact and exact.first == exact.last == day_of("2023-05-07")
    assert asked_days("What about May 7?", newest=newest).first == day_of("2023-05-07")
    assert asked_days("And on 24 December?", newest=newest).first == day_of("2022-12-24")
    june = asked_days("Where was she in June 2023?")
    assert june.first == day_of("2023-06-01") and not june.exact
    assert asked_days("Where was she in June?").month == 6
    year = asked_days("What did he buy in 2022?")
    assert (year.first, year.last) == (day_of("2022-01-01"), day_of("2022-12-31"))


@pytest.mark.parametrize("question", ["May I go?"[3:], "What may she like?", "Did they march?", ""])
def test_words_that_only_look_like_months_ask_for_no_day(question: str) -> None:
    assert asked_days(question) == NO_DAYS


def test_relative_words_mean_something_only_with_a_clock() -> None:
    now_us = 1_700_000_000_000_000  # 14 November 2023

    assert asked_days("What did I say yesterday?", now=now_us).first == day_of("2023-11-13")
    two_weeks = asked_days("What was two weeks ago?", now=now_us)
    assert two_weeks.first <= day_of("2023-10-31") <= two_weeks.last
    assert asked_days("What did I say yesterday?", now=17) == NO_DAYS
