"""An agent's long-term memory in its prompt: one search at each model step, at the posted price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from artelier.artifacts import Ref, Verdict, judge
from artelier.artifacts.events import ArtifactCharged
from artelier.context import Source
from artelier.errors import ArtelierError, InvalidRequest
from artelier.world.mind_artifacts import Skip
from artelier.world.services.memory import MEMORY_SEARCH, is_service
from artelier.world.stores.entry_writer import config_of, is_empty
from artelier.world.stores.index_cache import Scored
from artelier.world.stores.search import search_entries
from artelier.world.tick.tick_context import Scene

if TYPE_CHECKING:
    from artelier.world.mind.billed_reads import BilledReader

LINE_CHARS_MAX = 1_000
"""Of one memory in a prompt."""

WHY = "long-term memory"


async def recent_memories(
    scene: Scene, reader: BilledReader, store_id: str, query: str, *, limit: int = 5
) -> tuple[str, tuple[Source, ...]]:
    """Return what the memory store of an agent holds on a query, a line each, and where each comes from.

    It is a use of `genesis_memory_search` by the agent: if anything was found, its price and what the store
    asks for being read and included are among the reader's charges. Without right, money, store or service
    the text is empty and the reader's `skipped` says why.
    Without a query, or in a store without entries, nothing is searched and nothing is paid.
    Shapes: lines `- [tick 41] text (tags: a, b)`; sources `store#mem_1a2b3c4d`.
    Errors: none of what agents can bring about.
    """
    from artelier.world.mind.billed_reads import SkippedRead

    def skip(why: Skip) -> tuple[str, tuple[Source, ...]]:
        reader.skipped.append(SkippedRead(WHY, store_id, why))
        return "", ()

    verdicts = await _readable(reader, store_id)
    if isinstance(verdicts, str):
        return skip(verdicts)
    if reader.scene.config.asks_consent and not reader.agrees(store_id, verdicts):
        return skip("too_dear")
    standing = verdicts[0].granted()
    try:
        await config_of(reader.stage, standing)
    except ArtelierError:
        return skip("failed")  # no memory store
    service = await judge(reader.stage, reader.gate, Ref(MEMORY_SEARCH), "invoke", reader.agent)
    if service.standing is not None and not is_service(service):
        return skip("missing")  # somebody's artifact of that name
    if service.refusal not in (None, "no_funds"):
        return skip(service.refusal)
    if not query or await is_empty(reader.stage, store_id):
        return "", ()
    if service.refusal is not None:
        return skip(service.refusal)
    due = _due(reader, [*verdicts, service])
    if not reader.purse.covers([posting for charge in due for posting in charge.postings]):
        return skip("no_funds")
    try:
        found = await search_entries(reader.stage, standing, query, limit=limit)
    except ArtelierError:
        return skip("failed")  # no vector: nothing is paid
    searched = [] if scene.config.asks_consent else [one for one in due if one.id == MEMORY_SEARCH]
    used = due if found else searched
    if not reader.charge(*used):
        return skip("no_funds")
    sources = tuple(Source(ref=f"{store_id}#{one.card.id}", why=WHY) for one in found)
    return "\n".join(_line(one) for one in found), sources


async def _readable(reader: BilledReader, store_id: str) -> list[Verdict] | Skip:
    """Judge whether a store may be read and shown in a prompt; return the verdicts, or why it is skipped."""
    try:
        ref = Ref.parse(store_id)
    except InvalidRequest:
        return "missing"
    if ref.part is not None or ref.version is not None:
        return "missing"  # entries have no versions, and a part is no store
    verdicts: list[Verdict] = []
    for action in ("read", "include"):
        verdict = await judge(reader.stage, reader.gate, ref, action, reader.agent)
        if verdict.refusal is not None:
            stands = await reader.stage.standing(ref.id)
            return "deleted" if stands is not None and stands.deleted else verdict.refusal
        verdicts.append(verdict)
    return verdicts


def _due(reader: BilledReader, verdicts: Sequence[Verdict]) -> list[ArtifactCharged]:
    """Return what is to be paid for a look into the store, beyond what this prompt has paid for already."""
    due: list[ArtifactCharged] = []
    paid = {(charge.id, charge.action) for charge in reader.charges}
    licences = {charge.licence for charge in reader.charges if charge.licence}
    for verdict in verdicts:
        charge = verdict.charge()
        if charge is None or charge.licence in licences:
            continue
        if verdict.action == "invoke" or (charge.id, charge.action) not in paid:
            due.append(charge)
            licences |= {charge.licence} - {""}
    return due


def _line(one: Scored) -> str:
    """One line, whatever the text holds: a line break in a memory must not begin another one."""
    card = one.card
    text = " ".join(card.text.split())
    if len(text) > LINE_CHARS_MAX:
        text = text[: LINE_CHARS_MAX - 1] + "…"
    tags = ", ".join(" ".join(tag.split()) for tag in card.tags)
    return f"- [tick {card.tick}] {text}" + (f" (tags: {tags})" if tags else "")
