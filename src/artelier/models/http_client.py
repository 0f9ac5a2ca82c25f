"""The HTTP client of provider calls: no retries, no unbounded reply. Imported only when one is made."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from urllib.parse import urlsplit

import httpx2

from artelier.models.media_body import put_media_into
from artelier.models.params import dropped_of
from artelier.ports.model import sending

REPLY_BYTES_MAX = 32 * 1024 * 1024
"""The largest reply body that is read; ten times the text of the largest output window."""

BESIDE_BYTES = 256 * 1024
"""Of a body that is read in a thread: smaller ones cost less than the thread."""

_CONNECT_S = 10.0
_CONNECTIONS_MAX = 1_000
_IDLE_MAX = 100
_INFLATE_BYTES = 1024 * 1024


class ReplyCutOff(httpx2.RemoteProtocolError):
    """The connection failed after the head of the reply had arrived."""


class ReplyTooLarge(httpx2.RemoteProtocolError):
    """The body passed `REPLY_BYTES_MAX`; the rest was not read."""


def open_client(base_url: str | None) -> httpx2.AsyncClient:
    """A client for one event loop. It follows no redirects: a key goes only where it was meant to.

    Proxies are taken from the environment. Plain `http` is a server on this machine or network: its
    connections are not kept, so that none outlives the event loop unclosed; a new one costs nothing.
    """
    is_local = base_url is not None and urlsplit(base_url).scheme == "http"
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=_CONNECT_S),
        limits=httpx2.Limits(
            max_connections=_CONNECTIONS_MAX, max_keepalive_connections=0 if is_local else _IDLE_MAX
        ),
        headers={"Accept-Encoding": "gzip"},
        event_hooks={"request": [_note_body], "response": [_bound_body]},
    )


async def _note_body(request: httpx2.Request) -> None:
    """Put media into the body, and record what is sent for the call at hand and what is not in it."""
    body = await put_media_into(request)
    if (sent := sending.get()) is not None:
        sent.body = body
        if len(body) <= BESIDE_BYTES:
            sent.dropped = dropped_of(sent.params, body)
        else:
            sent.dropped = await asyncio.to_thread(dropped_of, sent.params, body)


async def _bound_body(response: httpx2.Response) -> None:
    """Replace the body's stream by one that stops at the limit, counted after decompression.

    An error's body is read at once: not every SDK does that before it looks at it.
    """
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    encoding = response.headers.pop("content-encoding", "identity").strip().lower()
    response.stream = _BoundedStream(response.stream, encoding=encoding)
    if response.is_error:
        await response.aread()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, *, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read_bytes = 0
        inflate = _inflater(self._encoding)
        try:
            async for chunk in self._stream:
                for piece in inflate(chunk):
                    read_bytes += len(piece)
                    if read_bytes > REPLY_BYTES_MAX:
                        raise ReplyTooLarge(f"the reply is larger than {REPLY_BYTES_MAX} bytes")
                    yield piece
        except (ReplyTooLarge, httpx2.TimeoutException):
            raise
        except (httpx2.TransportError, zlib.error) as error:
            raise ReplyCutOff(str(error) or type(error).__name__) from error

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Inflate:
    """Decompresses piece by piece, so that a small body cannot unfold into a huge one at once."""

    def __init__(self) -> None:
        # 32 + 15: a gzip or zlib header, whichever comes.
        self._decoder = zlib.decompressobj(wbits=47)

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            yield self._decoder.decompress(chunk, _INFLATE_BYTES)
            chunk = self._decoder.unconsumed_tail


def _plain(chunk: bytes) -> Iterator[bytes]:
    yield chunk


def _inflater(encoding: str) -> Callable[[bytes], Iterator[bytes]]:
    if encoding in ("", "identity"):
        return _plain
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _Inflate()
    raise ReplyCutOff(f"the reply is encoded as {encoding[:40]!r}, and only gzip was offered")
