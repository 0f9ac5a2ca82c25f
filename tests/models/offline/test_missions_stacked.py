"""Several queries as one: told from its text alone, and answered as the queries for themselves."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from artelier.models.offline.missions.stacked import answers_in, stacked, statements_in
from tests.models.offline.driving import Workspace
from tests.models.offline.office import Office

SALES = Path(__file__).resolve().parents[3] / "examples" / "data" / "sales"
STATEMENTS = [
    'SELECT "region", sum("revenue") AS "total" FROM "sales" GROUP BY 1 ORDER BY 2 DESC, 1',
    'SELECT count(*) AS "rows", max("day") AS "a\nname" FROM "sales"',
    'SELECT "product" FROM "sales" WHERE "units" < 0',
    'SELECT "day", "units" FROM "sales" ORDER BY "day" DESC, "units", "revenue"',
]


def test_stacked_queries_are_answered_as_each_for_itself() -> None:
    office = Office(Workspace(SALES))
    alone = [office.call("query_sql", {"sql": sql, "max_rows": 200}) for sql in STATEMENTS]

    together = office.call("query_sql", {"sql": stacked(STATEMENTS), "max_rows": 10_000})

    assert answers_in(together, len(STATEMENTS)) == alone
    assert alone[3]["truncated"] and not alone[2]["rows"]


@given(st.lists(st.text(max_size=60), min_size=1, max_size=6))
def test_statements_come_back_whole_or_stay_one(statements: list[str]) -> None:
    sql = stacked(statements)

    found = statements_in(sql)

    assert found in (statements, [sql])


def test_statements_of_rules_come_back_whole() -> None:
    assert statements_in(stacked(STATEMENTS)) == STATEMENTS
    assert statements_in(STATEMENTS[0]) == [STATEMENTS[0]]


def test_a_foreign_query_with_such_marks_is_left_alone() -> None:
    foreign = "-- query 1\nSELECT 1\n-- query 2\nSELECT 2"

    assert statements_in(foreign) == [foreign]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_an_answer_of_another_shape_is_none(answer: object) -> None:
    assert answers_in(answer, 2) is None


def test_rows_of_another_length_are_left_out() -> None:
    answer = {"columns": ["query", "row", "1: a"], "rows": [[1, 1, 5], [1], "x", [2, 1, 6]]}

    assert answers_in(answer, 2) == [
        {"columns": ["a"], "types": [], "rows": [[5]], "row_count": 1, "truncated": False},
        {"columns": [], "types": [], "rows": [[]], "row_count": 1, "truncated": False},
    ]
