"""Reads of a world's events and of its agents' runs, through the views that log and kernel publish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from artelier.log import Store, Stream, Tx

_REACHES = """
WITH RECURSIVE halved(stream, low, high) AS (
  SELECT s.stream_id, 0, (SELECT max(e.seq) FROM event_log e WHERE e.stream_id = s.stream_id)
    FROM event_streams s WHERE s.tenant = ? AND s.space = ?
  UNION ALL
  SELECT h.stream, iif(e.at_us <= ?, e.seq, h.low), iif(e.at_us <= ?, h.high, e.seq - 1)
    FROM halved h JOIN event_log e ON e.stream_id = h.stream AND e.seq = (h.low + h.high + 1) / 2
   WHERE h.low < h.high)
SELECT s.name, h.low, e.position FROM halved h JOIN event_streams s ON s.stream_id = h.stream
  JOIN event_log e ON e.stream_id = h.stream AND e.seq = h.low
 WHERE h.low = h.high AND h.low > 0 ORDER BY s.name
"""


_IN_SPACE = "SELECT 1 FROM event_streams WHERE tenant = ? AND space = ? LIMIT 1"


class StreamReach(NamedTuple):
    """The last event of a stream that belongs to a tick or one before it."""

    stream: Stream
    seq: int
    position: int


class AgentRun(NamedTuple):
    """A run that asks models for an agent."""

    stream_id: int
    agent: str


class StoredCall(NamedTuple):
    """The event of a model call, its data as it was stored."""

    seq: int
    data: str


async def stream_reaches(store: Store, tenant: str, space: str, *, tick: int) -> list[StreamReach]:
    """Return every stream of a space that begins by the end of `tick`, by name, and how far it counts.

    Cost: O(streams * log events): ticks never go back within a stream, so that they are halved.
    """
    rows = await store.query(_REACHES, (tenant, space, tick, tick))
    return [StreamReach(Stream(tenant, space, name), seq, position) for name, seq, position in rows]


async def is_space_used(store: Store, tenant: str, space: str) -> bool:
    """Return True if a space has a stream."""
    return bool(await store.query(_IN_SPACE, (tenant, space)))


def is_space_taken(tx: Tx, tenant: str, space: str) -> bool:
    """Return True if a space has a stream, as the transaction sees it."""
    return tx.one(_IN_SPACE, (tenant, space)) is not None


async def agent_runs(store: Store, tenant: str, *, first: str, before: str) -> list[AgentRun]:
    """Return the runs with `first <= id < before`, in the order of their streams."""
    rows = await store.query(
        "SELECT stream_id, agent FROM run_status WHERE tenant = ? AND run >= ? AND run < ?"
        " ORDER BY stream_id",
        (tenant, first, before),
    )
    return [AgentRun(*row) for row in rows]


async def begins_by(store: Store, tenant: str, run: str, *, position: int) -> bool:
    """Return True if the first event of a run is at `position` or before it."""
    rows = await store.query(
        "SELECT 1 FROM run_status r JOIN event_log e ON e.stream_id = r.stream_id AND e.seq = 1"
        " WHERE r.tenant = ? AND r.run = ? AND e.position <= ?",
        (tenant, run, position),
    )
    return bool(rows)


async def newest_seq_before(store: Store, stream_id: int, *, position: int) -> int:
    """Return the last event of a stream before a position; 0 for none. Cost: the events behind it."""
    rows = await store.query(
        "SELECT seq FROM event_log WHERE stream_id = ? AND position < ? ORDER BY seq DESC LIMIT 1",
        (stream_id, position),
    )
    return rows[0][0] if rows else 0


async def model_calls_after(
    store: Store, stream_id: int, kinds: Sequence[str], *, after: int, limit: int
) -> list[StoredCall]:
    """Return events of some kinds of a run, a page of them."""
    rows = await store.query(
        "SELECT seq, data FROM event_log WHERE stream_id = ? AND seq > ?"
        f" AND kind IN ({', '.join('?' * len(kinds))}) ORDER BY seq LIMIT ?",
        (stream_id, after, *kinds, limit),
    )
    return [StoredCall(*row) for row in rows]


async def completed_calls(
    store: Store, stream_id: int, *, first: str, before: str, beside: str, kind: str
) -> list[str]:
    """Return the stored outcomes of the model steps with `first <= key < before`, but for `beside`."""
    rows = await store.query(
        "SELECT e.data FROM run_steps s JOIN event_log e ON e.stream_id = s.stream_id AND e.seq = s.completed"
        " WHERE s.stream_id = ? AND s.key >= ? AND s.key < ? AND s.key <> ? AND s.kind = 'model'"
        " AND e.kind = ?",
        (stream_id, first, before, beside, kind),
    )
    return [data for (data,) in rows]
