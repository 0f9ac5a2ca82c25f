"""A proxy before a database, in which connections break at the worst moments."""

from __future__ import annotations

import asyncio
import select
import shutil
import socket
import tempfile
import threading
from contextlib import closing, suppress
from pathlib import Path

from artelier.errors import StoreUnavailable
from artelier.log.places import open_store, verify_place
from artelier.testing.conformance.stage import TALLY, batch, stream, total

SYNC = b"S\x00\x00\x00\x04"
"""The protocol's message that ends what is sent in one piece."""

LOCK = b"FOR UPDATE"
"""How a writer begins; who looks or listens does not."""


class Proxy:
    """A socket before that of a server or of a pooler, which cuts the connection around a commit."""

    def __init__(self, target: Path) -> None:
        """`target`: the folder of the socket."""
        self.folder = Path(tempfile.mkdtemp(prefix="proxy-", dir=target.parent))
        self.folder.chmod(0o711)
        self._target = str(target / ".s.PGSQL.5432")
        self.cut: str = ""
        """`before` or `after` the server has what the writer sends next; empty for neither."""
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
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._threads.append(threading.Thread(target=self._pass_on, args=(client, server)))
            self._threads[-1].start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, suppress(OSError):
            is_answered = False
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if server in ready:
                    is_answered = True
                    if not self._move(server, client):
                        return
                if client in ready:
                    self.turns += is_answered
                    is_answered = False
                    if not self._ask(client, server):
                        return

    def _move(self, source: socket.socket, target: socket.socket) -> bytes:
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
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.folder / ".s.PGSQL.5432"))
            last.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()
        shutil.rmtree(self.folder)


def check_commits_in_doubt(proxy: Proxy, *, through: str, direct: str, cut: str, count: int) -> None:
    """Append so often through a proxy that cuts each commit; each ends in a receipt, or in nothing.

    `through`: the address of the store that leads over the proxy, `direct` one that does not.
    """
    told: list[int] = []
    is_armed = False

    def fault(instant: str) -> None:
        if instant == "commit.before" and is_armed:
            proxy.cut = cut

    async def append() -> None:
        nonlocal is_armed
        with closing(open_store(through, (TALLY,), fault=fault)) as store:
            await store.append(batch("run:a", 1))
            is_armed = True
            for number in range(2, count + 2):
                with suppress(StoreUnavailable):
                    await store.append(batch("run:a", number, expected=len(told) + 1))
                    told.append(number)

    async def check() -> None:
        with closing(open_store(direct, (TALLY,))) as store:
            numbers = [event.plain()["number"] for event in await store.read(stream("run:a"))]
            assert numbers == [1, *told]
            assert await total(store, "run:a") == sum(numbers)

    asyncio.run(append())
    asyncio.run(check())
    assert proxy.cuts == count
    assert len(told) == (count if cut == "after" else 0)
    assert verify_place(direct, (TALLY,)).findings == []


def count_waits(proxy: Proxy, *, through: str) -> int:
    """Return how often a writer waits for an append: the least of twenty, since it looks around meanwhile.

    There is no view, which may read.
    """
    waits: list[int] = []

    async def append() -> None:
        with closing(open_store(through, ())) as store:
            for number in range(1, 22):
                before = proxy.turns
                await store.append(batch("run:a", number, expected=number - 1))
                waits.append(proxy.turns - before)

    asyncio.run(append())
    return min(waits[1:])
