"""Every answerable goal is answered by the shipped tools alone: a competent model needs nothing else.

The goals and the rule by which an answer is right are data of somebody who had not read the product. Another
set of the same form is tried with `ARTELIER_GOALS=FOLDER`; its goals that have no script here are left out.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.missions.reports import MissionDetail
from tests.first_hour.analyst import Analyst, Call, Results, find, read, sql
from tests.offline import matcher

GOALS = Path(os.environ.get("ARTELIER_GOALS") or Path(__file__).parents[1] / "offline" / "goals")

NOW_THERE = "(leave_date IS NULL OR leave_date > DATE '2025-06-30')"
LATEST = (
    "(SELECT sku, location, on_hand FROM stock"
    " QUALIFY row_number() OVER (PARTITION BY sku, location ORDER BY counted_on DESC) = 1)"
)
ORDERS = "orders o LEFT JOIN customers c ON o.cust = c.customer_id"
DIFFERENCES = """
WITH plan AS (
  SELECT Department AS name, Jan + Feb + Mar + Apr + May + Jun AS planned FROM budget_2025_plan),
spent AS (
  SELECT lower(trim(department)) AS name, sum(amount_eur) AS spent FROM budget_2025_actual GROUP BY 1)
SELECT p.name, p.planned, round(s.spent, 2), round(s.spent - p.planned, 2) AS more,
  round(100 * (s.spent - p.planned) / p.planned, 2)
FROM plan p JOIN spent s ON lower(p.name) = s.name ORDER BY more DESC
"""


def rows(result: Any) -> list[list[Any]]:
    assert not result["truncated"]
    return result["rows"]


def listed(result: Any) -> str:
    return "\n".join("- " + ", ".join(map(str, row)) for row in rows(result))


def lines(result: Any) -> list[str]:
    assert not result["truncated"]
    return [hit["text"] for hit in result["hits"]]


def sentence(text: str, start: str) -> str:
    found = re.search(re.escape(start) + r"[^.]*\.", re.sub(r"\s+", " ", text))
    assert found is not None
    return found[0]


def fives(result: Any) -> str:
    urls = [line.split('"')[1].split()[1].partition("?")[0] for line in lines(result)]
    top = max(set(urls), key=urls.count)
    return f"{len(urls)} requests ended in a server error; most of them were for {top} (access log)."


def seconds(results: Results) -> dict[str, Any]:
    """The longest of the outages, as a sum for the calculator."""
    clocks = [re.findall(r" (\d\d):(\d\d):(\d\d)", line)[0] for line in lines(results[0])]
    stamps = [f"({int(h)}*3600 + {int(m)}*60 + {int(s)})" for h, m, s in clocks]
    spans = [f"{end} - {start}" for start, end in zip(stamps[::2], stamps[1::2], strict=True)]
    return {"expression": f"max({', '.join(spans)})"}


def outage(results: Results) -> str:
    said = lines(results[0])
    spans: list[tuple[int, str]] = []
    for lost, back in zip(said[::2], said[1::2], strict=True):
        assert "lost" in lost and "restored" in back
        (a, b), (c, d), (e, f) = zip(
            *(re.findall(r" (\d\d):(\d\d):(\d\d)", one)[0] for one in (lost, back)), strict=True
        )
        spans.append(
            (int(b) * 3600 + int(d) * 60 + int(f) - int(a) * 3600 - int(c) * 60 - int(e), lost[11:16])
        )
    longest, start = max(spans)
    assert float(results[1]["value"]) == longest
    return f"The longest database outage began at {start} and lasted {longest} seconds (app log)."


def launch(results: Results) -> str:
    said = " ".join(lines(results[0]))
    last, first = (
        re.search(form, said) for form in (r"new launch date is (\d+ \w+ \d+)", r"launch on (\d+ \w+ \d+)")
    )
    assert last is not None and first is not None
    return f"The launch is on {last[1]}; at first {first[1]} was planned (meeting notes)."


def open_items(results: Results) -> str:
    state: dict[str, tuple[str, str]] = {}
    for hit in sorted(results[0]["hits"], key=lambda one: (one["path"], one["line"])):
        mark, number, who = re.findall(r"^- \[(.)\] (A\d+) (\w+):", hit["text"])[0]
        state[number] = (mark, who)
    return "Still open:\n" + "\n".join(f"- {one}: {who}" for one, (mark, who) in state.items() if mark == " ")


def disagreements(results: Results) -> str:
    notes = " ".join(one["text"] for one in results[:2])
    price = re.search(r"Brenner.*?annual value is now ([\d.,]+) euros", notes, re.S)
    day = re.search(r"Kessler.*?renews on ([\d.]+\d)", notes, re.S)
    notice = re.search(r"Vogt.*?(\d+) days", notes, re.S)
    assert price is not None and day is not None and notice is not None
    agreed = float(price[1].replace(".", "").replace(",", "."))
    table = {name: (value, renewal, days) for name, value, renewal, days in rows(results[2])}
    return (
        f"- Brenner Logistik: the table has {table['Brenner Logistik'][0]} euros, the notes {agreed:,.2f}.\n"
        f"- Kessler: the table has {table['Kessler'][1]}, the notes {day[1]}.\n"
        f"- Vogt Reinigung: the table has {table['Vogt Reinigung'][2]} days, the notes {notice[1]}.\n"
    )


def worst(results: Results) -> str:
    found = rows(results[0])
    relative = max(found, key=lambda row: row[4])
    return (
        f"Measured in euros it is {found[0][0]}, {found[0][3]} more than planned;"
        f" measured in percent it is {relative[0]}, {relative[4]} percent."
    )


SCRIPTS: dict[str, tuple[list[Call], Callable[[Results], str]]] = {
    "tickets-1": (
        [sql("SELECT count(*) FROM tickets WHERE date_trunc('month', opened_at) = DATE '2025-03-01'")],
        lambda r: f"{rows(r[0])[0][0]} tickets were opened in March 2025 (tickets.csv).",
    ),
    "tickets-2": (
        [
            sql(
                "SELECT product, count(*) FILTER (quarter(opened_at) = 1) AS q1,"
                " count(*) FILTER (quarter(opened_at) = 2) AS q2, q2 - q1 FROM tickets"
                " WHERE year(opened_at) = 2025 GROUP BY 1 ORDER BY 1"
            )
        ],
        lambda r: f"Product, first quarter, second quarter, change:\n{listed(r[0])}",
    ),
    "tickets-3": (
        [
            read("sla.md"),
            sql(
                "SELECT ticket_id FROM tickets WHERE priority = 'P1'"
                " AND date_diff('day', opened_at::DATE, closed_at::DATE) > 2 ORDER BY 1"
            ),
        ],
        lambda r: f"These took longer than the service level (sla.md) allows:\n{listed(r[1])}",
    ),
    "people-1": (
        [
            read("about.txt"),
            sql(
                "SELECT round(avg(annual_salary_eur), 2), count(*) - count(annual_salary_eur) FROM employees"
                f" WHERE department = 'Engineering' AND {NOW_THERE}"
            ),
        ],
        lambda r: "The average is {} euros; {} have no salary on file.".format(*rows(r[1])[0]),
    ),
    "people-2": (
        [
            read("about.txt"),
            sql(
                "SELECT e.name FROM employees e JOIN employees b ON e.manager_id = b.id"
                f" WHERE b.name = 'Siân Ó Briain' AND {NOW_THERE.replace('leave', 'e.leave')} ORDER BY 1"
            ),
        ],
        lambda r: f"They report to Siân Ó Briain now:\n{listed(r[1])}",
    ),
    "people-3": (
        [read("about.txt"), sql(f"SELECT count(*) FROM employees WHERE {NOW_THERE}")],
        lambda r: (
            f"{rows(r[1])[0][0]} people are currently employed, without those who left (employees.json)."
        ),
    ),
    "logs-1": ([find(r'" 5\d\d \d+ \d+$', regex=True)], lambda r: fives(r[0])),
    "logs-2": ([find("] database connection "), ("calculator", seconds)], outage),
    "logs-3": (
        [find("|queue_depth=", path="crash-dump.txt")],
        lambda r: "The queue depth was {}, and it worked on {} (crash-dump.txt).".format(
            *re.findall(r"\|queue_depth=(\d+)\|current_shard=([\w-]+)\|", lines(r[0])[0])[0]
        ),
    ),
    "meetings-1": (
        [find("Halden was chosen"), ("read_file", lambda r: {"path": r[0]["hits"][0]["path"]})],
        lambda r: f"“{sentence(r[1]['text'], 'Halden was chosen')}” ({r[1]['path']})",
    ),
    "meetings-2": ([find("launch")], launch),
    "meetings-3": ([find(r"^- \[.\] A\d+ \w+:", regex=True)], open_items),
    "meters-1": (
        [
            sql(
                "SELECT round(sum(kwh), 1), count(*) FILTER (kwh IS NULL) FROM readings"
                " WHERE site = 'Harbour' AND date_trunc('month', day) = DATE '2025-04-01'"
            )
        ],
        lambda r: "Harbour used {} kWh in April 2025; {} readings are missing.".format(*rows(r[0])[0]),
    ),
    "meters-2": (
        [
            sql(
                "SELECT site, round(avg(kwh) FILTER (month(day) = 4), 2) AS april,"
                " round(avg(kwh) FILTER (month(day) = 5), 2) AS may FROM readings GROUP BY 1"
                " ORDER BY may - april DESC LIMIT 2"
            )
        ],
        lambda r: f"Site, average of April and of May in kWh:\n{listed(r[0])}",
    ),
    "meters-3": (
        [
            read("events-readme.md"),
            sql(
                "SELECT meter, count(DISTINCT event_id) AS n, sum(n) OVER () FROM events WHERE"
                " type = 'tamper_alarm' AND date_trunc('month', ts) = DATE '2025-05-01'"
                " GROUP BY 1 ORDER BY n DESC"
            ),
        ],
        lambda r: "There were {2} tamper alarms; {0} sent most, {1}.".format(*rows(r[1])[0]),
    ),
    "budget-1": (
        [
            sql(DIFFERENCES),
            sql("SELECT sum(Jan + Feb + Mar + Apr + May + Jun) FROM budget_2025_plan"),
            sql("SELECT round(sum(amount_eur), 2) FROM budget_2025_actual"),
        ],
        lambda r: (
            f"Planned {rows(r[1])[0][0]}, spent {rows(r[2])[0][0]}. More than planned:\n"
            + "\n".join(f"- {row[0]}: {row[3]}" for row in rows(r[0]) if row[3] > 0)
        ),
    ),
    "budget-2": ([sql(DIFFERENCES)], worst),
    "shop-1": (
        [
            sql(
                f"SELECT c.country, round(sum(qty * unit_price), 2) AS v FROM {ORDERS}"
                " WHERE status = 'shipped' AND c.country IS NOT NULL GROUP BY 1 ORDER BY v DESC LIMIT 3"
            )
        ],
        lambda r: f"With shipped orders:\n{listed(r[0])}",
    ),
    "shop-2": (
        [
            sql(
                "SELECT sum(qty), round(sum(qty * unit_price), 2) FROM orders"
                " WHERE status = 'shipped' AND lower(item) = 'umbrella'"
            ),
            sql(
                f"SELECT c.country FROM {ORDERS} WHERE status = 'shipped' AND lower(item) = 'umbrella'"
                " AND c.country IS NOT NULL GROUP BY 1 ORDER BY sum(qty) DESC LIMIT 1"
            ),
        ],
        lambda r: (
            "We shipped {} umbrellas for {}. ".format(*rows(r[0])[0]) + f"Most went to {rows(r[1])[0][0]}."
        ),
    ),
    "shop-3": (
        [
            sql(
                "SELECT round(sum(qty * unit_price), 2) FROM orders WHERE status = 'shipped'"
                " AND ordered_on BETWEEN '2025-04-01' AND '2025-06-30'"
            )
        ],
        lambda r: f"{rows(r[0])[0][0]}, taken as shipped orders only (orders.csv).",
    ),
    "stock-1": (
        [
            find("counted more than once"),
            sql(f"SELECT on_hand FROM {LATEST} WHERE sku = 'SKU-1044' AND location = 'North'"),
        ],
        lambda r: f"“{lines(r[0])[0]}” So there are {rows(r[1])[0][0]} pieces in North.",
    ),
    "stock-2": (
        [
            read("stocktake-rules.md"),
            sql(
                "SELECT DISTINCT sku FROM (SELECT sku, location FROM stock WHERE on_hand IS NOT NULL"
                " GROUP BY ALL HAVING count(DISTINCT on_hand) > 1) ORDER BY 1"
            ),
        ],
        lambda r: f"Conflicting counts:\n{listed(r[1])}",
    ),
    "stock-3": (
        [
            read("stocktake-rules.md"),
            sql(f"SELECT location, sum(on_hand) FROM {LATEST} GROUP BY 1 ORDER BY 1"),
            sql(f"SELECT count(*) FROM {LATEST} WHERE on_hand IS NULL"),
        ],
        lambda r: f"Pieces by location:\n{listed(r[1])}\n\n{rows(r[2])[0][0]} shelves could not be counted.",
    ),
    "contracts-1": (
        [sql("SELECT round(sum(annual_value_eur), 2) FROM contracts WHERE category = 'IT'")],
        lambda r: f"Our IT contracts cost {rows(r[0])[0][0]} euros a year (contracts.csv).",
    ),
    "contracts-2": (
        [
            read("notes-april.md"),
            read("notes-may.md"),
            sql("SELECT supplier, annual_value_eur, renewal, notice_days FROM contracts"),
        ],
        disagreements,
    ),
}


def _goals() -> list[dict[str, Any]]:
    file = GOALS / "goals.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


ANSWERABLE = [goal for goal in _goals() if goal["kind"] != "cannot"]


def _rule() -> tuple[Callable[[str, Any], bool], Callable[[str, Any], bool]]:
    """The data's own rule, if it stands beside it."""
    file = GOALS / "check.py"
    spec = importlib.util.spec_from_file_location("check", file) if file.exists() else None
    if spec is None or spec.loader is None:
        return matcher.holds, matcher.forbids
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ok, module.bad


@pytest.mark.parametrize("goal", ANSWERABLE, ids=[goal["id"] for goal in ANSWERABLE])
def test_the_shipped_tools_are_enough_for_the_right_answer(goal: dict[str, Any], tmp_path: Path) -> None:
    if goal["id"] not in SCRIPTS:
        pytest.skip("nobody has written down how it is looked up")
    analyst = Analyst(goal["question"], *SCRIPTS[goal["id"]])

    async def scenario() -> MissionDetail:
        with Kernel.open(tmp_path / "s.db", models={"m": analyst.model}, environ={}) as kernel:
            desk = kernel.for_tenant()
            folder = str(GOALS / goal["folder"])
            await desk.plan(goal["question"], mission_id="m1", model="m", workspace=folder, auto_launch=True)
            return await desk.mission("m1")

    mission = asyncio.run(scenario())

    holds, forbids = _rule()
    assert mission["status"] == "completed", mission["message"]
    text = mission["text"]
    assert [item for item in goal["answer"] if not holds(text, item)] == [], text
    assert [item for item in goal["must_not"] if forbids(text, item)] == [], text
    assert (
        len(analyst.model.requests) == len(SCRIPTS[goal["id"]][0]) + 5
    )  # plan, tables, decide, content, verdict


def test_every_answerable_goal_has_a_script() -> None:
    shipped = [goal["id"] for goal in ANSWERABLE if "ARTELIER_GOALS" not in os.environ]

    assert set(shipped) <= set(SCRIPTS)
