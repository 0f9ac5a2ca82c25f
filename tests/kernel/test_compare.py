"""Two runs side by side: what they share, and the first step at which they part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Run, tool
from artelier.errors import ModelRefusedCall, NotFound
from artelier.kernel import FixedPart, Prompt
from artelier.ports.model import messages_from
from artelier.testing import ScriptedModel
from tests.kernel.files import exported
from tests.kernel.stage import Code, ask, drive, echo, open_kernel, play, user


@tool(side_effect=False)
async def look(at: str) -> dict[str, str]:
    "Look."
    return {"seen": at}


@tool(side_effect=False)
async def gaze(at: str) -> dict[str, str]:
    "Gaze."
    return {"seen": at}


def compare_codes(tmp_path: Path, left: Code, right: Code, model: Any = None) -> dict[str, Any]:
    """The comparison of two runs of one kernel."""

    async def scenario() -> dict[str, Any]:
        with open_kernel(tmp_path, model or echo(), tools=[look, gaze]) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, left, "left")
            await drive(runs, right, "right")
            return dict(await runs.diff("left", "right"))

    return play(scenario())


async def plain(run: Run) -> str:
    text = await ask(run, "a")
    await run.step_tool("look", {"at": "moon"})
    return text


def test_equal_runs_have_no_divergence(tmp_path: Path) -> None:
    found = compare_codes(tmp_path, plain, plain)

    assert found["first_divergence"] is None
    assert found["equal_steps"] == 2
    assert found["shared"] == {"events": 0, "upto": None}
    assert found["a"]["status"] == found["b"]["status"] == "completed"


async def other_words(run: Run) -> str:
    await run.step_model(model="m", messages=[{"role": "system", "content": "be"}, user("b")])
    return "re: a"


async def other_arguments(run: Run) -> str:
    text = await ask(run, "a")
    await run.step_tool("look", {"at": "sun"})
    return text


async def other_tool(run: Run) -> str:
    text = await ask(run, "a")
    await run.step_tool("gaze", {"at": "moon"})
    return text


async def other_params(run: Run) -> str:
    return await ask(run, "a", temperature=0.5)


async def fewer(run: Run) -> str:
    return await ask(run, "a")


async def more(run: Run) -> str:
    text = await plain(run)
    await run.step("sum", lambda: 3)
    return text


async def other_kind(run: Run) -> str:
    text = await ask(run, "a")
    await run.step("sum", lambda: 3)
    return text


async def other_result(run: Run) -> str:
    await plain(run)
    return "something else"


@pytest.mark.parametrize(
    ("code", "key", "kind", "what", "section"),
    [
        (other_words, "1", "model", "request", "conversation, message 1"),
        (other_params, "1", "model", "request", "params"),
        (other_arguments, "2", "tool", "arguments", None),
        (other_tool, "2", "tool", "tool", None),
        (fewer, "2", "tool", "missing", None),
        (more, "3", "compute", "missing", None),
        (other_kind, "2", "tool", "kind", None),
        (other_result, None, "run", "result", None),
    ],
)
def test_the_first_step_that_differs_is_named_with_what_differs(
    tmp_path: Path, code: Code, key: str | None, kind: str, what: str, section: str | None
) -> None:
    found = compare_codes(tmp_path, plain, code)["first_divergence"]

    assert (found["key"], found["kind"], found["what"]) == (key, kind, what)
    assert found["section"] == section
    assert found["a"] != found["b"]


def test_another_reply_to_the_same_request_is_named(tmp_path: Path) -> None:
    model = ScriptedModel(["one", "two"])

    found = compare_codes(tmp_path, fewer, fewer, model)["first_divergence"]

    assert (found["key"], found["what"]) == ("1", "reply")
    assert '"one"' in found["a"]
    assert '"two"' in found["b"]
    assert found["at_a"]["run"] == "left"


def test_a_failure_against_a_reply_is_an_outcome(tmp_path: Path) -> None:
    model = ScriptedModel(["one", ModelRefusedCall("no")])

    found = compare_codes(tmp_path, fewer, fewer, model)

    assert found["first_divergence"]["what"] == "outcome"
    assert found["first_divergence"]["b"] == "failed (model_refused_call)"
    assert (found["a"]["status"], found["b"]["status"]) == ("completed", "failed")


def test_parallel_work_in_another_order_is_no_difference(tmp_path: Path) -> None:
    async def one_way(run: Run) -> Any:
        return [await ask(run.branch("x"), "a"), await ask(run.branch("y"), "b")]

    async def other_way(run: Run) -> Any:
        return [await ask(run.branch("y"), "b"), await ask(run.branch("x"), "a")][::-1]

    assert compare_codes(tmp_path, one_way, other_way)["first_divergence"] is None


def test_a_fork_parts_from_its_origin_where_its_model_changed(tmp_path: Path) -> None:
    models = {"m": echo(), "n": ScriptedModel(lambda request: "n")}

    async def code(run: Run) -> list[str]:
        return [await ask(run, text) for text in "abc"]

    async def scenario() -> None:
        with open_kernel(tmp_path, models) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            at = (await runs.steps("r"))[0]["completed_seq"]
            assert at is not None
            name = await runs.fork("r", at=at, with_={"model": "n"})
            twin = await runs.fork("r", at=at)
            deep = await runs.fork(name, at=1)

            pending = await runs.diff("r", name)
            assert pending["first_divergence"] is not None
            assert pending["first_divergence"]["what"] == "missing"
            assert pending["shared"] == {"events": at, "upto": {"run": "r", "seq": at}}

            for run in (name, twin, deep):
                await drive(runs, code, run)
            found = await runs.diff("r", name)
            assert found["first_divergence"] is not None
            assert found["first_divergence"]["key"] == "2"
            assert found["first_divergence"]["what"] == "model"
            assert found["shared"]["events"] == at
            assert (await runs.diff("r", twin))["first_divergence"] is None
            assert (await runs.diff("r", twin))["equal_steps"] == 2
            assert (await runs.diff(name, deep))["first_divergence"] is None
            assert (await runs.diff(name, deep))["shared"] == {
                "events": at + 1,
                "upto": {"run": name, "seq": 1},
            }
            assert (await runs.diff("r", "r"))["equal_steps"] == 0

    play(scenario())


def test_long_histories_are_read_in_pages(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        for number in range(700):
            await run.step("n", lambda number=number: number)

    async def longer(run: Run) -> Any:
        await code(run)
        await run.step("n", lambda: "the end")

    found = compare_codes(tmp_path, code, longer)

    assert found["equal_steps"] == 700
    assert found["first_divergence"]["key"] == "701"


def test_runs_of_other_tenants_are_not_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            await drive(kernel.for_tenant(), plain)
            with pytest.raises(NotFound):
                await kernel.for_tenant().diff("r", "nobody")
            with pytest.raises(NotFound):
                await kernel.for_tenant("other").diff("r", "r")

    play(scenario())


async def shorter_prompt(run: Run) -> str:
    return (await run.step_model(model="m", messages=[user("a"), user("b")])).text


async def longer_prompt(run: Run) -> str:
    return (await run.step_model(model="m", messages=[user("a"), user("b"), user("c")])).text


def test_a_prompt_that_ends_earlier_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    found = compare_codes(tmp_path, shorter_prompt, longer_prompt)["first_divergence"]

    assert (found["what"], found["section"]) == ("request", "conversation, message 3")
    assert (found["a"], found["b"]) == ("no message", "user: c")


def test_people_and_time_are_compared_like_steps(tmp_path: Path) -> None:
    """The same questions, answered otherwise: by a note, by a signal, by nobody, by a reconciler."""

    @tool(side_effect=True)
    async def send(to: str) -> None:
        "Send."
        raise ConnectionError("gone")

    async def asks(run: Run) -> Any:
        return (await run.approve("go?", {"n": 1})).note

    async def asks_otherwise(run: Run) -> Any:
        return (await run.approve("really?", {"n": 1})).note

    async def waits(run: Run) -> Any:
        return await run.wait_for("go")

    async def sends(run: Run) -> Any:
        return (await run.step_tool("send", {"to": "bob"})).is_error

    async def breaks(run: Run) -> Any:
        async def broken() -> None:
            raise NotFound("it is not there")

        return await run.step("broken", broken)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[send]) as kernel:
            runs = kernel.for_tenant()

            async def what(left: str, right: str) -> tuple[Any, Any, Any]:
                found = (await runs.diff(left, right))["first_divergence"] or {}
                return found.get("what"), found.get("a"), found.get("b")

            for name in ("a1", "a2", "a3"):
                await drive(runs, asks, name, on_wait="suspend")
            await drive(runs, asks_otherwise, "a4", on_wait="suspend")
            assert (await what("a1", "a4"))[0] == "arguments"
            await runs.approve("a2", note="fine")
            await runs.approve("a3", deny=True)
            assert await what("a1", "a2") == ("outcome", "open", "approve")
            assert await what("a2", "a3") == ("outcome", "approve", "deny")

            for name, data in (("w1", None), ("w2", 5)):
                await drive(runs, waits, name, on_wait="suspend")
                await runs.signal(name, "go", data)
                await drive(runs, waits, name)
            assert await what("w1", "w2") == ("result", "null", "5")

            for name in ("t1", "t2", "t3", "t4"):
                assert await drive(runs, sends, name) == "unknown_outcome"
            await runs.reconcile("t2", "1", succeeded=None)
            await runs.reconcile("t3", "1", failed="no")
            await runs.reconcile("t4", "1", retry=True)
            assert await what("t1", "t2") == ("outcome", "unknown (ConnectionError)", "completed")
            assert await what("t2", "t3") == ("outcome", "completed", "error")
            assert await what("t1", "t4") == ("outcome", "unknown (ConnectionError)", "open")

            await drive(runs, breaks, "b1")
            await drive(runs, breaks, "b2")
            await drive(runs, sends, "b3")
            assert (await what("b1", "b2"))[0] is None
            await runs.retry("b2")
            assert await what("b1", "b2") == ("outcome", "failed (not_found)", "open")

            await drive(runs, lambda run: run.step_tool("nothing", {}), "n1")
            await drive(runs, lambda run: run.step_tool("nobody", {}), "n2")
            assert (await what("n1", "n2"))[0] == "tool"

    play(scenario())


def test_equal_steps_with_another_end_differ_in_their_end(tmp_path: Path) -> None:
    async def gives_up(run: Run) -> None:
        await plain(run)
        run.fail("bored")

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            for name, code in (("done", plain), ("bored", gives_up)):
                async with runs.run(name) as run:
                    await code(run)
            found = (await runs.diff("done", "bored"))["first_divergence"]
            assert found is not None
            assert (found["key"], found["kind"], found["what"]) == (None, "run", "status")
            assert (found["a"], found["b"]) == ("completed", "failed")

    play(scenario())


def test_a_run_of_another_store_equals_the_same_run_of_this_one(tmp_path: Path) -> None:
    """Names of content differ with the key that names it; the content does not."""
    path = exported(tmp_path, other_words_and_tools, tools=[look, gaze])

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look, gaze]) as kernel:
            runs = kernel.for_tenant()
            await runs.import_(path)
            await drive(runs, other_words_and_tools, "mine")
            await drive(runs, other_words, "other")

            found = await runs.diff("r", "mine")
            assert (found["first_divergence"], found["equal_steps"]) == (None, 3)
            differs = (await runs.diff("r", "other"))["first_divergence"]
            assert differs is not None
            assert (differs["what"], differs["section"]) == ("request", "system, message 1")

    play(scenario())


async def other_words_and_tools(run: Run) -> str:
    await run.step_model(model="m", messages=[{"role": "system", "content": "do"}, user("b")])
    await run.step_tool("look", {"at": "moon"})
    return await run.step("sum", lambda: "3")


def test_a_text_that_is_attached_is_part_of_the_message_it_stands_on(tmp_path: Path) -> None:
    def code(text: str) -> Code:
        prompt = Prompt(
            parts=(
                FixedPart(tag="rules", messages=messages_from([user("be brief")])),
                FixedPart(tag="clock", text="it is noon", attach=True),
                FixedPart(tag="task", messages=messages_from([user(text)])),
            )
        )
        return lambda run: run.step_model(model="m", messages=prompt)

    found = compare_codes(tmp_path, code("a"), code("b"))["first_divergence"]

    assert found["section"] == "task, message 2"
    assert found["a"] == "user: a\n\nit is noon"
