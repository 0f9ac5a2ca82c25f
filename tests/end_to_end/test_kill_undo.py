"""Undoing survives `kill -9` at each instant: everything is undone once, in order, and the log tells it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from artelier import Kernel, Run
from artelier.app import TenantKernel
from artelier.errors import Flow
from artelier.kernel.tool_calls.compensation import CompensationFailed
from tests.end_to_end.lives import STORE, Life, instants, lived, outside, shop
from tests.kernel.stage import EAGER, Code, drive, echo, kinds, play, result_of

pytestmark = pytest.mark.slow


# Code that undoes what it has done


async def spree(run: Run) -> dict[str, Any]:
    """Two payments, a child with one of its own, a letter, one payment more; then all of it is undone."""
    await run.step_tool("pay", {"to": "ann"}, key="ann")
    await run.step_tool("pay", {"to": "bob"}, key="bob")
    async with runs_of(run).run("r/child", parent=run, on_wait="suspend") as child:
        await child.step_tool("pay", {"to": "cid"}, key="cid")
        child.finish("paid")
    await run.step_tool("mail", {"to": "ann"}, key="mail")
    await run.step_tool("pay", {"to": "dee"}, key="dee")
    turn_back()
    back = await run.compensate(note="the order was cancelled")
    return {"undone": list(back.undone), "kept": list(back.not_undone)}


def turn_back() -> None:
    """Here the lives of a test begin: what is paid is paid, and nothing is undone yet."""
    if _only_pays:
        raise KeyboardInterrupt


_only_pays: list[bool] = []
"""Whether this process comes no further."""


def runs_of(run: Run) -> TenantKernel:
    """The desk that drives a run: its children are opened there."""
    return _desks[-1]


_desks: list[TenantKernel] = []

SPREE = {"undone": ["dee", "r/child:cid", "bob", "ann"], "kept": ["mail"]}
SPREE_DONE = [
    "pay ann default/r:ann",
    "pay bob default/r:bob",
    "pay cid default/r/child:cid",
    "mail ann default/r:mail",
    "pay dee default/r:dee",
    "undo dee default/r:dee/undo",
    "undo cid default/r/child:cid/undo",
    "undo bob default/r:bob/undo",
    "undo ann default/r:ann/undo",
]


async def stubborn(run: Run) -> list[str]:
    """The first attempt to undo `bob` fails, and is known to have failed; the second one works."""
    await run.step_tool("pay", {"to": "ann"}, key="ann")
    await run.step_tool("stubborn", {"to": "bob"}, key="bob")
    turn_back()
    try:
        await run.compensate()
    except CompensationFailed:
        return list((await run.compensate()).undone)
    return ["too easy"]


STUBBORN_DONE = [
    "pay ann default/r:ann",
    "pay bob default/r:bob",
    "undo bob default/r:bob/undo/2",
    "undo ann default/r:ann/undo",
]

CODES: dict[str, tuple[Code, Any, list[str]]] = {
    "spree": (spree, SPREE, SPREE_DONE),
    "stubborn": (stubborn, ["bob", "ann"], STUBBORN_DONE),
}


async def by_code(life: Life) -> None:
    code = CODES[life.folder.name.partition("-")[0]][0]
    with life.open() as kernel:
        await driven(kernel, code)


async def only_paid(life: Life) -> None:
    _only_pays.append(True)
    with suppress(KeyboardInterrupt):
        await by_code(life)


async def driven(kernel: Kernel, code: Code) -> str:
    runs = kernel.for_tenant()
    _desks.append(runs)
    try:
        return await drive(runs, code, on_wait="suspend")
    finally:
        _desks.pop()


# A person who undoes what an ended run has done


async def by_person(life: Life) -> None:
    with life.open() as kernel:
        try:
            await kernel.for_tenant().compensate("r", note="by hand", by="user:eve")
        except Flow:
            pass


async def ended(run: Run) -> str:
    await run.step_tool("pay", {"to": "ann"}, key="ann")
    async with runs_of(run).run("r/child", parent=run) as child:
        await child.step_tool("pay", {"to": "cid"}, key="cid")
        child.finish("paid")
    await run.step_tool("pay", {"to": "bob"}, key="bob")
    return "done"


ENDED_DONE = [
    "pay ann default/r:ann",
    "pay cid default/r/child:cid",
    "pay bob default/r:bob",
    "undo bob default/r:bob/undo",
    "undo cid default/r/child:cid/undo",
    "undo ann default/r:ann/undo",
]


async def prepared(life: Life) -> None:
    with life.open() as kernel:
        assert await driven(kernel, ended) == "completed"


# What a person says of outcomes that nobody knows: what the books say


async def settling(life: Life) -> None:
    """Look at the outside, and settle each unknown outcome by it."""
    done = {line.rpartition(" ")[2] for line in outside(life.folder)}
    with life.open() as kernel:
        runs = kernel.for_tenant()
        for run in [run["id"] for run in (await runs.runs())["items"]]:
            for step in (await runs.show(run))["unknown_outcomes"]:
                # What a fork undoes for the run that it goes on for has that run's key.
                owner = step.partition(":")[0] if ":" in step else run
                if f"default/{owner}:{step}" in done:
                    await runs.reconcile(run, step, succeeded={"paid": 3}, by="user:eve")
                else:
                    await runs.reconcile(run, step, retry=True, by="user:eve")


def to_the_end(scenario: Any, folder: Path) -> None:
    """Live on until nothing is unknown any more; nobody dies now."""
    for _ in range(9):
        assert lived(scenario, folder)
        if not unknown(folder):
            return
        assert lived(settling, folder)
    pytest.fail("there are always new unknown outcomes")


def copied(begun: Path, deadly: int) -> Path:
    """The same past, for another death."""
    return copytree(begun, begun.with_name(f"{begun.name.partition('-')[0]}-{deadly}"))


def unknown(folder: Path) -> list[str]:
    async def look() -> list[str]:
        with opened(folder) as kernel:
            runs = kernel.for_tenant()
            names = [run["id"] for run in (await runs.runs())["items"]]
            return [s for name in names for s in (await runs.show(name))["unknown_outcomes"]]

    return play(look())


def opened(folder: Path) -> Kernel:
    """The store as somebody else looks at it."""
    return Kernel.open(folder / STORE, models=echo(), tools=shop(Life(folder, 0)), policy=EAGER, environ={})


def assert_whole(folder: Path, code: Code, result: Any, done: list[str], why: object) -> None:
    """The log verifies, all happened once, in order, and a strict replay gives the same."""
    assert outside(folder) == done, why

    async def check() -> None:
        with opened(folder) as kernel:
            report = kernel.verify()
            assert report.ok, (why, report.findings)
            runs = kernel.for_tenant()
            assert (await runs.show("r"))["status"] == "completed", why
            assert await result_of(runs) == result, why
            _desks.append(runs)
            replayed = await runs.replay("r", code)
            _desks.pop()
            assert (replayed.result, replayed.model_calls, replayed.tool_calls) == (result, 0, 0)
            for run in ("r", "r/child"):
                found = Counter(await kinds(kernel, run))
                assert found["run.completed"] <= 1, why

    play(check())
    assert outside(folder) == done, why


@pytest.mark.parametrize("name", sorted(CODES))
def test_code_that_undoes_is_killed_at_each_instant(tmp_path: Path, name: str) -> None:
    code, result, done = CODES[name]
    begun, deaths = tmp_path / f"{name}-begun", 0
    begun.mkdir()
    assert lived(only_paid, begun)
    for deadly in instants():
        folder = copied(begun, deadly)
        if lived(by_code, folder, deadly=deadly):
            break
        deaths += 1
        to_the_end(by_code, folder)
        assert_whole(folder, code, result, done, deadly)
    assert deaths > 1


def test_a_person_who_undoes_is_killed_at_each_instant(tmp_path: Path) -> None:
    begun, deaths = tmp_path / "begun", 0
    begun.mkdir()
    assert lived(prepared, begun)
    for deadly in instants():
        folder = copied(begun, deadly)
        if lived(by_person, folder, deadly=deadly):
            break
        deaths += 1
        to_the_end(by_person, folder)
        assert_whole(folder, ended, "done", ENDED_DONE, deadly)
    assert deaths > 1


@pytest.mark.parametrize("name", sorted(CODES))
def test_killed_again_and_again_it_comes_to_the_same_end(tmp_path: Path, name: str) -> None:
    """Each life is a little longer than the one before; the person who settles is killed as well."""
    code, result, done = CODES[name]
    folder = tmp_path / f"{name}-often"
    folder.mkdir()
    kills = 0
    for deadly in range(1, 60):
        kills += not lived(settling, folder, deadly=1 + deadly % 3) if deadly > 1 else 0
        if lived(by_code, folder, deadly=deadly) and not unknown(folder):
            break
        kills += 1

    to_the_end(by_code, folder)
    assert_whole(folder, code, result, done, kills)
    assert kills > 8
