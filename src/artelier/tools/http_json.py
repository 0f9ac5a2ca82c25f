"""`http_json`: JSON from and to the servers that somebody has put on a list, and nobody else.

Off without a list. Reading (`GET`) is harmless and may be repeated; anything else is a side effect of high
risk with an idempotency key, dispatched once. Decision 0023 says what is refused, and why.

`httpcore` speaks HTTP and TLS over a connection to an address that was checked; redirects, proxies, cookies
and names of hosts are not its business. It blocks and runs in a thread; `HostConnection.cut` ends it from
outside.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
import os
import re
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import quote, unquote

import msgspec

from artelier.errors import ArtelierError, External, MissingKey, NotGranted, ToolFailed, TransientError
from artelier.ports.tool import ToolContext
from artelier.tools.function import DaemonThreads, Tool
from artelier.tools.http_rules import (
    HttpRule,
    Resolver,
    UnclearUrl,
    UrlTarget,
    addresses_of,
    parse_url,
    rule_for,
    rules_from,
    secrets_of,
    system_resolver,
)

if TYPE_CHECKING:
    from httpcore import Response, SyncBackend

# Takes secrets of ours out of what a tool says: a server may send them back, anywhere, in many spellings.

SECRET = "[secret]"
TEXT_CHARS_MAX = 1_000
"""Of each text of an error; cut after the secrets are out, or half of one would stay."""

_ROUNDS_MAX = 3
"""So often may a secret be encoded over and over and still be found."""
_CODED_CHARS_MIN = 8
"""Shorter pieces of base64 and hexadecimal are in many an innocent text."""
_JSON_ESCAPE = re.compile(r"\\(?:u00([0-9a-f]{2})|(.))", re.DOTALL)
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENTITY = re.compile(rf"&(?:#0*([0-9]{{1,3}})|#x0*([0-9a-f]{{1,2}})|({'|'.join(_NAMED)}));")
"""Of ASCII alone, as secrets are; the table of the standard library is slow on a text of many `&`."""


class Veil:
    """Hides `secrets`: as they are, in another case, escaped or percent-encoded (as often as three times), in
    base64 and in hexadecimal."""

    def __init__(self, secrets: Iterable[str]) -> None:
        found = {form.lower() for secret in secrets if secret for form in _forms(secret)}
        self._forms = sorted(found, key=lambda form: (-len(form), form))

    def text(self, text: str) -> str:
        """The text without secrets; nothing of it where one is hidden too deep to be cut out."""
        if not self._shows(text):
            return text
        text = self._pattern.sub(SECRET, text)
        return SECRET if self._shows(text.replace(SECRET, "")) else text

    def value(self, value: object) -> object:
        """JSON without secrets, in texts, keys and numbers. Lists and dicts are changed in place."""
        if not self._forms or not self._may_show(value):
            return value
        holder: list[Any] = [value]
        open_ones: list[list[Any] | dict[str, Any]] = [holder]
        while open_ones:  # no recursion: a server decides how deep it is
            one = open_ones.pop()
            if isinstance(one, list):
                one[:] = [self._leaf(item) for item in one]
                inner: Iterable[Any] = one
            else:
                pairs = [(self.text(key), self._leaf(item)) for key, item in one.items()]
                one.clear()
                one.update(pairs)
                inner = one.values()
            open_ones += [
                cast("list[Any] | dict[str, Any]", item) for item in inner if isinstance(item, list | dict)
            ]
        return holder[0]

    def error(self, error: ArtelierError) -> None:
        """Take the secrets out of an error, and bound its texts."""
        error.message = self.text(error.message)[:TEXT_CHARS_MAX]
        error.args = (error.message,)
        error.expected = self._fact(error.expected)
        error.got = self._fact(error.got)
        error.hint = cast("str | None", self._fact(error.hint))
        error.facts = {name: self._fact(fact) for name, fact in error.facts.items()}

    def _fact(self, fact: object) -> object:
        if fact is None or isinstance(fact, int | float):  # sizes, statuses, seconds: ours
            return fact
        return self.text(str(fact))[:TEXT_CHARS_MAX]

    def _leaf(self, item: object) -> object:
        if isinstance(item, str):
            return self.text(item)
        if isinstance(item, int | float) and not isinstance(item, bool):
            return SECRET if self._shows(str(item)) else item
        return item

    def _may_show(self, value: object) -> bool:
        """One look at the whole, which is mostly the last."""
        try:
            return self._shows(msgspec.json.encode(value).decode())
        except RecursionError:
            return True

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The longest form first; only made when there is something to hide."""
        return re.compile("|".join(map(re.escape, self._forms)), re.IGNORECASE)

    def _shows(self, text: str) -> bool:
        return bool(self._forms) and any(
            form in reading for reading in _readings(text) for form in self._forms
        )


def _forms(secret: str) -> Iterator[str]:
    """Spellings that are cut out of a text; `_readings` undoes others."""
    yield secret
    yield quote(secret, safe="")
    yield msgspec.json.encode(secret).decode()[1:-1]
    raw = secret.encode()
    coded = [raw.hex()]
    for shift in range(3):  # whatever stands before it, such as a user name
        whole = base64.b64encode(bytes(shift) + raw).decode()
        core = whole[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
        coded += [core, core.replace("+", "-").replace("/", "_")]
    yield from (form for form in coded if len(form) >= _CODED_CHARS_MIN)


def _readings(text: str) -> Iterator[str]:
    """A text as it is, and what it says to those who decode it; lower case."""
    reading = text.lower()
    yield reading
    for _ in range(_ROUNDS_MAX):
        before = reading
        for mark, plain in _PLAIN:
            if mark in reading and (other := plain(reading).lower()) != reading:
                reading = other
                yield reading
        if reading == before:
            return


def _unescape(text: str) -> str:
    return _JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)


def _decode_entities(text: str) -> str:
    return _ENTITY.sub(_sign, text)


def _sign(found: re.Match[str]) -> str:
    decimal, hexadecimal, name = found.groups()
    if name:
        return _NAMED[name]
    return chr(int(decimal) if decimal else int(hexadecimal, 16))


_PLAIN: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("\\", _unescape),
    ("%", unquote),
    ("&", _decode_entities),
)


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


# --------------------------------------------------------------------------- the tool


Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

NAME = "http_json"
TIMEOUT_S = 60.0
REDIRECTS_MAX = 3
SENT_BYTES_MAX = 256 * 1024
RETRY_AFTER_MAX_S = 120.0
KIND_CHARS_MAX = 200

FREE_HEADERS = frozenset(
    (
        "accept-language",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "prefer",
        "x-request-id",
    )
)
"""What a model may send; any other header is of the rule. Some turn a GET into a DELETE, or one path into
another."""

_UNCLEAR = frozenset((408, 409, 499))
"""Refusals after which a request with an idempotency key may still have been done, or be under way."""

_threads = DaemonThreads()


class Undecided(External):
    """The server was asked to do something, and what became of it is not known."""

    code = "http_undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpJsonClient:
    """The allowed hosts, and the means to reach them. `context` is for certificates of a private CA."""

    rules: tuple[HttpRule, ...]
    environ: Mapping[str, str]
    resolve: Resolver = system_resolver
    context: ssl.SSLContext | None = None
    timeout_s: float = TIMEOUT_S
    _made: list[ssl.SSLContext] = field(default_factory=list[ssl.SSLContext])

    def trust(self) -> ssl.SSLContext:
        """Made once, with the first call: reading the machine's authorities takes a while."""
        if self.context is not None:
            return self.context
        if not self._made:
            context = ssl.create_default_context()
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            self._made.append(context)
        return self._made[0]

    async def ask(
        self, url: str, method: str, body: object, headers: Mapping[str, str], key: str
    ) -> dict[str, Any]:
        """The status and the JSON of a reply. Neither it nor an error shows a secret of the rules.

        Errors: `ToolFailed` if nothing happened, `TransientError` if it may be tried again, `Undecided`.
        """
        veil = Veil(secrets_of(self.rules, self.environ))
        try:
            return cast("dict[str, Any]", veil.value(await self._request(url, method, body, headers, key)))
        except ArtelierError as error:
            veil.error(error)
            raise

    async def _request(
        self, url: str, method: str, body: object, headers: Mapping[str, str], key: str
    ) -> dict[str, Any]:
        target = _target(url)
        sent, content = _prepare(method, body, headers, key)
        async with asyncio.timeout(self.timeout_s):
            for _ in range(REDIRECTS_MAX + 1):
                reply = await self._once(target, method, sent, content)
                onward = _onward(target, method, reply)
                if onward is None:
                    return _result(method, reply)
                if onward.origin != target.origin:
                    sent = {name: sent[name] for name in sent if name not in FREE_HEADERS}
                target = onward
        raise ToolFailed("the server sends from one address to the next", expected="at most 3 times")

    async def _once(
        self, target: UrlTarget, method: str, sent: Mapping[str, str], content: bytes | None
    ) -> HttpReply:
        rule = _rule(self.rules, target)
        try:
            own = rule.fill_headers(self.environ)
        except MissingKey as error:
            raise ToolFailed(error.message, expected=error.expected, got=error.got) from None
        addresses = await _threads.run(
            lambda: addresses_of(target.host, target.port, private=rule.private, resolve=self.resolve)
        )
        line = HostConnection(target, addresses, self.trust())
        own = {name.lower(): value for name, value in own.items()}
        headers = {"host": target.authority, **sent, **own}
        try:
            return await _threads.run(
                lambda: line.exchange(method, headers, content, timeout_s=self.timeout_s)
            )
        except NotSent as error:
            if method == "GET":
                raise
            raise ToolFailed(f"nothing was sent: {error}") from None
        except ReplyCut as error:
            if method != "GET":
                raise Undecided(str(error)) from None
            if isinstance(error, Unusable):
                raise ToolFailed(str(error)) from None
            raise
        finally:
            line.cut()


def http_json_tool(
    allow: Iterable[str | Mapping[str, Any] | HttpRule],
    *,
    environ: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    resolve: Resolver = system_resolver,
    timeout_s: float = TIMEOUT_S,
) -> Tool[..., object]:
    """The tool, for `Kernel.open(tools=[...])`.

    `allow`: URLs, below which everything may be asked, or `HttpRule`s with headers and `private`. `environ`
    is where secrets of headers are read, at each call. Errors: `InvalidConfig`.
    """
    client = HttpJsonClient(
        rules=rules_from(allow),
        environ=os.environ if environ is None else environ,
        context=context,
        resolve=resolve,
        timeout_s=timeout_s,
    )

    async def http_json(
        url: str,
        ctx: ToolContext,
        method: Method = "GET",
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Ask a server for JSON (GET), or send it JSON (POST, PUT, PATCH, DELETE); only servers on the
        list of allowed URLs. Returns the status and the JSON of the reply."""
        return await client.ask(url, method, body, headers or {}, ctx.idempotency_key)

    return HttpTool(http_json, timeout_s=timeout_s + 5)


class HttpTool(Tool[..., Any]):
    """Dangerous until a call says that it only reads."""

    def __init__(self, function: Callable[..., Awaitable[dict[str, Any]]], *, timeout_s: float) -> None:
        super().__init__(function, name=NAME, side_effect=True, risk="high", timeout_s=timeout_s)

    def for_call(self, arguments: Mapping[str, Any]) -> Tool[..., object]:
        """The facts that hold for one call."""
        if arguments.get("method", "GET") != "GET":
            return self
        reading = copy.copy(self)
        reading.side_effect, reading.risk = False, "low"
        return reading


def _target(url: str) -> UrlTarget:
    try:
        return parse_url(url)
    except UnclearUrl as error:
        raise ToolFailed(f"the URL {error}", got=repr(url)) from None


def _rule(rules: tuple[HttpRule, ...], target: UrlTarget) -> HttpRule:
    try:
        return rule_for(rules, target)
    except NotGranted as error:
        raise ToolFailed(error.message, expected=error.expected, got=error.got) from None


def _prepare(
    method: str, body: object, headers: Mapping[str, str], key: str
) -> tuple[dict[str, str], bytes | None]:
    """Headers and bytes of a request. Errors: `ToolFailed`."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        if name.lower() not in FREE_HEADERS:
            raise ToolFailed(
                "this header cannot be set by a call",
                expected=", ".join(sorted(FREE_HEADERS)),
                got=repr(name)[:80],
            )
        if not re.fullmatch(r"[ -~]{1,1000}", value) or value != value.strip():
            raise ToolFailed(f"the value of header {name.lower()}", expected="printable ASCII")
        found[name.lower()] = value
    sent = {"accept": "application/json", "accept-encoding": "gzip", "connection": "close", **found}
    sent["user-agent"] = "artelier"
    content: bytes | None = None
    if method == "GET":
        if body is not None:
            raise ToolFailed("a GET has no body", expected="the query in the URL")
        return sent, None
    sent["idempotency-key"] = (
        key if re.fullmatch(r"[!-~]{1,255}", key) else hashlib.sha256(key.encode()).hexdigest()
    )
    if body is not None:
        content = msgspec.json.encode(body)
        if len(content) > SENT_BYTES_MAX:
            raise ToolFailed(
                "the body is too large", expected=f"at most {SENT_BYTES_MAX} bytes", got=len(content)
            )
        sent["content-type"] = "application/json"
    sent["content-length"] = str(len(content or b""))
    return sent, content


def _onward(target: UrlTarget, method: str, reply: HttpReply) -> UrlTarget | None:
    """Return where a redirect leads; None if the reply is the answer.

    Only a redirect that keeps the method of a side effect is followed: after any other, the thing was done.
    """
    if reply.status not in ((301, 302, 303, 307, 308) if method == "GET" else (307, 308)):
        return None
    location = reply.location or ""
    if location.startswith("/") and not location.startswith("//"):
        location = f"{target.scheme}://{target.authority}{location}"
    onward = _target(location)
    if target.scheme == "https" and onward.scheme == "http":
        raise ToolFailed("the server sends to an address that is not encrypted", got=onward.host)
    return onward


def _result(method: str, reply: HttpReply) -> dict[str, Any]:
    is_reading, status = method == "GET", reply.status
    if 200 <= status < 300 or (status == 304 and is_reading) or (status == 303 and not is_reading):
        return {"status": status, "body": _value(reply, is_reading=is_reading)}
    said = f"the server answered {status}"
    about = _about(reply)
    if status == 429 or (is_reading and (status >= 500 or status == 408)):
        if is_reading:
            raise TransientError(said, got=about, retry_after_s=_seconds(reply.retry_after))
        raise ToolFailed(f"{said}: too many requests, nothing was done", got=about)
    if 400 <= status < 500 and (is_reading or status not in _UNCLEAR):
        raise ToolFailed(said, got=about)
    if is_reading:
        raise ToolFailed(said, expected="a status of success", got=about)
    raise Undecided(f"{said}: whether it did what was asked is not known", got=about)


def _value(reply: HttpReply, *, is_reading: bool) -> object:
    """The JSON of a reply. What was done is done, whatever came back; but what was read must be readable."""
    if not reply.body.strip():
        return None
    problem = ""
    if reply.kind != "application/json" and not reply.kind.endswith("+json"):
        problem = f"the reply is no JSON but {_kind(reply)}"
    else:
        try:
            return msgspec.json.decode(reply.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            problem = "the reply says that it is JSON, and is none"
    if is_reading:
        raise ToolFailed(problem, expected="application/json")
    return {"note": problem}


def _kind(reply: HttpReply) -> str:
    """Whole or not at all: of half a secret nobody sees that it is one."""
    if len(reply.kind) > KIND_CHARS_MAX:
        return "of a type too long to name"
    return reply.kind or "of no type"


def _about(reply: HttpReply) -> str | None:
    """Return what a refusal says of itself; the error is bounded when it leaves."""
    if reply.kind != "application/json" and not reply.kind.endswith("+json"):
        return None
    try:
        return msgspec.json.encode(msgspec.json.decode(reply.body)).decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _seconds(told: str | None) -> float | None:
    """Retry-After in seconds; dates are left to the usual backoff."""
    if told is None or not re.fullmatch(r"[0-9]{1,6}", told.strip()):
        return None
    return min(float(told), RETRY_AFTER_MAX_S)
