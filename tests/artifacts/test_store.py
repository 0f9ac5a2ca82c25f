"""The handle: versions, refs, conflicts, tombstones, owners, retention, other tenants."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier.artifacts import Provenance
from artelier.errors import AccessDenied, InvalidArtifact, InvalidRequest, NotFound, VersionConflict
from artelier.log import Batch, Stream, blob_name
from tests.artifacts.places import LEDGER, Place, in_place  # noqa: F401 - the view is verified


def test_a_write_is_read_back_whole(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")

        written = await alice.write(
            "report-1",
            kind="report",
            content={"b": [1, 2.5, None, True], "a": "ü"},
            access={"allow": {"read": ["bob"]}},
            prices={"read": 2},
            metadata={"title": "Q3"},
            interface={"tools": [{"name": "run"}]},
            provenance=Provenance(
                derived_from=("sales.csv@1", "main:handbook"), run_id="r1", step="c2/model"
            ),
        )

        assert await alice.read("report-1") == written
        assert written.version == 1
        assert (written.creator, written.owner) == ("alice", "alice")
        assert written.prices.read == 2
        assert written.metadata == {"title": "Q3"}
        assert written.provenance.derived_from == ("sales.csv@1", "main:handbook")
        assert (written.created_us, written.written_us) == (1_000_000, 1_000_000)

    in_place(tmp_path, story)


def test_a_new_version_keeps_what_it_does_not_change(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write(
            "x",
            kind="document",
            content="one",
            access="public",
            prices={"invoke": 3},
            metadata={"title": "T"},
            interface={"tools": []},
        )
        here.clock.us += 5

        second = await alice.write("x", content="two")

        assert await alice.read("x") == second
        assert (second.version, second.content, second.kind) == (2, "two", "document")
        assert second.access is not None and second.access.policy == "public"
        assert second.prices.invoke == 3
        assert (second.metadata, second.interface) == ({"title": "T"}, {"tools": []})
        assert (second.created_us, second.written_us) == (1_000_000, 1_000_005)

    in_place(tmp_path, story)


@pytest.mark.parametrize(
    "content", ["", "e\u0301", "a\r\nb\x00", b"", b"\x00\xff", "{name} {{ template }} {% x %}", [], 0, None]
)
def test_content_comes_back_exactly_as_given(tmp_path: Path, content: Any) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content=content)

        read = (await here.as_("alice").read("x")).content
        assert (type(read), read) == (type(content), content)

    in_place(tmp_path, story)


def test_json_is_stored_in_its_canonical_form(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content={"b": (1, 2), "a": {"d": 1}})

        (event,) = await here.store.read(Stream("acme", "main", "artifact:x"))
        stored = await here.store.blob("acme", blob_name(event.plain()["content"]))
        assert stored == b'{"a":{"d":1},"b":[1,2]}'
        assert (await here.as_("alice").read("x")).content == {"a": {"d": 1}, "b": [1, 2]}

    in_place(tmp_path, story)


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "content",
    [
        float("nan"),
        {"a": float("inf")},
        {1: 2},
        {"a": {None: 1}},
        "\ud800",
        {"\ud800": 1},
        {"a": b"x"},
        object(),
        {"a": {1, 2}},
        2**63,
        [-(2**64)],
        10**4000,
        _nested(101),
        _nested(100_000),
    ],
)
def test_content_that_cannot_be_stored_faithfully_is_refused(tmp_path: Path, content: Any) -> None:
    async def story(here: Place) -> None:
        with pytest.raises(InvalidArtifact):
            await here.as_("alice").write("x", kind="document", content=content)
        with pytest.raises(InvalidArtifact):
            await here.as_("alice").write(
                "x", kind="document", content="x", metadata={"k": content} if content else {}
            )
        with pytest.raises(NotFound):
            await here.as_("alice").read("x")

    if isinstance(content, str):  # text in metadata is JSON: the same surrogate, the same refusal
        assert content == "\ud800"
    in_place(tmp_path, story)


def test_content_has_a_bound(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        with pytest.raises(InvalidArtifact, match="too large"):
            await here.as_("alice").write("x", kind="document", content=bytes(64 * 2**20 + 1))
        with pytest.raises(InvalidArtifact, match="too large"):
            await here.as_("alice").write("x", kind="document", content="x", metadata={"k": "x" * 2**18})

    in_place(tmp_path, story)


def test_old_versions_stay_readable_by_ref(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        for text in ("one", "two", "three"):
            await alice.write("x", kind="document", content=text)

        assert [(await alice.read(f"x@{n}")).content for n in (1, 2, 3)] == ["one", "two", "three"]
        assert (await alice.read("x")).version == 3
        with pytest.raises(NotFound, match="no version 4"):
            await alice.read("x@4")

    in_place(tmp_path, story)


def test_a_part_of_a_library_is_read_by_name(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("lib", kind="library", content={"prompts": {"ideate_base": "Think."}})
        await alice.write("doc", kind="document", content={"prompts": {"ideate_base": "no"}})

        assert (await alice.read("lib#ideate_base")).content == "Think."
        for ref in ("lib#other", "doc#ideate_base", "lib@2#ideate_base"):
            with pytest.raises(NotFound):
                await alice.read(ref)

    in_place(tmp_path, story)


def test_the_kind_is_fixed_by_the_first_version(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content="x")

        with pytest.raises(InvalidArtifact, match="is fixed"):
            await here.as_("alice").write("x", kind="report", content="x")

    in_place(tmp_path, story)


@pytest.mark.parametrize(
    "arguments",
    [
        {"id": "a#b"},
        {"id": "a@1"},
        {"id": ""},
        {"id": "main:x"},
        {"id": "b:" + "A" * 43},
        {"id": "a" * 129},
        {"prices": {"read": -1}},
        {"prices": {"read": 1.5}},
        {"prices": {"read": True}},
        {"prices": {"sale": 1}},
        {"prices": {"read": 10**13}},
        {"prices": 7},
        {"prices": "free"},
        {"access": "everyone"},
        {"metadata": ["x"]},
        {"metadata": "x"},
        {"interface": [1]},
        {"metadata": {"retention": {"max_versions": 0}}},
        {"metadata": {"retention": 5}},
        {"metadata": {"retention": {"keep": 1}}},
        {"provenance": Provenance(derived_from=("a b",))},
        {"provenance": Provenance(derived_from=tuple(f"a{n}" for n in range(257)))},
    ],
)
def test_a_malformed_write_is_refused_and_writes_nothing(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async def story(here: Place) -> None:
        given = {"id": "x", "kind": "document", "content": "x", **arguments}

        with pytest.raises(InvalidRequest):
            await here.as_("alice").write(given.pop("id"), **given)
        assert await here.store.read_all() == []

    in_place(tmp_path, story)


def test_expected_version_refuses_a_stale_writer_with_both_numbers(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content="1", expected_version=0)
        await alice.write("x", content="2", expected_version=1)

        with pytest.raises(VersionConflict, match="expected version 1; got version 2") as caught:
            await alice.write("x", content="3", expected_version=1)
        with pytest.raises(VersionConflict, match="expected version 0; got version 2"):
            await alice.write("x", kind="document", content="3", expected_version=0)

        facts = caught.value.facts
        assert (facts["expected_version"], facts["have_version"]) == (1, 2)
        assert (await alice.read("x")).content == "2"

    in_place(tmp_path, story)


def test_of_fifty_writers_at_once_none_is_lost(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")

        await asyncio.gather(*(alice.write("x", kind="document", content=f"text {n}") for n in range(50)))

        assert [entry.version for entry in await alice.history("x")] == list(range(1, 51))
        contents = {(await alice.read(f"x@{n}")).content for n in range(1, 51)}
        assert contents == {f"text {n}" for n in range(50)}

    in_place(tmp_path, story)


def test_of_many_writers_that_expect_a_version_one_succeeds(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")

        results = await asyncio.gather(
            *(alice.write("x", kind="document", content=str(n), expected_version=0) for n in range(20)),
            return_exceptions=True,
        )

        assert sum(isinstance(result, VersionConflict) for result in results) == 19
        assert (await alice.read("x")).version == 1

    in_place(tmp_path, story)


def test_edit_replaces_a_string_that_occurs_once(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content="one two three")
        await alice.write("j", kind="document", content={"a": {"b": "old"}})

        edited = await alice.edit("x", "two", "2")
        await alice.edit("j", '"old"', '["new"]')

        assert (edited.version, edited.content) == (2, "one 2 three")
        assert (await alice.read("j")).content == {"a": {"b": ["new"]}}

    in_place(tmp_path, story)


@pytest.mark.parametrize(
    ("content", "old", "new", "says"),
    [
        ("aaa", "b", "c", "does not occur"),
        ("aXa", "a", "c", "more than once"),
        ("aaa", "aa", "c", "more than once"),
        ("abc", "", "c", "does not occur"),
        ({"a": "x"}, '"x"', "", "no JSON"),
        ({"a": "x"}, "x", "\ud800", "no JSON"),
        ({"a": "x"}, "x", "\n", "no JSON"),
        (b"abc", "b", "c", "bytes cannot be edited"),
    ],
)
def test_edit_refuses_what_it_cannot_do_exactly(
    tmp_path: Path, content: Any, old: str, new: str, says: str
) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content=content)

        with pytest.raises(InvalidArtifact, match=says):
            await here.as_("alice").edit("x", old, new)
        assert (await here.as_("alice").read("x")).version == 1

    in_place(tmp_path, story)


def test_concurrent_edits_of_different_places_all_hold(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content=" ".join(f"<{n}>" for n in range(10)))

        await asyncio.gather(*(alice.edit("x", f"<{n}>", f"[{n}]") for n in range(10)))

        assert (await alice.read("x")).content == " ".join(f"[{n}]" for n in range(10))

    in_place(tmp_path, story)


def test_a_deleted_artifact_is_neither_readable_nor_writable_in_any_version(tmp_path: Path) -> None:
    """Hole 25."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content="one")
        await alice.write("x", content="two")

        await alice.delete("x")

        for attempt in (
            alice.read("x"),
            alice.read("x@1"),
            alice.history("x"),
            alice.diff("x", 1, 2),
            alice.lineage("x"),
            alice.edit("x", "two", "2"),
            alice.delete("x"),
            alice.transfer("x", "bob"),
            alice.prune("x", max_versions=1),
            alice.write("x", content="three"),
            alice.write("x", kind="document", content="three"),
            alice.write("x", kind="document", content="3", expected_version=0),
        ):
            with pytest.raises(NotFound, match="was deleted"):
                await attempt
        assert await alice.search() == []
        assert await alice.list() == []

    in_place(tmp_path, story)


def test_a_transfer_changes_the_owner_and_never_the_creator(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await alice.write("x", kind="prompt", content="secret")

        await alice.transfer("x", "bob")

        with pytest.raises(AccessDenied):
            await alice.read("x")
        await bob.write("x", content="mine now")
        artifact = await bob.read("x")
        assert (artifact.creator, artifact.owner, artifact.version) == ("alice", "bob", 2)

    in_place(tmp_path, story)


def test_only_the_owner_transfers_and_only_to_somebody_else(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content="x", access="public")

        with pytest.raises(AccessDenied):
            await here.as_("bob").transfer("x", "bob")
        with pytest.raises(InvalidRequest, match="belongs to alice already"):
            await here.as_("alice").transfer("x", "alice")
        with pytest.raises(InvalidRequest, match="invalid principal"):
            await here.as_("alice").transfer("x", "b b")

    in_place(tmp_path, story)


def test_another_tenants_id_is_not_there_in_the_same_words(tmp_path: Path) -> None:
    """I5."""

    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content="x", access="public")
        stranger = here.as_("alice", tenant="other")
        world = here.as_("alice", space="world:w")

        for handle in (stranger, world):
            for attempt in (
                lambda id, h=handle: h.read(id),
                lambda id, h=handle: h.edit(id, "x", "y"),
                lambda id, h=handle: h.delete(id),
                lambda id, h=handle: h.history(id),
                lambda id, h=handle: h.lineage(id),
                lambda id, h=handle: h.transfer(id, "bob"),
                lambda id, h=handle: h.prune(id, max_versions=1),
                lambda id, h=handle: h.list(after=id),
            ):
                said: list[str] = []
                for id in ("x", "missing"):
                    with pytest.raises(NotFound) as caught:
                        await attempt(id)
                    said.append(str(caught.value).replace(id, "ID"))
                assert said[0] == said[1]
            assert await handle.search() == []
            assert await handle.list() == []
        await stranger.write("x", kind="report", content="their own")
        assert (await here.as_("alice").read("x")).content == "x"

    in_place(tmp_path, story)


def test_an_artifact_of_the_same_space_without_the_right_is_denied(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="prompt", content="secret")
        bob = here.as_("bob")

        for attempt in (
            bob.read("x"),
            bob.read("x@1"),
            bob.history("x"),
            bob.lineage("x"),
            bob.delete("x"),
            bob.edit("x", "secret", ""),
            bob.write("x", content="y"),
            bob.diff("x", 1, 1),
            bob.write("x", content="y", access="public"),
            bob.transfer("x", "bob"),
            bob.prune("x", max_versions=1),
            bob.write("x", content="y", expected_version=9),
        ):
            with pytest.raises(AccessDenied):
                await attempt

    in_place(tmp_path, story)


def test_only_the_owner_changes_policy_and_prices(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content="x", access="public")

        await here.as_("bob").write("x", content="bob was here")
        with pytest.raises(AccessDenied, match="only its owner"):
            await here.as_("bob").write("x", content="y", access="private")
        with pytest.raises(AccessDenied, match="only its owner"):
            await here.as_("bob").write("x", content="y", prices={"read": 5})
        assert (await here.as_("alice").read("x")).owner == "alice"

    in_place(tmp_path, story)


def test_a_contract_that_cannot_be_asked_denies_everybody_and_can_be_replaced(tmp_path: Path) -> None:
    """I10, hole 21."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content="x", access={"contract": "gone"})

        for who in ("alice", "bob"):
            with pytest.raises(AccessDenied):
                await here.as_(who).read("x")
            assert await here.as_(who).search("x") == []
        with pytest.raises(AccessDenied):
            await alice.write("x", content="y")
        await alice.write("x", content="y", access="private")
        assert (await alice.read("x")).content == "y"

    in_place(tmp_path, story)


def test_main_refs_need_a_grant_of_the_world(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        main = here.as_("alice")
        await main.write("handbook", kind="document", content="rules")
        await main.write("diary", kind="prompt", content="secret")
        bare = here.as_("bob", space="world:w")
        granted = here.as_("bob", space="world:w", main=here.as_("bob"))

        with pytest.raises(AccessDenied, match="no grant"):
            await bare.read("main:handbook")
        assert (await granted.read("main:handbook@1")).content == "rules"
        with pytest.raises(AccessDenied):
            await granted.read("main:diary")
        with pytest.raises(InvalidRequest):
            await main.read("main:handbook")

    in_place(tmp_path, story)


def test_retention_prunes_old_versions_and_keeps_the_newest(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        for n in range(5):
            await alice.write("x", kind="document", content=f"v{n + 1}")
            here.clock.us += 10_000_000

        assert await alice.prune("x", max_versions=3) == 2
        assert await alice.prune("x", max_versions=3) == 0
        with pytest.raises(NotFound, match="was pruned"):
            await alice.read("x@2")
        assert (await alice.read("x@3")).content == "v3"
        assert await alice.prune("x", ttl_s=25) == 1  # v5 is 10 s old, v4 20 s, v3 30 s
        assert await alice.prune("x", ttl_s=1) == 1
        assert [entry.pruned for entry in await alice.history("x")] == [True] * 4 + [False]
        assert (await alice.read("x")).content == "v5"

    in_place(tmp_path, story)


def test_retention_in_the_metadata_holds_unless_said_otherwise(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        retention = {"retention": {"max_versions": 2}}
        for n in range(4):
            await alice.write("x", kind="document", content=str(n), metadata=retention)
        await alice.write("plain", kind="document", content="0")

        assert await alice.prune("x") == 2
        assert await alice.prune("plain") == 0
        with pytest.raises(InvalidArtifact):
            await alice.prune("x", max_versions=0)

    in_place(tmp_path, story)


def test_a_diff_shows_lines_of_text_and_paths_of_json(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("t", kind="document", content="a\nb\nc\n")
        await alice.write("t", content="a\nB\nc\nd\n")
        await alice.write("t", content=b"ab")
        await alice.write("j", kind="document", content={"a": [1, 2], "b/c": 1, "gone": None})
        await alice.write("j", content={"a": [1, 3, 4], "b/c": True, "new": {}})

        text, json = await alice.diff("t", 1, 2), await alice.diff("j", 1, 2)

        assert text.text.splitlines() == [
            "--- t@1",
            "+++ t@2",
            "@@ -1,4 +1,5 @@",
            " a",
            "-b",
            "+B",
            " c",
            "+d",
            " ",
        ]
        assert [(change.op, change.path) for change in json.changes] == [
            ("replace", "/a/1"),
            ("add", "/a/2"),
            ("replace", "/b~1c"),
            ("remove", "/gone"),
            ("add", "/new"),
        ]
        assert json.text.startswith("~ /a/1: 2 -> 3\n+ /a/2: 4\n~ /b~1c: 1 -> true")
        assert (await alice.diff("t", 2, 2)).text == ""
        assert (await alice.diff("t", 2, 3)).text == "t@2: text -> t@3: 2 bytes"
        assert (await alice.diff("t", 3, 3)).text == ""

    in_place(tmp_path, story)


def test_lineage_shows_both_directions_and_hides_what_may_not_be_read(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await alice.write("base", kind="document", content="x")
        comes = Provenance(derived_from=("base@1", "elsewhere"))
        await alice.write("child", kind="document", content="y", provenance=comes)
        await alice.write("child", content="z", provenance=comes)
        await alice.write("diary", kind="prompt", content="s", provenance=comes)

        assert (await bob.lineage("child")).sources == ("base@1", "elsewhere")
        assert (await bob.lineage("base")).derived == ("child@1", "child@2")
        assert (await alice.lineage("base")).derived == ("child@1", "child@2", "diary@1")

    in_place(tmp_path, story)


def test_history_says_who_wrote_when_and_in_which_run(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content="abc", access="public")
        here.clock.us = 7
        await here.as_("bob").write("x", content="abcd", provenance=Provenance(run_id="r1", step="c1"))

        first, second = await here.as_("carol").history("x")

        assert (first.writer, first.size_bytes, first.run_id) == ("alice", 3, None)
        assert (second.writer, second.written_us, second.size_bytes) == ("bob", 7, 4)
        assert (second.run_id, second.step) == ("r1", "c1")
        assert await here.as_("carol").history("x", after=1, limit=5) == (second,)

    in_place(tmp_path, story)


def test_a_planned_write_rides_in_a_batch_of_its_own(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")

        append, blobs, artifact = await alice.plan_write(
            "x",
            kind="document",
            content="x",
            provenance=Provenance(run_id="r1", step="c1/model"),
            actor="agent:7",
            cause="run:r1@3",
        )
        with pytest.raises(NotFound):
            await alice.read("x")
        await here.store.append(Batch(appends=(append,), blobs=blobs))

        assert await alice.read("x") == artifact
        (event,) = await here.store.read(append.stream)
        assert (event.actor, event.cause) == ("agent:7", "run:r1@3")

    in_place(tmp_path, story)


def test_no_free_text_stands_in_an_event(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write(
            "x",
            kind="document",
            content="SECRET",
            metadata={"title": "SECRET"},
            interface={"tools": "SECRET"},
        )

        for event in await here.store.read_all():
            assert b"SECRET" not in event.data
            assert msgspec.json.decode(event.data)["size_bytes"] == 6

    in_place(tmp_path, story)


def test_a_damaged_plan_is_refused_by_the_view(tmp_path: Path) -> None:
    """Two plans on one version in one batch: the fold itself keeps versions gapless."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        first, blobs, _ = await alice.plan_write("x", kind="document", content="1")
        again = type(first)(first.stream, first.events, None)

        with pytest.raises(VersionConflict, match="expected version 0; got version 1"):
            await here.store.append(Batch(appends=(first, again), blobs=blobs))
        assert await here.store.read_all() == []

    in_place(tmp_path, story)
