"""Limits and options of a run: what it is opened with, and the limits of built-in loops at which it fails.

Caps that runs share are in `scopes.py`; what a cap counts is the ledger's. A loop counts its cycles, equal
calls in a row, and replies that do not fit. A run that ended by one of these counts is reopened by
`run.reopened`, which names the counts that begin anew (`resets`) and the limits that were raised
(`limits`), and the cycle behind which both hold. So a replay goes the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from artelier.errors import Conflict, InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import Place, lineage, newest_state
from artelier.kernel.run.context import ResultStore, RunCore
from artelier.kernel.run.results import Limits
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.run.waits import microseconds
from artelier.ledger.queries import scope_limits
from artelier.log.queries import stream_events
from artelier.money import format_usd, parse_usd
from artelier.ports.tool import ToolPort

_FIRST_EVENTS = 8
"""Of a run's stream: its caps stand right behind the first one, at most one a unit."""


def cap_values(limits: Limits) -> list[tuple[str, int]]:
    """Return the caps that are set, as (unit, amount) in the smallest unit. Errors: `InvalidRequest`."""
    wall_s = limits.wall_s
    values = {
        "usd": None if limits.usd is None else parse_usd(limits.usd),
        "tokens": _count_cap("tokens", limits.tokens),
        "steps": _count_cap("steps", limits.steps),
        "ms": None if wall_s is None else microseconds(wall_s) // 1000,
    }
    return [(unit, cap) for unit, cap in values.items() if cap is not None]


def _count_cap(unit: str, cap: object) -> int | None:
    if cap is None or (isinstance(cap, int) and not isinstance(cap, bool) and 0 <= cap < 1 << 53):
        return cap
    raise InvalidRequest(f"a limit of {unit}", expected="a number from 0", got=repr(cap)[:80])


def opening_caps(limits: Limits | None, run_id: str) -> list[ev.LimitSet]:
    """Return the events that set the caps of a new run. Errors: `InvalidRequest`."""
    if limits is None:
        return []
    scope = f"run:{run_id}"
    return [ev.LimitSet(scope=scope, unit=unit, cap=cap) for unit, cap in cap_values(limits)]


async def check_limits(services: Services, tenant: str, run_id: str, limits: Limits | None) -> None:
    """Let a run that exists go on under its stored limits, whatever an operator made of them since.

    A program may say those that the run (or the origin that it is a fork of) was opened with, or those that
    hold now.
    Errors: `Conflict` for any other, which would be ignored; `InvalidRequest`.
    """
    said = [] if limits is None else cap_values(limits)
    if not said:
        return
    known = set[tuple[str, int]]()
    for place in await lineage(services, tenant, run_id):
        for event in (await services.store.read(place.stream, limit=_FIRST_EVENTS))[1:]:
            data = event.decode() if event.kind == ev.LimitSet.KIND else None
            if not isinstance(data, ev.LimitSet) or data.command:
                break
            if data.cap is not None:
                known.add((data.unit, data.cap))
    stored = await scope_limits(services.store, tenant, f"run:{run_id}")
    known.update((one.unit, one.cap) for one in stored if one.cap is not None)
    other = [(unit, cap) for unit, cap in said if (unit, cap) not in known]
    if other:
        units = {unit for unit, _ in other}
        raise Conflict(
            f"run {run_id!r} was opened with other limits, and those that are stored hold",
            expected=_format_caps([pair for pair in sorted(known) if pair[0] in units]),
            got=_format_caps(other),
            hint=f"Leave `limits` out, or change them by name: `artelier resume {run_id} --limit UNIT=CAP`,"
            " --budget-usd, or kernel.for_tenant(...).limit(...).",
        )


def _format_caps(caps: list[tuple[str, int]]) -> str:
    return " or ".join(_format_cap(unit, cap) for unit, cap in caps) or "no such limit"


def _format_cap(unit: str, cap: int) -> str:
    """Return a cap as `Limits` is told it."""
    if unit == "usd":
        return f"usd={format_usd(cap)}"
    return f"wall_s={cap / 1000:g}" if unit == "ms" else f"{unit}={cap}"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The options with which a caller opens a run. Those for new runs are ignored if the run exists."""

    run_id: str
    on_wait: str = "await"
    replay: str = "strict"
    limits: Limits | None = None
    grants: tuple[str, ...] | None = None
    parent: RunCore | None = None
    parent_step: str | None = None
    ended_parent: str = ""
    """Id of a run that has ended and whose child a new run is all the same: it counts in its limits."""
    scopes: tuple[str, ...] = ()
    """In which it counts what it uses, beside its own, its ancestors' and the tenant's: `agent:<id>`, ..."""
    loop: str = ""
    agent: str = ""
    model: str = ""
    goal: Any = None
    settings: Any = None
    from_snapshot: bool = False
    """A built-in loop resumes from its newest snapshot instead of reading its whole history."""
    read_only: bool = False
    """Only replay: take no lease and record nothing."""
    principal: str = "kernel"
    by: str = ""
    """Who asked for it, as its first event says; empty for the principal."""
    tools: Mapping[str, ToolPort] | None = None
    """Tools of this run; None: those of the kernel."""
    is_detached: bool = False
    """It stays open beyond the code that opens it."""
    subject: str = ""
    """Whom its content is about: what it stores is sealed under a key of its own (see
    `privacy/erasure.py`)."""
    key_id: int | None = None
    """The subject's key that what it goes on from is stored under; a new run shares it."""
    compensating: bool = False
    """What an ended run has done is undone: it takes these steps, and stays what it is."""


class OpenedRun(Protocol):
    """A handle on a run that is open."""

    @property
    def core(self) -> RunCore: ...


class Opener(Protocol):
    """Opens a run: `OpenRun`, for what stands below it."""

    def __call__(
        self,
        services: Services,
        find_tenant: Callable[[], Awaitable[TenantState]],
        opening: Opening,
        store_result: ResultStore | None = None,
        /,
    ) -> AbstractAsyncContextManager[OpenedRun]: ...
