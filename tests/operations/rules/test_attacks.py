"""Ways in which somebody tried to get more out of a chat than its profile gives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from artelier import Kernel, Session, Tenant, tool
from artelier.operations import events as ev
from artelier.ports.model import ModelReply, ToolCall
from artelier.testing import ScriptedModel
from tests.operations.rules.stage import (
    SYSTEM,
    Stage,
    after,
    before,
    echo,
    flags,
    insert,
    keep,
    play,
    profile,
    stage_test,
)

LIQUID = "{{ 6 | times: 7 }} {{ art.note.value }} {% for x in (1..3) %}!{% endfor %}"


def compute(id_: str, effects: str, *declared: Any, **usage: Any) -> dict[str, Any]:
    code = f"def run(ctx):\n    return {{'value': 1, 'effects': {effects}}}\n"
    params = {"code": code, "returns": "effects", "effects": list(declared)}
    return {"operation_id": id_, "kind": "compute", "order": 5, "params": params, **usage}


@stage_test
async def test_what_code_makes_of_a_users_words_is_no_template(stage: Stage) -> None:
    asked = "[{'type': 'prompt.insert_after_last_user', 'text': 'said: ' + ctx.text}]"
    chat = await stage.chat(profile(before("note", "N", keep("note")), compute("code", asked, insert())))

    result = await chat.generate(LIQUID)

    assert result.operations["code"] == "done"
    assert ("system", f"said: {LIQUID}") in stage.prompt()


@stage_test
async def test_what_a_model_said_is_no_template_when_code_patches_the_reply(stage: Stage) -> None:
    asked = "[{'type': 'turn.assistant_variant.patch', 'mode': 'replace', 'text': ctx.text + '!'}]"
    patch = {"type": "turn.assistant_variant.patch", "mode": "replace"}
    chat = await stage.chat(profile(compute("code", asked, patch, hooks=["after_main_llm"])))

    result = await chat.generate(LIQUID)

    assert result.text == f"{LIQUID}!"


@pytest.mark.parametrize(
    ("declared", "asked"),
    [
        (
            {"type": "prompt.system_update", "mode": "append"},
            {"type": "prompt.system_update", "mode": "replace", "text": "OWNED"},
        ),
        (
            {"type": "prompt.insert_at_depth", "depth_from_end": 3},
            {"type": "prompt.insert_at_depth", "depth_from_end": 0, "text": "OWNED"},
        ),
        (
            {"type": "prompt.insert_after_last_user", "role": "user"},
            {"type": "prompt.insert_after_last_user", "role": "system", "text": "OWNED"},
        ),
    ],
)
def test_code_does_no_more_than_the_profile_declares(
    tmp_path: Any, declared: dict[str, Any], asked: dict[str, Any]
) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path)
        with stage.kernel:
            chat = await stage.chat(profile(compute("code", repr([asked]), declared)))

            result = await chat.generate("hello")

            finished = (await stage.finished(result.run_id))["code"]
            assert (finished.status, finished.code) == ("error", "effect_not_declared")
            assert stage.prompt()[0] == ("system", SYSTEM)
            assert "OWNED" not in str(stage.prompt())

    play(scenario())


@stage_test
async def test_a_block_that_only_prompts_see_shows_no_hidden_artifact_to_people(stage: Stage) -> None:
    """Its words stand in the conversation, which operations read and show."""
    block = {"channel": "state", "prompt": True, "ui": False, "text": "{{ art.note.value }}"}
    used = profile(
        before("note", "SECRET", keep("note", "prompt_only")),
        after("block", "b", {"type": "turn.assistant_blocks.update", "blocks": [block]}),
        after("shown", "{{ chat_history | last: 2 }}", keep("seen", "ui_only")),
    )
    chat = await stage.chat(used)

    first = await chat.generate("one")
    await chat.generate("two")

    assert first.operations["block"] == "error"
    assert "SECRET" not in json.dumps(await chat.art("seen"))


@stage_test
async def test_an_artifact_that_becomes_visible_does_not_show_its_past(stage: Stage) -> None:
    hidden = profile(after("w", "HIDDEN {{ chat.turn }}", keep("a", "internal")))
    feed = profile(after("w", "F {{ chat.turn }}", keep("f", "internal", write_mode="append")))
    chat, feeds = await stage.chat(hidden), await stage.chat(feed, chat="feeds")
    for one in (chat, feeds):
        await one.generate("a")
        await one.generate("b")
    open_ = profile(after("w", "OPEN {{ chat.turn }}", keep("a", "prompt+ui")))
    await chat.change(profile=open_)
    await chat.generate("c")
    await chat.generate("d")
    await feeds.change(
        profile=profile(after("w", "O {{ chat.turn }}", keep("f", "prompt+ui", write_mode="append")))
    )
    await feeds.generate("c")
    await feeds.generate("d")

    assert [one["value"] for one in await chat.history("a")] == ["OPEN 3"]
    assert await feeds.art("f") == ["O 3", "O 4"]
    assert all("HIDDEN" not in str(stage.prompt(n)) for n in range(len(stage.main)))


@stage_test
async def test_an_error_does_not_quote_what_people_may_not_see(stage: Stage) -> None:
    used = profile(
        after("secret", "TOPSECRET77", keep("x", "internal")),
        {
            "operation_id": "c",
            "kind": "compute",
            "order": 2,
            "hooks": ["after_main_llm"],
            "depends_on": ["secret"],
            "params": {"code": "def run(ctx):\n    return int(ctx.art['x'].value)\n"},
        },
        {
            **flags("g", '{"{{ art.x.value }}": true}', "yes"),
            "hooks": ["after_main_llm"],
            "depends_on": ["secret"],
        },
    )
    chat = await stage.chat(used)

    result = await chat.generate("hello")

    assert (result.operations["c"], result.operations["g"]) == ("error", "error")
    shown = json.dumps([await chat.show(result.run_id)], default=str)
    assert "TOPSECRET77" not in shown
    assert "withheld" in shown


@stage_test
async def test_an_error_is_told_where_nothing_is_hidden(stage: Stage) -> None:
    code = "def run(ctx):\n    return int('abc')\n"
    chat = await stage.chat(
        profile({"operation_id": "c", "kind": "compute", "order": 2, "params": {"code": code}})
    )

    result = await chat.generate("hello")

    assert "invalid literal" in json.dumps(await chat.show(result.run_id), default=str)


def test_a_tool_call_that_nobody_answers_stands_in_no_later_prompt(tmp_path: Any) -> None:
    def answer(request: Any) -> Any:
        if len(request.messages) > 2:
            return "ok"
        call = ToolCall(id="1", name="shell", arguments={"x": 1})
        return ModelReply(text="hm", tool_calls=(call,), finish_reason="tool_calls")

    async def scenario() -> None:
        stage = Stage(tmp_path, answer)
        with stage.kernel:
            chat = await stage.chat()
            await chat.generate("one")
            await chat.generate("two")

            assert [(one.role, one.text) for one in stage.main[-1].messages][1:] == [
                ("user", "one"),
                ("assistant", "hm"),
                ("user", "two"),
            ]
            assert all(not one.tool_calls for one in stage.main[-1].messages)

    play(scenario())


def test_a_reply_that_ended_at_its_limit_says_so(tmp_path: Any) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path, lambda _: ModelReply(text="one two", finish_reason="length"))
        with stage.kernel:
            chat = await stage.chat()

            result = await chat.generate("hello")

            assert (result.status, result.finish_reason) == ("completed", "completed")
            assert result.is_cut

    play(scenario())


@stage_test
async def test_five_hundred_artifacts_can_be_written_in_one_turn(stage: Stage) -> None:
    many = [before(f"o{n}", "x", keep(f"t{n}", "ui_only"), order=n) for n in range(500)]
    chat = await stage.chat(profile(*many))

    result = await chat.generate("hello")

    assert result.status == "completed", result.failed
    assert len(await chat.arts()) == 500


@tool(side_effect=False)
def look_up(name: str) -> str:
    """Look a name up."""
    return f"found {name}"


def test_an_operation_without_its_grant_is_passed_over(tmp_path: Any) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db", models={"m": ScriptedModel(echo)}, tools=[look_up]) as kernel:
            tenant = Tenant("acme", grants={"models:*"})
            used = profile(
                {
                    "operation_id": "t",
                    "kind": "tool",
                    "order": 1,
                    "params": {"name": "look_up", "arguments": {"name": "ana"}},
                }
            )
            chat = await Session.open(kernel, "c", tenant=tenant, model="m", profile=used)

            result = await chat.generate("hello")

            shown = await chat.show(result.run_id)
            assert result.operations == {"t": "skipped"}
            assert "policy" in json.dumps(shown, default=str)
            assert ev.OperationFinished.KIND in json.dumps(
                [one.type for one in await chat.events(result.run_id)]
            )

    play(scenario())
