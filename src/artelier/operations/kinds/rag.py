"""The kind `rag`: passages of a memory, of documents, of a lorebook or of the chat that answer a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from artelier.artifacts import Artifact
from artelier.artifacts.ref import Ref
from artelier.errors import InvalidRequest
from artelier.memory.entries import TEXT_CHARS_MAX
from artelier.operations.kinds.contract import OperationCall, OperationKind, OperationResult, Problem
from artelier.operations.kinds.passages import SEARCHER, Passage, passages_in
from artelier.operations.kinds.shared_values import make_found, mistakes, render_template
from artelier.operations.profile.definition import TEMPLATE_CHARS_MAX, Form, Params
from artelier.operations.templates.values import Named
from artelier.tokens import estimate_tokens

DOCUMENTS_MAX = 32
LIMIT_MAX = 50

ArtifactRef = Annotated[str, Field(min_length=1, max_length=300)]

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


async def _run(call: OperationCall[RagParams]) -> OperationResult:
    """A list of `{text, score, ref}`, best first. The best passage has score 1, the others their share of it.

    Errors: those of templates; `access_denied`, `not_found`, `invalid_request`; `too_large`.
    """
    params = call.params
    query = render_template(params.query, call.scope.names, strict=params.strict)
    query = query.strip()[:TEXT_CHARS_MAX]

    async def read() -> list[dict[str, Any]]:
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


def _rank(hits: Sequence[Scored], params: RagParams) -> list[dict[str, Any]]:
    best = max((score for _, score in hits), default=0.0)
    left = params.max_tokens
    ranked: list[dict[str, Any]] = []
    for passage, score in hits[: params.limit]:
        share = round(min(1.0, max(0.0, score / best)), 4) if best > 0 else 0.0
        if share < params.min_score:
            continue
        if left is not None:
            tokens = estimate_tokens(passage.text)
            if tokens > left:
                continue
            left -= tokens
        ranked.append({"text": passage.text, "score": share, "ref": passage.ref})
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
    """Errors: `NotFound`, `AccessDenied`, also for one that costs more than agreed."""
    artifacts = call.desk.as_principal(call.principal).artifacts
    return await artifacts.read(ref, price_max=call.params.price_max)


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
    from artelier.operations.lore.schemas import Lorebook, read_form

    artifact = await _artifact(call, ref)
    names = call.scope.names
    book = read_form(Lorebook, artifact.content)
    book = with_names(book, user=_name_of(names["user"]), char=_name_of(names["char"]))
    texts = [f"{one['name']}: {one['content']}" for one in names["chat_history"]]
    if query and (not texts or not texts[-1].endswith(query)):
        texts.append(query)
    turn = max(1, int(names["chat"].get("turn") or 1))
    active = activate(book, texts, turn=turn, seed=call.seed).entries
    ordered = sorted(active, key=lambda one: (-one.entry.priority, -one.entry.order))
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
