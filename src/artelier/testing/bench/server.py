"""The area `server`: from an event to those who listen, and how much a first visit loads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artelier.testing.bench.figures import Target, judge, rounded
from artelier.testing.bench.machine import machine_facts
from artelier.testing.bench.server_live import Load, Served, slow_one, under
from artelier.testing.bench.server_page import bundle_kb_gzip

MANY_P99_MS = 250

TARGETS = {
    "event_to_client_ms_p99_at_500_per_s": Target(at_most=50),
    "sse_clients_200_ok": Target(at_least=1),
    "encodes_per_event": Target(at_most=1),
    "bundle_kb_gzip": Target(at_most=200),
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
    "encodes_per_event": "how often an event was encoded for all who listen",
    "bundle_kb_gzip": "KB that the first visit loads, compressed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How much of everything; the names of figures hold for the full plan."""

    few: Load
    many: Load


_FULL = _Plan(
    few=Load(clients=5, rate=500, events=2_000),
    many=Load(clients=200, rate=20, events=100),
)
_QUICK = _Plan(
    few=Load(clients=2, rate=200, events=200, rounds=1),
    many=Load(clients=10, rate=20, events=20, rounds=1),
)
SIZED = ("event_to_client_ms_p99_at_500_per_s", "sse_clients_200_ok")


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
        "encodes_per_event": max(few["encodes_per_event"], many["encodes_per_event"]),
    }


def bench_server(
    *, quick: bool, directory: Path, progress: Callable[[str], None]
) -> dict[str, Any]:
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
    known = {name: rounded(value) for name, value in found.items() if value is not None}
    return {
        **found,
        **known,
        "targets": judge(known, TARGETS, unjudged=SIZED if quick else ()),
        "units": UNITS,
        "missing": missing,
        "machine": machine,
    }
