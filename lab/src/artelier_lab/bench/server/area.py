"""The area `server`: from an event to those who listen, and how its page does in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artelier_lab.bench.figures import Target, judge, rounded
from artelier_lab.bench.machine import machine_facts
from artelier_lab.bench.server.browser import PagePlan, page_figures
from artelier_lab.bench.server.live import Load, Served, slow_one, under
from artelier_lab.bench.server.page import bundle_kb_gzip

MANY_P99_MS = 250

TARGETS = {
    "event_to_client_ms_p99_at_500_per_s": Target(at_most=50),
    "sse_clients_200_ok": Target(at_least=1),
    "sse_events_missed": Target(at_most=0),
    "encodes_per_event": Target(at_most=1),
    "bundle_kb_gzip": Target(at_most=200),
    "canvas_frame_ratio_1000_over_100": Target(at_most=1.5),
    "canvas_nodes_mounted_most": Target(at_most=300),
    "console_rows_10000_ok": Target(at_least=1),
    "moving_300_frame_share": Target(at_least=0.9),
    "moving_300_longest_task_ms": Target(at_most=50),
    "long_log_goals_ms": Target(at_most=1_000),
    "long_log_canvas_ms": Target(at_most=1_000),
    "long_log_heap_mb": Target(at_most=60),
}

UNITS = {
    "event_to_client_ms_p99_at_500_per_s": "ms from the making of an event, its commit included, to 5"
    " clients; median of rounds",
    "event_to_client_ms_p50_at_500_per_s": "the same, the middle one",
    "cpu_us_per_frame_at_500_per_s": "us of CPU of server and writers per event and client, 5 clients",
    "sse_clients_200_ok": "1 if 200 clients at 20 events/s missed nothing at a p99 below 250 ms, and one"
    " that was too slow was dropped and resumed",
    "sse_clients_200_ms_p99": "ms to 200 clients at 20 events/s; median of rounds",
    "cpu_us_per_frame_200_clients": "us of CPU of server and writers per event and client, 200 clients",
    "sse_events_missed": "clients that did not get every event once and in order",
    "sse_slow_client_drops": "how often the one that did not read was sent away, and came back",
    "encodes_per_event": "how often an event was encoded for all who listen",
    "bundle_kb_gzip": "KB that the first visit loads, compressed",
    "canvas_fps_1000_nodes": "frames a second while 1,000 nodes are panned and zoomed and 20 events/s"
    " change them",
    "canvas_frame_ratio_1000_over_100": "median frame time over 1,000 nodes by that over 100, same page",
    "canvas_nodes_mounted_most": "elements of nodes that were ever mounted at once",
    "console_rows_10000_ok": "1 if 10,000 rows scroll from end to end, each seen, few mounted, without"
    " dropped frames (at most 1 in 100)",
    "console_dropped_frames_share": "frames of that scroll that took longer than 1.5 idle ones; fewest of 2",
    "first_paint_ms": "ms from navigation to the first content drawn, nothing cached; median of 5",
    "goal_first_paint_ms": "the same of the page of a goal that is done",
    "goal_answer_ms": "ms from navigation to the words of that goal's answer, nothing cached; median of 5",
    "moving_300_frame_share": "frames a second while 300 agents are panned and zoomed, by those of an empty"
    " canvas",
    "moving_300_longest_task_ms": "ms of the longest task meanwhile; 0 if none took 50",
    "long_log_events": "events of a log of 130 goals and 1,300 agents",
    "long_log_goals_ms": "ms from navigation to a list of these goals that can be worked with; median of 5",
    "long_log_canvas_ms": "the same of the canvas of all of them",
    "long_log_heap_mb": "MB that the page's objects take then; most of 10",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The sizes of the benchmark; the names of figures hold for the full plan."""

    few: Load
    many: Load
    page: PagePlan = field(default_factory=PagePlan)


_FULL = _Plan(few=Load(clients=5, rate=500, events=2_000), many=Load(clients=200, rate=20, events=100))
_QUICK = _Plan(
    few=Load(clients=2, rate=200, events=200, rounds=1),
    many=Load(clients=10, rate=20, events=20, rounds=1),
    page=PagePlan(
        few_nodes=20, many_nodes=60, frames=20, rows=500, scrolls=1, paints=1, moving_agents=20, goals=2
    ),
)
SIZED = (
    "event_to_client_ms_p99_at_500_per_s",
    "sse_clients_200_ok",
    "canvas_frame_ratio_1000_over_100",
    "console_rows_10000_ok",
    "moving_300_frame_share",
    "moving_300_longest_task_ms",
    "long_log_goals_ms",
    "long_log_canvas_ms",
    "long_log_heap_mb",
)


async def _live(folder: Path, plan: _Plan, progress: Callable[[str], None]) -> dict[str, float]:
    served = Served(folder / "live.db")
    try:
        progress(f"server: {plan.few.clients} clients at {plan.few.rate} events a second")
        few = await under(served, plan.few)
        progress(f"server: {plan.many.clients} clients at {plan.many.rate} events a second")
        many = await under(served, plan.many)
    finally:
        served.close()
    progress("server: one client that does not keep up")
    slow = await slow_one(folder / "slow.db", plan.many.clients)
    missed = few["missed"] + many["missed"] + slow["missed"]
    is_ok = not missed and many["p99_ms"] < MANY_P99_MS and slow["dropped"] > 0
    return {
        "event_to_client_ms_p99_at_500_per_s": few["p99_ms"],
        "event_to_client_ms_p50_at_500_per_s": few["p50_ms"],
        "cpu_us_per_frame_at_500_per_s": few["cpu_us_per_frame"],
        "sse_clients_200_ok": int(is_ok),
        "sse_clients_200_ms_p99": many["p99_ms"],
        "cpu_us_per_frame_200_clients": many["cpu_us_per_frame"],
        "sse_events_missed": missed,
        "sse_slow_client_drops": slow["dropped"],
        "encodes_per_event": max(few["encodes_per_event"], many["encodes_per_event"]),
    }


def bench_server(*, quick: bool, directory: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the server, `targets`, `units` and `machine`. Databases go to `directory`.

    A figure that cannot be had here is None, with its reason in `missing`; it is not judged.
    """
    plan = _QUICK if quick else _FULL
    machine = machine_facts(directory)
    figures = asyncio.run(_live(directory, plan, progress))
    found: dict[str, float | None] = dict(figures)
    missing: dict[str, str] = {}
    found["bundle_kb_gzip"], reason = bundle_kb_gzip()
    if reason:
        missing["bundle_kb_gzip"] = reason
    of_page, why = asyncio.run(page_figures(directory, plan.page, progress))
    found |= of_page
    missing |= why
    known = {name: rounded(value) for name, value in found.items() if value is not None}
    return {
        **found,
        **known,
        "targets": judge(known, TARGETS, unjudged=SIZED if quick else ()),
        "units": UNITS,
        "missing": missing,
        "machine": machine,
    }
