"""The server behind a reverse proxy: the address that people type, and whose word about clients counts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from artelier.errors import InvalidConfig

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
