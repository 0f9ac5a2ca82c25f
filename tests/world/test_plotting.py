"""Pictures of worlds: well formed, of bounded size, with what is there to see."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import InvalidRequest, NotFound, StoreUnavailable
from artelier.world import World
from artelier.world.figures import plot as figure_plot
from artelier.world.figures.metrics import metrics
from artelier.world.figures.plot import Chart, ChartPanel, Series, chart_of, nice_steps, number, plot, svg
from tests.world.places import add, world_at
from tests.world.town import kernel_at, town

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_a_picture_shows_what_the_figures_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=10)
            figures = (await metrics(world)).ticks

            chart = await plot(world, tmp_path / "w.svg")

            series = {one.name: one for panel in chart.panels for one in panel.series}
            assert list(series["richest"].points) == [
                (one.tick, max(one.balances.values())) for one in figures
            ]
            assert list(series["Gini coefficient"].points) == [(one.tick, one.gini) for one in figures]
            assert list(series["trades"].points) == [(one.tick, one.trades) for one in figures]
            # Three sales for 59, one use of bob's tool for 2, and dan's prompts pay 2 a tick for a map.
            assert sum(n for _, n in series["volume of trade"].points) == 59 + 2 + 10 * 2
            assert list(series["document"].points) == [
                (tick, {4: 3.5, 5: 3, 10: 26}.get(tick, 2)) for tick in range(1, 11)
            ]
            shown = texts((tmp_path / "w.svg").read_text(encoding="utf-8"))
            for text in (
                "World w",
                "Balances of agents",
                "median",
                "middle half",
                "tick",
                "document",
                "models cost nothing",
                "sales and paid uses per tick",
            ):
                assert text in shown
            assert shown.count("10") >= 5  # the last tick, on each axis
            await world.close()

    asyncio.run(scenario())


def test_a_long_history_is_drawn_in_few_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_plot, "BINS", 20)

    async def scenario() -> None:
        ticks = 46
        pays = {"action": "transfer", "to": "bob", "amount": 1}

        def rule(facts: dict[str, Any]) -> Any:
            return pays if facts["agent_id"] == "ana" else None

        async with world_at(tmp_path, policies={"rule": rule}) as world:
            await add(world, ana={"policy": "rule"}, bob={"policy": "rule"})
            await world.run(ticks=ticks)

            chart = await chart_of(world)

            sizes = [len(one.points) for panel in chart.panels for one in panel.series]
            assert max(sizes) == 16  # of three ticks each, and one more
            richest = chart.panels[0].series[0].points
            assert richest[0] == (2, 103) and richest[-1] == (ticks, 146)
            assert "sales and paid uses per 3 ticks" in [panel.unit for panel in chart.panels]

    asyncio.run(scenario())


def test_one_tick_and_a_world_without_agents_can_be_drawn(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            with pytest.raises(InvalidRequest, match="no tick"):
                await chart_of(world)
            await world.tick()
            empty = svg(await chart_of(world))
            assert "no agents" in texts(empty) and "no model was asked" in texts(empty)
            await add(world, ana={})
            one = await chart_of(world)
            assert one.subtitle == "tick 1; at the end 1 agent and 100 scrip, of which 0 held"
            assert "richest" in texts(svg(one))

    asyncio.run(scenario())


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await world.tick()
            for name in ("w.jpg", "w", "w.svg.exe"):
                with pytest.raises(InvalidRequest):
                    await plot(world, tmp_path / name)
            with pytest.raises(StoreUnavailable):
                await plot(world, tmp_path / "no" / "w.svg")
            with pytest.raises(InvalidRequest):
                await plot(world, tmp_path / "w.svg", to_tick=2)
            with pytest.raises(NotFound):
                await plot(World.open(world.host, "nowhere"), tmp_path / "w.svg")
            assert not (tmp_path / "w.svg").exists()

    asyncio.run(scenario())


@given(st.text(max_size=60))
def test_any_text_gives_a_picture_that_can_be_read(text: str) -> None:
    hostile = f"</text><script>alert(1)</script>&{text}"
    series = Series(name=hostile, shape="dots", points=[(1, 2)])
    panels = [
        ChartPanel(title=hostile, unit=hostile, series=[series]),
        ChartPanel(title="", unit="", series=(), empty=hostile),
    ]

    drawn = svg(Chart(title=hostile, subtitle=hostile, ticks=(1, 1), panels=panels))

    tree = ElementTree.fromstring(drawn.encode())
    assert {one.tag for one in tree.iter()} <= {
        SVG + name for name in ("svg", "title", "rect", "text", "line", "circle")
    }
    assert "</text><script>alert(1)</script>&" in (tree.find(f"{SVG}title").text or "")  # pyright: ignore[reportOptionalMemberAccess] - it is there


@given(st.floats(min_value=1e-6, max_value=1e12), st.integers(min_value=1, max_value=12))
def test_steps_of_an_axis_are_round_and_reach_the_top(top: float, count: int) -> None:
    steps = nice_steps(top, count=count)
    whole = nice_steps(top, is_whole=True)

    assert steps[0] == 0 and steps[-1] >= top * (1 - 1e-9) > steps[-2] * (1 - 1e-6)
    assert 2 <= len(steps) <= count + 2
    assert all(one == int(one) for one in whole)
    assert len({number(one) for one in steps}) == len(steps)
