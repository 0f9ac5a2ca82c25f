"""`/artifacts`: what people see and change, in whose name, and what no address gives."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx

from artelier import AutonomousAgent
from tests.server.routes.served import USERS, at, good, play, refused, serving


async def _write(client: httpx.AsyncClient, id: str, content: Any, **more: Any) -> dict[str, Any]:
    body = {"id": id, "kind": "document", "content": content, **more}
    return good(await client.post("/artifacts", json=body), 201)


def test_an_artifact_is_written_read_changed_and_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            made = await _write(served.ada, "m1/notes", "one\ntwo", metadata={"title": "Notes"})
            assert (made["version"], made["owner"], made["media"]) == (1, "operator", "text")
            where = at("artifacts", "m1/notes")
            change = {"expected_version": 1, "content": "one\nthree"}
            assert good(await served.ada.patch(where, json=change))["version"] == 2
            first = good(await served.ada.get(where, params={"version": 1}))
            newest = good(await served.ada.get(where))
            assert (first["content"], newest["content"]) == ("one\ntwo", "one\nthree")
            assert newest["metadata"] == {"title": "Notes"}
            difference = good(await served.ada.get(f"{where}/diff", params={"a": 1, "b": 2}))
            assert "-two" in difference["text"] and "+three" in difference["text"]
            assert (await served.ada.delete(where)).status_code == 204
            refused(await served.ada.get(where), 404, "not_found")

    play(scenario())


def test_the_history_names_the_person_and_the_artifact_belongs_to_operator(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            made = await _write(served.ada, "plan", {"a": 1})
            assert made["creator"] == made["owner"] == "operator"
            (version,) = good(await served.ada.get("/artifacts/plan/versions"))["items"]
            assert version["writer"] == "user:ada"

    play(scenario())


def test_a_change_against_another_version_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _write(served.ada, "plan", "one")
            good(await served.ada.patch("/artifacts/plan", json={"expected_version": 1, "content": "two"}))
            late = {"expected_version": 1, "content": "three"}
            refused(await served.ada.patch("/artifacts/plan", json=late), 409, "version_conflict")
            again = {"id": "plan", "kind": "document", "content": "x"}
            refused(await served.ada.post("/artifacts", json=again), 409, "version_conflict")
            assert good(await served.ada.get("/artifacts/plan"))["content"] == "two"

    play(scenario())


def test_access_and_prices_change_without_touching_the_content(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _write(served.ada, "plan", {"deep": [1, 2]}, access="private")
            body = {
                "expected_version": 1,
                "prices": {"read": 5},
                "access": {"allow": {"read": ["operator", "membrane:m1/room"]}},
            }
            changed = good(await served.ada.patch("/artifacts/plan", json=body))
            assert changed["content"] == {"deep": [1, 2]} and changed["prices"]["read"] == 5
            told = good(await served.ada.get("/artifacts/plan/access"))
            assert "operator and every member of m1/room may read it." in told["words"]
            assert "Reading it costs others 5 scrip." in told["words"]
            assert {one["action"]: one["allowed"] for one in told["people"]}["write"] is True
            empty = {"expected_version": 2}
            refused(await served.ada.patch("/artifacts/plan", json=empty), 422, "invalid_request")

    play(scenario())


def test_what_costs_is_not_read_by_looking(tmp_path: Path) -> None:
    """A page that is loaded must not spend anybody's money."""

    async def scenario() -> None:
        async with serving(tmp_path) as served:
            maker = served.kernel.for_tenant("default").as_principal("maker").artifacts
            await maker.write("paid", kind="document", content="x", prices={"read": 3})
            refused(await served.ada.get("/artifacts/paid"), 403, "access_denied")
            refused(await served.ada.get("/artifacts/paid/content"), 403)
            people = good(await served.ada.get("/artifacts/paid/access"))["people"]
            (reading,) = [one for one in people if one["action"] == "read"]
            assert reading["price"] == 3 and reading["allowed"] is False  # there are no funds
            agreed = {"price_max": 3}
            refused(await served.ada.post("/artifacts/paid/read", json=agreed), 409)

    play(scenario())


def test_private_artifacts_of_others_are_neither_listed_nor_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            maker = served.kernel.for_tenant("default").as_principal("agent:x").artifacts
            await maker.write("secret", kind="document", content="CANARY-77", access="private")
            for path in (
                "/artifacts/secret",
                "/artifacts/secret/content",
                "/artifacts/secret/versions",
                "/artifacts/secret/lineage",
                "/artifacts/secret/access",
            ):
                answer = await served.ada.get(path)
                refused(answer, 403, "access_denied")
                assert "CANARY" not in answer.text
            for params in ({}, {"q": "canary-77"}, {"kind": "document"}, {"owner": "agent:x"}):
                assert good(await served.ada.get("/artifacts", params=params))["items"] == []

    play(scenario())


def test_another_tenant_finds_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _write(served.ada, "plan", "one")
            assert good(await served.eve.get("/artifacts"))["items"] == []
            refused(await served.eve.get("/artifacts/plan"), 404, "not_found")
            refused(await served.eve.delete("/artifacts/plan"), 404, "not_found")

    play(scenario())


def test_pages_of_a_list_hold_everything_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            for number in range(7):
                await _write(served.ada, f"doc/{number}", f"text {number}")
            found: list[str] = []
            after: str | None = None
            while True:
                params: dict[str, Any] = {"limit": 3} | ({"after": after} if after else {})
                page = good(await served.ada.get("/artifacts", params=params))
                assert len(page["items"]) <= 3
                found += [one["id"] for one in page["items"]]
                if (after := page["next"]) is None:
                    break
            assert found == [f"doc/{number}" for number in range(7)]
            hits = good(await served.ada.get("/artifacts", params={"q": "TEXT 4"}))["items"]
            assert [one["id"] for one in hits] == ["doc/4"]

    play(scenario())


def test_lineage_goes_both_ways(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _write(served.ada, "source", "raw")
            await _write(served.ada, "m1/report", "fine", derived_from=["source@1"])
            up = good(await served.ada.get(at("artifacts", "m1/report") + "/lineage"))
            down = good(await served.ada.get("/artifacts/source/lineage"))
            assert up["sources"] == ["source@1"] and down["derived"] == ["m1/report@1"]

    play(scenario())


def test_a_program_is_invoked_with_arguments_by_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            code = {"code": "def run(a, b):\n    return a + b\n"}
            good(
                await served.ada.post("/artifacts", json={"id": "add", "kind": "tool", "content": code}), 201
            )
            call = {"args": {"a": 2, "b": 3}}
            assert good(await served.ada.post("/artifacts/add/invoke", json=call))["result"] == 5
            refused(await served.ada.post("/artifacts/add/invoke", json={"args": {"a": 2}}), 422)
            reserved = {"args": {"a": 1, "b": 1, "price_max": 9}}
            refused(await served.ada.post("/artifacts/add/invoke", json=reserved), 422)

    play(scenario())


def test_what_a_fork_has_written_is_brought_home_where_people_may_write(tmp_path: Path) -> None:
    async def scenario() -> None:
        users = (*USERS, ("amy", "admin", "default"))
        async with serving(tmp_path, users=users, has_worker=False) as served:
            agent = AutonomousAgent(kernel=served.kernel, identity="You report.")
            told: dict[str, Any] = {"model": "m", "prompt": "x", "artifact": "reports/q3"}
            await agent.run(run_id="r", **told)
            body = {"at": 1, "new_id": "again"}
            good(await served.ada.post(at("runs", "r", "fork"), json=body), 201)
            made = await agent.run(run_id="again", **told)
            assert made.artifact == "forks/again/reports/q3@1"
            home, fork = at("artifacts", "reports/q3"), at("artifacts", "forks/again/reports/q3")
            before = good(await served.ada.get(home))

            as_owner = {"principal": before["owner"]}
            refused(await served.ada.post(f"{fork}/adopt", json=as_owner), 403, "access_denied")
            refused(await served.vic.post(f"{fork}/adopt", json={}), 403, "access_denied")
            refused(await served.eve.post(f"{fork}/adopt", json={}), 404, "not_found")
            refused(await served.ada.post(f"{home}/adopt", json={}), 422, "invalid_request")
            assert good(await served.ada.get(home)) == before
            beside = good(await served.ada.post(f"{fork}/adopt", json={"to": "reports/mine"}), 201)
            assert (beside["id"], beside["version"], beside["creator"]) == ("reports/mine", 1, "operator")
            adopted = good(await served.client("amy").post(f"{fork}/adopt", json=as_owner), 201)
            assert (adopted["id"], adopted["version"]) == ("reports/q3", 2)
            lineage = good(await served.ada.get(f"{home}/lineage"))
            assert "forks/again/reports/q3@1" in lineage["sources"]

    play(scenario())


def test_a_download_is_never_a_page(tmp_path: Path) -> None:
    """HTML of an artifact would run with the rights of whoever looks at it."""

    async def scenario() -> None:
        async with serving(tmp_path) as served:
            page = "<script>alert(1)</script>"
            await _write(served.ada, "x/page.html", page)
            raw = base64.b64encode(page.encode()).decode()
            await _write(served.ada, "x/raw.html", raw, media="bytes")
            for id in ("x/page.html", "x/raw.html"):
                answer = await served.ada.get(at("artifacts", id) + "/content")
                assert answer.text == page
                assert answer.headers["content-disposition"].startswith("attachment;")
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert "html" not in answer.headers["content-type"]

    play(scenario())


def test_bytes_go_in_and_out_as_base64(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            raw = base64.b64encode(bytes(range(256))).decode()
            made = await _write(served.ada, "blob", raw, media="bytes")
            assert (made["media"], made["content"], made["size_bytes"]) == ("bytes", raw, 256)
            for wrong in ({"content": "no base64!", "media": "bytes"}, {"content": {}, "media": "text"}):
                body = {"id": "other", "kind": "document", **wrong}
                refused(await served.ada.post("/artifacts", json=body), 422, "invalid_request")

    play(scenario())


def test_large_content_is_left_to_the_download(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            artifacts = served.kernel.for_tenant("default").as_principal("operator").artifacts
            await artifacts.write("big", kind="document", content="x" * 3_000_000)
            told = good(await served.ada.get("/artifacts/big"))
            assert told["is_cut"] and told["content"] is None and told["size_bytes"] == 3_000_000
            assert len((await served.ada.get("/artifacts/big/content")).content) == 3_000_000

    play(scenario())


def test_a_viewer_reads_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _write(served.ada, "plan", "one")
            assert good(await served.vic.get("/artifacts/plan"))["content"] == "one"
            body = {"expected_version": 1, "content": "two"}
            refused(await served.vic.patch("/artifacts/plan", json=body), 403, "access_denied")
            refused(await served.vic.delete("/artifacts/plan"), 403, "access_denied")

    play(scenario())
