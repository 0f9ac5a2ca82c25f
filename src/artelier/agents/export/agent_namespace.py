"""The parts of one agent: itself, its sub-agents, and the artifacts of its memory and its card."""

from __future__ import annotations

from typing import Any

import msgspec

from artelier.ids import MAIN_SPACE
from artelier.log import Store, decode_stored
from artelier.memory.memory_handle import short

PAGE = 1_000

KIN = "(agent = ? OR substr(agent, 1, ?) = ?)"
"""In SQL: an agent or one of its sub-agents. Parameters: `kin_of`."""


def kin_of(agent: str) -> tuple[str, int, str]:
    """The parameters of `KIN`."""
    return agent, len(agent) + 1, f"{agent}/"


def is_kin(agent: str, other: str) -> bool:
    return other == agent or other.startswith(f"{agent}/")


def card_id(agent: str) -> str:
    """Return where an agent's card is kept."""
    return f"agents/{short(agent)}"


def skills_id(agent: str) -> str:
    """Return where the definitions of its skills are kept: not below `agents/`, which is for cards."""
    return f"skillsets/{short(agent)}"


def memory_id(agent: str) -> str:
    """The artifact in whose stream its long-term memory stands."""
    return f"{memory_folder(agent)}:entries"


def memory_folder(agent: str) -> str:
    return f"memory/{short(agent)}"


async def memory_artifacts(store: Store, tenant: str, agent: str, *, position: int) -> list[str]:
    """Ids of the artifacts that hold the memories of an agent and its sub-agents, up to a position.

    A block that was attached once belongs to it as well: its history can be undone.
    """
    wanted: set[str] = set()
    rows = await store.query(
        f"SELECT id, artifact, agent FROM memory_stores WHERE tenant = ? AND space = ? AND {KIN} AND id <= ?",
        (tenant, MAIN_SPACE, *kin_of(agent), position),
    )
    for row_id, artifact, name in rows:
        wanted.add(artifact)
        wanted |= await _find_block_ids(store, row_id, position)
        folder = f"{memory_folder(name)}/core/"
        own = await store.query(
            "SELECT id FROM artifacts WHERE tenant = ? AND space = ? AND substr(id, 1, ?) = ?",
            (tenant, MAIN_SPACE, len(folder), folder),
        )
        wanted.update(id_ for (id_,) in own)
    found: list[str] = []
    for id_ in sorted(wanted):
        there = await store.query(
            "SELECT 1 FROM artifacts WHERE tenant = ? AND space = ? AND id = ? AND position <= ?",
            (tenant, MAIN_SPACE, id_, position),
        )
        found += [id_] if there else []
    return found


class _BlockRow(msgspec.Struct, frozen=True):
    artifact: str
    before: str | None = None


async def _find_block_ids(store: Store, row_id: int, position: int) -> set[str]:
    """Artifacts that were ever blocks of a memory."""
    found: set[str] = set()
    seq = 0
    while True:
        rows: list[Any] = await store.query(
            "SELECT c.seq, e.data FROM memory_changes c"
            " JOIN events e ON e.stream = c.stream AND e.seq = c.seq"
            " WHERE c.store = ? AND c.seq > ? AND c.kind LIKE 'block.%' AND e.position <= ?"
            " ORDER BY c.seq LIMIT ?",
            (row_id, seq, position, PAGE),
        )
        blocks = [decode_stored(data, type=_BlockRow) for _, data in rows]
        found.update(id_ for one in blocks for id_ in (one.artifact, one.before) if id_)
        if len(rows) < PAGE:
            return found
        seq = rows[-1][0]
