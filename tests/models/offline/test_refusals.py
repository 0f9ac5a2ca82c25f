"""What is ambiguous, unsupported or unknown is refused with a reason, never answered by a guess."""

from __future__ import annotations

import pytest

from artelier.errors import OfflineCannot
from tests.models.offline.conftest import Open

REFUSED = [
    # more than one measure, column, period or table may be meant
    ("shop", "Which customer placed the largest order?", "`quantity`, `amount`"),
    ("shop", "How many orders over 500?", "of which column: `quantity`, `amount`"),
    ("shop", "How many orders in Q2?", "2023, 2024"),
    ("shop", "How many orders were there in March?", "Name the year"),
    ("shop", "Which product is the best?", "by what"),
    ("shop", "How many products were sold?", "how many different products"),
    ("shop", "How many orders have no amount?", "missing or that it is 0"),
    ("shop", "How many orders from 2024-05-01?", "`on` or `since`"),
    ("shop", "Which customers ordered more than 5 units?", "single rows or a total"),
    ("weather", "Which station had the lowest reading?", "temperature_c"),
    ("weather", "What was the temperature at Pine Summit?", "differ in `temperature_c`"),
    ("weather", "temperature by station", "average"),
    ("weather", "What is the average rainfall per month?", "totals of each month"),
    ("library", "How many books were borrowed in Q3?", "how many different books"),
    ("staff", "salary by department", "`total`, `average`"),
    ("staff", "How many employees were there in 2019?", "hireDate"),
    ("staff", "Who is the best employee?", "by what"),
    ("flights", "How many passengers are there for Rome?", "`flights.origin`, `flights.destination`"),
    # counted from a today that the model does not have
    ("shop", "How many orders were there last month?", "no clock"),
    ("shop", "How many orders did we get recently?", "no clock"),
    ("tickets", "tickets opened this week", "no clock"),
    # what stands for personal data is in no file
    ("shop", "How many orders did <EMAIL_7Q2FKX> make?", "stands for personal data"),
    # not in the forms
    ("shop", "Why did orders fall?", '"why"'),
    ("shop", "Will the total amount grow next year?", "yes or a no"),
    ("staff", "Is the average salary higher in Oslo than in Lima?", "yes or a no"),
    ("shop", "What is the correlation between quantity and amount?", '"correlation"'),
    ("shop", "What percentage of orders were cancelled?", '"percentage"'),
    ("shop", "amount per quantity", "ratios"),
    ("shop", "Show a chart of amount by month", "draws nothing"),
    ("shop", "Write a poem about orders", '"poem"'),
    ("shop", "Delete all cancelled orders", '"delete"'),
    ("shop", "How many orders exceed the average amount?", '"exceed"'),
    ("shop", "How many customers did not order Widget?", '"not"'),
    ("shop", "Which customer has the second highest amount?", '"second"'),
    ("shop", "What is the difference in amount between Berlin and London?", '"difference"'),
    ("weather", "Forecast the temperature for May 2025", '"forecast"'),
    ("shop", "Tell me about orders", "what should be computed"),
    ("shop", "top 1000 customers by amount", "1 to 100"),
    ("shop", "How many orders with an amount over 100 or a quantity under 2?", '"or"'),
    ("shop", "Which customers sold the most?", "not what `customer_id` does"),
    ("meters", "Which team conceded the fewest goals?", '"conceded"'),
    # not in the data
    ("shop", "How many orders in Atlantis?", '"atlantis"'),
    ("shop", "How many orders were delivered?", '"delivered"'),
    ("shop", "What is the total discount?", '"discount"'),
    ("shop", "average status", "holds text"),
    ("library", "What does the policy say about parking?", "parking"),
    ("shop", "What do the notes say about refunds?", "no text file"),
]


@pytest.mark.parametrize(
    ("name", "question", "reason"), REFUSED, ids=[f"{one[0]}: {one[1]}" for one in REFUSED]
)
def test_refuses_with_a_reason(open_world: Open, name: str, question: str, reason: str) -> None:
    _, workspace = open_world(name)

    with pytest.raises(OfflineCannot) as caught:
        workspace.ask(question)

    assert reason in str(caught.value)


def test_one_refused_clause_refuses_the_whole_question(open_world: Open) -> None:
    _, workspace = open_world("shop")

    with pytest.raises(OfflineCannot, match="atlantis"):
        workspace.ask("How many orders were there in 2024, and how many in Atlantis?")


@pytest.mark.parametrize("tool", ["describe_tables", "query_sql"])
def test_names_the_tool_that_is_not_there(open_world: Open, tool: str) -> None:
    _, workspace = open_world("shop")

    with pytest.raises(OfflineCannot, match=tool):
        workspace.ask("How many orders are there?", without=[tool])


def test_text_questions_need_the_file_tools_only(open_world: Open) -> None:
    _, workspace = open_world("library")

    asked = workspace.ask("What does the policy say about fees?", without=["query_sql"])

    assert "reservation fee" in asked.text
    with pytest.raises(OfflineCannot, match="read_file"):
        workspace.ask("What does the policy say about fees?", without=["read_file"])
