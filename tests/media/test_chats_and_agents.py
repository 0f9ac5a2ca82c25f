"""Media in a chat, in a task of an agent, and at the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from artelier import AutonomousAgent, Kernel, Session
from artelier.errors import InvalidRequest
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.ports.media import MediaRules, media_in
from artelier.testing import ScriptedMediaModel
from artelier.tokens.estimate import IMAGES, PDFS
from tests.cli.conftest import Provider, Shell
from tests.cli.conftest import provider as provider
from tests.cli.conftest import shell as shell
from tests.media.samples import painter, pdf, png
from tests.operations.rp import replayed
from tests.server.house import assert_fault, house

RULES = MediaRules(types=IMAGES | PDFS, bound=lambda medium: 1_000)


def test_a_chat_shows_an_image_in_its_turn_in_later_ones_and_in_another_variant(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["a dot", "still a dot", "really a dot"], rules=RULES)

    async def main() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}) as kernel:
            session = await Session.open(kernel, "c", model="m", subject="customer-17")
            first = await session.generate("What is it?", attachments=[png(5, 5)])
            assert first.text == "a dot"
            assert (await session.generate("Sure?")).text == "still a dot"
            await session.rewind(1)
            assert (await session.regenerate()).text == "really a dot"
            with pytest.raises(InvalidRequest, match="no image"):
                await session.generate("And this?", attachments=[b"\0hello"])
            assert (await kernel.collect()).blobs == 0
            assert kernel.verify().ok
            await kernel.for_tenant().erase(subject="customer-17")
            assert png(5, 5) not in (tmp_path / "s.db").read_bytes()

    asyncio.run(main())

    assert model.media == [(png(5, 5),)] * 3
    assert [len(request.messages) for request in model.requests] == [2, 4, 2]


def test_an_agent_is_shown_what_its_task_came_with_and_a_resume_needs_no_file(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["a dot"], rules=RULES)

    async def main() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            with pytest.raises(InvalidRequest, match="broken"):
                await agent.run(run_id="r", model="m", prompt="Look.", attachments=[png()[:-6]])
            for contents in ([png(5, 5)], []):
                result = await agent.run(run_id="r", model="m", prompt="Look.", attachments=contents)
                assert (result.status, result.text) == ("completed", "a dot")
            runs = kernel.for_tenant()
            await runs.export("r", tmp_path / "r.artelier")
            assert (await kernel.collect()).blobs == 0
        with Kernel.open(tmp_path / "t.db") as kernel:
            await kernel.for_tenant().import_(tmp_path / "r.artelier")
            assert kernel.verify().ok

    asyncio.run(main())

    assert model.media == [(png(5, 5),)]


def painting(*effects: dict[str, Any]) -> OperationProfile:
    params = {"name": "paint", "arguments": {"side": 5}, "effects": list(effects)}
    drawn = {"operation_id": "drawn", "kind": "tool", "order": 1, "params": params}
    return OperationProfile.parse({"profile_id": "p", "operations": [drawn]})


INTO_PROMPT = {"type": "prompt.insert_after_last_user", "text": "A tool has painted."}
ASIDE = {"type": "artifact.upsert", "tag": "drawn", "usage": "internal"}


@pytest.mark.parametrize("sees", [True, False])
def test_a_chat_is_shown_what_the_tool_of_an_operation_has_shown(tmp_path: Path, sees: bool) -> None:
    model = ScriptedMediaModel(["A square.", "Still."], rules=RULES if sees else MediaRules())

    async def main() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, tools=[painter()]) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=painting(INTO_PROMPT))
            turn = await session.generate("Paint.")
            assert (turn.status, turn.text) == ("completed", "A square.")
            assert (await session.generate("Again.")).text == "Still."
            calls = len(model.requests)
            assert (await replayed(kernel, "c/r000001")).status == "completed"
            assert len(model.requests) == calls
            assert (await kernel.collect()).blobs == 0
            assert kernel.verify().ok

    asyncio.run(main())

    if sees:
        assert model.media == [(png(5, 5),)] * 2
    else:
        told = "\n".join(one.text for one in model.requests[0].messages)
        assert "left out, since model" in told and "takes no image/png" in told


def test_what_an_operation_keeps_to_itself_is_shown_to_no_model(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["Nothing."], rules=RULES)

    async def main() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, tools=[painter()]) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=painting(ASIDE))
            assert (await session.generate("Paint.")).text == "Nothing."

    asyncio.run(main())

    assert list(media_in(model.requests[0].messages)) == []


def sent_parts(body: dict[str, Any]) -> list[str]:
    content = body["messages"][-1]["content"]
    return ["text"] if isinstance(content, str) else [part["type"] for part in content]


def test_the_command_line_shows_files(shell: Shell, provider: Provider) -> None:
    (shell.folder / "a.png").write_bytes(png(5, 5))
    (shell.folder / "b.pdf").write_bytes(pdf("Revenue"))
    shell.set("ARTELIER_MODEL", "openai:gpt-4o")
    provider.says("a dot", "two pages", "still")

    said = shell(
        "chat", "c", "--message", "Look", "--message", "Sure?", "--attach", "a.png", "--attach", "b.pdf"
    )
    listed = shell("chat", "c", "--message", "/turns")
    as_json = json.loads(shell("chat", "c", "--message", "/turns", "--json").out)
    (picture, paper), *later = [one["media"] for one in as_json["turns"]]
    solo = shell("do", "Look.", "--workspace", ".", "--solo", "--attach", "a.png", "--run-id", "r1", "--yes")

    assert (said.code, solo.code) == (0, 0), said.err + solo.err
    assert "attached 1: image, image/png, 5 x 5 pixels, " in listed.err
    assert "attached 2: pdf, application/pdf, " in listed.err
    assert picture == {
        "position": 1,
        "media_type": "image/png",
        "size_bytes": len(png(5, 5)),
        "pages": None,
        "pixels": [5, 5],
        "seconds": None,
    }
    assert (paper["position"], paper["media_type"], paper["pages"], later) == (2, "application/pdf", 1, [[]])
    assert "b:" not in listed.err + listed.out
    bodies = [one.body for one in provider.server.requests]
    assert sent_parts(bodies[0]) == ["text", "image_url", "file"]
    assert "image_url" in json.dumps(bodies[1]["messages"])
    assert "image_url" in json.dumps(bodies[2]["messages"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["chat", "c", "--message", "x", "--attach", "missing.png"], "no such file"),
        (["chat", "c", "--message", "x", "--attach", "."], "no such file"),
        (["chat", "c", "--message", "x", "--attach", "large.png"], "too large to be sent"),
        (["chat", "c", "--message", "x", "--attach", "broken.png"], "this PNG is broken"),
        (["chat", "c", "--message", "x", "--attach", "locked.pdf"], "has a password"),
        (["do", "x", "--workspace", ".", "--attach", "missing.png"], "no such file"),
        (["do", "x", "--workspace", ".", "--attach", "broken.png"], "this PNG is broken"),
        (["do", "x", "--workspace", ".", "--attach", "locked.pdf"], "has a password"),
        (["do", "x", "--workspace", ".", "--attach", "b.bin"], "no image, sound, PDF or text"),
        (["do", "x", "--workspace", ".", "--attach", "a.png", "--model", "offline"], "takes no image/png"),
    ],
)
def test_a_file_that_cannot_be_shown_is_refused_with_a_reason(
    shell: Shell, provider: Provider, words: list[str], why: str
) -> None:
    (shell.folder / "a.png").write_bytes(png())
    (shell.folder / "broken.png").write_bytes(png()[:-6])
    (shell.folder / "b.bin").write_bytes(bytes(range(256)))
    (shell.folder / "locked.pdf").write_bytes(pdf("a", password="x"))
    with (shell.folder / "large.png").open("wb") as file:
        file.truncate(200_000_000)

    ran = shell(*words)

    assert ran.code != 0
    assert why in ran.err + ran.out
    assert provider.calls == 0
    assert shell("runs", "list").out.strip() in ("", "no runs")


def test_people_see_what_a_prompt_showed(shell: Shell, provider: Provider) -> None:
    (shell.folder / "a.png").write_bytes(png(5, 7))
    shell.set("ARTELIER_MODEL", "openai:gpt-4o")
    provider.says("a dot")

    assert shell("chat", "c", "--message", "Look", "--attach", "a.png").code == 0
    seen = shell("manifest", "render", "c/r000001:main/model")

    assert f"Look\n(image/png, 5 x 7 pixels, {len(png(5, 7))} bytes, b:" in seen.out


def test_a_browser_is_given_the_media_of_a_step_and_no_others(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["a dot", "again"], rules=RULES)

    async def main() -> None:
        async with house(tmp_path, model=model) as home:
            picture, page = png(5, 5), pdf("Revenue rose")
            agent = AutonomousAgent(kernel=home.kernel)
            await agent.run(run_id="m/r", model="m", prompt="Look.", attachments=[picture, page])
            await agent.run(run_id="other", model="m", prompt="Look.", attachments=[png(9, 9)])
            steps = (await home.client.get("/api/v1/runs/m%2Fr/steps")).json()["items"]
            step = next(one["key"] for one in steps if one["kind"] == "model")
            request, _ = await home.desk.shown("m/r", step)
            first, second = [one.blob for one in media_in(request.messages)]

            async def ask(run: str, blob: str) -> httpx.Response:
                address = f"/api/v1/runs/{run}/media/{quote(blob, safe='')}"
                return await home.client.get(address, params={"step": step})

            shown = await ask("m%2Fr", first)
            assert (shown.content, shown.headers["content-type"]) == (picture, "image/png")
            assert shown.headers["x-content-type-options"] == "nosniff"
            loaded = await ask("m%2Fr", second)
            assert (loaded.content, loaded.headers["content-type"]) == (page, "application/pdf")
            assert loaded.headers["content-disposition"].startswith("attachment")
            assert_fault(await ask("other", first), 404, "not_found")
            assert_fault(await ask("m%2Fr", "b:nothing"), 404, "not_found")

    asyncio.run(main())
