"""AG-UI: what a client of the protocol reads of runs, missions and chats, and how it comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ag_ui import core as agui
from pydantic import TypeAdapter

from artelier import AutonomousAgent, Policy, tool
from artelier.errors import ModelRefusedCall
from artelier.testing import ScriptedModel, tool_call
from tests.missions.mission_stage import LINE, MISSION, Team
from tests.missions.task_stage import THINK, look, sales_of
from tests.operations.profiles import tavern, template
from tests.operations.test_stream import Typing
from tests.server.routes.goals import a_task, an_agent, launched_by, stands
from tests.server.routes.served import Served, at, good, play, refused, serving
from tests.server.routes.test_streams import _reading

EVENT: TypeAdapter[Any] = TypeAdapter(agui.Event)
OWN, RUN = at("tasks", "tasks/own"), "run:tasks/own"


def decoded(text: str) -> list[tuple[str, Any]]:
    """Ids and events, each read by the protocol's own types."""
    found: list[tuple[str, Any]] = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in lines:
            found.append((lines.get("id", ""), EVENT.validate_json(lines["data"])))
    return found


def types(events: list[Any]) -> list[str]:
    return [event.type.value for event in events]


async def followed(client: Any, run_id: str, seen: str = "", **wanted: Any) -> list[Any]:
    """A run that has ended, up to its end."""
    headers = {"Last-Event-ID": seen} if seen else {}
    answer = await client.get("/agui", params={"run_id": run_id, **wanted}, headers=headers)
    assert answer.status_code == 200, answer.text
    return decoded(answer.text)


def check_protocol(events: list[Any]) -> None:
    """What a client of AG-UI insists on: everything begins before it ends, and nothing twice at once."""
    assert events[0].type == "RUN_STARTED"
    assert events[-1].type in ("RUN_FINISHED", "RUN_ERROR")
    names = {
        "STEP": "step_name",
        "TEXT_MESSAGE": "message_id",
        "TOOL_CALL": "tool_call_id",
        "SUBAGENT": "subagent_run_id",
    }
    opened: dict[str, set[str]] = {family: set() for family in names}
    for event in events:
        family, _, what = event.type.value.rpartition("_")
        if family not in opened:
            continue
        name = getattr(event, names[family])
        if what == "STARTED" or what == "START":
            assert name not in opened[family]
            opened[family].add(name)
        elif what != "RESULT":
            assert name in opened[family], (family, what, name)
            if what in ("END", "FINISHED", "ERROR"):
                opened[family].remove(name)
    assert not any(opened.values()), opened


def state_of(events: list[Any]) -> dict[str, Any]:
    """The state that a client has in the end."""
    state: Any = None
    for event in events:
        if event.type == "STATE_SNAPSHOT":
            state = event.snapshot
        elif event.type == "STATE_DELTA":
            for change in event.delta:
                _, place, name = change.path.split("/")
                state[place][name.replace("~1", "/").replace("~0", "~")] = change.value
    return state


async def a_mission(served: Served) -> None:
    await launched_by(served.ada)
    await stands(served.ada, at("missions", MISSION), "completed", "failed")


def test_a_mission_is_told_whole_in_order_and_in_the_protocol(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            await a_mission(served)
            events = [event for _, event in await followed(served.ada, MISSION)]

            check_protocol(events)
            assert (events[0].run_id, events[0].thread_id) == (MISSION, MISSION)
            assert types(events)[1] == "STATE_SNAPSHOT" and events[1].snapshot == {"tasks": {}}
            assert events[-1].outcome.type == "success"
            begun = [one.subagent_run_id for one in events if one.type == "SUBAGENT_STARTED"]
            assert begun == ["m1/figures", "m1/letter"]
            steps = [one.step_name for one in events if one.type == "STEP_STARTED"]
            assert steps == ["m1/figures/c1", "m1/letter/c1"]
            told = [
                (one.name, one.metadata.get("run_id"))
                for one in events
                if one.type == "CUSTOM" and not one.name.startswith("run.")
            ]
            assert told[:3] == [
                ("mission.planned", "m1"),
                ("approval.requested", "m1"),
                ("approval.given", "m1"),
            ]
            for task in ("m1/figures", "m1/letter"):
                own = [name for name, run in told if run == task]
                assert own == ["decision.taken", "artifact.written", "task.evaluated"]
            decision = next(one for one in events if getattr(one, "name", "") == "decision.taken")
            assert decision.value["decision"]["action"] == "create_artifact"
            assert decision.subagent_run_id == "m1/figures"
            assert all(one.subagent_run_id is None for one in events if one.type == "STATE_DELTA")

    play(scenario())


def test_the_state_of_tasks_that_patches_lead_to_is_that_of_the_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            await a_mission(served)
            events = [event for _, event in await followed(served.ada, MISSION)]
            shown = good(await served.ada.get(at("missions", MISSION)))["tasks"]

            state = state_of(events)["tasks"]
            assert {id_: (one["status"], one["iteration"], one["outputs"]) for id_, one in state.items()} == {
                one["id"]: (one["status"], one["iteration_count"], one["outputs"]) for one in shown
            }
            late = [event for _, event in await followed(served.ada, MISSION, after=40)]
            assert late[0].type == "STATE_SNAPSHOT" and state_of(late)["tasks"] == state

    play(scenario())


async def _limits(served: Served) -> dict[str, dict[str, tuple[int, int]]]:
    """Iterations that each task had and may have, by who says so."""
    async with _reading(served, "GET", "/agui?after=9000000") as reader:
        told = (await reader.event() or {})["snapshot"]["tasks"]
    listed = good(await served.ada.get("/tasks"))["items"]
    return {
        "protocol": {id_: (one["iteration"], one["last_iteration"]) for id_, one in told.items()},
        "list": {one["id"]: (one["iteration_count"], one["last_iteration"]) for one in listed},
    }


def test_the_last_iteration_of_a_retried_task_and_of_its_forks_is_the_same_everywhere(tmp_path: Path) -> None:
    async def tried(served: Served) -> None:
        good(await served.ada.post(f"{OWN}/start", json={}), 202)
        await stands(served.ada, OWN, "failed")

    async def scenario() -> None:
        failure = ModelRefusedCall("The provider fell over.")
        team = Team(scripts={"own": [THINK, THINK, THINK, look(), failure, look("Bergen"), failure]})
        async with serving(tmp_path, model=team.model, tools=[sales_of], has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada)
            await tried(served)  # stuck after three: a retry counts anew
            good(await served.ada.post(f"{OWN}/retry", json={}))
            await tried(served)  # a call failed: a retry asks it again, and counts on
            good(await served.ada.post(f"{OWN}/retry", json={}))
            await tried(served)
            agent = good(await served.ada.get(at("agents", "ana")))
            events = [one async for one in served.kernel.events() if one.stream.local == RUN]
            cycles = [one.seq for one in events if one.kind == "cycle.completed"]
            ends = [one.seq for one in events if one.kind == "task.ended"]
            retries = [one.seq for one in events if one.kind == "run.reopened"]
            forks = {cycles[1]: (2, 5), ends[0]: (3, 8), retries[0]: (3, 8), cycles[2]: (4, 8)}
            for seq in forks:
                asked = {"at": seq, "new_id": f"fork-{seq}"}
                good(await served.ada.post(at("runs", "tasks/own", "fork"), json=asked), 201)

            said = await _limits(served)

            assert said["list"] == said["protocol"]
            assert said["list"] == {
                "tasks/own": (6, 8),
                **{f"fork-{seq}": limit for seq, limit in forks.items()},
            }
            assert (agent["iteration"], agent["last_iteration"], agent["max_iterations"]) == (6, 8, 5)

    play(scenario())


def test_a_task_is_retried_with_another_limit_over_http_and_keeps_to_it(tmp_path: Path) -> None:
    cities = [look(city) for city in ("Oslo", "Bergen", "Molde", "Voss", "Hamar", "Moss")]

    async def scenario() -> None:
        team = Team(scripts={"own": [*cities, THINK]})
        async with serving(tmp_path, model=team.model, tools=[sales_of], has_worker=False) as served:
            await an_agent(served.ada)
            await a_task(served.ada, max_iterations=2)
            for wish, last in ((None, 2), ({"max_iterations": 3}, 5)):
                if wish is not None:
                    good(await served.ada.post(f"{OWN}/retry", json=wish))
                good(await served.ada.post(f"{OWN}/start", json={}), 202)
                await stands(served.ada, OWN, "failed")
                found = await _limits(served)
                assert found["list"] == found["protocol"] == {"tasks/own": (last, last)}
            good(await served.ada.post(at("runs", "tasks/own", "resume"), json={"max_iterations": 6}))
            good(await served.ada.post(f"{OWN}/start", json={}), 202)
            await stands(served.ada, OWN, "failed")

            assert (await _limits(served))["list"] == {"tasks/own": (6, 6)}
            assert team.count("Decision") == 6
            refused = await served.ada.post(at("runs", "tasks/own", "resume"), json={"max_iterations": 6})
            assert refused.status_code == 409

    play(scenario())


def test_forks_of_what_ran_below_a_run_are_no_part_of_its_stream(tmp_path: Path) -> None:
    """Nothing comes behind the end of the run, whether somebody drives the fork or not."""

    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            await a_mission(served)
            before = await followed(served.ada, MISSION)
            fork = good(await served.ada.post(at("runs", "m1/letter", "fork"), json={"at": 3}), 201)["run_id"]
            assert fork == "m1/letter.fork-1"
            after = await followed(served.ada, MISSION)
            seen = {"Last-Event-ID": after[-1][0]}
            answer = await served.ada.get("/agui", params={"run_id": MISSION}, headers=seen)

            check_protocol([event for _, event in after])
            assert after == before
            assert answer.status_code == 204

    play(scenario())


def test_whoever_comes_back_anywhere_loses_nothing_and_gets_nothing_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, model=Team(LINE).model) as served:
            await a_mission(served)
            whole = await followed(served.ada, MISSION)
            ids = [id_ for id_, _ in whole]
            assert len(set(ids)) == len(ids)
            assert ids == sorted(ids, key=lambda one: tuple(map(int, one.split("."))))
            for number, (id_, _) in enumerate(whole[:-1], 1):
                assert await followed(served.ada, MISSION, seen=id_) == whole[number:]
            headers = {"Last-Event-ID": ids[-1]}
            answer = await served.ada.get("/agui", params={"run_id": MISSION}, headers=headers)
            assert (answer.status_code, answer.content) == (204, b"")

    play(scenario())


@tool
def times(a: int, b: int) -> str:
    """The product."""
    return f"{a} times {b} is {a * b}"


async def an_agent_at_work(served: Served) -> None:
    agent = AutonomousAgent(kernel=served.kernel, identity="You count.", tools=[times])
    await agent.run(run_id="r", model="m", prompt="Count.")


def test_an_agent_s_replies_and_tool_calls_are_told_and_its_private_prompt_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        script = [tool_call("times", {"a": 6, "b": 7}), "It is 42."]
        async with serving(tmp_path, model=ScriptedModel(script)) as served:
            await an_agent_at_work(served)
            answer = await served.ada.get("/agui", params={"run_id": "r"})
            events = [event for _, event in decoded(answer.text)]

            check_protocol(events)
            core = [one for one in types(events) if one[:4] in ("TOOL", "TEXT", "STEP")]
            assert core == [
                "STEP_STARTED",
                "TOOL_CALL_START",
                "TOOL_CALL_ARGS",
                "TOOL_CALL_END",
                "TOOL_CALL_RESULT",
                "STEP_FINISHED",
                "STEP_STARTED",
                "TEXT_MESSAGE_START",
                "TEXT_MESSAGE_CONTENT",
                "TEXT_MESSAGE_END",
                "STEP_FINISHED",
            ]
            by_type = {one.type.value: one for one in events}
            assert by_type["TOOL_CALL_START"].tool_call_name == "times"
            assert json.loads(by_type["TOOL_CALL_ARGS"].delta) == {"a": 6, "b": 7}
            assert by_type["TOOL_CALL_RESULT"].content == "6 times 7 is 42"
            assert by_type["TEXT_MESSAGE_CONTENT"].delta == "It is 42."
            assert "You count" not in answer.text

    play(scenario())


def test_a_run_that_failed_and_was_retried_begins_again_and_ends_once_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        calls: list[Any] = []

        def answer(request: Any) -> Any:
            calls.append(request)
            if len(calls) == 1:
                raise ModelRefusedCall("not today")
            return "Three."

        async with serving(tmp_path, answer) as served:
            agent = AutonomousAgent(kernel=served.kernel, identity="You count.")
            await agent.run(run_id="r", model="m", prompt="Count.")
            failed = await followed(served.ada, "r")
            assert types([event for _, event in failed])[-1] == "RUN_ERROR"
            good(await served.ada.post("/runs/r/retry", json={}))
            await stands(served.ada, "/runs/r", "completed")
            rest = await followed(served.ada, "r", seen=failed[-1][0])
            check_protocol([event for _, event in rest])
            assert await followed(served.ada, "r") == failed + rest
            said = [one.delta for _, one in rest if one.type == "TEXT_MESSAGE_CONTENT"]
            assert said == ["Three."]

    play(scenario())


def asked(text: str = "x", *, thread: str = "c", run: str = "u1", **more: Any) -> dict[str, Any]:
    messages = [{"id": "1", "role": "user", "content": text}]
    return {
        "threadId": thread,
        "runId": run,
        "state": None,
        "messages": messages,
        "tools": [],
        "context": [],
        "forwardedProps": {"model": "m"},
        **more,
    }


def test_a_turn_opens_its_chat_and_is_told_as_it_is_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = Typing("typed")
        async with serving(tmp_path, model=model) as served:
            async with _reading(served, "POST", "/agui", asked()) as reader:
                kinds, text = list[str](), ""
                for _ in range(6):
                    model.type(1)
                while (event := await reader.event()) is not None:
                    kinds.append(event["type"])
                    text += event.get("delta", "")
                    assert EVENT.validate_python(event)
            assert (kinds[0], kinds[1], kinds[-2], kinds[-1]) == (
                "RUN_STARTED",
                "TEXT_MESSAGE_START",
                "TEXT_MESSAGE_END",
                "RUN_FINISHED",
            )
            assert kinds[2:-2] == ["TEXT_MESSAGE_CONTENT"] * 5 and text == "typed"
            shown = good(await served.ada.get("/sessions/c"))
            assert [turn["user"] for turn in shown["turns"]] == ["x"]
            assert shown["settings"]["model"] == "m"
            again = [event for _, event in await followed(served.ada, "c/r000001")]
            check_protocol(again)
            assert again[0].thread_id == "c"
            assert [one.delta for one in again if one.type == "TEXT_MESSAGE_CONTENT"] == ["typed"]

    play(scenario())


def test_who_leaves_does_not_end_the_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = Typing("typed")
        async with serving(tmp_path, model=model) as served:
            async with _reading(served, "POST", "/agui", asked()) as reader:
                model.type(2)
                while (event := await reader.event()) and event.get("delta") != "t":
                    pass
            model.type(4)
            events = [event for _, event in await followed(served.ada, "c/r000001")]
            assert [one.delta for one in events if one.type == "TEXT_MESSAGE_CONTENT"] == ["typed"]

    play(scenario())


async def a_rewriting_profile(served: Served) -> None:
    """It keeps a secret, a note for prompts and one of the run, and makes another text of each reply."""
    change = {"type": "turn.assistant_variant.patch"}
    polish = template("polish", "POLISHED", effects=(change,))
    profile = tavern().data()
    profile["operations"] = [*profile["operations"], polish]
    good(await served.ada.post("/profiles", json={"profile": profile}), 201)


def test_a_chat_tells_what_its_turns_show_and_nothing_internal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await a_rewriting_profile(served)
            body = asked("hello", forwardedProps={"model": "m", "profile": "tavern", "theme": 1})
            posted = await served.ada.post("/agui", json=body)
            read = await served.ada.get("/agui", params={"run_id": "c/r000001"})
            everything = await served.ada.get("/sessions/c")

            told = [event for _, event in decoded(posted.text)]
            check_protocol(told)
            [snapshot] = [one for one in told if one.type == "MESSAGES_SNAPSHOT"]
            assert [(one.role, one.content) for one in snapshot.messages] == [
                ("user", "hello"),
                ("assistant", "POLISHED"),
            ]
            again = [event for _, event in decoded(read.text)]
            check_protocol(again)
            said = [one for one in again if one.type == "TEXT_MESSAGE_CONTENT"]
            assert [one.delta for one in said] == ["POLISHED"]
            assert said[0].message_id == snapshot.messages[-1].id
            assert "POLISHED" in everything.text
            for answer in (posted, read):
                for hidden in ("SECRET", "NOTE", "ONCE"):
                    assert hidden not in answer.text

    play(scenario())


def test_a_chat_goes_on_with_its_settings_and_one_turn_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = Typing("ab")
        async with serving(tmp_path, model=model) as served:
            good(await served.ada.post("/sessions", json={"id": "c", "model": "m"}), 201)
            async with _reading(served, "POST", "/agui", asked(forwardedProps={})) as reader:
                assert (await reader.event() or {})["type"] == "RUN_STARTED"
                refused(await served.ada.post("/agui", json=asked("y")), 409, "conflict")
                model.type(3)
                while await reader.event() is not None:
                    pass
            model.type(3)
            second = await served.ada.post("/agui", json=asked("y", forwardedProps=None))
            assert types([one for _, one in decoded(second.text)])[-1] == "RUN_FINISHED"
            turns = good(await served.ada.get("/sessions/c"))["turns"]
            assert [turn["user"] for turn in turns] == ["x", "y"]

    play(scenario())


def test_the_stream_of_a_turn_tells_nothing_of_the_turns_after_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, lambda request: f"re: {request.messages[-1].text}") as served:
            for text in ("one", "two", "three"):
                assert (await served.ada.post("/agui", json=asked(text))).status_code == 200
            for number, text in enumerate(("one", "two", "three"), 1):
                events = [event for _, event in await followed(served.ada, f"c/r00000{number}")]
                check_protocol(events)
                assert types(events).count("RUN_FINISHED") == 1
                said = [one.delta for one in events if one.type == "TEXT_MESSAGE_CONTENT"]
                assert said == [f"re: {text}"]

    play(scenario())


def test_a_turn_that_fails_is_an_error_to_its_client(tmp_path: Path) -> None:
    async def scenario() -> None:
        def broken(request: Any) -> Any:
            raise ModelRefusedCall("no such thing")

        async with serving(tmp_path, broken) as served:
            answer = await served.ada.post("/agui", json=asked())
            events = [event for _, event in decoded(answer.text)]
            check_protocol(events)
            assert events[-1].type == "RUN_ERROR" and events[-1].code
            again = [event for _, event in await followed(served.ada, "c/r000001")]
            assert (again[-1].type, again[-1].code) == ("RUN_ERROR", events[-1].code)

    play(scenario())


def test_a_turn_that_waits_for_a_person_is_interrupted_and_goes_on_after_the_answer(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(side_effect=True, risk="high")
    def send(text: str) -> str:
        """Send a mail."""
        sent.append(text)
        return "sent to a secret address"

    operation = {
        "operation_id": "mail",
        "kind": "tool",
        "hooks": ["before_main_llm"],
        "order": 1,
        "required": True,
        "params": {"name": "send", "arguments": {"text": "hello"}},
    }

    async def scenario() -> None:
        policy = Policy(approve_risk="high")
        async with serving(tmp_path, tools=[send], policy=policy) as served:
            profile = {"profile": {"profile_id": "mailer", "operations": [operation]}}
            good(await served.ada.post("/profiles", json=profile), 201)
            props = {"model": "m", "profile": "mailer"}
            answer = await served.ada.post("/agui", json=asked("a", forwardedProps=props))
            events = [event for _, event in decoded(answer.text)]
            check_protocol(events)
            [interrupt] = events[-1].outcome.interrupts
            run_id = events[-1].metadata["run_id"]
            assert (interrupt.reason, sent) == ("waiting_approval", [])

            step = good(await served.ada.get("/approvals"))["items"][0]["step"]
            assert interrupt.id == f"{run_id}#{step}"
            assert "send" in interrupt.message
            resume = [{"interruptId": interrupt.id, "status": "resolved", "payload": {"approved": True}}]
            told = await served.ada.post("/agui", json=asked("a", resume=resume))
            rest = [event for _, event in decoded(told.text)]
            check_protocol(rest)
            assert [one.delta for one in rest if one.type == "TEXT_MESSAGE_CONTENT"] == ["re: a"]
            assert (rest[-1].outcome.type, sent) == ("success", ["hello"])
            refused(await served.ada.post("/agui", json=asked("a", resume=resume)), 409)
            text = (await served.ada.get("/agui", params={"run_id": run_id})).text
            again = [event for _, event in decoded(text)]
            check_protocol(again)
            assert [one.delta for one in again if one.type == "TEXT_MESSAGE_CONTENT"] == ["re: a"]
            assert sent == ["hello"]
            assert not any(kind.startswith("TOOL_CALL") for kind in types(again))
            assert "secret address" not in text

    play(scenario())


def test_all_runs_of_a_tenant_are_told_live_and_those_of_another_never(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            for ours, client in ((True, served.ada), (False, served.eve)):
                body = asked("canary" if not ours else "mine", thread="ours" if ours else "theirs")
                await client.post("/agui", json=body)
            async with _reading(served, "GET", "/agui") as reader:
                found: list[Any] = []
                while len(found) < 6:
                    if (event := await reader.event()) is not None:
                        found.append(EVENT.validate_python(event))
                await served.ada.post("/agui", json=asked("more", thread="late"))
                while not (found[-1].type == "RUN_FINISHED" and found[-1].thread_id == "late"):
                    event = await reader.event()
                    assert event is not None
                    found.append(EVENT.validate_python(event))
            assert found[0].type == "STATE_SNAPSHOT"
            threads = [one.thread_id for one in found if one.type == "RUN_STARTED"]
            assert threads == ["ours", "late"]
            said = [one.delta for one in found if one.type == "TEXT_MESSAGE_CONTENT"]
            assert said == ["re: mine", "re: more"]
            refused(await served.eve.get("/agui", params={"run_id": "ours/r000001"}), 404)
            good(await served.eve.get("/sessions/theirs"))
            refused(await served.eve.get("/sessions/ours"), 404)

    play(scenario())


def test_a_viewer_may_follow_and_not_speak(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            assert (await served.ada.post("/agui", json=asked())).status_code == 200
            events = [event for _, event in await followed(served.vic, "c/r000001")]
            check_protocol(events)
            refused(await served.vic.post("/agui", json=asked("y")), 403)
            assert len(good(await served.ada.get("/sessions/c"))["turns"]) == 1

    play(scenario())


DEEP = "[" * 3000 + "]" * 3000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        DEEP.encode(),
        {**asked(), "threadId": "a#b"},
        {**asked(), "threadId": ""},
        {**asked(), "threadId": 7},
        {**asked(), "threadId": "c" * 5000},
        {**asked(), "runId": "r" * 5000},
        {**asked(), "messages": []},
        {**asked(), "messages": "x"},
        {**asked(), "messages": [{"id": "1", "role": "assistant", "content": "me"}]},
        {**asked(), "messages": [{"id": "1", "role": "user", "content": ""}]},
        {
            **asked(),
            "messages": [
                {
                    "id": "1",
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "url", "value": "http://x"}}],
                }
            ],
        },
        {**asked(), "resume": [{"interruptId": "x", "status": "resolved"}]},
        {**asked(), "forwardedProps": {"model": 7}},
        {**asked(), "forwardedProps": "x"},
        {**asked(), "forwardedProps": {"model": ""}},
    ],
)
def test_a_hostile_body_is_refused_in_the_one_shape_and_opens_no_chat(tmp_path: Path, body: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers = {"Content-Type": "application/json"}
            refused(await served.ada.post("/agui", content=content, headers=headers), 422)
            assert good(await served.ada.get("/sessions"))["items"] == []

    play(scenario())


def test_a_stream_that_cannot_be_is_refused_before_it_begins(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            refused(await served.ada.get("/agui", params={"run_id": "none"}), 404)
            refused(await served.ada.get("/agui", params={"run_id": "a#b"}), 404)
            refused(await served.ada.get("/agui", params={"after": -1}), 422)
            for given in ("x", "-1", "1.", ".1", "1.2.3", "9" * 16, "1e3"):
                headers = {"Last-Event-ID": given}
                refused(await served.ada.get("/agui", headers=headers), 422, "invalid_request")
            refused(await served.ada.post("/agui", json=asked(forwardedProps={"model": "none"})), 422)
            refused(await served.ada.post("/agui", json=asked(forwardedProps={"profile": "none"})), 404)
            assert good(await served.ada.get("/sessions"))["items"] == []

    play(scenario())


def test_a_position_of_another_database_is_no_reason_to_wait_for_ever(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            async with _reading(served, "GET", "/agui?after=9000000") as reader:
                assert (await reader.event() or {})["type"] == "STATE_SNAPSHOT"
                await served.ada.post("/agui", json=asked())
                assert (await reader.event() or {})["type"] == "RUN_STARTED"

    play(scenario())
