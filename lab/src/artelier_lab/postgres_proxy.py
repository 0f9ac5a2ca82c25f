"""A proxy before a PostgreSQL server, in which connections break, or fall silent, at the worst moments."""

from __future__ import annotations

import asyncio
import select
import shutil
import socket
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

from artelier.log.places import open_store
from artelier.testing.conformance.stage import batch

SYNC = b"S\x00\x00\x00\x04"
"""The protocol's message that ends what is sent in one piece."""

LOCK = b"FOR UPDATE"
"""How a writer begins; who looks or listens does not."""

LOOK_S = 0.02
"""How often a connection is looked at that a partition holds."""

Direction = Literal["asks", "answers"]


class PostgresProxy:
    """A socket before that of a server or of a pooler."""

    def __init__(self, target: Path, *, delay_s: float = 0.0) -> None:
        """`target`: the folder of the socket. `delay_s`: by so much all that passes comes later, each way."""
        self.folder = Path(tempfile.mkdtemp(prefix="proxy-", dir=target.parent))
        self.folder.chmod(0o711)
        self._target = str(target / ".s.PGSQL.5432")
        self._delay_s = delay_s
        self.cut: str = ""
        """`before` or `after` the server has what the writer sends next; empty for neither."""
        self.held: frozenset[Direction] = frozenset()
        """What does not get through for now. It arrives later, as on a network that repeats it."""
        self._writer: socket.socket | None = None
        self.cuts = 0
        self.turns = 0
        """How often somebody has sent something after an answer: how often somebody has waited."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        (self.folder / ".s.PGSQL.5432").chmod(0o777)
        self._listener.listen(16)
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if not client.recv(1, socket.MSG_PEEK):
                client.close()
                return
            self._threads.append(threading.Thread(target=self._pass_on, args=(client,)))
            self._threads[-1].start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self._target)
            is_answered = False
            while True:
                for one in self._ready(client, server):
                    if one is server:
                        is_answered, goes_on = True, bool(self._move(server, client))
                    else:
                        self.turns += is_answered
                        is_answered, goes_on = False, self._ask(client, server)
                    if not goes_on:
                        return

    def _ready(self, client: socket.socket, server: socket.socket) -> list[socket.socket]:
        """Wait for what may get through, answers first; none where a partition has begun meanwhile."""
        ways: tuple[tuple[socket.socket, Direction], ...] = ((server, "answers"), (client, "asks"))
        held = self.held
        waited = [one for one, way in ways if way not in held]
        ready, _, _ = select.select(waited, [], [], LOOK_S if held else None)
        return [one for one, way in ways if one in ready and way not in self.held]

    def _move(self, source: socket.socket, target: socket.socket) -> bytes:
        if self._delay_s:
            time.sleep(self._delay_s)
        data = source.recv(65536)
        target.sendall(data)
        return data

    def _ask(self, client: socket.socket, server: socket.socket) -> bool:
        if LOCK in client.recv(65536, socket.MSG_PEEK):
            self._writer = client
        if not self.cut or client is not self._writer:
            return bool(self._move(client, server))
        cut, self.cut = self.cut, ""
        self.cuts += 1
        if cut == "after":
            while not self._move(client, server).endswith(SYNC):
                pass
            server.recv(65536)  # the answer, which nobody gets
        return False

    def close(self) -> None:
        self.held = frozenset()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.folder / ".s.PGSQL.5432"))
            last.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()
        shutil.rmtree(self.folder)


def count_waits(proxy: PostgresProxy, *, through: str) -> int:
    """Return how often a writer waits for an append: the least of twenty, since it looks around meanwhile.

    There is no view, which may read. `through`: the address of a store that leads over the proxy.
    """
    waits: list[int] = []

    async def append() -> None:
        with closing(open_store(through, ())) as store:
            for number in range(1, 22):
                before = proxy.turns
                await store.append(batch("run:waits", number, expected=number - 1))
                waits.append(proxy.turns - before)

    asyncio.run(append())
    return min(waits[1:])
