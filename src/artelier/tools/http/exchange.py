"""One HTTP request over a connection that goes to a checked address, and its bounded reply.

No proxy, no cookie, no connection that is kept. It blocks and runs in a thread; `Line.cut` ends it from
outside.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import zlib
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

from artelier.errors import TransientError
from artelier.tools.http.rules import UrlTarget

CONNECT_TIMEOUT_S = 10.0
BODY_BYTES_MAX = 4 * 1024 * 1024
"""Of a reply, as it is sent and as it is unpacked."""

_PIECE = 64 * 1024


class NotSent(TransientError):
    """The server could not be reached: it was told nothing."""

    code = "not_sent"


class ReplyCut(TransientError):
    """The request was sent, and no whole reply came: what became of it is not known."""

    code = "reply_cut"


class Unusable(ReplyCut):
    """The reply is larger than its bound, or packed in another way: no use to ask again."""

    code = "reply_unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    status: int
    kind: str
    """The media type, lower case, without parameters."""
    location: str | None
    retry_after: str | None
    body: bytes


class HostConnection:
    """A connection to one address of a host."""

    def __init__(self, target: UrlTarget, addresses: list[str], context: ssl.SSLContext) -> None:
        self._target = target
        self._addresses = addresses
        self._context = context
        self._socket: socket.socket | None = None
        self._is_cut = False

    def cut(self) -> None:
        """End the exchange from another thread."""
        self._is_cut = True
        if (line := self._socket) is not None:
            with suppress(OSError):  # it is closed already
                line.shutdown(socket.SHUT_RDWR)

    def exchange(
        self, method: str, headers: Mapping[str, str], body: bytes | None, *, timeout_s: float
    ) -> HttpReply:
        """Errors: `NotSent` before the first byte, `ReplyCut` after it."""
        self._connect(timeout_s)
        assert self._socket is not None
        connection = http.client.HTTPConnection(self._target.host, self._target.port)
        connection.auto_open = 0  # what was checked is what is talked to
        connection.sock = self._socket
        try:
            connection.putrequest(method, self._target.line, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            with closing(connection.getresponse()) as response:
                return self._reply(response)
        except ReplyCut:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ReplyCut(
                f"the exchange with {self._target.host} broke off", got=type(error).__name__
            ) from None
        finally:
            connection.close()
            self._socket.close()

    def _connect(self, timeout_s: float) -> None:
        last: Exception | None = None
        for address in self._addresses:
            if self._is_cut:
                break
            try:
                plain = socket.create_connection(
                    (address, self._target.port), timeout=min(timeout_s, CONNECT_TIMEOUT_S)
                )
            except OSError as error:
                last = error
                continue
            self._socket = plain
            try:
                if self._target.scheme == "https":
                    self._socket = self._context.wrap_socket(
                        plain, server_hostname=self._target.host.strip("[]")
                    )
                self._socket.settimeout(timeout_s)
            except (OSError, ValueError) as error:  # a certificate of somebody else, among others
                plain.close()
                raise NotSent(
                    f"no trustworthy connection to {self._target.host}", got=_short(error)
                ) from None
            if self._is_cut:  # while it was connecting: nobody waits, so nothing is sent
                self._socket.close()
                break
            return
        raise NotSent(f"{self._target.host} does not answer", got=_short(last))

    def _reply(self, response: http.client.HTTPResponse) -> HttpReply:
        coding = (response.getheader("content-encoding") or "identity").strip().lower()
        if coding not in ("identity", "gzip", "x-gzip"):
            raise Unusable("the reply is packed in a way that was not asked for", got=coding)
        unpack = zlib.decompressobj(31) if "gzip" in coding else None
        found = bytearray()
        taken = 0
        while piece := response.read(_PIECE):
            taken += len(piece)
            if unpack is not None:
                piece = _unpack(unpack, piece, room=BODY_BYTES_MAX + 1 - len(found))
            found += piece
            if max(taken, len(found)) > BODY_BYTES_MAX:
                raise Unusable("the reply is too large", expected=f"at most {BODY_BYTES_MAX} bytes, unpacked")
        if (unpack is not None and found and not unpack.eof) or response.length:
            raise ReplyCut("the reply ended in the middle")
        kind = (response.getheader("content-type") or "").partition(";")[0].strip().lower()
        return HttpReply(
            status=response.status,
            kind=kind,
            location=response.getheader("location"),
            retry_after=response.getheader("retry-after"),
            body=bytes(found),
        )


def _unpack(unpack: zlib._Decompress, piece: bytes, *, room: int) -> bytes:  # pyright: ignore[reportPrivateUsage] - the only name of its type
    """At most `room` bytes, however much the piece would swell to."""
    try:
        return unpack.decompress(piece, room)
    except zlib.error:
        raise ReplyCut("the reply is not the gzip that it says it is") from None


def _short(error: Exception | None) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"[:200]
    return type(error).__name__ if error is not None else "nothing"
