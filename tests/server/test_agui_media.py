"""AG-UI: images, sounds and PDFs in what a person says, to chats, agents and missions."""

from __future__ import annotations

import asyncio
import json
import shutil
from asyncio.subprocess import PIPE
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from artelier.app import Kernel
from artelier.artifacts.media.inspection import inspect_medium
from artelier.kernel.queries.content import blob_json
from artelier.log import stored_blob
from artelier.ports.media import ATTACHMENTS_MAX, MEDIUM_BYTES_MAX, MediaRules, media_in
from artelier.testing import ScriptedMediaModel, tool_call
from artelier.tokens.estimate import IMAGES
from tests.media.samples import png
from tests.missions.mission_stage import planned
from tests.missions.task_stage import decide, write
from tests.missions.test_attachments import SeeingTeam
from tests.server.house import house, on_a_port
from tests.server.test_agui_agents import AGUI_CLIENT, WEB, body, calls, gives, post, says, text_of, types

RULES = MediaRules(types=IMAGES, bound=lambda medium: 1_000)


def encoded(content: bytes) -> str:
    return b64encode(content).decode()


def data(content: bytes, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "data", "value": encoded(content), "mimeType": media_type}


def url(value: str) -> dict[str, Any]:
    return {"type": "url", "value": value}


def shows(text: str, *sources: dict[str, Any], kind: str = "image") -> dict[str, Any]:
    media = [{"type": kind, "source": one} for one in sources]
    words = [{"type": "text", "text": text}] if text else []
    return {"id": f"u-{text}", "role": "user", "content": [*words, *media]}


AGENT = {"agent": True, "model": "m"}
CHAT = {"model": "m"}


@pytest.mark.parametrize("wishes", [CHAT, AGENT], ids=["chat", "agent"])
def test_a_turn_shows_its_pictures_and_a_later_one_those_before(
    tmp_path: Path, wishes: dict[str, Any]
) -> None:
    model = ScriptedMediaModel(["A dot.", "Two."], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as made:
            first = shows("What is it?", data(png(5, 5)), url(f"data:image/png;base64,{encoded(png(6, 6))}"))
            told = await post(made.client, body([first], tools=[], forwardedProps=wishes))
            assert text_of(told) == "A dot."
            later = [first, {"id": "2", "role": "user", "content": "How many?"}]
            assert text_of(await post(made.client, body(later, tools=[], forwardedProps=wishes))) == "Two."

            assert model.media == [(png(5, 5), png(6, 6))] * 2
            assert "iVBOR" not in str([event.plain() async for event in made.kernel.events()])
            assert made.kernel.verify().ok

    asyncio.run(main())


def test_a_goal_is_shown_to_planner_tasks_and_evaluators(tmp_path: Path) -> None:
    team = SeeingTeam(planned({"slug": "a"}))

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            wishes = {"mission": True, "launch": True, "model": "m"}
            goal = shows("Describe the picture.", data(png(5, 5)))
            told = await post(made.client, body([goal], tools=[], forwardedProps=wishes))

            assert (types(told)[-1], told[-1].outcome.type) == ("RUN_FINISHED", "success")
            mission = (await made.client.get("/api/v1/missions/agui.t-1")).json()
            assert [one["media_type"] for one in mission["attachments"]] == ["image/png"]
            assert all(len(list(media_in(one.messages))) == 1 for one in team.requests)

    asyncio.run(main())


def test_an_artifact_is_shown_by_its_ref_as_its_reader_may(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["A dot."], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as made:
            sent = await made.client.post("/api/v1/uploads", files={"file": ("a.png", png(5, 5))})
            ref = "{id}@{version}".format(**sent.json()["items"][0])
            told = await post(made.client, body([shows("What is it?", url(ref))], forwardedProps=AGENT))

            assert (text_of(told), model.media) == ("A dot.", [(png(5, 5),)])
            asked = body([shows("And this?", url("uploads/gone.png@1"))], forwardedProps=AGENT)
            assert (await made.client.post("/api/v1/agui", json=asked)).status_code == 404

    asyncio.run(main())


RESULT = [{"type": "text", "text": '{"colour": "red"}'}]


def picks(*sources: dict[str, Any], text: list[dict[str, Any]] = RESULT) -> list[dict[str, Any]]:
    """What the client's tool gives: its words, and media."""
    return [*text, *({"type": "image", "source": one} for one in sources)]


def told_of(model: ScriptedMediaModel) -> str:
    """The result of the newest tool that the model was told of."""
    return [one.text for one in model.requests[-1].messages if one.role == "tool"][-1]


def test_a_model_sees_what_a_tool_of_the_client_shows(tmp_path: Path) -> None:
    model = ScriptedMediaModel([tool_call("pick_colour", {"kind": "warm"}), "Red."], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as made:
            sent = await made.client.post("/api/v1/uploads", files={"file": ("a.png", png(6, 6))})
            ref = "{id}@{version}".format(**sent.json()["items"][0])
            said = [says("Which?")]
            [(call_id, _, _)] = calls(await post(made.client, body(said, forwardedProps=AGENT)))
            gone = gives(call_id, picks(url("uploads/gone.png@1")))
            asked = body([*said, gone], forwardedProps=AGENT)
            assert (await made.client.post("/api/v1/agui", json=asked)).status_code == 404

            answer = gives(call_id, picks(data(png(5, 5)), url(ref)))
            told = await post(made.client, body([*said, answer], forwardedProps=AGENT))

            assert text_of(told) == "Red."
            assert model.media == [(png(5, 5), png(6, 6))]
            assert '"colour":"red"' in told_of(model) and "shown as attachment 2" in told_of(model)
            events = [event async for event in made.kernel.events()]
            assert "iVBOR" not in str([event.plain() for event in events])
            [done] = [one for one in events if one.kind == "tool.completed"]
            assert len(done.plain()["media"]) == 2
            run, file = call_id.partition("#")[0], tmp_path / "run.artelier"
            assert made.kernel.verify().ok
            await made.kernel.for_tenant().export(run, file)
            with Kernel.open(tmp_path / "other.db", models={}, environ={}) as other:
                await other.for_tenant().import_(file)
                assert other.verify().ok

    asyncio.run(main())


LEFT_OUT = [
    (url("https://example.com/a.png"), "addresses are not fetched here"),
    ({"type": "file", "value": "file-123", "provider": "openai"}, "what another holds"),
    ({"type": "data", "value": "no base64!", "mimeType": "image/png"}, "it is no base64"),
    (data(png(), "image/jpeg"), "another type of medium than is said"),
    (data(png()[:-6]), "broken"),
    (data(b"\0\0\0\x18ftypmp42", "video/mp4"), "no image, sound, PDF or text"),
    (data(bytes(MEDIUM_BYTES_MAX + 3)), "too large"),
]


def test_what_of_a_result_cannot_be_shown_is_left_out_with_the_reason_and_the_rest_is_kept(
    tmp_path: Path,
) -> None:
    model = ScriptedMediaModel([tool_call("pick_colour", {"kind": "warm"}), "Red."], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as made:
            said = [says("Which?")]
            [(call_id, _, _)] = calls(await post(made.client, body(said, forwardedProps=AGENT)))
            result = picks(*(source for source, _ in LEFT_OUT), data(png(5, 5)))
            told = await post(made.client, body([*said, gives(call_id, result)], forwardedProps=AGENT))

            assert text_of(told) == "Red."
            notes = json.loads(told_of(model))["media"]
            for note, (_, why) in zip(notes, LEFT_OUT, strict=False):
                assert note.startswith("left out: ") and why in note
            assert notes[len(LEFT_OUT) :] == ["shown as attachment 1"]
            assert model.media == [(png(5, 5),)]

    asyncio.run(main())


def test_what_comes_with_an_error_of_the_client_is_told_and_shown(tmp_path: Path) -> None:
    """A tool that fails shows why, as by a picture of the screen; what cannot be shown is named."""
    model = ScriptedMediaModel([tool_call("pick_colour", {"kind": "warm"}), "Never mind."], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as made:
            said = [says("Which?")]
            [(call_id, _, _)] = calls(await post(made.client, body(said, forwardedProps=AGENT)))
            result = picks(data(png(5, 5)), data(png()[:-6]))
            failed = gives(call_id, result, error="no palette")
            told = await post(made.client, body([*said, failed], forwardedProps=AGENT))

            assert text_of(told) == "Never mind."
            error = json.loads(told_of(model))["error"]
            assert (error["code"], error["message"]) == ("tool_failed", "the client says: no palette")
            assert json.loads(error["got"]) == {"colour": "red"}
            assert "shown as attachment 1" in error["hint"] and "left out: " in error["hint"]
            assert model.media == [(png(5, 5),)]
            [done] = [one async for one in made.kernel.events() if one.kind == "tool.completed"]
            assert done.plain()["is_error"] and len(done.plain()["media"]) == 1
            run, file = call_id.partition("#")[0], tmp_path / "run.artelier"
            assert made.kernel.verify().ok
            await made.kernel.for_tenant().export(run, file)
            with Kernel.open(tmp_path / "other.db", models={}, environ={}) as other:
                await other.for_tenant().import_(file)
                assert other.verify().ok

    asyncio.run(main())


def test_a_process_that_goes_on_with_an_answer_shows_what_came_with_it(tmp_path: Path) -> None:
    """The server that took it is gone before the tool has heard of it."""
    model = ScriptedMediaModel([tool_call("pick_colour", {"kind": "warm"}), "Red."], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as made:
            said = [says("Which?")]
            [(call_id, _, _)] = calls(await post(made.client, body(said, forwardedProps=AGENT)))
            run, _, step = call_id.partition("#")
            facts = [await inspect_medium(png(5, 5))]
            given = {"content": "red", "media": ["shown as attachment 1"]}
            desk = made.kernel.for_tenant()
            await desk.approve(run, f"{step}/ask/1", arguments=given, media=facts)
            await desk.export(run, tmp_path / "run.artelier")
        with Kernel.open(tmp_path / "other.db", models={}, environ={}) as other:
            await other.for_tenant().import_(tmp_path / "run.artelier")
            assert other.verify().ok
            [answer] = [one async for one in other.events() if one.kind == "approval.given"]
            there = other.for_tenant().services
            [part] = (await blob_json(there, "default", answer.plain()["answer"]))["attachments"]
            assert await stored_blob(there.store, "default", part["data"]["blob"]) == png(5, 5)
        async with house(tmp_path, model=model) as made:
            again = body([*said, gives(call_id, "late")], forwardedProps=AGENT)
            assert text_of(await post(made.client, again)) == "Red."
            assert '"result":"red"' in told_of(model)
            assert model.media == [(png(5, 5),)]

    asyncio.run(main())


def test_a_task_of_a_mission_sees_what_a_tool_of_the_client_shows(tmp_path: Path) -> None:
    pick = decide("use_tool", tool="pick_colour", input={"kind": "warm"})
    team = SeeingTeam(planned({"slug": "a"}), scripts={"a": [pick, write("Out a")]})

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            wishes = {"mission": True, "launch": True, "model": "m"}
            said = [says("Paint the house.")]
            [(call_id, _, _)] = calls(await post(made.client, body(said, forwardedProps=wishes)))
            answer = gives(call_id, picks(data(png(5, 5))))
            told = await post(made.client, body([*said, answer], forwardedProps=wishes))

            assert (types(told)[-1], told[-1].outcome.type) == ("RUN_FINISHED", "success")
            assert any(list(media_in(one.messages)) for one in team.requests)
            assert made.kernel.verify().ok

    asyncio.run(main())


REFUSED: list[tuple[list[dict[str, Any]], str, str]] = [
    ([url("https://example.com/a.png")], "image", "addresses are not fetched here"),
    ([url("HTTPS://example.com/a.png")], "image", "comes as a data URL"),
    ([url("file:///etc/passwd")], "image", "comes as a data URL"),
    ([url("data:image/png,abc")], "image", "comes as a data URL"),
    ([url("")], "image", "what another holds"),
    ([{"type": "file", "value": "file-123", "provider": "openai"}], "document", "what another holds"),
    ([{"type": "data", "value": "no base64!", "mimeType": "image/png"}], "image", "no base64"),
    ([data(png()[:-6])], "image", "broken"),
    ([data(b"\0\0\0\x18ftypmp42", "video/mp4")], "video", "no image, sound, PDF or text"),
    ([data(b"hello, ", "image/png")] * (ATTACHMENTS_MAX + 1), "image", "too many attachments"),
    ([data(bytes(MEDIUM_BYTES_MAX + 3))], "image", "too large"),
    ([data(bytes(11 * 2**20 + 2**19))] * 2, "audio", "too large together"),
]


@pytest.mark.parametrize("wishes", [CHAT, AGENT, {"mission": True, "model": "m"}], ids=["c", "a", "m"])
def test_what_cannot_be_shown_is_refused_with_a_reason_and_nothing_is_asked(
    tmp_path: Path, wishes: dict[str, Any]
) -> None:
    model = ScriptedMediaModel([], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as made:
            for sources, kind, why in REFUSED:
                asked = body([shows("Look.", *sources, kind=kind)], tools=[], forwardedProps=wishes)
                answer = await made.client.post("/api/v1/agui", json=asked)
                assert answer.status_code == 422, (why, answer.text)
                assert why in answer.json()["error"]["message"]
            wordless = body([shows("", data(png()))], tools=[], forwardedProps=wishes)
            assert (await made.client.post("/api/v1/agui", json=wordless)).status_code == 422
            assert (await made.desk.runs())["items"] == []

    asyncio.run(main())
    assert model.requests == []


@pytest.mark.parametrize("wishes", [CHAT, AGENT], ids=["chat", "agent"])
def test_a_model_that_sees_nothing_is_named_and_nothing_is_sent(
    tmp_path: Path, wishes: dict[str, Any]
) -> None:
    async def main() -> None:
        async with house(tmp_path, "never") as made:
            asked = body([shows("Look.", data(png()))], tools=[], forwardedProps=wishes)
            told = await post(made.client, asked)

            assert types(told)[-1] == "RUN_ERROR"
            assert "takes no image/png" in told[-1].message
            assert made.model.requests == []

    asyncio.run(main())


@pytest.mark.parametrize(
    "part",
    [
        {"mimeType": "image/png"},
        {"mimeType": 5, "data": "x"},
        {"mimeType": "image/png", "data": 5},
        {"data": "x"},
        {"mimeType": "image/png", "id": "f"},
    ],
)
def test_a_binary_part_that_holds_nothing_is_refused(tmp_path: Path, part: dict[str, Any]) -> None:
    async def main() -> None:
        async with house(tmp_path, "never") as made:
            said = {"id": "1", "role": "user", "content": [{"type": "binary", **part}]}
            answer = await made.client.post("/api/v1/agui", json=body([said], forwardedProps=CHAT))
            assert answer.status_code == 422

    asyncio.run(main())


def test_clients_from_before_1_send_binary_parts(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["A dot."], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as made:
            part = {"type": "binary", "mimeType": "image/png", "data": encoded(png(5, 5))}
            said = shows("What is it?")
            said["content"].append(part)
            told = await post(made.client, body([said], tools=[], forwardedProps=CHAT))
            assert (text_of(told), model.media) == ("A dot.", [(png(5, 5),)])

    asyncio.run(main())


@pytest.mark.skipif(
    not (WEB / "node_modules/@ag-ui/client").exists() or shutil.which("node") is None,
    reason="needs Node and the packages of the page (make setup)",
)
def test_the_official_client_shows_a_picture(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["A dot."], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as made, on_a_port(made.app) as address:
            cookies = "; ".join(f"{name}={value}" for name, value in made.client.cookies.items())
            asked = {
                "url": f"{address}/api/v1/agui",
                "headers": {"Cookie": cookies, "X-CSRF-Token": made.client.headers["X-CSRF-Token"]},
                "answers": {},
                "forwardedProps": AGENT,
                "messages": [
                    shows("What is it?", data(png(5, 5)), url(f"data:image/png;base64,{encoded(png(6, 6))}"))
                ],
            }
            node = await asyncio.create_subprocess_exec(
                "node", str(AGUI_CLIENT), json.dumps(asked), stdout=PIPE, stderr=PIPE
            )
            said, wrong = await asyncio.wait_for(node.communicate(), 60)
            assert node.returncode == 0, wrong.decode()
            assert json.loads(said)[-1]["content"] == "A dot."
            assert model.media == [(png(5, 5), png(6, 6))]

    asyncio.run(main())
