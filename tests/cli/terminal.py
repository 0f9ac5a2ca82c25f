"""A command in a real pseudo-terminal, with somebody who types answers."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.processes import WarmPython

TIMEOUT_S = 60.0
KILL = "kill -9"
"""Instead of an answer: the process is killed at this moment."""
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Seen:
    """What stood on the terminal; `text` is `raw` without styles and carriage returns."""

    code: int
    raw: str

    @property
    def text(self) -> str:
        return _STYLE.sub("", self.raw).replace("\r", "")


def on_terminal(
    words: Sequence[str], *, folder: Path, typed: Sequence[tuple[str, str]] = (), **environ: str
) -> Seen:
    """Run a command; whenever the next text of `typed` appears, its answer is typed."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = WarmPython(
        [sys.executable, "-m", "artelier", *words],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_take_terminal,
        env={**kept, "TERM": "xterm-256color", "COLUMNS": "100", **environ},
    )
    os.close(theirs)
    try:
        raw = _converse(ours, list(typed), process)
        return Seen(process.wait(TIMEOUT_S), raw)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C is a signal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _converse(terminal: int, typed: list[tuple[str, str]], process: subprocess.Popen[bytes]) -> str:
    raw, looked = b"", 0
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.5)
        piece = b""
        if ready:
            with contextlib.suppress(OSError):  # EIO: the other side is closed
                piece = os.read(terminal, 65536)
            if not piece:
                return raw.decode(errors="replace")
        raw += piece
        if typed and typed[0][0].encode() in raw[looked:]:
            looked = len(raw)
            answer = typed.pop(0)[1]
            if answer == KILL:
                process.kill()
            else:
                os.write(terminal, answer.encode())
    raise TimeoutError(f"the command did not end; it showed {raw[-2000:]!r}")
