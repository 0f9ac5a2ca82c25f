"""First questions of somebody new: answered as plain Python counts, or refused with the real cause."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from artelier.errors import OfflineCannot
from tests.models.offline.driving import Workspace
from tests.models.offline.worlds import Row, World

NOTES = "# Policy\n\nRefunds are given by Maria within 14 days.\n\nThe doors open at nine.\n"


def _club() -> World:
    """Loans of books with pages, where the only number of all tables is no measure of lending."""
    chance = random.Random(5)
    books: list[Row] = [
        {"book": "Dune", "genre": "Space", "pages": 612},
        {"book": "Emma", "genre": "Classic", "pages": 474},
        {"book": "Ulysses", "genre": "Classic", "pages": 730},
        {"book": "Count Zero", "genre": "Space", "pages": 271},
        {"book": "Matilda", "genre": "Kids", "pages": 240},
    ]
    loans: list[Row] = []
    for _ in range(80):
        start = date(2024, 2, 10) + timedelta(days=chance.randrange(200))
        back = start + timedelta(days=20) if chance.random() < 0.8 else None
        book = chance.choices(books, [1, 5, 2, 9, 4])[0]["book"]
        member = chance.choices(["Ada", "Ben", "Cy", "Dee"], [1, 2, 3, 5])[0]
        loans.append({"member": member, "book": book, "borrowed": start, "returned": back})
    return World(tables={"books": books, "loans": loans}, files={"policy.md": NOTES})


CLUB = _club()
LOANS = CLUB["loans"]
GENRE_OF = {row["book"]: row["genre"] for row in CLUB["books"]}


@pytest.fixture(scope="module")
def club(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("newcomer") / "club"
    CLUB.write(root)
    return Workspace(root)


def _workspace(root: Path, **files: str) -> Workspace:
    for name, text in files.items():
        (root / f"{name}.csv").write_text(text, encoding="utf-8")
    return Workspace(root)


def _ranked(values: list[Any], *, most: bool) -> tuple[str, int]:
    counts = Counter(values).most_common()
    return counts[0] if most else counts[-1]


def _said(pair: tuple[str, int]) -> str:
    return f"**{pair[0]}** ({pair[1]})"


BOOKS = [row["book"] for row in LOANS]
GENRES = [GENRE_OF[book] for book in BOOKS]
MEMBERS = [row["member"] for row in LOANS]
BACK = [row for row in LOANS if row["returned"]]

RANKED = [
    ("Which book was borrowed most often?", _ranked(BOOKS, most=True)),
    ("Which book was borrowed most?", _ranked(BOOKS, most=True)),
    ("Which book was borrowed least?", _ranked(BOOKS, most=False)),
    ("Which genre was borrowed most?", _ranked(GENRES, most=True)),
    ("Which genre was borrowed least often?", _ranked(GENRES, most=False)),
    ("Which genre was returned the most?", _ranked([GENRE_OF[r["book"]] for r in BACK], most=True)),
    ("Which book was returned most?", _ranked([row["book"] for row in BACK], most=True)),
    ("Which member borrowed the most books?", _ranked(MEMBERS, most=True)),
    ("Who borrowed the most?", _ranked(MEMBERS, most=True)),
]


@pytest.mark.parametrize(("question", "expected"), RANKED, ids=[one for one, _ in RANKED])
def test_a_verb_that_is_no_amount_ranks_by_the_rows_that_record_it(
    club: Workspace, question: str, expected: tuple[str, int]
) -> None:
    assert _said(expected) in club.ask(question).text


REFUSED = [
    ("total pages of loans in 2024", "counts once or every time"),
    ("average pages of loans", "counts once or every time"),
    ("How many pages did Ada read?", "counts once or every time"),
    ("Which member has the most pages?", "every row of `loans`|counts once or every time"),
    ("Which genre was read most?", "does not say of what"),
    ("Share of loans by genre", '"share"'),
    ("What fraction of loans is by Ada?", '"fraction"'),
    ("What is the average genre?", "`genre` holds text, not numbers, so it has no average"),
]


@pytest.mark.parametrize(("question", "reason"), REFUSED, ids=[one for one, _ in REFUSED])
def test_what_is_not_certain_is_refused_with_its_cause(club: Workspace, question: str, reason: str) -> None:
    with pytest.raises(OfflineCannot) as refusal:
        club.ask(question)
    assert any(one in str(refusal.value) for one in reason.split("|"))


def test_rows_without_a_value_are_not_called_used(tmp_path: Path) -> None:
    shop = _workspace(tmp_path, sales="city,revenue\nA,1\nA,\nB,4\n")
    text = shop.ask("total revenue").text
    assert "2 of 3 rows were used: 1 has no `revenue`." in text and "skipped" not in text


SIGHTINGS = "day,species,count\n2024-01-01,owl,3\n2024-01-02,owl,4\n2024-01-03,hawk,5\n"


def test_a_column_called_count_is_added_up_only_if_that_is_said(tmp_path: Path) -> None:
    birds = _workspace(tmp_path, sightings=SIGHTINGS)
    assert "**12**" in birds.ask("What is the total count?").text
    assert "**7**" in birds.ask("total count of owls").text
    assert "**owl** (7)" in birds.ask("Which species has the highest total count?").text
    assert "**3**" in birds.ask("How many sightings?").text
    for unclear in ("count by species", "Which species has the highest count?"):
        with pytest.raises(OfflineCannot, match="may be the number of rows"):
            birds.ask(unclear)


def test_a_period_without_rows_gives_no_change(club: Workspace) -> None:
    text = club.ask("Compare loans between 2022 and 2024").text
    assert "There is no figure for the number of rows in `loans` in 2022" in text
    assert "rose" not in text and "percent" not in text.split("## How")[0]


def test_a_period_that_the_data_covers_in_part_is_named(club: Workspace) -> None:
    first, last = (pick(row["borrowed"] for row in LOANS) for pick in (min, max))
    text = club.ask("Compare loans between Q1 2024 and Q2 2024").text
    assert f"The data runs from {first} to {last}, so it covers Q1 2024 only in part." in text


def test_groups_that_differ_only_in_case_or_spaces_are_mentioned(tmp_path: Path) -> None:
    rows = "day,Region,amount\n2024-01-01,North,5\n2024-01-02,north,3\n2024-01-03,North ,1\n"
    shop = _workspace(tmp_path, sales=rows)
    text = shop.ask("total amount by Region").text
    assert "differ only in case or spaces" in text and "'north', 'North '" in text
    assert "differ only in case or spaces" in shop.ask("Which Region has the highest total amount?").text


HERE = ["What is in here?", "What tables are there?", "What data is there?", "Describe the data"]


@pytest.mark.parametrize("question", HERE)
def test_what_is_here_lists_tables_and_texts(club: Workspace, question: str) -> None:
    text = club.ask(question).text
    assert f"`loans` has {len(LOANS)} rows and 4 columns" in text and "`books` has 5 rows" in text
    assert "Text files: `policy.md`." in text and "| borrowed | dates |" in text


def test_the_columns_of_one_table_are_listed(club: Workspace) -> None:
    text = club.ask("Which columns does books have?").text
    assert "`book`, `genre` and `pages`" in text and "loans" not in text


def test_a_file_that_is_no_table_is_named_with_the_reason(tmp_path: Path) -> None:
    shop = _workspace(tmp_path, sales="city,revenue\nA,1\n", broken="")
    for question in ("What is in here?", "total revenue"):
        assert "Not read: `broken.csv`" in shop.ask(question).text
    with pytest.raises(OfflineCannot, match=r"Not read: `broken\.csv`"):
        shop.ask("total discount")


def test_a_percent_sign_in_the_name_of_a_column_may_be_said(tmp_path: Path) -> None:
    air = _workspace(tmp_path, air="day,humidity_%,wind\n2024-01-01,0,1\n2024-01-02,4,0\n")
    for question in ("How many rows have humidity_% equal to 0?", "number of rows with humidity_% = 0"):
        text = air.ask(question).text
        assert "**1**" in text and "`humidity_%`" in text


def test_what_no_table_knows_is_quoted_from_the_texts(club: Workspace) -> None:
    text = club.ask("Who gives refunds?").text
    assert "Refunds are given by Maria within 14 days." in text and "quoted word for word" in text
    with pytest.raises(OfflineCannot, match="not clear"):
        club.ask("Who feeds the zebra?")
