"""Databases and exports that older versions left open, verify, render, replay, resume and import here.

The files of a version are made by `make.py` with that version, once, and never again.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, RunSuspended
from artelier.agents.loop_registry import resume_run
from artelier.cli import main
from artelier.cli.runs.time_travel import drive_with
from artelier.world import World
from artelier.world.history.transfer import import_world
from artelier.world.history.world_diff import hash_world
from tests.golden.programs import ACME, Shop, asks, models, payroll

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / "expected.json").is_file())
DATABASES = ("chat.db", "do.db", "runs.db", "world.db")


class Golden:
    """One version's files, copied to a folder where a test may write."""

    def __init__(self, version: str, folder: Path) -> None:
        self._kept = HERE / version
        self._folder = folder
        self.shop = Shop()
        self.models = models()

    def expected(self, name: str) -> dict[str, Any]:
        return json.loads((self._kept / "expected.json").read_bytes())[name]

    def path(self, name: str) -> Path:
        path = self._folder / name
        path.write_bytes(gzip.decompress((self._kept / f"{name}.gz").read_bytes()))
        return path

    def open(self, name: str = "runs.db") -> Kernel:
        tools = self.shop.tools()
        return Kernel.open(self.path(name), models=self.models, tools=tools, environ={})

    def new(self) -> Kernel:
        """An empty store of this version of the code, to import into."""
        return Kernel.open(self._folder / "new.db", models=self.models, environ={})

    def asked(self) -> int:
        """How often a model was called here."""
        return sum(len(model.requests) for model in self.models.values())


@pytest.fixture(params=VERSIONS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Golden:
    return Golden(request.param, tmp_path)


def play(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await scenario

    asyncio.run(bounded())


Code = Callable[[Run], Awaitable[Any]]


async def drive(kernel: Kernel, code: Code, run_id: str) -> str:
    """Resume a run of own code; its status."""
    try:
        async with kernel.for_tenant(ACME).run(run_id, on_wait="suspend") as run:
            run.finish(await code(run))
    except RunSuspended as suspended:
        return suspended.status
    return (await kernel.for_tenant(ACME).show(run_id))["status"]


async def digest(kernel: Kernel, place: str) -> str:
    """The hash of a prompt, which `expected.json` names by `tenant/run:step`."""
    tenant, _, rest = place.partition("/")
    run_id, _, key = rest.partition(":")
    return hashlib.sha256((await kernel.for_tenant(tenant).render(run_id, key)).canonical()).hexdigest()


def test_some_version_is_kept() -> None:
    assert "0.1.0-e36deac" in VERSIONS


@pytest.mark.parametrize("name", DATABASES)
def test_an_old_database_opens_and_says_what_it_said(golden: Golden, name: str) -> None:
    async def scenario() -> None:
        with golden.open(name) as kernel:
            expected = golden.expected(name)
            report = kernel.verify(head=expected["head"])
            assert report.findings == []
            assert await kernel.head() == expected["head"]

            for place, state in expected["runs"].items():
                tenant, _, run_id = place.partition("/")
                shown = await kernel.for_tenant(tenant).show(run_id)
                assert {field: shown[field] for field in state} == state, place
            rows = await kernel.store.query(
                "SELECT tenant, space, account, asset, balance FROM accounts WHERE balance != 0"
            )
            balances = {"/".join(map(str, row[:-1])): row[-1] for row in rows}
            assert balances == expected["balances"]
            for world, sha256 in expected["worlds"].items():
                assert (await hash_world(kernel.for_tenant(), world)).sha256 == sha256

    play(scenario())


@pytest.mark.parametrize("name", DATABASES)
def test_runs_of_an_old_database_have_the_time_of_their_status(golden: Golden, name: str) -> None:
    async def scenario() -> None:
        with golden.open(name) as kernel:
            rows = await kernel.store.query("SELECT started_us, ended_us, status_us FROM runs")
            assert rows or name == "world.db"
            for started_us, ended_us, status_us in rows:
                assert status_us >= started_us if ended_us is None else status_us == ended_us

    play(scenario())


@pytest.mark.parametrize("name", DATABASES)
def test_every_old_prompt_renders_byte_for_byte(golden: Golden, name: str) -> None:
    async def scenario() -> None:
        with golden.open(name) as kernel:
            expected = golden.expected(name)["prompts"]
            assert len(expected) > 5 or name == "world.db"  # its agents ask no model
            assert {place: await digest(kernel, place) for place in expected} == expected

    play(scenario())


def test_old_runs_replay_with_nothing_called(golden: Golden) -> None:
    async def finishing(code: Code, run: Run) -> None:
        run.finish(await code(run))

    async def scenario() -> None:
        with golden.open() as kernel:
            desk = kernel.for_tenant(ACME)
            for run_id, code in (("paid", payroll), ("finished-fork", payroll), ("answered", asks)):
                found = await desk.replay(run_id, lambda run, code=code: finishing(code, run))
                assert found.status == "completed"
                assert found.steps_replayed >= 3
            for run_id in ("agent", "mission"):
                assert (await desk.replay(run_id, drive_with(None))).model_calls == 0
        with golden.open("do.db") as kernel:
            for run_id in ("q3-report", "q3-report/figures", "q3-report/report", "solo"):
                found = await kernel.for_tenant().replay(run_id, drive_with(None))
                assert (found.status, found.model_calls) == ("completed", 0)
        assert (golden.asked(), golden.shop.paid) == (0, [])

    play(scenario())


def test_old_chats_replay(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden.path("chat.db")

    for run_id in ("tavern/r000001", "tavern/r000002", "plain/r000001", "plain/r000002"):
        assert main(["replay", run_id, "--db", str(path)]) == 0, capsys.readouterr().err


def test_a_run_killed_in_a_model_call_goes_on(golden: Golden) -> None:
    async def scenario() -> None:
        with golden.open() as kernel:
            assert await drive(kernel, payroll, "killed-in-model") == "completed"
            assert golden.shop.paid == ["ana", "ben"]
            result = (await kernel.for_tenant(ACME).show("killed-in-model"))["result"]
            assert result["said"] == "re: 412 orders"
            assert kernel.verify().ok

    play(scenario())


def test_a_payment_that_was_cut_off_is_asked_about_and_not_made_again(golden: Golden) -> None:
    async def scenario() -> None:
        with golden.open() as kernel:
            assert await drive(kernel, payroll, "killed-in-tool") == "unknown_outcome"
            assert golden.shop.paid == []
            await kernel.for_tenant(ACME).reconcile(
                "killed-in-tool", "2", succeeded={"paid": "ana", "usd": "3.00"}
            )
            assert await drive(kernel, payroll, "killed-in-tool") == "completed"
            assert golden.shop.paid == ["ben"]
            assert kernel.verify().ok

    play(scenario())


@pytest.mark.parametrize("run_id", ["waiting", "waiting-fork"])
def test_a_run_that_waits_for_a_person_hears_the_answer(golden: Golden, run_id: str) -> None:
    async def scenario() -> None:
        with golden.open() as kernel:
            assert await drive(kernel, asks, run_id) == "waiting_approval"
            await kernel.for_tenant(ACME).approve(run_id, note="two typos", by="user:ana")
            assert await drive(kernel, asks, run_id) == "completed"
            result = (await kernel.for_tenant(ACME).show(run_id))["result"]
            assert result == "re: Is it ready?; re: two typos; True"
            assert kernel.verify().ok

    play(scenario())


def test_an_agent_and_a_mission_that_were_killed_go_on(golden: Golden) -> None:
    async def scenario() -> None:
        with golden.open() as kernel:
            agent = await resume_run(kernel, ACME, "killed-agent")
            assert (agent.status, agent.text) == ("completed", "Oslo placed more orders than Bergen.")
            desk = kernel.for_tenant(ACME)
            assert (await desk.drive_mission("killed-mission")).status in ("completed", "failed")
            await desk.launch("unlaunched", by="user:kim")
            assert (await desk.drive_mission("unlaunched")).status in ("completed", "failed")
            assert kernel.verify().ok

    play(scenario())


def test_a_fork_made_by_an_older_version_acts_as_it_did_there(golden: Golden) -> None:
    """It was made when every fork acted: what a run was started under holds for it."""

    async def scenario() -> None:
        with golden.open() as kernel:
            assert await drive(kernel, payroll, "pending-fork") == "completed"
            paid = golden.shop.paid
            expected = golden.expected("runs.db")["runs"]["acme/paid"]["result"]
            assert paid == ["ana", "ben"]
            assert (await kernel.for_tenant(ACME).show("pending-fork"))["result"] == expected
            assert kernel.verify().ok

    play(scenario())


def test_old_chats_and_worlds_go_on(
    golden: Golden, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chats = str(golden.path("chat.db"))
    for chat in ("tavern", "plain"):
        assert main(["chat", chat, "--message", "And then?", "--db", chats]) == 0
        assert "turn 3" in capsys.readouterr().err

    worlds = str(golden.path("world.db"))
    for world, tick in (("market", 7), ("market.fork-1", 6)):
        assert main(["world", "run", world, "--ticks", "1", "--db", worlds]) == 0
        assert f"{world} is at tick {tick}" in capsys.readouterr().out
    assert main(["world", "fork", "market", "--at", "4", "--db", worlds]) == 0
    assert main(["verify", "--db", worlds]) == 0


@pytest.mark.parametrize("name", ["paid", "finished-fork", "agent", "mission", "do"])
def test_an_old_export_is_imported_and_replays(golden: Golden, name: str) -> None:
    async def finishing(run: Run) -> None:
        run.finish(await payroll(run))

    async def scenario() -> None:
        drives = payroll if name in ("paid", "finished-fork") else None
        with golden.new() as kernel:
            tenant = "default" if name == "do" else ACME
            source = "do.db" if name == "do" else "runs.db"
            desk = kernel.for_tenant(tenant)
            taken = await desk.import_(golden.path(f"{name}.artelier"))

            found = await desk.replay(taken.run_id, finishing if drives else drive_with(None))
            assert (found.model_calls, golden.asked()) == (0, 0)
            prompts = golden.expected(source)["prompts"]
            mine = {
                place: sha256
                for place, sha256 in prompts.items()
                if f"{place.partition('/')[2]}/".startswith((f"{taken.run_id}:", f"{taken.run_id}/"))
            }
            assert mine
            assert {place: await digest(kernel, place) for place in mine} == mine
            assert kernel.verify().ok

    play(scenario())


def test_an_old_world_is_imported_and_goes_on(golden: Golden) -> None:
    async def scenario() -> None:
        with golden.new() as kernel:
            desk = kernel.for_tenant()
            taken = await import_world(desk, golden.path("world.artelier"))
            expected = golden.expected("world.db")["worlds"]["market"]
            assert (await hash_world(desk, taken.world)).sha256 == expected
            async with World.open(kernel, taken.world) as world:
                await world.run(ticks=1)
            assert kernel.verify().ok

    play(scenario())
