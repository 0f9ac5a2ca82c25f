"""What steering says changes what is decided and how much is written; what is not listed is never chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier.missions.steering.document import Steering
from artelier.missions.steering.policy import bias
from tests.models.offline.driving import Workspace
from tests.models.offline.office import Office

SALES = Path(__file__).resolve().parents[3] / "examples" / "data" / "sales"
GOAL = "Which product sold best in May?"
ALL = ("describe_tables", "query_sql", "list_dir", "read_file", "search_text")


@pytest.fixture(scope="module")
def sales() -> Workspace:
    return Workspace(SALES)


def policy(x: float, y: float = 0.5) -> str:
    return bias(Steering.parse({"xy": {"x": x, "y": y}})).text


def test_exploring_looks_at_the_data_once_more_before_it_writes(sales: Workspace) -> None:
    focused = Office(sales, policy(0.0)).task(GOAL)
    exploring = Office(sales, policy(0.75)).task(GOAL)

    assert focused.passed and exploring.passed
    assert exploring.actions == [*focused.actions[:-1], "query_sql", "create_artifact"]
    assert "Total revenue by region" in exploring.text
    assert "Total revenue by region" not in focused.text


def test_exploring_from_all_sides_looks_into_the_texts_too(sales: Workspace) -> None:
    done = Office(sales, policy(1.0)).task("How many sales have a missing channel?", tools=ALL, iterations=8)

    assert done.passed
    assert "search_text" in done.actions
    assert "The channel is empty where a shop forgot to say it." in done.text


def test_looks_end_with_the_iterations(sales: Workspace) -> None:
    done = Office(sales, policy(1.0, 1.0)).task(GOAL, tools=ALL, iterations=4)

    assert done.passed
    assert done.actions[-1] == "create_artifact" and len(done.actions) == 4


def test_terse_is_shorter_and_thorough_longer(sales: Workspace) -> None:
    words = [len(Office(sales, policy(0.5, y)).task(GOAL).text.split()) for y in (0.0, 0.25, 0.5, 1.0)]

    assert words == sorted(words)
    assert words[0] < words[2] < words[3]


def test_a_terse_answer_keeps_its_figure_and_its_source(sales: Workspace) -> None:
    text = Office(sales, policy(0.5, 0.0)).task(GOAL).text

    assert "**Lantern** (3679.87)" in text and "`sales.csv`" in text


def test_tables_are_found_by_a_query_where_their_description_is_off(sales: Workspace) -> None:
    done = Office(sales).task("Which three regions sold most?", tools=("query_sql",))

    assert done.passed
    assert done.actions == ["query_sql", "query_sql", "create_artifact"]
    assert "information_schema.columns" in str((done.decisions[0].input or {})["sql"])
    assert "**North** (42983.02)" in done.text


@pytest.mark.parametrize("tools", [(), ("describe_tables",), ("list_dir", "read_file")])
def test_without_the_tool_it_needs_it_says_so_and_makes_nothing_up(
    sales: Workspace, tools: tuple[str, ...]
) -> None:
    done = Office(sales).task("Which three regions sold most?", tools=tools)

    assert not done.passed and not done.outputs
    assert set(done.actions) <= {"analyze", "complete_task", *tools}
    assert "query_sql" in done.decisions[-1].reason


def test_decisions_never_repeat_when_nothing_can_be_done(sales: Workspace) -> None:
    """One claim says what is missing, and blocks the task."""
    done = Office(sales).task("Which three regions sold most?", tools=(), iterations=8)

    assert done.actions == ["complete_task"]
    assert (done.decisions[0].target or "").startswith("data that answers: ")


def test_a_note_that_asks_something_is_answered_too(sales: Workspace) -> None:
    done = Office(sales).task(
        "Which three regions sold most?", notes=["How many sales are there?"], iterations=6
    )

    assert done.passed
    assert "**North** (42983.02)" in done.text and "**620**" in done.text


def test_a_note_that_asks_nothing_changes_nothing(sales: Workspace) -> None:
    plain = Office(sales).task("Which three regions sold most?")

    noted = Office(sales).task("Which three regions sold most?", notes=["Take your time, please."])

    assert noted.text == plain.text
