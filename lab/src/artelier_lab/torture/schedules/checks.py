"""The invariants of schedules at the end of a seed, read from the file alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from artelier.agents.schedules.recurrence import MISSED_MAX, Timing
from artelier.app import VIEWS
from artelier_lab.torture.engine import engine

Finding = tuple[str, str]

_EVENTS = (
    "SELECT e.position, e.kind, e.data FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE s.name = ? ORDER BY e.seq"
)
_ENDS = (
    "SELECT s.name, e.kind, e.position FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE e.kind IN ('run.started', 'run.completed', 'run.failed', 'run.cancelled')"
)
ENDED = ("completed", "failed", "cancelled")


def audit_schedules(path: Path, calls: Mapping[str, int]) -> list[Finding]:
    """All that is wrong, by promise."""
    found = [("I1, I2: the log is the truth", text) for text in engine().verify(path, VIEWS).findings]
    with engine().reading(path) as db:
        starts: Counter[str] = Counter()
        ends: dict[str, int] = {}
        for name, kind, position in db.execute(_ENDS):
            run = name.removeprefix("run:")
            if kind == "run.started":
                starts[run] += 1
            else:
                ends[run] = position
        schedules = [name for (name,) in db.execute("SELECT schedule FROM schedules")]
        for schedule in schedules:
            events = [
                (position, kind.removeprefix("schedule."), json.loads(data))
                for position, kind, data in db.execute(_EVENTS, (f"schedule:{schedule}",))
            ]
            found += [("schedules: each time once", text) for text in _times(schedule, events)]
            found += [("schedules: overlap", text) for text in _overlaps(schedule, events, ends)]
            found += [("schedules: each firing is a run", text) for text in _runs(events, starts, ends)]
        statuses = dict(db.execute("SELECT run, status FROM runs"))
    found += [("I4: steps happen once", text) for text in _steps(calls, statuses)]
    return found


def _times(schedule: str, events: list[tuple[int, str, dict[str, Any]]]) -> list[str]:
    """Every time from the first to the last is decided once, or counted as missed."""
    found: list[str] = []
    added = next(data for _, kind, data in events if kind == "added")
    timing = Timing(
        **{name: added[name] for name in ("cron", "zone", "every_s", "anchor_us") if name in added}
    )
    queued: set[int] = set()
    decided: list[tuple[int, int]] = [(added["next_due_us"], 0)]
    first = True
    for _, kind, data in events:
        if kind not in ("fired", "skipped", "queued"):
            continue
        due_us = data["due_us"]
        if kind != "queued" and due_us in queued:
            queued.discard(due_us)  # it was decided when it was queued
            continue
        if kind == "queued":
            queued.add(due_us)
        if first:
            decided.clear()
            first = False
        decided.append((due_us, data.get("missed", 0)))
    for (before, _), (after, missed) in pairwise(decided):
        if after <= before:
            found.append(f"{schedule} decides {after} after {before}")
        elif missed < MISSED_MAX and not _follows(timing, before, after, missed):
            found.append(f"{schedule} loses a time between {before} and {after}, missed {missed}")
    runs = [data["run"] for _, kind, data in events if kind == "fired"]
    found += [f"{run} was fired {n} times" for run, n in Counter(runs).items() if n > 1]
    return found


def _follows(timing: Timing, before: int, after: int, missed: int) -> bool:
    at: int | None = before
    for _ in range(missed + 1):
        at = timing.after(at) if at is not None else None
    return at == after


def _overlaps(
    schedule: str, events: list[tuple[int, str, dict[str, Any]]], ends: Mapping[str, int]
) -> list[str]:
    """Nothing is fired while an earlier run goes on, but as the schedule allows it."""
    added = next(data for _, kind, data in events if kind == "added")
    if added.get("overlap", "skip") == "allow":
        return []
    found: list[str] = []
    fired = [(position, data) for position, kind, data in events if kind == "fired"]
    for (_, earlier), (position, data) in pairwise(fired):
        end = ends.get(earlier["run"])
        is_open = end is None or end > position
        if is_open and earlier["run"] not in data.get("cancels", ()):
            found.append(f"{data['run']} of {schedule} was fired while {earlier['run']} went on")
    return found


def _runs(
    events: list[tuple[int, str, dict[str, Any]]], starts: Mapping[str, int], ends: Mapping[str, int]
) -> list[str]:
    found: list[str] = []
    failed = {data["run"] for _, kind, data in events if kind == "failed"}
    for _, kind, data in events:
        if kind != "fired" or data["run"] in failed:
            continue
        run = data["run"]
        if starts.get(run, 0) != 1:
            found.append(f"{run} was started {starts.get(run, 0)} times")
        if run not in ends:
            found.append(f"{run} has not ended")
    return found


def _steps(calls: Mapping[str, int], statuses: Mapping[str, str]) -> list[str]:
    """A run that has ended well has computed both its steps."""
    return [
        f"{run} is completed without computing {n}"
        for run, status in statuses.items()
        if status == "completed"
        for n in (1, 2)
        if not calls.get(f"computed {run} {n}")
    ]
