"""The losses of compactions in an agent's runs, as facts that a consolidation can promote.

A receipt lists bare identifiers, numbers and paths; a memory needs the sentence in which they stood.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from artelier.errors import NotFound
from artelier.kernel.events import ContextCompacted
from artelier.log import Store, blob_name
from artelier.memory.consolidation.job import PROMOTED_MAX, Loss, newest_consolidation
from artelier.memory.transcript import Transcript

if TYPE_CHECKING:
    from artelier.memory.store import LogMemory

RUNS_MAX = 100
"""Newest runs of the agent that are looked at."""
RECEIPTS_MAX = 200
SENTENCE_CHARS_MAX = 400
MESSAGE_CHARS_MAX = 4_000

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_COMPACTED = (
    "SELECT r.id, r.run, e.data FROM (SELECT id, run FROM runs WHERE tenant = ? AND agent = ?"
    " ORDER BY id DESC LIMIT ?) r JOIN events e ON e.stream = r.id"
    " WHERE e.kind = 'context.compacted' AND e.position > ? ORDER BY e.position DESC LIMIT ?"
)


async def losses_of(memory: LogMemory, *, runs: Store | None = None) -> list[Loss]:
    """The sentences that held what is in no summary, newest compactions first, at most 500.

    Messages above 4,000 characters are left out: they are data rather than talk, and kept as artifacts.
    `runs` is the store of the agent's runs, if it is another one; else only compactions since the last
    consolidation count.
    Cost: O(events of its newest 100 runs).
    """
    scope = memory.scope
    store = runs or scope.store
    since = await newest_consolidation(memory) if store is scope.store else 0
    rows = await store.query(_COMPACTED, (scope.tenant, scope.agent, RUNS_MAX, since, RECEIPTS_MAX))
    found: dict[str, Loss] = {}
    for row_id, run_id, data in rows:
        receipt = msgspec.json.decode(data, type=ContextCompacted)
        facts = await _facts(store, scope.tenant, receipt.loss)
        if not facts:
            continue
        said = Transcript(store, scope.tenant).messages(
            row_id, receipt.conversation, after=receipt.start - 1, upto=receipt.end
        )
        async for n, message in said:
            if message is None or message.role == "system" or len(message.text) > MESSAGE_CHARS_MAX:
                continue
            for sentence in _telling(message.text, facts):
                source = f"{run_id}, message {n}"
                loss = Loss(text=sentence, source=source, trust=_trust(receipt), run_id=run_id)
                found.setdefault(sentence, loss)
                if len(found) >= PROMOTED_MAX:
                    return list(found.values())
    return list(found.values())


async def _facts(store: Store, tenant: str, loss: str | None) -> set[str]:
    """Return what a receipt lists as lost, in small letters."""
    if loss is None:
        return set()
    try:
        report = msgspec.json.decode(await store.blob(tenant, blob_name(loss)), type=dict[str, list[str]])
    except (NotFound, msgspec.MsgspecError):
        return set()  # erased, or of another version
    return {fact.casefold() for kind, facts in report.items() if kind != "questions" for fact in facts}


def _telling(text: str, facts: set[str]) -> list[str]:
    """Sentences that hold one of the facts. Each fact is told by its first sentence."""
    found: list[str] = []
    for sentence in _SENTENCE.split(text):
        folded = sentence.casefold()
        told = {fact for fact in facts if fact in folded}
        if told and len(sentence) <= SENTENCE_CHARS_MAX:
            facts -= told
            found.append(sentence.strip())
    return found


def _trust(receipt: ContextCompacted) -> str:
    return receipt.trust if receipt.trust in ("trusted", "untrusted") else "untrusted"
