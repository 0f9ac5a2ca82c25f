"""Scopes that runs count in: their own, their ancestors', the tenant's, and those that they are opened with.

A scope that a run is opened with (an agent's, a membrane's) has counters from then on, with a cap or without.
So a cap set later holds at once, in every process: the ledger compares it in the transaction of the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

from artelier.errors import InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import Place
from artelier.kernel.queries.runs import run_row, runs_by_id
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.services import Services
from artelier.ledger import COUNTED
from artelier.ledger.queries import scope_limits
from artelier.log import Batch, Draft, StreamAppend, tenant_stream

SCOPES_MAX = 64
"""Of one run: each costs three counters in every batch."""

SCOPE = re.compile(r"(?!run:)[a-z]{1,20}:[^\s\x00-\x1f\x7f]{1,512}")

_ALLOWED = "text such as agent:<id> or membrane:<id>, without blanks, at most 512 characters after the colon"


def check_scope(scope: object) -> str:
    """Errors: `InvalidRequest` for one that no run can be opened with, such as a run's or the tenant's."""
    if isinstance(scope, str) and SCOPE.fullmatch(scope) and scope.isprintable():
        return scope
    raise InvalidRequest("not a scope that runs can count in", expected=_ALLOWED, got=repr(scope)[:80])


def check_scopes(scopes: object) -> tuple[str, ...]:
    """Scopes, each once. Errors: `InvalidRequest`."""
    if not isinstance(scopes, tuple | list):
        raise InvalidRequest(
            "the scopes of a run are a list", expected="such as ('agent:m1/analyst',)", got=repr(scopes)[:80]
        )
    found = tuple(dict.fromkeys(check_scope(scope) for scope in cast(Sequence[object], scopes)))
    if len(found) > SCOPES_MAX:
        raise InvalidRequest(
            "a run counts in too many scopes", expected=f"at most {SCOPES_MAX}", got=len(found)
        )
    return found


async def scopes_of(services: Services, places: Sequence[Place]) -> tuple[str, ...]:
    """The scopes that a run was opened with; a fork has those of its oldest origin."""
    started = (await services.store.read(places[-1].stream, limit=1))[0].decode()
    return started.scopes if isinstance(started, ev.RunStarted) else ()


async def counters_of(services: Services, tenant: str, scopes: Sequence[str]) -> list[tuple[str, str]]:
    """The (scope, unit) pairs of some scopes that have counters by now, in order."""
    rows = await scope_limits(services.store, tenant, *scopes)
    return [(one.scope, one.unit) for one in rows if one.unit in COUNTED]


def count_also(core: RunCore, counters: Iterable[tuple[str, str]]) -> None:
    """Have a run count in scopes that it was not opened with, from its next step on.

    They take the place of those it was told before. Each of the `counters` must be there already (see
    `counters_of`): a step gives back what it has reserved, and only there.
    """
    old = frozenset(core.joined)
    kept = tuple(scope for scope in core.scopes if scope not in old)
    new = [(check_scope(scope), unit) for scope, unit in counters if scope not in kept]
    core.joined = check_scopes(tuple(scope for scope, _ in new))
    opened = tuple(scope for scope in core.extra_scopes if scope not in old)
    core.scopes, core.extra_scopes = (*kept, *core.joined), (*opened, *core.joined)
    core.counted = frozenset(new).union(pair for pair in core.counted if pair[0] not in old)


async def limits_of(
    services: Services, tenant: str, run_id: str, *, extra: tuple[str, ...]
) -> tuple[tuple[str, ...], frozenset[tuple[str, str]]]:
    """The scopes that a run counts in, and the (scope, unit) pairs of them that it counts."""
    scopes = [f"run:{run_id}"]
    row = await run_row(services.store, tenant, run_id)
    while row.parent is not None:
        scopes.append(f"run:{row.parent}")
        row = await run_row(services.store, tenant, row.parent)
    scopes.append("tenant")
    rows = await scope_limits(services.store, tenant, *scopes)
    counted = {(one.scope, one.unit) for one in rows if one.cap is not None}
    counted |= {(scope, unit) for scope in extra for unit in COUNTED}
    return (*scopes, *extra), frozenset(counted)


async def deadlines(services: Services, tenant: str, scopes: tuple[str, ...]) -> dict[str, int]:
    """Return when the time of each scope is up, of those that have a cap on it."""
    runs = [scope for scope in scopes if scope.startswith("run:")]
    capped = [one for one in await scope_limits(services.store, tenant, *runs) if one.unit == "ms"]
    if not any(one.cap is not None for one in capped):
        return {}
    found = await runs_by_id(services.store, tenant, [scope[4:] for scope in runs])
    return {
        one.scope: found[one.scope[4:]].started_us + one.cap * 1000
        for one in capped
        if one.cap is not None and one.scope[4:] in found
    }


# Caps of scopes that several runs count in


async def set_cap(
    services: Services, tenant: str, scope: str, *, unit: str, cap: int | None, by: str
) -> None:
    """Set or lift (None) the cap of a scope, for all runs that count in it, at work or not.

    Units:  micro-dollars, tokens or steps.
    Errors: `InvalidRequest`.
    """
    append = await plan_cap(services, tenant, scope, unit=unit, cap=cap, by=by)
    await services.store.append(Batch(appends=[append]))
    cap_changed(services, tenant, scope)


async def plan_cap(
    services: Services, tenant: str, scope: str, *, unit: str, cap: int | None, by: str
) -> StreamAppend:
    """All of `set_cap` but the append, for a caller with a batch of its own; `cap_changed` must follow it."""
    check_scope(scope)
    if unit not in COUNTED:
        raise InvalidRequest("unit of a cap", expected=", ".join(COUNTED), got=repr(unit)[:80])
    if cap is not None and not 0 <= cap < 1 << 53:
        raise InvalidRequest("a cap", expected="a number from 0", got=str(cap)[:80])
    used = (await used_of(services, tenant, scope))[unit]["used"]
    event = ev.LimitSet(scope=scope, unit=unit, cap=cap, used=used)
    return StreamAppend(tenant_stream(tenant), [Draft(event, services.clock.now_us(), by)])


def cap_changed(services: Services, tenant: str, scope: str) -> None:
    """Let calls that wait for room in a scope look again."""
    for core in tuple(services.active.values()):
        if core.tenant.id == tenant and scope in core.scopes:
            with suppress(RuntimeError):  # its loop was closed: nothing waits there
                core.loop.call_soon_threadsafe(core.came_back)


async def used_of(services: Services, tenant: str, scope: str) -> dict[str, Any]:
    """`{scope, usd, tokens, steps}`, each `{used, reserved, cap}`; micro-dollars, and None for no cap."""
    rows = await scope_limits(services.store, tenant, check_scope(scope))
    found: dict[str, Any] = {unit: {"used": 0, "reserved": 0, "cap": None} for unit in COUNTED}
    for _, unit, cap, reserved, used in rows:
        found[unit] = {"used": used, "reserved": reserved, "cap": cap}
    return {"scope": scope, **found}
