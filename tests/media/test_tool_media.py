"""What tools of an MCP server show: models are sent it, it is stored once, and what is unfit says why."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, ModelRequest, Policy, ToolReturn, tool
from artelier.errors import ToolResultInvalid
from artelier.ids import OPERATOR
from artelier.ports.media import MediaRules, media_in
from artelier.testing import ScriptedMediaModel, ScriptedModel, tool_call
from artelier.tokens.estimate import IMAGES, PDFS
from artelier.tools.mcp import McpServer
from tests.media.samples import pdf, png, wav
from tests.missions.mission_stage import MISSION, launched, opened, planned, replayed
from tests.missions.task_stage import decide, play, write
from tests.missions.test_attachments import SALES, SeeingTeam, answered

RULES = MediaRules(types=IMAGES | PDFS, bound=lambda medium: 1_000)
CAMERA = Path(__file__).parent / "camera.py"
NAME = "show"


def filled(folder: Path) -> Path:
    """A folder with a file of each sort."""
    folder.mkdir()
    (folder / "a.png").write_bytes(png(5, 5))
    (folder / "b.png").write_bytes(png(5, 5, shade=9))
    (folder / "c.pdf").write_bytes(pdf("Revenue of Oslo"))
    (folder / "d.wav").write_bytes(wav())
    (folder / "broken.png").write_bytes(png()[:-6])
    (folder / "locked.pdf").write_bytes(pdf("Revenue", password="secret"))
    (folder / "own.bin").write_bytes(b"\0own")
    return folder


def shows(*names: str) -> Any:
    return tool_call(NAME, {"names": list(names)})


async def camera(folder: Path) -> list[Any]:
    command = [sys.executable, "-S", str(CAMERA), str(folder)]
    return list(await McpServer("camera", command=command, timeout_s=30.0).tools())


def said_of(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages]


async def ran(folder: Path, model: Any, **more: Any) -> Any:
    """An agent that uses the camera, to its end; what is stored is whole, and replays without a call."""
    tools = await camera(filled(folder / "files"))
    with Kernel.open(folder / "s.db", models={"m": model}, tools=tools, environ={}) as kernel:
        result = await AutonomousAgent(kernel=kernel).run(run_id="r", model="m", prompt="Look.", **more)
        calls = len(model.requests)
        assert (await replayed(kernel, "default", "r")).status == result.status
        assert len(model.requests) == calls
        assert (await kernel.collect()).blobs == 0
        assert kernel.verify().ok
    return result


async def artifacts_of(kernel: Kernel) -> list[Any]:
    space = kernel.for_tenant().as_principal(OPERATOR).artifacts
    return [await space.read(one.id) for one in await space.list(kind="document")]


def test_an_agent_is_sent_what_a_tool_shows_and_people_find_it_as_artifacts(tmp_path: Path) -> None:
    model = ScriptedMediaModel([shows("a.png", "c.pdf"), "a dot"], rules=RULES)

    async def main() -> None:
        result = await ran(tmp_path, model)
        assert (result.status, result.text) == ("completed", "a dot")
        with Kernel.open(tmp_path / "s.db", environ={}) as kernel:
            desk = kernel.for_tenant()
            found = await artifacts_of(kernel)
            assert [(one.metadata["type"], one.content) for one in found] == [
                ("image/png", png(5, 5)),
                ("application/pdf", pdf("Revenue of Oslo")),
            ]
            await desk.export("r", tmp_path / "r.artelier")
        with Kernel.open(tmp_path / "t.db", environ={}) as other:
            await other.for_tenant().import_(tmp_path / "r.artelier")
            assert other.verify().ok

    asyncio.run(main())

    assert model.media == [(png(5, 5), pdf("Revenue of Oslo"))]
    [_, told] = model.requests
    assert [one.media_type for one in media_in(told.messages)] == ["image/png", "application/pdf"]
    assert "shown as attachment 1" in said_of(told)[-2]
    assert "never an instruction" in said_of(told)[-1]


def test_a_call_that_fails_shows_what_came_with_its_error(tmp_path: Path) -> None:
    fails = tool_call("fail", {"names": ["a.png", "broken.png"]})
    model = ScriptedMediaModel([fails, "never mind"], rules=RULES)

    async def main() -> None:
        assert (await ran(tmp_path, model)).status == "completed"

    asyncio.run(main())

    assert model.media == [(png(5, 5),)]
    told = said_of(model.requests[1])[-2]
    for words in ("`fail` failed: 2 files", "shown as attachment 1", "left out: this PNG is broken"):
        assert words in told


def test_what_a_model_does_not_take_is_left_out_with_a_reason(tmp_path: Path) -> None:
    model = ScriptedModel([shows("a.png"), "never mind"])

    async def main() -> None:
        assert (await ran(tmp_path, model)).status == "completed"

    asyncio.run(main())

    assert "left out, since model openai:m takes no image/png" in said_of(model.requests[1])[-1]


async def ran_with(tmp_path: Path, model: Any, made: Any) -> Any:
    """An agent with a tool of one function, to its end, which is replayed and verified."""
    with Kernel.open(tmp_path / "s.db", models={"m": model}, tools=[made], environ={}) as kernel:
        result = await AutonomousAgent(kernel=kernel).run(run_id="r", model="m", prompt="Look.")
        calls = len(model.requests)
        assert (await replayed(kernel, "default", "r")).status == result.status == "completed"
        assert len(model.requests) == calls
        assert kernel.verify().ok
    return result


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_function_shows_images_and_texts_beside_its_data(tmp_path: Path, is_plain: bool) -> None:
    def look(what: str) -> ToolReturn:
        """Look at something."""
        broken = png(9, 9)[:-6]
        return ToolReturn({"seen": what}, media=[png(5, 5), broken, pdf("Revenue of Oslo")])

    async def look_async(what: str) -> ToolReturn:
        """Look at something."""
        return look(what)

    made = tool(name="look", side_effect=False)(look if is_plain else look_async)
    model = ScriptedMediaModel([tool_call("look", {"what": "it"}), "a dot"], rules=RULES)
    asyncio.run(ran_with(tmp_path, model, made))

    assert model.media == [(png(5, 5), pdf("Revenue of Oslo"))]
    told = said_of(model.requests[1])
    for words in ('"seen":"it"', "shown as attachment 1", "left out: this PNG is broken", "as attachment 2"):
        assert words in told[-2]


def test_a_function_that_shows_nothing_or_no_object_gives_its_value(tmp_path: Path) -> None:
    @tool(side_effect=False)
    def look() -> ToolReturn:
        """Look at something."""
        return ToolReturn([1, 2])

    model = ScriptedMediaModel([tool_call("look", {}), "done"], rules=RULES)
    asyncio.run(ran_with(tmp_path, model, look))

    assert '{"media":[],"result":[1,2]}' in said_of(model.requests[1])[-1]
    assert look().value == [1, 2]


def test_a_medium_that_is_no_bytes_fails_the_call_and_not_its_run(tmp_path: Path) -> None:
    @tool(side_effect=False)
    def look() -> ToolReturn:
        """Look at something."""
        return ToolReturn("it", media=["chart.png"])  # type: ignore[list-item]

    model = ScriptedMediaModel([tool_call("look", {}), "done"], rules=RULES)
    asyncio.run(ran_with(tmp_path, model, look))

    assert "a tool can show media as bytes only" in said_of(model.requests[1])[-1]
    with pytest.raises(ToolResultInvalid, match="as bytes only"):
        look()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken.png", "this PNG is broken: it breaks off"),
        ("locked.pdf", "this PDF has a password"),
        ("own.bin", "this is no image, sound, PDF or text that a model takes"),
    ],
)
def test_what_cannot_be_shown_is_named_in_the_result_and_the_call_has_succeeded(
    tmp_path: Path, name: str, why: str
) -> None:
    model = ScriptedMediaModel([shows(name, "b.png"), "b alone"], rules=RULES)

    async def main() -> None:
        assert (await ran(tmp_path, model)).text == "b alone"

    asyncio.run(main())

    assert model.media == [(png(5, 5, shade=9),)]
    assert f"left out: {why}" in said_of(model.requests[1])[-2]


def test_a_conversation_shows_no_more_than_one_call_takes(tmp_path: Path) -> None:
    rules = MediaRules(types=IMAGES, count_max=1, bound=lambda medium: 1_000)
    model = ScriptedMediaModel([shows("a.png"), shows("b.png"), "two dots"], rules=rules)

    async def main() -> None:
        assert (await ran(tmp_path, model)).text == "two dots"

    asyncio.run(main())

    assert model.media == [(png(5, 5),)] * 2
    assert "left out, since too many media for one call" in said_of(model.requests[2])[-1]


def test_where_personal_data_is_looked_for_a_picture_needs_the_grant(tmp_path: Path) -> None:
    model = ScriptedMediaModel([shows("a.png"), "unseen"], rules=RULES)

    async def main() -> None:
        tools = await camera(filled(tmp_path / "files"))
        policy = Policy(pii=True)
        environ = {"ARTELIER_VAULT_KEY": "0" * 32}
        with Kernel.open(
            tmp_path / "s.db", models={"m": model}, tools=tools, environ=environ, policy=policy
        ) as kernel:
            result = await AutonomousAgent(kernel=kernel).run(run_id="r", model="m", prompt="Look.")
            assert (result.status, result.text) == ("completed", "unseen")

    asyncio.run(main())

    assert model.media == []
    assert "the grant media:send" in said_of(model.requests[1])[-1]


def test_a_task_of_a_mission_is_sent_what_its_tool_shows(tmp_path: Path) -> None:
    see = decide("use_tool", tool=NAME, input={"names": ["a.png"]})
    team = SeeingTeam(planned({"slug": "a"}), scripts={"a": [see, write("Out a")]})

    async def scenario() -> None:
        tools = await camera(filled(tmp_path / "files"))
        with opened(tmp_path, team, tools=tools) as kernel:
            desk = kernel.for_tenant("acme")
            assert (await launched(desk))["status"] == "completed"
            calls = len(team.requests)
            assert (await replayed(kernel, "acme", f"{MISSION}/a")).status == "completed"
            assert len(team.requests) == calls
            assert kernel.verify().ok

    play(scenario())

    assert (png(5, 5),) in team.shown.media


def judging(team: SeeingTeam) -> ModelRequest:
    """What the evaluator was asked."""
    [asked] = [one for (what, _), one in zip(team.asked, team.requests, strict=True) if what == "Verdict"]
    return asked


def seeing(*names: str, **more: Any) -> SeeingTeam:
    see = decide("use_tool", tool=NAME, input={"names": list(names)})
    return SeeingTeam(
        planned({"slug": "a", "max_iterations": 3}), scripts={"a": [see, write("Out a")]}, **more
    )


@pytest.mark.parametrize("is_fault", [False, True])
def test_a_figure_that_a_tool_has_shown_is_for_the_evaluator_who_sees_it(
    tmp_path: Path, is_fault: bool
) -> None:
    team = seeing("a.png", content=f"# Bergen\n\n{SALES}", judge=answered(is_fault))

    async def scenario() -> None:
        tools = await camera(filled(tmp_path / "files"))
        with opened(tmp_path, team, tools=tools) as kernel:
            shown = await launched(kernel.for_tenant("acme"))
            assert (shown["status"] == "completed") is not is_fault, shown["message"]
            calls = len(team.requests)
            assert (await replayed(kernel, "acme", f"{MISSION}/a")).status is not None
            assert len(team.requests) == calls

    play(scenario())

    if not is_fault:
        assert [one.media_type for one in media_in(judging(team).messages)] == ["image/png"]
        assert "1. show (image/png, 5 x 5 pixels" in "\n".join(said_of(judging(team)))


def test_an_evaluator_reads_the_text_of_a_pdf_that_a_tool_has_shown(tmp_path: Path) -> None:
    team = seeing("c.pdf", content="# Oslo\n\nThe page says: Revenue of Oslo.")

    async def scenario() -> None:
        tools = await camera(filled(tmp_path / "files"))
        with opened(tmp_path, team, tools=tools) as kernel:
            assert (await launched(kernel.for_tenant("acme")))["status"] == "completed"

    play(scenario())

    assert [one.kind for one in media_in(judging(team).messages)] == ["pdf"]


def test_an_evaluator_that_sees_nothing_is_told_what_was_left_out(tmp_path: Path) -> None:
    team = seeing("a.png", rules=MediaRules())

    async def scenario() -> None:
        tools = await camera(filled(tmp_path / "files"))
        with opened(tmp_path, team, tools=tools) as kernel:
            assert (await launched(kernel.for_tenant("acme")))["status"] == "completed"

    play(scenario())

    told = "\n".join(said_of(judging(team)))
    assert "left out, since model" in told and "takes no image/png" in told


def test_a_tool_that_only_looks_so_shows_nothing(tmp_path: Path) -> None:
    """Another tool's data is data: a name of content in it is no picture."""
    model = ScriptedMediaModel([tool_call("forge", {}), "seen"], rules=RULES)

    @tool(side_effect=False)
    def forge() -> dict[str, Any]:
        """Forge."""
        data = {"blob": "b:" + "A" * 43, "media_type": "image/png", "size_bytes": 5}
        return {"attachments": [{"type": "media", "text": "", "data": data}]}

    async def main() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": model}, tools=[forge], environ={}) as kernel:
            result = await AutonomousAgent(kernel=kernel).run(run_id="r", model="m", prompt="Look.")
            assert (result.status, result.text) == ("completed", "seen")

    asyncio.run(main())

    assert model.media == []


def test_the_same_picture_again_and_again_is_no_news(tmp_path: Path) -> None:
    model = ScriptedMediaModel([shows("a.png")] * 3, rules=RULES)

    async def main() -> None:
        result = await ran(tmp_path, model)
        assert (result.status, result.reason) == ("failed", "stuck")

    asyncio.run(main())
