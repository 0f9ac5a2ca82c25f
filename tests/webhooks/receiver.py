"""A receiver of webhooks behind a real port: it answers by a script and keeps what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Receiver:
    url: str = ""
    statuses: list[int] = field(default_factory=list[int])
    """Of the next answers; 204 once they are used up."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Of each answer."""
    seen: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])


@contextmanager
def receiver(*statuses: int, **headers: str) -> Iterator[Receiver]:
    found = Receiver(statuses=list(statuses), headers=headers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.seen.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(found.statuses.pop(0) if found.statuses else 204)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
