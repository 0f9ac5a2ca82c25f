"""A server in a thread of this process: for models and tools that only a test has, and quick to start."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from artelier import Kernel
from artelier.kernel.policy import Workspaces
from artelier.server.app import create_app
from artelier.server.settings import ServerSettings
from artelier_offline import OfflineModel
from tests.browser.served import WAIT_S
from tests.server.house import on_a_port

LOOK_S = 0.02
"""The longest that a reply is held after its gate has opened."""


class Gate:
    """Lets the offline model reply at once, or holds its replies until it is opened again.

    So a journey stops in the middle of a call for as long as it needs, and not for a number of seconds.
    """

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._is_open.set()

    def hold(self) -> None:
        self._is_open.clear()

    def open(self) -> None:
        self._is_open.set()

    def offline(self) -> OfflineModel:
        """The model that waits here before each reply."""
        return OfflineModel(pace_s=1, clock=self)

    # A clock, by which the offline model takes its time

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    async def sleep(self, seconds: float) -> None:
        # Without a bound, since a machine may be busy for longer than any; a server that stops cancels it.
        while not self._is_open.is_set():
            await asyncio.sleep(LOOK_S)


def offline(gate: Gate | None = None, **more: Any) -> Callable[[Path], Kernel]:
    """Opens a kernel with the offline model, as `artelier up` does."""

    def opened(path: Path) -> Kernel:
        models = {} if gate is None else {"offline": gate.offline()}
        return Kernel.open(path, models=models, environ={}, **more)

    return opened


@dataclass(frozen=True, slots=True)
class Inside:
    address: str
    _app: FastAPI

    def link(self) -> str:
        """A new one, which signs in once."""
        return f"{self.address}/?token={self._app.state.gate.sessions.link()}"


@contextmanager
def inside(
    folder: Path, open_kernel: Callable[[Path], Kernel], *, workspace: str | None = None, **settings: Any
) -> Iterator[Inside]:
    """While it is open, the server runs."""
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    there: list[Inside] = []
    failed: list[BaseException] = []
    ready = threading.Event()

    async def serve() -> None:
        stop = asyncio.Event()
        begun.append((asyncio.get_running_loop(), stop))
        kernel = open_kernel(folder / "state.db")
        if workspace is not None:
            kernel.services.workspaces = Workspaces(default=workspace)
        try:
            app = create_app(kernel, settings=ServerSettings(secret_file=folder / "sessions", **settings))
            async with on_a_port(app) as address:
                there.append(Inside(address, app))
                ready.set()
                await stop.wait()
        finally:
            await kernel.aclose()

    def work() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # told in the thread of the test
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        assert ready.wait(WAIT_S) and there, f"the server did not start: {failed}"
        yield there[0]
    finally:
        for loop, stop in begun:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop.set)
        thread.join(WAIT_S)
        assert not failed, failed
