"""A run that freezes every process that drives it: killed and started again until the watchdog parks it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artelier.kernel.run.crash_recovery import OF_RESUMING
from artelier_lab.availability.served import ATTACKER
from artelier_lab.availability.trial import PAGE_S_MAX, House

RUN = "frozen"
LIVES_MAX = 6
LIFE_S_MAX = 60.0
"""Within this a server that was started takes up its run, and freezes or parks it."""
LOOK_EACH_S = 0.25
LOOK_S = 3.0
"""How long one look waits for its answer before the next."""


@dataclass(slots=True, kw_only=True)
class Life:
    """The outcome of the run and of its servers."""

    kills: int = 0
    opened_s: list[float] = field(default_factory=list[float])
    """From each start until the page was open."""
    progress: list[int] = field(default_factory=list[int])
    """At each kill: events of the run that a drive does not record again. The tool is read-only, so it may
    hold the interpreter before its own request is durable: then a later drive gets further than the first."""
    status: str = ""
    reason: str = ""

    @property
    def is_good(self) -> bool:
        return self.is_parked and max(self.opened_s, default=0.0) <= PAGE_S_MAX

    @property
    def is_parked(self) -> bool:
        return self.status == "paused" and bool(self.reason)


async def live(house: House) -> Life:
    """Start the run, and kill the server each time that the run holds its interpreter."""
    life = Life()
    house.served.say(json.dumps({"agent": {"run_id": RUN, "reply": "freeze"}}))
    while life.kills < LIVES_MAX and await _freezes(house, life):
        house.kill()
        life.kills += 1
        life.progress.append(_progress(house.database))
        life.opened_s.append(round(await house.start(), 2))
    return life


def _progress(database: Path) -> int:
    kinds = [kind.KIND for kind in OF_RESUMING]
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as db:
        rows = db.execute(
            "SELECT count(*) FROM events e JOIN streams s ON s.id = e.stream WHERE s.tenant = ?"
            f" AND s.name = ? AND e.kind NOT IN ({', '.join('?' * len(kinds))})",
            (ATTACKER, f"run:{RUN}-0", *kinds),
        )
        return rows.fetchone()[0]


async def _freezes(house: House, life: Life) -> bool:
    """Return true when the server freezes, false when the run is parked or nothing comes of it.

    A server that is slow to answer is not frozen: on a busy machine it has not even taken up the run. So the
    tool tells that it is about to hold the interpreter.
    """
    telling = asyncio.ensure_future(_told(house))
    try:
        async with asyncio.timeout(LIFE_S_MAX):
            while not telling.done():
                await _look(house, life)
                if life.is_parked:
                    return False
                await asyncio.wait((telling,), timeout=LOOK_EACH_S)
            return telling.result()
    except TimeoutError:
        return False
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _told(house: House) -> bool:
    """Wait until the server says that it freezes. Errors: `EOFError` if it is gone."""
    while not (await house.served.answer(LIFE_S_MAX)).get("freezes"):
        pass  # the answer to what was asked of it
    return True


async def _look(house: House, life: Life) -> None:
    """Ask for the run's status; a server that freezes meanwhile gives no answer."""
    shown = await house.client(ATTACKER).get(f"/runs/{RUN}-0", within_s=LOOK_S)
    with suppress(ValueError):
        told: dict[str, Any] = shown.json()
        life.status, life.reason = told.get("status", ""), told.get("reason", "")
