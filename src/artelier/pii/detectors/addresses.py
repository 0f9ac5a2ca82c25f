"""Addresses of people and machines: electronic mail, IPv4 and IPv6."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from artelier.pii.detectors.number_forms import words
from artelier.pii.detectors.text_view import CJK_FIRST, Shipped, TextReading, joins
from artelier.ports.pii import DetectedValue

# --------------------------------------------------------------------------- email
# Addresses of electronic mail, as people, links and programs write them.
#
# Each sign `@` (or `%40` of a link) is looked at once; the search goes from there to both sides within the
# lengths of RFC 5321, so that no text makes it slow.

_LOCAL_CHARS_MAX = 64
_QUOTED_CHARS_MAX = 66
_DOMAIN_CHARS_MAX = 254

_SIGN = re.compile(r"@|%40")
# Signs that RFC 5322 permits but that part things in links, code and tables (= / ? & | { } `) are left out.
_LOCAL_LEAD = re.compile(r"(?:[.!#$%'*+^~-]|%(?:3[abdefABDEF]|2[0267fF]|5[bB]|7[bB])(?=.))+")
_ESCAPED_DELIMITER = re.compile(r".*%(?:3[abcdefABCDEF]|2[0267cCfF]|5[bB]|7[bB])")
_QUOTED_END = re.compile(r'\\?"\w(?:[^"\\\r\n@]|\\[^"\r\n]){0,63}\\?"\Z')
_LABELS = r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}"
_TOP = r"(?:[xX][nN]--[A-Za-z0-9-]{1,58}[A-Za-z0-9]|[A-Za-z]{2,24}|[^\W\d_A-Za-z]{2,24})"
_DOMAINS = (
    re.compile(_LABELS + _TOP + r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"),
    re.compile(_LABELS + _TOP + r"(?![A-Za-z0-9]|_+[A-Za-z0-9])"),
)
"""The whole of what looks like a domain; else its longest beginning that is one."""

_SPELT_HINTS = (b"(at)", b"[at]", b" dot ")
_SPELT_SIGN = re.compile(r"(?i) ?(?:[(\[{] ?at ?[)\]}]) ?| at (?=[\w-]{1,63}(?: [\w-]{1,63}){0,3} dot )")
_SPELT_LOCAL = re.compile(r"(?<![\w.+-])\w[\w.+-]{0,63}\Z")
_SPELT_DOT = r"(?:\.| ?[(\[{] ?(?:dot|punkt|point|punto|\.) ?[)\]}] ?| dot )"
_SPELT_DOMAIN = re.compile(
    rf"(?i)[^\W_][\w-]{{0,62}}(?:{_SPELT_DOT}[^\W_][\w-]{{0,62}}){{0,4}}{_SPELT_DOT}[a-z]{{2,24}}(?!\w)"
)
"""`anna (at) example.com`, `anna [at] example [dot] com`, `anna at example dot com`."""

_PATH = re.compile(r":(?:/(?!/)|~)")
"""Behind the host of `scp anna@example.com:/srv`."""

_FILE_ENDINGS = frozenset(
    "png jpg jpeg gif svg webp ico css js ts jsx tsx mjs json map html htm xml yaml yml toml txt md pdf"
    " csv tgz gz whl jar dll exe so py rb go".split()
)
"""Of file names such as `icon@2x.png`: behind a domain that begins with a digit they are no country."""


class Emails(Shipped):
    """`EMAIL`; normal: both parts in lower case, the domain in Unicode."""

    def __init__(self) -> None:
        super().__init__("EMAIL")

    def read(self, reading: TextReading) -> Iterator[DetectedValue]:
        yield from self._find_by_sign(reading)
        if any(hint in reading.lower for hint in _SPELT_HINTS):
            yield from self._spelt(reading)

    def _spelt(self, reading: TextReading) -> Iterator[DetectedValue]:
        """Addresses whose sign is a word."""
        text, last = reading.text, 0
        for sign in _SPELT_SIGN.finditer(text):
            local = _SPELT_LOCAL.search(text, max(last, sign.start() - _LOCAL_CHARS_MAX), sign.start())
            domain = _SPELT_DOMAIN.match(text, sign.end(), sign.end() + _DOMAIN_CHARS_MAX)
            if local is not None and domain is not None:
                host = re.sub(f"(?i){_SPELT_DOT}", ".", domain[0])
                last = domain.end()
                normal = _normal(local[0], host, escaped=False)
                yield reading.make_found(local.start(), last, self.kind, normal)

    def _find_by_sign(self, reading: TextReading) -> Iterator[DetectedValue]:
        text = reading.text
        if "@" not in text and ("%" not in text or "%40" not in text):
            return
        last = 0
        for sign in _SIGN.finditer(text):
            if sign.start() < last:
                continue
            start = _local_start(text, last, sign.start(), escaped=sign[0] != "@")
            end = _domain_end(text, sign.end()) if start is not None else None
            if start is None or end is None or _is_something_else(text, start, sign, end):
                continue
            while text[start] == text[end : end + 1] == "_" and start + 1 < sign.start():
                start += 1  # emphasis of Markdown, the second of whose signs is behind
            normal = _normal(text[start : sign.start()], text[sign.end() : end], escaped=sign[0] != "@")
            yield reading.make_found(start, end, self.kind, normal)
            last = end


def _local_start(text: str, floor: int, at: int, *, escaped: bool) -> int | None:
    if at and text[at - 1] == '"':
        quoted = _QUOTED_END.search(text, max(floor, at - _QUOTED_CHARS_MAX), at)
        return quoted.start() if quoted else None
    lowest = max(floor, at - _LOCAL_CHARS_MAX)
    start = at
    spaceless = bool(at) and text[at - 1] >= CJK_FIRST
    while start > lowest and _is_local(text[start - 1], spaceless=spaceless):
        start -= 1
    if escaped and (delimiter := _ESCAPED_DELIMITER.match(text, start, at)):
        start = delimiter.end()
    if lead := _LOCAL_LEAD.match(text, start, at):
        start = lead.end()
    return start if start < at and text[at - 1] not in ".'" else None


def _is_local(sign: str, *, spaceless: bool) -> bool:
    if sign >= CJK_FIRST and not spaceless:
        return False  # a word before an ASCII address, in a script that writes no space between
    return sign.isalnum() or sign in "._!#$%'*+^~-" or unicodedata.combining(sign) > 0


def _domain_end(text: str, at: int) -> int | None:
    if text[at : at + 1] == "[":
        close = text.find("]", at, at + 48)
        literal = text[at + 1 : close] if close > 0 else ""
        return close + 1 if re.fullmatch(r"[0-9.]{7,15}|IPv6:[0-9A-Fa-f:.]+", literal) else None
    for domain in _DOMAINS:
        if match := domain.match(text, at, at + _DOMAIN_CHARS_MAX):
            return match.end()
    return None


def _is_something_else(text: str, start: int, sign: re.Match[str], end: int) -> bool:
    """A file for dense screens, a repository's address, a password before the host of a link, or code."""
    domain = text[sign.end() : end]
    if sign[0] == "@" and _is_of_machines(text, start, sign, end, domain):
        return True
    ending = domain.rpartition(".")[2].lower()
    if ending in _FILE_ENDINGS and domain[0].isdigit():
        return True
    before = text[max(0, start - 80) : start]
    if before.endswith(":") and "://" in before and not before.endswith(("mailto:", "://:")):
        link = before[before.rfind("://") + 3 : -1]
        if not any(part in link for part in " /\t\n\"'<>,;?"):
            return True
    return False


def _is_of_machines(text: str, start: int, sign: re.Match[str], end: int, domain: str) -> bool:
    """An account on a host, an algorithm, or an expression, all of which are written alike."""
    local = text[start : sign.start()]
    if local == "git" and (text[end : end + 1] == ":" or text.endswith("://", 0, start)):
        return True
    if domain in ("openssh.com", "libssh.org") and "-" in local:
        return True
    return _PATH.match(text, end) is not None or text.startswith("()", end)


def _normal(local: str, domain: str, *, escaped: bool) -> str:
    if escaped:
        local = unquote(local)
    if local.startswith(("\\", '"')):
        local = local.strip('\\"')
    domain = unicodedata.normalize("NFC", domain).lower()
    if "xn--" in domain:
        try:
            domain = domain.encode("ascii").decode("idna")
        except UnicodeError:
            pass  # a label that no registry would take: its own spelling is its normal form
    return unicodedata.normalize("NFC", local).lower() + "@" + domain


# --------------------------------------------------------------------------- ip
# Addresses of machines, IPv4 and IPv6, that can point at somebody.
#
# Left alone: loopback, unspecified, masks (255.…) and what stands behind a word such as `version`. Private
# addresses and those kept for documentation are found: they look like any other to who reads the text.

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

    def read(self, reading: TextReading) -> Iterator[DetectedValue]:
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

    def _six(self, reading: TextReading) -> Iterator[DetectedValue]:
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
