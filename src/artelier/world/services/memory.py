"""`genesis_memory_add` and `genesis_memory_search`: memory stores for those who may write or read them.

A search gives what reading would give, so what it finds costs the store's read price too.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from artelier.artifacts import AccessVerdict, Call, Ref, Tree, Working, judge
from artelier.artifacts.access import Bill
from artelier.artifacts.events import ArtifactCharged
from artelier.artifacts.invocation_tree import Free
from artelier.context import Source
from artelier.errors import ArtelierError, InvalidArguments, InvalidRequest, NotFound
from artelier.world.mind_artifacts import Skip
from artelier.world.services.builtin import Arguments, arguments, ref_of
from artelier.world.stores.entries import add_entry, config_of, is_empty
from artelier.world.stores.search import Scored, hits_as_json, search_entries
from artelier.world.tick.tick_context import Scene
from artelier.world.tick.world_state import as_stage

if TYPE_CHECKING:
    from artelier.world.mind.billed_reads import BilledReader


MEMORY_SEARCH = "genesis_memory_search"
MEMORY_ADD = "genesis_memory_add"


class _MemorySearchArguments(Arguments, frozen=True, kw_only=True):
    memory_artifact_id: str
    query: str
    limit: int = 5


class _Add(Arguments, frozen=True, kw_only=True):
    memory_artifact_id: str
    text: str
    tags: list[str] | None = None
    importance: Annotated[float, Meta(ge=0, le=1)] = 0.5


class MemorySearchService:
    """`{memory_artifact_id, query, limit}` gives `{results: [...]}`, the best first; free without any."""

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _MemorySearchArguments)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any] | Free:
        results = await _search(working, call, tree, arguments(call.args, _MemorySearchArguments))
        is_free = not results and await as_stage(working.ground).asks_consent()
        return Free({"results": []}) if is_free else {"results": results}


class MemoryAdd:
    """`{memory_artifact_id, text, tags, importance}` gives `{entry_id, deduplicated, pruned}`.

    Of an entry that says the same as one that is there, nothing is stored; `entry_id` is that one's.
    """

    def units(self, args: Mapping[str, Any], /) -> int:
        arguments(args, _Add)
        return 1

    async def run(self, working: Working, call: Call, tree: Tree, /) -> dict[str, Any]:
        given = arguments(call.args, _Add)
        ref = ref_of(given.memory_artifact_id)
        verdict = await judge(working, tree.gate(working), ref, "write", call.caller)
        added = await add_entry(
            working,
            verdict.granted(),
            text=given.text,
            tags=given.tags or [],
            importance=given.importance,
            actor=call.caller,
        )
        return {"entry_id": added.entry, "deduplicated": added.deduplicated, "pruned": list(added.pruned)}


async def search_memory(
    working: Working, principal: str, tree: Tree, /, *args: Any, **kwargs: Any
) -> list[dict[str, Any]]:
    """`search_memory(memory_artifact_id, query, limit=5)` of code in the sandbox, paid by the artifact.

    Errors: those of the service, `NotFound` in a world without it.
    """
    names = inspect.signature(_parameters)
    try:
        bound = names.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidArguments(f"search_memory(): {error}") from None
    given = arguments(bound.arguments, _MemorySearchArguments)
    service = await judge(working, tree.gate(working), Ref(MEMORY_SEARCH), "invoke", principal)
    if service.refusal == "missing" or not is_service(service):
        raise NotFound("this world offers no search in memories")
    service.granted()
    inner = Working(working)
    await charge(inner, [service])
    call = Call(caller=principal, id=MEMORY_SEARCH, args={})
    results = await _search(inner, call, tree, given)
    if results or not await as_stage(working.ground).asks_consent():
        working.absorb(inner)
    return results


def is_service(verdict: AccessVerdict) -> bool:
    """Return True if the artifact of a service is that: it owns itself."""
    return verdict.standing is not None and verdict.standing.owner == verdict.standing.id


def _parameters(memory_artifact_id: object, query: object, limit: object = 5) -> None: ...


async def _search(
    working: Working, call: Call, tree: Tree, given: _MemorySearchArguments
) -> list[dict[str, Any]]:
    """Search as the caller. Errors: `NotFound`, `AccessDenied`, `InsufficientFunds`, `InvalidArguments`."""
    ref = ref_of(given.memory_artifact_id)
    verdict = await judge(
        working,
        tree.gate(working),
        ref,
        "read",
        call.caller,
        price_max=await _left_of(working, call, tree, ref),
    )
    found = await search_entries(working, verdict.granted(), given.query, limit=given.limit)
    if found:
        await charge(working, [verdict])
    return hits_as_json(found)


async def _left_of(working: Working, call: Call, tree: Tree, ref: Ref) -> int | None:
    """Return what the caller agrees to pay for the store, beyond the price of the search itself."""
    if call.price_max is None:
        return await tree.agreed_price(call, "read", ref.id)
    service = await working.standing(call.id)
    posted = Bill.posted_price("invoke", service) if service is not None else 0
    return max(0, call.price_max - posted)


async def charge(working: Working, verdicts: Sequence[AccessVerdict]) -> None:
    """Take up what accesses cost. Errors: `InsufficientFunds`."""
    for verdict in verdicts:
        event = verdict.charge()
        if event is not None:
            await working.apply(event, actor=verdict.principal)


# --------------------------------------------------------------------------- memory injection
# An agent's long-term memory in its prompt: one search at each model step, at the posted price.


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


async def _readable(reader: BilledReader, store_id: str) -> list[AccessVerdict] | Skip:
    """Judge whether a store may be read and shown in a prompt; return the verdicts, or why it is skipped."""
    try:
        ref = Ref.parse(store_id)
    except InvalidRequest:
        return "missing"
    if ref.part is not None or ref.version is not None:
        return "missing"  # entries have no versions, and a part is no store
    verdicts: list[AccessVerdict] = []
    for action in ("read", "include"):
        verdict = await judge(reader.stage, reader.gate, ref, action, reader.agent)
        if verdict.refusal is not None:
            stands = await reader.stage.standing(ref.id)
            return "deleted" if stands is not None and stands.deleted else verdict.refusal
        verdicts.append(verdict)
    return verdicts


def _due(reader: BilledReader, verdicts: Sequence[AccessVerdict]) -> list[ArtifactCharged]:
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
