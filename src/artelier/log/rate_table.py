"""The use of rates in the last minute: the one count that all processes of a store share.

No view and no event: a window is gone after a minute. Table `rates(scope, unit, at_us, used)` has three sorts
of rows: amounts taken (`unit` is `requests` or `tokens`, `at_us` when); the longest waiter of a process
(`unit` is `turn:<holder>`, `at_us` since when, `used` when it last asked), so that a process with many small
calls lets another's large one pass; and, for people, the runs that wait (`scope` is `run:<tenant>/<run>`,
`unit` `wait:<holder>` with the window on a second line, `at_us` until when, `used` when it last asked).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from artelier.log.database import Database
from artelier.log.rate_windows import PRESENT_US, WINDOW_US, Asked, Change, Claim, Taken

GRAIN_US = 100_000
"""What is taken in a tenth of a second shares a row, dated at its end: 600 rows a window, never freed
early."""

SHOWN_MAX = 200
"""Waiting calls of a process that people can see: each is a row that is written once a second."""


def take_turns(db: Database, asked: Sequence[Asked], *, now_us: int, holder: str) -> list[Taken]:
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


def change_turns(db: Database, changes: Sequence[Change]) -> None:
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

    def __init__(self, db: Database, scope: str, unit: str, *, now_us: int) -> None:
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


def _others_first(db: Database, scope: str, since_us: int, now_us: int, holder: str) -> bool:
    """Return True if a call of another process has waited longer for this window, and still does."""
    own = f"turn:{holder}"
    row = db.one(
        "SELECT 1 FROM rates WHERE scope = ? AND unit > 'turn:' AND unit < 'turn;' AND unit <> ?"
        " AND used > ? AND used <= ? AND (at_us < ? OR (at_us = ? AND unit < ?)) LIMIT 1",
        (scope, own, now_us - PRESENT_US, now_us + PRESENT_US, since_us, since_us, own),
    )
    return row is not None
