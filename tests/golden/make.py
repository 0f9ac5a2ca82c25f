"""Makes the golden files of the version whose interpreter runs it.

    PYTHONPATH=. OLD/.venv/bin/python -m tests.golden.make 0.1.0-e36deac

Run it with the environment of the version that is to be kept, never with a newer one, and commit the folder.
Each database is closed, compressed, and described in `expected.json` by what that version says of it.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from artelier import Kernel, RunSuspended
from artelier.cli import main as artelier
from artelier.errors import ArtelierError
from tests.golden.programs import ACME, Shop, agent, asks, models, payroll

HERE = Path(__file__).resolve().parent
SALES = HERE.parents[1] / "examples" / "data" / "sales"
DEADLY = {"killed-in-model": 8, "killed-in-tool": 11, "killed-mission": 60, "killed-agent": 12}
"""The dangerous instant at which the process of a run ends."""


def opened(path: Path, **more: Any) -> Kernel:
    return Kernel.open(path, models=models(), tools=Shop().tools(), environ={}, **more)


async def drive(kernel: Kernel, code: Callable[..., Any], run_id: str, **opening: Any) -> None:
    try:
        async with kernel.for_tenant(ACME).run(run_id, **opening) as run:
            run.finish(await code(run))
    except (RunSuspended, ArtelierError) as error:
        sys.stderr.write(f"{run_id}: {error}\n")


async def live(run_id: str, path: Path) -> None:
    """One life, that ends by a real kill at an instant."""
    left = [DEADLY[run_id]]

    def at(point: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            sys.stderr.write(f"{run_id} is killed at {point}\n")
            os.kill(os.getpid(), signal.SIGKILL)

    with opened(path, fault=at) as kernel:
        if run_id == "killed-mission":
            desk = kernel.for_tenant(ACME)
            await desk.plan("Who orders more?", mission_id=run_id, model="planner")
            await desk.launch(run_id, by="user:kim")
            await desk.drive_mission(run_id)
        elif run_id == "killed-agent":
            await agent(kernel, run_id)
        else:
            await drive(kernel, payroll, run_id)


async def make_runs(path: Path) -> None:
    with opened(path) as kernel:
        desk = kernel.for_tenant(ACME)
        await drive(kernel, payroll, "paid")
        await drive(kernel, asks, "waiting", on_wait="suspend")
        await drive(kernel, asks, "answered", on_wait="suspend")
        await desk.approve("answered", note="two typos", by="user:ana")
        await drive(kernel, asks, "answered", on_wait="suspend")
        await desk.fork("paid", at=4, new_id="pending-fork")
        await desk.fork("paid", at=4, with_={"model": "better"}, new_id="finished-fork")
        await drive(kernel, payroll, "finished-fork")
        await desk.fork("waiting", new_id="waiting-fork")
        await agent(kernel, "agent")
        await desk.plan("Who orders more?", mission_id="mission", model="planner")
        await desk.launch("mission", by="user:kim")
        await desk.drive_mission("mission")
        await desk.plan("Who orders less?", mission_id="unlaunched", model="planner")
    for run_id in DEADLY:
        command = [sys.executable, "-m", "tests.golden.make", "--live", run_id, str(path)]
        ended = subprocess.run(command, check=False, cwd=HERE.parents[1])
        assert ended.returncode == -signal.SIGKILL, run_id
    with opened(path) as kernel:
        desk = kernel.for_tenant(ACME)
        for run_id in ("paid", "finished-fork", "agent", "mission"):
            await desk.export(run_id, path.parent / f"{run_id}.artelier")


def make_by_command(folder: Path) -> None:
    """What the command line leaves: a report, chats, worlds."""
    shutil.copytree(SALES, folder / "sales")
    run = ["do", "Which region sold most? Write a report.", "--workspace", "sales", "--db", "do.db"]
    command(*run, "--run-id", "q3-report", "--yes")
    command(*run, "--run-id", "solo", "--yes", "--solo")
    command("fork", "solo", "--db", "do.db")
    command("export", "q3-report", "do.artelier", "--db", "do.db")
    said = ["--message", "I attack the wolf", "--message", "I sit down by the fire"]
    command("chat", "tavern", "--profile", "rp-basic", "--model", "offline", *said, "--db", "chat.db")
    command("chat", "plain", "--profile", "none", "--model", "offline", *said, "--db", "chat.db")
    world = ["--db", "world.db"]
    command("world", "new", "market", "--seed", "7", *world)
    command("world", "run", "market", "--ticks", "6", *world)
    command("world", "fork", "market", "--at", "3", *world)
    command("world", "run", "market.fork-1", "--ticks", "2", *world)
    command("world", "export", "market", "world.artelier", *world)


def command(*words: str) -> None:
    code = artelier(words)
    assert code == 0, f"{words} ended with {code}"


async def balances(kernel: Kernel) -> dict[str, int]:
    rows = await kernel.store.query(
        "SELECT tenant, space, account, asset, balance FROM accounts WHERE balance != 0"
    )
    return {"/".join(map(str, row[:-1])): row[-1] for row in rows}


async def describe(path: Path) -> dict[str, Any]:
    """What this version says of a database: the state of each run, and the hash of each prompt."""
    described: dict[str, Any] = {"runs": {}, "prompts": {}, "worlds": {}}
    with opened(path) as kernel:
        assert kernel.verify().ok
        described["head"] = await kernel.head()
        rows = await kernel.store.query("SELECT tenant, run FROM runs ORDER BY tenant, run")
        for tenant, run_id in rows:
            desk = kernel.for_tenant(tenant)
            shown = await desk.show(run_id)
            described["runs"][f"{tenant}/{run_id}"] = {
                name: shown[name] for name in ("status", "reason", "result", "cost_microusd")
            }
        steps = await kernel.store.query(
            "SELECT DISTINCT r.tenant, r.run, json_extract(e.data, '$.key') FROM events e"
            " JOIN runs r ON r.id = e.stream WHERE e.kind = 'context.assembled'"
        )
        for tenant, run_id, key in steps:
            rendered = (await kernel.for_tenant(tenant).render(run_id, key)).canonical()
            place = f"{tenant}/{run_id}:{key}"
            described["prompts"][place] = hashlib.sha256(rendered).hexdigest()
        described["balances"] = await balances(kernel)
        if path.stem == "world":
            from artelier.world.history.world_diff import hash_world

            for name in ("market", "market.fork-1"):
                found = await hash_world(kernel.for_tenant(), name)
                described["worlds"][name] = found.sha256
    return described


def make(version: str) -> None:
    kept = HERE / version
    kept.mkdir()
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        folder = Path(name)
        os.chdir(folder)
        asyncio.run(make_runs(folder / "runs.db"))
        make_by_command(folder)
        expected = {path.name: asyncio.run(describe(path)) for path in sorted(folder.glob("*.db"))}
        for path in sorted([*folder.glob("*.db"), *folder.glob("*.artelier")]):
            assert not path.with_name(f"{path.name}-wal").exists(), path
            packed = gzip.compress(path.read_bytes(), 9, mtime=0)
            (kept / f"{path.name}.gz").write_bytes(packed)
        text = msgspec.json.format(msgspec.json.encode(expected, order="sorted"), indent=1)
        (kept / "expected.json").write_bytes(text + b"\n")


if __name__ == "__main__":
    if sys.argv[1] == "--live":
        asyncio.run(live(sys.argv[2], Path(sys.argv[3])))
    else:
        make(sys.argv[1])
