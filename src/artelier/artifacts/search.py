"""Text search: every word of the query must occur in id, kind, metadata or content, whatever the case.

Views hold no free text, so candidates' blobs are read when the question is asked, newest artifacts first,
at most `CANDIDATES_MAX` of them. Content counts only where reading it is free and it is not too large:
what has a price is found by its id, kind and metadata.
"""

from __future__ import annotations

from artelier.artifacts.contracts import Decisions, Gate
from artelier.artifacts.queries import Standing, Summary, living_beyond
from artelier.artifacts.space_session import Door
from artelier.errors import CorruptStore, NotFound
from artelier.log import blob_name

CANDIDATES_MAX = 1000
"""Artifacts looked into per search (measured: 13 us each, so 13 ms)."""

CONTENT_BYTES_MAX = 256 * 1024
"""Content larger than this is not looked into (guess: a long document; bounds the time of a search)."""

CONTRACTS_MAX = 50
"""Contracts asked for one page; what others govern is left out of it."""

CONTRACTS_MS_MAX = 2_000
"""Wall time of all contracts of one page."""

_PAGE_ROWS = 100
_POSITION_MAX = 2**62


async def _page(
    door: Door,
    *,
    kind: str | None,
    owner: str | None,
    position: int,
    newest_first: bool,
    limit: int,
    asks: Decisions,
) -> list[Standing]:
    return await living_beyond(
        door.store,
        door.tenant,
        door.space,
        door.principal,
        kind=kind,
        owner=owner,
        position=position,
        newest_first=newest_first,
        limit=limit,
        with_contracts=asks.asks_left > 0,  # once none is asked any more, what they govern is no candidate
    )


async def find_text(
    door: Door, *, text: str, kind: str | None, owner: str | None, limit: int
) -> list[Summary]:
    """Return what a principal may read and the words match, newest first."""
    words = text.casefold().split()
    found: list[Summary] = []
    position, seen, asks = _POSITION_MAX, 0, bounded_asks(door)
    look = _Look(door, asks)
    while len(found) < limit and seen < CANDIDATES_MAX:
        candidates = await _page(
            door, kind=kind, owner=owner, position=position, newest_first=True, limit=_PAGE_ROWS, asks=asks
        )
        for standing in candidates:
            if len(found) < limit and await look.matches(standing, words):
                found.append(standing.summary())
        if len(candidates) < _PAGE_ROWS:
            break
        position, seen = candidates[-1].position, seen + len(candidates)
    return found


async def list_following(
    door: Door, *, kind: str | None, owner: str | None, position: int, limit: int
) -> list[Summary]:
    """Return what a principal may read beyond a position, in the order of making."""
    found: list[Summary] = []
    asks = bounded_asks(door)
    look = _Look(door, asks)
    while len(found) < limit:
        candidates = await _page(
            door, kind=kind, owner=owner, position=position, newest_first=False, limit=limit, asks=asks
        )
        for standing in candidates:
            if len(found) < limit and await look.visible(standing):
                found.append(standing.summary())
        if len(candidates) < limit:
            break
        position = candidates[-1].position
    return found


def bounded_asks(door: Door) -> Decisions:
    """The decisions of one page: so many contracts at most, and so long."""
    step = door.decisions or Decisions()
    return step.with_bounds(asks_max=CONTRACTS_MAX, time_ms=CONTRACTS_MS_MAX)


class _Look:
    """The view that one principal has of candidates."""

    def __init__(self, door: Door, asks: Decisions) -> None:
        self._door = door
        self._gate = Gate(door.stage(), door.interpreter, asks)

    async def visible(self, standing: Standing) -> bool:
        return (await self._gate.decide("search", self._door.principal, standing)).allowed

    async def matches(self, standing: Standing, words: list[str]) -> bool:
        is_ruled = standing.access is not None and standing.access.policy == "contract"
        # A contract is asked last: most candidates are none of the page's.
        if not is_ruled and not await self.visible(standing):
            return False
        named = f"{standing.id}\n{standing.kind}".casefold()
        missing = [word for word in words if word not in named]
        if missing and standing.at is not None:
            about = await self._text(standing.at.metadata)
            missing = [word for word in missing if word not in about]
        if missing and not await self._content_has(standing, missing):
            return False
        return not is_ruled or await self.visible(standing)

    async def _content_has(self, standing: Standing, words: list[str]) -> bool:
        """Return True if content that may be read for free holds all these words."""
        at = standing.at
        if at is None or at.media == "bytes" or at.size_bytes > CONTENT_BYTES_MAX:
            return False
        text = await self._text(at.content)
        if not all(word in text for word in words):
            return False
        read = await self._gate.decide("read", self._door.principal, standing)
        return read.allowed and read.price == 0

    async def _text(self, ref: str | None) -> str:
        if ref is None:
            return ""
        try:
            content = await self._door.store.blob(self._door.tenant, blob_name(ref))
        except (NotFound, CorruptStore):
            return ""  # erased or damaged content matches nothing; `verify` is who names it
        return content.decode(errors="replace").casefold()
