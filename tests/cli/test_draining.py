"""SIGTERM drains a real worker and a real server: the tool at work ends, its run is given back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.conftest import Provider, Shell
from tests.cli.test_do_solo import calls, do
from tests.processes import WarmPython

PATIENCE_S = 60


class Office:
    """A server that carries out a POST when the test says so."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.done: list[str] = []


@contextmanager
def _open(office: Office) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            office.entered.set()
            office.go_on.wait(PATIENCE_S)
            office.done.append(self.headers["Idempotency-Key"])
            body = json.dumps({"sent": True}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        office.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _approved(shell: Shell, provider: Provider, address: str) -> None:
    """A run that is about to send something, as soon as somebody drives it."""
    shell.write(
        "artelier.toml",
        f'[policy]\napprove_risk = "high"\n[tools.http]\nallow = [{{ url = "{address}", private = true }}]\n',
    )
    provider.says(calls("http_json", url=f"{address}mail", method="POST", body={"to": "ana"}))
    assert do(shell).code == 3
    assert shell("approve", "d1").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("command", [["worker"], ["up", "--port", "0"]], ids=["worker", "up"])
def test_sigterm_lets_the_tool_at_work_end_and_begins_nothing_more(
    shell: Shell, sales: str, provider: Provider, command: list[str]
) -> None:
    office = Office()
    with _open(office) as address:
        _approved(shell, provider, address)
        asked = provider.calls
        words = [sys.executable, "-m", "artelier", *command, "--drain-s", str(PATIENCE_S)]
        with WarmPython(
            words, cwd=shell.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert office.entered.wait(PATIENCE_S)
                process.send_signal(signal.SIGTERM)
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.5)  # it has not ended, since the tool has not
                office.go_on.set()
                _, told = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
        assert process.returncode == 0, told
        assert "Traceback" not in told
    assert len(office.done) == 1
    assert provider.calls == asked
    shown = shell("runs", "show", "d1", "--json").json
    assert (shown["status"], shown["unknown_calls"]) == ("pending", [])

    provider.says("Ana was told.")
    resumed = shell("resume", "d1")

    assert (resumed.code, resumed.out) == (0, "Ana was told.\n")
    assert len(office.done) == 1


@pytest.mark.slow
def test_a_tool_that_does_not_end_is_cut_off_after_the_time_that_was_given(
    shell: Shell, sales: str, provider: Provider
) -> None:
    office = Office()
    with _open(office) as address:
        _approved(shell, provider, address)
        words = [sys.executable, "-m", "artelier", "worker", "--drain-s", "0"]
        with WarmPython(
            words, cwd=shell.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert office.entered.wait(PATIENCE_S)
                process.send_signal(signal.SIGTERM)
                _, told = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
        assert process.returncode == 0, told
    shown = shell("runs", "show", "d1", "--json").json
    (call,) = shown["unknown_calls"]
    assert (shown["status"], call["tool"], call["code"]) == ("unknown_outcome", "http_json", "cancelled")
