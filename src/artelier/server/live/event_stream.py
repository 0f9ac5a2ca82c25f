"""A response of server-sent events: frames as they come, until either side has enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

TYPE = "text/event-stream"


class EventStream(Response):
    """Sends frames that are already encoded. A client that goes away ends the iterator at once."""

    media_type = TYPE

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.frames = frames

    def map_frames(self, change: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]) -> EventStream:
        """The same response with other frames."""
        self.frames = change(self.frames)
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_wait_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            results = await asyncio.gather(sending, leaving, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _send(self, send: Send) -> None:
        frames = self.frames
        try:
            async for frame in frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            close = getattr(frames, "aclose", None)
            if close is not None:
                await close()


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
