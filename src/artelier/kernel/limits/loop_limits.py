"""The limits of built-in loops at which a run fails, and how a person has it go on behind them.

A loop counts its cycles, equal calls in a row, and replies that do not fit. A run that ended by one of these
counts is reopened by `run.reopened`, which names the counts that begin anew (`resets`) and the limits that
were raised (`limits`), and the cycle behind which both hold. So a replay goes the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from artelier.errors import InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import Place, newest_state
from artelier.kernel.run.services import Services
from artelier.log.queries import stream_events

RESETS = {
    "max_iterations": "iterations",
    "stuck": "repeated",
    "output_invalid": "repairs",
    "output_cut": "repairs",
    "empty_reply": "repairs",
}
"""Reason of a failed run of a built-in loop to the count that it ended by."""

LIMITS = {"max_iterations": 1, "stuck_after": 2}
"""Limits of a loop that a person may raise, and the least of each."""

LIMIT_MAX = 1_000_000_000


def encode_limits(limits: Mapping[str, int | None]) -> str:
    """Return raised limits as a command carries them, such as `max_iterations=40 stuck_after=5`.

    Errors: `InvalidRequest` that names the limit.
    """
    said: list[str] = []
    for name, value in limits.items():
        if value is None:
            continue
        least = LIMITS[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LIMIT_MAX:  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not checked
            raise InvalidRequest(
                name, expected=f"a whole number from {least} to {LIMIT_MAX}", got=repr(value)[:80]
            )
        said.append(f"{name}={value}")
    return " ".join(said)


def decode_limits(text: str) -> dict[str, int] | None:
    """Return the limits of a command; None for what this version cannot read."""
    found: dict[str, int] = {}
    for item in text.split():
        name, _, value = item.partition("=")
        if name not in LIMITS or not value.isascii() or not value.isdigit() or len(value) > 10:
            return None
        found[name] = int(value)
    fits = all(LIMITS[name] <= value <= LIMIT_MAX for name, value in found.items())
    return found if fits else None


def resets_of(reason: str, *, raised: Mapping[str, int]) -> tuple[str, ...]:
    """Return the counts that begin anew when a run that failed for `reason` goes on.

    A limit that was raised is counted on instead: `max_iterations=30` of a run that ended after 20 cycles
    leaves ten.
    """
    count = RESETS.get(reason)
    if count is None or (count == "iterations" and "max_iterations" in raised):
        return ()
    return (count,)


async def completed_cycles(services: Services, places: Sequence[Place]) -> int:
    """Return how many cycles a built-in loop has completed, in a run and those it was forked from."""
    newest = await newest_state(services, places)
    cycle: object = 0 if newest is None else newest[0].get("cycle", 0)
    return cycle if isinstance(cycle, int) else 0


async def reopenings(
    services: Services, places: Sequence[Place], *, from_snapshot: bool
) -> list[ev.RunReopened]:
    """Return how a run, or those it was forked from, was reopened; the oldest first.

    `from_snapshot`: only what came after the newest completed cycle. Cost: O(events since then).
    """
    newest = await newest_state(services, places) if from_snapshot else None
    first, after = (len(places) - 1, 0) if newest is None else newest[1]
    found: list[ev.RunReopened] = []
    for index in range(first, -1, -1):
        place = places[index]
        rows = await stream_events(
            services.store,
            place.stream_id,
            ev.RunReopened.KIND,
            after=after if index == first else 0,
            upto=place.upto,
        )
        found += [row.read(ev.RunReopened) for row in rows]
    return found
