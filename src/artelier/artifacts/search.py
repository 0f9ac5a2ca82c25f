"""Text search: every word of the query must occur in id, kind, metadata or content, whatever the case.

Views hold no free text, so candidates' blobs are read when the question is asked, newest artifacts first,
at most `CANDIDATES_MAX` of them. Content counts only where reading it is free and it is not too large:
what has a price is found by its id, kind and metadata.
"""

from __future__ import annotations

from typing import Any

from artelier.artifacts.access import Access
from artelier.artifacts.artifact import Summary
from artelier.artifacts.door import Door
from artelier.artifacts.rows import COLUMNS, Standing, standing_from
from artelier.errors import CorruptStore, NotFound
from artelier.log import blob_name

CANDIDATES_MAX = 1000
"""Artifacts looked into per search (measured: 13 us each, so 13 ms)."""

CONTENT_BYTES_MAX = 256 * 1024
"""Content larger than this is not looked into (guess: a long document; bounds the time of a search)."""

_PAGE_ROWS = 100
_POSITION_MAX = 2**62


# The SQL form of static policies only narrows the candidates; `Access.check` decides each of them. A list
# is searched as text: ids hold no quotes, so a principal's quoted name occurs in it or is not there.
_MAY_READ = (
    " AND (a.owner = ? OR a.policy IN ('owner_writes', 'public')"
    " OR (a.policy = 'allow' AND (instr(a.access, ?) > 0 OR instr(a.access, '\"*\"') > 0)))"
)


async def _page(
    door: Door,
    *,
    kind: str | None,
    owner: str | None,
    position: int,
    newest_first: bool,
    limit: int,
) -> list[Standing]:
    """Living artifacts beyond a position that static policies do not hide from the principal."""
    where = " WHERE a.tenant = ? AND a.space = ? AND a.deleted = 0"
    parameters: list[Any] = [door.tenant, door.space]
    for column, value in (("kind", kind), ("owner", owner)):
        if value is not None:
            where += f" AND a.{column} = ?"
            parameters.append(value)
    where += f"{_MAY_READ} AND a.position {'<' if newest_first else '>'} ?"
    order = f" ORDER BY a.position{' DESC' if newest_first else ''} LIMIT ?"
    rows = await door.store.query(
        f"{COLUMNS}a.version{where}{order}",
        (*parameters, door.principal, f'"{door.principal}"', position, limit),
    )
    return [standing_from(row) for row in rows]


async def find(
    door: Door, *, text: str, kind: str | None, owner: str | None, limit: int
) -> list[Summary]:
    """What a principal may read and the words match, newest first."""
    words = text.casefold().split()
    found: list[Summary] = []
    position, seen = _POSITION_MAX, 0
    while len(found) < limit and seen < CANDIDATES_MAX:
        candidates = await _page(
            door, kind=kind, owner=owner, position=position, newest_first=True, limit=_PAGE_ROWS
        )
        for standing in candidates:
            if await _matches(door, standing, words):
                found.append(standing.summary())
        if len(candidates) < _PAGE_ROWS:
            break
        position, seen = candidates[-1].position, seen + len(candidates)
    return found[:limit]


async def following(
    door: Door, *, kind: str | None, owner: str | None, position: int, limit: int
) -> list[Summary]:
    """What a principal may read beyond a position, in the order of making."""
    found: list[Summary] = []
    while len(found) < limit:
        candidates = await _page(
            door, kind=kind, owner=owner, position=position, newest_first=False, limit=limit
        )
        found += [standing.summary() for standing in candidates if _visible(door, standing)]
        if len(candidates) < limit:
            break
        position = candidates[-1].position
    return found[:limit]


def _visible(door: Door, standing: Standing) -> bool:
    return Access.check("search", door.principal, standing).allowed


async def _matches(door: Door, standing: Standing, words: list[str]) -> bool:
    if not _visible(door, standing):
        return False
    named = f"{standing.id}\n{standing.kind}".casefold()
    missing = [word for word in words if word not in named]
    if not missing:
        return True
    text = await _readable_text(door, standing)
    return all(word in text for word in missing)


async def _readable_text(door: Door, standing: Standing) -> str:
    at = standing.at
    if at is None:
        return ""
    refs = [at.metadata] if at.metadata else []
    is_free = Access.check("read", door.principal, standing).price == 0
    if is_free and at.media != "bytes" and at.size_bytes <= CONTENT_BYTES_MAX:
        refs.append(at.content)
    texts: list[str] = []
    for ref in refs:
        try:
            content = await door.store.blob(door.tenant, blob_name(ref))
        except (NotFound, CorruptStore):
            continue  # erased or damaged content matches nothing; `verify` is who names it
        texts.append(content.decode(errors="replace").casefold())
    return "\n".join(texts)
