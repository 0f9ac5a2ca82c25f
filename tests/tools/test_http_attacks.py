"""`http_json` against servers and names that lie: each attack ends in an error to read, within its bounds."""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from artelier.tools.http_rules import UnclearUrl, addresses_of, parse_url
from tests.tools.test_http import called, local, refused
from tests.tools.web import Says, Seen, certified, served

# Names


class Names:
    """A name server for one name, over UDP: each question gets the next of its answers, the last for ever."""

    def __init__(self, answers: list[str]) -> None:
        self.asked = 0
        self._answers = answers
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            question, whom = self._socket.recvfrom(4_096)
            if question == b"over":
                return
            address = self._answers[min(self.asked, len(self._answers) - 1)]
            self.asked += 1
            answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
            head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
            self._socket.sendto(head + question[12:] + answer, whom)

    def resolve(self, host: str, port: int) -> list[str]:
        """As a machine's resolver does, with a time to live of nothing."""
        labels = b"".join(bytes([len(part)]) + part.encode() for part in host.split("."))
        question = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(30)
            asking.sendto(question, self._socket.getsockname())
            return [socket.inet_ntoa(asking.recv(4_096)[-4:])]

    def __enter__(self) -> Names:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.sendto(b"over", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


def test_a_name_server_that_changes_its_answer_moves_no_connection(tmp_path: Path) -> None:
    with Names(["127.0.0.1", "169.254.169.254"]) as names, served(lambda _: Says(value=1)) as site:
        url = f"http://api.example.test:{site.port}/"
        found = called(tmp_path, [local(url)], {"url": url}, {"url": url}, resolve=names.resolve)

    assert found[0] == (False, {"status": 200, "body": 1})
    assert "must not be called" in found[1][1]["error"]["message"]
    assert (names.asked, len(site.seen)) == (2, 1), "asked once for each connection"


@pytest.mark.parametrize("first", [Says(status=302, headers={"location": "/again"}), Says(status=503)])
def test_each_further_connection_checks_its_address_anew(tmp_path: Path, first: Says) -> None:
    """A redirect, and a second attempt, are when a name may lead elsewhere."""
    with Names(["127.0.0.1", "10.0.0.1"]) as names, served(lambda _: first) as site:
        url = f"http://api.example.test:{site.port}/"
        found = called(tmp_path, [{"url": url}, local(f"{url}x/")], {"url": url}, resolve=names.resolve)
        assert "must not be called" in refused(found)
        assert site.seen == [], "the address of this machine is not of the internet"

    with Names(["127.0.0.1", "169.254.169.254"]) as names, served(lambda _: first) as site:
        url = f"http://api.example.test:{site.port}/"
        (tmp_path / "b").mkdir()
        found = called(tmp_path / "b", [local(url)], {"url": url}, resolve=names.resolve)

    assert "must not be called" in refused(found)
    assert len(site.seen) == 1


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "169.254.169.254",
        "100.100.100.200",
        "::",
        "::ffff:169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "2001:0:a9fe:a9fe::1",
        "::169.254.169.254",
        "fe80::1",
        "ff0e::1",
        "not-an-address",
        "",
    ],
)
@pytest.mark.parametrize("private", [False, True])
def test_a_name_that_leads_to_where_clouds_keep_credentials_leads_nowhere(
    tmp_path: Path, address: str, private: bool
) -> None:
    rule = {"url": "http://metadata.google.internal/", "private": private}
    call = {"url": "http://metadata.google.internal/computeMetadata/v1/"}

    found = called(tmp_path, [rule], call, resolve=lambda host, port: [address])

    assert "must not be called" in refused(found)


@pytest.mark.parametrize(
    "host",
    [
        "0",
        "0x0",
        "00",
        "017700000001",
        "0300.0250.1.1",
        "0x7f.1",
        "127.0.1",
        "1.1.1.1.",
        "[::ffff:0x7f.1]",
        "[::1%25lo]",
        "[::1]x",
        "[::1]x:80",
        "[::1][::2]",
        "127。0。0。1",
        "①27.0.0.1",
        "localhost\t",
        "localhost%00.example.com",
        "a@localhost",
        "localhost:80:80",
        "localhost:+80",
        "localhost:８０",
    ],
)
def test_a_host_with_two_readings_is_none(host: str) -> None:
    with pytest.raises(UnclearUrl):
        parse_url(f"http://{host}/")


def test_an_address_in_a_url_is_checked_like_that_of_a_name() -> None:
    target = parse_url("http://[::ffff:127.0.0.1]/")

    with pytest.raises(Exception, match="must not be called"):
        addresses_of(target.host, 80, private=False, resolve=lambda host, port: ["1.1.1.1"])


# Redirects


@pytest.mark.parametrize(
    "location",
    [
        "//evil.example/",
        "///evil.example/",
        "/\\evil.example/",
        "http:evil.example",
        "HTTP://evil.example/",
        "https://localhost:1/",
        "http://localhost@evil.example/",
        "http://evil.example#@localhost/",
        "ftp://localhost/",
        "file:///etc/passwd",
        "gopher://localhost/",
        "javascript:1",
        "",
        " ",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "v1/relative",
        "/v1/..;/admin",
        "?q",
        "http://localhost/",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_redirect_to_anywhere_else_is_not_followed(tmp_path: Path, location: str, method: str) -> None:
    with served(lambda seen: Says(status=307, headers={"location": location})) as site:
        rule = local(site.url + "v1/", headers={"Authorization": "Bearer env:TOKEN"})
        called(
            tmp_path, [rule], {"url": site.url + "v1/go", "method": method}, environ={"TOKEN": "s3cret-value"}
        )

    assert [seen.path for seen in site.seen] == ["/v1/go"]


def test_a_side_effect_that_is_sent_on_to_another_port_takes_no_secret_along(tmp_path: Path) -> None:
    with served(lambda seen: Says(value="done")) as other:
        onward = Says(status=307, headers={"location": other.url})
        with served(lambda seen: onward) as site:
            allow = [local(site.url, headers={"Authorization": "Bearer env:TOKEN"}), local(other.url)]
            call = {"url": site.url, "method": "POST", "body": {"n": 1}}
            found = called(tmp_path, allow, call, environ={"TOKEN": "s3cret-value"})

    assert found == [(False, {"status": 200, "body": "done"})]
    [seen] = other.seen
    assert "authorization" not in seen.headers
    assert seen.headers["idempotency-key"] == site.seen[0].headers["idempotency-key"]
    assert (seen.method, seen.body) == ("POST", b'{"n":1}')


# Who is talked to


def test_the_name_that_is_proved_is_the_one_that_is_asked_for(tmp_path: Path) -> None:
    """Host and SNI are of the URL, whatever address is called: no certificate stands in for another."""
    named: list[str | None] = []
    server, client = certified(tmp_path, "api.example.test")

    def note(line: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        named.append(name)

    server.sni_callback = note
    with served(lambda seen: Says(value=1), tls=server) as site:
        url = f"https://API.example.test:{site.port}/"
        called(tmp_path, [local(url)], {"url": url}, context=client, resolve=lambda host, port: ["127.0.0.1"])

    assert named == ["api.example.test"]
    assert site.seen[0].headers["host"] == f"api.example.test:{site.port}"


def test_no_proxy_and_no_netrc_of_the_environment_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.netrc").write_text("machine localhost login kim password s3cret\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    server, client = certified(tmp_path, "localhost")
    with served(lambda seen: Says()) as proxy, served(lambda _: Says(value=1), tls=server) as site:
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        found = called(tmp_path, [local(site.url)], {"url": site.url}, context=client)

    assert found == [(False, {"status": 200, "body": 1})]
    assert proxy.seen == []
    assert "authorization" not in site.seen[0].headers


# Replies


@contextlib.contextmanager
def speaking(said: Callable[[], Generator[bytes]]) -> Generator[str]:
    """A server that says to each request what it likes, byte by byte, until nobody listens."""
    listening = socket.create_server(("127.0.0.1", 0))

    def talk(line: socket.socket) -> None:
        with line, contextlib.suppress(OSError):
            line.recv(65_536)
            for piece in said():
                line.sendall(piece)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://localhost:{listening.getsockname()[1]}/"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def for_ever(before: bytes, again: bytes, *, pause_s: float = 0.0) -> Callable[[], Generator[bytes]]:
    def said() -> Generator[bytes]:
        yield before
        waiting = threading.Event()
        while True:
            yield again
            if pause_s:
                waiting.wait(pause_s)

    return said


ENDLESS = {
    "body": for_ever(HEAD + b"\r\n", b"[" * 65_536),
    "drops of a body": for_ever(HEAD + b"Content-Length: 1000000\r\n\r\n", b"[", pause_s=0.02),
    "drops of a header": for_ever(b"HTTP/1.1 200 OK\r\nX: ", b"x", pause_s=0.02),
    "header": for_ever(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536),
    "headers": for_ever(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "go on": for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunks": for_ever(CHUNKED, b"1\r\n[\r\n"),
    "one chunk": for_ever(CHUNKED + b"7fffffffffffffff\r\n", b"[" * 65_536),
    "chunk line": for_ever(CHUNKED, b"1" * 65_536),
    "trailers": for_ever(CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n"),
    "status line": for_ever(b"HTTP/1.1 200 ", b"O" * 65_536),
    "gzip": for_ever(HEAD + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(bytes(10_000_000))),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_ended_here(tmp_path: Path, what: str) -> None:
    with speaking(ENDLESS[what]) as url:
        found = called(tmp_path, [local(url)], {"url": url}, timeout_s=1.0)

    assert refused(found)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["body", "drops of a body", "go on", "trailers"])
def test_a_side_effect_without_an_end_of_its_reply_is_unknown(tmp_path: Path, what: str) -> None:
    with speaking(ENDLESS[what]) as url:
        found = called(tmp_path, [local(url)], {"url": url, "method": "POST"}, timeout_s=1.0)

    assert found == ["unknown_outcome"]


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\r\n\r\n",
        b"HTTP/1.1 99 x\r\n\r\n",
        b"HTTP/1.1 1000 x\r\n\r\n",
        b"HTTP/1.1 ok\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"{}",
        HEAD + b"Content-Length: 5\r\n\r\n{}",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n12",
        HEAD + b"Content-Length: 2, 1\r\n\r\n{}",
        HEAD + b"Content-Encoding: gzip\r\n\r\n{}",
        HEAD
        + b"Content-Encoding: gzip, gzip\r\n\r\n"
        + gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0),
        HEAD + b"Content-Encoding: br\r\n\r\n{}",
        HEAD + b"Content-Encoding: deflate\r\n\r\n{}",
        HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"[1, 2, 3]", mtime=0)[:-6],
        CHUNKED + b"x\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"2\r\n{}",
        HEAD + b"\r\n" + '{"a": "é"}'.encode("latin-1"),
        HEAD + b"\r\n" + '{"a": 1}'.encode("utf-16"),
        HEAD + b'\r\n{"a": NaN}',
        HEAD + b"\r\n1e999",
        HEAD + b"\r\n{'a': 1}",
        HEAD + b'\r\n"\xff"',
        HEAD + b"\r\n{}{}",
        HEAD + b"\r\n" + b'{"a":' * 50_000,
        HEAD.replace(b"application/json", b"text/html") + b"\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
)
def test_a_reply_that_is_none_is_an_error_to_read(tmp_path: Path, reply: bytes) -> None:
    def said() -> Generator[bytes]:
        yield reply

    with speaking(said) as url:
        assert refused(called(tmp_path, [local(url)], {"url": url}, timeout_s=10.0))


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": "\\ud800"}', None),
        (b"1" * 6_000, None),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'"\\u0000\\u202e\\u001b[31m"', "\0\u202e\x1b[31m"),
        (b'{"__proto__": {"x": 1}, "{{x}}": "{% raise %}"}', {"__proto__": {"x": 1}, "{{x}}": "{% raise %}"}),
    ],
)
def test_odd_json_is_a_value_or_an_error_and_never_more(tmp_path: Path, body: bytes, value: Any) -> None:
    with served(lambda seen: Says(raw=body)) as site:
        [(is_error, found)] = called(tmp_path, [local(site.url)], {"url": site.url})

    if value is None:
        assert is_error or found["status"] == 200
    else:
        assert (is_error, found["body"]) == (False, value)


def test_lengths_that_contradict_each_other_smuggle_nothing(tmp_path: Path) -> None:
    """One request for each connection: what a server says after its reply belongs to nobody."""
    second = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n"evil"'

    def said() -> Generator[bytes]:
        yield HEAD + b'Content-Length: 6\r\n\r\n"good"' + second

    with speaking(said) as url:
        found = called(tmp_path, [local(url)], {"url": url}, {"url": url})

    assert found == [(False, {"status": 200, "body": "good"})] * 2


def test_a_method_a_body_or_a_header_of_another_kind_is_refused_unsent(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"method": "CONNECT"},
        {"method": "get"},
        {"method": "GET\r\nX: y"},
        {"method": "TRACE"},
        {"body": {}},
        {"headers": {"prefer\r\nX": "y"}},
        {"headers": {"prefer": "é"}},
        {"headers": {"prefer": "a" * 2_000}},
        {"headers": {"content-length": "0"}},
        {"headers": {"transfer-encoding": "chunked"}},
        {"headers": {"expect": "100-continue"}},
        {"headers": {"x-forwarded-for": "127.0.0.1"}},
        {"headers": {"prefer": " a"}},
        {"method": "POST", "body": "a" * 300_000},
    ]
    with served(lambda seen: Says()) as site:
        found = called(tmp_path, [local(site.url)], *({"url": site.url, **one} for one in calls))

    assert [is_error for is_error, _ in found] == [True] * len(calls)
    assert site.seen == []


def _path_of(seen: Seen) -> Says:
    return Says(value=seen.path)


def test_what_stands_in_a_query_stays_in_the_query(tmp_path: Path) -> None:
    with served(_path_of) as site:
        query = "?next=http://evil.example/&x=%0d%0aHost:%20evil.example&y=../../admin"
        found = called(tmp_path, [local(site.url + "v1/")], {"url": f"{site.url}v1/x{query}"})

    assert found == [(False, {"status": 200, "body": f"/v1/x{query}"})]
    assert site.seen[0].headers["host"] == f"localhost:{site.port}"
