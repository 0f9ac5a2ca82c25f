"""A connection over which the server says that somebody has committed.

It saves waiting for the next look, and nothing depends on it: a process that is told nothing looks ten times
a second, as it does over a file. What is told is the server process of each committer, so that a process does
not look at its own commits.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import closing, suppress

import psycopg

from artelier.errors import ArtelierError
from artelier.log.contract import Row
from artelier.log.postgres.connection import COMMITTED, connect

COALESCED_MS = 20
"""Notices of this long are one: a busy database commits hundreds of times a second."""

AGAIN_MS = 1_000
"""The time until another connection is tried after one was cut."""


class CommitListener:
    """A thread that calls `on_notice` with the server processes that have committed, until it is closed.

    It connects by itself, and again when the connection is cut. After each connection `on_notice` gets an
    empty set: what was committed before is told to nobody.
    """

    def __init__(self, parameters: dict[str, str], on_notice: Callable[[set[int]], None]) -> None:
        self._parameters = parameters
        self._on_notice = on_notice
        self._end, self._ending = os.pipe()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, name="artelier-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and its connection. In a fork, where there is no thread, nothing is done."""
        if self._pid != os.getpid():
            return
        os.close(self._ending)
        self._thread.join()
        os.close(self._end)

    def _work(self) -> None:
        while True:
            with suppress(psycopg.Error, ArtelierError, OSError), closing(connect(self._parameters)) as db:
                db.execute(f"LISTEN {COMMITTED}".encode())
                self._on_notice(set())
                while not self._is_ended(db.fileno()):
                    if processes := _take_notices(db):
                        self._on_notice(processes)
                    if self._is_ended(timeout_ms=COALESCED_MS):
                        return
                return
            if self._is_ended(timeout_ms=AGAIN_MS):
                return

    def _is_ended(self, file: int | None = None, *, timeout_ms: int | None = None) -> bool:
        """Wait for the end, for something to read from a file, or for a time. Returns True at the end."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN | select.POLLHUP)
        if file is not None:
            poll.register(file, select.POLLIN)
        return any(ready == self._end for ready, _ in poll.poll(timeout_ms))


def _take_notices(db: psycopg.Connection[Row]) -> set[int]:
    """Return the server processes of the notices that have come. Errors: `OperationalError` if it is cut."""
    db.pgconn.consume_input()
    processes: set[int] = set()
    while (notice := db.pgconn.notifies()) is not None:
        processes.add(notice.be_pid)
    return processes
