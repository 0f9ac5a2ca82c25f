"""A run that freezes every process that drives it: killed and started again until the watchdog parks it."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from artelier.testing.availability.served import ATTACKER
from artelier.testing.availability.trial import PAGE_S_MAX, House

RUN = "frozen"
LIVES_MAX = 6
FROZEN_S = 3.0
"""A page that does not open in this time belongs to a server that is frozen."""
LOOKS_MAX = 40
"""Of a life: a server that was started takes up its runs after a few seconds."""


@dataclass(slots=True, kw_only=True)
class Life:
    """The outcome of the run and of its servers."""

    kills: int = 0
    opened_s: list[float] = field(default_factory=list[float])
    """From each start until the page was open."""
    status: str = ""
    reason: str = ""

    @property
    def is_good(self) -> bool:
        return self.is_parked and max(self.opened_s, default=0.0) <= PAGE_S_MAX

    @property
    def is_parked(self) -> bool:
        return self.status == "paused" and bool(self.reason)


async def live(house: House) -> Life:
    """Start the run, and kill the server each time that it answers nobody any more."""
    life = Life()
    house.served.say(json.dumps({"agent": {"run_id": RUN, "reply": "freeze"}}))
    while life.kills < LIVES_MAX and not await _is_parked(house, life):
        house.kill()
        life.kills += 1
        life.opened_s.append(round(await house.start(), 2))
    return life


async def _is_parked(house: House, life: Life) -> bool:
    """Return when the server is frozen, false, or the run is parked, true."""
    client = house.client(ATTACKER)
    for _ in range(LOOKS_MAX):
        shown = await client.get(f"/runs/{RUN}-0", within_s=FROZEN_S)
        if not shown.status:
            return False
        with suppress(ValueError):
            told: dict[str, Any] = shown.json()
            life.status, life.reason = told.get("status", ""), told.get("reason", "")
        if life.is_parked:
            return True
        await asyncio.sleep(0.25)
    return True
