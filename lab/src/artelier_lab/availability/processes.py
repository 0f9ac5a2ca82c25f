"""The processes of a trial: started, measured through `/proc`, and killed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWER_S = 45.0
"""How long a process may take to answer a line; one that takes longer is frozen."""


@dataclass(frozen=True, slots=True)
class Level:
    """The resources that a tree of processes holds."""

    files: int
    threads: int
    children: int

    def is_within(self, before: Level) -> bool:
        """Return whether nothing has stayed behind; pools may hold a thread or a file more."""
        return (
            self.files <= before.files + FILES_MORE
            and self.threads <= before.threads + THREADS_MORE
            and self.children <= before.children + CHILDREN_MORE
        )


FILES_MORE, THREADS_MORE, CHILDREN_MORE = 16, 48, 2
"""By how much pools may differ from the level before that keep what they made: anyio has 40 threads."""


class Process:
    """A program of this package that answers lines of JSON."""

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("ARTELIER_")}
        with log.open("ab") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", f"artelier_lab.availability.{module}", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environ,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    async def answer(self, within_s: float = ANSWER_S) -> dict[str, Any]:
        """Errors: `TimeoutError` if it is frozen; `EOFError` if it is gone."""
        assert self._popen.stdout is not None
        async with asyncio.timeout(within_s):
            line = await asyncio.to_thread(self._popen.stdout.readline)
        if not line:
            raise EOFError("the process is gone")
        return json.loads(line)

    def say(self, line: str) -> None:
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):
            self._popen.stdin.write(f"{line}\n".encode())
            self._popen.stdin.flush()

    async def ask(self, asked: Any, within_s: float = ANSWER_S) -> dict[str, Any]:
        self.say(asked if isinstance(asked, str) else json.dumps(asked))
        return await self.answer(within_s)

    def kill(self) -> None:
        """Kill it and all below it."""
        tree = _tree(self.pid)
        self._popen.kill()
        self._popen.wait()
        for pid in tree[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def level(self) -> Level:
        tree = _tree(self.pid)
        own = Path(f"/proc/{self.pid}")
        return Level(files=_count(own / "fd"), threads=_count(own / "task"), children=len(tree) - 1)

    def rss_mb(self) -> float:
        """Return the resident memory of the process with all below it."""
        return rss_bytes(self.pid) / 2**20


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process with all below it, each page once.

    A child that has not begun its program yet, for a millisecond, has its parent's pages: counted twice,
    a server of 500 MB would seem to take 1 GB at that moment.
    """
    total, waiting = 0, [(pid, b"")]
    while waiting:
        one, parent = waiting.pop()
        command = _command(one)
        if not parent or command != parent:
            total += _rss_bytes(one)
        waiting += [(child, command) for child in _children(one)]
    return total


def _tree(pid: int) -> list[int]:
    found, waiting = list[int](), [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += _children(one)
    return found


def _children(pid: int) -> list[int]:
    found = list[int]()
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _count(folder: Path) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


def _rss_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
