"""The HTTP client of provider calls: no retries, no unbounded reply. Imported only when one is made."""

from __future__ import annotations

import asyncio
import base64
import secrets
import zlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import urlsplit

import httpx2

from artelier.errors import InvalidRequest
from artelier.models.params import dropped_of
from artelier.ports.model import sending

# The HTTP body of a call that shows media: their base64 is made piece by piece, while it is sent.

_HEAD = b"artelier media:"
_PIECE_BYTES = 96 * 1024
"""A multiple of three, so that pieces of base64 join without padding."""


class MediaBody:
    """The stand-ins of one call. Every part of one is a multiple of three bytes long, as base64 counts."""

    def __init__(self, media: Mapping[str, bytes], shown: Sequence[str]) -> None:
        """Take the bytes of media by reference, and the references that the messages show, in order."""
        self._media = media
        self._refs = [*media]
        self._places = len(shown)
        # Nobody can write the stand-in of a call into its text: it holds a random number. Hexadecimal digits
        # are the same in both alphabets of base64.
        self._token = secrets.token_hex(12).encode()
        self.refusal: InvalidRequest | None = None
        """The error that an SDK hides behind one of its own."""

    @property
    def stand_ins(self) -> dict[str, bytes]:
        """The bytes that an SDK is given for each medium."""
        return {ref: b"%b%b%03d" % (_HEAD, self._token, number) for number, ref in enumerate(self._refs)}

    def split(self, body: bytes) -> list[bytes | str]:
        """Return the pieces of a body that an SDK made: what it wrote, and references where media go.

        Errors: `InvalidRequest` if a stand-in is not there as base64: then the SDK did something else to it.
        """
        numbers = {base64.b64encode(b"%03d" % number): ref for number, ref in enumerate(self._refs)}
        first, *others = body.split(base64.b64encode(_HEAD + self._token))
        pieces: list[bytes | str] = [first]
        for other in others:
            pieces += [numbers.get(other[:4], ""), other[4:]]
        if len(others) != self._places or "" in pieces:
            self.refusal = InvalidRequest(
                "the provider's SDK does not send media as base64",
                expected=f"{self._places} media in the body",
                got=f"{len(others)}",
                hint="Nothing was sent. Send text, or use another provider.",
            )
            raise self.refusal
        return pieces

    def stream(self, pieces: list[bytes | str]) -> tuple[httpx2.AsyncByteStream, int]:
        """Return the body with its media, and its length in bytes."""
        whole = [self._media[piece] if isinstance(piece, str) else piece for piece in pieces]
        length = sum(
            -(-len(content) // 3) * 4 if place % 2 else len(content) for place, content in enumerate(whole)
        )
        return _Base64Between(whole), length


class _Base64Between(httpx2.AsyncByteStream):
    """Text as it is and, between each two texts, a medium as base64."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for place, content in enumerate(self._pieces):
            if place % 2 == 0:
                yield content
                continue
            view = memoryview(content)
            for begin in range(0, len(view), _PIECE_BYTES):
                yield base64.b64encode(view[begin : begin + _PIECE_BYTES])
                await asyncio.sleep(0)  # a write into an empty socket does not give way


_body: ContextVar[MediaBody | None] = ContextVar("media_body", default=None)


@contextmanager
def sending_media(body: MediaBody | None) -> Generator[None]:
    """Send the requests that are made inside with their media."""
    before = _body.set(body)
    try:
        yield
    finally:
        _body.reset(before)


async def put_media_into(request: httpx2.Request) -> bytes:
    """Replace the stand-ins of a request, and return its body with references in the places of its media.

    A request without media is left as it is. Errors: `InvalidRequest`, as of `MediaBody.split`.
    """
    body = await request.aread()
    if (media := _body.get()) is None:
        return body
    pieces = media.split(body)
    request.stream, length = media.stream(pieces)
    request.headers["Content-Length"] = str(length)
    return b"".join(piece.encode() if isinstance(piece, str) else piece for piece in pieces)


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
