"""The lag of a server's event loop is shown and measured."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from artelier.server.health import SAMPLE_S, LoopLag
from artelier.server.http_server import THREAD_SWITCH_S
from artelier.telemetry import OpenTelemetry
from tests.server.house import house, on_a_port, until
from tests.telemetry.watch import Watch

HELD_S = 0.25
LEAST_S = HELD_S - SAMPLE_S
"""A sample may have been due just before the loop is let go again."""


def hold() -> None:
    """Hold the loop as a parser or a pattern does whose input somebody else has chosen."""
    time.sleep(HELD_S)


def test_a_server_shows_by_how_much_its_loop_was_held(tmp_path: Path) -> None:
    async def scenario() -> dict[str, Any]:
        async with house(tmp_path) as home:
            hold()
            await until(lambda: home.app.state.lag.show().max_ms >= int(LEAST_S * 1000))
            return (await home.client.get("/api/v1/server")).json()["lag"]

    shown = asyncio.run(scenario())

    assert shown["worst_ms"] >= shown["max_ms"] >= int(LEAST_S * 1000)
    assert shown["max_ms"] >= shown["p99_ms"]


def test_a_collector_is_told_of_each_sample() -> None:
    watch = Watch()
    tracers, meters = watch.pair

    async def scenario() -> None:
        lag = LoopLag(OpenTelemetry(tracer_provider=tracers, meter_provider=meters))
        lag.start()
        hold()
        await until(lambda: lag.show().max_ms >= int(LEAST_S * 1000))
        lag.stop()

    asyncio.run(scenario())

    (point,) = watch.points("artelier.server.loop_lag")
    assert point.count >= 1
    assert point.max >= LEAST_S


def test_threads_that_compute_give_way_to_the_loop_of_a_server_as_long_as_it_serves(tmp_path: Path) -> None:
    before_s = sys.getswitchinterval()

    async def scenario() -> float:
        async with house(tmp_path) as home, on_a_port(home.app):
            return sys.getswitchinterval()

    assert asyncio.run(scenario()) <= THREAD_SWITCH_S < before_s
    assert sys.getswitchinterval() == before_s
