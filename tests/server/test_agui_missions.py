"""AG-UI: a mission that a client drives with tools of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from artelier.app import Kernel
from tests.missions.mission_stage import FORK, Team, planned
from tests.missions.task_stage import write
from tests.processes import PATIENCE_S, WarmPython, killed_at_last
from tests.server.house import House, house
from tests.server.painting import PICKS
from tests.server.test_agui_agents import (
    AGUI_CLIENT,
    PICK,
    WEB,
    body,
    calls,
    gives,
    post,
    says,
    text_of,
    types,
)

ALONE = planned({"slug": "a"})
LAUNCHED = {"mission": True, "launch": True}
GOAL = "Paint the house in a colour that I like."
MISSION = "agui.t-1"


def asks(messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return body(messages, **{"forwardedProps": LAUNCHED, **more})


def painter(plan: Any = ALONE, **scripts: list[Any]) -> Team:
    return Team(plan, scripts=scripts or {"a": [PICKS, write("Out a")]})


async def shown(made: House) -> dict[str, Any]:
    return (await made.client.get(f"/api/v1/missions/{MISSION}")).json()


def test_a_task_calls_the_clients_tool_and_the_mission_goes_on_with_its_answer(tmp_path: Path) -> None:
    team = painter()

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            history = [says(GOAL)]
            first = await post(made.client, asks(history))
            [(call_id, name, arguments)] = calls(first)
            assert (call_id, name, arguments) == (
                f"{MISSION}/a#c1/tool/0", "pick_colour", {"kind": "warm"},
            )  # fmt: skip
            assert types(first)[-3:] == ["STEP_FINISHED", "SUBAGENT_FINISHED", "RUN_FINISHED"]
            assert first[-2].outcome.type == "suspended" and first[-1].outcome.type == "success"

            second = await post(made.client, asks([*history, gives(call_id, '{"colour": "red"}')]))
            assert "TOOL_CALL_RESULT" not in types(second)  # the client has said it itself
            assert types(second)[1:4] == ["STATE_SNAPSHOT", "SUBAGENT_STARTED", "STEP_STARTED"]
            assert text_of(second).startswith("# The letter of a")
            assert second[-1].result["mission"] == MISSION
            told = [message.text for request in team.requests for message in request.messages]
            assert any('"colour":"red"' in text.replace(" ", "") for text in told)
            assert (await shown(made))["status"] == "completed"

    asyncio.run(main())


def test_the_planner_is_told_of_the_clients_tools(tmp_path: Path) -> None:
    team = painter()

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            await post(made.client, asks([says(GOAL)]))

            assert "pick_colour: Let the person pick a colour." in team.requests[0].messages[-1].text
            agent = (await made.client.get("/api/v1/agents/agui.t-1%2Fby-a")).json()
            assert "pick_colour" in [one["name"] for one in agent["tools"]]

    asyncio.run(main())


def test_a_client_that_never_answers_leaves_the_task_parked_with_a_question(tmp_path: Path) -> None:
    team = painter()

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            await post(made.client, asks([says(GOAL)]))
            again = await post(made.client, asks([says(GOAL)]))  # a client that has lost its connection

            assert [name for _, name, _ in calls(again)] == ["pick_colour"]
            [asked] = (await shown(made))["approvals"]
            assert (asked["run_id"], asked["question"]) == (f"{MISSION}/a", "The client runs pick_colour.")
            task = (await made.client.get("/api/v1/tasks/agui.t-1%2Fa")).json()
            assert (task["status"], task["run_status"]) == ("active", "waiting_approval")
            assert len(team.requests) == 2

    asyncio.run(main())


def test_tasks_side_by_side_have_their_answers_whenever_they_come(tmp_path: Path) -> None:
    team = painter(FORK, a=[PICKS, write("Out a")], b=[PICKS, write("Out b")], end=[write("End")])

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            history: list[dict[str, Any]] = [says(GOAL)]
            known: dict[str, None] = {}
            for _ in range(6):
                events = await post(made.client, asks(history))
                known |= dict.fromkeys(id_ for id_, _, _ in calls(events))
                if text_of(events):
                    break
                given = {one.get("toolCallId") for one in history}
                history += [gives(id_, "red") for id_ in known if id_ not in given][:1]
            assert sorted(known) == [f"{MISSION}/a#c1/tool/0", f"{MISSION}/b#c1/tool/0"]
            assert text_of(events).startswith("# The letter of end")

    asyncio.run(main())


def test_an_answer_goes_in_once_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    team = painter()

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            history = [says(GOAL)]
            [(call_id, _, _)] = calls(await post(made.client, asks(history)))
            answered = asks([*history, gives(call_id, "red"), gives(call_id, "blue")])
            first = await post(made.client, answered)
            again = await post(made.client, answered)

            assert text_of(first) == text_of(again) != ""
            given = [event async for event in made.kernel.events() if event.kind == "approval.given"]
            assert len(given) == 1
            other = gives(f"{MISSION}/a#c9/tool/0", "red")
            refused = await made.client.post("/api/v1/agui", json=asks([*history, other]))
            assert refused.status_code == 404
            assert "waits for this answer" in refused.json()["error"]["message"]

    asyncio.run(main())


def test_an_error_of_the_client_is_told_to_the_task(tmp_path: Path) -> None:
    team = painter()

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            history = [says(GOAL)]
            [(call_id, _, _)] = calls(await post(made.client, asks(history)))
            await post(made.client, asks([*history, gives(call_id, "", error="no palette")]))

            assert any(
                "no palette" in message.text for request in team.requests for message in request.messages
            )

    asyncio.run(main())


def test_a_plan_that_nobody_has_launched_is_a_question(tmp_path: Path) -> None:
    team = painter()

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            asked = asks([says(GOAL)], forwardedProps={"mission": True})
            first = await post(made.client, asked)
            [question] = first[-1].outcome.interrupts
            assert (question.id, question.message) == (f"{MISSION}#launch", "Launch this plan?")

            launched = await made.client.post(f"/api/v1/god-mode/{MISSION}/launch", json={})
            assert launched.status_code == 200
            then = await post(made.client, asked)  # the same words: it is followed on
            assert [name for _, name, _ in calls(then)] == ["pick_colour"]

    asyncio.run(main())


def test_a_resume_launches_a_plan_or_ends_the_mission(tmp_path: Path) -> None:
    async def main(folder: Path, payload: dict[str, Any], status: str) -> list[Any]:
        folder.mkdir()
        async with house(folder, model=painter().model) as made:
            asked = asks([says(GOAL)], forwardedProps={"mission": True})
            first = await post(made.client, asked)
            [question] = first[-1].outcome.interrupts
            entry = {"interruptId": question.id, "status": status, "payload": payload}
            then = await post(made.client, {**asked, "resume": [entry]})
            again = await made.client.post("/api/v1/agui", json={**asked, "resume": [entry]})
            assert again.status_code == 409, again.text
            return then

    launched = asyncio.run(main(tmp_path / "yes", {"approved": True}, "resolved"))
    assert [name for _, name, _ in calls(launched)] == ["pick_colour"]
    for name, payload, status in (("no", {"approved": False}, "resolved"), ("off", {}, "cancelled")):
        ended = asyncio.run(main(tmp_path / name, payload, status))
        assert types(ended)[-1] in ("RUN_ERROR", "RUN_FINISHED") and calls(ended) == []


def test_a_thread_is_one_mission(tmp_path: Path) -> None:
    team = painter()

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            await post(made.client, asks([says(GOAL)]))
            other = asks([says("Paint the garden.")])
            refused = await made.client.post("/api/v1/agui", json=other)

            assert refused.status_code == 409
            assert "another goal" in refused.json()["error"]["message"]
            capped = asks([says(GOAL)], forwardedProps={**LAUNCHED, "budget_usd": "0.01"})
            refused = await made.client.post("/api/v1/agui", json=capped)
            assert "other limits" in refused.json()["error"]["message"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tools": [{**PICK, "name": "delegate_task"}]}, "two tools"),
        ({"tools": [{**PICK, "name": "read_artifact"}]}, "two tools"),
        ({"tools": [PICK, PICK]}, "two tools"),
        ({"tools": [{**PICK, "parameters": {"type": "string"}}]}, "cannot be used"),
        ({"threadId": "a/b"}, "chat"),
        ({"threadId": "x" * 60}, "mission id"),
        ({"messages": [gives("agui.t-1/a#c1/tool/0", "red")]}, "nobody has said anything"),
        ({"forwardedProps": {"mission": True, "agent": True}}, "mission"),
        ({"forwardedProps": {"mission": True, "budget_usd": "lots"}}, ""),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_planned(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    team = painter()

    async def main() -> None:
        async with house(tmp_path, model=team.model) as made:
            answer = await made.client.post("/api/v1/agui", json={**asks([says(GOAL)]), **change})

            assert answer.status_code in (404, 422), answer.text
            assert named in answer.json()["error"]["message"]
            assert team.requests == []

    asyncio.run(main())


# The official client, and a server that is killed


@contextmanager
def painting(folder: Path, part: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A server of its own process; its address and the headers of a signed-in client."""
    command = [sys.executable, "-m", "tests.server.painting", str(folder), part]
    process = WarmPython(command, text=True, stdout=PIPE, stderr=PIPE)
    with process, killed_at_last(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=PATIENCE_S)[1]
        yield process, json.loads(line)


def drive(place: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Let the official client talk to a server; the messages that it has in the end."""
    asked = {
        **place,
        "threadId": "t-1",
        "tools": [PICK],
        "answers": {"pick_colour": "red"},
        "forwardedProps": LAUNCHED,
        **more,
    }
    done = subprocess.run(
        ["node", str(AGUI_CLIENT), json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_official_client_drives_a_mission_through_two_deaths_of_its_server(tmp_path: Path) -> None:
    if not (WEB / "node_modules/@ag-ui/client").exists() or shutil.which("node") is None:
        told = "needs Node and the packages of the page (make setup)"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    goal = {"id": "u-1", "role": "user", "content": GOAL}
    with painting(tmp_path, "asks") as (process, place):
        asked = drive(place, messages=[goal], requests=1)
        process.kill()
        process.wait(PATIENCE_S)
    [call] = [call for message in asked for call in message.get("toolCalls") or ()]
    assert call["function"] == {"name": "pick_colour", "arguments": '{"kind":"warm"}'}
    answered = [*asked, {"id": "t-1", "role": "tool", "toolCallId": call["id"], "content": "red"}]

    with painting(tmp_path, "dies") as (process, place):  # the answer goes in; what comes of it is lost
        request = asks([goal, answered[-1]])
        with pytest.raises(httpx.HTTPError):
            httpx.post(place["url"], json=request, headers=place["headers"], timeout=PATIENCE_S)
        process.wait(PATIENCE_S)

    with painting(tmp_path, "ends") as (process, place):  # the client sends it again
        messages = drive(place, messages=answered)
        process.kill()
        process.wait(PATIENCE_S)
    assert [one["role"] for one in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[-1]["content"].startswith("# The letter of a")

    async def main() -> None:
        with Kernel.open(tmp_path / "state.db", environ={}) as kernel:
            kinds = [event.kind async for event in kernel.events()]
            assert kinds.count("approval.given") == kinds.count("tool.completed") == 1
            assert (await kernel.for_tenant().mission(MISSION))["status"] == "completed"
            assert kernel.verify().ok

    asyncio.run(main())
