"""Whatever is remembered in whatever order: the view is the fold of the events, the index follows it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from artelier import Kernel
from artelier.errors import ArtelierError
from artelier.world import World
from artelier.world.stores import search
from tests.verification import verify_database
from tests.world.memories import content, folded, make_store, recall, remember, settled
from tests.world.places import balance, events

NAMES: tuple[str, ...] = ("ana", "bob")
WORDS = ("ship", "bread", "comet", "trade", "whale", "tea")

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
stores = st.sampled_from(("open", "shut"))
remembered = st.tuples(
    st.just("add"), st.sampled_from(NAMES), stores, texts, st.integers(0, 4).map(lambda n: n / 4)
)
configured = st.tuples(
    st.just("config"), stores, st.integers(1, 4), st.sampled_from(("oldest", "lowest_score"))
)
deeds = st.lists(
    st.one_of(
        remembered,
        remembered,
        st.lists(remembered, min_size=1, max_size=4),
        configured,
        st.just(("restart",)),
        st.tuples(st.just("find"), stores, texts),
    ),
    max_size=14,
)
"""A list of what is remembered happens in one tick, each agent doing its first."""


class Model:
    """What each store should hold, by plain lists."""

    def __init__(self) -> None:
        self.entries: dict[str, list[tuple[str, float]]] = {"open": [], "shut": []}
        self.config: dict[str, tuple[int, str]] = dict.fromkeys(self.entries, (3, "oldest"))
        self.paid = dict.fromkeys(NAMES, 0)

    def add(self, who: str, store: str, text: str, importance: float) -> bool:
        """Whether it may be. One that is there already counts as said, and is paid for."""
        if store == "shut" and who != "ana":
            return False
        if self.paid[who] >= 100:
            return False
        self.paid[who] += 1
        entries, (most, pruning) = self.entries[store], self.config[store]
        if text not in [known for known, _ in entries]:
            while len(entries) + 1 > most:
                worst = min(entries, key=lambda one: one[1]) if pruning != "oldest" else entries[0]
                entries.remove(worst)
            entries.append((text, importance))
        return True


@settings(max_examples=settings().max_examples // 3)  # each is a world, and several restarts
@given(deeds)
def test_stores_are_the_fold_of_what_happened(plan: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_lived(Path(folder), plan))
        assert verify_database(Path(folder) / "state.db") == []


async def _lived(folder: Path, plan: Sequence[Any]) -> None:
    model, wanted = Model(), dict[str, Any]()
    policies = {"rule": lambda facts: wanted.pop(facts["agent_id"], None)}
    # Under rules 1 fees are gone once they are paid, so that balances say what was asked.
    async with settled(folder, *NAMES, policies=policies, config={"rules": 1}) as w:
        await make_store(w, "ana", "open", access="public", max_entries=3)
        await make_store(w, "ana", "shut", max_entries=3)
    kernel = Kernel.open(folder / "state.db")
    try:
        w = World.open(kernel, "w", policies=policies)
        for deed in plan:
            if isinstance(deed, list):
                await _tick(w, model, wanted, deed)
            elif deed[0] == "add":
                await _add(w, model, *deed[1:])
            elif deed[0] == "config":
                _, store, most, pruning = deed
                await make_store(w, "ana", store, max_entries=most, auto_prune=pruning)
                model.config[store] = (most, pruning)
            elif deed[0] == "find" and model.paid["ana"] < 100:
                await _find(w, model, deed[1], deed[2])
            elif deed[0] == "restart":
                await w.close()
                await kernel.aclose()
                kernel = Kernel.open(folder / "state.db")
                w = World.open(kernel, "w", policies=policies)
            await _check(w, model)
        await w.close()
    finally:
        await kernel.aclose()


async def _add(w: World, model: Model, who: str, store: str, text: str, importance: float) -> None:
    try:
        await remember(w, who, text, store=store, importance=importance)
        is_done = True
    except ArtelierError:
        is_done = False
    assert model.add(who, store, text, importance) is is_done


async def _tick(w: World, model: Model, wanted: dict[str, Any], deeds: Sequence[Any]) -> None:
    """All at once; the model learns of them in the order in which the world took them."""
    asked = {who: (store, text, importance) for _, who, store, text, importance in reversed(deeds)}
    for who, (store, text, importance) in asked.items():
        args = {"memory_artifact_id": store, "text": text, "importance": importance}
        wanted[who] = {"action": "invoke", "artifact_id": "genesis_memory_add", "args": args}
    tick = (await w.tick()).tick
    for actor in await _order(w, tick):
        if actor in asked:
            model.add(actor, *asked[actor])


async def _order(w: World, tick: int) -> list[str]:
    found = await events(w, "artifact.invoked", "action.rejected", "action.taken")
    acts = [(data["act"].get("n", 0), actor) for _, actor, data in found if "act" in data]
    return [actor for _, actor in acts[-len(NAMES) :]]


async def _find(w: World, model: Model, store: str, text: str) -> None:
    """The index that followed all changes answers as one that is made now."""
    followed = await recall(w, "ana", text, store=store)
    search.shelves_of(w.host.services.store).clear()
    assert await recall(w, "ana", text, store=store) == followed
    model.paid["ana"] += 2
    known = [entry for entry, _ in model.entries[store]]
    assert {one["text"] for one in followed} <= set(known)
    words = set(text.split())
    assert {one for one in known if words & set(one.split())} <= {one["text"] for one in followed}


async def _check(w: World, model: Model) -> None:
    living = await folded(w)
    for store, entries in model.entries.items():
        held = (await content(w, "ana", store))["entries"]
        assert [(one["text"], one["importance"]) for one in held] == entries
        assert [one["id"] for one in held] == living.get(store, [])
        assert all(any(one["embedding"]) for one in held)
    for who, paid in model.paid.items():
        assert await balance(w, who) == 100 - paid
    rows = await w.host.services.store.query(
        "SELECT store, added - (SELECT count(*) FROM store_removals r WHERE r.tenant = c.tenant"
        " AND r.space = c.space AND r.store = c.store), entries FROM store_counts c ORDER BY store"
    )
    assert [(store, left, entries) for store, left, entries in rows] == [
        (store, len(entries), len(entries))
        for store, entries in sorted(model.entries.items())
        if store in living
    ]
