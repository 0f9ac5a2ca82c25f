"""A tenant sees nothing of another: not its runs, content, questions, money, nor that they exist (I5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Run, Tenant, tool
from artelier.app import TenantKernel
from artelier.errors import ArtelierError, NotFound
from artelier.log import Event, blob_name
from tests.kernel.stage import ask, drive, echo, open_kernel, play, result_of

SECRET = "the secret of alice"


@tool(side_effect=True)
async def pay(to: str) -> str:
    """Pay."""
    raise RuntimeError(to)


async def _private(run: Run) -> Any:
    said = await ask(run, SECRET)
    await run.approve(SECRET, {"what": SECRET})
    await run.step_tool("pay", {"to": SECRET})
    return said


ASKED: list[Callable[[TenantKernel], Awaitable[Any]]] = [
    lambda runs: runs.show("hers"),
    lambda runs: runs.steps("hers"),
    lambda runs: runs.tree("hers"),
    lambda runs: runs.cost("hers"),
    lambda runs: runs.manifest("hers", "1"),
    lambda runs: runs.render("hers", "1"),
    lambda runs: runs.approve("hers"),
    lambda runs: runs.approve("hers", "2"),
    lambda runs: runs.pause("hers"),
    lambda runs: runs.resume("hers"),
    lambda runs: runs.cancel("hers"),
    lambda runs: runs.stop("hers"),
    lambda runs: runs.retry("hers"),
    lambda runs: runs.inject("hers", "note"),
    lambda runs: runs.signal("hers", "x"),
    lambda runs: runs.reconcile("hers", "3", retry=True),
    lambda runs: runs.reconcile("hers", "3", probe=True),
    lambda runs: runs.limit("hers", unit="steps", cap=1),
]


def test_what_belongs_to_another_tenant_is_not_there_at_all(tmp_path: Path) -> None:
    """Every question gets the very answer that it gets for a run that never was."""

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            alice, bob = kernel.for_tenant("alice"), kernel.for_tenant("bob")
            assert await drive(alice, _private, "hers", on_wait="suspend") == "waiting_approval"
            await bob.state()
            before = await alice.show("hers")
            for asked in ASKED:
                answers: list[str] = []
                for runs, name in ((bob, "hers"), (bob, "nobodys")):
                    with pytest.raises(NotFound) as error:
                        await asked(_Renamed(runs, name))  # pyright: ignore[reportArgumentType]
                    answers.append(str(error.value).replace(name, "X"))
                    assert SECRET not in str(error.value)
                assert answers[0] == answers[1]
            assert (await bob.runs())["items"] == []
            assert await bob.approvals() == []
            assert await bob.approvals("hers") == []
            assert await alice.show("hers") == before

            await alice.approve("hers")
            assert await drive(alice, _private, "hers") == "unknown_outcome"
            with pytest.raises(NotFound):
                await bob.reconcile("hers", "3", retry=True)

    play(scenario())


class _Renamed:
    """A tenant's handle that asks the same about a run of another name."""

    def __init__(self, runs: TenantKernel, name: str) -> None:
        self._runs = runs
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return lambda _, *more, **named: getattr(self._runs, method)(self._name, *more, **named)


def test_two_tenants_may_have_runs_of_one_name_and_content_of_one_text(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            handles = [kernel.for_tenant(name) for name in ("alice", "bob")]
            for runs in handles:
                assert await drive(runs, lambda run: ask(run, SECRET)) == "completed"
            assert len(model.requests) == 2, "nobody is given another's recorded answer"
            rows = await kernel.store.query("SELECT tenant, name FROM blobs")
            names = {tenant: {n for t, n in rows if t == tenant} for tenant in ("alice", "bob")}
            assert names["alice"].isdisjoint(names["bob"]), "names tell nothing across tenants"
            for name in names["alice"]:
                assert await kernel.store.blob("alice", name)
                with pytest.raises(NotFound):
                    await kernel.store.blob("bob", name)
            assert [len((await runs.runs())["items"]) for runs in handles] == [1, 1]
            assert await result_of(handles[0]) == f"re: {SECRET}"

    play(scenario())


def test_events_of_one_tenant_are_told_apart_from_all_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            for name in ("alice", "bob"):
                await drive(kernel.for_tenant(name), lambda run: ask(run, SECRET))
            found: list[Event] = await kernel.store.read_all(tenant="bob")
            assert {event.stream.tenant for event in found} == {"bob"}
            everything = await kernel.store.read_all()
            assert len(everything) == 2 * len(found)
            text = b"".join(event.data for event in everything)
            assert SECRET.encode() not in text, "free text is only behind references"
            reply = next(e.plain()["reply"] for e in everything if e.kind == "model.completed")
            assert SECRET.encode() in await kernel.store.blob("alice", blob_name(reply))

    play(scenario())


def test_a_child_cannot_belong_to_another_tenant_than_its_parent(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            alice = kernel.for_tenant(Tenant("alice", budget_usd="1.00"))
            bob = kernel.for_tenant("bob")
            async with alice.run("hers") as parent:
                with pytest.raises(ArtelierError, match="tenant"):
                    async with bob.run("his", parent=parent):
                        pass
            assert (await bob.runs())["items"] == []

    play(scenario())


@pytest.mark.parametrize(
    "name", ["", "../etc", "a/b", "x" * 65, "é", "a\x00b", "a b", ".hidden", "main/run:x"]
)
def test_a_tenant_id_that_could_be_mistaken_for_a_path_is_refused(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            with pytest.raises(ArtelierError, match="tenant id"):
                await kernel.for_tenant(Tenant(name)).state()

    play(scenario())


def test_a_run_id_cannot_reach_into_another_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant("alice")
            for name in ("", "a b", "a\n", "é", "x" * 513, "../../bob/main/run:r\x00"):
                with pytest.raises(ArtelierError, match="run id"):
                    runs.run(name)
            assert await drive(runs, lambda run: ask(run, "x"), "../bob/main/run:r") == "completed"
            assert (await kernel.for_tenant("bob").runs())["items"] == []

    play(scenario())
