"""Limits of a run: what it is opened with, and what holds when the same is said again of a run that exists.

Caps that runs share are in `scopes.py`; what a cap counts is the ledger's.
"""

from __future__ import annotations

from artelier.errors import Conflict, InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.run.results import Limits
from artelier.kernel.run.services import Services
from artelier.kernel.run.waits import microseconds
from artelier.ledger.queries import scope_limits
from artelier.money import format_usd, parse_usd

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
