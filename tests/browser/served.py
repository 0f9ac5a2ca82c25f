"""A real `artelier up` in a process of its own, which tests sign in to, stop, kill and start again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

WAIT_S = 40.0
"""For anything that a loaded machine must do."""


class Served:
    """One database and the server over it; `start` again after `stop` or `kill` keeps port and sessions."""

    def __init__(self, folder: Path, *options: str, workspace: Path | None = None) -> None:
        self.folder = folder
        self.database = folder / "state.db"
        self.port = _free_port()
        self._options = [*options]
        if workspace is not None:
            self._options += ["--workspace", str(workspace)]
        self._process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []
        self._listener: threading.Thread | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *options: str) -> str:
        """Serve, with more options than before if some are given; the link that signs in once."""
        self._options += options
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "artelier",
                "up",
                "--db",
                str(self.database),
                "--port",
                str(self.port),
                *self._options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=_environment(),
        )
        self._process, self._lines = process, []
        told = threading.Event()
        self._listener = threading.Thread(target=self._listen, args=(process.stdout, told), daemon=True)
        self._listener.start()
        if not told.wait(WAIT_S) or process.poll() is not None:
            self.kill()
            raise AssertionError("artelier up printed no link:\n" + "".join(self._lines))
        return next(line.strip() for line in self._lines if "?token=" in line)

    def _listen(self, output: IO[str] | None, told: threading.Event) -> None:
        assert output is not None
        with output:
            for line in output:
                self._lines.append(line)
                if "?token=" in line:
                    told.set()
        told.set()

    def stop(self) -> str:
        """End it as Ctrl-C does; what it printed."""
        return self._end(signal.SIGINT)

    def kill(self) -> None:
        """`kill -9`."""
        self._end(signal.SIGKILL)

    def _end(self, sign: signal.Signals) -> str:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(sign)
            process.wait(WAIT_S)
            if process.stdin is not None:
                process.stdin.close()
        if self._listener is not None:
            self._listener.join(WAIT_S)
        return "".join(self._lines)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment() -> dict[str, str]:
    """Without what a developer's shell has set for Artelier."""
    return {name: text for name, text in os.environ.items() if not name.startswith("ARTELIER_")}
