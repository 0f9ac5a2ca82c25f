"""The HTTP client of provider calls: no retries, no unbounded reply. Imported only when one is made."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import zlib
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from json.encoder import encode_basestring as json_text
from urllib.parse import urlsplit

import httpx2

from artelier.errors import InvalidRequest
from artelier.models.params import dropped_of
from artelier.ports.model import sending
from artelier.threads import read_beside_loop

# The HTTP body of a large call: its SDK is given stand-ins for media and long texts. It would make base64 of
# media and JSON of texts while nobody else has a turn; here both are made piece by piece.

_MEDIUM_HEAD = b"artelier media:"
_TEXT_HEAD = b"artelier text:"
_PIECE_BYTES = 96 * 1024
"""A multiple of three, so that pieces of base64 join without padding."""

TEXT_CHARS_MIN = 1_000
"""Shorter texts are left to the SDK: a hundred of them take it less than a millisecond."""
_ENCODED_CHARS = 64 * 1024
"""Of a text at once, about 100 us: nothing else has the interpreter meanwhile."""
_NUMBER = re.compile(rb'\\"([0-9]+)\\"')


class BodyContents:
    """The media and long texts of one call, and what stands for them until its body is sent.

    Nobody can write the stand-in of a call into its text: it holds a random number. In that of a medium each
    part is a multiple of three bytes long, as base64 counts, and hexadecimal digits are the same in both
    alphabets of base64. That of a text holds quotation marks, which show how often it has been escaped.
    """

    def __init__(self, media: Mapping[str, bytes], shown: Sequence[str]) -> None:
        """Take the bytes of media by reference, and the references that the messages show, in order."""
        self._media = media
        self._refs = [*media]
        self._places = len(shown)
        self._texts: list[list[bytes]] = []
        self.size_bytes = 0
        """Of the texts."""
        self._token = secrets.token_hex(12).encode()
        self.refusal: InvalidRequest | None = None
        """The error that an SDK hides behind one of its own."""

    @property
    def stand_ins(self) -> dict[str, bytes]:
        """The bytes that an SDK is given for each medium."""
        return {
            ref: b"%b%b%03d" % (_MEDIUM_HEAD, self._token, number) for number, ref in enumerate(self._refs)
        }

    def hold(self, text: str) -> str:
        """Return what an SDK is given for a text, which is put into JSON here; itself if it is short.

        One of spaces alone is left to the SDK as well, which may leave it out.
        """
        if len(text) < TEXT_CHARS_MIN or text.isspace():
            return text
        starts = range(0, len(text), _ENCODED_CHARS)
        slices = [json_text(text[at : at + _ENCODED_CHARS])[1:-1].encode() for at in starts]
        self._texts.append(slices)
        self.size_bytes += sum(map(len, slices))
        return f'{_TEXT_HEAD.decode()}{self._token.decode()}"{len(self._texts) - 1}"'

    def split(self, body: bytes) -> list[bytes | str]:
        """Return the pieces of a body that an SDK made, with their texts, and references where media go.

        Errors: `InvalidRequest` if the stand-in of a medium is not there as base64, or that of a text not as
        a string of JSON: then the SDK did something else to it.
        """
        numbers = {base64.b64encode(b"%03d" % number): ref for number, ref in enumerate(self._refs)}
        first, *others = body.split(base64.b64encode(_MEDIUM_HEAD + self._token))
        pieces: list[bytes | str] = [*self._with_texts(first)]
        for other in others:
            pieces += [numbers.get(other[:4], ""), *self._with_texts(other[4:])]
        if len(others) != self._places or "" in pieces:
            raise self._refuse("media as base64", f"{self._places} media in the body", f"{len(others)}")
        return [*_join_small(pieces)]

    def _with_texts(self, written: bytes) -> Iterator[bytes]:
        first, *others = written.split(_TEXT_HEAD + self._token)
        yield first
        for other in others:
            number = _NUMBER.match(other)
            if number is None:
                raise self._refuse("texts as strings", "each text escaped once", repr(other[:8]))
            yield from self._texts[int(number[1])]
            yield other[number.end() :]

    def _refuse(self, way: str, expected: str, got: str) -> InvalidRequest:
        self.refusal = InvalidRequest(
            f"the provider's SDK does not send {way}",
            expected=expected,
            got=got,
            hint="Nothing was sent. Send short texts alone, or use another provider.",
        )
        return self.refusal

    def stream(self, pieces: list[bytes | str]) -> tuple[httpx2.AsyncByteStream, int]:
        """Return the body with its media, and its length in bytes."""
        length = sum(
            -(-len(self._media[piece]) // 3) * 4 if isinstance(piece, str) else len(piece) for piece in pieces
        )
        return _BodyStream(pieces, self._media), length


def _join_small(pieces: Iterable[bytes | str]) -> Iterator[bytes | str]:
    """Join text in a row to pieces that are worth a write each."""
    row: list[bytes] = []
    size_bytes = 0
    for piece in (*pieces, ""):
        if isinstance(piece, bytes):
            row.append(piece)
            size_bytes += len(piece)
        if row and (isinstance(piece, str) or size_bytes >= _PIECE_BYTES):
            yield b"".join(row)
            row, size_bytes = [], 0
        if isinstance(piece, str) and piece:
            yield piece


class _BodyStream(httpx2.AsyncByteStream):
    """Text as it is, and media as base64."""

    def __init__(self, pieces: list[bytes | str], media: Mapping[str, bytes]) -> None:
        self._pieces = pieces
        self._media = media

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            view = memoryview(self._media[piece] if isinstance(piece, str) else piece)
            for begin in range(0, len(view), _PIECE_BYTES):
                part = view[begin : begin + _PIECE_BYTES]
                yield base64.b64encode(part) if isinstance(piece, str) else bytes(part)
                await asyncio.sleep(0)  # a write into an empty socket does not give way


_contents: ContextVar[BodyContents | None] = ContextVar("body_contents", default=None)


@contextmanager
def sending_contents(contents: BodyContents | None) -> Generator[None]:
    """Send the requests that are made inside with their media and texts."""
    before = _contents.set(contents)
    try:
        yield
    finally:
        _contents.reset(before)


async def put_contents_into(request: httpx2.Request) -> list[bytes]:
    """Replace the stand-ins of a request; return its body in pieces, with references in the places of media.

    A request without any is left as it is. Errors: `InvalidRequest`, as of `BodyContents.split`.
    """
    body = await request.aread()
    if (contents := _contents.get()) is None:
        return [body]
    pieces = await read_beside_loop(len(body) + contents.size_bytes, contents.split, body)
    request.stream, length = contents.stream(pieces)
    request.headers["Content-Length"] = str(length)
    return [piece.encode() if isinstance(piece, str) else piece for piece in pieces]


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
    """Put contents into the body, and record what is sent for the call at hand and what is not in it."""
    written = await request.aread()  # names are those that the SDK has written
    body = await put_contents_into(request)
    if (sent := sending.get()) is not None:
        await read_beside_loop(sum(map(len, body)), sent.note_body, body)
        if len(written) <= BESIDE_BYTES:
            sent.dropped = dropped_of(sent.params, written)
        else:
            sent.dropped = await asyncio.to_thread(dropped_of, sent.params, written)


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
