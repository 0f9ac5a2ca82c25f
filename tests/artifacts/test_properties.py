"""The artifact store against a plain model: whatever is done, versions, rights and money agree."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from artelier.artifacts import Artifact
from artelier.errors import AccessDenied, ArtelierError, InsufficientFunds, NotFound
from artelier.log import SqliteStore, verify_store
from tests.artifacts.places import VIEWS, Place

T = TypeVar("T")

PEOPLE: tuple[str, ...] = ("alice", "bob", "carol")
READERS: dict[str, tuple[str, ...]] = {
    "private": (),
    "owner_writes": PEOPLE,
    "public": PEOPLE,
    "bobs": ("bob",),
}
WRITERS: dict[str, tuple[str, ...]] = {"private": (), "owner_writes": (), "public": PEOPLE, "bobs": ("bob",)}
POLICIES: dict[str, Any] = {
    "private": "private",
    "owner_writes": "owner_writes",
    "public": "public",
    "bobs": {"allow": {"read": ["bob"], "write": ["bob"]}},
}

ids = st.sampled_from(["a", "b", "c"])
people = st.sampled_from(PEOPLE)
policies = st.sampled_from(sorted(POLICIES))
texts = st.text(max_size=20)


class _Known:
    """What the model remembers of one artifact."""

    def __init__(self, owner: str, policy: str, price: int) -> None:
        self.creator = self.owner = owner
        self.policy = policy
        self.price = price
        self.contents: list[str] = []
        self.kept_from = 1
        self.deleted = False

    def reads(self, who: str) -> bool:
        return who == self.owner or who in READERS[self.policy]

    def writes(self, who: str) -> bool:
        return who == self.owner or who in WRITERS[self.policy]


class ArtifactMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "state.db"
        self.loop = asyncio.new_event_loop()
        self.here = Place(SqliteStore(self.path, VIEWS))
        self.known: dict[str, _Known] = {}
        self.scrip = dict.fromkeys(PEOPLE, 6)
        for who in PEOPLE:
            self.run(self.here.fund(who, 6))

    def run(self, story: Awaitable[T]) -> T | ArtelierError:
        async def tell() -> T:
            return await story

        try:
            return self.loop.run_until_complete(tell())
        except ArtelierError as error:
            return error

    def refusal(self, id: str, who: str, allowed: str) -> type[ArtelierError] | None:
        """The error that touching an artifact must give, None if it must work."""
        known = self.known.get(id)
        if known is None or known.deleted:
            return NotFound
        may = {"read": known.reads, "write": known.writes, "own": lambda w: w == known.owner}
        return None if may[allowed](who) else AccessDenied

    @rule(id=ids, who=people, text=texts, policy=policies, price=st.integers(0, 3))
    def create(self, id: str, who: str, text: str, policy: str, price: int) -> None:
        result = self.run(
            self.here.as_(who).write(
                id, kind="document", content=text, access=POLICIES[policy], prices={"read": price}
            )
        )
        known = self.known.get(id)
        if known is None:
            known = self.known[id] = _Known(who, policy, price)
        elif refusal := self.refusal(id, who, "own"):  # policy and prices are the owner's to set
            assert isinstance(result, refusal), result
            return
        assert isinstance(result, Artifact), result
        known.contents.append(text)
        known.policy, known.price = policy, price
        assert result.version == len(known.contents)

    @precondition(lambda self: self.known)
    @rule(id=ids, who=people, text=texts)
    def write(self, id: str, who: str, text: str) -> None:
        if id not in self.known:
            return
        result = self.run(self.here.as_(who).write(id, content=text))
        if refusal := self.refusal(id, who, "write"):
            assert isinstance(result, refusal), result
        else:
            assert isinstance(result, Artifact), result
            self.known[id].contents.append(text)

    @rule(id=ids, who=people, version=st.none() | st.integers(1, 6))
    def read(self, id: str, who: str, version: int | None) -> None:
        result = self.run(self.here.as_(who).read(id if version is None else f"{id}@{version}"))
        if refusal := self.refusal(id, who, "read"):
            assert isinstance(result, refusal), result
            return
        known = self.known[id]
        wanted = len(known.contents) if version is None else version
        if not known.kept_from <= wanted <= len(known.contents):
            assert isinstance(result, NotFound), result
            return
        price = 0 if who == known.owner else known.price
        if price > self.scrip[who]:
            assert isinstance(result, InsufficientFunds), result
            return
        self.scrip[who] -= price
        self.scrip[known.owner] += price
        assert isinstance(result, Artifact), result
        assert (result.content, result.version) == (known.contents[wanted - 1], wanted)
        assert (result.creator, result.owner) == (known.creator, known.owner)

    @rule(id=ids, who=people, to=people)
    def transfer(self, id: str, who: str, to: str) -> None:
        result = self.run(self.here.as_(who).transfer(id, to))
        if refusal := self.refusal(id, who, "own"):
            assert isinstance(result, refusal), result
        elif to == who:
            assert isinstance(result, ArtelierError)
        else:
            assert result is None, result
            self.known[id].owner = to

    @rule(id=ids, who=people)
    def delete(self, id: str, who: str) -> None:
        result = self.run(self.here.as_(who).delete(id))
        if refusal := self.refusal(id, who, "own"):
            assert isinstance(result, refusal), result
        else:
            assert result is None, result
            self.known[id].deleted = True

    @rule(id=ids, who=people, keep=st.integers(1, 3))
    def prune(self, id: str, who: str, keep: int) -> None:
        result = self.run(self.here.as_(who).prune(id, max_versions=keep))
        if refusal := self.refusal(id, who, "own"):
            assert isinstance(result, refusal), result
            return
        known = self.known[id]
        kept_from = max(known.kept_from, len(known.contents) - keep + 1)
        assert result == kept_from - known.kept_from
        known.kept_from = kept_from

    @invariant()
    def everyone_lists_what_they_may_read(self) -> None:
        for who in PEOPLE:
            found = self.run(self.here.as_(who).list())
            assert isinstance(found, list)
            assert {summary.id for summary in found} == {
                id for id in self.known if self.refusal(id, who, "read") is None
            }

    @invariant()
    def money_is_where_the_model_says(self) -> None:
        for who in PEOPLE:
            assert self.run(self.here.scrip(who)) == self.scrip[who]

    def teardown(self) -> None:
        self.here.store.close()
        self.loop.close()
        report = verify_store(self.path, VIEWS)
        self.folder.cleanup()
        assert report.findings == []


TestArtifacts = ArtifactMachine.TestCase
TestArtifacts.settings = settings(stateful_step_count=25)
