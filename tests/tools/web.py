"""Servers on this machine for the tests of `http_json`: real sockets, real certificates."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import json
import ssl
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Says:
    """What a server answers."""

    status: int = 200
    value: Any = None
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    is_cut: bool = False
    """Close the connection in the middle of the body."""
    is_gone: bool = False
    """Close the connection without a word."""


Answer = Callable[[Seen], Says]


class Site:
    """A server at work."""

    def __init__(self, server: ThreadingHTTPServer, scheme: str, seen: list[Seen]) -> None:
        self.seen = seen
        self.port = int(server.server_address[1])
        self.url = f"{scheme}://localhost:{self.port}/"


@contextlib.contextmanager
def served(answer: Answer, *, tls: ssl.SSLContext | None = None) -> Generator[Site]:
    seen: list[Seen] = []

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Seen(self.command, self.path, headers, self.rfile.read(size))
            seen.append(request)
            says = answer(request)
            if says.is_gone:
                self.connection.close()
                return
            body = says.raw if says.raw is not None else json.dumps(says.value).encode()
            self.send_response(says.status)
            self.send_header("content-type", says.kind)
            self.send_header("content-length", str(len(body) + (100 if says.is_cut else 0)))
            for name, value in says.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):  # a client that does not want it all
                self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that breaks off, as some tests want it

    server = Quiet(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Site(server, "http" if tls is None else "https", seen)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def bomb(size: int) -> bytes:
    """Few bytes of gzip that swell to `size`."""
    return gzip.compress(b'"' + b"a" * size + b'"')


def certified(folder: Path, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server that proves to be `names`, and of a client that believes its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / "cert.pem").write_bytes(pem)
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    client = ssl.create_default_context(cadata=pem.decode())
    return server, client
