"""Addresses of electronic mail, as people, links and programs write them.

Each sign `@` (or `%40` of a link) is looked at once; the search goes from there to both sides within the
lengths of RFC 5321, so that no text makes it slow.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from artelier.pii.detectors.text_view import CJK_FIRST, Shipped, TextReading
from artelier.ports.pii import Found

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

    def read(self, reading: TextReading) -> Iterator[Found]:
        yield from self._find_by_sign(reading)
        if any(hint in reading.lower for hint in _SPELT_HINTS):
            yield from self._spelt(reading)

    def _spelt(self, reading: TextReading) -> Iterator[Found]:
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

    def _find_by_sign(self, reading: TextReading) -> Iterator[Found]:
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
