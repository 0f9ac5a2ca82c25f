"""`genesis_memory_add` and `genesis_memory_search`: memory stores for those who may write or read them.

A search gives what reading would give, so what it finds costs the store's read price too.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from artelier.artifacts import Call, Ref, Tree, Verdict, Working, judge
from artelier.artifacts.access.bill import Bill
from artelier.artifacts.invoke.invocation_tree import Free
from artelier.errors import InvalidArguments, NotFound
from artelier.world.services.arguments import Arguments, arguments, ref_of
from artelier.world.stores.entry_writer import add_entry
from artelier.world.stores.search import hits_as_json, search_entries
from artelier.world.tick.world_state import as_stage

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


def is_service(verdict: Verdict) -> bool:
    """Return True if the artifact of a service is that: it owns itself."""
    return verdict.standing is not None and verdict.standing.owner == verdict.standing.id


def _parameters(memory_artifact_id: Any, query: Any, limit: Any = 5) -> None: ...


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


async def charge(working: Working, verdicts: Sequence[Verdict]) -> None:
    """Take up what accesses cost. Errors: `InsufficientFunds`."""
    for verdict in verdicts:
        event = verdict.charge()
        if event is not None:
            await working.apply(event, actor=verdict.principal)
