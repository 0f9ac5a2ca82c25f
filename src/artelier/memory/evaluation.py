"""The evaluation of memory search: recall of the turns that hold the evidence for questions.

The protocol of conversations with annotated evidence: each turn of a dialogue is one entry (speaker, text,
caption of a picture, date of the session), each question one query, and only its own conversation is
searched. Questions without evidence are left out. Everything goes through `MemoryIndex`, as in a store.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artelier.errors import InvalidRequest
from artelier.memory.index.index_entry import Record
from artelier.memory.index.memory_index import MemoryIndex

if TYPE_CHECKING:
    from artelier.memory.index.score import Weights
    from artelier.ports.memory import Embedder

ADVERSARIAL = 5
"""The category of questions that name the wrong person; it is counted apart."""
DEPTH = 10
SESSIONS_MAX = 1_000
_TURN_ID = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationQuestion:
    """One question with the ids of the turns that answer it."""

    question: str
    category: int
    evidence: frozenset[str]


def evaluate(
    conversations: Sequence[Mapping[str, Any]],
    *,
    embedder: str | Embedder = "hashing",
    weights: Weights | None = None,
) -> dict[str, float]:
    """Measure retrieval: `r_at_1 r_at_10 ndcg_at_10 mrr adversarial_r_at_10` in percent, and counts.

    Shapes: `conversations` as in the file of the data set: `{conversation: {session_1: [turn],
            session_1_date_time, ...}, qa: [{question, category, evidence}]}`; a turn has `dia_id`,
            `speaker`, `text` and perhaps `blip_caption`.
    Units:  recall is the share of a question's evidence that is found, averaged over the questions; all
            but the adversarial category count, which stands apart. MRR looks at the first 10.
    Errors: `InvalidRequest` for another shape; those of the embedder.
    Cost:   embeds all turns and questions; call it outside of an event loop.
    """
    if isinstance(embedder, str):
        from artelier.memory.embedders import embedder_named

        embedder = embedder_named(embedder)
    return asyncio.run(_evaluate(conversations, embedder, weights))


async def _evaluate(
    conversations: Sequence[Mapping[str, Any]], embedder: Embedder, weights: Weights | None
) -> dict[str, float]:
    plain: list[list[int]] = []
    adversarial: list[list[int]] = []
    entries = 0
    for conversation in conversations:
        index, asked = await index_conversation(conversation, embedder, weights)
        entries += len(index)
        vectors = await embedder.embed([index.query_text(one.question) for one in asked])
        for one, vector in zip(asked, vectors, strict=True):
            hits = index.search(one.question, vector=vector, limit=DEPTH)
            found = [place for place, hit in enumerate(hits) if hit.id in one.evidence]
            missed = len(one.evidence) - len(found)
            ranks = found + [DEPTH] * missed
            (adversarial if one.category == ADVERSARIAL else plain).append(ranks)
    return {
        "r_at_1": _percent([_recall(ranks, 1) for ranks in plain]),
        "r_at_10": _percent([_recall(ranks, DEPTH) for ranks in plain]),
        "ndcg_at_10": _percent([_ndcg(ranks) for ranks in plain]),
        "mrr": _percent([1 / (ranks[0] + 1) if ranks[0] < DEPTH else 0.0 for ranks in plain]),
        "adversarial_r_at_10": _percent([_recall(ranks, DEPTH) for ranks in adversarial]),
        "conversations": len(conversations),
        "entries": entries,
        "questions": len(plain),
        "adversarial_questions": len(adversarial),
    }


async def index_conversation(
    conversation: Mapping[str, Any], embedder: Embedder, weights: Weights | None = None
) -> tuple[MemoryIndex, list[EvaluationQuestion]]:
    """An index over the turns of one conversation, and the questions about it that have evidence."""
    try:
        records = list(_records(conversation["conversation"]))
        known = {record.id for record in records}
        asked = [
            EvaluationQuestion(question=one["question"], category=one["category"], evidence=evidence)
            for one in conversation["qa"]
            if (evidence := _evidence(one["evidence"]) & known)
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest(
            "this is no conversation with questions",
            expected="{conversation: {session_1: [...]}, qa: [...]}",
            got=f"{type(error).__name__}: {error}",
        ) from error
    vectors = await embedder.embed([record.text or record.caption for record in records])
    index = MemoryIndex(embedder=embedder.name, dims=embedder.dims, weights=weights)
    for record, vector in zip(records, vectors, strict=True):
        index.add(record, vector)
    return index, asked


def _records(conversation: Mapping[str, Any]) -> Iterator[Record]:
    tick = 0
    for number in range(1, SESSIONS_MAX + 1):
        for turn in conversation.get(f"session_{number}", ()):
            text, caption = turn["text"].strip(), turn.get("blip_caption", "").strip()
            if not (text or caption):
                continue
            tick += 1
            yield Record(
                id=turn["dia_id"],
                text=text,
                speaker=turn["speaker"],
                caption=caption,
                date=conversation.get(f"session_{number}_date_time", ""),
                tick=tick,
            )


def _evidence(written: Sequence[str]) -> frozenset[str]:
    """Ids of turns; some annotations hold several in one string."""
    return frozenset(id_ for item in written for id_ in _TURN_ID.findall(item))


def _recall(ranks: Sequence[int], depth: int) -> float:
    return sum(rank < depth for rank in ranks) / len(ranks)


def _ndcg(ranks: Sequence[int]) -> float:
    gain = sum(1 / math.log2(rank + 2) for rank in ranks if rank < DEPTH)
    best = sum(1 / math.log2(place + 2) for place in range(min(len(ranks), DEPTH)))
    return gain / best


def _percent(values: Sequence[float]) -> float:
    return round(100 * sum(values) / len(values), 2) if values else 0.0
