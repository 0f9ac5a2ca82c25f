"""The faults that happen to workers and to their server, by name."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any

from artelier_lab.postgres_proxy import Direction
from artelier_lab.torture.workers.crew import Crew

LEASE_S = 30.0

WAYS: tuple[tuple[Direction, ...], ...] = (("asks",), ("answers",), ("asks", "answers"))
"""Partitions, one-sided and whole."""

OURS = "SELECT pid FROM pg_stat_activity WHERE datname LIKE 'test%'"
"""Connections of workers, and of whoever looks on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A fault, again and again."""

    fault: Callable[[Crew, random.Random], Awaitable[None]]
    every_s: float
    settles: bool = False
    """True if the outcome of a payment may be unknown to all: a person looks into the book then."""
    has_proxies: bool = False
    """True if workers reach the server over proxies."""


async def _kill(crew: Crew, rng: random.Random) -> None:
    if all(hand.is_ready for hand in crew.hands):  # else on a slow machine none ever works
        crew.kill(rng.choice(crew.hands))


async def _restart(crew: Crew, rng: random.Random) -> None:
    if all(hand.is_ready for hand in crew.hands):
        crew.drain(crew.hands[crew.counts["SIGTERM"] % len(crew.hands)])


async def _stop(crew: Crew, rng: random.Random) -> None:
    """Stop a worker, wherever it is, for longer than its leases; then it goes on."""
    hand = rng.choice(crew.hands)
    if not hand.is_ready:
        return
    crew.counts["SIGSTOP"] += 1
    hand.send(signal.SIGSTOP)
    crew.stopped.append(hand)
    await asyncio.sleep(LEASE_S + rng.uniform(1.0, 8.0))
    crew.wake()


async def _end_server(crew: Crew, rng: random.Random) -> None:
    how = rng.choice(("immediate", "fast"))
    crew.counts[f"server stopped: {how}"] += 1
    await asyncio.to_thread(crew.server.stop, how)
    await asyncio.sleep(rng.uniform(0.0, 3.0))
    await asyncio.to_thread(crew.server.start)


def _admin(crew: Crew) -> Any:
    import psycopg

    return closing(psycopg.connect(crew.server.address("postgres"), autocommit=True))


async def _cut(crew: Crew, rng: random.Random) -> None:
    """End three connections at whatever they do."""
    with _admin(crew) as db:
        db.execute(f"SELECT pg_terminate_backend(pid) FROM ({OURS} ORDER BY random() LIMIT 3) AS found")
    crew.counts["connections cut"] += 3
    await asyncio.sleep(rng.uniform(0.0, 0.5))


async def _forbid_writing(crew: Crew, rng: random.Random) -> None:
    """What a standby says, and a server whose disk is full: no transaction writes."""
    crew.counts["read-only"] += 1
    with _admin(crew) as db:
        for value in ("on", "off"):
            db.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            db.execute("SELECT pg_reload_conf()")
            if value == "on":
                await asyncio.sleep(rng.uniform(0.5, 5.0))


async def _spend_connections(crew: Crew, rng: random.Random) -> None:
    """Take all connections of the server, those of workers first."""
    import psycopg

    crew.counts["connections spent"] += 1
    with ExitStack() as held, _admin(crew) as db:
        db.execute(f"SELECT pg_terminate_backend(pid) FROM ({OURS}) AS found")
        end = asyncio.get_running_loop().time() + rng.uniform(1.0, 5.0)
        while asyncio.get_running_loop().time() < end:
            with suppress(psycopg.OperationalError):
                while True:
                    held.enter_context(closing(psycopg.connect(crew.server.address("postgres"))))
            await asyncio.sleep(0.1)


async def _part(crew: Crew, rng: random.Random) -> None:
    """Have a worker hear nothing, or nobody hear it, for longer than its leases."""
    proxy, way = rng.choice(crew.proxies), rng.choice(WAYS)
    crew.counts[f"partition of {' and '.join(way)}"] += 1
    proxy.held = frozenset(way)
    await asyncio.sleep(LEASE_S + rng.uniform(1.0, 8.0))
    proxy.held = frozenset()


PLANS: dict[str, Plan] = {
    "kill": Plan(fault=_kill, every_s=5.0),
    "restart": Plan(fault=_restart, every_s=4.0),
    "stop": Plan(fault=_stop, every_s=2.0, settles=True),
    "server": Plan(fault=_end_server, every_s=8.0, settles=True),
    "cut": Plan(fault=_cut, every_s=0.2, settles=True),
    "partition": Plan(fault=_part, every_s=2.0, settles=True, has_proxies=True),
    "read-only": Plan(fault=_forbid_writing, every_s=8.0),
    "connections": Plan(fault=_spend_connections, every_s=8.0),
}
