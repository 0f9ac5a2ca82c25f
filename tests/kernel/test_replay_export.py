"""A replay runs the code of a run again over its record: nothing is called, nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, tool
from artelier.errors import ModelRefusedCall, NotFound, ReplayMismatch, RunEnded
from artelier.kernel.history.replay import RecordedTool
from artelier.ports.model import ToolSchema
from artelier.ports.tool import ToolPort
from artelier.testing import ScriptedModel
from tests.kernel.files import exported
from tests.kernel.sample import ACME, TOOLS, everything, kernels, model
from tests.kernel.stage import ask, drive, open_kernel, play, result_of, user


def test_a_replay_calls_nothing_writes_nothing_and_gives_the_result(tmp_path: Path) -> None:
    async def scenario() -> None:
        scripted = model()
        with kernels(tmp_path, model=scripted) as kernel:
            runs = kernel.for_tenant(ACME)
            await drive(runs, everything)
            root, calls = await kernel.store.root(), len(scripted.requests)

            found = await runs.replay("r", everything)

            assert found.result == await result_of(runs)
            assert (found.status, found.steps_replayed) == ("completed", 10)
            assert (found.model_calls, found.tool_calls) == (0, 0)
            assert len(scripted.requests) == calls
            assert await kernel.store.root() == root
            assert await kernel.store.query("SELECT count(*) FROM leases") == [(0,)]

    play(scenario())


def test_a_file_replays_without_models_tools_or_keys(tmp_path: Path) -> None:
    path = exported(tmp_path, everything, tools=TOOLS, model=model())

    found = play(Kernel.replay_file(path, everything))

    assert found.result["paid"] == {"paid": 3}
    assert found.steps_replayed == 10


async def _asks_more(run: Run) -> Any:
    await everything(run)
    return await ask(run, "more")


async def _asks_for_other_words(run: Run) -> Any:
    return await ask(run, "b")


async def _asks_nothing(run: Run) -> Any:
    return None


async def _asks_under_other_rules(run: Run) -> Any:
    conversation = run.conversation()
    conversation.append({"role": "system", "content": "be verbose"})
    conversation.append(user("a"))
    await run.step_model(model="m", messages=conversation, tools=["look"])


async def _ends_otherwise(run: Run) -> Any:
    await everything(run)
    return "something else"


async def _fails(run: Run) -> Any:
    await everything(run)
    raise ZeroDivisionError


async def _gives_up(run: Run) -> None:
    await everything(run)
    run.fail("bored")


async def _swallows_the_refusal(run: Run) -> Any:
    found = await everything(run)
    try:
        await run.step_tool("pay", {"amount": 4})
    except RunEnded:
        pass
    return found


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (_asks_more, RunEnded, "takes no new steps"),
        (_asks_for_other_words, ReplayMismatch, "asks for something else"),
        (_asks_under_other_rules, ReplayMismatch, "asks for something else"),
        (_asks_nothing, ReplayMismatch, "never asked for step 1,"),
        (_ends_otherwise, ReplayMismatch, "another result"),
        (_fails, ZeroDivisionError, "^$"),
        (_gives_up, ReplayMismatch, "ends otherwise"),
        (_swallows_the_refusal, RunEnded, "takes no new steps"),
    ],
)
def test_code_that_changed_is_told_where(
    tmp_path: Path, code: Any, error: type[BaseException], says: str
) -> None:
    path = exported(tmp_path, everything, tools=TOOLS, model=model())

    with pytest.raises(error, match=says):
        play(Kernel.replay_file(path, code))


def test_a_recorded_step_that_is_never_asked_for_is_named(tmp_path: Path) -> None:
    async def longer(run: Run) -> str:
        text = await ask(run, "a")
        await run.step("extra", lambda: 1, key="extra")
        return text

    path = exported(tmp_path, longer)

    with pytest.raises(ReplayMismatch, match="never asked for step extra"):
        play(Kernel.replay_file(path, lambda run: ask(run, "a")))


def test_a_failed_run_replays_to_the_same_failure(tmp_path: Path) -> None:
    async def code(run: Run) -> str:
        await run.step("fine", lambda: 1)
        return await ask(run, "a")

    path = exported(tmp_path, code, model=ScriptedModel([ModelRefusedCall("no")]))

    found = play(Kernel.replay_file(path, code))

    assert (found.status, found.reason) == ("failed", "model_refused_call")


def test_a_failure_of_code_that_is_not_ours_replays_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"

    async def code(run: Run) -> str:
        await run.step("fine", lambda: 1)
        raise LookupError("of its own")

    async def scenario() -> None:
        with kernels(tmp_path) as there:
            runs = there.for_tenant("acme")
            with pytest.raises(LookupError):
                async with runs.run("r") as run:
                    await code(run)
            await runs.export("r", path)

    play(scenario())
    found = play(Kernel.replay_file(path, code))
    assert (found.status, found.reason) == ("failed", "LookupError")


def test_a_run_that_waits_replays_up_to_where_it_stands(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        await ask(run, "a")
        return await run.approve("go on?")

    async def scenario() -> None:
        with kernels(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code, on_wait="suspend")
            with pytest.raises(RunEnded, match="is replayed"):
                await runs.replay("r", code)
            with pytest.raises(NotFound):
                await runs.replay("nobody", code)

    play(scenario())


def test_an_unknown_outcome_is_not_probed_by_a_replay(tmp_path: Path) -> None:
    asked: list[str] = []

    async def probe(key: str, arguments: dict[str, Any]) -> Any:
        asked.append(key)
        raise RuntimeError("no answer")

    @tool(side_effect=True, probe=probe)
    async def send() -> None:
        "Send."
        raise ConnectionError("gone")

    async def code(run: Run) -> Any:
        return (await run.step_tool("send", {})).value

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[send]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            before = len(asked)
            with pytest.raises(RunEnded):
                await runs.replay("r", code)
            assert len(asked) == before

    play(scenario())


def test_a_child_opened_by_a_replay_is_replayed_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernels(tmp_path) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> Any:
                async with runs.run("r::child", parent=run) as child:
                    child.finish(await ask(child, "below"))
                return await ask(run, "above")

            await drive(runs, code)
            root = await kernel.store.root()

            assert (await runs.replay("r", code)).result == "re: above"
            assert await kernel.store.root() == root

    play(scenario())


def test_a_replay_does_not_depend_on_the_windows_and_tools_of_this_installation(tmp_path: Path) -> None:
    """The size of a reply and the schemas of tools are read from the log, not from today's tables."""
    from artelier.tokens import Window

    async def code(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user("a")], tools=["look"])).text

    @tool(side_effect=False)
    async def look(at: str, closely: bool = False) -> dict[str, str]:
        "Look, or look closely."
        return {}

    async def scenario() -> None:
        with kernels(tmp_path) as kernel:
            await drive(kernel.for_tenant(), code)
        window = Window(context_tokens=9_000, max_output_tokens=17)
        with open_kernel(tmp_path / "there", tools=[look], windows={"m": window}) as kernel:
            assert (await kernel.for_tenant().replay("r", code)).result == "re: a"
            async with kernel.for_tenant().run("r") as run:
                assert await code(run) == "re: a"

    play(scenario())


def test_a_recorded_tool_cannot_run() -> None:
    schema = ToolSchema(name="pay", description="Pay.", parameters={})
    recorded: ToolPort = RecordedTool(schema)

    assert recorded.validate({"amount": 3}) == {"arguments": {"amount": 3}}
    with pytest.raises(AssertionError, match="a replay has called tool pay"):
        play(recorded.call({}, None))  # pyright: ignore[reportArgumentType] - it is never looked at
