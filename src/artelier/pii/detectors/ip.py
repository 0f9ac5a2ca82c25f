"""Addresses of machines, IPv4 and IPv6, that can point at somebody.

Left alone: loopback, unspecified, masks (255.…) and what stands behind a word such as `version`. Private
addresses and those kept for documentation are found: they look like any other to who reads the text.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from artelier.pii.detectors.number_forms import words
from artelier.pii.detectors.text_view import Shipped, TextReading, joins
from artelier.ports.pii import Found

_RESOLVERS = frozenset(
    (
        "8.8.8.8",
        "8.8.4.4",
        "1.1.1.1",
        "1.0.0.1",
        "9.9.9.9",
        "2001:4860:4860::8888",
        "2001:4860:4860::8844",
        "2606:4700:4700::1111",
    )
)
_PREFIX = re.compile(r"/([0-9]{1,3})(?![0-9])")
_QUAD_BEFORE = re.compile(r"(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[^0-9A-Za-z])-\Z")
"""Before the second address of a range, or the dash of a list."""

_STROKE_BEFORE = re.compile(r"(?:[a-zA-Z]-?[0-9.]+|[0-9]*\.[0-9]+) \Z")
_STROKE_BEHIND = re.compile(r"(?: |-)[0-9]*\.[0-9]+[.-][0-9]|-[0-9]")
"""Numbers of a drawing (SVG), which leaves the signs between them away."""

_INNER = re.compile(rb"\.0{1,3}\.0{1,3}\.0")
_OCTETS = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.(?!$)|$)){4}")
_DIGITS_BEFORE = re.compile(r"[0-9]{1,3}$")
_DIGITS_AFTER = re.compile(r"[0-9]{1,3}")
_COLONS = re.compile(rb"::|:[0a]{1,4}:")
_GROUPS = re.compile(r"[0-9A-Fa-f:.]+")
_SIX_CHARS_MAX = 45
"""Of the longest spelling, with an IPv4 address at its end."""

_VERSION = words(
    "v(?![a-z])",
    "ver(?![a-z])",
    "version",
    "release",
    "build",
    "firmware",
    "sections?",
    "chapter",
    "clause",
    "paragraph",
    "rev(?![a-z])",
    "revision",
    "patch",
    "oid",
    "object ?identifier",
    "rfc ?[0-9]{1,5}(?![0-9])",
    "(?:update|upgrade|downgrade|patch|bump)[sd]? [a-z0-9_.-]{1,12} to",
)
_BETWEEN = re.compile(r"[\"'“”]?\s?[:=#(]{0,2}\s?\\?[\"'“”vV]?(?:no\.?\s)?")


class Ips(Shipped):
    """`IP`; normal: as `ipaddress` writes it."""

    def __init__(self) -> None:
        super().__init__("IP")

    def read(self, reading: TextReading) -> Iterator[Found]:
        last = 0
        for inner in _INNER.finditer(reading.shape):
            span = _four(reading, inner.start())
            if span is None or span[0] < last or _is_version(reading.text, span[0]):
                continue
            start, last = span
            address = ipaddress.IPv4Address(reading.text[start:last])
            if not _is_nobodys(address) and not _is_network(reading.text, address, last):
                yield reading.make_found(start, last, self.kind, str(address))
        yield from self._six(reading)

    def _six(self, reading: TextReading) -> Iterator[Found]:
        last = 0
        if ":" not in reading.text:
            return
        for colons in _COLONS.finditer(reading.shape):
            if colons.start() < last:
                continue
            start = _begin(reading.text, colons.start())
            match = _GROUPS.match(reading.text, start)
            if match is None:
                continue
            last = match.end()
            written = match[0].rstrip(".")
            if written.endswith(":") and not written.endswith("::"):
                written = written[:-1]
            end = start + len(written)
            if len(written) > _SIX_CHARS_MAX or joins(reading.before(start)) or joins(reading.after(end)):
                continue
            address = _address_six(written)
            if address is not None and not _is_network(reading.text, address, end):
                yield reading.make_found(start, end, self.kind, str(address))


def _is_nobodys(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """This machine, no machine, a mask, or a server that everybody asks for names."""
    if address.version == 4:
        masked = address.packed[0] in (0, 255)
    else:
        masked = address.packed[:2] == b"\xff\xff"
    return masked or address.is_loopback or address.is_unspecified or str(address) in _RESOLVERS


def _is_network(text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, end: int) -> bool:
    """A range of private addresses such as `10.0.0.0/8`."""
    size = _PREFIX.match(text, end)
    bits = address.max_prefixlen - int(size[1]) if size else 0
    return bits > 0 and address.is_private and int(address) & ((1 << bits) - 1) == 0


def _four(reading: TextReading, dot: int) -> tuple[int, int] | None:
    """The span of a dotted quad whose first dot is given."""
    text = reading.text
    before = _DIGITS_BEFORE.search(text, max(0, dot - 3), dot)
    if before is None:
        return None
    third = text.index(".", text.index(".", dot + 1) + 1)
    after = _DIGITS_AFTER.match(text, third + 1)
    if after is None:
        return None
    start, end = before.start(), after.end()
    first, behind = reading.before(start), reading.after(end)
    if joins(first) or joins(behind) or first == ".":
        return None
    if first == "-" and start > 1 and not _QUAD_BEFORE.search(text, max(0, start - 16), start):
        return None
    if behind == "-" and text[end + 1 : end + 2].isalpha():
        return None
    if _STROKE_BEFORE.search(text, max(0, start - 12), start) and _STROKE_BEHIND.match(text, end):
        return None
    if behind == "." and end + 1 < len(text) and joins(text[end + 1]):
        return None
    return (start, end) if _OCTETS.fullmatch(text, start, end) else None


def _is_version(text: str, start: int) -> bool:
    before = text[max(0, start - 24) : start].lower()
    if before.endswith(("==", ">=", "<=", "~=", "^", "§", "§ ")):
        return True
    return any(_BETWEEN.fullmatch(before, match.end()) for match in _VERSION.finditer(before))


def _begin(text: str, at: int) -> int:
    """Return where the hexadecimal group before a colon begins."""
    floor = max(0, at - 4)
    while at > floor and text[at - 1] in "0123456789abcdefABCDEF":
        at -= 1
    return at


def _address_six(written: str) -> ipaddress.IPv6Address | None:
    groups = [group for group in written.split(":") if group]
    if len(groups) < 3 and not (groups and groups[0][0] in "23fF" and len(groups[0]) == 4):
        return None  # `a::b` is a name of some program, `::1` this machine
    try:
        address = ipaddress.IPv6Address(written)
    except ValueError:
        return None
    return None if _is_nobodys(address) else address
