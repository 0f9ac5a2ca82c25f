"""Compactions of a run as its log has them: what was summarised, why, by whom, and what was lost."""

from __future__ import annotations

from artelier.errors import NotFound
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.queries.steps import find_outcome
from artelier.kernel.run.services import Services
from artelier.log.queries import stream_events

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
        rows = await stream_events(services.store, place.stream_id, *_KINDS, upto=place.upto)
        for row in reversed(rows):
            event = row.read(_KINDS[row.kind])
            found.append((event.key, event))
    return found


async def receipt_of(services: Services, tenant: str, run_id: str, key: str) -> Receipt:
    """The receipt of one step. Errors: `NotFound`."""
    for place in await lineage(services, tenant, run_id):
        outcome = await find_outcome(services.store, place.stream_id, key, upto=place.upto)
        if outcome is not None and outcome.kind in _KINDS:
            return outcome.read(_KINDS[outcome.kind])
    raise NotFound(f"no compaction {key!r} in run {run_id}")
