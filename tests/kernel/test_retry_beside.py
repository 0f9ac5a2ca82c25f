"""Retry of a run whose code failed beside other steps: what was cancelled because of that is asked again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Price, Run, ToolContext, tool
from artelier.ports.tool import ToolPort
from tests.kernel.stage import ask, drive, kinds, last, open_kernel, play, result_of, until, user

KINDS = ["put", "look", "model", "stream", "compute", "sleep", "signal", "approval", "consult"]


class Stage:
    """A model that fails to answer `q` at first, and steps that take until the test lets them end."""

    price = Price()

    def __init__(self, kind: str, style: str) -> None:
        self.kind, self.style = kind, style
        self.fails = True
        self.done: list[str] = []
        self.at_work = asyncio.Event()
        self.lets_go = asyncio.Event()

    async def _work(self, what: str) -> str:
        self.done.append(what)
        self.at_work.set()
        await self.lets_go.wait()
        return what

    async def complete(self, request: ModelRequest) -> ModelReply:
        if last(request) == "slow":
            return ModelReply(text=await self._work("slow"))
        await self.at_work.wait()
        if self.fails:
            raise ZeroDivisionError("the model is broken")
        return ModelReply(text="re: q")

    def tools(self) -> list[ToolPort]:
        @tool(side_effect=True, idempotent=True)
        async def put(ctx: ToolContext) -> str:
            "Put."
            return await self._work(f"put {ctx.idempotency_key}")

        @tool(side_effect=False)
        async def look() -> str:
            "Look."
            return await self._work("look")

        @tool(side_effect=False)
        async def consult(ctx: ToolContext) -> str:
            "Ask a person."
            self.at_work.set()
            return (await ctx.ask("may I")).decision

        return [put, look, consult]

    async def other(self, run: Run) -> str:
        if self.kind in ("put", "look", "consult"):
            return str((await run.step_tool(self.kind, {}, key="o")).value)
        if self.kind == "model":
            return await ask(run, "slow", key="o")
        if self.kind == "stream":
            pieces = run.stream_model(model="m", messages=[user("slow")], key="o")
            return [piece.text async for piece in pieces][-1]
        if self.kind == "compute":
            return await run.step("c", lambda: self._work("compute"), key="o")
        self.at_work.set()
        if self.kind == "signal":
            return str(await run.wait_for("go", key="o"))
        if self.kind == "approval":
            return (await run.approve("may I", key="o")).decision
        await run.sleep(0.2, key="o")
        return "slept"

    async def code(self, run: Run) -> Any:
        if self.style == "gather":
            return list(await asyncio.gather(self.other(run), ask(run, "q", key="q")))
        async with asyncio.TaskGroup() as group:
            other = group.create_task(self.other(run))
            asked = group.create_task(ask(run, "q", key="q"))
        return [other.result(), asked.result()]

    async def fail(self, kernel: Kernel) -> None:
        """Have the run fail beside the other step, which its code cancels."""
        with pytest.raises((ZeroDivisionError, ExceptionGroup)):
            await drive(kernel.for_tenant(), self.code)
        assert "step.cancelled" in await kinds(kernel)
        self.at_work.clear()

    async def go_on(self, kernel: Kernel) -> str:
        """Drive the run that was reopened, and let the other step end; return how it went."""
        runs = kernel.for_tenant()
        driven = asyncio.ensure_future(drive(runs, self.code))
        await self.at_work.wait()
        self.lets_go.set()
        if self.kind == "signal":
            await runs.signal("r", "go", "gone")
        if self.kind in ("approval", "consult"):

            async def is_asked() -> bool:
                return bool(await runs.approvals("r"))

            await until(is_asked)
            await runs.approve("r")
        return await driven


WANTED = {"sleep": "slept", "signal": "gone", "approval": "approve", "consult": "approve", "look": "look"}
WANTED |= {"model": "slow", "stream": "slow", "compute": "compute"}


async def _check(kernel: Kernel, stage: Stage) -> None:
    """The run has ended well, and replays just so, without doing anything."""
    runs, done = kernel.for_tenant(), list(stage.done)
    result = await result_of(runs)
    other, asked = result
    assert asked == "re: q"
    assert other == (stage.done[-1] if stage.kind == "put" else WANTED[stage.kind])
    assert len(set(done)) <= 1, "an idempotent call keeps its key"
    replayed = await runs.replay("r", stage.code)
    assert (replayed.result, replayed.tool_calls, replayed.model_calls) == (result, 0, 0)
    assert stage.done == done
    assert kernel.verify().ok


@pytest.mark.parametrize("style", ["gather", "tasks"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_beside_the_failed_one_is_asked_again(tmp_path: Path, kind: str, style: str) -> None:
    async def scenario() -> None:
        stage = Stage(kind, style)
        with open_kernel(tmp_path, stage, tools=stage.tools()) as kernel:
            await stage.fail(kernel)
            stage.fails = False
            await kernel.for_tenant().retry("r")
            assert await stage.go_on(kernel) == "completed"
            await _check(kernel, stage)
            await kernel.for_tenant().export("r", tmp_path / "r.artelier")
        with open_kernel(tmp_path / "elsewhere", stage, tools=stage.tools()) as kernel:
            await kernel.for_tenant().import_(tmp_path / "r.artelier")
            await _check(kernel, stage)

    play(scenario(), within_s=10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_retry_that_fails_again_can_be_retried(tmp_path: Path, kind: str) -> None:
    async def scenario() -> None:
        stage = Stage(kind, "gather")
        with open_kernel(tmp_path, stage, tools=stage.tools()) as kernel:
            for _ in range(3):
                await stage.fail(kernel)
                await kernel.for_tenant().retry("r")
            stage.fails = False
            assert await stage.go_on(kernel) == "completed"
            await _check(kernel, stage)

    play(scenario(), within_s=10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_has_failed_of_an_earlier_retry_goes_on(tmp_path: Path, kind: str) -> None:
    """As earlier versions left it: reopened, and failed because its code did not cancel the step again."""

    async def mismatch(run: Run) -> None:
        run.fail("replay_mismatch")

    async def scenario() -> None:
        stage = Stage(kind, "tasks")
        with open_kernel(tmp_path, stage, tools=stage.tools()) as kernel:
            await stage.fail(kernel)
            stage.fails = False
            await kernel.for_tenant().retry("r")
            async with kernel.for_tenant().run("r") as run:
                await mismatch(run)
            await kernel.for_tenant().retry("r")
            assert await stage.go_on(kernel) == "completed"
            await _check(kernel, stage)

    play(scenario(), within_s=10)


def test_what_the_code_cut_off_before_the_failure_stays_cut_off(tmp_path: Path) -> None:
    """The code has been told that it was too late, and has acted on that."""

    async def scenario() -> None:
        stage = Stage("put", "")

        async def code(run: Run) -> Any:
            putting = asyncio.ensure_future(stage.other(run))
            await stage.at_work.wait()
            putting.cancel()
            await asyncio.wait((putting,))
            return [putting.cancelled(), await ask(run, "q", key="q")]

        with open_kernel(tmp_path, stage, tools=stage.tools()) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(ZeroDivisionError):
                await drive(runs, code)
            stage.fails = False
            await runs.retry("r")
            assert await drive(runs, code) == "completed"
            assert (await runs.replay("r", code)).result == await result_of(runs) == [True, "re: q"]
            assert len(stage.done) == 1

    play(scenario(), within_s=10)
