"""`/profiles`: shipped and stored ones, all mistakes with their places, versions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from artelier.operations.profile import operation_profile, profile_reader
from artelier.operations.profile.operation_profile import OperationProfile, parse_profile
from artelier.server.routes import profiles
from tests.operations.profiles import tavern
from tests.server.routes.served import good, play, refused, serving


def test_shipped_profiles_are_listed_and_shown(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            items = good(await served.ada.get("/profiles"))["items"]
            assert [one["profile_id"] for one in items] == ["rp-basic", "research-notes", "support-desk"]
            assert {one["source"] for one in items} == {"shipped"}
            shown = good(await served.ada.get("/profiles/rp-basic"))
            assert shown["profile"]["profile_id"] == "rp-basic"
            checked = good(await served.ada.post("/profiles/validate", json={"profile": shown["profile"]}))
            assert checked == {"valid": True, "errors": []}

    play(scenario())


def test_all_mistakes_are_named_and_nothing_is_stored(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            broken = tavern().data()
            broken["operations"][0]["depends_on"] = ["nobody"]
            broken["operations"][1]["params"]["template"] = "{{ open"
            told = good(await served.ada.post("/profiles/validate", json={"profile": broken}))
            assert not told["valid"]
            assert {one["path"].partition(".")[0] for one in told["errors"]} == {
                "operations[0]",
                "operations[1]",
            }
            saved = await served.ada.post("/profiles", json={"profile": broken})
            assert refused(saved, 422, "invalid_profile")["errors"] == told["errors"]
            refused(await served.ada.get("/profiles/tavern"), 404, "not_found")
            everything: tuple[Any, ...] = (None, 5, [], "no json {", {"operations": [[]]}, "x" * 100_000)
            for one in everything:
                told = good(await served.ada.post("/profiles/validate", json={"profile": one}))
                assert not told["valid"] and told["errors"]

    play(scenario())


def test_a_saved_profile_has_versions_and_names_who_wrote_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            data = tavern().data()
            first = good(await served.ada.post("/profiles", json={"profile": data}), 201)
            same = good(await served.ada.post("/profiles", json={"profile": data}), 201)
            assert first["ref"] == same["ref"] == "tavern@1"
            data["name"] = "Another"
            assert good(await served.ada.post("/profiles", json={"profile": data}), 201)["ref"] == "tavern@2"
            versions = good(await served.ada.get("/profiles/tavern/versions"))["items"]
            assert [one["writer"] for one in versions] == ["user:ada", "user:ada"]
            assert good(await served.ada.get("/profiles/tavern@1"))["profile"].get("name") != "Another"
            (stored,) = [
                one for one in good(await served.ada.get("/profiles"))["items"] if one["source"] != "shipped"
            ]
            assert (stored["source"], stored["name"]) == ("tavern@2", "Another")

    play(scenario())


def test_a_list_parses_each_profile_once_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def parse(data: object) -> OperationProfile:
        threads.append(threading.get_ident())
        return parse_profile(data)

    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ids = [f"tavern{number}" for number in range(4)]
            for id_ in ids:
                await served.ada.post("/profiles", json={"profile": {**tavern().data(), "profile_id": id_}})
            whole = good(await served.ada.get("/profiles"))

            monkeypatch.setattr(profile_reader, "_lines", {})
            monkeypatch.setattr(operation_profile, "parse_profile", parse)
            monkeypatch.setattr(profiles, "PAGE_BYTES", 1)
            found, after = list[object](), None
            for _ in range(4):
                page = good(await served.ada.get("/profiles", params={"after": after} if after else {}))
                found, after = [*found, *page["items"]], page["next"]
            assert (found, after) == (whole["items"], None)
            assert good(await served.ada.get("/profiles"))["items"] == whole["items"][:-3]

    play(scenario())
    assert len(threads) == 4 and threading.get_ident() not in threads
