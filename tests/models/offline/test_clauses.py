"""Questions of several parts: what the second part takes over from the first, and what it must not."""

from __future__ import annotations

import pytest

from artelier.errors import OfflineCannot
from artelier.models.offline.question import question_from
from tests.models.offline.conftest import Open
from tests.models.offline.oracle import bold, by, count, grid, shown, total
from tests.models.offline.worlds import World


def year(number: int):
    return lambda row: row["order_date"].year == number


def test_two_counts_share_their_noun(open_world: Open) -> None:
    world, workspace = open_world("shop")

    text = workspace.ask("How many orders were there in 2023 and how many in 2024?").text

    assert bold(text) == [str(count(world["orders"], year(number))) for number in (2023, 2024)]


def test_an_elliptic_sentence_goes_on_with_the_measure(open_world: Open) -> None:
    world, workspace = open_world("shop")

    text = workspace.ask("What was the total amount in 2023? And in 2024?").text

    assert bold(text) == [shown(total(world["orders"], "amount", year(n))) for n in (2023, 2024)]


def test_an_elliptic_group_may_come_from_a_joined_table(open_world: Open) -> None:
    world, workspace = open_world("shop")
    rows = world.joined("orders", "customers", "customer_id")

    text = workspace.ask("Total amount in 2024 by product. And by country?").text

    for group, number in (("product", 0), ("country", 1)):
        found = {key: float(cells[-1]) for key, cells in grid(text, number).items()}
        expected = {k: total(v, "amount", year(2024)) for k, v in by(rows, group).items()}
        assert found == pytest.approx({k: v for k, v in expected.items() if v})


def test_a_joined_part_keeps_the_condition_and_says_so(open_world: Open) -> None:
    world, workspace = open_world("shop")

    text = workspace.ask("How many orders were cancelled and what was their total amount?").text

    cancelled = [row for row in world["orders"] if row["status"] == "cancelled"]
    assert bold(text) == [str(len(cancelled)), shown(total(cancelled, "amount"))]
    assert "As in the part before: `status` is cancelled." in text


def test_a_new_sentence_starts_afresh(open_world: Open) -> None:
    world, workspace = open_world("shop")

    text = workspace.ask("How many orders were cancelled? What is the total amount?").text

    assert bold(text)[1] == shown(total(world["orders"], "amount"))


def test_a_change_takes_measure_group_and_year_from_the_ranking(open_world: Open) -> None:
    world, workspace = open_world("shop")

    text = workspace.ask(
        "Which two countries spent most in 2024, and what changed from Q2 to Q3? Make a report."
    ).text

    rows = world.joined("orders", "customers", "customer_id")
    table = grid(text, 2)
    for name, found in by(rows, "country").items():
        for at, months in enumerate(((4, 5, 6), (7, 8, 9))):
            expected = total(
                found, "amount", lambda r, m=months: year(2024)(r) and r["order_date"].month in m
            )
            if name in table:
                assert float(table[name][at]) == pytest.approx(expected)


def test_a_pronoun_for_the_first_answer_is_refused(open_world: Open) -> None:
    _, workspace = open_world("shop")

    with pytest.raises(OfflineCannot, match='"its" points at'):
        workspace.ask("Which city has the most customers, and what is its total amount?")


def test_a_total_over_named_values_is_also_shown_apart(open_world: Open) -> None:
    world, workspace = open_world("shop")

    text = workspace.ask("How many orders were there in 2023 and 2024 for Widget?").text

    per_year = {
        number: count(world["orders"], lambda r, n=number: year(n)(r) and r["product"] == "Widget")
        for number in (2023, 2024)
    }
    assert bold(text) == [str(sum(per_year.values()))]
    assert {key: int(cells[-1]) for key, cells in grid(text, 1).items()} == {
        str(key): value for key, value in per_year.items()
    }


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("How many orders? Write a short report.", ["How many orders"]),
        ("Please make a table of the total by city.", ["the total by city"]),
        ("Total by city, as a table.", ["Total by city"]),
        ("What is the total and what changed?", ["What is the total", "what changed"]),
        ("In 2023, which city had most?", ["In 2023, which city had most"]),
        ("How many in St. Louis? And in Rome?", ["How many in St. Louis", "in Rome"]),
        ("What was it between Q1 and Q2?", ["What was it between Q1 and Q2"]),
        ("Show the top 5 and give me the result as a report", ["the top 5"]),
        ('How many for "A. B; C?"', ['How many for "A. B; C?"']),
        ("According to the notes, how many are there?", ["According to the notes, how many are there"]),
        ("Can you tell me how many, please?", ["how many"]),
    ],
)
def test_a_question_falls_into_clauses(text: str, clauses: list[str]) -> None:
    assert [clause.text for clause in question_from(text).clauses] == clauses


def test_months_and_quarters_in_text_are_dates(open_world: Open, tmp_path) -> None:
    from tests.models.offline.driving import Workspace

    rows = [
        {"month": f"{y}-{m:02d}", "clinic": clinic, "visits": y + m * len(clinic)}
        for y in (2023, 2024)
        for m in range(1, 13)
        for clinic in ("Elm", "Hill")
    ]
    World({"visits": rows}).write(tmp_path)
    workspace = Workspace(tmp_path)

    march = sum(row["visits"] for row in rows if row["month"] == "2024-03")
    years = [sum(row["visits"] for row in rows if row["month"][:4] == y) for y in ("2023", "2024")]

    assert bold(workspace.ask("How many visits were there in March 2024?").text) == [str(march)]
    text = workspace.ask("How did visits change from 2023 to 2024?").text
    assert f"{years[0]} to {years[1]}" in text
    with pytest.raises(OfflineCannot, match="2023, 2024"):
        workspace.ask("How many visits in March?")
    with pytest.raises(OfflineCannot, match="month per row"):
        workspace.ask("visits per week")
