"""Access as a value: what a prompt, a subscription or a listing does when it may not raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier.artifacts import artifact_stream
from artelier.errors import AccessDenied, InsufficientFunds, InvalidRequest, NotFound
from artelier.log import Batch, Draft, StreamAppend
from tests.artifacts.places import LEDGER, Place, in_place, total  # noqa: F401


def test_what_may_be_had_comes_with_its_charge_and_nothing_has_moved(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write(
            "x", kind="document", content="text", prices={"read": 1, "inclusion": 3}
        )
        await here.fund("bob", 10)
        bob = here.as_("bob")

        verdict, artifact, charge = await bob.take("x", "include")

        assert verdict.allowed and artifact is not None and charge is not None
        assert (artifact.content, verdict.price, verdict.payer) == ("text", 3, "bob")
        assert await here.scrip("bob") == 10
        stream = artifact_stream("acme", "main", "x")
        draft = Draft(charge, here.clock.us, "bob")
        await here.store.append(Batch(appends=(StreamAppend(stream, (draft,)),)))
        assert (await here.scrip("bob"), await here.scrip("alice"), await total(here)) == (7, 3, 0)
        assert (await bob.take("x", "read")).verdict.price == 1
        assert (await bob.take("x", "subscribe")).charge is None  # to subscribe is free
        assert (await here.as_("alice").take("x")).charge is None  # as is one's own

    in_place(tmp_path, story)


@pytest.mark.parametrize(
    ("ref", "refusal", "why"),
    [
        ("never", "missing", "no artifact never"),
        ("gone", "missing", "was deleted"),
        ("gone@1", "missing", "was deleted"),
        ("lib@2", "missing", "has no version 2"),
        ("lib#c", "missing", "has no part c"),
        ("old@1", "missing", "was pruned"),
        ("doc#a", "missing", "has no part a"),
        ("mine", "denied", "its policy is private"),
        ("mine#a", "denied", "its policy is private"),
        ("ruled", "denied", "cannot be asked"),
        ("dear", "no_funds", "cannot pay"),
        ("elsewhere", "missing", "no artifact elsewhere"),
    ],
)
def test_a_refusal_is_a_value_with_a_reason(tmp_path: Path, ref: str, refusal: str, why: str) -> None:
    """Holes 20, 23 and 25: parts resolve, rights and prices count, tombstones hold."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("lib", kind="library", content={"prompts": {"a": "A", "b": "B"}})
        await alice.write("doc", kind="document", content={"prompts": {"a": 1}})
        await alice.write("mine", kind="prompt", content="secret")
        await alice.write("ruled", kind="document", content="x", access={"contract": "none"})
        await alice.write("dear", kind="document", content="x", prices={"inclusion": 5})
        for id in ("gone", "old"):
            await alice.write(id, kind="document", content="1")
        await alice.delete("gone")
        await alice.write("old", content="2")
        await alice.prune("old", max_versions=1)
        other = here.as_("alice", tenant="other")
        await other.write("elsewhere", kind="document", content="x")

        taken = await here.as_("bob").take(ref)

        assert (taken.artifact, taken.charge) == (None, None)
        assert taken.verdict.refusal == refusal
        assert why in taken.verdict.reason
        with pytest.raises((NotFound, AccessDenied, InsufficientFunds)):
            taken.verdict.granted()
        with pytest.raises((NotFound, AccessDenied, InsufficientFunds)):
            await here.as_("bob").read(ref) if refusal != "no_funds" else taken.verdict.charge()

    in_place(tmp_path, story)


def test_a_library_part_is_read_included_and_priced_like_its_library(tmp_path: Path) -> None:
    """Hole 20."""

    async def story(here: Place) -> None:
        await here.as_("alice").write(
            "lib", kind="library", content={"prompts": {"a": "A"}}, prices={"inclusion": 2}
        )
        await here.fund("bob", 2)

        taken = await here.as_("bob").take("lib#a")

        assert taken.artifact is not None and taken.charge is not None
        assert (taken.artifact.content, taken.verdict.price) == ("A", 2)

    in_place(tmp_path, story)


def test_rights_lost_later_count_at_the_next_access(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice, bob = here.as_("alice"), here.as_("bob")
        await alice.write("x", kind="document", content="x")
        assert (await bob.take("x", "subscribe")).artifact is not None

        await alice.write("x", content="x", access="private")
        assert (await bob.take("x", "subscribe")).verdict.refusal == "denied"
        await alice.delete("x")
        assert (await bob.take("x", "subscribe")).verdict.refusal == "missing"

    in_place(tmp_path, story)


@pytest.mark.parametrize(
    ("action", "refusal"),
    [
        ("read", None),
        ("include", None),
        ("subscribe", None),
        ("search", None),
        ("invoke", None),
        ("write", "denied"),
        ("delete", "denied"),
        ("transfer", "denied"),
        ("govern", "denied"),
        ("own", "denied"),
        ("", "denied"),
    ],
)
def test_every_action_is_asked_at_one_door(tmp_path: Path, action: str, refusal: str | None) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write("x", kind="document", content="x")

        assert (await here.as_("bob").access("x", action)).refusal == refusal

    in_place(tmp_path, story)


def test_what_is_no_ref_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        for ref in ("", "a b", "x@0", "main:x"):
            with pytest.raises(InvalidRequest):
                await here.as_("bob").take(ref)

    in_place(tmp_path, story)
