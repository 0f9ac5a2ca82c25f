"""Every drive of a run ends honestly: with a result, a reason, or a status from which it can go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Limits, Run, RunStopped, RunSuspended, Tenant
from artelier.errors import InvalidRequest
from artelier.kernel import events as ev
from artelier.log import Draft, Stream, StreamAppend
from tests.kernel.stage import ask, drive, echo, kinds, open_kernel, play, result_of


def test_a_result_is_json_or_something_that_dumps_itself(tmp_path: Path) -> None:
    class Report:
        def model_dump(self, *, mode: str) -> dict[str, Any]:
            return {"title": "T", "mode": mode}

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            results: list[tuple[Any, Any]] = [
                (None, None),
                (0, 0),
                ({"a": [1, None]}, {"a": [1, None]}),
                (Report(), {"title": "T", "mode": "json"}),
            ]
            for number, (given, stored) in enumerate(results):
                async with runs.run(f"r{number}") as run:
                    run.finish("first")
                    run.finish(given)
                assert await result_of(runs, f"r{number}") == stored
            async with runs.run("none"):
                pass
            assert await result_of(runs, "none") is None
            for bad in (object(), "a\ud800", {1j: 2}):
                with pytest.raises(InvalidRequest, match="JSON"):
                    async with runs.run("bad") as run:
                        run.finish(bad)
                await runs.retry("bad")

    play(scenario())


def test_a_run_may_end_as_failed_for_a_reason_of_its_own_and_be_retried(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            async with runs.run("r") as run:
                run.fail("max_iterations", "no answer after 3 cycles", result={"best": 1})
            shown = await runs.show("r")
            assert (shown["status"], shown["reason"]) == ("failed", "max_iterations")
            assert (shown["message"], shown["result"]) == ("no answer after 3 cycles", {"best": 1})
            assert (shown["ended_us"] or 0) >= shown["started_us"]
            await runs.retry("r")
            assert await drive(runs, lambda run: ask(run, "x")) == "completed"
            shown = await runs.show("r")
            assert (shown["reason"], shown["message"], shown["result"]) == ("", None, "re: x")

    play(scenario())


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (InvalidRequest("no"), "failed", "invalid_request"),
        (ZeroDivisionError("by zero"), "failed", "ZeroDivisionError"),
        (OSError("no such file: caf\udce9"), "failed", "OSError"),
        (GeneratorExit(), "pending", "interrupted"),
        (RunSuspended("r", status="waiting", reason="rain"), "waiting", "rain"),
        (RunSuspended("child", status="waiting_approval"), "waiting_approval", "child"),
        (RunStopped("child"), "failed", "child_cancelled"),
    ],
)
def test_an_exception_that_leaves_the_block_says_how_the_run_stands(
    tmp_path: Path, error: BaseException, status: str, reason: str
) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(type(error)):
                async with runs.run("r") as run:
                    await ask(run, "x")
                    raise error
            shown = await runs.show("r")
            assert (shown["status"], shown["reason"]) == (status, reason)
            if status == "failed":
                assert shown["message"].isprintable()
                await runs.retry("r")
            assert await kernel.store.query("SELECT count(*) FROM leases") == [(0,)]
            assert await drive(runs, lambda run: ask(run, "x")) == "completed"

    play(scenario())


def test_a_keyboard_interrupt_leaves_the_run_pending(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            opened = runs.run("r")
            run = await opened.__aenter__()
            await ask(run, "x")
            interrupt = KeyboardInterrupt()
            await opened.__aexit__(KeyboardInterrupt, interrupt, None)
            assert (await runs.show("r"))["status"] == "pending"
            assert await drive(runs, lambda run: ask(run, "x")) == "completed"

    play(scenario())


def test_a_parent_waits_with_its_child_and_goes_on_with_it(tmp_path: Path) -> None:
    async def code(runs: Any, run: Run) -> Any:
        before = await ask(run, "before")
        async with runs.run("child", parent=run, on_wait="suspend") as child:
            answer = await child.approve("may I?")
            child.finish(answer.note)
        return [before, answer.note, await ask(run, "after")]

    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            for _ in range(2):
                assert await drive(runs, lambda run: code(runs, run)) == "waiting_approval"
            shown = await runs.show("r")
            assert (shown["status"], shown["reason"]) == ("waiting_approval", "child")
            await runs.approve("child", note="yes")
            assert await drive(runs, lambda run: code(runs, run)) == "completed"
            assert await result_of(runs) == ["re: before", "yes", "re: after"]
            assert len(model.requests) == 2
            assert await drive(runs, lambda run: code(runs, run)) == "completed"

    play(scenario())


def test_a_run_whose_child_is_paused_waits_for_it(tmp_path: Path) -> None:
    """Nobody has paused the run itself, so nobody need resume it: it goes on when its child does."""
    told: list[str] = []

    async def code(runs: Any, run: Run) -> Any:
        async with runs.run("child", parent=run, on_wait="suspend") as child:
            said = [await ask(child, "a")]
            if not told:
                told.append("pause")
                await runs.pause("child", by="user:eve")
            said.append(await ask(child, "b"))
            child.finish(said)
        return said

    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, lambda run: code(runs, run)) == "paused"  # the child is
            shown = await runs.show("r")
            assert (shown["status"], shown["reason"]) == ("waiting", "child")
            assert (await runs.show("child"))["status"] == "paused"

            await runs.resume("child")

            assert await drive(runs, lambda run: code(runs, run)) == "completed"
            assert await result_of(runs) == ["re: a", "re: b"]
            assert len(model.requests) == 2

    play(scenario())


def test_a_child_that_fails_fails_its_parent_only_if_nobody_catches_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()

            async def failing(parent: Run, name: str) -> None:
                async with runs.run(name, parent=parent):
                    raise ZeroDivisionError("child")

            async with runs.run("r") as run:
                with pytest.raises(ZeroDivisionError):
                    await failing(run, "c1")
                run.finish("fine")
            assert (await runs.show("r"))["status"] == "completed"
            with pytest.raises(ZeroDivisionError):
                async with runs.run("s") as run:
                    await failing(run, "c2")
            for name in ("s", "c1", "c2"):
                assert (await runs.show(name))["status"] == "failed"

    play(scenario())


def test_lists_of_runs_are_paged_and_filtered(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            for number in range(7):
                async with runs.run(f"r{number}") as run:
                    if number % 3 == 0:
                        run.fail("stuck")
            found: list[str] = []
            after, pages = 0, 0
            while after is not None:
                page = await runs.runs(after=after, limit=3)
                found += [item["id"] for item in page["items"]]
                after, pages = page["next"], pages + 1
            assert (found, pages) == ([f"r{number}" for number in range(7)], 3)
            failed = await runs.runs(status="failed")
            assert [item["id"] for item in failed["items"]] == ["r0", "r3", "r6"]
            assert await kinds(kernel, "r0") == ["run.started", "run.failed"]

    play(scenario())


@pytest.mark.parametrize(
    "opening",
    [
        {"limits": Limits(wall_s=float("nan"))},
        {"limits": Limits(wall_s=-1)},
        {"limits": Limits(tokens="x")},  # pyright: ignore[reportArgumentType]
        {"limits": Limits(tokens=2**70)},
        {"limits": Limits(steps=-1)},
        {"limits": Limits(usd="abc")},
        {"grants": "tools:*"},
        {"grants": [1]},
        {"goal": object()},
        {"on_wait": "sleep"},
        {"replay": "loose"},
    ],
)
def test_an_opening_that_makes_no_sense_is_refused_before_a_run_begins(
    tmp_path: Path, opening: dict[str, Any]
) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(InvalidRequest):
                async with runs.run("r", **opening):
                    pass
            assert (await runs.runs())["items"] == []
            for grants in ("tools:*", [None], {1}):
                bad = Tenant("t", grants=grants)  # pyright: ignore[reportArgumentType]
                with pytest.raises(InvalidRequest, match="grant"):
                    await kernel.for_tenant(bad).state()
            assert "t" not in {tenant["id"] for tenant in await kernel.tenants.list()}

    play(scenario())


def test_a_run_whose_last_notes_are_refused_has_not_completed(tmp_path: Path) -> None:
    """The notes are a batch of their own by then: the end must not stand in the log without them."""

    async def code(run: Run) -> str:
        core = run.core
        other = Stream("default", "main", "run:other")
        draft = Draft(ev.RunStarted(), 0, "somebody")
        core.writer.note_aside(StreamAppend(other, [draft], expected_seq=7), [])
        ref, blobs = core.keep_json("note")
        core.writer.note(ev.StepCompleted(key="note", result=ref), blobs)
        await asyncio.sleep(0)  # the notes are on their way
        return "done"

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            assert await drive(kernel.for_tenant(), code) == "failed: sequence_conflict"
            assert "run.completed" not in await kinds(kernel)

    play(scenario())
