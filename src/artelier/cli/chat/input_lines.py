"""The input of a chat: the lines of a terminal, a pipe or a file, or messages given beforehand."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence

from artelier.cli.approvals import read_line
from artelier.errors import InvalidRequest

PIECE_BYTES = 65_536
LINE_BYTES_MAX = 4 * 1024 * 1024
"""Of one message in a pipe: as much as the longest that a chat takes."""


class Lines:
    """One line after another; `is_asked` tells whether a person types them now."""

    def __init__(self, messages: Sequence[str] = ()) -> None:
        """With `messages`, those and nothing else."""
        self._given: deque[str] | None = deque(messages) if messages else None
        self.is_asked = self._given is None and sys.stdin.isatty() and sys.stderr.isatty()
        self._pipe = None if self._given is not None or self.is_asked else _Pipe()

    async def next(self, prompt: str) -> str | None:
        """A line without its end; None after the last. Errors: `InvalidRequest` for an endless one."""
        if self._given is not None:
            return self._given.popleft() if self._given else None
        if self._pipe is None:
            line = await read_line(prompt)
            return None if line is None else line.rstrip("\r\n")
        return await self._pipe.next()


class _Pipe:
    """Standard input that is no terminal.

    A thread of its own reads, for neither files nor all pipes can be waited for in the event loop; it holds
    no lock of the interpreter, so that a process may end while it waits.
    """

    def __init__(self) -> None:
        try:
            self._descriptor: int | None = sys.stdin.fileno()
        except (io.UnsupportedOperation, ValueError):  # not a file at all
            self._descriptor = None
        self._left = b""
        self._is_over = False

    async def next(self) -> str | None:
        if self._descriptor is None:
            line = sys.stdin.readline()
            return line.rstrip("\r\n") if line else None
        while b"\n" not in self._left and not self._is_over:
            piece = await _read(self._descriptor)
            self._is_over = not piece
            self._left += piece
            if len(self._left) > LINE_BYTES_MAX and b"\n" not in self._left:
                raise InvalidRequest(
                    "a line of the input is too long", expected=f"at most {LINE_BYTES_MAX:,} bytes"
                )
        if not self._left:
            return None
        line, _, self._left = self._left.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")


async def _read(descriptor: int) -> bytes:
    """Some bytes; none at the end."""
    loop = asyncio.get_running_loop()
    read: asyncio.Future[bytes] = loop.create_future()

    def work() -> None:
        try:
            piece = os.read(descriptor, PIECE_BYTES)
        except OSError:
            piece = b""
        try:
            loop.call_soon_threadsafe(_set, read, piece)
        except RuntimeError:  # the loop has ended: nobody wants it any more
            pass

    threading.Thread(target=work, daemon=True, name="stdin").start()
    return await read


def _set(read: asyncio.Future[bytes], piece: bytes) -> None:
    if not read.done():
        read.set_result(piece)
