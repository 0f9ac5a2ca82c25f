"""The identity of a request: a user, a token, or a header of a trusted reverse proxy."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TypeAlias
from urllib.parse import urlsplit

from artelier.errors import InvalidConfig
from artelier.server.security.login_sessions import COOKIE_CHARS_MAX, LoginSession, Sessions
from artelier.server.security.users import ROLES, ProgramTokens, Role, User, Users

LOCAL_STAMP = hashlib.sha256(b"artelier local").digest()
"""In place of a password's, where one person has the machine to themselves."""

TENANT_COOKIE = "artelier_tenant"
TENANT_HEADER = "x-artelier-tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A signed-in user. `tenants` None means all of this store: the one person of local mode."""

    name: str
    role: Role
    tenants: tuple[str, ...] | None
    session: LoginSession | None = None
    """None for a program with a token, whose requests need no CSRF token."""
    asked_tenant: str = ""
    """The tenant that the request names, not yet allowed."""

    @property
    def is_local(self) -> bool:
        return self.tenants is None

    @property
    def actor(self) -> str:
        """The actor, as events name it."""
        return "operator" if self.is_local else f"user:{self.name}"

    @property
    def listener(self) -> str:
        """The name under which live streams are counted; empty for the one user of local mode."""
        return "" if self.is_local else self.name

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


class IdentityGate:
    """Knows users and sessions of one server."""

    def __init__(
        self, sessions: Sessions, users: Users | None, *, tokens: ProgramTokens | None = None
    ) -> None:
        """`tokens`: those of programs, where nobody signs in by name."""
        self.sessions = sessions
        self.users = users
        self.tokens = tokens if users is None else None

    def own_cookies(self, header: str) -> str:
        """Return the server's own cookies of a `Cookie` header. Cost: linear.

        Python's parser, which frameworks use too, takes the square of a quoted value's length, and gives up
        all that stands behind a cookie that it cannot read. Browsers send those of every port of a host.
        """
        found: dict[str, str] = {}
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name in (self.sessions.cookie, TENANT_COOKIE) and len(value) <= COOKIE_CHARS_MAX:
                found[name] = value
        return "; ".join(f"{name}={value}" for name, value in found.items())

    def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """The user behind these headers (lower case); None if nobody is signed in."""
        cookies = _cookies(self.own_cookies(headers.get("cookie", "")))
        asked = headers.get(TENANT_HEADER) or cookies.get(TENANT_COOKIE, "")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.users is not None:
            user = self.users.with_token(token.strip())
            return _of_user(user, None, asked) if user is not None else None
        if scheme.lower() == "bearer" and self.tokens is not None:
            is_known = self.tokens.find(token.strip()) is not None
            return _local(None, asked, role="operator") if is_known else None
        cookie = cookies.get(self.sessions.cookie, "")
        session = self.sessions.read(cookie)
        if session is None:
            return None
        if self.users is None:
            is_good = session.user == "" and self.sessions.proves(cookie, session, LOCAL_STAMP)
            return _local(session, asked) if is_good else None
        user = self.users.find(session.user)
        if user is None or not self.sessions.proves(cookie, session, user.stamp):
            return None
        return _of_user(user, session, asked)


def _local(session: LoginSession | None, asked: str, *, role: Role = "admin") -> Identity:
    return Identity(name="operator", role=role, tenants=None, session=session, asked_tenant=asked)


def _of_user(user: User, session: LoginSession | None, asked: str) -> Identity:
    return Identity(name=user.name, role=user.role, tenants=user.tenants, session=session, asked_tenant=asked)


def _cookies(header: str) -> dict[str, str]:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(header)
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items()}


Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

HOPS_MAX = 20
"""Of proxies in a row that a header may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicUrl:
    """The origin that browsers use: `https://desk.example`, with a port where it is not the usual one."""

    origin: str
    host: str
    """In lower case, without the port."""
    is_secure: bool

    @classmethod
    def parse(cls, text: str) -> PublicUrl:
        """Read a `--public-url`. Errors: `InvalidConfig`."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        is_origin = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_origin:
            raise InvalidConfig(
                "the public URL is no address of a server",
                expected="https://HOST or https://HOST:PORT, without a path",
                got=text[:200],
            )
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        origin = f"{parts.scheme}://{name}" + ("" if port is None else f":{port}")
        return cls(origin=origin, host=parts.hostname.lower(), is_secure=parts.scheme == "https")


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Read each `--trusted-proxy`, an address or a network. Errors: `InvalidConfig`."""
    found: list[Network] = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise InvalidConfig(
                "a trusted proxy is named by its address",
                expected="an IP address or a network such as 10.0.0.0/8",
                got=text[:200],
            ) from None
    return tuple(found)


def client_address(peer: str, headers: Mapping[str, str], *, trusted: Sequence[Network]) -> str:
    """Return the address of the client behind trusted proxies; the peer's own where it is none of them.

    `X-Forwarded-For` is read from its end: what stands before the first address that no trusted proxy
    has is the word of a stranger.
    """
    at = peer
    hops = headers.get("x-forwarded-for", "").split(",")[-HOPS_MAX:] if trusted else []
    for hop in reversed(hops):
        if not _is_in(at, trusted):
            break
        named = hop.strip().removeprefix("[").partition("]")[0]
        try:
            at = str(ipaddress.ip_address(named))
        except ValueError:
            break
    return at


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in network for network in networks)
