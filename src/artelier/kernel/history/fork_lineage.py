"""The history of a run: its own stream, and the streams of the runs that it was forked from.

A fork copies nothing. What was recorded before it is read from its origin, up to the event it branched from,
and so on through the origin's own origins. A conversation may likewise continue one of another run: its
base, which may have a base itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from artelier.errors import CorruptStore, Erased, NotFound
from artelier.kernel import events as ev
from artelier.kernel.history.step_history import Segment
from artelier.kernel.run.context import run_row
from artelier.kernel.run.services import Services
from artelier.log import DataKey, Stream, decode_stored, run_stream, stored_blob

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
        row = await run_row(services, tenant, name)
        places.append(Place(run_id=name, stream_id=row["id"], stream=run_stream(tenant, name), upto=upto))
        name, upto = row["origin"], row["origin_seq"] or 0
    return places


class MessageRow(NamedTuple):
    """A message as the view has it; see `Entry`."""

    n: int
    form: str
    ref: str
    call: str


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
        rows = await services.store.query(
            "SELECT n, form, ref, call FROM messages WHERE run = ? AND conversation = ?"
            " AND n BETWEEN ? AND ? AND seq <= ? AND form <> 'b'"
            " UNION ALL SELECT n, form, ref, call FROM (SELECT n, form, ref, call FROM messages"
            " WHERE run = ? AND conversation = ? AND seq <= ? ORDER BY n LIMIT 1)"
            " WHERE form = 'b'",
            (
                *(place.stream_id, conversation, start, end, place.upto),
                *(place.stream_id, conversation, place.upto),
            ),
        )
        for row in map(MessageRow._make, rows):
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
        found.append(Segment(place.stream, after if number == index else 0, upto, number > 0))
    return [segment for segment in found if segment.upto > segment.after]


async def newest_state(
    services: Services, places: Sequence[Place]
) -> tuple[dict[str, Any], tuple[int, int]] | None:
    """State of a built-in loop's newest completed cycle and its `(place, seq)`; None if it has none.

    It comes from the snapshots, or from the log alone if they are gone.
    """
    for index, place in enumerate(places):
        rows = await services.store.query(
            "SELECT state, seq FROM snapshots WHERE run = ? AND seq <= ? ORDER BY cycle DESC LIMIT 1",
            (place.stream_id, place.upto),
        )
        after = rows[0][1] if rows else 0
        newer = await services.store.query(
            "SELECT data, seq FROM events WHERE stream = ? AND seq > ? AND seq <= ?"
            " AND kind = 'cycle.completed' ORDER BY seq DESC LIMIT 1",
            (place.stream_id, after, place.upto),
        )
        if newer:
            state = decode_stored(newer[0][0], type=ev.CycleCompleted).state
            return state, (index, newer[0][1])
        if rows:
            return decode_stored(rows[0][0], type=dict[str, Any]), (index, rows[0][1])
    return None


async def grants_of(services: Services, places: Sequence[Place]) -> tuple[str, ...]:
    """The grants a run was started with; a fork has those of its oldest origin."""
    started = (await services.store.read(places[-1].stream, limit=1))[0].decode()
    assert isinstance(started, ev.RunStarted)
    return started.grants


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
    """The key that names a run's content: the tenant's, or the one that an import brought with it.

    A fork of an imported run goes on under the imported key, so that equal content keeps one name; so does
    a run that has a subject, and each of its forks, under the subject's.
    Errors: `Erased` if that key was dropped, or the tenant's since.
    """
    names = ", ".join("?" * len(places))
    tenant = places[0].stream.tenant
    rows = await services.store.query(
        f"SELECT key_id FROM imports WHERE tenant = ? AND run IN ({names}) LIMIT 1",
        (tenant, *(place.run_id for place in places)),
    )
    if not rows:
        rows = await services.store.query(_KEYED, (places[0].stream_id,))
    if rows:
        key = await services.store.key_by_id(tenant, rows[0][0])
        if key is None:
            raise _erased_error(places[0].run_id)
        return key
    if await services.store.query(_ERASED_SINCE, (tenant, places[0].stream_id)):
        raise _erased_error(places[0].run_id)
    return await services.store.data_key(tenant)


_KEYED = "SELECT key_id FROM keyed WHERE run = ?"
_ERASED_SINCE = (
    "SELECT 1 FROM erasures WHERE tenant = ? AND whole"
    " AND position > (SELECT position FROM events WHERE stream = ? AND seq = 1) LIMIT 1"
)


def _erased_error(run_id: str) -> Erased:
    return Erased(
        f"what run {run_id!r} stored was erased", hint="Its events, times and costs are still there."
    )


async def subject_key(services: Services, tenant: str, run_id: str) -> int | None:
    """The row in `keys` of the subject's key that a run stores under; None if it has no subject."""
    rows = await services.store.query(RUN_KEY, (tenant, run_id))
    return rows[0][0] if rows else None


KEYED = (
    "FROM keyed k JOIN runs r ON r.id = k.run WHERE r.tenant = ?"
    " AND NOT EXISTS (SELECT 1 FROM imports i WHERE i.tenant = r.tenant AND i.run = r.run)"
)
"""Of an imported run, the number is a row in the store that it came from."""

RUN_KEY = f"SELECT k.key_id {KEYED} AND r.run = ?"


async def is_imported(services: Services, tenant: str, run_id: str) -> bool:
    """Return True if a run was driven in another store. Its lease is there; so it takes no new steps here."""
    rows = await services.store.query("SELECT 1 FROM imports WHERE tenant = ? AND run = ?", (tenant, run_id))
    return bool(rows)


async def earlier_events(
    services: Services, place: Place, key: str, *, kinds: Sequence[str]
) -> list[tuple[int, str]]:
    """`(seq, kind)` of a step's events in the part of an origin that counts, oldest first.

    For steps that the origin has asked for again since: the row in `steps` tells of the later time only.
    Cost: O(events of that part).
    """
    marks = ", ".join("?" * len(kinds))
    named = msgspec.json.encode({"key": key}).decode()[1:-1]
    return [
        (seq, kind)
        for seq, kind in await services.store.query(
            f"SELECT seq, kind FROM events WHERE stream = ? AND seq <= ? AND kind IN ({marks})"
            " AND instr(data, ?) > 0 ORDER BY seq",
            (place.stream_id, place.upto, *kinds, named),
        )
    ]


async def dispatcher_of(services: Services, tenant: str, run_id: str, key: str) -> str:
    """The run that dispatched a tool step first: the origin, if the fork found it without an outcome."""
    found = run_id
    for place in await lineage(services, tenant, run_id):
        rows = await services.store.query(
            "SELECT 1 FROM steps WHERE run = ? AND key = ? AND kind = 'tool' AND requested <= ?",
            (place.stream_id, key, place.upto),
        )
        if rows:
            found = place.run_id
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
