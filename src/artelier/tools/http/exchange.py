"""One HTTP request over a connection that goes to a checked address, and its bounded reply.

`httpcore` speaks HTTP and TLS; redirects, proxies, cookies and names of hosts are not its business. It blocks
and runs in a thread; `HostConnection.cut` ends it from outside.
"""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artelier.errors import TransientError
from artelier.tools.http.rules import UrlTarget

if TYPE_CHECKING:
    from httpcore import Response, SyncBackend

CONNECT_TIMEOUT_S = 10.0
BODY_BYTES_MAX = 4 * 1024 * 1024
"""Of a reply, as it is sent and as it is unpacked."""


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
        import httpcore

        target = self._target
        host = target.host.encode()
        origin = httpcore.Origin(target.scheme.encode(), host, target.port)
        # The line as it was checked: a URL that is taken apart again could be read another way.
        url = httpcore.URL(scheme=origin.scheme, host=host, port=origin.port, target=target.line.encode())
        limits = {"connect": min(timeout_s, CONNECT_TIMEOUT_S), "read": timeout_s, "write": timeout_s}
        try:
            with (
                httpcore.HTTPConnection(
                    origin, ssl_context=self._context, network_backend=_pinned_to(self._addresses)
                ) as connection,
                connection.stream(
                    method,
                    url,
                    headers=list(headers.items()),
                    content=body,
                    extensions={
                        "timeout": limits,
                        "sni_hostname": target.host.strip("[]"),
                        "trace": self._watch,
                    },
                ) as response,
            ):
                return _read_reply(response)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise NotSent(
                f"no trustworthy connection to {target.host}"
                if isinstance(error.__cause__, ssl.SSLError)
                else f"{target.host} does not answer",
                got=_short(error.__cause__ or error),
            ) from None
        except (
            OSError,
            ValueError,
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.TimeoutException,
        ) as error:
            raise ReplyCut(f"the exchange with {target.host} broke off", got=type(error).__name__) from None

    def _watch(self, name: str, info: Mapping[str, Any]) -> None:
        """Keep the socket that `cut` ends, as soon as there is one."""
        if name not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            return
        self._socket = info["return_value"].get_extra_info("socket")
        if self._is_cut and self._socket is not None:  # nobody waits, so nothing is sent
            self._socket.close()
            raise NotSent(f"the exchange with {self._target.host} was ended")


def _pinned_to(addresses: Sequence[str]) -> SyncBackend:
    """Return a network that leads to these addresses alone, whatever a host is called."""
    from httpcore import ConnectError, ConnectTimeout, NetworkStream, SyncBackend

    class Pinned(SyncBackend):
        def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, *rest: Any, **options: Any
        ) -> NetworkStream:
            last: Exception = ConnectError("no address")
            for address in addresses:
                try:
                    return super().connect_tcp(address, port, timeout, *rest, **options)
                except (ConnectError, ConnectTimeout) as error:
                    last = error
            raise last

    return Pinned()


def _read_reply(response: Response) -> HttpReply:
    found_headers: dict[str, str] = {}
    for raw_name, raw_value in response.headers:
        name, value = raw_name.decode("ascii").lower(), raw_value.decode("latin-1")
        found_headers[name] = f"{found_headers[name]}, {value}" if name in found_headers else value
    coding = found_headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", "x-gzip"):
        raise Unusable("the reply is packed in a way that was not asked for", got=coding)
    unpack = zlib.decompressobj(31) if "gzip" in coding else None
    found = bytearray()
    taken = 0
    for piece in response.iter_stream():
        taken += len(piece)
        if unpack is not None:
            piece = _unpack(unpack, piece, room=BODY_BYTES_MAX + 1 - len(found))
        found += piece
        if max(taken, len(found)) > BODY_BYTES_MAX:
            raise Unusable("the reply is too large", expected=f"at most {BODY_BYTES_MAX} bytes, unpacked")
    if unpack is not None and found and not unpack.eof:
        raise ReplyCut("the reply ended in the middle")
    return HttpReply(
        status=response.status,
        kind=found_headers.get("content-type", "").partition(";")[0].strip().lower(),
        location=found_headers.get("location"),
        retry_after=found_headers.get("retry-after"),
        body=bytes(found),
    )


def _unpack(unpack: zlib._Decompress, piece: bytes, *, room: int) -> bytes:  # pyright: ignore[reportPrivateUsage] - the only name of its type
    """At most `room` bytes, however much the piece would swell to."""
    try:
        return unpack.decompress(piece, room)
    except zlib.error:
        raise ReplyCut("the reply is not the gzip that it says it is") from None


def _short(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"[:200]
    return type(error).__name__
