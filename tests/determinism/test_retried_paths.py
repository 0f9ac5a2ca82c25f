"""Retries of runs whose code took steps behind the failure: that path is past, and the good one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Run
from tests.determinism.harness import ACME, Outside, drive, live_through_retry, opened, virtually
from tests.kernel.stage import user

Ask = Callable[[], Awaitable[str]]
"""The call that fails, and does not when the run is retried."""


async def _put(run: Run, what: str, *, key: str | None = None) -> str:
    return str((await run.step_tool("put", {"what": what}, key=key)).value)


async def _say(run: Run, text: str) -> str:
    return (await run.step_model(model="m", messages=[user(text)])).text


async def undo_with_a_key(run: Run, ask: Ask) -> str:
    try:
        await ask()
    except Exception:
        await _put(run, "undo", key="undo")
        raise
    return await _say(run, "more")


async def undo_without_a_key(run: Run, ask: Ask) -> str:
    """What the good path asks for second has the number of the undoing."""
    try:
        await ask()
    except Exception:
        await _put(run, "undo")
        raise
    return await _say(run, "more")


async def apologize_without_a_key(run: Run, ask: Ask) -> str:
    """Another question to the model has the number of the apology."""
    try:
        await ask()
    except Exception:
        await _say(run, "sorry")
        raise
    return await _say(run, "more")


async def stream_where_it_was_undone(run: Run, ask: Ask) -> str:
    try:
        await ask()
    except Exception:
        async for _ in run.stream_model(model="m", messages=[user("sorry")]):
            pass
        raise
    got = [item async for item in run.stream_model(model="m", messages=[user("more")])]
    return str(len(got) > 1)


async def race_where_it_was_undone(run: Run, ask: Ask) -> str:
    async def quick(branch: Run) -> str:
        return await _say(branch, "quick")

    async def slow(branch: Run) -> str:
        await branch.sleep(60)
        return "slow"

    try:
        await ask()
    except Exception:
        await _put(run, "undo")
        raise
    return str(await run.first(slow, quick))


async def limit_where_it_was_undone(run: Run, ask: Ask) -> str:
    try:
        await ask()
    except Exception:
        await _put(run, "undo")
        raise
    async with run.timeout(60):
        return await _say(run, "more")


async def cleaning_up_that_fails(run: Run, ask: Ask) -> str:
    """The failure that the retry is for came before."""

    def refuse() -> None:
        raise ValueError("no")

    try:
        return await ask()
    finally:
        try:
            await run.step("tidy", refuse, key="tidy")
        except ValueError:
            await _put(run, "by hand", key="hand")


async def a_failure_of_another_name(run: Run, ask: Ask) -> str:
    try:
        return await ask()
    except ZeroDivisionError as error:
        try:
            await run.step_model(model="m", messages=[user("!note")], key="note")
        except ZeroDivisionError:
            await _put(run, "note", key="noted")
        raise RuntimeError("not today") from error


async def report_how_it_ended(run: Run, ask: Ask) -> str:
    status = "ok"
    try:
        return await ask()
    except Exception:
        status = "failed"
        raise
    finally:
        await _put(run, status, key="report")


async def report_by_a_computation(run: Run, ask: Ask) -> str:
    name = "as it should"
    try:
        return await ask()
    except Exception:
        name = "badly"
        raise
    finally:
        await run.step(name, lambda: name, key="report")


async def numbers_in_a_branch(run: Run, ask: Ask) -> str:
    async def work(branch: Run) -> str:
        try:
            await branch.sleep(3)
        except asyncio.CancelledError:
            await _put(branch, "abort")
            raise
        return await _say(branch, "more")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(work(run.branch("w")))
        group.create_task(ask())  # pyright: ignore[reportArgumentType]
    return task.result()


async def siblings_that_go_on(run: Run, ask: Ask) -> str:
    async def work() -> str:
        await run.sleep(0.1, key="s")
        await run.sleep(1.5, key="t")
        return await _put(run, "w", key="w")

    found = await asyncio.gather(work(), ask(), return_exceptions=True)
    if errors := [one for one in found if isinstance(one, Exception)]:
        await _put(run, "report", key="report")
        raise errors[0]
    return f"{found} {await _say(run, 'more')}"


async def cleaning_up_behind_a_timeout_is_cut_off(run: Run, ask: Ask) -> str:
    async def work() -> str:
        try:
            async with run.timeout(0.3, key="limit"):
                try:
                    await run.sleep(60, key="work")
                finally:
                    await run.sleep(30, key="clean")
        except TimeoutError:
            return "too long"
        return "in time"

    async with asyncio.TaskGroup() as group:
        task = group.create_task(work())
        group.create_task(ask())  # pyright: ignore[reportArgumentType]
    return task.result()


async def a_timeout_of_the_cleaning_up(run: Run, ask: Ask) -> str:
    """Its time has passed with the failure; the good path has one of its own."""

    async def work() -> str:
        try:
            await run.sleep(20, key="work")
        finally:
            async with run.timeout(5, key="limit"):
                await run.sleep(1, key="clean")
                await run.sleep(2, key="tidy")
        return "worked"

    async with asyncio.TaskGroup() as group:
        task = group.create_task(work())
        group.create_task(ask())  # pyright: ignore[reportArgumentType]
    return task.result()


PATHS = (
    undo_with_a_key,
    undo_without_a_key,
    apologize_without_a_key,
    stream_where_it_was_undone,
    race_where_it_was_undone,
    limit_where_it_was_undone,
    cleaning_up_that_fails,
    a_failure_of_another_name,
    report_how_it_ended,
    report_by_a_computation,
    numbers_in_a_branch,
    siblings_that_go_on,
    cleaning_up_behind_a_timeout_is_cut_off,
    a_timeout_of_the_cleaning_up,
)


def _program(path: Callable[[Run, Ask], Awaitable[str]], *, fails: bool) -> Any:
    async def code(run: Run, _: Outside) -> Any:
        async def ask() -> str:
            await run.sleep(1, key="z")
            text = "!q" if fails else "q"
            return (await run.step_model(model="m", messages=[user(text)], key="q")).text

        return await path(run, ask)

    return code


@pytest.mark.parametrize("path", PATHS)
def test_what_code_did_behind_a_failure_is_past_when_it_is_retried(
    tmp_path: Path, path: Callable[[Run, Ask], Awaitable[str]]
) -> None:
    """It was missed in the replay ("never asked for"), or held against what the good path asked for."""
    live_through_retry(tmp_path, _program(path, fails=True), _program(path, fails=False), path.__name__)


@pytest.mark.parametrize(
    "path, calls",
    [
        (undo_with_a_key, ["tool undo"]),
        (report_how_it_ended, ["tool failed", "tool ok"]),
        (siblings_that_go_on, ["tool w", "tool report"]),
    ],
)
def test_an_equal_call_gives_what_it_gave_and_another_one_is_made(
    tmp_path: Path, path: Callable[[Run, Ask], Awaitable[str]], calls: list[str]
) -> None:
    async def scenario(loop: Any) -> None:
        outside = Outside("calls")
        with opened(tmp_path / "s.db", loop, outside) as kernel:
            await drive(kernel, _program(path, fails=True), outside)
            await kernel.for_tenant(ACME).retry("r")
            ended = await drive(kernel, _program(path, fails=False), outside)
            assert ended.status == "completed"
        assert [call for call in outside.calls if call.startswith("tool")] == calls

    virtually(scenario)


@pytest.mark.parametrize("path", PATHS)
def test_a_run_that_fails_twice_is_retried_twice(
    tmp_path: Path, path: Callable[[Run, Ask], Awaitable[str]]
) -> None:
    async def scenario(loop: Any) -> None:
        outside = Outside("twice")
        with opened(tmp_path / "s.db", loop, outside) as kernel:
            for _ in range(2):
                failed = await drive(kernel, _program(path, fails=True), outside)
                assert failed.status.startswith("failed") and "mismatch" not in failed.status
                await kernel.for_tenant(ACME).retry("r")
            ended = await drive(kernel, _program(path, fails=False), outside)
            assert ended.status == "completed"

            async def again(run: Run) -> Any:
                return await _program(path, fails=False)(run, outside)

            calls = list(outside.calls)
            assert (await kernel.for_tenant(ACME).replay("r", again)).result == ended.result
            assert outside.calls == calls and kernel.verify().ok

    virtually(scenario)


def test_steps_behind_an_error_of_the_code_itself_are_missed_by_nobody(tmp_path: Path) -> None:
    """No failed step tells where it was; the completed run could not be replayed."""

    def program(*, fails: bool) -> Any:
        async def code(run: Run, _: Outside) -> Any:
            try:
                found = await _say(run, "read")
                if fails:
                    raise KeyError("a mistake")
            except KeyError:
                await _put(run, "undo", key="undo")
                raise
            return [found, await run.step("more", lambda: 1, key="more")]

        return code

    live_through_retry(tmp_path, program(fails=True), program(fails=False), "mistake")
