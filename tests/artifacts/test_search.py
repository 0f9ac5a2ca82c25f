"""Search and listing: what is found, by whom, in which order, and what it may cost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier.artifacts import space_session
from artelier.errors import InvalidRequest, NotFound
from tests.artifacts.places import LEDGER, Place, in_place  # noqa: F401 - the view is verified


def ids(found: list) -> list[str]:
    return [summary.id for summary in found]


def test_every_word_must_occur_in_id_kind_metadata_or_content(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("sales-q3", kind="report", content="Umsatz im NORDEN")
        await alice.write("notes", kind="document", content={"region": "Süden"})
        await alice.write("blob", kind="dataset", content=b"norden", metadata={"title": "Karte"})

        assert ids(await alice.search("norden")) == ["sales-q3"]
        assert ids(await alice.search("REPORT norden q3")) == ["sales-q3"]
        assert ids(await alice.search("norden süden")) == []
        assert ids(await alice.search("SÜDEN")) == ["notes"]
        assert ids(await alice.search("karte")) == ["blob"]
        assert ids(await alice.search()) == ["blob", "notes", "sales-q3"]
        assert ids(await alice.search(kind="report")) == ["sales-q3"]
        assert ids(await alice.search(owner="bob")) == []
        assert ids(await alice.search(limit=2)) == ["blob", "notes"]

    in_place(tmp_path, story)


def test_search_sees_the_newest_version_only(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content="old")
        await alice.write("x", content="new")

        assert ids(await alice.search("new")) == ["x"]
        assert await alice.search("old") == []

    in_place(tmp_path, story)


def test_search_and_list_hide_what_may_not_be_read(tmp_path: Path) -> None:
    """I5."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("private", kind="prompt", content="x")
        await alice.write("open", kind="document", content="x")
        await alice.write("shared", kind="prompt", content="x", access={"allow": {"read": ["bob"]}})
        await alice.write("all", kind="prompt", content="x", access={"allow": {"read": ["*"]}})
        # Names that a search of text could take for bob's:
        await alice.write("bo", kind="prompt", content="x", access={"allow": {"read": ["bo_"]}})
        await alice.write("only", kind="tool", content="x", access={"allow": {"write": ["bob"]}})
        await alice.write("ruled", kind="document", content="x", access={"contract": "gone"})

        assert ids(await here.as_("bob").search("x")) == ["all", "shared", "open"]
        assert ids(await here.as_("bob").list()) == ["open", "shared", "all"]
        assert ids(await here.as_("b.b").list()) == ["open", "all"]
        assert ids(await here.as_("o").list()) == ["open", "all"]
        assert ids(await alice.list()) == ["private", "open", "shared", "all", "bo", "only"]

    in_place(tmp_path, story)


def test_content_with_a_price_is_not_searched_for_free(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        await here.as_("alice").write(
            "lessons",
            kind="document",
            content="the answer is 42",
            prices={"read": 5},
            metadata={"title": "Lessons"},
        )

        assert await here.as_("bob").search("42") == []
        assert ids(await here.as_("bob").search("lessons")) == ["lessons"]
        assert ids(await here.as_("alice").search("42")) == ["lessons"]

    in_place(tmp_path, story)


def test_large_content_is_found_by_name_and_not_looked_into(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("big", kind="document", content="needle " + "x" * space_session.CONTENT_BYTES_MAX)

        assert await alice.search("needle") == []
        assert ids(await alice.search("big")) == ["big"]

    in_place(tmp_path, story)


def test_a_search_looks_into_a_bounded_number_of_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space_session, "CANDIDATES_MAX", 200)

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        for n in range(220):
            await alice.write(f"d{n:03}", kind="document", content="needle" if n < 30 else "hay")

        assert ids(await alice.search("needle")) == [f"d{n:03}" for n in range(29, 19, -1)]

    in_place(tmp_path, story)


def test_a_list_goes_on_where_it_ended_whatever_was_written_meanwhile(tmp_path: Path) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        for n in range(7):
            await alice.write(f"d{n}", kind="document" if n % 2 else "report", content="x")

        first = await alice.list(limit=3)
        await alice.write("d0", content="again")
        await alice.delete("d2")
        await alice.delete("d4")
        second = await alice.list(limit=3, after=first[-1].id)

        assert ids(first) == ["d0", "d1", "d2"]
        assert ids(second) == ["d3", "d5", "d6"]
        assert ids(await alice.list(kind="report")) == ["d0", "d6"]
        assert await alice.list(after="d6") == []
        with pytest.raises(NotFound):
            await alice.list(after="never")

    in_place(tmp_path, story)


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_limit_out_of_bounds_is_refused(tmp_path: Path, limit: int) -> None:
    async def story(here: Place) -> None:
        for attempt in (here.as_("a").search("x", limit=limit), here.as_("a").list(limit=limit)):
            with pytest.raises(InvalidRequest):
                await attempt

    in_place(tmp_path, story)


@pytest.mark.parametrize("text", ["'; DROP TABLE artifacts; --", "%", "_", '"*"', "\x00", "a" * 9999])
def test_a_search_text_is_only_text(tmp_path: Path, text: str) -> None:
    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("x", kind="document", content="plain")

        assert await alice.search(text) == []
        assert await alice.list(kind=text, owner=text) == []
        assert ids(await alice.search("plain")) == ["x"]

    in_place(tmp_path, story)


def test_others_have_a_turn_after_each_text_that_a_search_reads(tmp_path: Path) -> None:
    """Twenty searches over 300 texts of 60 KB were as many turns of the event loop."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        for number in range(30):
            await alice.write(f"d{number}", kind="document", content=f"text {number}")

        async def others() -> int:
            turns = 0
            while not all(search.done() for search in searches):
                turns += 1
                await asyncio.sleep(0)
            return turns

        searches = [asyncio.ensure_future(alice.search("text 7")) for _ in range(4)]
        assert await others() >= 30  # `LoopShares` gives the searches of one user turns among each other
        assert [ids(await search) for search in searches] == [["d27", "d17", "d7"]] * 4

    in_place(tmp_path, story)
