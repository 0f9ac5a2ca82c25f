"""Asyncio programs that are drawn from seeds, killed at every event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Run
from tests.determinism.generated import generated, generated_beside
from tests.determinism.harness import Outside, live_through, live_through_retry
from tests.determinism.programs import compute, look, put
from tests.kernel.stage import user


@pytest.mark.parametrize("seed", range(20))
def test_a_generated_program_that_is_killed_ends_as_its_log_allows_and_replays(
    tmp_path: Path, seed: int
) -> None:
    live_through(tmp_path, generated(seed), seed, every=9)


@pytest.mark.parametrize("seed", (1005, 1041, 1093, 128697))
def test_a_generated_program_that_once_replayed_otherwise_does_no_more(tmp_path: Path, seed: int) -> None:
    """1005: cancellations noted together; 1041: a computed step that a crash cut off; 1093: one that came
    while its code reacted to another outcome; 128697: one at the instant of a durable timeout around it."""
    live_through(tmp_path, generated(seed), seed, every=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_006, 1_018))
def test_a_generated_program_that_is_killed_at_every_event_ends_as_its_log_allows(
    tmp_path: Path, seed: int
) -> None:
    live_through(tmp_path, generated(seed), seed, every=1)


LATER = (1282, 1362, 1515, 2884681, 13259002)
"""1282, 13259002: a stream that is left in a race against a plain timer, no longer drawn; 1362, 1515: a
computed step that is asked for behind several cancellations at one place; 2884681: a
cancellation while what it cleans up with comes from the log."""


@pytest.mark.parametrize("seed", [*range(10), 18, 19, 243, 309, 311, 336, 357, 403, 458, 689, *LATER])
def test_a_generated_program_that_fails_in_between_goes_on_when_it_is_retried(
    tmp_path: Path, seed: int
) -> None:
    """18: code that reacts to one outcome while the step is at work that is executed again; 19: code that
    cleans up with steps of its own; 243: of which one was cut off as well; 309: of which one is asked for
    again beside another; 357: within a time that has passed; 403: behind one; 458: without a cancellation;
    311, 336 and 689: with steps that fail themselves."""
    live_through_retry(
        tmp_path, generated_beside(seed, fails=True), generated_beside(seed, fails=False), seed
    )


async def _nap(run: Run, key: str) -> None:
    await run.sleep(0.5, key=key)


async def _compute(run: Run, key: str) -> Any:
    return await compute(run, Outside(key), key)


async def _ask(run: Run, text: str, *, key: str) -> str:
    return (await run.step_model(model="m", messages=[user(text)], key=key)).text


@pytest.mark.parametrize(
    ("clean", "shape", "is_group"),
    [
        (clean, shape, (row + column) % 2 == 0)
        for row, clean in enumerate((_nap, look, put, _compute))
        for column, shape in enumerate(("finally", "except", "swallow"))
    ],
)
def test_code_that_cleans_up_behind_a_failure_goes_on_when_it_is_retried(
    tmp_path: Path, clean: Callable[[Run, str], Awaitable[Any]], shape: str, is_group: bool
) -> None:
    """It waited for the cancellation or the cleaning up, and failed for good or could not be replayed."""

    async def work(run: Run) -> str:
        try:
            await run.sleep(30, key="w1")
            return await _ask(run, "w2", key="w2")
        except asyncio.CancelledError:
            if shape != "finally":
                await clean(run, "clean")
            if shape != "swallow":
                raise
            return "swallowed"
        finally:
            if shape == "finally":
                await clean(run, "clean")

    def program(*, fails: bool) -> Any:
        async def beside(run: Run) -> str:
            await run.sleep(1, key="z")
            return await _ask(run, "!q" if fails else "q", key="q")

        async def code(run: Run, _: Outside) -> Any:
            if is_group:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(one(run)) for one in (work, beside)]
                return [task.result() for task in tasks]
            task = asyncio.ensure_future(work(run))
            try:
                return [await beside(run), await task]
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        return code

    live_through_retry(tmp_path, program(fails=True), program(fails=False), "cleans up")


def test_code_that_cleans_up_for_long_behind_a_failure_goes_on_when_it_is_retried(tmp_path: Path) -> None:
    """`run.reopened` stands on the next page of the log, far behind what it makes void."""

    async def work(run: Run) -> str:
        try:
            await run.sleep(30, key="w")
            return "slept"
        finally:
            for number in range(75):
                await _ask(run, f"{number}", key=f"clean {number}")

    def program(*, fails: bool) -> Any:
        async def code(run: Run, _: Outside) -> Any:
            for number in range(400):
                await run.step("before", lambda: 0, key=f"before {number}")
            task = asyncio.ensure_future(work(run))
            try:
                await run.sleep(1, key="z")
                return [await _ask(run, "!q" if fails else "q", key="q"), await task]
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        return code

    live_through_retry(tmp_path, program(fails=True), program(fails=False), "cleans up for long")
