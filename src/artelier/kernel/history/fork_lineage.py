"""The history of a run: its own stream, and the streams of the runs that it was forked from.

A fork copies nothing. What was recorded before it is read from its origin, up to the event it branched from,
and so on through the origin's own origins. A conversation may likewise continue one of another run: its
base, which may have a base itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from artelier.errors import CorruptStore, Erased, NotFound
from artelier.kernel import events as ev
from artelier.kernel.history.step_history import Segment
from artelier.kernel.queries.content import MessageRow, messages_between, newest_snapshot
from artelier.kernel.queries.runs import run_row
from artelier.kernel.queries.steps import find_step, untouched_calls
from artelier.kernel.queries.tenants import imported_key, is_erased_since_begin, own_key
from artelier.kernel.run.services import Services
from artelier.log import DataKey, Store, Stream, decode_stored, run_stream, stored_blob
from artelier.log.queries import stream_events

OPEN_END = 1 << 62
"""As `upto`: all that there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A stretch of a run's lineage: a stream, and the last seq of it that counts."""

    run_id: str
    stream_id: int
    stream: Stream
    upto: int


async def lineage(services: Services, tenant: str, run_id: str) -> list[Place]:
    """The run itself, then its origin, then the origin's origin. Errors: `NotFound`."""
    places: list[Place] = []
    name: str | None = run_id
    upto = OPEN_END
    while name is not None:
        row = await run_row(services.store, tenant, name)
        places.append(Place(run_id=name, stream_id=row.id, stream=run_stream(tenant, name), upto=upto))
        name, upto = row.origin, row.origin_seq or 0
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The base of a conversation: its messages up to `upto` are those of another run's conversation."""

    run_id: str
    conversation: str
    upto: int


async def stretch_of(
    services: Services, places: Sequence[Place], conversation: str, *, start: int, end: int
) -> tuple[dict[int, tuple[Place, MessageRow]], Base | None]:
    """Messages `start..end` that a run has itself or by its origins, and what the conversation goes on from.

    Cost: one query per place.
    """
    found: dict[int, tuple[Place, MessageRow]] = {}
    base: Base | None = None
    for place in places:
        rows = await messages_between(
            services.store, place.stream_id, conversation, start=start, end=end, upto=place.upto
        )
        for row in rows:
            if row.form != "b":
                found.setdefault(row.n, (place, row))
            elif base is None:
                base = Base(run_id=row.ref, conversation=row.call, upto=row.n)
    return found, base


def next_base(base: Base, *, below: int | None) -> Base:
    """The base itself. Errors: `CorruptStore` if its numbers do not descend, as in a circle."""
    if below is not None and base.upto >= below:
        raise CorruptStore(
            "a conversation goes on from one that does not come before it",
            got=f"{base.conversation[:80]!r} of {base.run_id[:120]!r}",
            hint="Run `artelier verify`.",
        )
    return base


async def owner_of(
    services: Services, tenant: str, run_id: str, conversation: str, *, number: int
) -> tuple[str, str]:
    """The run whose own stream has a message, and its conversation there. Errors: `NotFound`.

    Cost: two queries for each conversation that this one goes on from.
    """
    asked, below = (run_id, conversation), None
    while True:
        places = await lineage(services, tenant, run_id)
        found, base = await stretch_of(services, places, conversation, start=number, end=number)
        if number in found:
            return found[number][0].run_id, conversation
        if base is None or base.upto < number:
            raise NotFound(f"run {asked[0]!r} has no message {number} in conversation {asked[1][:80]!r}")
        below = next_base(base, below=below).upto
        run_id, conversation = base.run_id, base.conversation


def segments(places: Sequence[Place], *, head: int, start: tuple[int, int]) -> list[Segment]:
    """The history of a lineage, oldest first. `start` is `(place, seq)`: nothing up to it is read."""
    index, after = start
    found: list[Segment] = []
    for number in range(index, -1, -1):
        place = places[number]
        upto = head if number == 0 else place.upto
        seq = after if number == index else 0
        found.append(Segment(place.stream_id, place.stream, seq, upto, number > 0))
    return [segment for segment in found if segment.upto > segment.after]


async def newest_state(
    services: Services, places: Sequence[Place]
) -> tuple[dict[str, Any], tuple[int, int]] | None:
    """State of a built-in loop's newest completed cycle and its `(place, seq)`; None if it has none.

    It comes from the snapshots, or from the log alone if they are gone.
    """
    for index, place in enumerate(places):
        snapshot = await newest_snapshot(services.store, place.stream_id, upto=place.upto)
        newer = await stream_events(
            services.store,
            place.stream_id,
            ev.CycleCompleted.KIND,
            after=0 if snapshot is None else snapshot.seq,
            upto=place.upto,
            newest=1,
        )
        if newer:
            return newer[0].read(ev.CycleCompleted).state, (index, newer[0].seq)
        if snapshot is not None:
            return decode_stored(snapshot.state, type=dict[str, Any]), (index, snapshot.seq)
    return None


async def grants_of(services: Services, places: Sequence[Place]) -> tuple[str, ...]:
    """The grants a run was started with; a fork has those of its oldest origin."""
    started = (await services.store.read(places[-1].stream, limit=1))[0].decode()
    assert isinstance(started, ev.RunStarted)
    return started.grants


async def params_of(services: Services, places: Sequence[Place]) -> dict[str, Any]:
    """Return the parameters of model calls that a lineage was started with."""
    started = (await services.store.read(places[-1].stream, limit=1))[0].decode()
    if not isinstance(started, ev.RunStarted) or started.params is None:
        return {}
    content = await stored_blob(services.store, places[-1].stream.tenant, started.params)
    return decode_stored(content, type=dict[str, Any])


async def changes_of(services: Services, places: Sequence[Place]) -> dict[str, Any]:
    """Return what the forks of a lineage changed; a nearer fork's word counts."""
    changes: dict[str, Any] = {}
    for place in reversed(places[:-1]):
        forked = (await services.store.read(place.stream, limit=1))[0].decode()
        if isinstance(forked, ev.RunForked) and forked.changes is not None:
            content = await stored_blob(services.store, place.stream.tenant, forked.changes)
            changes.update(decode_stored(content, type=dict[str, Any]))
    return changes


async def pii_rules_of(services: Services, places: Sequence[Place]) -> int:
    """Return the rules for personal data that a lineage was started under."""
    started = (await services.store.read(places[-1].stream, limit=1))[0].decode()
    return started.pii_rules if isinstance(started, ev.RunStarted) else 1


async def key_of(services: Services, places: Sequence[Place]) -> DataKey:
    """The key that names a run's content: the first of `keys_of`. Errors: as there."""
    return (await keys_of(services, places))[0]


async def keys_of(services: Services, places: Sequence[Place]) -> tuple[DataKey, DataKey]:
    """Return the keys that name a run's record, and what it writes elsewhere; mostly the same.

    That is the tenant's, or the one that an import brought with it. A fork of an imported run goes on under
    the imported key, so that equal content keeps one name; so does a run that has a subject, and each of its
    forks, under the subject's. A run whose record can be erased alone has a key for that, as have its forks.
    Errors: `Erased` if a key was dropped, or the tenant's since.
    """
    store, tenant = services.store, places[0].stream.tenant
    brought = await imported_key(store, tenant, [place.run_id for place in places])
    shared = await _shared_key(services, places, brought)
    part = await part_key_id(store, places) if brought is None else None
    if part is None:
        return shared, shared
    key = await store.key_by_id(tenant, part)
    if key is None:
        raise _erased_error(places[0].run_id)
    return key, shared


async def part_key_id(store: Store, places: Sequence[Place]) -> int | None:
    """Return the key of the record of a lineage alone, as its first event says; None if it has none."""
    started = (await store.read(places[-1].stream, limit=1))[0].decode()
    return started.part_key_id if isinstance(started, ev.RunStarted) else None


async def _shared_key(
    services: Services, places: Sequence[Place], brought: tuple[int | None] | None
) -> DataKey:
    store, tenant = services.store, places[0].stream.tenant
    if brought is None and (own := await own_key(store, places[0].stream_id)) is not None:
        brought = (own,)
    if brought is not None:
        key = await store.key_by_id(tenant, brought[0])
        if key is None:
            raise _erased_error(places[0].run_id)
        return key
    if await is_erased_since_begin(store, tenant, places[0].stream_id):
        raise _erased_error(places[0].run_id)
    return await store.data_key(tenant)


def _erased_error(run_id: str) -> Erased:
    return Erased(
        f"what run {run_id!r} stored was erased", hint="Its events, times and costs are still there."
    )


async def earlier_events(
    services: Services, place: Place, key: str, *, kinds: Sequence[str]
) -> list[tuple[int, str]]:
    """`(seq, kind)` of a step's events in the part of an origin that counts, oldest first.

    For steps that the origin has asked for again since: the row in `steps` tells of the later time only.
    Cost: O(events of that part).
    """
    named = msgspec.json.encode({"key": key}).decode()[1:-1]
    rows = await stream_events(services.store, place.stream_id, *kinds, upto=place.upto, containing=named)
    return [(row.seq, row.kind) for row in rows]


async def dispatcher_of(services: Services, tenant: str, run_id: str, key: str) -> str:
    """The run that dispatched a tool step first: the origin, if the fork found it without an outcome.

    One that had done nothing yet at its origin is asked for anew.
    """
    found, store = run_id, services.store
    for place in await lineage(services, tenant, run_id):
        step = await find_step(store, place.stream_id, key, upto=place.upto)
        if step is None or step.kind != "tool":
            continue
        if place.run_id != run_id:
            is_another = key in await untouched_calls(store, place.stream_id, upto=place.upto)
            found = found if is_another else place.run_id
    return found


async def key_owner_of(
    services: Services, tenant: str, run_id: str, key: str, request: ev.ToolRequested
) -> str:
    """Return the run that stands in a tool step's idempotency key.

    That is the run that dispatched the step first; for a step that undoes another one, the run
    that dispatched the other.
    """
    dispatcher = await dispatcher_of(services, tenant, run_id, key)
    if not request.undoes:
        return dispatcher
    return request.undoes_in or await dispatcher_of(services, tenant, dispatcher, request.undoes)
