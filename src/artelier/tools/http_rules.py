"""The rules for what `http_json` may contact: addresses, with host names resolved once, and URLs.

The address that was checked is the one that is connected to: a name that leads elsewhere a moment later gains
nothing (DNS rebinding).
"""

from __future__ import annotations

import base64
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import unquote_to_bytes, urlsplit

from artelier.errors import InvalidConfig, MissingKey, NotGranted, ToolFailed

Resolver = Callable[[str, int], Iterable[str]]
"""Addresses of a host, as text. Errors: `OSError`."""

_NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "169.254.0.0/16",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
        "fd00:ec2::254/128",
    )
)
"""Nobody's API: unspecified, link-local (where clouds keep their credentials), multicast, reserved, examples.
Source: the special-purpose registries of IANA (RFC 6890), and the metadata addresses of AWS, Alibaba
and Azure."""

_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "::1/128",
        "fc00::/7",
    )
)

_GLOBAL_6 = ipaddress.ip_network("2000::/3")
_SPECIAL_6 = tuple(
    ipaddress.ip_network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def why_refused(text: str, *, private: bool) -> str | None:
    """Return why an address must not be talked to; None if it may be. `private` allows this machine and its
    network."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "is no address"
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return "is of this link alone"
        if (inner := _inside(address)) is not None:
            return why_refused(str(inner), private=private)
    if any(address in network for network in _NEVER):
        return "is link-local, reserved or of no host"
    if any(address in network for network in _PRIVATE):
        return None if private else "is of this machine or a private network"
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address not in _GLOBAL_6 or any(address in network for network in _SPECIAL_6):
        return "is reserved"
    return None


def _inside(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to: mapped, 6to4, or by NAT64."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def system_resolver(host: str, port: int) -> list[str]:
    """Return what the machine's resolver says, each address once."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def addresses_of(host: str, port: int, *, private: bool, resolve: Resolver) -> list[str]:
    """Addresses of a host that may be connected to. Blocks.

    Errors: `ToolFailed` if there are none, or if a single one of them is refused: a name of which some
    addresses are inside is a trick, or a mistake.
    """
    try:
        found = [host.strip("[]")] if _is_literal(host) else list(resolve(host, port))
    except (OSError, UnicodeError):
        raise ToolFailed("the host is not known", got=host) from None
    if not found:
        raise ToolFailed("the host has no address", got=host)
    for text in found:
        if (why := why_refused(text, private=private)) is not None:
            raise ToolFailed(
                f"the host must not be called: its address {why}",
                expected="an address of the internet, or a rule that says private = true",
                got=host,
            )
    return found


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


# --------------------------------------------------------------------------- URLs
# The rules for URLs: a list of prefixes, compared with the parsed URL.
#
# A URL has one spelling here. A URL with two readings (encoded slashes and dots, backslashes, userinfo,
# numbers that are addresses, letters of other alphabets) is refused, not interpreted: the server, or a
# library on the way, might read it the other way.


URL_CHARS_MAX = 4_000
RULES_MAX = 1_000
PORTS = {"http": 80, "https": 443}
_PASSWORD_CHARS_MIN = 4

_PLAIN = re.compile(r"[!-~]+")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_BRACKETS = re.compile(r"\[[^\[\]]*\](?::[0-9]+)?")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PATH_TRICKS = re.compile(r"%(?:2[eEfF5]|5[cC]|[01][0-9A-Fa-f]|7[fF])")
"""Dots, slashes, percent signs, backslashes and controls, encoded: some servers decode before they look."""
_PARAMETERS = re.compile(r";|%3[bB]")
"""What follows belongs to the segment before it, for some servers: `..;x` is `..` to them."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_VALUE = re.compile(r"(?P<before>(?:[!-~]+ )?)env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
_SECRET = re.compile(r"auth|cookie|key|token|secret|password|credential|session", re.IGNORECASE)
_OURS = frozenset(
    (
        "host",
        "connection",
        "content-length",
        "content-type",
        "transfer-encoding",
        "accept",
        "accept-encoding",
        "idempotency-key",
        "expect",
        "upgrade",
        "te",
        "trailer",
        "proxy-authorization",
        "proxy-connection",
        "keep-alive",
    )
)


class UnclearUrl(ValueError):
    """A URL that is none, or that has two readings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlTarget:
    """A URL taken apart, in its one spelling."""

    scheme: str
    host: str
    """Lower case ASCII: a name, an IPv4 address, or an IPv6 address in brackets."""
    port: int
    path: str
    query: str

    @property
    def origin(self) -> tuple[str, str, int]:
        return (self.scheme, self.host, self.port)

    @property
    def authority(self) -> str:
        return self.host if self.port == PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def line(self) -> str:
        """The target in the first line of a request."""
        return f"{self.path}?{self.query}" if self.query else self.path

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.line}"


def parse_url(url: object) -> UrlTarget:
    """Errors: `UnclearUrl` that says what is wrong with it."""
    if not isinstance(url, str) or not 0 < len(url) <= URL_CHARS_MAX:
        raise UnclearUrl(f"is no text of 1 to {URL_CHARS_MAX} characters")
    if not _PLAIN.fullmatch(url) or "\\" in url:
        raise UnclearUrl(
            "has blanks, backslashes, control characters or letters beyond ASCII; write a host in its"
            " xn-- form, and percent-encode the rest"
        )
    if "#" in url:
        raise UnclearUrl("has a fragment, which is never sent")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UnclearUrl("has a broken host or port") from None
    scheme = parts.scheme
    if scheme not in PORTS:
        raise UnclearUrl("is not of https or http")
    if "@" in parts.netloc:
        raise UnclearUrl("has a user name or password; secrets belong in the headers of a rule")
    if port == 0 or parts.netloc.endswith(":"):
        raise UnclearUrl("has a broken port")
    path = parts.path or "/"
    _check_path(path, parts.query)
    return UrlTarget(
        scheme=scheme,
        host=_host(parts.netloc, parts.hostname or ""),
        port=port or PORTS[scheme],
        path=path,
        query=parts.query,
    )


def _host(netloc: str, name: str) -> str:
    if netloc.startswith("["):
        if not _BRACKETS.fullmatch(netloc):  # urlsplit drops what stands between bracket and colon
            raise UnclearUrl("has a broken address")
        try:
            address = ipaddress.IPv6Address(name)
        except ValueError:
            raise UnclearUrl("has a broken address") from None
        if address.scope_id is not None:
            raise UnclearUrl("has an address of one link alone")
        return f"[{address}]"
    if len(name) > 253 or not _HOST.fullmatch(name):
        raise UnclearUrl("has a broken host")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):  # 2130706433, 0x7f.1 and 0177.0.0.1 are addresses too
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            raise UnclearUrl("has an address that is not four decimal numbers") from None
    return name


def _check_path(path: str, query: str) -> None:
    if _PERCENT.search(path) or _PERCENT.search(query):
        raise UnclearUrl("has a percent sign that encodes nothing")
    if _PATH_TRICKS.search(path):
        raise UnclearUrl("has encoded dots, slashes, percent signs or control characters in its path")
    for segment in path.split("/"):
        if _PARAMETERS.split(segment, maxsplit=1)[0] in (".", ".."):
            raise UnclearUrl("has . or .. in its path")
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise UnclearUrl("has bytes in its path that are no UTF-8") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRule:
    """A prefix of URLs that may be asked, and with what.

    `private`: it may lead to this machine or a private network. `headers`: sent with each request that the
    rule allows and nowhere else; a value that ends in `env:NAME` takes that entry of the environment.
    """

    url: str
    private: bool = False
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Errors: `InvalidConfig`."""
        try:
            target = parse_url(self.url)
        except UnclearUrl as error:
            raise InvalidConfig(f"an allowed URL {error}", got=repr(self.url)[:200]) from None
        if target.query or "?" in self.url:
            raise InvalidConfig("an allowed URL has a query", got=repr(self.url)[:200])
        if not isinstance(cast(object, self.private), bool):
            raise InvalidConfig("private", expected="true or false", got=repr(self.private)[:80])
        for name, value in self.headers.items():
            _check_header(name, value)
            if target.scheme == "http" and not self.private and _VALUE.fullmatch(value):
                raise InvalidConfig(
                    f"header {name} of {self.url} would send a secret unencrypted", expected="an https URL"
                )
        object.__setattr__(self, "headers", MappingProxyType(dict(self.headers)))

    @property
    def target(self) -> UrlTarget:
        return parse_url(self.url)

    def allows(self, target: UrlTarget) -> bool:
        """Return True if a URL has this origin and lies below this path."""
        own = self.target
        below = own.path if own.path.endswith("/") else f"{own.path}/"
        return own.origin == target.origin and (target.path == own.path or target.path.startswith(below))

    def fill_headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Headers with the secrets in place. Errors: `MissingKey`."""
        filled: dict[str, str] = {}
        for name, value in self.headers.items():
            if (found := _VALUE.fullmatch(value)) is None:
                filled[name] = value
                continue
            secret = environ.get(found["name"], "").strip()
            if not _PLAIN.fullmatch(secret):
                raise MissingKey(
                    f"header {name} of the rule {self.url} needs a secret",
                    expected=f"printable ASCII without spaces in the variable {found['name']}",
                    got=f"{len(secret)} characters" if secret else "nothing",
                )
            filled[name] = found["before"] + secret
        return filled


def _check_header(name: object, value: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _OURS:
        raise InvalidConfig("not a header that a rule can set", got=repr(name)[:80])
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]+(?: [!-~]+)*", value):
        raise InvalidConfig(f"the value of header {name}", expected="printable ASCII")
    if _SECRET.search(name) and not _VALUE.fullmatch(value):
        raise InvalidConfig(
            f"header {name} looks like a secret, which never stands in settings",
            expected='the name of an entry of the environment, such as "Bearer env:API_TOKEN"',
        )


def rules_from(allow: Iterable[object]) -> tuple[HttpRule, ...]:
    """Rules from URLs, tables (`{url, private, headers}`) and rules. Errors: `InvalidConfig`."""
    if isinstance(allow, str | bytes | Mapping):
        raise InvalidConfig("the allowed URLs", expected="a list", got="one alone")
    found: list[HttpRule] = []
    for one in allow:
        if isinstance(one, HttpRule):
            found.append(one)
        elif isinstance(one, str):
            found.append(HttpRule(url=one))
        elif isinstance(one, Mapping):
            table = cast("Mapping[str, Any]", one)
            if unknown := set(table) - {"url", "private", "headers"}:
                raise InvalidConfig(
                    "an allowed URL has unknown keys",
                    expected="url, private, headers",
                    got=", ".join(sorted(map(str, unknown)))[:200],
                )
            found.append(HttpRule(**cast("dict[str, Any]", {"url": "", **table})))
        else:
            raise InvalidConfig("not an allowed URL", got=type(one).__name__)
    if len(found) > RULES_MAX:
        raise InvalidConfig("too many allowed URLs", expected=f"at most {RULES_MAX}")
    return tuple(found)


def secrets_of(rules: Iterable[HttpRule], environ: Mapping[str, str]) -> frozenset[str]:
    """All secrets of the rules that are there, and the password in one that is `Basic`."""
    found: set[str] = set()
    for rule in rules:
        for value in rule.headers.values():
            if (named := _VALUE.fullmatch(value)) is None:
                continue
            if secret := environ.get(named["name"], "").strip():
                found.add(secret)
                if named["before"].lower() == "basic ":
                    found.update(_credentials(secret))
    return frozenset(found)


def _credentials(secret: str) -> tuple[str, ...]:
    """Return what stands in the base64 of `user:password`; some servers take the user for the key."""
    try:
        whole = base64.b64decode(secret, validate=True).decode()
    except ValueError:
        return ()
    user, colon, password = whole.partition(":")
    if not colon:
        return ()
    part = password if len(password) >= _PASSWORD_CHARS_MIN else user
    return (whole, part) if len(part) >= _PASSWORD_CHARS_MIN else (whole,)


def rule_for(rules: Iterable[HttpRule], target: UrlTarget) -> HttpRule:
    """The longest rule that allows a URL. Errors: `NotGranted`."""
    fitting = [rule for rule in rules if rule.allows(target)]
    if not fitting:
        raise NotGranted(
            "this URL is not on the list of allowed ones",
            expected=", ".join(rule.url for rule in rules)[:1_000] or "nothing: the list is empty",
            got=f"{target.scheme}://{target.authority}{target.path}",
        )
    return max(fitting, key=lambda rule: len(rule.url))
