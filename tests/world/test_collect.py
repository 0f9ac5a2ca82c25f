"""Tables of results: exact for every tick and agent, harmless in spreadsheets, complete or not there."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import InvalidArtifact, InvalidRequest, NotFound, StoreUnavailable
from artelier.world import World
from artelier.world.figures.metrics import collect
from artelier.world.figures.tables import FORMULA, cell, columns_of, write_rows
from artelier.world.mind_artifacts.condition import read_condition, read_valued
from artelier.world.queries.reports import agents
from tests.world.flows import auto, worker
from tests.world.places import add, world_at
from tests.world.speaking import Speaking
from tests.world.town import kernel_at, town

RULE = {"policy": "rule"}


async def table(world: World, columns: dict[str, str] | None = None, **more: Any) -> list[Any]:
    chosen = columns_of(columns or {})
    return [dict(zip(chosen.names, row, strict=True)) async for row in collect(world, chosen, **more)]


async def live(world: World) -> list[dict[str, Any]]:
    """What the view says of each agent now, in the form of a table's rows."""
    tick = await world.tick_now()
    shown = {one.id: one for one in await agents(world)}
    return [
        {
            "tick": tick,
            "agent_id": id,
            "balance": one.balance,
            "owns": one.owns,
            "current_state": one.state,
            "ticks_in_state": one.ticks_in_state,
            "failure_count": one.failures,
            "last_action_type": one.last_action,
            "last_action_success": one.last_ok,
        }
        for id in await world.agents()
        for one in (shown[id],)
    ]


# Rows


def test_rows_are_what_the_world_was_after_each_tick(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            seen: list[dict[str, Any]] = []
            for tick in range(1, 12):
                await world.tick()
                if tick == 3:  # the host's deeds belong to the tick before
                    await world.leave("cyd")
                    await world.as_principal("bob").artifacts.transfer("report", to="ana")
                if tick == 5:
                    await world.join("cyd", scrip=9)
                seen += await live(world)

            found = await table(world)

            assert found == seen and len(found) == 42
            assert len({one["owns"] for one in found}) > 2
            assert {True, False} <= {one["last_action_success"] for one in found}
            assert await table(world, from_tick=4, to_tick=4) == [one for one in seen if one["tick"] == 4]
            await world.close()

    asyncio.run(scenario())


def test_states_of_workflows_are_those_of_each_tick(tmp_path: Path) -> None:
    async def scenario() -> None:
        speaking = Speaking({"ana": [{"action": "noop"}, {"action": "fly"}, {"action": "noop"}]})
        async with world_at(tmp_path, models=speaking.model, config={"model": "m"}) as world:
            await worker(world, auto("sow", "reap"), auto("reap", "sell"), auto("sell"))
            seen: list[dict[str, Any]] = []
            for _ in range(5):
                await world.tick()
                seen += await live(world)

            assert await table(world) == seen
            assert {"reap", "sell"} <= {one["current_state"] for one in seen}
            assert max(one["ticks_in_state"] for one in seen) > 1
            assert 1 in {one["failure_count"] for one in seen}

    asyncio.run(scenario())


def test_columns_are_what_expressions_are_worth(tmp_path: Path) -> None:
    def rule(facts: dict[str, Any]) -> Any:
        if facts["agent_id"] == "ana":
            return {"action": "transfer", "to": "bob", "amount": 10}
        return {"action": "transfer", "to": "ana", "amount": 999}

    async def scenario() -> None:
        async with world_at(tmp_path, policies={"rule": rule}, agents={"ana": RULE, "bob": RULE}) as world:
            await world.run(ticks=2)
            columns = {
                "rich": "balance > 100",
                "half": "balance / 2",
                "doing": "last_action.type",
                "who": "agent_id",
                "late": "tick == 2 and failure_count == 2",
                "state": "current_state",
                "worse": "balance / (tick - 1)",
            }
            chosen = columns_of(columns)

            rows = [row async for row in collect(world, chosen)]

            assert chosen.names == ("tick", "agent_id", *columns)
            assert rows == [
                (1, "ana", False, 45.0, "transfer", "ana", False, None, None),
                (1, "bob", True, 55.0, "transfer", "bob", False, None, None),
                (2, "ana", False, 40.0, "transfer", "ana", False, None, 80.0),
                (2, "bob", True, 60.0, "transfer", "bob", True, None, 120.0),
            ]
            assert chosen.failed == {"worse": (2, "division by zero")}

    asyncio.run(scenario())


def test_a_fork_has_the_rows_of_its_parent(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=5)
            fork = await world.fork(at=3)

            assert await table(fork) == await table(world, to_tick=3)
            await world.close()
            await fork.close()

    asyncio.run(scenario())


def test_ticks_that_have_not_passed_have_no_rows(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await add(world, ana={})
            assert await table(world) == []
            assert [one["balance"] for one in await table(world, from_tick=0)] == [100]
            with pytest.raises(InvalidRequest):
                await table(world, to_tick=1)
            with pytest.raises(NotFound):
                await table(World.open(world.host, "nowhere"))

    asyncio.run(scenario())


# Expressions


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("balance", 20),
        ("balance * 2 + 1", 41),
        ("balance / 8", 2.5),
        ("-balance", -20),
        ("name", "ana"),
        ("flag", True),
        ("flag and balance > 30", False),
        ("null", None),
        ("nothing", None),
        ("nothing + 1", None),
        ("'text'", "text"),
        ("state == null", True),
    ],
)
def test_an_expression_has_a_value(text: str, worth: object) -> None:
    facts = {"balance": 20, "name": "ana", "flag": True, "state": None}

    found = read_valued(text).value(facts)

    assert (found.value, found.error) == (worth, "") and type(found.value) is type(worth)
    assert bool(worth) is read_condition(text).check(facts).holds


@pytest.mark.parametrize("text", ["name + 1", "balance / 0", "[1, 2]", "deep", "state + 1"])
def test_what_has_no_single_value_says_why(text: str) -> None:
    found = read_valued(text).value({"name": "a", "balance": 1, "deep": {"a": 1}, "state": None})

    assert found.value is None and found.error


def test_a_value_can_do_no_more_than_a_condition() -> None:
    for text in ("f()", "a.b()", "[x for x in y]", "(lambda: 1)", "a := 1", "__import__('os')", ""):
        with pytest.raises(InvalidArtifact):
            read_valued(text)


@pytest.mark.parametrize(
    "columns",
    [
        {"x": "balanse > 1"},
        {"x": "f()"},
        {"x": "last_action.result"},
        {"tick": "balance"},
        {"Agent_ID": "balance"},
        {"": "balance"},
        {"a\nb": "balance"},
        {"x" * 101: "balance"},
        {"a": "balance", "A": "owns"},
        {"x": 1},
        {f"c{n}": "balance" for n in range(201)},
    ],
)
def test_columns_that_cannot_be_are_refused(columns: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        columns_of(columns)

    assert refused.value.expected


# Files


@given(st.text(min_size=1))
def test_no_cell_begins_as_a_formula(text: str) -> None:
    for given_ in (text, *(sign + text for sign in FORMULA)):
        shown = cell(given_)
        assert isinstance(shown, str) and shown.endswith(given_)
        assert not shown.startswith(FORMULA) or shown[1:].replace(".", "").isdecimal()


def test_numbers_stay_numbers() -> None:
    assert [cell(one) for one in (-5, -2.5, 0, "-5", "+1.5", None, True)] == [
        -5,
        -2.5,
        0,
        "-5",
        "+1.5",
        "",
        "true",
    ]
    assert [cell(one) for one in ("-5+cmd", "=1", "@x", "-", "\t1")] == [
        "'-5+cmd",
        "'=1",
        "'@x",
        "'-",
        "'\t1",
    ]


HOSTILE = [
    (1, "=cmd|' /C calc'!A0", -5, 'a "quoted", text', None, True, 1),
    (2, "+1", 7, "line\nbreak é 漢", None, None, 2.5),
    (3, "ann", None, "'", None, False, 2**70),
]
NAMES = ["n", "=who", 'a "b"', "said", "nothing", "flag", "mixed"]


async def _rows(*more: Any) -> AsyncIterator[tuple[Any, ...]]:
    for one in (*HOSTILE, *more):
        if isinstance(one, Exception):
            raise one
        yield one


def test_a_csv_holds_what_was_collected(tmp_path: Path) -> None:
    out = tmp_path / "facts.csv"

    assert asyncio.run(write_rows(out, NAMES, _rows())) == 3

    read = list(csv.reader(io.StringIO(out.read_bytes().decode())))
    assert read[0] == ["n", "'=who", 'a "b"', "said", "nothing", "flag", "mixed"]
    assert read[1] == ["1", "'=cmd|' /C calc'!A0", "-5", 'a "quoted", text', "", "true", "1"]
    assert read[2] == ["2", "+1", "7", "line\nbreak é 漢", "", "", "2.5"]
    assert [path.name for path in tmp_path.iterdir()] == ["facts.csv"]


def test_a_parquet_holds_what_was_collected_with_types(tmp_path: Path) -> None:
    out = tmp_path / "it's.parquet"

    assert asyncio.run(write_rows(out, NAMES, _rows())) == 3

    with duckdb.connect(":memory:") as db:
        read = db.read_parquet(str(out))
        assert read.columns == NAMES
        assert [str(kind) for kind in read.types] == [
            "BIGINT",
            "VARCHAR",
            "BIGINT",
            "VARCHAR",
            "VARCHAR",
            "BOOLEAN",
            "DOUBLE",
        ]
        assert read.fetchall() == HOSTILE
    assert [path.name for path in tmp_path.iterdir()] == ["it's.parquet"]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_of_no_rows_has_its_columns(tmp_path: Path, name: str) -> None:
    async def none() -> AsyncIterator[tuple[Any, ...]]:
        for _ in ():
            yield ()

    assert asyncio.run(write_rows(tmp_path / name, ["a", "b"], none())) == 0

    with duckdb.connect(":memory:") as db:
        path = str(tmp_path / name)
        read = db.read_csv(path) if name.endswith("csv") else db.read_parquet(path)
        assert read.columns == ["a", "b"] and read.fetchall() == []


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_that_fails_leaves_the_old_one(tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    out.write_bytes(b"old")

    with pytest.raises(NotFound):
        asyncio.run(write_rows(out, NAMES, _rows(NotFound("gone"))))

    assert out.read_bytes() == b"old" and list(tmp_path.iterdir()) == [out]


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "d.csv").mkdir()
    for out in (tmp_path / "no" / "t.csv", tmp_path / "d.csv"):
        with pytest.raises(StoreUnavailable):
            asyncio.run(write_rows(out, NAMES, _rows()))
    with pytest.raises(InvalidRequest):
        asyncio.run(write_rows(tmp_path / "t.xlsx", NAMES, _rows()))
    assert [path.name for path in tmp_path.iterdir()] == ["d.csv"]
