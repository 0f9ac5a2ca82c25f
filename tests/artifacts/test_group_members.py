"""Joining and leaving groups, what is shared with their members, and what that costs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from artelier.artifacts import Access, Artifacts, ArtifactTransferred, GroupJoined, GroupLeft, artifact_stream
from artelier.artifacts.groups.queries import GROUPS_MAX, MEMBERS_MAX
from artelier.errors import Conflict, InvalidRequest, LimitReached, NotFound, SequenceConflict
from artelier.log import Batch, Draft, SqliteStore, StreamAppend
from tests.artifacts.places import Place, in_place
from tests.artifacts.singing import CANARY, STUDY, group, refused, sees, share

# -- joining and leaving


def test_who_may_write_the_group_may_change_its_members(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice, bob, carol = (here.as_(name) for name in ("alice", "bob", "carol"))
        await alice.write(
            "study",
            kind="membrane",
            content={"name": "s"},
            access={"allow": {"read": [STUDY], "write": ["bob"]}},
        )

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
            ("group.joined", "bob"),
            ("group.joined", "user:ana"),
        ]

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
        for gone in ("bob", "carol"):
            await alice.leave("study", gone)
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
            await here.store.append(Batch(appends=(StreamAppend(stream, (Draft(data, 0, "eve"),)),)))

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

        given = ArtifactTransferred(id="d3", giver="alice", to="carol", access=Access.parse("private"))
        draft = Draft(given, 0, "alice")
        await here.store.append(
            Batch(appends=(StreamAppend(artifact_stream("acme", "main", "d3"), (draft,)),))
        )
        assert await ids() == (["d4"], 1)

    in_place(tmp_path, story)


def test_of_what_is_shared_the_asker_sees_what_it_may_read_and_how_much_there_is(tmp_path: Path) -> None:
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
            Artifacts(cast(Any, store), here.clock, "acme", "main", name) for name in ("bob", "alice")
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
