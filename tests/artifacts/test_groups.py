"""Groups in `allow` lists: who is a member at that moment may, and nobody else, whichever way is tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from artelier.artifacts import (
    Access,
    AccessPrices,
    Artifacts,
    GroupJoined,
    Provenance,
    Space,
    StoreStage,
    artifact_stream,
)
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.log import Batch, Draft, StreamAppend
from artelier.sandbox import MontySandbox
from tests.artifacts.places import Place, in_place
from tests.artifacts.singing import CANARY, STUDY, TOOL, group, refused, sees, share

# -- who may


def test_a_member_reads_what_is_shared_and_who_left_sees_nothing_of_it(tmp_path: Path) -> None:
    """The canary stands in content, title, a derived artifact and an older version; I5."""

    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await group(here, "bob")
        await alice.write("seed", kind="document", content="open")
        await share(here, "notes", metadata={"title": CANARY}, provenance=Provenance(derived_from=("seed",)))
        await alice.edit("notes", "dawn", "dusk")
        assert await sees(bob, "notes")
        assert not await sees(here.as_("eve"), "notes")
        assert (await bob.lineage("seed")).derived == ("notes@1",)
        assert CANARY in (await bob.diff("notes", 1, 2)).text

        await alice.leave("study", "bob")

        assert not await sees(bob, "notes")
        assert (await bob.lineage("seed")).derived == ()
        for way in (bob.read("notes"), bob.read("notes@2"), bob.diff("notes", 1, 2)):
            await refused(way)
        verdict = await bob.access("notes", "include")
        assert (verdict.refusal, CANARY in repr(verdict.error)) == ("denied", False)
        assert (await bob.take("notes")).artifact is None
        for member_only in (bob.members("study"), bob.shared("study")):
            await refused(member_only)

    in_place(tmp_path, story)


def test_of_two_groups_that_share_the_same_leaving_one_keeps_the_other(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await group(here, "bob", "carol")
        await group(here, "bob", id="lab")
        await share(here, "both", "study", "lab")
        await share(here, "one", "study")

        await alice.leave("study", "bob")

        assert (await sees(bob, "both"), await sees(bob, "one")) == (True, False)
        assert await bob.groups_of() == ("lab",)
        carol = here.as_("carol")
        assert (await sees(carol, "both"), await sees(carol, "one")) == (True, True)

        await alice.leave("lab", "bob")
        assert not await sees(bob, "both")
        await alice.join("study", "bob")
        assert (await sees(bob, "both"), await sees(bob, "one")) == (True, True)

    in_place(tmp_path, story)


def test_a_group_may_be_listed_for_every_right(tmp_path: Path, sandbox: MontySandbox) -> None:
    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await group(here, "bob")
        rights = ("read", "write", "invoke", "delete", "transfer")
        for right in rights:
            await alice.write(
                f"for-{right}", kind="tool", content={"code": TOOL}, access={"allow": {right: [STUDY]}}
            )

        async def may() -> dict[str, tuple[str, ...]]:
            return {
                one: tuple([r for r in rights if (await bob.access(f"for-{one}", r)).allowed])
                for one in rights
            }

        assert await may() == {right: (right,) for right in rights}
        assert (await bob.invoke("for-invoke")).result == "sung"
        await bob.write("for-write", content={"code": TOOL.replace("sung", "hummed")})
        await bob.transfer("for-transfer", "carol")
        await bob.delete("for-delete")

        await alice.leave("study", "bob")

        assert set((await may()).values()) == {()}
        await refused(bob.invoke("for-invoke"))
        await refused(bob.write("for-write", content={"code": TOOL}))

    in_place(tmp_path, story, interpreter=sandbox)


def test_a_group_that_is_gone_was_never_there_or_is_none_means_nobody(tmp_path: Path) -> None:
    """I10."""

    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await group(here, "bob")
        await share(here, "notes")
        await share(here, "lost", "nowhere")
        await alice.write("paper", kind="document", content="no group")
        await share(here, "papers", "paper")
        with pytest.raises(InvalidRequest, match="paper is no group"):
            await alice.join("paper", "bob")
        assert await sees(bob, "notes")

        await alice.delete("study")

        for id in ("notes", "lost", "papers"):
            assert not await sees(bob, id)
        assert await bob.groups_of() == ()
        for gone in (alice.members("study"), alice.shared("study"), alice.join("study", "carol")):
            with pytest.raises(NotFound):
                await gone
        with pytest.raises(NotFound):
            await alice.leave("study", "bob")

    in_place(tmp_path, story)


def test_a_contract_that_a_group_may_ask_rules_only_while_its_owner_is_in_it(
    tmp_path: Path, sandbox: MontySandbox
) -> None:
    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await group(here, "bob")
        rule = "def check(caller, action, target, context):\n    return True\n"
        access = {"allow": {"invoke": [STUDY]}}
        await alice.write("rules", kind="contract", content=rule, access=access)
        await bob.write("open", kind="document", content="x", access={"contract": "rules"})
        assert (await here.as_("eve").access("open", "read")).allowed

        await alice.leave("study", "bob")

        assert not (await here.as_("eve").access("open", "read")).allowed

    in_place(tmp_path, story, interpreter=sandbox)


class _Target(NamedTuple):
    access: Access | None
    id: str = "x"
    owner: str = "alice"
    prices: AccessPrices = AccessPrices()


def test_the_name_of_a_group_is_nobody(tmp_path: Path) -> None:
    """Not even somebody who were called so would have what its members have."""
    target = _Target(Access.parse({"allow": {"read": [STUDY]}}))

    assert not Access.check("read", STUDY, target).allowed
    assert Access.check("read", "bob", target, frozenset((STUDY,))).allowed
    assert not Access.check("write", "bob", target, frozenset((STUDY,))).allowed
    assert not Access.check("read", "bob", target, frozenset(("membrane:lab",))).allowed

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await group(here, "bob")
        await alice.write("x", kind="document", content="x")
        with pytest.raises(InvalidRequest, match="invalid principal"):
            here.as_(STUDY)
        with pytest.raises(InvalidRequest, match="invalid principal"):
            Space(here.store, here.clock, "acme", "main", STUDY, alice)
        for way in (alice.join("study", STUDY), alice.transfer("x", STUDY)):
            with pytest.raises(InvalidRequest, match="invalid principal"):
                await way
        with pytest.raises(InvalidRequest):
            await alice.write("y", kind="document", content="y", access={"allow": {"read": ["membrane:"]}})

    in_place(tmp_path, story)


def test_a_world_has_no_groups(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await group(here, "bob")
        alice, bob = (here.as_(name, space="world:w") for name in ("alice", "bob"))
        await alice.write("study", kind="membrane", content={"name": "study"})
        await alice.write("notes", kind="document", content=CANARY, access={"allow": {"read": [STUDY]}})

        assert not await sees(bob, "notes")
        assert await bob.groups_of() == ()
        for way in (alice.join("study", "bob"), alice.members("study"), alice.shared("study")):
            with pytest.raises(InvalidRequest, match="a world has no groups"):
                await way
        stream = artifact_stream("acme", "world:w", "study")
        draft = Draft(GroupJoined(group="study", principal="bob"), 0, "eve")
        with pytest.raises(Conflict, match="no group that can be joined here"):
            await here.store.append(Batch(appends=(StreamAppend(stream, (draft,)),)))

    in_place(tmp_path, story)


def test_a_group_of_another_tenant_is_another_group(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await group(here, "bob")
        await share(here, "notes")
        there = here.as_("mallory", tenant="other")
        await there.write("study", kind="membrane", content={"name": "study"})
        await there.join("study", "eve")

        assert not await sees(here.as_("eve"), "notes")
        assert (await there.shared("study")).count == 0
        assert [one.principal for one in await there.members("study")] == ["eve"]

    in_place(tmp_path, story)


# -- who is faster


def hurried_by(act: Callable[[], Awaitable[None]]) -> tuple[type[StoreStage], list[object]]:
    """Stages during whose first look at members somebody else does something, and what was done."""
    done: list[object] = []

    class Rival(StoreStage):
        async def groups(self, principal: str) -> frozenset[str]:
            found = await super().groups(principal)
            if not done:
                done.append(act)
                await act()
            return found

    return Rival, done


@pytest.mark.parametrize("way", ["write", "delete", "transfer", "prune", "join", "invoke"])
def test_who_is_put_out_while_acting_has_not_acted(tmp_path: Path, sandbox: MontySandbox, way: str) -> None:
    """Membership was looked up, then it ended, then the batch came: nothing of it may be there."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await group(here, "bob")
        rights = ("read", "write", "invoke", "delete", "transfer")
        access = {"allow": {right: [STUDY] for right in rights}}
        body = "def run():\n    write('made', 'x', kind='document')\n    return 'sung'\n"
        await alice.write("x", kind="tool", content={"code": body}, access=access)
        await alice.write("x", content={"code": body})
        await alice.write("club", kind="membrane", content={}, access=access)
        stages, done = hurried_by(lambda: alice.leave("study", "bob"))
        bob = Artifacts(here.store, here.clock, "acme", "main", "bob", interpreter=sandbox, stages=stages)
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "write": lambda: bob.write("x", content={"code": TOOL}),
            "delete": lambda: bob.delete("x"),
            "transfer": lambda: bob.transfer("x", "bob"),
            "prune": lambda: bob.prune("x", max_versions=1),
            "join": lambda: bob.join("club", "bob"),
            "invoke": lambda: bob.invoke("x"),
        }

        await refused(acts[way]())

        assert len(done) == 1
        stands = await alice.read("x@1")
        assert (stands.owner, (await alice.read("x")).version) == ("alice", 2)
        assert await alice.members("club") == []
        with pytest.raises(NotFound):
            await alice.read("made")

    in_place(tmp_path, story, interpreter=sandbox)
