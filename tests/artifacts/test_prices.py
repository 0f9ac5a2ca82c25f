"""What reading costs, who gets it, and that nothing is had without paying."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.errors import AccessDenied, InsufficientFunds, NotFound
from artelier.log import Stream
from tests.artifacts.places import LEDGER, Place, in_place  # noqa: F401 - the view is verified


async def _priced(here: Place, price: int = 3) -> None:
    await here.as_("alice").write("x", kind="document", content="worth it", prices={"read": price})


def test_a_read_with_a_price_pays_the_owner_and_leaves_an_event(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await _priced(here)
        await here.fund("bob", 10)

        assert (await here.as_("bob").read("x")).content == "worth it"

        assert (await here.scrip("bob"), await here.scrip("alice")) == (7, 3)
        event = (await here.store.read(Stream("acme", "main", "artifact:x")))[-1]
        assert (event.kind, event.actor) == ("artifact.charged", "bob")

    in_place(tmp_path, story)


def test_the_owner_reads_for_free(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await _priced(here)

        assert (await here.as_("alice").read("x")).content == "worth it"
        assert len(await here.store.read_all()) == 1

    in_place(tmp_path, story)


def test_without_money_nothing_is_read_in_any_way(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write(
            "x", kind="document", content="worth it", access="public", prices={"read": 3}
        )
        await here.as_("alice").write("x", content="worth more")
        bob = here.as_("bob")

        for attempt in (bob.read("x"), bob.read("x@1"), bob.diff("x", 1, 2), bob.edit("x", "worth", "not")):
            with pytest.raises(InsufficientFunds):
                await attempt
        assert await bob.search("worth") == []

    in_place(tmp_path, story)


def test_a_price_above_what_was_agreed_is_not_paid(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await _priced(here)
        await here.fund("bob", 10)

        with pytest.raises(AccessDenied, match="costs more than agreed"):
            await here.as_("bob").read("x", price_max=2)
        await here.as_("bob").read("x", price_max=3)

        assert await here.scrip("bob") == 7

    in_place(tmp_path, story)


def test_what_is_not_there_is_not_paid_for(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write(
            "lib", kind="library", content={"prompts": {"a": "x"}}, prices={"read": 3}
        )
        await here.fund("bob", 10)

        for ref in ("lib#b", "lib@2", "lib@2#a"):
            with pytest.raises(NotFound):
                await here.as_("bob").read(ref)
        assert await here.scrip("bob") == 10
        assert (await here.as_("bob").read("lib#a")).content == "x"
        assert await here.scrip("bob") == 7

    in_place(tmp_path, story)


def test_concurrent_readers_pay_once_each_and_never_go_below_zero(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await _priced(here)
        await here.fund("bob", 10)
        bob = here.as_("bob")

        results = await asyncio.gather(*(bob.read("x") for _ in range(5)), return_exceptions=True)

        assert sum(isinstance(result, InsufficientFunds) for result in results) == 2
        assert (await here.scrip("bob"), await here.scrip("alice")) == (1, 9)

    in_place(tmp_path, story)
