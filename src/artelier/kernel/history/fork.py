"""Forks: a new run that shares another's history up to an event, by reference, and goes its own way after it.

The fork pays for its own steps only. It inherits grants, caps (counted afresh), what was changed by forks
before it, and what people said that the origin had not taken note of yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec

from artelier.errors import Conflict, InvalidRequest, MissingKey, NotFound, SequenceConflict
from artelier.ids import check_run_id
from artelier.kernel import events as ev
from artelier.kernel.history.fork_effects import (
    OWN_NAMES,
    Uses,
    before_step,
    check_effects,
    check_refs,
    compose_refs,
    effects_of,
    fork_folder,
    refs_of,
)
from artelier.kernel.history.fork_lineage import Place, key_of, lineage
from artelier.kernel.prompt.manifest import canonical
from artelier.kernel.queries.runs import RunRow, check_nothing_below, count_between, run_row
from artelier.kernel.queries.steps import step_records
from artelier.kernel.queries.tenants import run_key
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.run.status import FINAL
from artelier.kernel.run_limits import completed_cycles, resets_of
from artelier.kernel.steps.step_keys import beside
from artelier.ledger.queries import scope_limits
from artelier.log import Batch, Blob, Draft, EventData, StreamAppend, make_blob, run_stream
from artelier.log.queries import stream_events
from artelier.tokens import canonical_name

CHANGES_BYTES_MAX = 64 * 1024
"""Stored bytes of what a fork changes (guess: hundreds of refs)."""

TAIL_EVENTS = 1000
"""Events before the branch that are searched for a failure which nothing follows."""

NAMES_MAX = 1000
"""Ids tried for a fork without one: more forks of one run made at once are a mistake."""


async def fork(
    services: Services,
    tenant: TenantState,
    run_id: str,
    *,
    at: int | None = None,
    changes: Mapping[str, Any] | None = None,
    new_id: str | None = None,
    effects: str = "recorded",
    by: str = "operator",
) -> str:
    """Make the fork, `pending`; its id. Opening it replays the shared history.

    Errors: see `TenantKernel.fork`.
    """
    places = await lineage(services, tenant.id, run_id)
    origin = places[0]
    head, _ = await services.store.head(origin.stream)
    if at is not None:
        at = _checked_at(at, head)
    wanted = _checked_changes(services, changes)
    refs = refs_of(wanted)
    above = await effects_of(services, tenant.id, run_id) if refs else None
    given: Mapping[str, str] = {} if above is None else above.replaced
    uses = await check_refs(services, tenant.id, places, refs, given)
    if given:
        own = {name: new for name, new in wanted.items() if name in OWN_NAMES}
        wanted = own | compose_refs(given, refs)
    row = await run_row(services.store, tenant.id, run_id)
    if row.status == "completed" and not OWN_NAMES.isdisjoint(wanted):
        first = await _first_asked(services, origin, row, wanted, at)
        uses = uses._replace(first=min(first, first if uses.first is None else uses.first))
    upto = await _branch(services, origin, row, head, at, uses)
    blobs: list[Blob] = []
    ref, key = None, await key_of(services, places)
    if wanted:
        ref, blob = make_blob(tenant.id, key, canonical(wanted))
        blobs.append(blob)
    key_id = await run_key(services.store, tenant.id, run_id)
    mode = check_effects(effects)
    carried = await unheard(services, origin, upto)
    reopened = await _reopening(services, origin, upto, places)
    names = [new_id] if new_id is not None else await _names(services, tenant.id, run_id)
    for name in names:
        check_run_id(name)
        await check_nothing_below(services.store, tenant.id, name)
        now = services.clock.now_us()
        forked = ev.RunForked(
            origin=run_id, at=upto, effects=mode, changes=ref, key_id=key_id, folder=fork_folder(name)
        )
        caps = await _caps(services, tenant.id, run_id, name)
        drafts = [Draft(data, now, by) for data in (forked, *caps)]
        if reopened is not None:
            drafts.append(Draft(reopened, now, by))
        drafts += [Draft(data, now, actor, f"{origin.stream.local}@{seq}") for seq, actor, data in carried]
        append = StreamAppend(run_stream(tenant.id, name), drafts, expected_seq=0)
        try:
            await services.store.append(Batch(appends=[append], blobs=blobs))
            return name
        except SequenceConflict:
            continue
    raise Conflict(
        f"run {run_id!r} cannot be forked under this id",
        expected="an id that no run has",
        got=new_id or f"{NAMES_MAX} forks",
    )


async def _branch(
    services: Services, origin: Place, row: RunRow, head: int, at: int | None, uses: Uses
) -> int:
    """Return the event to branch at: unless one is given, the last before a use of what is replaced.

    Errors: `NotFound` if the origin has completed and used some of it at no later event.
    """
    upto = at if at is not None else uses.first
    if upto is None:
        upto = await _newest(services, origin, head)
    if not uses.last:
        return upto
    for ref, last in uses.last.items():
        if row.status == "completed" and upto > last:
            raise NotFound(
                f"run {origin.run_id!r} does not use {ref!r} after event {upto}, so that this fork would"
                " replace nothing",
                expected=f"at most event {last}" if last else "a ref that the run itself used",
                got=upto,
                hint=f"--at {last} is the last that changes anything."
                if last
                else f"Only what it shares used it: fork {row.origin!r} instead.",
            )
    return upto


async def _first_asked(
    services: Services, origin: Place, row: RunRow, wanted: Mapping[str, Any], at: int | None
) -> int:
    """Return the event before the first model step that another model, or another steering, changes.

    A completed run asks for no new step, so that a fork behind all of them would be its origin once more.
    With `at`, all that follows is asked anew.
    Errors: `NotFound` if no step of the run's own is changed, or none follows `at`.
    """
    asked = [
        one
        for one in await step_records(services.store, origin.stream_id, "model")
        if one.request.kind == ev.ModelRequested.KIND and _EMBEDDING.search(one.step.key) is None
    ]
    what, name = "another steering", None
    if wanted.get("steering") is None and (model := wanted.get("model")) is not None:
        what, name = f"the model {model!r}", _canonical(services, model)
    if at is None:
        changed = [one for one in asked if one.request.read(ev.ModelRequested).model != name]
    else:
        changed = [one for one in asked if one.step.completed is None or one.step.completed > at]
        if not changed and not row.loop:
            return at  # code may have been written that goes on from there
    if changed:
        return await before_step(services, origin, changed[0].step.requested - 1)
    ends = [one.step.completed or 0 for one in asked]
    hint = "A fork without it, or with another, shares all of it." if at is None else None
    if at is not None and ends:
        hint = f"Event {max(ends) - 1} is the last that changes anything: --at {max(ends) - 1}, or none."
    elif row.origin:
        hint = f"What it shares belongs to another run: fork {row.origin!r}."
    raise NotFound(
        f"run {origin.run_id!r} has ended, and no step of it would be another with {what}",
        expected="a model step of its own" + (f" after event {at}" if at is not None else ""),
        got=f"{len(asked)} model steps",
        hint=hint,
    )


def _canonical(services: Services, model: str) -> str:
    try:
        return services.resolve(model)[0]
    except MissingKey:
        return canonical_name(model)


_EMBEDDING = re.compile(r"/embed/[0-9a-f]{16}\Z")
"""Keys of steps that ask an embedder, which keeps its model in a fork."""


async def _newest(services: Services, origin: Place, head: int) -> int:
    """The newest event that a fork can go on from: the one before the end, if the run has ended."""
    run = await run_row(services.store, origin.stream.tenant, origin.run_id)
    if run.status not in FINAL:
        return head
    ends = await stream_events(services.store, origin.stream_id, f"run.{run.status}", newest=1)
    return ends[0].seq - 1 if ends else head


def _checked_at(at: int, head: int) -> int:
    if isinstance(at, bool) or not isinstance(cast(object, at), int) or not 1 <= at <= head:
        raise InvalidRequest(
            "a fork branches from an event of its origin",
            expected=f"a seq from 1 to {head}",
            got=repr(at)[:80],
        )
    return at


def _checked_changes(services: Services, changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Errors: `InvalidRequest`; `UnknownModel` for a model that nobody has."""
    if changes is None:
        return {}
    if not isinstance(cast(object, changes), Mapping):
        raise InvalidRequest("what a fork changes is a mapping", got=type(changes).__name__)
    for name in cast(Mapping[object, Any], changes):
        if not isinstance(name, str):
            raise InvalidRequest("a fork changes what has a name", got=repr(name)[:80])
    model = changes.get("model")
    if model is not None:
        if not isinstance(model, str):
            raise InvalidRequest("a fork's model", expected="a name", got=repr(model)[:80])
        try:
            services.model(model)
        except MissingKey:
            pass  # its steps may be driven by a process that has the key
    try:
        size = len(canonical(dict(changes)))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidRequest(f"what a fork changes must be JSON data: {error}") from None
    if size > CHANGES_BYTES_MAX:
        raise InvalidRequest(
            "a fork changes too much", expected=f"at most {CHANGES_BYTES_MAX} bytes", got=size
        )
    return dict(changes)


async def _names(services: Services, tenant: str, run_id: str) -> list[str]:
    """Ids to try, the likely first one first."""
    first = 1 + await count_between(services.store, tenant, f"{run_id}.fork-", f"{run_id}.fork-:")
    return [f"{run_id}.fork-{number}" for number in range(first, first + NAMES_MAX)]


async def _caps(services: Services, tenant: str, origin: str, name: str) -> list[EventData]:
    """The origin's own caps, for the fork: its counters start at zero, since it has spent nothing."""
    caps = await scope_limits(services.store, tenant, f"run:{origin}")
    scope = f"run:{name}"
    return [ev.LimitSet(scope=scope, unit=one.unit, cap=one.cap) for one in caps if one.cap is not None]


async def _reopening(
    services: Services, origin: Place, upto: int, places: list[Place]
) -> ev.RunReopened | None:
    """Return what lets a fork go on where its origin failed: of a step, or by a count of its loop."""
    steps = await _failed_last(services, origin, upto)
    after = await services.store.read(origin.stream, after=upto, limit=1)
    end = after[0].decode() if after else None
    resets: tuple[str, ...] = ()
    if isinstance(end, ev.RunFailed):
        row = await run_row(services.store, origin.stream.tenant, origin.run_id)
        resets = resets_of(end.reason, raised={}) if row.loop else ()
    if not steps and not resets:
        return None
    prefix = [replace(origin, upto=upto), *places[1:]]
    cycle = await completed_cycles(services, prefix) if resets else 0
    return ev.RunReopened(queued=True, steps=steps, cycle=cycle, resets=resets, in_order=True)


async def _failed_last(services: Services, origin: Place, upto: int) -> tuple[str, ...]:
    """Failed steps that nothing follows in the prefix: the fork asks them again.

    Otherwise a fork of a failed run could only fail. A failure that the code went on after is kept.
    """
    failed: list[str] = []
    later: list[str] = []
    after = max(0, upto - TAIL_EVENTS)
    events = await services.store.read(origin.stream, after=after, limit=upto - after)
    for stored in reversed(events):
        data = stored.decode()
        if isinstance(data, ev.RunReopened):
            break
        if isinstance(data, ev.ModelFailed | ev.StepFailed):
            if any(not beside(data.key, key) for key in later):
                break
            if not (isinstance(data, ev.ModelFailed) and data.family == "cancelled"):
                failed.append(data.key)
        elif isinstance(data, _ASKING):
            later.append(data.key)
    return tuple(sorted(set(failed)))


_ASKING = (
    ev.ModelRequested,
    ev.ToolRequested,
    ev.ToolRefused,
    ev.StepCompleted,
    ev.ApprovalRequested,
    ev.WaitStarted,
)


async def unheard(
    services: Services, origin: Place, upto: int, *, later: bool = False
) -> list[tuple[int, str, EventData]]:
    """Notes and signals within the prefix that no step of it has taken, as `(seq, actor, data)`.

    With `later`, also those that came after it: for a fork that takes the place of its origin.
    The fork gets events of its own for them, so that both runs can take them, each in its own stream.
    """
    rows = await stream_events(
        services.store,
        origin.stream_id,
        *(ev.NoteInjected.KIND, ev.SignalReceived.KIND, ev.WaitEnded.KIND, ev.StepCompleted.KIND),
        upto=origin.upto if later else upto,
    )
    found: dict[int, tuple[str, EventData]] = {}
    for row in rows:
        event, seq = row.decode(), row.seq
        if isinstance(event, ev.NoteInjected):
            found[seq] = (row.actor, ev.NoteInjected(text=event.text))
        elif isinstance(event, ev.SignalReceived):
            found[seq] = (row.actor, ev.SignalReceived(name=event.name, data=event.data))
        elif seq > upto:
            continue  # what the part that is left behind has taken is there again
        elif isinstance(event, ev.WaitEnded):
            found.pop(event.signal, None)
        elif isinstance(event, ev.StepCompleted) and event.took:
            took = event.took
            for taken in [
                n for n, (_, item) in found.items() if n <= took and isinstance(item, ev.NoteInjected)
            ]:
                del found[taken]
    return [(seq, actor, data) for seq, (actor, data) in sorted(found.items())]
