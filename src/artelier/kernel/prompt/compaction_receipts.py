"""Compactions of a run as its log has them: what was summarised, why, by whom, and what was lost."""

from __future__ import annotations

from artelier.errors import NotFound
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.run.services import Services
from artelier.log import decode_stored

Receipt = ev.ContextCompacted | ev.ContextRestored

_KINDS: dict[str, type[ev.ContextCompacted] | type[ev.ContextRestored]] = {
    ev.ContextCompacted.KIND: ev.ContextCompacted,
    ev.ContextRestored.KIND: ev.ContextRestored,
}


async def receipts_of(services: Services, tenant: str, run_id: str) -> list[tuple[str, Receipt]]:
    """`(step key, event)` of every compaction and undo of a run, newest first. Errors: `NotFound`.

    Cost: O(events of the run): for people, and for an undo; no step waits for it.
    """
    found: list[tuple[str, Receipt]] = []
    for place in await lineage(services, tenant, run_id):
        rows = await services.store.query(
            "SELECT kind, data FROM events WHERE stream = ? AND seq <= ?"
            " AND kind IN ('context.compacted', 'context.restored') ORDER BY seq DESC",
            (place.stream_id, place.upto),
        )
        for kind, data in rows:
            event = decode_stored(data, type=_KINDS[kind])
            found.append((event.key, event))
    return found


async def receipt_of(services: Services, tenant: str, run_id: str, key: str) -> Receipt:
    """The receipt of one step. Errors: `NotFound`."""
    for place in await lineage(services, tenant, run_id):
        rows = await services.store.query(
            "SELECT e.kind, e.data FROM steps s JOIN events e ON e.stream = s.run"
            " AND e.seq = s.completed WHERE s.run = ? AND s.key = ? AND s.completed <= ?",
            (place.stream_id, key, place.upto),
        )
        if rows and rows[0][0] in _KINDS:
            return decode_stored(rows[0][1], type=_KINDS[rows[0][0]])
    raise NotFound(f"no compaction {key!r} in run {run_id}")
