"""Steps are found again by key: ordinals, explicit keys, branches, gathers, and children."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Run
from artelier.errors import AmbiguousStepKey, InvalidRequest
from artelier.testing import ScriptedModel
from tests.kernel.stage import GateModel, ask, drive, echo, kinds, open_kernel, play, result_of


def test_two_identical_calls_are_two_steps(tmp_path: Path) -> None:
    model = ScriptedModel(["first", "second"])

    async def code(run: Run) -> list[str]:
        return [await ask(run, "same"), await ask(run, "same")]

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["first", "second"]
            assert [step["key"] for step in await runs.steps("r")] == ["1", "2"]

    play(scenario())
    model.assert_done()


def test_implicit_keys_beside_a_running_step_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        found = await asyncio.gather(ask(run, "a"), ask(run, "b"), return_exceptions=True)
        assert found[0] == "re: a"
        assert isinstance(found[1], AmbiguousStepKey)
        assert "run.gather" in str(found[1])
        return await ask(run, "c")

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert [step["key"] for step in await runs.steps("r")] == ["1", "2"]

    play(scenario())


def test_explicit_keys_and_branches_may_run_beside_each_other(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        left, right = run.branch("left"), run.branch("right")
        return await asyncio.gather(
            ask(run, "a", key="one"),
            ask(run, "b", key="two"),
            ask(left, "c"),
            ask(right, "d"),
            ask(left.branch("deep"), "e"),
        )

    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            keys = {step["key"] for step in await runs.steps("r")}
            assert keys == {"one", "two", "left/1", "right/1", "left/deep/1"}
            assert await result_of(runs) == ["re: a", "re: b", "re: c", "re: d", "re: e"]

            assert await drive(runs, code) == "completed"
            assert len(model.requests) == 5

    play(scenario())


async def _gathered(run: Run) -> Any:
    async def pair(name: str) -> list[str]:
        return [await ask(run, f"{name}1"), await ask(run, f"{name}2")]

    async def called(branch: Run) -> list[Any]:
        inner = await branch.gather(ask(branch, "n0"), lambda deep: ask(deep, "n1"))
        return [*inner, await ask(branch, "after")]

    return await run.gather(pair("a"), called, pair("b"))


def test_gather_numbers_branches_by_position_nested_and_in_both_forms(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _gathered) == "completed"
            keys = {step["key"] for step in await runs.steps("r")}
            assert keys == {"1/0/1", "1/0/2", "1/1/1/0/1", "1/1/1/1/1", "1/1/2", "1/2/1", "1/2/2"}
            expected = [["re: a1", "re: a2"], ["re: n0", "re: n1", "re: after"], ["re: b1", "re: b2"]]
            assert await result_of(runs) == expected

            assert await drive(runs, _gathered) == "completed"
            assert len(model.requests) == 7

    play(scenario())


def test_gather_lets_all_branches_end_before_it_raises_the_first_by_position(tmp_path: Path) -> None:
    ended: list[str] = []

    async def fails(run: Run, text: str) -> None:
        await ask(run, text)
        ended.append(text)
        raise InvalidRequest(text)

    async def code(run: Run) -> None:
        async def slow(branch: Run) -> None:
            for number in range(5):
                await ask(branch, f"slow {number}")
            ended.append("slow")

        await run.gather(slow, lambda b: fails(b, "x"), lambda b: fails(b, "y"))

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            with pytest.raises(InvalidRequest, match=r"^x$"):
                async with kernel.run("r") as run:
                    await code(run)

    play(scenario())
    assert sorted(ended) == ["slow", "x", "y"]


def test_gather_bounds_how_many_branches_are_at_work(tmp_path: Path) -> None:
    at_work = most = 0

    async def one(branch: Run) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await ask(branch, "x")
        at_work -= 1

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            async with kernel.run("r") as run:
                await run.gather(*[one] * 9, limit=3)

    play(scenario())
    assert most == 3


def test_a_child_run_inside_a_gather_has_keys_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()

            def child(name: str) -> Any:
                async def one(branch: Run) -> list[str]:
                    before = await ask(branch, "before")
                    async with runs.run(name, parent=branch) as inner:
                        inside = await ask(inner, "inside")
                        inner.finish([inside, await ask(branch, "beside")])
                    return [before, inside]

                return one

            async with runs.run("r") as run:
                found = await run.gather(child("x"), child("y"))
            assert found == [["re: before", "re: inside"]] * 2
            for name in ("x", "y"):
                assert [step["key"] for step in await runs.steps(name)] == ["1"]
                assert await result_of(runs, name) == ["re: inside", "re: beside"]
            keys = {step["key"] for step in await runs.steps("r")}
            assert keys == {"1/0/1", "1/0/2", "1/1/1", "1/1/2"}
            tree = await runs.tree("r")
            assert [item["id"] for item in tree["children"]] == ["x", "y"]

    play(scenario())


def test_a_key_used_twice_is_refused_before_anything_happens_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> None:
                await ask(run, "a", key="x")
                await ask(run, "b", key="x")

            assert await drive(runs, code) == "failed: step_conflict"
            assert len(model.requests) == 1
            assert (await kinds(kernel))[-1] == "run.failed"

            async def numbered(run: Run) -> None:
                await ask(run, "a")
                await ask(run, "b", key="1")

            assert await drive(runs, numbered, "s") == "failed: step_conflict"
            # The reply before it is kept: only the second step is refused.
            assert (await runs.steps("s"))[0]["status"] == "completed"

    play(scenario())


@pytest.mark.parametrize("key", ["", "x" * 300, "a\ud800", 7])
def test_a_key_that_cannot_be_stored_is_refused(tmp_path: Path, key: Any) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            with pytest.raises(InvalidRequest, match="key"):
                async with kernel.run("r") as run:
                    await ask(run, "a", key=key)

    play(scenario())


def test_branches_that_complete_in_another_order_on_resume_get_their_own_answers(tmp_path: Path) -> None:
    """The same as hole 1, with coroutines that were half done when the process went away."""

    async def code(run: Run) -> Any:
        async def one(name: str) -> list[str]:
            return [await ask(run, f"{name}1"), await ask(run, f"{name}2")]

        return await run.gather(one("a"), one("b"))

    async def scenario() -> None:
        first, second = GateModel(), GateModel()
        with open_kernel(tmp_path, first) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            await first.asked("a1")
            await first.asked("b1")
            first.answer("b1", "b one")
            await first.asked("b2")
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        with open_kernel(tmp_path, second) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            await second.asked("b2")
            second.answer("b2", "b two")
            second.answer("a1", "a one")
            second.answer("a2", "a two")
            assert await work == "completed"
            assert await result_of(runs) == [["a one", "a two"], ["b one", "b two"]]
            assert sorted(request.messages[-1].text for request in second.requests) == ["a1", "a2", "b2"]

    play(scenario())


def test_work_that_was_handed_over_and_never_begun_is_closed(tmp_path: Path) -> None:
    """Else Python warns that a coroutine was never awaited, and warnings are errors here."""

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            async with kernel.run("r") as run:
                busy = asyncio.create_task(ask(run, "a"))
                await asyncio.sleep(0)
                with pytest.raises(AmbiguousStepKey):
                    await run.gather(ask(run, "b"), ask(run, "c"))
                await busy

                waits = asyncio.create_task(run.gather(run.sleep(60), run.sleep(60), limit=1))
                await asyncio.sleep(0.02)
                waits.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waits

    play(scenario())
