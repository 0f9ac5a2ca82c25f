"""Artifacts of a session: versions as the view keeps them, and what retention leaves of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from artelier.log import BlobRef, Store, decode_stored, stored_blob
from artelier.operations.events import Seen
from artelier.operations.graph.scope import covers

_COLUMNS = (
    "id",
    "scope",
    "tag",
    "node",
    "version",
    "prev",
    "value",
    "append",
    "usage",
    "semantics",
    "versions_max",
    "ttl_s",
    "operation",
    "profile",
    "run",
    "at_us",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionVersionRow:
    """One version of an artifact: a value, or an entry of a feed."""

    id: int
    scope: str
    tag: str
    node: int
    version: int
    """Counted along the path of the conversation."""
    prev: int
    value: str
    append: int
    usage: str
    semantics: str
    versions_max: int
    ttl_s: int
    operation: str
    profile: str
    run: str
    at_us: int


class StateReport(TypedDict):
    """An artifact of a session. Reports are dictionaries, because callers index them."""

    value: Any
    """JSON data."""
    version: int
    usage: str
    semantics: str
    append: bool
    """True for a feed."""
    operation: str
    run_id: str
    at_us: int


class StateVersion(TypedDict):
    """An earlier value of an artifact, or an entry of a feed."""

    value: Any
    """JSON data."""
    version: int
    at_us: int
    run: str
    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """An artifact at one node: its versions, newest first, as many as it retains by count."""

    newest: SessionVersionRow
    rows: tuple[SessionVersionRow, ...]

    def retain(self, *, now_us: int) -> tuple[SessionVersionRow, ...]:
        """Return what retention leaves: of a feed its entries, else the current value and earlier ones.

        A current value has no age; the newest entry of a feed has. What is older than the first that is
        too old has gone as well, and so has what was written while fewer might see it.
        """
        newest = self.newest
        rows = self.rows[: newest.versions_max + (not newest.append)]
        hidden = (n for n, row in enumerate(rows) if not covers(row.usage, newest.usage))
        rows = rows[: next(hidden, len(rows))]
        if not newest.ttl_s:
            return rows
        oldest_us = now_us - newest.ttl_s * 1_000_000
        kept: list[SessionVersionRow] = []
        for index, row in enumerate(rows):
            if row.at_us < oldest_us and (newest.append or index):
                break
            kept.append(row)
        return tuple(kept)

    @property
    def in_ui(self) -> bool:
        return self.newest.usage in ("ui_only", "prompt+ui")


async def chains(store: Store, chat: int, ids: Sequence[int]) -> list[Chain]:
    """The artifacts whose newest versions these are, by tag. Cost: O(what they retain)."""
    if not ids:
        return []
    found: dict[int, list[SessionVersionRow]] = {id_: [] for id_ in ids}
    for start in range(0, len(ids), 200):
        some = ids[start : start + 200]
        for root, *columns in await _rows(store, chat, some):
            found[root].append(SessionVersionRow(**dict(zip(_COLUMNS, columns, strict=True))))
    made = [Chain(newest=rows[0], rows=tuple(rows)) for rows in found.values() if rows]
    return sorted(made, key=lambda chain: chain.newest.tag)


async def _rows(store: Store, chat: int, ids: Sequence[int]) -> list[tuple[Any, ...]]:
    """Versions, newest first, as long as they are of one form: a feed that was a value begins anew."""
    names = ", ".join(f"v.{name}" for name in _COLUMNS)
    return await store.query(
        "WITH RECURSIVE chain(root, id, prev, form, most, depth) AS ("
        "SELECT id, id, prev, append, versions_max + 1 - append, 1 FROM chat_art"
        f" WHERE chat = ? AND id IN ({', '.join('?' * len(ids))})"
        " UNION ALL SELECT c.root, v.id, v.prev, c.form, c.most, c.depth + 1 FROM chain c"
        " JOIN chat_art v ON v.chat = ? AND v.id = c.prev"
        " WHERE c.depth < c.most AND v.append = c.form)"
        f" SELECT c.root, {names} FROM chain c JOIN chat_art v ON v.chat = ? AND v.id = c.id"
        " ORDER BY c.root, c.depth",
        (chat, *ids, chat, chat),
    )


def record_seen(chain: Chain, *, now_us: int) -> Seen:
    """An artifact as a run records that it found it."""
    newest, kept = chain.newest, chain.retain(now_us=now_us)
    return Seen(
        tag=newest.tag,
        version=newest.version,
        values=tuple(BlobRef(row.value) for row in kept),
        at_us=tuple(row.at_us for row in kept),
        append=bool(newest.append),
        usage=newest.usage,
        semantics=newest.semantics,
        operation=newest.operation,
        run=newest.run,
    )


async def value_of(store: Store, tenant: str, chain: Chain, *, now_us: int) -> Any:
    """JSON: the current value, or a feed's entries, oldest first."""
    kept = chain.retain(now_us=now_us)
    if not chain.newest.append:
        return await stored_json(store, tenant, kept[0].value)
    return [await stored_json(store, tenant, row.value) for row in reversed(kept)]


async def history_of(store: Store, tenant: str, chain: Chain, *, now_us: int) -> list[StateVersion]:
    """Return earlier values, newest first; of a feed its entries, the newest included."""
    kept = chain.retain(now_us=now_us)
    return [
        {
            "value": await stored_json(store, tenant, row.value),
            "version": row.version,
            "at_us": row.at_us,
            "run": row.run,
            "operation": row.operation,
        }
        for row in (kept if chain.newest.append else kept[1:])
    ]


async def stored_json(store: Store, tenant: str, ref: str) -> Any:
    return decode_stored(await stored_blob(store, tenant, ref))
