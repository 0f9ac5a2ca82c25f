"""Claims on the rates of a provider, and the turns of tenants in one process.

The windows that all processes of a store share are rows: `log/rate_table.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

WINDOW_US = 60_000_000
"""The window slides: in no minute, wherever it begins, is more taken than the cap."""


PRESENT_US = 5_000_000
"""A process that has not asked for so long no longer waits (it asks once a second)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """So much of one window."""

    scope: str
    unit: str
    amount: int
    cap: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The claims that one call needs at once, and since when it waits."""

    claims: tuple[Claim, ...]
    since_us: int
    run: str = ""
    """`<tenant>/<run>`, for people who want to know what it waits for."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The time at which claims were taken, or the least time until they can be."""

    at_us: int | None
    wait_us: int = 0


Change = tuple[str, str, int, int]
"""Scope, unit, when it was taken, and what is added to it."""


AT_ONCE = 4
"""Turns of one tenant in a pass of the loop. What runs in a turn takes from 0.3 to 4 ms."""


class TenantTurns:
    """Calls in their order, a few of each tenant in a pass. For one event loop, which runs whoever calls."""

    def __init__(self, *, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._given: dict[str, int] = {}
        """Turns of this pass."""
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        self._is_due = False

    def call(self, tenant: str, function: Callable[[], None]) -> None:
        """Call it now, or in a later pass if this tenant has had its turns. It must raise nothing."""
        given = self._given.get(tenant, 0)
        if given >= self._at_once or tenant in self._waiting:
            self._waiting.setdefault(tenant, deque()).append(function)
        else:
            self._given[tenant] = given + 1
            function()
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin_pass)

    async def take(self, tenant: str) -> None:
        """Wait for a turn; at once while the tenant has one in this pass."""
        turn = asyncio.get_running_loop().create_future()
        self.call(tenant, partial(_grant, turn))
        if not turn.done():
            await turn

    def _begin_pass(self) -> None:
        self._is_due = False
        self._given.clear()
        waiting, self._waiting = self._waiting, {}
        for tenant, calls in waiting.items():
            for _ in range(min(self._at_once, len(calls))):
                self.call(tenant, calls.popleft())
        for tenant, calls in waiting.items():
            if calls:
                calls.extend(self._waiting.get(tenant, ()))
                self._waiting[tenant] = calls


def _grant(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
