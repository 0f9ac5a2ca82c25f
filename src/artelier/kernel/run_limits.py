"""Limits and options of a run: what it is opened with, and the limits of built-in loops at which it fails.

Caps that runs share are those of scopes; what a cap counts is the ledger's. A loop counts its cycles, equal
calls in a row, and replies that do not fit. A run that ended by one of these counts is reopened by
`run.reopened`, which names the counts that begin anew (`resets`) and the limits that were raised
(`limits`), and the cycle behind which both hold. So a replay goes the same way.

Scopes that runs count in: their own, their ancestors', the tenant's, and those that they are opened with.

A scope that a run is opened with (an agent's, a membrane's) has counters from then on, with a cap or without.
So a cap set later holds at once, in every process: the ledger compares it in the transaction of the request.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, cast

from artelier.artifacts.media.inspection import MediaFacts
from artelier.errors import Conflict, Exhausted, InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import Place, lineage, newest_state
from artelier.kernel.queries.runs import run_row, runs_by_id, used_below_now
from artelier.kernel.run.context import ResultStore, RunCore
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.run.status import Limits
from artelier.kernel.run.waits import microseconds
from artelier.ledger import COUNTED
from artelier.ledger.queries import scope_limits
from artelier.log import Batch, Draft, StreamAppend, Tx, tenant_stream
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

GO_ON = "; go on with: artelier "
"""Begins the command that the message of such an end closes with."""

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
    attachments: tuple[MediaFacts, ...] = ()
    """Media that are stored with its first event; `settings` get them as `attachments`."""
    params: Mapping[str, Any] | None = None
    """Of its model calls, such as `temperature`, for those that have none of their own; a child's stand over
    its parent's."""
    from_snapshot: bool = False
    """A built-in loop resumes from its newest snapshot instead of reading its whole history."""
    read_only: bool = False
    """Only replay: take no lease and record nothing."""
    principal: str = "kernel"
    by: str = ""
    """Who asked for it, as its first event says; empty for the principal."""
    tools: Mapping[str, ToolPort] | None = None
    """Tools of this run; None: those of the kernel."""
    conversation: str = ""
    """Id of the chat that it is a turn of, as watchers are told."""
    is_detached: bool = False
    """It stays open beyond the code that opens it."""
    subject: str = ""
    """Whom its content is about: what it stores is sealed under a key of its own (see
    `privacy/erasure.py`)."""
    key_id: int | None = None
    """The subject's key that what it goes on from is stored under; a new run shares it."""
    part_key_id: int | None = None
    """A key below that one, or below the tenant's, that a new run's own record is stored under: it can be
    erased alone. Runs below the new one share it."""
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


async def refresh_caps_above(core: RunCore) -> None:
    """Apply the caps that are set above a child now: another process may have set or lifted one.

    Cost: one query for a run below others, nothing for another.
    """
    above = [one for one in core.scopes[1:] if one.startswith("run:") and one not in core.extra_scopes]
    if not above:
        return
    rows = await scope_limits(core.store, core.tenant.id, *above)
    capped = frozenset((one.scope, one.unit) for one in rows if one.cap is not None)
    before = frozenset(pair for pair in core.counted if pair[0] in above)
    if capped != before:
        core.counted = (core.counted - before) | capped
    if any(one.unit == "ms" for one in rows):
        core.deadlines = await deadlines(core.services, core.tenant.id, core.scopes)


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


# The first cap of a run


class UsedMeanwhile(Exhausted):
    """More was used than a new cap says: fact `used`."""


@contextmanager
def announce_cap(services: Services, tenant: str, effect: ev.LimitSet) -> Generator[None]:
    """Have what runs at work here use from now on count under a cap that is on its way into the log.

    What they have noted before goes ahead of it: the cap itself counts that. See `cap_guard`.
    """
    pair = (effect.scope, effect.unit)
    told = [
        core
        for core in tuple(services.active.values())
        if core.tenant.id == tenant and effect.scope in core.scopes and effect.unit in COUNTED
    ]
    for core in told:
        core.pending_caps |= {pair}
        if core.actor is not None:
            core.actor.hand_over()
    try:
        yield
    finally:
        for core in told:
            core.pending_caps -= {pair}


def cap_guard(tenant: str, run_id: str, effect: ev.LimitSet) -> Callable[[Tx], None] | None:
    """Return a guard that refuses a cap unless it says all that the run and those below it have used.

    It raises `UsedMeanwhile`: what is used between the reading and the writing of it would never count.
    """
    if effect.unit not in COUNTED:
        return None

    def check(tx: Tx) -> None:
        used = used_below_now(tx, tenant, run_id)[effect.unit]
        if used != effect.used:
            raise UsedMeanwhile(f"{effect.scope} has used {used} of {effect.unit} by now", used=used)

    return check


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


class UnitUse(TypedDict):
    """The use of one unit in a scope; `cap` is None for no cap."""

    used: int
    reserved: int
    cap: int | None


class ScopeUse(TypedDict):
    """The use of a scope: money in micro-dollars, tokens and steps."""

    scope: str
    usd: UnitUse
    tokens: UnitUse
    steps: UnitUse


async def used_of(services: Services, tenant: str, scope: str) -> ScopeUse:
    """`{scope, usd, tokens, steps}`, each `{used, reserved, cap}`; micro-dollars, and None for no cap."""
    rows = await scope_limits(services.store, tenant, check_scope(scope))
    found: dict[str, UnitUse] = {unit: {"used": 0, "reserved": 0, "cap": None} for unit in COUNTED}
    for _, unit, cap, reserved, used in rows:
        found[unit] = {"used": used, "reserved": reserved, "cap": cap}
    return {"scope": scope, "usd": found["usd"], "tokens": found["tokens"], "steps": found["steps"]}
