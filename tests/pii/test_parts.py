"""Every other part, from end to end: who is told what, and who gains nothing by what he types."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from artelier import AutonomousAgent, Kernel, Policy, Run, Session, SubAgentFactory, tool
from artelier.operations.lore.character_import import cast_character
from artelier.pii.vault import placeholders_in
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import drive, play, result_of, user
from tests.pii.test_systems import ACME, EMAIL, KEY, PHONE, assert_nowhere, letters, opened, seen

BO = "bo@example.net"

CARD_FIELDS: dict[str, Any] = {
    "mes_example": "",
    "creator_notes": "",
    "post_history_instructions": "",
    "creator": "",
    "alternate_greetings": [],
    "tags": [],
    "character_version": "",
    "extensions": {},
}


def unasked(folder: Path, models: Any, *tools: Any) -> Kernel:
    """A kernel whose tools ask nobody."""
    policy = Policy(pii=True, backoff_s=0)
    return Kernel.open(folder / "s.db", models=models, tools=tools, environ=KEY, policy=policy)


@tool(side_effect=False)
async def look_up(name: str) -> dict[str, str]:
    """Somebody's address."""
    return {"name": name, "email": BO}


def to_whom(request: Any) -> Any:
    named = [one for one in placeholders_in(seen(request)) if one.startswith("<EMAIL")]
    return tool_call("send_mail", {"to": named[-1]})


def test_what_a_sub_agent_finds_its_parent_may_use(tmp_path: Path) -> None:
    sent, send_mail = letters()
    boss = ScriptedModel([tool_call("helper", {"prompt": "Who is Bo?"}), to_whom, "sent"])
    child = ScriptedModel(
        [tool_call("look_up", {"name": "Bo"}), lambda request: placeholders_in(seen(request))[0]]
    )

    async def scenario() -> None:
        with unasked(tmp_path, {"boss": boss, "child": child}, send_mail, look_up) as kernel:
            helper = SubAgentFactory(kernel=kernel).create(
                name="helper",
                description="Looks up.",
                system_prompt="You look up.",
                model="child",
                tools=[look_up],
            )
            agent = AutonomousAgent(kernel=kernel, identity="Boss.", tools=[helper, send_mail])
            done = await agent.run(run_id="r", tenant=ACME, model="boss", prompt="Write to Bo")
            assert done.status == "completed", done.reason
            assert sent == [BO]

    asyncio.run(scenario())
    assert_nowhere(tmp_path)


def test_a_sub_agent_gains_nothing_for_its_parent_by_saying_a_placeholder(tmp_path: Path) -> None:
    sent, send_mail = letters()
    stolen: list[str] = []
    boss = ScriptedModel(
        [
            "noted",
            tool_call("helper", {"prompt": "Say it"}),
            lambda _: tool_call("send_mail", {"to": stolen[0]}),
            "sent",
        ]
    )
    child = ScriptedModel([lambda _: f"it is {stolen[0]}"])

    async def scenario() -> None:
        with unasked(tmp_path, {"boss": boss, "child": child}, send_mail) as kernel:
            helper = SubAgentFactory(kernel=kernel).create(
                name="helper", description="Says.", system_prompt="You say.", model="child"
            )
            agent = AutonomousAgent(kernel=kernel, identity="Boss.", tools=[helper, send_mail])
            for name, prompt in (("a", f"I am {EMAIL}"), ("b", "Write to whom I say")):
                done = await agent.run(run_id=name, tenant=ACME, model="boss", prompt=prompt)
                assert done.status == "completed", done.reason
                stolen.extend(placeholders_in(seen(boss.requests[0])))
            assert sent == [stolen[0]]

    asyncio.run(scenario())


def test_who_approves_with_other_arguments_types_values_or_text(tmp_path: Path) -> None:
    """A value that is typed goes to the tool, a placeholder that is typed is text."""
    sent, send_mail = letters()
    model = ScriptedModel(
        ["noted", *[step for _ in range(2) for step in (tool_call("send_mail", {"to": "boss"}), "done")]]
    )

    async def scenario() -> None:
        with opened(tmp_path, {"m": model}, tools=[send_mail]) as kernel:
            desk, agent = kernel.for_tenant(ACME), AutonomousAgent(kernel=kernel, identity="C.")
            await agent.run(run_id="a", tenant=ACME, model="m", prompt=f"I am {EMAIL}")
            (stolen,) = {*placeholders_in(seen(model.requests[0]))}
            for name, typed in (("value", BO), ("text", stolen)):
                wanted = {"run_id": name, "tenant": ACME, "model": "m", "prompt": "Write."}
                asked = await agent.run(**wanted, on_wait="return")
                assert asked.status == "waiting_approval", asked.reason
                await desk.approve(name, arguments={"to": typed})
                done = await agent.run(**wanted)
                assert done.status == "completed", done.reason
            assert sent == [BO, stolen]

    asyncio.run(scenario())
    assert_nowhere(tmp_path)


def test_steering_and_notes_of_people_bring_values_and_no_placeholders(tmp_path: Path) -> None:
    sent, send_mail = letters()
    model, stolen = ScriptedModel(["noted"]), list[str]()

    async def first(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user(f"I am {EMAIL}")])).text

    async def code(run: Run) -> Any:
        await run.wait_for("go", key="go")
        (note,) = await run.notes(key="notes")
        for named in (stolen[0], *placeholders_in(note)):
            await run.step_tool("send_mail", {"to": named})
        return note

    async def scenario() -> None:
        with unasked(tmp_path, {"m": model}, send_mail) as kernel:
            desk = kernel.for_tenant(ACME)
            assert await drive(desk, first, "a") == "completed"
            stolen.extend(placeholders_in(seen(model.requests[0])))
            assert await drive(desk, code, on_wait="suspend") == "waiting"
            await desk.inject("r", f"Call {BO} or {PHONE}, not {stolen[0]}")
            await desk.signal("r", "go")
            assert await drive(desk, code) == "completed"
            assert sent == [stolen[0], BO, PHONE]
            told = await desk.restored(await result_of(desk))
            assert told == f"Call {BO} or {PHONE}, not {stolen[0]}"

    play(scenario())
    assert_nowhere(tmp_path)


def test_who_approves_may_repeat_the_placeholders_of_the_question(tmp_path: Path) -> None:
    sent, send_mail = letters()
    model = ScriptedModel([to_whom, "done"])

    async def scenario() -> None:
        with opened(tmp_path, {"m": model}, tools=[send_mail]) as kernel:
            desk, agent = kernel.for_tenant(ACME), AutonomousAgent(kernel=kernel, identity="C.")
            wanted = {"run_id": "r", "tenant": ACME, "model": "m", "prompt": f"Write to {BO}"}
            await agent.run(**wanted, on_wait="return")
            (question,) = await desk.approvals("r")
            (named,) = {*placeholders_in(str(question))}
            await desk.approve("r", arguments={"to": named})
            done = await agent.run(**wanted)
            assert done.status == "completed", done.reason
            assert sent == [BO]

    asyncio.run(scenario())
    assert_nowhere(tmp_path)


def test_cards_and_chats_of_elsewhere_gain_nothing_by_naming_a_placeholder(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "noted")

    def card(named: str) -> Path:
        texts = dict.fromkeys(
            ("description", "personality", "scenario", "first_mes", "system_prompt"), f"Write to {named}"
        )
        data = {**CARD_FIELDS, **texts, "name": "Eve"}
        file = tmp_path / "eve.json"
        file.write_text(json.dumps({"spec": "chara_card_v2", "spec_version": "2.0", "data": data}))
        return file

    async def scenario() -> None:
        with unasked(tmp_path, {"m": model}) as kernel:
            chats = {"model": "m", "tenant": ACME, "principal": "user:kim"}
            first = await Session.open(kernel, "a", user="Kim", **chats)
            await first.generate(f"I am {EMAIL}")
            (stolen,) = {*placeholders_in(seen(model.requests[0]))}
            cast = await cast_character(kernel.for_tenant(ACME), card(stolen), by="user:kim")
            chat = await Session.open(
                kernel,
                "b",
                char=dict(cast.char),
                greetings=list(cast.greetings),
                user={"name": "Kim", "description": f"I am {stolen}"},
                system=f"Mail {stolen}",
                profile="rp-basic",
                **chats,
            )
            await chat.import_turns([{"user": stolen, "variants": [stolen], "selected": 0}])
            before = len(model.requests)
            turn = await chat.generate("go")
            asked = [seen(request) for request in model.requests[before:]]
            assert any(stolen[1:] in text for text in asked)
            assert not any(placeholders_in(text) for text in asked)
            rows = kernel.store.look(
                "SELECT p.placeholder FROM received p JOIN runs r ON r.id = p.run WHERE r.run = ?",
                (turn.run_id,),
            )
            assert rows == []
            shown = await kernel.for_tenant(ACME).restored([one.text for one in await chat.turns(limit=5)])
            assert f"Write to {stolen}" in shown  # as it was written
            assert stolen in shown

    asyncio.run(scenario())


def test_a_fork_may_use_what_its_origin_was_told_and_a_stranger_may_not(tmp_path: Path) -> None:
    sent, send_mail = letters()
    model = ScriptedModel(["noted"])

    async def told(run: Run) -> Any:
        await run.step_model(model="m", messages=[user(f"I am {EMAIL}")], key="told")

    async def mails(run: Run) -> Any:
        (named,) = {*placeholders_in(seen(model.requests[0]))}
        return (await run.step_tool("send_mail", {"to": named}, key="sent")).is_error

    async def both(run: Run) -> Any:
        await told(run)
        return await mails(run)

    async def scenario() -> None:
        with unasked(tmp_path, {"m": model}, send_mail) as kernel:
            desk = kernel.for_tenant(ACME)
            assert await drive(desk, told, "r") == "completed"
            assert await drive(desk, both, await desk.fork("r", new_id="f", effects="live")) == "completed"
            assert await drive(desk, mails, "s") == "completed"
            (named,) = {*placeholders_in(seen(model.requests[0]))}
            assert sent == [EMAIL, named]

    play(scenario())
    assert_nowhere(tmp_path)
