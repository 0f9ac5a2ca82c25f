"""The workers as a supervisor sees them: real processes of `artelier worker` over one server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from artelier_lab.postgres_proxy import PostgresProxy
from artelier_lab.postgres_server import PostgresServer
from artelier_lab.torture.workers import payments

WORKERS, SLOTS = 4, 8
DRAIN_S = 10
PATIENCE_S = 120.0
"""How long a worker may take to end once it was told to; only one that hangs takes it all."""


STARTED_MAX = 200
"""Workers that one plan may need; only those that never work take them all."""


class Hand:
    """One worker."""

    def __init__(self, log: Path, environ: dict[str, str]) -> None:
        self.log = log
        words = [sys.executable, "-m", "artelier", "worker", "--slots", str(SLOTS), "--drain-s", str(DRAIN_S)]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*words, "--tools", payments.__file__],
                cwd=log.parent,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def is_ready(self) -> bool:
        """True once it looks for work; SIGTERM drains it from then on."""
        return "worker on" in self.log.read_text(errors="replace")

    def send(self, what: signal.Signals) -> None:
        self.process.send_signal(what)


class Crew:
    """Workers that are replaced when they end."""

    def __init__(
        self, server: PostgresServer, folder: Path, environ: dict[str, str], *, has_proxies: bool = False
    ) -> None:
        """`has_proxies`: each place in the crew has a proxy of its own before the server."""
        self.server = server
        self.proxies = [PostgresProxy(server.folder) for _ in range(WORKERS)] if has_proxies else []
        self._folder = folder
        self._environ = {**os.environ, **environ}
        self._started: list[Hand] = []
        self.counts: Counter[str] = Counter()
        """Of faults, and of how workers ended."""
        self.findings: list[str] = []
        self.stopped: list[Hand] = []
        """Those that SIGSTOP holds."""
        self._leaving: list[asyncio.Task[None]] = []
        self.hands = [self.start(place) for place in range(WORKERS)]

    def start(self, place: int) -> Hand:
        environ = self._environ
        if self.proxies:
            address = environ["ARTELIER_DB"].replace(str(self.server.folder), str(self.proxies[place].folder))
            environ = {**environ, "ARTELIER_DB": address}
        hand = Hand(self._folder / f"worker-{len(self._started)}.log", environ)
        self._started.append(hand)
        return hand

    def watch(self) -> None:
        """Replace workers that have ended by themselves, as a supervisor does."""
        for index, hand in enumerate(self.hands):
            if (code := hand.process.poll()) is not None:
                if len(self._started) > STARTED_MAX:
                    raise RuntimeError(f"workers end again and again: {hand.log.read_text()[-500:]}")
                self.counts[f"ended by itself with {code}"] += 1
                self.hands[index] = self.start(index)

    def kill(self, hand: Hand) -> None:
        self.counts["kill -9"] += 1
        hand.send(signal.SIGKILL)
        hand.process.wait()
        self._replace(hand)

    def drain(self, hand: Hand) -> None:
        """Start another one, then have this one give its runs back."""
        self.counts["SIGTERM"] += 1
        self._replace(hand)
        self._leaving.append(asyncio.ensure_future(self._leave(hand)))

    def _replace(self, hand: Hand) -> None:
        place = self.hands.index(hand)
        self.hands[place] = self.start(place)

    async def _leave(self, hand: Hand) -> None:
        hand.send(signal.SIGTERM)
        try:
            code = await asyncio.to_thread(hand.process.wait, PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = None
            hand.process.kill()
        if code != 0:
            self.findings.append(f"a worker that was told to end ended with {code}: {hand.log}")

    def wake(self) -> None:
        """Let workers that were stopped go on."""
        while self.stopped:
            self.stopped.pop().send(signal.SIGCONT)

    async def end(self) -> None:
        """Drain all; none may hang or fail."""
        self.wake()
        leaving = [self._leave(hand) for hand in self.hands if hand.process.poll() is None]
        await asyncio.gather(*leaving, *self._leaving)

    def close(self) -> None:
        """Kill whatever is left."""
        for hand in self._started:
            if hand.process.poll() is None:
                hand.process.kill()
                hand.process.wait()
        for proxy in self.proxies:
            proxy.close()
