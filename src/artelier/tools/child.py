"""A helper process for work that can't be trusted to end: queries and patterns that a model wrote.

Inside one process neither a regular expression nor a database function can be stopped once it runs,
and both can take all memory. A process can be given a memory limit and can be killed. It gets no
environment, no secrets and only the files that are handed to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
import weakref
from collections.abc import Iterable
from typing import Any, cast

from artelier.errors import ToolFailed

ANSWER_BYTES_MAX = 16 * 1024 * 1024


class ChildStopped(Exception):
    """The process is gone: `timed_out` if it was killed for its time, else it died by itself."""

    def __init__(self, *, timed_out: bool) -> None:
        super().__init__("timed out" if timed_out else "died")
        self.timed_out = timed_out


class Child:
    """One process of a worker module, asked one thing at a time in lines of JSON."""

    def __init__(
        self, *, descriptors: Iterable[int] = (), module: str = "artelier.tools.worker"
    ) -> None:
        """Shapes: `descriptors` are open files that the process may read; the caller keeps its own.
        Errors: `ToolFailed` if no process can be started here.
        """
        if os.name != "posix":
            raise ToolFailed("this tool needs a POSIX system")
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable or "python3",
                    "-P",
                    "-s",
                    "-X",
                    "utf8",
                    "-m",
                    module,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                cwd="/",
                pass_fds=tuple(descriptors),
            )
        except OSError as error:
            raise ToolFailed(
                f"the helper process does not start: {os.strerror(error.errno or 0)}"
            ) from None
        # Also when nobody closes it: at the latest when the program ends.
        self._finish = weakref.finalize(self, _end, self._process)
        self._buffer = b""

    @property
    def alive(self) -> bool:
        return self._finish.alive and self._process.poll() is None

    def ask(self, message: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The answer to one message. Errors: `ChildStopped`; the process is then gone for good."""
        deadline = time.monotonic() + timeout_s
        line = json.dumps({**message, "timeout_s": timeout_s}).encode() + b"\n"
        try:
            stdin = self._process.stdin
            assert stdin is not None
            stdin.write(line)
            stdin.flush()
            return cast("dict[str, Any]", json.loads(self._line(deadline)))
        except (OSError, ValueError):
            self.close()
            raise ChildStopped(timed_out=False) from None

    def _line(self, deadline: float) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        descriptor = stdout.fileno()
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                self.close()
                raise ChildStopped(timed_out=True)
            piece = os.read(descriptor, 1 << 20)
            if not piece or len(self._buffer) > ANSWER_BYTES_MAX:
                self.close()
                raise ChildStopped(timed_out=False)
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def kill(self) -> None:
        """End the process, from any thread: who waits for its answer gets `ChildStopped`, and cleans up."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End the process; does nothing the second time."""
        self._finish()


def _environment() -> dict[str, str]:
    """What the interpreter needs to find its libraries, and nothing of what this process knows."""
    paths = [path for path in sys.path if os.path.isabs(path)]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()
