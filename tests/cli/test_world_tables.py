"""`world metrics`, `plot` and `collect` from the command line."""

from __future__ import annotations

import csv
import importlib.util
from xml.etree import ElementTree

import duckdb
import pytest

from artelier.cli import exit_codes
from tests.cli.conftest import Shell

RULES = """
def give(facts):
    if facts["agent_id"] == "ana":
        return {"action": "transfer", "to": "bob", "amount": 3}
    return {"action": "transfer", "to": "ana", "amount": 1000}

POLICIES = {"give": give}
"""

WORLD = """
[world]
seed = 5

[world.collect]
rich = "balance > 101"

[[agents]]
id = "ana"
policy = "give"

[[agents]]
id = "bob"
policy = "give"
"""


@pytest.fixture
def village(shell: Shell) -> Shell:
    """A world after three ticks: ana has 91 scrip, bob 109."""
    rules = shell.write("rules.py", RULES)
    file = shell.write("village.toml", WORLD)
    assert shell("world", "new", "village", "--file", str(file)).code == exit_codes.COMPLETED
    ran = shell("world", "run", "village", "--ticks", "3", "--policies", str(rules))
    assert ran.code == exit_codes.COMPLETED
    return shell


def test_metrics_are_told_by_tick_and_in_sum(village: Shell) -> None:
    found = village("world", "metrics", "village", "--json").json
    shown = village("world", "metrics", "village")
    late = village("world", "metrics", "village", "--from", "2", "--to", "2", "--json").json

    assert (found["world"], found["from_tick"], found["to_tick"]) == ("village", 1, 3)
    assert [one["balances"] for one in found["ticks"]] == [
        {"ana": 100 - 3 * tick, "bob": 100 + 3 * tick} for tick in (1, 2, 3)
    ]
    assert found["ticks"][2]["gini"] == pytest.approx(0.045)
    assert found["ticks"][0]["actions"] == {"transfer": {"policy": 2}}
    assert late["ticks"] == found["ticks"][1:2]
    lines = shown.out.splitlines()
    assert lines[0].split()[:4] == ["tick", "agents", "gini", "median"]
    assert lines[3].split()[:6] == ["3", "2", "0.045", "100", "109", "200"]
    assert "transfer 6" in shown.out and "insufficient_funds 3" in shown.out


def test_a_plot_is_a_picture(village: Shell) -> None:
    drawn = village("world", "plot", "village", "--out", "v.svg")
    told = village("world", "plot", "village", "--out", "w.svg", "--from", "2", "--json")

    assert drawn.code == exit_codes.COMPLETED and "v.svg: village, ticks 1 to 3" in drawn.out
    assert told.json == {"world": "village", "file": "w.svg", "from_tick": 2, "to_tick": 3}
    root = ElementTree.parse(village.folder / "v.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="it is installed here")
def test_a_png_without_matplotlib_says_what_to_do(village: Shell) -> None:
    refused = village("world", "plot", "village", "--out", "v.png", "--json")

    assert refused.code == exit_codes.USAGE and "matplotlib" in refused.error["hint"]
    assert not (village.folder / "v.png").exists()


def test_columns_of_the_world_and_of_the_command_are_collected(village: Shell) -> None:
    done = village("world", "collect", "village", "--set", "half = balance / 2", "--out", "v.csv", "--json")

    assert done.json == {
        "world": "village",
        "file": "v.csv",
        "rows": 6,
        "failed": {},
        "columns": ["tick", "agent_id", "rich", "half"],
    }
    with (village.folder / "v.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[:3] == [
        ["tick", "agent_id", "rich", "half"],
        ["1", "ana", "false", "48.5"],
        ["1", "bob", "true", "51.5"],
    ]


def test_a_column_of_the_command_replaces_that_of_the_world(village: Shell) -> None:
    ran = village("world", "collect", "village", "--set", "rich=balance", "--out", "v.parquet")

    assert "v.parquet: 6 rows of tick, agent_id, rich" in ran.out
    with duckdb.connect(":memory:") as db:
        found = db.read_parquet(str(village.folder / "v.parquet")).fetchall()
    assert found == [
        (1, "ana", 97),
        (1, "bob", 103),
        (2, "ana", 94),
        (2, "bob", 106),
        (3, "ana", 91),
        (3, "bob", 109),
    ]


def test_cells_without_a_value_are_told(village: Shell) -> None:
    ran = village("world", "collect", "village", "--set", "x=1 / (tick - 2)", "--out", "v.csv")

    assert ran.code == exit_codes.COMPLETED
    assert "x has no value in 2 rows: division by zero" in ran.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("metrics", "nowhere"), exit_codes.NOT_FOUND),
        (("metrics", "village", "--from", "9"), exit_codes.USAGE),
        (("metrics", "village", "--to", "4"), exit_codes.USAGE),
        (("plot", "nowhere", "--out", "x.svg"), exit_codes.NOT_FOUND),
        (("plot", "village", "--out", "x.gif"), exit_codes.USAGE),
        (("plot", "village", "--to", "-1", "--out", "x.svg"), exit_codes.USAGE),
        (("plot", "village", "--out", "no/x.svg"), exit_codes.FAILED),
        (("collect", "nowhere", "--out", "x.csv"), exit_codes.NOT_FOUND),
        (("collect", "village", "--out", "x.txt"), exit_codes.USAGE),
        (("collect", "village", "--out", "no/x.csv"), exit_codes.FAILED),
        (("collect", "village", "--out", "x.csv", "--set", "a"), exit_codes.USAGE),
        (("collect", "village", "--out", "x.csv", "--set", "=1"), exit_codes.USAGE),
        (("collect", "village", "--out", "x.csv", "--set", "a=1", "--set", "a=2"), exit_codes.USAGE),
        (("collect", "village", "--out", "x.csv", "--set", "a=open('x')"), exit_codes.USAGE),
        (("collect", "village", "--out", "x.csv", "--set", "a=wealth"), exit_codes.USAGE),
        (("collect", "village", "--out", "x.csv", "--set", "tick=1"), exit_codes.USAGE),
    ],
)
def test_what_cannot_be_is_said(village: Shell, words: tuple[str, ...], code: int) -> None:
    ran = village("world", *words, "--json")

    assert ran.code == code and ran.error["message"]
    assert not [path for path in village.folder.iterdir() if path.name.startswith(("x.", ".artelier-"))]
