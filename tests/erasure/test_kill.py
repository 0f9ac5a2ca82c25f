"""Erasing and collecting survive `kill -9` at each instant: the file is as before, or as after."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import Erased
from artelier.log import Batch, make_blob
from tests.end_to_end.lives import STORE, Life, Scenario, lived
from tests.erasure.test_subjects import KEY, WORDS, assert_nowhere, history, look_up, serve
from tests.kernel.stage import echo, play

pytestmark = pytest.mark.slow

SUBJECT = "customer-17"
INSTANTS_MAX = 400


def opened(folder: Path, environ: dict[str, str], **more: Any) -> Kernel:
    return Kernel.open(
        folder / STORE, models={"m": echo()}, tools=[look_up, history], environ=environ, **more
    )


async def erasing(life: Life) -> None:
    with opened(life.folder, KEY, fault=life.at) as kernel:
        await kernel.for_tenant("acme").erase(subject=SUBJECT)


async def collecting(life: Life) -> None:
    """The first one with a vault key: contents are sealed, too."""
    with opened(life.folder, KEY, fault=life.at) as kernel:
        await kernel.collect()


def deaths(scenario: Scenario, ready: Path, check: Callable[[Path], None]) -> int:
    """Die at instants of a scenario, and look at what is left; how many deaths there were.

    Of the file being written anew, which has many instants, some are enough.
    """
    count = 0
    for deadly in (*range(1, 7), *range(7, INSTANTS_MAX, 20)):
        folder = ready.with_name(f"{ready.name}-{deadly}")
        copytree(ready, folder)
        survived = lived(scenario, folder, deadly=deadly)
        check(folder)
        if survived:
            return count
        count += 1
    raise AssertionError(f"it has more than {INSTANTS_MAX} instants")


@pytest.mark.parametrize(("is_moved", "least"), ((False, 3), (True, 4)))
def test_an_erasure_that_is_killed_has_happened_or_not(tmp_path: Path, is_moved: bool, least: int) -> None:
    """Where rows of keys were moved, all of them are written anew after it."""
    ready, seen = tmp_path / "ready", set[bool]()

    async def prepare() -> None:
        with opened(ready, KEY) as kernel:
            desk = kernel.for_tenant("acme")
            await serve(desk, "r17", WORDS[0], subject=SUBJECT)
            await serve(desk, "plain", "basalt")

    def check(folder: Path) -> None:
        async def look() -> None:
            with opened(folder, KEY) as kernel:
                assert kernel.verify().ok
                desk = kernel.for_tenant("acme")
                told = await kernel.store.query("SELECT count(*) FROM erasures")
                try:
                    assert WORDS[0] in (await desk.render("r17", "two")).messages[0].text
                    assert told == [(0,)]
                except Erased:
                    assert told == [(1,)]
                seen.add(bool(told[0][0]))
                await desk.render("plain", "two")
                # Whatever became of it, a second call finishes.
                assert (await desk.erase(subject=SUBJECT)).cleaned
                assert kernel.verify().ok
            assert_nowhere(folder, WORDS)

        play(look(), within_s=60)

    play(prepare())
    if is_moved:
        with closing(sqlite3.connect(ready / STORE)) as db, db:
            db.execute("UPDATE keys SET secret = secret")
    assert deaths(erasing, ready, check) >= least
    assert seen == {False, True}


def test_a_collection_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    ready, prompts = tmp_path / "ready", dict[str, bytes]()

    async def prepare() -> None:
        with opened(ready, {}) as kernel:
            desk = kernel.for_tenant("acme")
            for run in ("one", "two"):
                prompts[run] = await serve(desk, run, f"quartz {run}")
            key = await kernel.store.data_key("acme")
            _, blob = make_blob("acme", key, WORDS[0].encode())
            await kernel.store.append(Batch(blobs=(blob,)))

    def check(folder: Path) -> None:
        async def look() -> None:
            with opened(folder, KEY) as kernel:
                desk = kernel.for_tenant("acme")
                for again in range(2):
                    assert kernel.verify().ok
                    for run, prompt in prompts.items():
                        assert (await desk.render(run, "two")).canonical() == prompt
                    if not again:
                        await kernel.collect()
                assert (await kernel.collect(dry=True)).blobs == 0
            assert_nowhere(folder, [WORDS[0], "quartz"])

        play(look(), within_s=60)

    play(prepare())
    assert deaths(collecting, ready, check) >= 5
