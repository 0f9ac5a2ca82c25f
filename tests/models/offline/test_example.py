"""The example workspace: its headline question is answered right, and nothing of it is in the source."""

from __future__ import annotations

import csv
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import artelier.models.offline
from tests.models.offline.driving import Workspace
from tests.models.offline.oracle import best, bold, by, count, grid, shown, total

ROOT = Path(__file__).resolve().parents[3] / "examples" / "data" / "sales"
SOURCE = Path(artelier.models.offline.__file__).parent
HEADLINE = "Which three regions sold most, and what changed from Q2 to Q3? Write a report."


@pytest.fixture(scope="module")
def sales() -> list[dict[str, Any]]:
    with (ROOT / "sales.csv").open(newline="") as file:
        return [
            {
                **row,
                "day": date.fromisoformat(row["day"]),
                "units": int(row["units"]),
                "revenue": float(row["revenue"]) if row["revenue"] else None,
            }
            for row in csv.DictReader(file)
        ]


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return Workspace(ROOT)


def quarter(number: int) -> Any:
    return lambda row: (row["day"].month + 2) // 3 == number


def test_the_headline_question_is_answered_right(workspace: Workspace, sales: list[dict[str, Any]]) -> None:
    sums = {name: total(rows, "revenue") for name, rows in by(sales, "region").items()}
    before, after = (total(sales, "revenue", quarter(number)) for number in (2, 3))

    text = workspace.ask(HEADLINE).text

    first, second, third, change = bold(text)
    assert [first, second, third] == best(sums, 3)
    assert all(f"**{name}** ({shown(sums[name])})" in text for name in best(sums, 3))
    assert change.startswith(f"fell by {before - after:.2f}")
    assert f"{shown(before)} to {shown(after)}" in text
    table = grid(text, 2)
    for name, rows in by(sales, "region").items():
        old, new = (total(rows, "revenue", quarter(number)) for number in (2, 3))
        figures = [float(cell) for cell in table[name]]
        assert figures == pytest.approx([old, new, new - old, 100 * (new - old) / old], abs=1e-4)


def test_the_headline_says_its_measure_and_what_was_skipped(
    workspace: Workspace, sales: list[dict[str, Any]]
) -> None:
    missing = count(sales, lambda row: row["revenue"] is None)

    text = workspace.ask(HEADLINE).text

    assert missing > 0
    assert f"{len(sales) - missing} of {len(sales)} rows were used: {missing} have no `revenue`." in text
    assert '"sold" is measured by `revenue`' in text
    assert "Ranked by the total `units` the order is the same." in text


def test_the_headline_shows_its_main_queries_in_a_thousand_tokens(workspace: Workspace) -> None:
    text = workspace.ask(HEADLINE, params={"max_output_tokens": 1_024}).text

    assert len(text) <= 4_096
    assert text.count("```sql") == 2
    assert "left out here for length" in text


def test_the_example_is_small_and_has_one_year_with_gaps(sales: list[dict[str, Any]]) -> None:
    assert 400 <= len(sales) <= 800
    assert len({row["day"].year for row in sales}) == 1
    assert sum(path.stat().st_size for path in ROOT.iterdir()) < 100_000


@pytest.mark.parametrize(
    "question",
    [
        "What is the total revenue by region and channel?",
        "Which manager's region sold the most units?",
        "What do the notes say about returns?",
        "Which columns have missing values?",
        "How did units change from the first half to the second half by product?",
    ],
)
def test_other_questions_on_the_example_are_answered(workspace: Workspace, question: str) -> None:
    assert "offline model" in workspace.ask(question).text


def test_nothing_of_the_example_is_in_the_source() -> None:
    with (ROOT / "sales.csv").open(newline="") as file:
        columns = next(csv.reader(file))
    with (ROOT / "regions.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    general = {"day", "units", "product", "manager", "target", "opened"}
    cells = {cell for row in rows[1:] for cell in row[:2]}
    words = {*columns, *rows[0], *cells, *(path.name for path in ROOT.iterdir())} - general
    source = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))

    found = [word for word in sorted(words) if re.search(rf"\b{re.escape(word)}\b", source, re.I)]

    assert found == []
    assert "three regions" not in source.lower()
