"""A database that cannot be written here is looked at, and refuses the rest with what to do."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from artelier.app import Kernel
from artelier.errors import StoreUnavailable
from tests.log.older_schemas import take_back


def made(folder: Path) -> Path:
    """A database with a run in it, closed."""
    path = folder / "state.db"

    async def work() -> None:
        with Kernel.open(path, environ={}) as kernel:
            async with kernel.run("r") as run:
                run.finish("done")

    asyncio.run(work())
    return path


NOBODY = 65_534


async def looked_at(path: Path, *, writes: bool = False) -> None:
    """Everything that only reads works; what writes says why it does not."""
    before = path.read_bytes()
    with Kernel.open(path, environ={}) as kernel:
        desk = kernel.for_tenant()
        assert [one["id"] for one in (await desk.runs())["items"]] == ["r"]
        assert (await desk.show("r"))["result"] == "done"
        assert (await kernel.tenants.list())[0]["id"] == "default"
        assert kernel.verify().ok
        if writes:
            async with kernel.run("s") as run:
                run.finish(1)
            return
        with pytest.raises(StoreUnavailable, match="read-only") as refused:
            async with kernel.run("s"):
                pass
        assert "copy it" in str(refused.value.hint)
    assert path.read_bytes() == before


@contextmanager
def mounted(folder: Path, path: Path) -> Iterator[Path]:
    """A read-only file system with a copy of the database."""
    place = folder / "medium"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        shutil.copy(path, place / "state.db")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        yield place / "state.db"
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_database_on_a_read_only_mount_is_read(tmp_path: Path) -> None:
    with mounted(tmp_path, made(tmp_path)) as path:
        with pytest.raises(OSError):
            path.with_name("other").touch()

        asyncio.run(looked_at(path))

        listed = subprocess.run(
            [sys.executable, "-m", "artelier", "runs", "list", "--db", str(path)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert listed.returncode == 0 and "r " in listed.stdout, listed.stderr


@pytest.mark.parametrize("mode", [(0o444, 0o755), (0o444, 0o555), (0o644, 0o555)])
def test_a_database_without_the_right_to_write_is_read(tmp_path: Path, mode: tuple[int, int]) -> None:
    asyncio.run(looked_at(made(tmp_path), writes=True))  # what is imported on the way is there now
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = made(folder)
        path.chmod(mode[0])
        folder.chmod(mode[1])
        with as_somebody():
            asyncio.run(looked_at(path))
        folder.chmod(0o755)


def test_a_database_of_an_earlier_version_without_the_right_to_write_is_read(tmp_path: Path) -> None:
    """What later versions add to a file cannot be added there."""
    asyncio.run(looked_at(made(tmp_path), writes=True))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = made(folder)
        with closing(sqlite3.connect(path)) as db:
            db.execute("DROP INDEX runs_awake")
            take_back(db, 4)
            db.execute("PRAGMA journal_mode = DELETE")
        path.chmod(0o444)
        folder.chmod(0o555)
        with as_somebody():
            asyncio.run(looked_at(path))
        folder.chmod(0o755)


@contextmanager
def as_somebody() -> Iterator[None]:
    """As a user whom permissions bind, if this is root."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_database_that_can_be_written_is_opened_to_be_written(tmp_path: Path) -> None:
    path = made(tmp_path)

    async def work() -> None:
        with Kernel.open(path, environ={}) as kernel:
            async with kernel.run("s") as run:
                run.finish(1)

    asyncio.run(work())
