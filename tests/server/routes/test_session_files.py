"""`/sessions`: groups of characters, and files of other programs, through HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from artelier import ModelRequest
from tests.operations.profiles import template
from tests.operations.writing.files import png, text_chunk
from tests.server.routes.served import Served, good, play, refused, serving

CARD = {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Mira", "first_mes": "Hi {{user}}."}}
LINES = '{"user_name": "Ann", "character_name": "Mira"}\n{"name": "Ann", "is_user": true, "mes": "Hello"}\nx'
BYTES = {"content-type": "application/octet-stream"}


def _name(request: ModelRequest) -> str:
    return request.messages[0].text.split(",")[0].removeprefix("You are ")


async def _turns(served: Served, chat: str) -> list[dict[str, Any]]:
    for _ in range(500):
        shown = good(await served.ada.get(f"/sessions/{chat}"))
        replies = [one["status"] for turn in shown["turns"] for one in turn["variants"]]
        if shown["branches"][0]["status"] in ("", "completed") and "running" not in replies:
            return shown["turns"]
        await asyncio.sleep(0.01)
    raise AssertionError("the turn did not end")


def test_a_group_speaks_in_turn_and_each_message_says_who(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, _name) as served:
            body = {"id": "c", "model": "m", "user": "Ann", "group": ["Mira", {"name": "Bob"}]}
            made = good(await served.ada.post("/sessions", json=body), 201)
            assert [one["name"] for one in made["settings"]["group"]] == ["Mira", "Bob"]
            for path, more in (("turns", {"text": "Hi"}), ("speak", {}), ("speak", {"speaker": "bob"})):
                good(await served.ada.post(f"/sessions/c/{path}", json=more), 202)
                turns = await _turns(served, "c")
            shown = [(one["persona"], one["user"], one["variants"][0]["speaker"]) for one in turns]
            assert shown == [("Ann", "Hi", "Mira"), ("", "", "Bob"), ("", "", "Bob")]
            changed = good(await served.ada.patch("/sessions/c", json={"speaks": "mention"}))
            assert changed["speaks"] == "mention"
            answer = await served.ada.post("/sessions/c/turns", json={"text": "a", "speaker": "Dora"})
            assert "Mira, Bob" in refused(answer, 404)["expected"]
            answer = await served.ada.patch("/sessions/c", json={"speaks": "loudest"})
            refused(answer, 422)

    play(run())


def test_a_chat_begins_with_a_file_and_takes_others_in(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, model=None) as served:
            client = served.ada
            content = json.dumps(CARD).encode()
            answer = await client.post("/sessions/files?name=mira.json", content=content, headers=BYTES)
            if answer.status_code != 201:  # the server's own model is another
                raise AssertionError(answer.text)
            begun = answer.json()
            assert (begun["kind"], begun["name"]) == ("character", "Mira")
            shown = good(await client.get(f"/sessions/{begun['chat_id']}"))
            assert shown["turns"][0]["variants"][0]["text"] == "Hi User."
            where = f"/sessions/{begun['chat_id']}/files"
            answer = await client.post(f"{where}?name=a.jsonl", content=LINES.encode(), headers=BYTES)
            taken = good(answer)
            assert (taken["kind"], taken["turns"]) == ("chat", 1)
            assert any("line 3" in one for one in taken["warnings"])
            broken = await client.post(where, content=b"{", headers=BYTES)
            assert "JSON" in refused(broken, 422)["message"]
            refused(await served.vic.post(where, content=content, headers=BYTES), 403)
            refused(await served.eve.post(where, content=content, headers=BYTES), 404)

    play(run())


def test_a_chat_begins_with_a_lorebook_alone_or_in_a_card(tmp_path: Path) -> None:
    """It was stored in the name of the user, and the chat, which acts as the operator, could not read it."""
    book = {"name": "Towers", "entries": {"0": {"uid": 0, "key": ["tower"], "content": "It is tall."}}}
    entry = {
        "keys": ["tower"],
        "content": "It is tall.",
        "extensions": {},
        "enabled": True,
        "insertion_order": 1,
    }
    own = {**CARD["data"], "character_book": {"entries": [entry], "extensions": {}}}

    async def run() -> None:
        async with serving(tmp_path, model=None) as served:
            for name, content in (("book.json", book), ("mira.json", {**CARD, "data": own})):
                sent = json.dumps(content).encode()
                answer = await served.ada.post(f"/sessions/files?name={name}", content=sent, headers=BYTES)
                chat = good(answer, 201)["chat_id"]
                asked = {"name": "Mira"} if name == "mira.json" else {}
                good(await served.ada.get(f"/sessions/{chat}"))
                kind = "character" if asked else "lorebook"
                exported = await served.ada.get(f"/sessions/{chat}/files", params={"kind": kind, **asked})
                assert exported.content == sent

    play(run())


PARTS: list[dict[str, Any]] = [
    {"place": "history"},
    {"place": "main"},
    {"id": "near", "text": "Near.", "depth": 1, "role": "assistant"},
]


def test_prompts_scenario_and_variables_are_set_shown_and_taken_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(
            tmp_path, lambda request: "|".join(one.text for one in request.messages)
        ) as served:
            client = served.ada
            body: dict[str, Any] = {
                "id": "c",
                "model": "m",
                "char": "Mira",
                "system": "Last.",
                "prompts": PARTS,
            }
            body |= {"scenario": "A ferry.", "variables": {"coins": "3"}}
            settings = good(await client.post("/sessions", json=body), 201)["settings"]
            assert (settings["scenario"], settings["variables"]) == ("A ferry.", {"coins": "3"})
            assert [one["place"] for one in settings["prompts"]] == ["history", "main", "text"]
            good(await client.post("/sessions/c/turns", json={"text": "Hi"}), 202)
            assert (await _turns(served, "c"))[0]["variants"][0]["text"] == "Near.|Hi|Last."
            same = good(await client.patch("/sessions/c", json={"prompts": settings["prompts"]}))
            assert same["prompts"] == settings["prompts"]
            for wrong in ([{"place": "main"}], [{"place": "nowhere"}], [*PARTS, PARTS[0]], [{"depth": 1}]):
                refused(await client.patch("/sessions/c", json={"prompts": wrong}), 422)
            wish = {"prompts": None, "scenario": None, "variables": None}
            now = good(await client.patch("/sessions/c", json=wish))
            assert (now["prompts"], now["scenario"], now["variables"]) == ([], "", {})

    play(run())


def test_only_operators_see_what_operations_saw_and_why_they_failed_in_full(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, _name) as served:
            secret = template("secret", "TOPSECRET77", tag="x", usage="internal")
            broken = template("broken", "{{ art.x.value.none.such }}", order=2, depends_on=["secret"])
            data = {"profile_id": "p", "operations": [secret, broken]}
            good(await served.ada.post("/profiles", json={"profile": data}), 201)
            body = {"id": "c", "model": "m", "profile": "p"}
            good(await served.ada.post("/sessions", json=body), 201)
            started = good(await served.ada.post("/sessions/c/turns", json={"text": "Hi"}), 202)
            await _turns(served, "c")
            run = {"run_id": started["run_id"]}
            explained = await served.vic.get("/sessions/c/explain", params=run)
            assert "TOPSECRET77" not in json.dumps(good(explained))
            refused(await served.vic.get("/sessions/c/debug", params=run), 403, "access_denied")
            refused(await served.eve.get("/sessions/c/debug", params=run), 404)
            told = good(await served.ada.get("/sessions/c/debug", params=run))
            assert "TOPSECRET77" in json.dumps(told["operations"])
            seen = {**run, "operation": "secret"}
            refused(await served.vic.get("/sessions/c/debug/scope", params=seen), 403, "access_denied")
            assert good(await served.ada.get("/sessions/c/debug/scope", params=seen))["text"] == "Hi"
            wish = {**run, "operation_id": "broken"}
            refused(await served.vic.post("/sessions/c/debug/again", json=wish), 403, "access_denied")
            refused(await served.eve.post("/sessions/c/debug/again", json=wish), 404)
            trial = good(await served.ada.post("/sessions/c/debug/again", json=wish))
            assert trial["status"] == "error" and trial["run_id"] == f"{run['run_id']}/again-0001"
            assert trial["scope"]["art"]["x"]["value"] == "TOPSECRET77" and trial["message"]

    play(run())


def test_what_came_in_goes_out_as_it_was_with_its_picture(tmp_path: Path) -> None:
    picture = png(text_chunk("chara", CARD))

    async def run() -> None:
        async with serving(tmp_path, _name) as served:
            client = served.ada
            good(await client.post("/sessions", json={"id": "c", "model": "m", "user": "Ann"}), 201)
            refused(await client.get("/sessions/c/portrait"), 404)
            good(await client.post("/sessions/c/files?name=mira.png", content=picture, headers=BYTES))
            made = await client.get("/sessions/c/files?kind=character")
            assert (made.status_code, made.content) == (200, picture)
            assert made.headers["content-disposition"] == 'attachment; filename="Mira.png"'
            shown = await client.get("/sessions/c/portrait?name=Mira")
            assert (shown.content, shown.headers["content-type"]) == (picture, "image/png")
            assert shown.headers["x-content-type-options"] == "nosniff"
            assert "Mira" in refused(await client.get("/sessions/c/portrait?name=Zoe"), 404)["expected"]
            refused(await client.get("/sessions/c/files?kind=lorebook"), 404)
            refused(await client.get("/sessions/c/files?kind=wallpaper"), 422)
            turns = (await client.get("/sessions/c/export?format=jsonl")).content.splitlines()
            assert [json.loads(line).get("mes") for line in turns] == [None, "Hi Ann."]

    play(run())
