"""The view alone: artifacts whose history stands in a world's stream, and events that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier.artifacts import (
    Access,
    ArtifactDeleted,
    ArtifactPruned,
    Artifacts,
    ArtifactTransferred,
    ArtifactWritten,
    space_session,
    store,
)
from artelier.errors import AccessDenied, ArtelierError, Conflict, NotFound, VersionConflict
from artelier.log import Batch, Draft, EventData, Stream, StreamAppend, make_blob
from tests.artifacts.places import LEDGER, Place, in_place  # noqa: F401 - the view is verified

WORLD = Stream("acme", "world:w", "world:w")


async def tick(here: Place, *events: EventData, at: int = 41) -> None:
    """One batch of a world: all its events in the world's stream, at the tick."""
    drafts = [Draft(data, at, "alice") for data in events]
    key = await here.store.data_key("acme")
    blobs = [make_blob("acme", key, text)[1] for text in (b"v1", b"v2", b"v4")]
    await here.store.append(Batch(appends=(StreamAppend(WORLD, drafts),), blobs=blobs))


async def written(here: Place, version: int, **changes: Any) -> ArtifactWritten:
    ref, _ = make_blob("acme", await here.store.data_key("acme"), f"v{version}".encode())
    fields: dict[str, Any] = {
        "id": "x",
        "kind": "document",
        "version": version,
        "content": ref,
        "media": "text",
        "size_bytes": 2,
        "creator": "alice",
        "owner": "alice",
        "access": Access(policy="public"),
    }
    return ArtifactWritten(**{**fields, **changes})


def test_an_artifact_written_in_a_world_stands_in_its_space(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await tick(here, await written(here, 1), await written(here, 2))
        bob = here.as_("bob", space="world:w")

        artifact = await bob.read("x@2")
        assert (artifact.content, artifact.written_us, artifact.owner) == ("v2", 41, "alice")
        assert (await bob.read("x@1")).content == "v1"
        with pytest.raises(NotFound):
            await here.as_("bob").read("x")
        # The handle writes into the artifact's own stream, the view keeps one line of versions.
        assert (await bob.write("x", content="v3")).version == 3
        await tick(here, await written(here, 4), at=42)
        assert [entry.written_us for entry in await bob.history("x")] == [41, 41, 1_000_000, 42]

    in_place(tmp_path, story)


def test_events_that_contradict_what_stands_are_refused(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await tick(here, await written(here, 1))

        for data, error in (
            (await written(here, 1), VersionConflict),
            (await written(here, 3), VersionConflict),
            (await written(here, 2, id="y"), VersionConflict),
            (ArtifactDeleted(id="y"), NotFound),
            (ArtifactTransferred(id="x", giver="bob", to="carol"), Conflict),
        ):
            with pytest.raises(error):
                await tick(here, data)
        await tick(here, ArtifactDeleted(id="x"))
        with pytest.raises(NotFound, match="was deleted"):
            await tick(here, await written(here, 2))
        with pytest.raises(NotFound):
            await tick(here, ArtifactDeleted(id="x"))

    in_place(tmp_path, story)


def test_creator_kind_and_owner_are_those_of_the_first_version(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await tick(here, await written(here, 1))
        await tick(here, await written(here, 2, creator="eve", owner="eve", kind="tool"))

        artifact = await here.as_("bob", space="world:w").read("x")
        assert (artifact.creator, artifact.owner, artifact.kind) == ("alice", "alice", "document")

    in_place(tmp_path, story)


def test_pruning_never_takes_the_newest_and_never_gives_back(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await tick(here, await written(here, 1), await written(here, 2))
        for kept_from in (3, 2, 1):
            await tick(here, ArtifactPruned(id="x", kept_from=kept_from))

        bob = here.as_("bob", space="world:w")
        assert (await bob.read("x")).content == "v2"
        with pytest.raises(NotFound, match="was pruned"):
            await bob.read("x@1")

    in_place(tmp_path, story)


@pytest.mark.parametrize("access", [Access(policy="publik"), Access(policy="allow")])
def test_a_stored_policy_that_is_unknown_or_empty_denies(tmp_path: Path, access: Access) -> None:
    """Hole 21."""

    async def story(here: Place) -> None:
        await tick(here, await written(here, 1, access=access))

        bob = here.as_("bob", space="world:w")
        with pytest.raises(AccessDenied):
            await bob.read("x")
        assert await bob.search() == []

    in_place(tmp_path, story)


def test_an_artifact_that_never_stands_still_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "ATTEMPTS_MAX", 3)
    monkeypatch.setattr(space_session, "ATTEMPTS_MAX", 3)

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content="a")

        class Restless:
            """A store in which somebody else is always faster."""

            def __getattr__(self, name: str) -> Any:
                return getattr(here.store, name)

            async def append(self, batch: Batch) -> object:
                await alice.write("x", content="a")
                return await here.store.append(batch)

        restless: Any = Restless()
        slow = Artifacts(restless, here.clock, "acme", "main", "alice")
        for attempt in (
            slow.write("x", content="b"),
            slow.edit("x", "a", "b"),
            slow.delete("x"),
            slow.transfer("x", "bob"),
        ):
            with pytest.raises(VersionConflict, match="changes faster"):
                await attempt
        with pytest.raises(VersionConflict, match="has moved on"):
            await slow.write("x", content="b", expected_version=(await alice.read("x")).version)
        assert (await alice.read("x")).content == "a"

    in_place(tmp_path, story)


@pytest.mark.corrupts
def test_content_that_is_gone_is_an_error_to_read_and_nothing_to_search(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content="needle")
        here.store._write_db.execute("DELETE FROM blobs")

        assert await alice.search("needle") == []
        assert [summary.id for summary in await alice.search("x")] == ["x"]
        with pytest.raises(ArtelierError):
            await alice.read("x")

    in_place(tmp_path, story)
