"""A PgBouncer before the server that tests start: it has few connections, each lent for a transaction."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from artelier_lab.postgres_server import PostgresServer

POOL_SIZE = 2
"""Connections to the server for each database: with two, statements of one store meet both of them."""

START_S = 10.0


def find_pgbouncer() -> str | None:
    """Return the program; None where the Debian package `pgbouncer` is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class PgBouncer:
    """A pooler on a socket in a folder of its own."""

    def __init__(
        self,
        program: str,
        server_folder: Path,
        *,
        pool_mode: str = "transaction",
        pool_size: int = POOL_SIZE,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        """`server_folder`: where the server's socket is, or that of a proxy before it.

        `tls`: the files of a certificate and of its key; then it is at `port` of the loopback, too, and takes
        encrypted connections alone there.
        """
        self.port = 5432 if tls is None else _free_port()
        self.folder = Path(
            tempfile.mkdtemp(prefix="pgb-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        )
        self._program = program
        self._user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
        settings = self.folder / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\n* = host={server_folder} port=5432 user=artelier\n"
            f"[pgbouncer]\nlisten_addr =\nlisten_port = 5432\nunix_socket_dir = {self.folder}\n"
            f"auth_type = any\npool_mode = {pool_mode}\ndefault_pool_size = {pool_size}\n"
            "server_round_robin = 1\nserver_idle_timeout = 1\nserver_login_retry = 0.1\n"
            "max_client_conn = 200\n"
        )
        if tls is not None:
            copied = [Path(shutil.copy(file, self.folder)) for file in tls]
            for file in copied:
                shutil.chown(file, self._user or os.getuid())
            with settings.open("a") as more:
                more.write(
                    f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nclient_tls_sslmode = require\n"
                    f"client_tls_cert_file = {copied[0]}\nclient_tls_key_file = {copied[1]}\n"
                )
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        os.chmod(self.folder, 0o711)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, str(self.folder / "pgbouncer.ini")],
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + START_S
        while time.monotonic() < end and self._process.poll() is None:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(self.folder / f".s.PGSQL.{self.port}")) == 0:
                    return
            time.sleep(0.01)
        raise RuntimeError(f"pgbouncer did not start:\n{(self.folder / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        """End it at once: its clients' connections are cut, whatever they are at.

        What SIGTERM does differs between its versions.
        """
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, server: PostgresServer, direct: str) -> str:
        """Return the address of a database through this pooler, from that over the server's own socket."""
        return direct.replace(str(server.folder), str(self.folder))
