"""A server in a thread of this process, for models and tools that only a test has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from artelier import Kernel
from artelier.server.app import create_app
from artelier.server.settings import ServerSettings
from tests.browser.served import WAIT_S
from tests.server.house import on_a_port


@contextmanager
def inside(folder: Path, open_kernel: Callable[[Path], Kernel], **settings: Any) -> Iterator[str]:
    """While it is open, the server runs; the link that signs in once."""
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    links: list[str] = []
    failed: list[BaseException] = []
    ready = threading.Event()

    async def serve() -> None:
        stop = asyncio.Event()
        begun.append((asyncio.get_running_loop(), stop))
        kernel = open_kernel(folder / "state.db")
        try:
            app = create_app(
                kernel, settings=ServerSettings(secret_file=folder / "sessions", **settings)
            )
            async with on_a_port(app) as address:
                links.append(f"{address}/?token={app.state.gate.sessions.link()}")
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
        assert ready.wait(WAIT_S) and links, f"the server did not start: {failed}"
        yield links[0]
    finally:
        for loop, stop in begun:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop.set)
        thread.join(WAIT_S)
        assert not failed, failed
