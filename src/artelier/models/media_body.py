"""The HTTP body of a call that shows media: their base64 is made piece by piece, while it is sent.

An SDK would hold a medium as base64, as a data URL, as JSON and as a body, each made in one go on the event
loop: 19 MB kept everybody else waiting for a third of a second on a quiet machine. It is given a stand-in
of 42 bytes instead, and what it makes of that is where the medium goes.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import httpx2

from artelier.errors import InvalidRequest

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
