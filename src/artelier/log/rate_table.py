"""The windows of rates: the one count of the last minute that all processes of a store share.

No view and no event: a window is gone after a minute. The rows are in `log/rows/coordination.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from artelier.log.database import Database
from artelier.log.rate_windows import PRESENT_US, WINDOW_US, Asked, Change, Claim, Taken
from artelier.log.rows.coordination import (
    WaitingRun,
    add_used,
    add_waiter,
    add_waiting_runs,
    change_used,
    drop_used_outside,
    drop_waiters,
    has_older_waiter,
    used_of,
)

GRAIN_US = 100_000
"""What is taken in a tenth of a second shares a row, dated at its end: 600 rows a window, never freed
early."""

SHOWN_MAX = 200
"""Waiting calls of a process that people can see: each is a row that is written once a second."""


def take_turns(db: Database, asked: Sequence[Asked], *, now_us: int, holder: str) -> list[Taken]:
    """Decide in the order given. Whom a window refuses first keeps it closed for all behind: nobody starves.

    Cost: O(asked), and one read of each window.
    """
    drop_waiters(db, holder)
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
            if wait_us or has_older_waiter(
                db,
                claim.scope,
                holder,
                since_us=one.since_us,
                seen_after_us=now_us - PRESENT_US,
                seen_upto_us=now_us + PRESENT_US,
            ):
                closed[claim.scope] = max(wait_us, closed.get(claim.scope, 0))
        waits = [closed[claim.scope] for claim in one.claims if claim.scope in closed]
        if waits:
            answers.append(Taken(None, max(waits)))
            for scope in {claim.scope for claim in one.claims} & closed.keys():
                add_waiter(db, scope, holder, since_us=one.since_us, now_us=now_us)
            continue
        at_us = -(-now_us // GRAIN_US) * GRAIN_US
        for claim in one.claims:
            windows[claim.scope, claim.unit].used += claim.amount
        change_turns(db, [(one.scope, one.unit, at_us, one.amount) for one in one.claims])
        answers.append(Taken(at_us))
    shown = [
        WaitingRun(one.run, _closed_of(one, closed), now_us + answer.wait_us)
        for one, answer in zip(asked, answers, strict=True)
        if answer.at_us is None and one.run
    ]
    add_waiting_runs(db, holder, shown[:SHOWN_MAX], now_us=now_us)
    return answers


def _closed_of(asked: Asked, closed: Mapping[str, int]) -> str:
    """Return the window that a call waits for longest."""
    return max((claim.scope for claim in asked.claims if claim.scope in closed), key=closed.__getitem__)


def change_turns(db: Database, changes: Sequence[Change]) -> None:
    """Correct what was taken, at the moment when it was; what has passed is left alone."""
    for scope, unit, at_us, amount in changes:
        if not change_used(db, scope, unit, at_us, amount) and amount > 0:
            add_used(db, scope, unit, at_us, amount)


class _MinuteWindow:
    """The used part of the last minute."""

    def __init__(self, db: Database, scope: str, unit: str, *, now_us: int) -> None:
        # A row of the future is of a clock that was set back since: it must not close the window for long.
        drop_used_outside(db, scope, unit, first_us=now_us - WINDOW_US, last_us=now_us + WINDOW_US)
        self._rows = used_of(db, scope, unit)
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
