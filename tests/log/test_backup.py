"""`artelier db backup`: a file as it was at one moment, while others go on with it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from artelier import Kernel
from artelier.app import VIEWS
from artelier.cli import main
from artelier.errors import Conflict, CorruptStore, InvalidRequest, NotFound
from artelier.kernel import Run
from artelier.log.places import verify_place
from artelier.log.store_copy import back_up
from artelier.testing import ScriptedModel

STEPS = 40


def opened(path: Path) -> Kernel:
    return Kernel.open(path, models={"m": ScriptedModel(lambda request: f"re: {request.messages[-1].text}")})


async def count(run: Run) -> str:
    said = ""
    for number in range(STEPS):
        step = await run.step_model(
            model="m", messages=[{"role": "user", "content": f"{number} {'x' * 5_000}"}]
        )
        said += step.text[:6]
    return said


def test_a_backup_is_one_moment_of_a_database_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    heads: list[str] = []

    async def scenario() -> list[str]:
        with opened(path) as kernel:
            whole = kernel.run("r")
            async with whole as run:
                working = asyncio.create_task(count(run))
                for number in range(5):
                    await asyncio.sleep(0.02)
                    made = await asyncio.to_thread(back_up, str(path), str(tmp_path / f"{number}.db"))
                    heads.append(made.head)
                run.finish(await working)
            return [root.hex() for (root,) in await kernel.store.query("SELECT root FROM commits")]

    roots = asyncio.run(scenario())

    assert set(heads) <= set(roots)
    for number, head in enumerate(heads):
        copy = tmp_path / f"{number}.db"
        report = verify_place(copy, VIEWS, head=head)
        assert report.ok and report.head == head
    assert not list(tmp_path.glob("*.part*"))

    async def go_on() -> str:
        with opened(tmp_path / "0.db") as kernel:
            async with kernel.run("r") as run:
                run.finish(await count(run))
            return (await kernel.for_tenant().show("r"))["status"]

    assert asyncio.run(go_on()) == "completed"


def test_nothing_is_overwritten_and_bad_places_are_named(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    opened(path).close()
    taken = tmp_path / "taken.db"
    taken.write_text("mine")

    with pytest.raises(Conflict, match="a file already"):
        back_up(str(path), str(taken))
    assert taken.read_text() == "mine"
    with pytest.raises(Conflict):
        back_up(str(path), str(path))
    with pytest.raises(NotFound, match="folder"):
        back_up(str(path), str(tmp_path / "nowhere" / "s.db"))
    with pytest.raises(NotFound, match="no such database"):
        back_up(str(tmp_path / "none.db"), str(tmp_path / "b.db"))
    for address in ("postgresql://u:secret@db.example.org/a", "https://example.org"):
        with pytest.raises(InvalidRequest) as told:
            back_up(address, str(tmp_path / "b.db"))
        assert "secret" not in str(told.value)
        with pytest.raises(InvalidRequest):
            back_up(str(path), address)
    (tmp_path / "text.db").write_text("no database at all, but a text that is long enough " * 20)
    with pytest.raises(CorruptStore):
        back_up(str(tmp_path / "text.db"), str(tmp_path / "b.db"))
    assert sorted(one.name for one in tmp_path.iterdir() if one.suffix != ".db") == []
    assert not (tmp_path / "b.db").exists()


def test_a_full_disk_leaves_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    opened(path).close()
    code = """
import resource, signal, sys
from artelier.log.store_copy import back_up
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40960, 40960))
back_up(sys.argv[1], sys.argv[2])
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path), str(tmp_path / "b.db")], capture_output=True, text=True
    )
    assert ended.returncode == 1 and "artelier.errors." in ended.stderr.splitlines()[-1]
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith("b.db")) == []


def test_the_command_prints_what_the_drill_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, copy = tmp_path / "s.db", tmp_path / "b.db"
    opened(path).close()

    assert main(["db", "backup", str(copy), "--db", str(path), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["file"], made["size_bytes"]) == (str(copy), copy.stat().st_size)
    assert main(["verify", "--db", str(copy), "--head", made["head"]]) == 0
    assert main(["verify", "--db", str(copy), "--head", "1" * 64]) != 0
    assert main(["db", "backup", str(copy), "--db", str(path)]) == 1
    os.chmod(path, 0o600)
    assert main(["db", "backup", str(tmp_path / "c.db"), "--db", str(path)]) == 0
    assert (tmp_path / "c.db").stat().st_mode & 0o777 == 0o600
