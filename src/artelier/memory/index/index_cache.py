"""The part of one memory that this process has loaded: an index and the cards of its living entries."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from artelier.log import missing_mark
from artelier.memory.index.index_entry import as_list
from artelier.memory.memory_handle import EVERYBODYS, NOBODYS, MemoryScope, Sight
from artelier.memory.queries import EntryRow, MemoryRow, entries_after, moved_since
from artelier.ports.memory import Entry, Recalled

if TYPE_CHECKING:
    from artelier.memory.index.memory_index import MemoryIndex

PAGE = 2_000
"""Rows read at once while the shelf is filled."""
PUT_CHARS = 16 * 1024
"""Of entries that are put into an index before others have a turn (some 10 ms)."""


class EntryCard(NamedTuple):
    """An entry as the view and its blobs give it."""

    id: str
    embedder: str
    importance: float
    trust: str
    run_id: str | None
    at_us: int
    position: int
    gone: str
    moved: int
    text: str
    tags: tuple[str, ...]
    speaker: str
    date: str
    vector: bytes | None
    is_erased: bool = False
    """Its content is gone: its text is `[erased]` or `[locked]`, and nothing finds it."""
    about: Sight = NOBODYS

    def entry(self, *, with_embedding: bool = False) -> Entry:
        embedding = tuple(as_list(self.vector)) if with_embedding and self.vector else None
        return Entry(
            id=self.id,
            text=self.text,
            tick=self.at_us,
            tags=self.tags,
            importance=self.importance,
            speaker=self.speaker,
            date=self.date,
            trust=self.trust,
            run_id=self.run_id,
            embedder=self.embedder,
            embedding=embedding,
        )

    def to_recalled(self, score: float) -> Recalled:
        return Recalled(
            id=self.id,
            text=self.text,
            score=score,
            tick=self.at_us,
            tags=self.tags,
            importance=self.importance,
            speaker=self.speaker,
            date=self.date,
            trust=self.trust,
        )


class _Content(msgspec.Struct, frozen=True):
    text: str = ""
    tags: tuple[str, ...] = ()
    speaker: str = ""
    date: str = ""


_content = msgspec.json.Decoder(_Content)


async def cards_from(scope: MemoryScope, rows: Sequence[EntryRow], *, sight: Sight) -> list[EntryCard]:
    """Return entries with their content, as far as they may be seen. Errors: `CorruptStore`."""
    names = list({name for row in rows for name in (row.content, row.vector) if name is not None})
    found: dict[bytes, bytes] = {}
    subjects: dict[bytes, Sight] = {}
    for start in range(0, len(names), 500):
        found.update(await scope.store.blobs(scope.tenant, names[start : start + 500]))
        subjects.update(await scope.subjects_of(names[start : start + 500]))
    cards: list[EntryCard] = []
    for row in rows:
        name = row.content
        about = subjects.get(name, NOBODYS)
        if sight != EVERYBODYS and about not in (NOBODYS, sight):
            continue
        is_erased = name not in found
        if is_erased:
            content = _Content(text=await missing_mark(scope.store, scope.tenant, name))
        else:
            content = _content.decode(found[name])
        card = EntryCard(
            row.id,
            row.embedder,
            row.importance / 1000,
            row.trust,
            row.run,
            row.at_us,
            row.position,
            row.gone,
            row.moved,
            content.text,
            content.tags,
            content.speaker,
            content.date,
            None if row.vector is None else found.get(row.vector),
            is_erased,
            about,
        )
        cards.append(card)
    return cards


def _in_pieces(cards: list[EntryCard]) -> Iterator[list[EntryCard]]:
    """Part cards whose texts are long together; short ones come in one piece."""
    if sum(len(card.text) for card in cards) <= PUT_CHARS:
        yield cards
        return
    piece, chars = list[EntryCard](), 0
    for card in cards:
        piece.append(card)
        chars += len(card.text)
        if chars >= PUT_CHARS:
            yield piece
            piece, chars = [], 0
    yield piece


class CachedIndex:
    """The cache of one memory. It is never asked about what exists, only about what is alike."""

    def __init__(self, scope: MemoryScope, embedder: str, sight: Sight) -> None:
        self._scope = scope
        self._sight = sight
        self._embedder = embedder
        self.lock = threading.Lock()
        """Held while the index is changed or searched: it is not made for two threads."""
        self._index: MemoryIndex | None = None
        self._cards: dict[str, EntryCard] = {}
        self._erasures = -1
        """How many there had been when it was begun: what is erased since then must not be found."""
        self._seen = 0
        """Position up to which everything is on the shelf; some of what came later may be as well."""

    async def fill(self, opened: MemoryRow) -> tuple[MemoryIndex, dict[str, EntryCard]]:
        """The index and the living cards, with everything that `opened` counts.

        Cost: O(what changed since the last call). After entries came back or were weighed anew all are
        read again, because the index knows neighbours by the order of adding.
        """
        index, erasures = self._index, self._scope.store.erasures()
        if (
            index is None
            or erasures != self._erasures
            or (opened.changed > self._seen and not await self._take_away(index, opened))
        ):
            index = self._begin()
            self._erasures = erasures
        if opened.changed > self._seen:
            await self._put_new(index, opened)
            self._seen = max(self._seen, opened.changed)
        return index, self._cards

    def _begin(self) -> MemoryIndex:
        from artelier.memory.index.memory_index import (
            MemoryIndex,  # with numpy, which core memory never needs
        )

        self._index = MemoryIndex(embedder=self._embedder)
        self._cards, self._seen = {}, 0
        return self._index

    async def _take_away(self, index: MemoryIndex, opened: MemoryRow) -> bool:
        """Remove what went; False if something came back or changed."""
        rows = await moved_since(self._scope.store, opened.id, self._seen)
        if any(lives for _, lives in rows):
            return False
        with self.lock:
            for id_, _ in rows:
                index.remove(id_)
                self._cards.pop(id_, None)
        return True

    async def _put_new(self, index: MemoryIndex, opened: MemoryRow) -> None:
        """Add living entries in the order in which they were added."""
        position = self._seen
        while True:
            rows = await entries_after(self._scope.store, opened.id, position, limit=PAGE)
            cards = await cards_from(self._scope, rows, sight=self._sight)
            position = rows[-1].position if rows else position
            for some in _in_pieces(cards):
                with self.lock:
                    for card in some:
                        if card.id not in self._cards:  # else another task was faster
                            self._put(index, card)
                if some is not cards:
                    await asyncio.sleep(0)  # others have their turn
            if len(rows) < PAGE:
                return

    def _put(self, index: MemoryIndex, card: EntryCard) -> None:
        from artelier.memory.index.index_entry import Record

        if card.is_erased:
            return
        record = Record(
            id=card.id,
            text=card.text,
            speaker=card.speaker,
            date=card.date,
            tags=card.tags,
            importance=card.importance,
            tick=card.at_us,
            trust=card.trust,
        )
        # One that came back after the embedder was changed is found by its words alone.
        index.add(record, card.vector if card.embedder == self._embedder else None)
        self._cards[card.id] = card
