"""Groups against a plain model: whatever is done, everybody finds what they may read and nothing else."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from artelier.errors import AccessDenied, ArtelierError, Conflict, NotFound
from artelier.log import SqliteStore, verify_store
from tests.artifacts.places import VIEWS, Place
from tests.artifacts.singing import CANARY

T = TypeVar("T")

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
        result = self.run(self.here.as_(who).write(id, kind="document", content=CANARY, access=access))
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
            assert {one.id for one in shared.items} == {id for id in listed if self.may_read(id, "alice")}
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
