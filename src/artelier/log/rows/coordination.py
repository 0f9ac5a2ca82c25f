"""Rows by which processes agree: the leases of streams, and what of their rates they have used.

Neither is a view: a lease ends with its holder, a window of rates after a minute. Table `rates(scope, unit,
at_us, used)` has three sorts of rows: amounts taken (`unit` is `requests` or `tokens`, `at_us` when); the
longest waiter of a process (`unit` is `turn:<holder>`, `at_us` since when, `used` when it last asked), so
that a process with many small calls lets another's large one pass; and, for people, the runs that wait
(`scope` is `run:<tenant>/<run>`, `unit` `wait:<holder>` with the window on a second line, `at_us` until
when, `used` when it last asked). A function that writes is called in a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from artelier.log.contract import LeaseEnd
from artelier.log.database import Database
from artelier.log.event import Stream


class StoredLease(NamedTuple):
    """The lease of a stream."""

    holder: str
    end: LeaseEnd
    progress: int
    """The position of the stream when it was taken."""
    stalled: int
    """Holders before this one that did nothing."""


def find_lease(db: Database, stream: Stream) -> StoredLease | None:
    """Return the lease of a stream, expired or not."""
    row = db.one(
        "SELECT holder, expires_us, expires_uptime_us, progress, stalled FROM leases WHERE stream = ?",
        (stream.name,),
    )
    return None if row is None else StoredLease(row[0], LeaseEnd(*row[1:3]), row[3], row[4])


def find_token(db: Database, stream: Stream) -> int:
    """Return the fencing token of a stream's lease; 0 without one."""
    row = db.one("SELECT token FROM leases WHERE stream = ?", (stream.name,))
    return row[0] if row else 0


def add_lease(db: Database, stream: Stream, lease: StoredLease) -> int:
    """Add a lease, and return its token."""
    made = db.one(
        "INSERT INTO leases(stream, holder, expires_us, expires_uptime_us, progress, stalled)"
        " VALUES (?, ?, ?, ?, ?, ?) RETURNING token",
        (stream.name, lease.holder, *lease.end, lease.progress, lease.stalled),
    )
    return made[0] if made else 0


def extend_leases(db: Database, holder: str, *, until: LeaseEnd, streams: Sequence[Stream] | None) -> None:
    """Move the end of a holder's leases, or of those of some streams."""
    sql = "UPDATE leases SET expires_us = ?, expires_uptime_us = ? WHERE holder = ?"
    if streams is None:
        db.execute(sql, (*until, holder))
    else:
        named = [(*until, holder, stream.name) for stream in streams]
        db.executemany(f"{sql} AND stream = ?", named)


def drop_lease(db: Database, stream: Stream) -> None:
    """Delete the lease of a stream."""
    db.execute("DELETE FROM leases WHERE stream = ?", (stream.name,))


def give_back(db: Database, stream: Stream, token: int) -> None:
    """Delete the lease of a stream if it has this token still."""
    db.execute("DELETE FROM leases WHERE stream = ? AND token = ?", (stream.name, token))


def held_leases(db: Database) -> list[tuple[str, str, LeaseEnd]]:
    """Return full name of the stream, holder and end of each lease."""
    rows = db.execute("SELECT stream, holder, expires_us, expires_uptime_us FROM leases").fetchall()
    return [(stream, holder, LeaseEnd(*end)) for stream, holder, *end in rows]


# Rates

_ADD_RATE = "INSERT INTO rates(scope, unit, at_us, used) VALUES (?, ?, ?, ?)"


def drop_waiters(db: Database, holder: str) -> None:
    """Delete what a process has said of its waiting calls."""
    db.execute(
        "DELETE FROM rates WHERE unit = ? OR (unit > ? AND unit < ?)",
        (f"turn:{holder}", f"wait:{holder}\n", f"wait:{holder}\v"),
    )


def add_waiter(db: Database, scope: str, holder: str, *, since_us: int, now_us: int) -> None:
    """Say since when the longest waiter of a process waits for a window."""
    db.execute(_ADD_RATE, (scope, f"turn:{holder}", since_us, now_us))


def has_older_waiter(
    db: Database, scope: str, holder: str, *, since_us: int, seen_after_us: int, seen_upto_us: int
) -> bool:
    """Return True if a call of another process has waited longer for this window, and was seen in between."""
    own = f"turn:{holder}"
    row = db.one(
        "SELECT 1 FROM rates WHERE scope = ? AND unit > 'turn:' AND unit < 'turn;' AND unit <> ?"
        " AND used > ? AND used <= ? AND (at_us < ? OR (at_us = ? AND unit < ?)) LIMIT 1",
        (scope, own, seen_after_us, seen_upto_us, since_us, since_us, own),
    )
    return row is not None


class WaitingRun(NamedTuple):
    """A run that waits for a window, as people see it."""

    run: str
    """`tenant/run`."""
    window: str
    until_us: int


def add_waiting_runs(db: Database, holder: str, runs: Sequence[WaitingRun], *, now_us: int) -> None:
    """Say which runs of a process wait."""
    rows = [(f"run:{one.run}", f"wait:{holder}\n{one.window}", one.until_us, now_us) for one in runs]
    db.executemany(_ADD_RATE, rows)


def drop_used_outside(db: Database, scope: str, unit: str, *, first_us: int, last_us: int) -> None:
    """Delete what was taken of a window up to one time, and behind another."""
    db.execute(
        "DELETE FROM rates WHERE scope = ? AND unit = ? AND (at_us <= ? OR at_us > ?)",
        (scope, unit, first_us, last_us),
    )


def used_of(db: Database, scope: str, unit: str) -> list[tuple[int, int]]:
    """Return when how much of a window was taken, oldest first."""
    sql = "SELECT at_us, used FROM rates WHERE scope = ? AND unit = ? ORDER BY at_us"
    return db.execute(sql, (scope, unit)).fetchall()


def change_used(db: Database, scope: str, unit: str, at_us: int, amount: int) -> bool:
    """Correct what was taken at a moment, never below 0; False if nothing was."""
    sql = "UPDATE rates SET used = max(0, used + ?) WHERE scope = ? AND unit = ? AND at_us = ?"
    return bool(db.execute(sql, (amount, scope, unit, at_us)).rowcount)


def add_used(db: Database, scope: str, unit: str, at_us: int, amount: int) -> None:
    """Say that an amount was taken at a moment."""
    db.execute(_ADD_RATE, (scope, unit, at_us, amount))


def count_rates(db: Database, *, before_us: int) -> int:
    """Return how many rows are older than a moment."""
    return db.only("SELECT count(*) FROM rates WHERE at_us < ?", (before_us,))[0]


def drop_rates(db: Database, *, before_us: int) -> int:
    """Delete the rows that are older than a moment, and return how many."""
    return db.execute("DELETE FROM rates WHERE at_us < ?", (before_us,)).rowcount
