"""The use of rates in the last minute: the one count that all processes of a store share.

No view and no event: a window is gone after a minute. Table `rates(scope, unit, at_us, used)` has three sorts
of rows: amounts taken (`unit` is `requests` or `tokens`, `at_us` when); the longest waiter of a process
(`unit` is `turn:<holder>`, `at_us` since when, `used` when it last asked), so that a process with many small
calls lets another's large one pass; and, for people, the runs that wait (`scope` is `run:<tenant>/<run>`,
`unit` `wait:<holder>` with the window on a second line, `at_us` until when, `used` when it last asked).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

WINDOW_US = 60_000_000
"""The window slides: in no minute, wherever it begins, is more taken than the cap."""

GRAIN_US = 100_000
"""What is taken in a tenth of a second shares a row, dated at its end: 600 rows a window, never freed
early."""

SHOWN_MAX = 200
"""Waiting calls of a process that people can see: each is a row that is written once a second."""

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


def take_turns(db: sqlite3.Connection, asked: Sequence[Asked], *, now_us: int, holder: str) -> list[Taken]:
    """Decide in the order given. Whom a window refuses first keeps it closed for all behind: nobody starves.

    Cost: O(asked), and one read of each window.
    """
    db.execute(
        "DELETE FROM rates WHERE unit = ? OR (unit > ? AND unit < ?)",
        (f"turn:{holder}", f"wait:{holder}\n", f"wait:{holder}\v"),
    )
    windows: dict[tuple[str, str], _MinuteWindow] = {}
    closed: dict[str, int] = {}
    answers: list[Taken] = []
    for one in asked:
        waits = [closed[claim.scope] for claim in one.claims if claim.scope in closed]
        if waits:
            answers.append(Taken(None, max(waits)))
            continue
        for claim in one.claims:
            place = (claim.scope, claim.unit)
            if place not in windows:
                windows[place] = _MinuteWindow(db, *place, now_us=now_us)
            wait_us = windows[place].wait_us(claim)
            if wait_us or _others_first(db, claim.scope, one.since_us, now_us, holder):
                closed[claim.scope] = max(wait_us, closed.get(claim.scope, 0))
        waits = [closed[claim.scope] for claim in one.claims if claim.scope in closed]
        if waits:
            answers.append(Taken(None, max(waits)))
            for scope in {claim.scope for claim in one.claims} & closed.keys():
                row = (scope, f"turn:{holder}", one.since_us, now_us)
                db.execute("INSERT INTO rates(scope, unit, at_us, used) VALUES (?, ?, ?, ?)", row)
            continue
        at_us = -(-now_us // GRAIN_US) * GRAIN_US
        for claim in one.claims:
            windows[claim.scope, claim.unit].used += claim.amount
        change_turns(db, [(one.scope, one.unit, at_us, one.amount) for one in one.claims])
        answers.append(Taken(at_us))
    shown = [
        (f"run:{one.run}", f"wait:{holder}\n{_closed_of(one, closed)}", now_us + answer.wait_us, now_us)
        for one, answer in zip(asked, answers, strict=True)
        if answer.at_us is None and one.run
    ]
    db.executemany("INSERT INTO rates(scope, unit, at_us, used) VALUES (?, ?, ?, ?)", shown[:SHOWN_MAX])
    return answers


def _closed_of(asked: Asked, closed: Mapping[str, int]) -> str:
    """Return the window that a call waits for longest."""
    return max((claim.scope for claim in asked.claims if claim.scope in closed), key=closed.__getitem__)


WAITS = "SELECT unit, at_us FROM rates WHERE scope = ? AND unit > 'wait:' AND unit < 'wait;' AND used > ?"
"""What a run waits for: parameters are `run:<tenant>/<run>` and the time of day less `PRESENT_US`."""


def change_turns(db: sqlite3.Connection, changes: Sequence[Change]) -> None:
    """Correct what was taken, at the moment when it was; what has passed is left alone."""
    for scope, unit, at_us, amount in changes:
        place = (scope, unit, at_us)
        changed = db.execute(
            "UPDATE rates SET used = max(0, used + ?) WHERE scope = ? AND unit = ? AND at_us = ?",
            (amount, *place),
        ).rowcount
        if not changed and amount > 0:
            db.execute("INSERT INTO rates(scope, unit, at_us, used) VALUES (?, ?, ?, ?)", (*place, amount))


class _MinuteWindow:
    """The used part of the last minute."""

    def __init__(self, db: sqlite3.Connection, scope: str, unit: str, *, now_us: int) -> None:
        # A row of the future is of a clock that was set back since: it must not close the window for long.
        db.execute(
            "DELETE FROM rates WHERE scope = ? AND unit = ? AND (at_us <= ? OR at_us > ?)",
            (scope, unit, now_us - WINDOW_US, now_us + WINDOW_US),
        )
        self._rows: list[tuple[int, int]] = db.execute(
            "SELECT at_us, used FROM rates WHERE scope = ? AND unit = ? ORDER BY at_us", (scope, unit)
        ).fetchall()
        self._now_us = now_us
        self.used = sum(used for _, used in self._rows)

    def wait_us(self, claim: Claim) -> int:
        """Until the oldest rows have made room; 0 if there is room now."""
        over = self.used + claim.amount - claim.cap
        if over <= 0:
            return 0
        for at_us, used in self._rows:
            over -= used
            if over <= 0:
                return max(1, at_us + WINDOW_US - self._now_us)
        return WINDOW_US


def _others_first(db: sqlite3.Connection, scope: str, since_us: int, now_us: int, holder: str) -> bool:
    """Return True if a call of another process has waited longer for this window, and still does."""
    own = f"turn:{holder}"
    row = db.execute(
        "SELECT 1 FROM rates WHERE scope = ? AND unit > 'turn:' AND unit < 'turn;' AND unit <> ?"
        " AND used > ? AND used <= ? AND (at_us < ? OR (at_us = ? AND unit < ?)) LIMIT 1",
        (scope, own, now_us - PRESENT_US, now_us + PRESENT_US, since_us, since_us, own),
    ).fetchone()
    return row is not None


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
