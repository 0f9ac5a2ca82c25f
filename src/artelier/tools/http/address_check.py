"""The check of addresses: which ones a tool may talk to, with host names resolved once.

The address that was checked is the one that is connected to: a name that leads elsewhere a moment later gains
nothing (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable

from artelier.errors import ToolFailed

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
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
