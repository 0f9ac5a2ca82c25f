"""The kind `rag`: passages of a memory, of documents, of a lorebook or of the chat that answer a query."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import msgspec
from pydantic import Field

from artelier.artifacts import Artifact
from artelier.artifacts.ref import Ref
from artelier.errors import InvalidRequest
from artelier.memory.entries import TEXT_CHARS_MAX
from artelier.memory.index.index_entry import as_vector, to_blob
from artelier.operations.kinds.contract import (
    OperationCall,
    OperationKind,
    OperationResult,
    Problem,
    make_found,
    mistakes,
    read_artifact,
    render_template,
    text_of,
)
from artelier.operations.profile.definition import TEMPLATE_CHARS_MAX, ArtifactRef, Form, Params
from artelier.operations.template_engine.values import Named
from artelier.tokens import estimate_tokens

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
        if any(char.isalnum() for char in piece)
    ]


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for item in cast("list[object]", content):
            yield text_of(item)
    elif isinstance(content, dict):
        for name, item in cast("dict[str, object]", content).items():
            yield f"{name}: {text_of(item)}"
    elif content is not None:
        yield text_of(content)


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


DOCUMENTS_MAX = 32
LIMIT_MAX = 50

Scored = tuple[Passage, float]


class RagSource(Form):
    """The place to search: exactly one of these."""

    memory: str | None = Field(default=None, min_length=1, max_length=500)
    """Id of the agent whose long-term memory it is."""
    documents: tuple[ArtifactRef, ...] | None = Field(default=None, min_length=1, max_length=DOCUMENTS_MAX)
    lorebook: ArtifactRef | None = None
    """Its entries are found by their keys in the chat and in the query, within its own budget. Nothing is
    remembered from turn to turn, so `sticky` and `cooldown` do nothing here."""
    messages: bool | None = None
    """True: the messages of this chat."""

    def given_names(self) -> list[str]:
        named = {
            "memory": self.memory,
            "documents": self.documents,
            "lorebook": self.lorebook,
            "messages": self.messages,
        }
        return [name for name, value in named.items() if value]


class RagParams(Params):
    """A source, a question, and how much of the answer is wanted."""

    source: RagSource
    query: str = Field(default="{{ text }}", max_length=TEMPLATE_CHARS_MAX)
    """A template; the person's newest words unless said."""
    strict: bool = True
    limit: int = Field(default=5, ge=1, le=LIMIT_MAX)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    """Of all passages together, estimated; a passage that does not fit is left out."""
    min_score: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    price_max: int = Field(default=0, ge=0, le=10**12)
    """Scrip that reading one artifact may cost."""


class FoundPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage as the value of an operation has it."""

    text: str
    score: float
    """1 for the best passage; of the others, their share of its score."""
    ref: str


async def _run(call: OperationCall[RagParams]) -> OperationResult:
    """A list of `FoundPassage`, best first.

    Errors: those of templates; `access_denied`, `not_found`, `invalid_request`; `too_large`.
    """
    params = call.params
    query = render_template(params.query, call.scope.names, strict=params.strict)
    query = query.strip()[:TEXT_CHARS_MAX]

    async def read() -> list[FoundPassage]:
        return _rank(await _search(call, query), params)

    return make_found(await call.run.step("rag", read, key="found"))


async def _search(call: OperationCall[RagParams], query: str) -> list[Scored]:
    source = call.params.source
    if source.lorebook is not None:
        return await _in_lorebook(call, source.lorebook, query)
    if not query:
        return []
    if source.memory is not None:
        return await _in_memory(call, source.memory, query)
    passages = _chat_passages(call, query)
    if source.documents is not None:
        passages = [passage for ref in source.documents for passage in await _in_document(call, ref)]
    return await SEARCHER.search(passages, query, limit=call.params.limit, embedder=call.desk.memory.embedder)


def _rank(hits: Sequence[Scored], params: RagParams) -> list[FoundPassage]:
    best = max((score for _, score in hits), default=0.0)
    left = params.max_tokens
    ranked: list[FoundPassage] = []
    for passage, score in hits[: params.limit]:
        share = round(min(1.0, max(0.0, score / best)), 4) if best > 0 else 0.0
        if share < params.min_score:
            continue
        if left is not None:
            tokens = estimate_tokens(passage.text)
            if tokens > left:
                continue
            left -= tokens
        ranked.append(FoundPassage(text=passage.text, score=share, ref=passage.ref))
    return ranked


async def _in_memory(call: OperationCall[RagParams], agent: str, query: str) -> list[Scored]:
    """Errors: `AccessDenied` if the principal may not read this memory."""
    memory = call.desk.memory.for_agent(call.desk.id, agent)
    artifacts = call.desk.as_principal(call.principal).artifacts
    verdict = await artifacts.access(memory.scope.artifact, "read", price_max=0)
    if verdict.refusal == "missing":
        return []  # nothing was ever remembered
    verdict.granted()
    memory = await memory.seen_in(call.run.id)
    hits = await memory.recall(query, limit=call.params.limit)
    return [(Passage(text=hit.text, ref=hit.id), hit.score) for hit in hits]


async def _in_document(call: OperationCall[RagParams], ref: str) -> list[Passage]:
    artifact = await _artifact(call, ref)
    part = Ref.parse(ref).part
    name = f"{artifact.id}@{artifact.version}"
    return passages_in(artifact.content, ref=f"{name}#{part}" if part else name)


async def _artifact(call: OperationCall[RagParams], ref: str) -> Artifact:
    return await read_artifact(call, ref, price_max=call.params.price_max)


def _chat_passages(call: OperationCall[RagParams], query: str) -> list[Passage]:
    """Return what was said in this chat, by number from 1; what says just the query answers nothing, and
    neither do the newest words, of which a query is made.
    """
    messages: Sequence[dict[str, str]] = call.scope.names["chat_history"]
    asked = {query, str(call.scope.names.get("text", "")).strip()}
    return [
        passage
        for number, message in enumerate(messages, 1)
        if message["content"].strip() not in asked
        for passage in passages_in(message["content"], ref=f"message:{number}")
    ]


async def _in_lorebook(call: OperationCall[RagParams], ref: str, query: str) -> list[Scored]:
    """Active entries, the most important first; none is more alike than another."""
    from artelier.operations.lore.activation import activate, with_names
    from artelier.operations.lore.schemas import read_stored_book

    artifact = await _artifact(call, ref)
    names = call.scope.names
    book = await read_stored_book(artifact.content)
    user, char = _name_of(names["user"]), _name_of(names["char"])
    book = await asyncio.to_thread(with_names, book, user=user, char=char)
    texts = [f"{one['name']}: {one['content']}" for one in names["chat_history"]]
    if query and (not texts or not texts[-1].endswith(query)):
        texts.append(query)
    turn = max(1, int(names["chat"].get("turn") or 1))
    active = await asyncio.to_thread(activate, book, texts, turn=turn, seed=call.seed)
    ordered = sorted(active.entries, key=lambda one: (-one.entry.priority, -one.entry.order))
    name = f"{artifact.id}@{artifact.version}"
    return [(Passage(text=one.entry.content, ref=f"{name}/{one.entry.id}"), 1.0) for one in ordered]


def _name_of(who: Named | Mapping[str, Any]) -> str:
    return who.name if isinstance(who, Named) else str(who.get("name", ""))


def _problems(params: RagParams) -> Iterable[Problem]:
    source = params.source
    if len(source.given_names()) != 1:
        yield Problem(
            path="source",
            code="bad_source",
            message="a source is one of memory, documents, lorebook, messages",
        )
    refs = [(f"source.documents[{at}]", ref) for at, ref in enumerate(source.documents or ())]
    if source.lorebook is not None:
        refs.append(("source.lorebook", source.lorebook))
    for path, ref in refs:
        try:
            Ref.parse(ref)
        except InvalidRequest as error:
            yield Problem(path=path, code="bad_ref", message=str(error))
    yield from mistakes({"query": params.query})


KIND: OperationKind[RagParams] = OperationKind(name="rag", params=RagParams, run=_run, problems=_problems)
