"""Working states: pending changes over a stage, dropped or appended as one, as a world's tick does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier.artifacts import (
    ArtifactDeleted,
    ArtifactPruned,
    ArtifactTransferred,
    Call,
    InvocationFailed,
    StoreStage,
    Tree,
    Working,
    account_of,
    in_scope,
    principal_of,
)
from artelier.errors import InsufficientFunds, SequenceConflict
from artelier.ledger import MoneyTransferred, Posting
from artelier.log import Batch, Draft, Stream, StreamAppend
from artelier.sandbox import MontySandbox
from tests.artifacts.places import LEDGER, Place, in_place, total  # noqa: F401
from tests.artifacts.test_invoke import tool

COUNT = """\
try:
    n = read('n')
except Exception:
    n = 0
write('n', n + 1, kind='document', access={'allow': {'read': ['*']}})
return n + 1"""


def stage_of(here: Place, *, space: str = "main") -> StoreStage:
    return StoreStage(here.store, tenant="acme", space=space, at_us=7)


def test_the_actions_of_a_tick_are_one_batch(tmp_path: Path, sandbox: MontySandbox) -> None:
    """Fifty agents act over one working state; what fails is not in the batch."""

    async def story(here: Place) -> None:
        space = "world:w"
        await tool(here.as_("alice", space=space), "count", COUNT, prices={"invoke": 2})
        for n in range(50):
            await here.fund(f"agent{n}", n % 3 + 1, space=space)  # a third cannot pay
        stage = stage_of(here, space=space)
        tick = Working(stage)
        before = len(await here.store.read_all())

        results: list[object] = []
        for n in range(50):
            tree = Tree(sandbox, in_scope, seed=f"1/{n}")
            try:
                results.append(await tree.act(tick, Call(f"agent{n}", "count", {})))
            except InsufficientFunds:
                results.append(None)
        assert len(await here.store.read_all()) == before
        drafts = [Draft(change.data, 7, change.actor) for change in tick.changes]
        await here.store.append(
            Batch(
                appends=(StreamAppend(Stream("acme", space, "world:w"), drafts),),
                blobs=tick.blobs,
                guard=stage.guard_unchanged(stage.seen),
            )
        )

        done = [one for one in results if one is not None]
        assert done == list(range(1, 34))
        counted = await here.as_("eve", space=space).read("n")
        assert (counted.content, counted.version, counted.written_us) == (33, 33, 7)
        assert (await here.scrip("alice"), await total(here)) == (66, 0)
        # The working state stood as the views stand now.
        after = await stage_of(here, space=space).standing("n")
        told = await tick.standing("n")
        assert after is not None and told is not None
        assert told._replace(position=after.position) == after

    in_place(tmp_path, story, interpreter=sandbox)


def test_working_states_see_down_and_are_seen_after_they_are_absorbed(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content="x")
        await here.as_("alice").write("x", content="y")
        await here.fund("alice", 5)
        low = Working(stage_of(here))
        high = Working(low)
        pay = MoneyTransferred(postings=(Posting(account_of("alice"), account_of("bob"), "scrip", 3),))

        await high.apply(pay, actor="alice")
        await high.apply(ArtifactTransferred(id="x", giver="alice", to="bob"), actor="alice")
        await high.apply(ArtifactPruned(id="x", kept_from=2), actor="bob")

        balances = [await s.balance(account_of("bob")) for s in (low, high)]
        owners = [one.owner for s in (low, high) if (one := await s.standing("x"))]
        assert (balances, owners) == ([0, 3], ["alice", "bob"])
        low.absorb(high)
        standing = await low.standing("x")
        assert standing is not None
        assert (standing.owner, standing.kept_from) == ("bob", 2)
        assert await low.balance(account_of("alice")) == 2
        await low.apply(ArtifactDeleted(id="x"), actor="bob")
        gone = await low.standing("x")
        assert gone is not None and gone.deleted
        assert len(low.changes) == 4

    in_place(tmp_path, story)


def test_money_that_is_not_there_is_not_moved_in_part(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.fund("alice", 5)
        working = Working(stage_of(here))
        alice, bob = account_of("alice"), account_of("bob")

        with pytest.raises(InsufficientFunds):
            await working.move((Posting(alice, bob, "scrip", 4), Posting(alice, bob, "scrip", 4)))

        assert [await working.balance(one) for one in (alice, bob)] == [5, 0]
        await working.move((Posting("mint:x", bob, "scrip", 4),))  # what issues may owe
        assert await working.balance(bob) == 4

    in_place(tmp_path, story)


def test_a_batch_over_what_has_moved_is_refused(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content="x")
        stage = stage_of(here)
        for id in ("x", "new"):
            await stage.standing(id)
        guard = stage.guard_unchanged(stage.seen)
        await here.store.append(Batch(guard=guard))

        await alice.write("x", content="y")
        with pytest.raises(SequenceConflict, match="artifact x has moved on"):
            await here.store.append(Batch(guard=guard))
        await alice.write("new", kind="document", content="y")
        with pytest.raises(SequenceConflict, match="artifact new"):
            await here.store.append(Batch(guard=stage.guard_unchanged(["new"])))

    in_place(tmp_path, story)


def test_a_memory_search_of_a_higher_layer_acts_as_the_artifact(
    tmp_path: Path, sandbox: MontySandbox
) -> None:
    async def story(here: Place) -> None:
        await tool(here.as_("alice"), "x", "return search_memory('store', query='ships', limit=2)")

        async def search(working: object, principal: str, tree: object, /, *args: object, **kwargs: object):
            assert isinstance(working, Working) and isinstance(tree, Tree)
            return [principal, list(args), kwargs]

        tree = Tree(sandbox, in_scope, search_memory=search)
        result = await tree.act(Working(stage_of(here)), Call("bob", "x", {}))

        assert result == [principal_of("x"), ["store"], {"query": "ships", "limit": 2}]
        with pytest.raises(InvocationFailed, match="no memory to search"):
            await Tree(sandbox, in_scope).act(Working(stage_of(here)), Call("bob", "x", {}))

    in_place(tmp_path, story, interpreter=sandbox)
