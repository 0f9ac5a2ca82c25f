"""Groups in `allow` lists: who is a member at that moment may, and nobody else, whichever way is tried."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from artelier.artifacts import (
    Access,
    Artifacts,
    ArtifactTransferred,
    GroupJoined,
    GroupLeft,
    Prices,
    Provenance,
    Space,
    StoreStage,
    artifact_stream,
    group_of,
)
from artelier.artifacts.group_rows import GROUPS_MAX, MEMBERS_MAX
from artelier.errors import (
    AccessDenied,
    ArtelierError,
    Conflict,
    InvalidRequest,
    LimitReached,
    NotFound,
    SequenceConflict,
)
from artelier.log import Batch, Draft, SqliteStore, StreamAppend, verify_store
from artelier.sandbox import MontySandbox
from tests.artifacts.places import VIEWS, Place, in_place

T = TypeVar("T")

CANARY = "the canary sings at dawn"
STUDY = "membrane:study"
TOOL = "def run():\n    return 'sung'\n"


async def group(here: Place, *members: str, id: str = "study") -> None:
    owner = here.as_("alice")
    await owner.write(id, kind="membrane", content={"name": id}, access="private")
    for member in members:
        await owner.join(id, member)


async def share(here: Place, id: str, *groups: str, **more: Any) -> None:
    listed = [group_of(name) for name in groups] or [STUDY]
    given = {"kind": "document", "content": CANARY, **more}
    await here.as_("alice").write(id, access={"allow": {"read": listed}}, **given)


async def refused(story: Awaitable[object]) -> str:
    """The text of a refusal, which must hold nothing of what was refused."""
    with pytest.raises(AccessDenied) as caught:
        await story
    said = f"{caught.value} {caught.value.to_wire()} {caught.value.facts}"
    assert CANARY not in said
    return said


async def sees(space: Artifacts, id: str) -> bool:
    """Whether a principal can get at an artifact, asked in every way there is; all must agree."""
    verdicts = [
        await space.access(id, action) for action in ("read", "include", "subscribe", "search")
    ]
    taken = await space.take(id)
    found = await space.search("canary")
    answers = {
        *(verdict.allowed for verdict in verdicts),
        taken.artifact is not None,
        id in {summary.id for summary in found},
        id in {summary.id for summary in await space.list()},
        id in {summary.id for summary in await space.list(kind="document")},
    }
    for way in (space.read(id), space.read(f"{id}@1"), space.history(id), space.lineage(id)):
        try:
            await way
            answers.add(True)
        except AccessDenied:
            answers.add(False)
    assert len(answers) == 1, answers
    return answers.pop()


# -- who may


def test_a_member_reads_what_is_shared_and_who_left_sees_nothing_of_it(tmp_path: Path) -> None:
    """The canary stands in content, title, a derived artifact and an older version; I5."""

    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await group(here, "bob")
        await alice.write("seed", kind="document", content="open")
        await share(
            here, "notes", metadata={"title": CANARY},
            provenance=Provenance(derived_from=("seed",)),
        )  # fmt: skip
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
                f"for-{right}", kind="tool", content={"code": TOOL},
                access={"allow": {right: [STUDY]}},
            )  # fmt: skip

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
    prices: Prices = Prices()


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
            await alice.write("y", kind="document", content="y",
                              access={"allow": {"read": ["membrane:"]}})  # fmt: skip

    in_place(tmp_path, story)


def test_a_world_has_no_groups(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await group(here, "bob")
        alice, bob = (here.as_(name, space="world:w") for name in ("alice", "bob"))
        await alice.write("study", kind="membrane", content={"name": "study"})
        await alice.write(
            "notes", kind="document", content=CANARY, access={"allow": {"read": [STUDY]}}
        )

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


# -- joining and leaving


def test_who_may_write_the_group_may_change_its_members(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice, bob, carol = (here.as_(name) for name in ("alice", "bob", "carol"))
        await alice.write(
            "study", kind="membrane", content={"name": "s"},
            access={"allow": {"read": [STUDY], "write": ["bob"]}},
        )  # fmt: skip

        await bob.join("study", "carol")
        here.clock.us = 5
        await bob.by("user:ana").join("study", "dora")

        assert await carol.members("study") == await alice.members("study")
        page = await carol.members("study", limit=1)
        assert [one.principal for one in page] == ["carol"]
        (dora,) = await carol.members("study", after="carol")
        assert (dora.principal, dora.joined_us) == ("dora", 5)
        await refused(carol.join("study", "carol2"))
        await refused(carol.leave("study", "carol"))
        await refused(bob.members("study"))  # he may write, not read
        assert await alice.groups_of("carol") == ("study",)
        assert await bob.groups_of("carol") == ()
        events = await here.store.read(artifact_stream("acme", "main", "study"))
        assert [(one.kind, one.actor) for one in events[1:]] == [
            ("group.joined", "bob"), ("group.joined", "user:ana"),
        ]  # fmt: skip

    in_place(tmp_path, story)


def test_joining_twice_and_leaving_what_one_is_not_in_are_conflicts(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await group(here, "bob")

        with pytest.raises(Conflict, match="bob is a member of study already"):
            await alice.join("study", "bob")
        with pytest.raises(Conflict, match="carol is no member of study"):
            await alice.leave("study", "carol")
        with pytest.raises(InvalidRequest):
            await alice.plan_join("study", "carol", "carol")
        with pytest.raises(InvalidRequest):
            await alice.plan_join("study")
        with pytest.raises(NotFound):
            await alice.join("nowhere", "bob")

    in_place(tmp_path, story)


def test_of_many_who_join_the_same_at_once_one_succeeds(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await group(here)
        joins = [here.as_("alice").join("study", f"agent{n % 10}") for n in range(30)]

        results = await asyncio.gather(*joins, return_exceptions=True)

        assert sum(result is None for result in results) == 10
        assert all(result is None or isinstance(result, Conflict) for result in results)
        assert len(await here.as_("alice").members("study")) == 10

    in_place(tmp_path, story)


def test_a_group_and_its_members_can_be_one_batch(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        append, blobs, _ = await alice.plan_write(
            "study", kind="membrane", content={"name": "s"}, access={"allow": {"read": [STUDY]}}
        )
        append = await alice.plan_join("study", "bob", "carol", actor="user:ana", after=append)

        await here.store.append(Batch(appends=(append,), blobs=blobs))

        assert [one.principal for one in await here.as_("bob").members("study")] == ["bob", "carol"]
        late = await alice.plan_join("study", "dora")
        gone = await alice.plan_leave("study", "bob", "carol", cause="x#1")
        await here.store.append(Batch(appends=(gone,)))
        assert await alice.members("study") == []
        with pytest.raises(SequenceConflict):
            await here.store.append(Batch(appends=(late,)))

        append, blobs, _ = await alice.plan_write("study", content={"name": "again"})
        append = await alice.plan_join("study", "bob", after=append)
        await here.store.append(Batch(appends=(append,), blobs=blobs))
        assert (await here.as_("bob").read("study")).content == {"name": "again"}
        with pytest.raises(InvalidRequest, match="no write of this group"):
            await alice.plan_join("other", "bob", after=append)
        paper, _, _ = await alice.plan_write("paper", kind="document", content="x")
        with pytest.raises(InvalidRequest, match="paper is no group"):
            await alice.plan_join("paper", "bob", after=paper)

    in_place(tmp_path, story)


def test_the_view_takes_no_change_of_members_that_nobody_planned(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await group(here, "bob")
        await here.as_("alice").write("paper", kind="document", content="x")

        async def append(id: str, data: GroupJoined | GroupLeft) -> None:
            stream = artifact_stream("acme", "main", id)
            await here.store.append(
                Batch(appends=(StreamAppend(stream, (Draft(data, 0, "eve"),)),))
            )

        for id, data in (
            ("study", GroupJoined(group="study", principal="bob")),
            ("study", GroupJoined(group="study", principal="membrane:lab")),
            ("study", GroupJoined(group="paper", principal="bob")),
            ("paper", GroupJoined(group="study", principal="eve")),
            ("paper", GroupJoined(group="paper", principal="eve")),
            ("study", GroupLeft(group="study", principal="eve")),
            ("paper", GroupLeft(group="study", principal="bob")),
        ):
            with pytest.raises(Conflict):
                await append(id, data)
        assert [one.principal for one in await here.as_("alice").members("study")] == ["bob"]

    in_place(tmp_path, story)


def test_groups_are_bounded_both_ways(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await group(here)
        crowd = [f"agent{n:04}" for n in range(MEMBERS_MAX)]
        await here.store.append(Batch(appends=(await alice.plan_join("study", *crowd),)))

        with pytest.raises(LimitReached, match="too many members of the group study"):
            await alice.join("study", "one-more")
        await alice.leave("study", crowd[0])
        await alice.join("study", "one-more")

        for n in range(GROUPS_MAX):
            append, blobs, _ = await alice.plan_write(f"g{n}", kind="membrane", content={})
            append = await alice.plan_join(f"g{n}", "bob", after=append)
            await here.store.append(Batch(appends=(append,), blobs=blobs))
        await alice.leave("study", crowd[1])
        with pytest.raises(LimitReached, match="too many groups that bob is in"):
            await alice.join("study", "bob")
        assert len(await here.as_("bob").groups_of()) == GROUPS_MAX

    in_place(tmp_path, story)


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
def test_who_is_put_out_while_acting_has_not_acted(
    tmp_path: Path, sandbox: MontySandbox, way: str
) -> None:
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
        bob = Artifacts(
            here.store, here.clock, "acme", "main", "bob", interpreter=sandbox, stages=stages
        )
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


# -- what is shared


def test_what_is_shared_follows_the_newest_policy(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await alice.write(
            "study", kind="membrane", content={"name": "s"}, access={"allow": {"read": [STUDY]}}
        )
        await alice.join("study", "bob")
        for n in range(5):
            await share(here, f"d{n}", metadata={"title": f"Paper {n}"} if n else {"title": 7})

        async def ids() -> tuple[list[str], int]:
            page = await bob.shared("study")
            return [one.id for one in page.items], page.count

        assert await ids() == (["d0", "d1", "d2", "d3", "d4"], 5)
        first = await bob.shared("study", limit=2)
        assert [(one.id, one.title) for one in first.items] == [("d0", None), ("d1", "Paper 1")]
        rest = await bob.shared("study", limit=3, after=first.next)
        assert ([one.id for one in rest.items], rest.next) == (["d2", "d3", "d4"], "d4")
        assert (await bob.shared("study", after=rest.next)).items == ()

        await alice.write("d0", content="x", access="private")
        await alice.write("d1", content="x", access={"allow": {"write": [STUDY]}})
        await alice.delete("d2")
        await alice.write("d3", content="x")  # the policy stays
        assert await ids() == (["d3", "d4"], 2)

        given = ArtifactTransferred(
            id="d3", giver="alice", to="carol", access=Access.parse("private")
        )
        draft = Draft(given, 0, "alice")
        await here.store.append(
            Batch(appends=(StreamAppend(artifact_stream("acme", "main", "d3"), (draft,)),))
        )
        assert await ids() == (["d4"], 1)

    in_place(tmp_path, story)


def test_of_what_is_shared_the_asker_sees_what_it_may_read_and_how_much_there_is(
    tmp_path: Path,
) -> None:
    async def story(here: Place) -> None:
        alice, eve = here.as_("alice"), here.as_("eve")
        await alice.write("study", kind="membrane", content={"name": "s"})  # anybody may look
        await alice.join("study", "bob")
        await here.as_("bob").write(
            "secret", kind="document", content=CANARY, access={"allow": {"read": [STUDY]}}
        )
        await here.as_("bob").write(
            "known", kind="document", content="x", access={"allow": {"read": [STUDY, "eve"]}}
        )

        page = await eve.shared("study")

        assert ([one.id for one in page.items], page.count) == (["known"], 2)

    in_place(tmp_path, story)


# -- what it costs


class _Counting:
    """A store that writes down what is asked of it."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def query(self, sql: str, parameters: Iterable[Any] = ()) -> Any:
        self.asked.append(sql)
        return await self._store.query(sql, tuple(parameters))

    def lookups(self) -> int:
        """Questions for membership since the last time."""
        count = sum(sql.startswith("SELECT group_id FROM artifact_members") for sql in self.asked)
        self.asked.clear()
        return count


def test_membership_is_one_indexed_query_and_only_where_it_matters(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await group(here, "bob")
        await group(here, "bob", id="lab")
        for n in range(40):
            await share(here, f"d{n}", "study", "lab")
        alice = here.as_("alice")
        await alice.write("open", kind="document", content="x")
        listed = {"allow": {"read": ["bob", STUDY], "write": [STUDY]}}
        await alice.write("listed", kind="document", content="x", access=listed)
        await alice.write("hidden", kind="prompt", content="x")
        store = _Counting(here.store)
        bob, owner = (
            Artifacts(cast(Any, store), here.clock, "acme", "main", name)
            for name in ("bob", "alice")
        )

        async def lookups(way: Awaitable[object]) -> int:
            store.lookups()
            await way
            return store.lookups()

        assert await lookups(bob.read("open")) == 0
        assert await lookups(bob.read("listed")) == 0
        assert await lookups(owner.read("d1")) == 0
        assert await lookups(bob.access("hidden", "read")) == 0
        assert await lookups(bob.access("listed", "invoke")) == 0
        assert await lookups(bob.read("d1")) == 1
        assert await lookups(bob.write("listed", content="y")) == 1
        assert await lookups(bob.search("canary")) == 1
        assert await lookups(bob.list()) == 1
        await alice.write("mine", kind="document", content="x")
        assert await lookups(bob.lineage("d1")) == 1

        await lookups(bob.read("d1"))
        await bob.read("d1")
        (sql,) = [sql for sql in store.asked if sql.startswith("SELECT group_id")]
        plan = await here.store.query(f"EXPLAIN QUERY PLAN {sql}", ("acme", "main", "bob", 9))
        assert [row[3] for row in plan] == [
            "SEARCH artifact_members USING COVERING INDEX artifact_members_by_principal"
            " (tenant=? AND space=? AND principal=?)"
        ]

    in_place(tmp_path, story)


def test_a_store_of_before_groups_is_brought_up_when_it_is_opened(tmp_path: Path) -> None:
    async def before(here: Place) -> None:
        await group(here, "bob")
        await share(here, "notes")

    in_place(tmp_path, before)
    db = sqlite3.connect(tmp_path / "state.db")
    db.execute("DROP TABLE artifact_members")
    db.execute("DROP TABLE artifact_shared")
    db.execute("UPDATE view_versions SET version = 2 WHERE name = 'artifacts'")
    db.commit()
    db.close()

    async def after(here: Place) -> None:
        assert await sees(here.as_("bob"), "notes")

    in_place(tmp_path, after)


# -- any order of everything

PEOPLE = ("alice", "bob", "carol", "dora")
GROUPS = ("g1", "g2")
ENTRIES = ("bob", "carol", "*", "membrane:g1", "membrane:g2", "membrane:nowhere")

groups = st.sampled_from(GROUPS)
people = st.sampled_from(PEOPLE)
documents = st.sampled_from(("d0", "d1", "d2"))
entries = st.frozensets(st.sampled_from(ENTRIES), max_size=3)


class GroupMachine(RuleBasedStateMachine):
    """Groups are alice's; documents belong to whoever wrote them first."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "state.db"
        self.loop = asyncio.new_event_loop()
        self.here = Place(SqliteStore(self.path, VIEWS))
        self.members: dict[str, set[str]] = {name: set() for name in GROUPS}
        self.owners: dict[str, str] = {}
        self.readers: dict[str, frozenset[str]] = {}
        self.writers: dict[str, frozenset[str]] = {}
        self.deleted: set[str] = set()
        for name in GROUPS:
            self.run(self.here.as_("alice").write(name, kind="membrane", content={}))

    def run(self, story: Awaitable[T]) -> T | ArtelierError:
        async def tell() -> T:
            return await story

        try:
            return self.loop.run_until_complete(tell())
        except ArtelierError as error:
            return error

    def listed(self, names: frozenset[str], who: str) -> bool:
        """The model's own idea of a list: written out, without the code's."""
        return bool(names & {who, "*"}) or any(
            who in self.members[name] and f"membrane:{name}" in names for name in GROUPS
        )

    def may_read(self, id: str, who: str) -> bool:
        if id not in self.owners or id in self.deleted:
            return False
        return self.owners[id] == who or self.listed(self.readers[id], who)

    @rule(name=groups, who=people, by=people)
    def join(self, name: str, who: str, by: str) -> None:
        result = self.run(self.here.as_(by).join(name, who))
        if name in self.deleted:
            assert isinstance(result, NotFound), result
        elif by != "alice":
            assert isinstance(result, AccessDenied), result
        elif who in self.members[name]:
            assert isinstance(result, Conflict), result
        else:
            assert result is None, result
            self.members[name].add(who)

    @rule(name=groups, who=people)
    def leave(self, name: str, who: str) -> None:
        result = self.run(self.here.as_("alice").leave(name, who))
        if name in self.deleted:
            assert isinstance(result, NotFound), result
        elif who not in self.members[name]:
            assert isinstance(result, Conflict), result
        else:
            assert result is None, result
            self.members[name].remove(who)

    @rule(id=documents, who=people, readers=entries, writers=entries)
    def share(self, id: str, who: str, readers: frozenset[str], writers: frozenset[str]) -> None:
        access = {"allow": {"read": sorted(readers), "write": sorted(writers)}}
        result = self.run(
            self.here.as_(who).write(id, kind="document", content=CANARY, access=access)
        )
        if id in self.deleted:
            assert isinstance(result, NotFound), result
        elif self.owners.get(id, who) != who:
            assert isinstance(result, AccessDenied), result
        else:
            assert not isinstance(result, ArtelierError), result
            self.owners[id], self.readers[id], self.writers[id] = who, readers, writers

    @rule(id=documents, who=people)
    def write(self, id: str, who: str) -> None:
        if id not in self.owners or id in self.deleted:
            return
        result = self.run(self.here.as_(who).write(id, content=CANARY))
        if self.owners[id] == who or self.listed(self.writers[id], who):
            assert not isinstance(result, ArtelierError), result
        else:
            assert isinstance(result, AccessDenied), result

    @rule(id=documents | st.just("g2"), seldom=st.integers(0, 3))
    def delete(self, id: str, seldom: int) -> None:
        owner = "alice" if id in GROUPS else self.owners.get(id)
        if seldom or owner is None or id in self.deleted:
            return
        assert self.run(self.here.as_(owner).delete(id)) is None
        self.deleted.add(id)
        if id in GROUPS:
            self.members[id].clear()

    @invariant()
    def everybody_finds_what_they_may_read_and_nothing_else(self) -> None:
        for who in PEOPLE:
            space, mine = self.here.as_(who), {id for id in self.owners if self.may_read(id, who)}
            for found in (space.list(kind="document"), space.search("canary")):
                assert {one.id for one in cast("list[Any]", self.run(found))} == mine
            for id in self.owners:
                verdict = self.run(space.access(id, "include"))
                assert not isinstance(verdict, ArtelierError)
                assert verdict.allowed == (id in mine), (who, id, verdict)

    @invariant()
    def groups_hold_and_share_what_the_model_says(self) -> None:
        alice = self.here.as_("alice")
        for name in set(GROUPS) - self.deleted:
            members = self.run(alice.members(name))
            assert {one.principal for one in cast("list[Any]", members)} == self.members[name]
            shared = self.run(alice.shared(name))
            assert not isinstance(shared, ArtelierError), shared
            listed = {
                id
                for id, readers in self.readers.items()
                if f"membrane:{name}" in readers and id not in self.deleted
            }
            assert shared.count == len(listed)
            assert {one.id for one in shared.items} == {
                id for id in listed if self.may_read(id, "alice")
            }
        for who in PEOPLE:
            names = self.run(self.here.as_(who).groups_of())
            assert names == tuple(name for name in GROUPS if who in self.members[name])

    def teardown(self) -> None:
        self.here.store.close()
        self.loop.close()
        report = verify_store(self.path, VIEWS)
        self.folder.cleanup()
        assert report.findings == []


TestGroups = GroupMachine.TestCase
TestGroups.settings = settings(stateful_step_count=25)
