"""Personal data at the server's face: values for people who may see them, placeholders for all others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from artelier.app import Kernel
from artelier.kernel import Policy
from artelier.pii.vault import placeholders_in
from artelier.server.app import create_app
from artelier.server.deps import artifacts_of
from artelier.server.pii import AS_SENT
from artelier.server.security.users import Users, token_hash
from artelier.server.settings import ServerSettings
from artelier.testing import ScriptedModel
from tests.server.house import House, asking, frames_of, house

KEY = {"ARTELIER_VAULT_KEY": "a vault key for tests"}
ANA, PHONE = "ana.lopez@example.org", "+49 151 12345678"
SEES = {"tools:*", "models:*", "pii:restore"}


@asynccontextmanager
async def guarded(
    folder: Path, *replies: object, grants: set[str] | None = None, users: Users | None = None
) -> AsyncIterator[House]:
    async with house(
        folder, *replies, users=users, policy=Policy(pii=True, backoff_s=0), environ=KEY
    ) as made:
        await made.desk.state()
        await made.kernel.tenants.update("default", grants=SEES if grants is None else grants)
        yield made


def assert_nowhere(folder: Path, *values: str) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            for value in values:
                assert value.encode() not in content, (file.name, value)


async def ask_about(made: House) -> None:
    async with made.kernel.run("r") as run:
        said = await run.step_model(
            model="scripted", messages=[{"role": "user", "content": f"who is {ANA}?"}]
        )
        run.finish(said.text)


def repeated(request: object) -> str:
    return f"that is {placeholders_in(str(request))[0]}"


def test_people_see_values_and_the_inspector_what_was_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path, repeated) as made:
            await ask_about(made)
            shown = (await made.client.get("/api/v1/runs/r")).json()
            assert f"that is {ANA}" in json.dumps(shown)
            step = (await made.client.get("/api/v1/runs/r/steps")).json()["items"][0]["key"]
            for what in ("prompt", "manifest"):
                sent = await made.client.get(f"/api/v1/runs/r/{what}", params={"step": step})
                assert sent.status_code == 200 and ANA not in sent.text
            assert "<EMAIL_" in (await made.client.get("/api/v1/runs/r/prompt", params={"step": step})).text

    asyncio.run(scenario())
    assert_nowhere(tmp_path, ANA)


def test_without_the_grant_nobody_sees_a_value(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path, repeated, grants={"tools:*"}) as made:
            await ask_about(made)
            for path in ("runs/r", "events", "runs/r/events"):
                answer = await made.client.get(f"/api/v1/{path}")
                assert answer.status_code == 200 and ANA not in answer.text

    asyncio.run(scenario())


def test_viewers_see_placeholders_and_operators_values(tmp_path: Path) -> None:
    people = [
        {"name": name, "role": role, "tenants": ["default"], "tokens": [token_hash(f"{name}-token")]}
        for name, role in (("vera", "viewer"), ("otto", "operator"))
    ]
    listed = "\n".join(
        f'[[users]]\nname = "{one["name"]}"\nrole = "{one["role"]}"\ntenants = ["default"]\n'
        f"tokens = {json.dumps(one['tokens'])}\n"
        for one in people
    )
    file = tmp_path / "users.toml"
    file.write_text(listed)

    async def scenario() -> None:
        async with guarded(tmp_path, repeated, users=Users.load(file)) as made:
            await ask_about(made)
            for name, sees in (("vera", False), ("otto", True)):
                async with made.stranger(Authorization=f"Bearer {name}-token") as client:
                    answer = await client.get("/api/v1/runs/r")
                    assert answer.status_code == 200, answer.text
                    assert (ANA in answer.text) is sees
                    assert ("<EMAIL_" in answer.text) is not sees

    asyncio.run(scenario())


def test_who_sees_values_finds_by_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as made:
            artifacts = made.desk.as_principal("operator").artifacts
            await artifacts.write("letter", kind="document", content=f"dear {ANA}")
            memory = made.kernel.memory.for_agent("default", "bob")
            await memory.remember(f"{ANA} likes tea", key="1")
            await memory.remember("the weather in May was fine", key="2")
            best = await made.client.get("/api/v1/memory/bob/search", params={"q": ANA})
            assert best.json()["items"][0]["text"] == f"{ANA} likes tea"
            for grants, names in ((SEES, ["letter"]), ({"tools:*"}, [])):
                await made.kernel.tenants.update("default", grants=grants)
                found = await made.client.get("/api/v1/artifacts", params={"q": ANA})
                assert [one["id"] for one in found.json()["items"]] == names

    asyncio.run(scenario())
    assert_nowhere(tmp_path, ANA)


def test_live_events_are_restored_and_encoded_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as made:
            async with made.kernel.run("r") as run:
                await made.desk.inject("r", f"ask {ANA}")
                run.finish(None)
            page = (await made.client.get("/api/v1/events")).json()["items"]
            assert f"ask {ANA}" in [one["texts"].get("text") for one in page]

            from artelier.server.event_encoder import Filter
            from artelier.server.live_hub import EventStream
            from artelier.server.pii import restore_response

            frames = await made.app.state.hub.stream(Filter(tenant="default"), after=0)
            stream = await restore_response(EventStream(frames), made.desk)
            assert isinstance(stream, EventStream)
            read = ""
            async for frame in stream.frames:
                read += frame.decode()
                if ANA in read:
                    break
            assert any(one["texts"].get("text") == f"ask {ANA}" for one in frames_of(read))

    asyncio.run(scenario())


def test_a_person_who_types_a_placeholder_gains_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as made:
            artifacts = artifacts_of(made.desk, "operator")
            await artifacts.write("memo", kind="document", content=f"call {ANA}, {PHONE}")
            stored = (await artifacts.read("memo")).content
            stolen = placeholders_in(stored)[0]

            written = await made.client.post(
                "/api/v1/artifacts", json={"id": "theft", "kind": "document", "content": f"mine: {stolen}"}
            )
            assert written.status_code == 201, written.text
            assert ANA not in written.text
            assert placeholders_in(str((await artifacts.read("theft")).content)) == []

            files = {"file": ("theft.txt", f"mine: {stolen}".encode(), "text/plain")}
            uploaded = await made.client.post("/api/v1/uploads", files=files)
            assert uploaded.status_code == 201, uploaded.text
            id = uploaded.json()["items"][0]["id"]
            assert placeholders_in(str((await artifacts.read(id)).content)) == []
            shown = await made.client.get(f"/api/v1/artifacts/{id.replace('/', '%2F')}")
            assert shown.json()["content"] == f"mine: {stolen}"  # as it was typed

    asyncio.run(scenario())


async def texts_of(made: House, part: str) -> list[str]:
    """Texts of events in which something stands."""
    page = (await made.client.get("/api/v1/events", params={"limit": 1000})).json()["items"]
    return [text for one in page for text in one["texts"].values() if part in text]


def test_a_typed_placeholder_is_text_however_the_request_is_written(tmp_path: Path) -> None:
    ways: dict[str, tuple[str, str, str]] = {
        "a JSON of its own": ("application/vnd.api+json", "utf-8", "note"),
        "a mark before it": ("application/json", "utf-8-sig", "note"),
        "UTF-16": ("application/json", "utf-16", "note"),
        "half of a character": ("application/json", "utf-8", "\ud800 note"),
        "half of a character in JSON": ("application/json", "utf-8", '["\ud800", "note"]'),
    }

    async def scenario() -> None:
        async with guarded(tmp_path, grants={"tools:*"}) as made:
            artifacts = artifacts_of(made.desk, "operator")
            await artifacts.write("memo", kind="document", content=f"call {ANA}")
            stolen = placeholders_in((await artifacts.read("memo")).content)[0]
            for number, (media, encoding, note) in enumerate(ways.values()):
                await asking(made.kernel, f"r{number}")
                body = json.dumps({"note": note.replace("note", f"{number} {stolen}")})
                said = await made.client.post(
                    f"/api/v1/runs/r{number}/cancel",
                    content=body.encode(encoding),
                    headers={"content-type": media},
                )
                assert said.status_code in (200, 422), said.text
            assert len(await texts_of(made, "EMAIL_")) >= 3  # half of a character may be refused
            assert await texts_of(made, stolen) == []

            ask = {
                "threadId": "t",
                "runId": "x",
                "state": {},
                "tools": [],
                "context": [],
                "forwardedProps": {},
                "messages": [{"id": "1", "role": "user", "content": stolen}],
            }
            await made.client.post(
                "/api/v1/agui", content=json.dumps(ask), headers={"content-type": "text/plain"}
            )
            assert len(await texts_of(made, "EMAIL_")) >= 4
            assert await texts_of(made, stolen) == []

    asyncio.run(scenario())


def test_a_person_edits_values_and_the_store_keeps_placeholders(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as made:
            artifacts = artifacts_of(made.desk, "operator")
            await artifacts.write("memo", kind="document", content=f"call {ANA}")
            before = placeholders_in(str((await artifacts.read("memo")).content))
            seen = (await made.client.get("/api/v1/artifacts/memo")).json()
            assert seen["content"] == f"call {ANA}"
            saved = await made.client.patch(
                "/api/v1/artifacts/memo", json={"content": f"{seen['content']} today", "expected_version": 1}
            )
            assert saved.json()["content"] == f"call {ANA} today"
            now = str((await artifacts.read("memo")).content)
            assert placeholders_in(now) == before

            download = await made.client.get("/api/v1/artifacts/memo/content")
            assert download.text.strip('"') == f"call {ANA} today"
            assert int(download.headers["content-length"]) == len(download.content)

    asyncio.run(scenario())
    assert_nowhere(tmp_path, ANA)


def test_an_uploaded_file_of_people_keeps_no_value_in_name_or_content(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as made:
            rows = f"name,email\nAna,{ANA}\n".encode()
            for is_new in (True, False):
                files = {"file": (f"{ANA}.csv", rows, "text/csv")}
                done = await made.client.post("/api/v1/uploads", files=files)
                assert done.status_code == 201, done.text
                (item,) = done.json()["items"]
                assert item["is_new"] is is_new
                assert item["id"].endswith(".csv") and "ana" not in item["id"]

    asyncio.run(scenario())
    assert_nowhere(tmp_path, ANA, "ana.lopez")


def test_what_is_shown_as_sent_is_there(tmp_path: Path) -> None:
    with Kernel.open(tmp_path / "s.db", models=ScriptedModel([]), environ={}) as kernel:
        app = create_app(kernel, settings=ServerSettings(has_worker=False))
        operations = {one["operationId"] for path in app.openapi()["paths"].values() for one in path.values()}
        assert operations >= AS_SENT
