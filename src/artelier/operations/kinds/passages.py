"""Texts cut into passages that can be found, and the search among them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import msgspec

from artelier.errors import InvalidRequest
from artelier.memory.index.index_entry import as_vector, to_blob

if TYPE_CHECKING:
    from artelier.memory.index.memory_index import MemoryIndex
    from artelier.ports.memory import Embedder

PASSAGE_CHARS = 800
"""Paragraphs are joined up to this length (a guess: what a model can quote)."""
PASSAGE_CHARS_MAX = 1_200
"""A longer paragraph is cut at a space."""
PASSAGES_MAX = 5_000
"""In one search (a guess: some 2,000 pages)."""
CHARS_MAX = 4_000_000
INDEXES_MAX = 8
VECTORS_MAX = 20_000
"""Kept by this process: of `hashing` 512 numbers, a kilobyte, each."""
EMBEDDED_AT_ONCE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of a text, and where it is from."""

    text: str
    ref: str


# Cutting


def passages_in(content: object, *, ref: str) -> list[Passage]:
    """The passages of an artifact's content: of a text its paragraphs, of JSON one for each of its items.

    Errors: `InvalidRequest` for what holds no text.
    """
    if isinstance(content, bytes):
        raise InvalidRequest("only texts can be searched", expected="text or JSON", got=f"{ref}: bytes")
    return [
        Passage(text=piece, ref=ref)
        for text in _texts(content)
        for piece in pieces(text)
        if _has_letters(piece)
    ]


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for item in cast("list[object]", content):
            yield _text(item)
    elif isinstance(content, dict):
        for name, item in cast("dict[str, object]", content).items():
            yield f"{name}: {_text(item)}"
    elif content is not None:
        yield _text(content)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _has_letters(text: str) -> bool:
    return any(char.isalnum() for char in text)


def pieces(text: str) -> Iterator[str]:
    """Paragraphs, short ones joined; a heading begins a piece. Cost: O(length)."""
    piece = ""
    for paragraph in _paragraphs(text):
        if piece and (paragraph.startswith("#") or len(piece) + len(paragraph) + 2 > PASSAGE_CHARS):
            yield piece
            piece = ""
        joined = f"{piece}\n\n{paragraph}" if piece else paragraph
        *whole, piece = _cut(joined)
        yield from whole
    if piece:
        yield piece


def _paragraphs(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip():
            lines.append(line.rstrip())
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _cut(text: str) -> list[str]:
    found: list[str] = []
    start = 0
    while len(text) - start > PASSAGE_CHARS_MAX:
        end = start + PASSAGE_CHARS_MAX
        space = text.rfind(" ", start + PASSAGE_CHARS_MAX // 2, end)
        end = end if space < 0 else space
        found.append(text[start:end].strip())
        start = end
    return [*found, text[start:].strip()]


# Searching


class Searcher:
    """Hybrid search over passages. Indexes and vectors of what was searched lately are kept, by content."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[bytes, tuple[MemoryIndex, Lock]] = OrderedDict()
        self._vectors: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._lock = Lock()

    async def search(
        self, passages: Sequence[Passage], query: str, *, limit: int, embedder: Embedder
    ) -> list[tuple[Passage, float]]:
        """The passages that answer best, best first, with scores that compare within this search alone.

        Errors: `InvalidRequest` for more than can be searched; those of the embedder.
        Cost:   O(passages); what is new among them is embedded.
        """
        if len(passages) > PASSAGES_MAX or sum(len(one.text) for one in passages) > CHARS_MAX:
            raise InvalidRequest(
                "there is too much to search",
                expected=f"at most {PASSAGES_MAX} passages and {CHARS_MAX} characters",
                got=f"{len(passages)} passages",
            )
        if not passages:
            return []
        index, lock = await self._index(passages, embedder)
        asked = as_vector((await embedder.embed([index.query_text(query) or query]))[0])

        def find() -> list[tuple[Passage, float]]:
            with lock:
                hits = index.search(query, vector=asked, limit=limit)
            return [(passages[int(hit.id)], hit.score) for hit in hits]

        return await asyncio.to_thread(find)

    async def _index(self, passages: Sequence[Passage], embedder: Embedder) -> tuple[MemoryIndex, Lock]:
        marks = [sha256(one.text.encode()).digest() for one in passages]
        name = sha256(b"".join([embedder.name.encode(), b"\0", *marks])).digest()
        with self._lock:
            if (known := self._indexes.get(name)) is not None:
                self._indexes.move_to_end(name)
                return known
        vectors = await self._embed(passages, marks, embedder)
        made = (await asyncio.to_thread(_build_index, passages, vectors, embedder.name), Lock())
        with self._lock:
            self._indexes[name] = made
            while len(self._indexes) > INDEXES_MAX:
                self._indexes.popitem(last=False)
        return made

    async def _embed(
        self, passages: Sequence[Passage], marks: Sequence[bytes], embedder: Embedder
    ) -> list[bytes]:
        """A vector for each passage; those that are known are not asked for again."""
        keys = [(embedder.name, mark) for mark in marks]
        with self._lock:
            found = {key: self._vectors[key] for key in keys if key in self._vectors}
        texts = {key: one.text for key, one in zip(keys, passages, strict=True) if key not in found}
        missing = list(texts)
        for start in range(0, len(missing), EMBEDDED_AT_ONCE):
            some = missing[start : start + EMBEDDED_AT_ONCE]
            given: list[Any] = await embedder.embed([texts[key] for key in some])
            for key, vector in zip(some, given, strict=True):
                found[key] = to_blob(as_vector(vector))
        with self._lock:
            for key in dict.fromkeys(keys):
                self._vectors[key] = found[key]
                self._vectors.move_to_end(key)
            while len(self._vectors) > VECTORS_MAX:
                self._vectors.popitem(last=False)
        return [found[key] for key in keys]


def _build_index(passages: Sequence[Passage], vectors: Sequence[bytes], embedder: str) -> MemoryIndex:
    from artelier.memory import MemoryIndex, Record

    index = MemoryIndex(embedder=embedder)
    for number, (passage, vector) in enumerate(zip(passages, vectors, strict=True)):
        index.add(Record(id=str(number), text=passage.text), vector, embedder=embedder)
    return index


SEARCHER = Searcher()
"""Of this process: what it keeps depends on nothing but contents, so all tenants may share it."""
