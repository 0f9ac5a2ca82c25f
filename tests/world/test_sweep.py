"""Sweeps: which runs there are, what a row says, what tables hold."""

from __future__ import annotations

import asyncio
import csv
from pathlib import Path
from typing import Any

import duckdb
import pytest

from artelier import Kernel
from artelier.errors import Conflict, InvalidConfig, InvalidRequest
from artelier.world import World
from artelier.world.figures.sweep import (
    FIGURES,
    PlannedRun,
    columns_of,
    folder_of,
    known_params,
    pass_world,
    plan,
    read_params,
    row_of,
    save_row,
    write_table,
)

Facts = dict[str, Any]

SPEC: dict[str, Any] = {
    "world": {"seed": 5, "mint": {"every": 4}},
    "settle": False,
    "agents": [
        {"id": "poor_{n}", "count": 2, "policy": "give", "scrip": 10},
        {"id": "rich", "policy": "sell", "scrip": 100},
    ],
    "artifacts": [{"id": "song", "kind": "document", "owner": "rich", "content": "la la"}],
}


def give(facts: Facts) -> Any:
    """Buys what is offered, else gives 2, which it may not have any more."""
    for offer in facts["offers"]:
        return {"action": "accept", "offer_id": offer["offer"]}
    return {"action": "transfer", "to": "rich", "amount": 2}


def sell(facts: Facts) -> Any:
    if facts["offers"] or "song" not in facts["my_artifacts"]:
        return None
    return {"action": "offer", "artifact_id": "song", "price": 3, "sells": "ownership"}


POLICIES = {"give": give, "sell": sell}


def passed(folder: Path, planned: PlannedRun) -> dict[str, Any]:
    async def scenario() -> dict[str, Any]:
        kernel = Kernel.open(folder / f"{planned.id}.db")
        try:
            return await pass_world(kernel, planned, policies=POLICIES)
        finally:
            await kernel.aclose()

    return asyncio.run(scenario())


def test_every_combination_has_every_seed_from_that_of_the_world_on() -> None:
    params = read_params(["agents=2,3", "mint.every=5,10"])

    planned = plan(SPEC, params, seeds=3, ticks=4)

    told = [(*one.params.values(), one.seed) for one in planned]
    assert told == [(a, m, s) for a in (2, 3) for m in (5, 10) for s in (5, 6, 7)]
    assert len({one.id for one in planned}) == 12
    assert planned[0].spec["agents"][0]["count"] == 2 and planned[-1].spec["agents"][0]["count"] == 3
    assert planned[0].spec["agents"][1] == SPEC["agents"][1]
    assert planned[-1].spec["world"] == {"seed": 5, "mint": {"every": 10}}
    assert SPEC["world"]["mint"] == {"every": 4} and SPEC["agents"][0]["count"] == 2


def test_a_run_is_another_one_if_anything_that_it_depends_on_is() -> None:
    first = plan(SPEC, {}, seeds=1, ticks=4)[0].id

    others = [
        plan(SPEC, {}, seeds=1, ticks=5),
        plan(SPEC, {}, seeds=1, ticks=4, rules=b"other"),
        plan({**SPEC, "artifacts": []}, {}, seeds=1, ticks=4),
        plan(SPEC, {"mint.every": ["5"]}, seeds=1, ticks=4),
        plan({**SPEC, "world": {"seed": 6}}, {}, seeds=1, ticks=4),
    ]

    assert plan(SPEC, {}, seeds=2, ticks=4)[0].id == first
    assert first not in {one[0].id for one in others} and len({one[0].id for one in others}) == 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["agnts=1"], "there is no parameter 'agnts'"),
        (["mint.cases=1"], "there is no parameter"),
        (["agents"], "NAME=VALUE"),
        (["agents=1,,2"], "NAME=VALUE"),
        (["agents=1", "agents=2"], "given twice"),
        (["agents=many"], "parameter agents"),
        (["agents=-1"], "parameter agents"),
        (["seed=1,2"], "parameter seed"),
        (["mint.every=often"], "parameter mint.every"),
        (["max_output_tokens=0"], "parameter max_output_tokens"),
        (["activation=sometimes"], "parameter activation"),
        (["activation=staged"], "world.stages"),
        (["agents=200000"], "too large"),
    ],
)
def test_a_parameter_that_cannot_be_says_what_can(given: list[str], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        plan(SPEC, read_params(given), seeds=1, ticks=1)


def test_unknown_parameters_name_the_known_ones() -> None:
    with pytest.raises(InvalidRequest) as refused:
        plan(SPEC, {"mint": ["5"]}, seeds=1, ticks=1)

    assert refused.value.expected == f"of agents, {', '.join(known_params())}"
    assert {"start_balance", "model", "mint.every", "resources.window"} < known_params().keys()


def test_agents_without_a_template_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="no template"):
        plan({"agents": [{"id": "ana"}]}, {"agents": ["5"]}, seeds=1, ticks=1)


@pytest.mark.parametrize(("seeds", "ticks"), [(0, 1), (10_001, 1), (1, 0)])
def test_seeds_and_ticks_have_bounds(seeds: int, ticks: int) -> None:
    with pytest.raises(InvalidRequest, match=r"seeds|ticks"):
        plan(SPEC, {}, seeds=seeds, ticks=ticks)


def test_a_sweep_has_a_bound() -> None:
    values = {"mint.every": [str(n) for n in range(200)]}

    with pytest.raises(InvalidRequest, match="too large"):
        plan(SPEC, values, seeds=1_000, ticks=1)


def test_a_row_says_what_came_of_the_world(tmp_path: Path) -> None:
    (planned,) = plan(SPEC, {"agents": ["2"]}, seeds=1, ticks=6)

    row = passed(tmp_path, planned)

    # Tick 1: both give 2, the offer is made. Tick 2: one buys for 3, the other finds it gone. Ticks 3 to 6:
    # they give 2 each while they have them: the buyer has 5, the other 8.
    assert row["run"] == planned.id and row["params"] == {"agents": 2} and row["seed"] == 5
    assert (row["trades"], row["volume"], row["agents_left"]) == (1, 3, 3)
    assert (row["actions"], row["rejected"], row["circulating"]) == (18, 3, 120)
    assert row["gini"] == pytest.approx(2 * (1 * 0 + 2 * 1 + 3 * 119) / (3 * 120) - 4 / 3)
    assert row["model_cost_microusd"] == row["tokens"] == row["minted"] == 0
    assert set(row) == {"run", "params", "seed", "ticks", *FIGURES}


COLLECTING = {
    **SPEC,
    "world": {
        **SPEC["world"],
        "collect": {"scrip": "balance", "rich": "balance > 100", "did": "last_action.type"},
    },
}


def test_a_row_has_the_means_of_what_is_collected_after_the_last_tick(tmp_path: Path) -> None:
    (planned,) = plan(COLLECTING, {}, seeds=1, ticks=6)

    row = passed(tmp_path, planned)

    # After tick 6 the three have 120 scrip, of which the one called rich has 119.
    assert planned.means == ("mean_scrip", "mean_rich", "mean_did")
    assert row["mean_scrip"] == 40
    assert row["mean_rich"] == pytest.approx(1 / 3)
    assert row["mean_did"] is None
    assert set(row) == {"run", "params", "seed", "ticks", *FIGURES, *planned.means}
    for name in ("r.csv", "r.parquet"):
        write_table(tmp_path / name, [row], columns_of([planned]))
    (line,) = csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
    assert [line[name] for name in planned.means] == ["40.0", str(1 / 3), ""]
    found = duckdb.execute(
        "SELECT mean_scrip, mean_rich, mean_did FROM read_parquet(?)", [str(tmp_path / "r.parquet")]
    )
    assert found.fetchall() == [(40.0, pytest.approx(1 / 3), None)]


def test_a_run_whose_means_are_not_known_is_measured_and_not_passed_again(tmp_path: Path) -> None:
    (planned,) = plan(COLLECTING, {}, seeds=1, ticks=2)
    row = passed(tmp_path, planned)
    (tmp_path / planned.id).mkdir()
    save_row(tmp_path / planned.id, {k: v for k, v in row.items() if k not in planned.means})

    known = row_of(tmp_path, planned)

    assert known is None
    assert passed(tmp_path, planned) == row


@pytest.mark.parametrize("text", ["balance.__class__()", "wealth > 1", ""])
def test_what_cannot_be_collected_is_said_before_anything_begins(text: str) -> None:
    spec = {**SPEC, "world": {**SPEC["world"], "collect": {"column": text}}}

    with pytest.raises(InvalidRequest, match="column"):
        plan(spec, {}, seeds=1, ticks=1)


def test_a_broken_off_run_goes_on_and_is_the_same_world(tmp_path: Path) -> None:
    (planned,) = plan(SPEC, {}, seeds=1, ticks=6)
    (tmp_path / "other").mkdir()
    whole = passed(tmp_path / "other", planned)

    async def broken() -> None:
        kernel = Kernel.open(tmp_path / f"{planned.id}.db")
        try:
            with pytest.raises(ZeroDivisionError):
                await pass_world(kernel, planned, policies=POLICIES, told=lambda tick: tick // (3 - tick))
            assert await World.open(kernel, "world").tick_now() == 3
        finally:
            await kernel.aclose()

    asyncio.run(broken())

    assert passed(tmp_path, planned) == whole
    assert passed(tmp_path, planned) == whole


def test_a_world_that_somebody_has_passed_further_is_no_result(tmp_path: Path) -> None:
    (planned,) = plan(SPEC, {}, seeds=1, ticks=2)
    passed(tmp_path, planned)

    async def scenario() -> None:
        kernel = Kernel.open(tmp_path / f"{planned.id}.db")
        try:
            async with World.open(kernel, "world", policies=POLICIES) as world:
                await world.tick()
            with pytest.raises(Conflict, match="used otherwise"):
                await pass_world(kernel, planned, policies=POLICIES)
        finally:
            await kernel.aclose()

    asyncio.run(scenario())


def rows_of(planned: list[PlannedRun]) -> list[dict[str, Any]]:
    figures = {name: "ab" if kind == "VARCHAR" else 7 for name, kind in FIGURES.items()}
    return [
        {"run": one.id, "params": one.params, "seed": one.seed, "ticks": one.ticks, **figures}
        for one in planned
    ]


def test_a_csv_holds_no_formula(tmp_path: Path) -> None:
    planned = plan(SPEC, {"model": ["=cmd()", "+1", "@x", "-2", "offline"]}, seeds=1, ticks=1)

    write_table(tmp_path / "r.csv", rows_of(planned), columns_of(planned))

    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["'=cmd()", "'+1", "'@x", "'-2", "offline"]
    assert list(rows[0]) == ["run", "model", "seed", "ticks", *FIGURES]
    assert rows[0]["trades"] == "7"


def test_a_parquet_has_types_and_the_text_as_it_is(tmp_path: Path) -> None:
    params = {"model": ["=cmd()", "it's"], "resources.tokens": ["null", "9"]}
    planned = plan(SPEC, params, seeds=1, ticks=1)
    folder = tmp_path / "it's here"
    folder.mkdir()

    write_table(folder / "r.parquet", rows_of(planned), columns_of(planned))

    found = duckdb.execute("SELECT * FROM read_parquet(?)", [str(folder / "r.parquet")])
    columns = [one[0] for one in found.description or ()]
    rows = [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
    assert columns == ["run", "model", "resources.tokens", "seed", "ticks", *FIGURES]
    assert [(row["model"], row["resources.tokens"]) for row in rows] == [
        ("=cmd()", None),
        ("=cmd()", 9),
        ("it's", None),
        ("it's", 9),
    ]
    assert rows[0]["gini"] == 7.0 and isinstance(rows[0]["gini"], float)


def test_a_parquet_of_no_rows_has_its_columns(tmp_path: Path) -> None:
    planned = plan(SPEC, {}, seeds=1, ticks=1)

    write_table(tmp_path / "r.parquet", [], columns_of(planned))

    found = duckdb.execute("SELECT * FROM read_parquet(?)", [str(tmp_path / "r.parquet")])
    assert len(found.description or ()) == 3 + len(FIGURES) and found.fetchall() == []


def test_only_a_whole_row_of_this_run_says_that_it_is_done(tmp_path: Path) -> None:
    one, two = plan(SPEC, {}, seeds=2, ticks=1)
    row, other = rows_of([one, two])
    folder = tmp_path / one.id
    folder.mkdir()

    assert row_of(tmp_path, one) is None
    for torn in (b"", b'{"run": ', b"[]", b"\xff"):
        (folder / "row.json").write_bytes(torn)
        assert row_of(tmp_path, one) is None
    save_row(folder, other)
    assert row_of(tmp_path, one) is None
    save_row(folder, row)
    assert row_of(tmp_path, one) == row
    assert [path.name for path in folder.iterdir()] == ["row.json"]


def test_results_are_csv_or_parquet() -> None:
    assert folder_of(Path("a/results.csv")) == Path("a/results.sweep")
    with pytest.raises(InvalidRequest, match="--out"):
        folder_of(Path("results.xlsx"))
