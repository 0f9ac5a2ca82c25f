"""Values that only a decoder or a reader puts together: base64, hex, percent signs, spaces, line ends.

What is decoded counts only if a detector finds a value in it, and decoded bytes only if they are text
throughout: by chance that happens to one token of billions. So precision stays what it is.

A value that is written out with spaces or parted by a line end is the value, and has its placeholder. An
encoded token is another text with another use (a header, a link): it gets a placeholder of its own and comes
back byte for byte.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from artelier.pii.detectors import find_all
from artelier.pii.detectors.text_view import RULES, DecodedView, ValuePlace, unescape, view_of
from artelier.ports.pii import Detector

DEPTH_MAX = 3
"""Encodings within encodings: base64 of JSON with base64 in it."""

ENCODED_CHARS_MAX = 100_000
"""Of one encoded token, lines and all."""

_WORD = r"A-Za-z0-9+/_-"
_TOKEN = re.compile(rf"(?<![{_WORD}])[{_WORD}]{{12,}}(?:={{1,2}}|(?:%3[dD]){{1,2}})?")
_LINES = re.compile(
    r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{40,120}\r?\n[ \t]?){1,900}[A-Za-z0-9+/]{2,120}={0,2}"
    r"(?![A-Za-z0-9+/])"
)
"""Base64 as mail parts it."""

_PARTS = re.compile(r"[/_-]")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:0[xX])?((?:[0-9a-fA-F]{2}){8,})(?![0-9A-Za-z])")
_BYTES = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{2}(?:[ :-][0-9a-fA-F]{2}){7,}(?![0-9A-Za-z])")
_WORDS_OF = (
    bytes(ord("w") if chr(code).isalnum() or chr(code) in "+/_-" else ord(" ") for code in range(128))
    + b" " * 128
)
_LONG_WORD = b"w" * 12
_HEX_OF = (
    bytes(
        ord("h") if chr(code) in "0123456789abcdefABCDEF" else ord(" ") if chr(code) in " :-" else ord(".")
        for code in range(128)
    )
    + b"." * 128
)
_ROW_OF_BYTES = b"hh " * 7 + b"hh"
_HEX_SIGNS = re.compile(r"[ :-]")
_DOMAINS = (
    "com org net edu gov info biz dev app ai io co eu de at ch fr es it nl be uk us ca mx br ar cl in cn jp"
    " kr au nz se no dk fi is ie pt pl cz sk hu ro bg gr tr ru ua za il ae sa example test"
)
_TOP = "(?:" + "|".join(sorted(_DOMAINS.split(), key=len, reverse=True)) + ")"
_BEHIND = r"(?![\w(\[=-]|\.\w)"
_POINT = r" ?(?:\.|\(dot\)|\[dot\]|\{dot\}) ?"
_SPACED = re.compile(
    r"(?<![\w.+-])(?P<local>[A-Za-z0-9][\w.+-]{0,63}) {0,2}(?:@|\(at\)|\[at\]|\{at\}) {0,2}"
    rf"(?P<domain>(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}{_POINT}){{1,4}}{_TOP}){_BEHIND}"
)
_DOT = re.compile(_POINT)
_PROSE = frozenset(
    "a all and are at available back be by check code come down docs email find follow from get go here home"
    " hosted i in is it join live mail me meet meeting more new now of off on online or out over p read see"
    " site than that the then there this to up us visit was we x y you".split()
)
"""Words before a sign that means the place: `find us @ example.com`."""

_BESIDE_CHARS = 80
"""What is looked at on both sides of a line's end."""

_SPLIT_ENDS = re.compile(r"[\w.%+@-]")
_SPLIT_BEGINS = re.compile(r"[\w.@-]")
_ADDRESS = re.compile(
    rf"[A-Za-z0-9][\w.+-]{{0,63}}@(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,4}}{_TOP}{_BEHIND}"
)
_GROUP = re.compile(r"[A-Z0-9]{4}(?![A-Za-z0-9.,])")
_GROUPS = re.compile(r"[A-Z0-9]{4}[ -][A-Z0-9]{4}\Z")
_HEAD = re.compile(r"[A-Z]{2}[0-9]{2}\Z")

_WORDS = re.compile(r"[^\W\d_]{2}")
_MAY_HOLD = re.compile(r"[0-9@\[({]")
"""A sign that every value has which is looked for in decoded text."""

_UNSEEN = re.compile(
    "[\u115f\u1160\u180b-\u180d\u180f\u2065\u206a-\u206f\u2800\u3164\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]+"
)
"""Signs without a form that folding leaves in: fillers, tags, selectors beyond the first sixteen."""


def find_hidden(
    detectors: Sequence[Detector], text: str, view: DecodedView, found: Sequence[ValuePlace]
) -> list[ValuePlace]:
    """Return values that `found` lacks, ascending, none over another or over those.

    Errors: those of `find_all`. Cost: O(length) for each way of hiding whose signs the text has.
    """
    taken = bytearray(len(text))
    for one in found:
        taken[one.start : one.end] = b"\1" * (one.end - one.start)
    kept: list[ValuePlace] = []
    for one in _candidates(detectors, text, view):
        if one.start < one.end and taken.find(1, one.start, one.end) < 0:
            taken[one.start : one.end] = b"\1" * (one.end - one.start)
            kept.append(one)
    return sorted(kept)


def _candidates(detectors: Sequence[Detector], text: str, view: DecodedView) -> Iterator[ValuePlace]:
    deeper = unescape(view)
    if deeper is not view:
        yield from _again(detectors, deeper)
    if not view.text.isascii() and _UNSEEN.search(view.text):
        yield from _again(detectors, _without(view, _UNSEEN))
    yield from _find_spaced(view)
    if "\n" in view.text:
        yield from _split(detectors, view)
    yield from _find_encoded(detectors, text, view)


def _again(detectors: Sequence[Detector], view: DecodedView) -> Iterator[ValuePlace]:
    """Everything that is found in another view."""
    for one in find_all(detectors, view.text):
        start, end = view.span(one.start, one.end)
        yield ValuePlace(start, end, one.kind, one.normal, view.text[one.start : one.end])


def _without(view: DecodedView, signs: re.Pattern[str]) -> DecodedView:
    """The view without some signs."""
    before = range(len(view.text) + 1) if view.places is None else view.places
    pieces: list[str] = []
    places: list[int] = []
    at = 0
    for one in signs.finditer(view.text):
        pieces.append(view.text[at : one.start()])
        places.extend(before[at : one.start()])
        at = one.end()
    pieces.append(view.text[at:])
    places.extend(before[at:])
    return DecodedView("".join(pieces), places)


def _find_spaced(view: DecodedView) -> Iterator[ValuePlace]:
    """`ana @ example.org`, `ana (at) example (dot) org`."""
    text = view.text
    if "@" not in text and "at)" not in text and "at]" not in text and "at}" not in text:
        return
    for one in _SPACED.finditer(text):
        written = one[0]
        if not (" " in written or "(" in written or "[" in written or "{" in written):
            continue
        local = one["local"].rstrip(".")
        if local.lower() in _PROSE or local != one["local"]:
            continue
        value = f"{local}@{_DOT.sub('.', one['domain'])}".lower()
        start, end = view.span(one.start(), one.end())
        yield ValuePlace(start, end, "EMAIL", value, value)


def _split(detectors: Sequence[Detector], view: DecodedView) -> Iterator[ValuePlace]:
    """Values that a line's end parts: addresses, and groups of cards and accounts."""
    text = view.text
    end = text.find("\n")
    while end >= 0:
        at, behind = _edges(text, end)
        low = max(text.rfind("\n", 0, end) + 1, at - _BESIDE_CHARS)
        high = text.find("\n", behind)
        high = min(high if high >= 0 else len(text), behind + _BESIDE_CHARS)
        if at > low and high > behind:
            if text.find("@", low, high) >= 0:
                yield from _split_address(view, low, at, behind, high)
            if _GROUP.match(text, behind, high) and (
                _GROUPS.match(text, max(low, at - 9), at) or _HEAD.match(text, max(low, at - 4), at)
            ):
                yield from _split_groups(detectors, view, low, at, behind, high)
        end = text.find("\n", end + 1)


def _edges(text: str, end: int) -> tuple[int, int]:
    """Return where the line before a line's end ends, and the next begins, without spaces and soft breaks."""
    at, behind = end, end + 1
    while at > max(0, end - 8) and text[at - 1] in " \t\r=":
        at -= 1
    while behind < min(len(text), end + 9) and text[behind] in " \t>":
        behind += 1
    return at, behind


def _split_address(view: DecodedView, low: int, at: int, behind: int, high: int) -> Iterator[ValuePlace]:
    before, after = view.text[low:at], view.text[behind:high]
    if _SPLIT_ENDS.match(before[-1]) and _SPLIT_BEGINS.match(after):
        for one in _ADDRESS.finditer(before + after):
            if one.start() < len(before) < one.end():
                yield _over(view, low, behind, len(before), one.span(), "EMAIL", one[0].lower())


def _split_groups(
    detectors: Sequence[Detector], view: DecodedView, low: int, at: int, behind: int, high: int
) -> Iterator[ValuePlace]:
    before, after = view.text[low:at], view.text[behind:high]
    joined = f"{before} {after}"
    for one in find_all(detectors, joined):
        # Columns of figures are full of groups whose check digit fits, and have no words beside them.
        is_sure = one.kind == "IBAN" or (one.kind == "CARD" and _WORDS.search(joined))
        if is_sure and one.start < len(before) < one.end - 1:
            span, shown = (one.start, one.end), joined[one.start : one.end]
            place = _over(view, low, behind - 1, len(before), span, one.kind, one.normal)
            yield place._replace(shown=shown)


def _over(
    view: DecodedView, low: int, behind: int, parted: int, span: tuple[int, int], kind: str, value: str
) -> ValuePlace:
    """A value whose part up to `parted` stands from `low` on, and whose rest stands from `behind` on."""
    start, end = view.span(low + span[0], behind + span[1] - parted)
    return ValuePlace(start, end, kind, value, value)


def _find_encoded(detectors: Sequence[Detector], text: str, view: DecodedView) -> Iterator[ValuePlace]:
    """Tokens that are a value, or hold one, once they are decoded."""
    for start, end, kind in _tokens(detectors, view.text, depth=0):
        start, end = view.span(start, end)
        written = text[start:end]
        yield ValuePlace(start, end, kind, f"encoded:{written}", written)
    plain = unescape(view, percent=True) if "%" in view.text else view
    if plain is not view:
        for one in _again(detectors, plain):
            written = text[one.start : one.end]
            if "%" in written and not any(sign.isspace() for sign in written):
                yield one._replace(normal=f"encoded:{written}", shown=written)


def _tokens(detectors: Sequence[Detector], text: str, *, depth: int) -> Iterator[tuple[int, int, str]]:
    """Return where encoded tokens stand that hold a value, and of which kind the first of them is."""
    written, patterns = text.encode("ascii", "replace"), list[re.Pattern[str]]()
    if _ROW_OF_BYTES in written.translate(_HEX_OF):
        patterns.append(_BYTES)
    if _LONG_WORD in written.translate(_WORDS_OF):  # most prose has none, and is looked at no further
        patterns += [_LINES, _HEX, _TOKEN]
    for pattern in patterns:
        for one in pattern.finditer(text):
            start, end = one.span()
            if end - start > ENCODED_CHARS_MAX:
                continue
            if pattern is _TOKEN:
                yield from _in_token(detectors, text, start, end, depth=depth)
                continue
            if pattern is _LINES:
                content = _of_base64("".join(one[0].split()))
            else:
                content = _of_hex(_HEX_SIGNS.sub("", one[0]) if pattern is _BYTES else one[1])
            if content and (kind := _kind_in(detectors, content, depth=depth)):
                yield start, end, kind


def _in_token(
    detectors: Sequence[Detector], text: str, start: int, end: int, *, depth: int
) -> Iterator[tuple[int, int, str]]:
    token = text[start:end]
    if token.islower() or token.isupper():
        return  # a word, a number or a name: encoded text has letters of both cases
    content = _of_base64(token)
    if content is not None:
        if kind := _kind_in(detectors, content, depth=depth):
            yield start, end, kind
        return
    at = start
    for part in _PARTS.split(token):
        if 12 <= len(part) < len(token) and (content := _of_base64(part)):
            if kind := _kind_in(detectors, content, depth=depth):
                yield at, at + len(part), kind
        at += len(part) + 1


def _of_base64(token: str) -> str | None:
    """The text that a token stands for; None if it stands for none."""
    plain = token.replace("%3D", "").replace("%3d", "").rstrip("=")
    plain = plain.replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        return None
    head = plain[:24]
    try:
        if not _is_text(b64decode(head + "=" * (-len(head) % 4))[:15]):
            return None
        return _text_of(b64decode(plain + "=" * (-len(plain) % 4)))
    except (NotBase64, ValueError):
        return None


def _of_hex(token: str) -> str | None:
    try:
        content = bytes.fromhex(token)
    except ValueError:
        return None
    return _text_of(content) if _is_text(content[:15]) else None


_CONTROLS = bytes(code for code in range(32) if code not in (9, 10, 13)) + b"\x7f"


def _is_text(content: bytes) -> bool:
    return not any(code in _CONTROLS for code in content)


def _text_of(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return text if _is_text(content) else None


def _kind_in(detectors: Sequence[Detector], content: str, *, depth: int) -> str | None:
    if _MAY_HOLD.search(content) is None:
        return None
    found = find_all(detectors, content)
    if found:
        return found[0].kind
    view = unescape(DecodedView(content, None))
    if view.text != content and (found := find_all(detectors, view.text)):
        return found[0].kind
    if depth < DEPTH_MAX:
        return next((kind for _, _, kind in _tokens(detectors, content, depth=depth + 1)), None)
    return None


# --------------------------------------------------------------------------- text windows
# A large text in windows: each is searched alone, with enough around it that nothing is seen otherwise.
# A window owns the values that begin in it. What a detector looks at around a value (the words before it,
# the lines of a private key) lies in its margins.


WINDOW_CHARS = 256 * 1024
MARGIN_CHARS = 40 * 1024
"""More than the longest value of a shipped detector: a token of three parts has 26,000."""


class TextWindow(NamedTuple):
    """The window to read, from `low` to `high`; values that begin between `start` and `end` count."""

    low: int
    start: int
    end: int
    high: int


class PlacesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The places in a window of text, as a helper process answers."""

    values: list[tuple[str, str, str]]
    """Kind, normal form and spelling of each value."""
    found: list[int]
    """Start, end and index in `values` of each place, one after another."""
    took_s: float
    """Processor time."""


def places(detectors: Sequence[Detector], text: str, *, rules: int = RULES) -> list[ValuePlace]:
    """Return what the detectors find, ascending by place, under some `RULES`. Errors: those of `find_all`."""
    view = view_of(text)
    found: list[ValuePlace] = []
    for one in find_all(detectors, view.text):
        start, end = view.span(one.start, one.end)
        found.append(ValuePlace(start, end, one.kind, one.normal, view.text[one.start : one.end]))
    if rules >= 2 and (more := find_hidden(detectors, text, view, found)):
        return sorted((*found, *more))
    return found


def windows(text: str, *, size: int = WINDOW_CHARS, margin: int = MARGIN_CHARS) -> Iterator[TextWindow]:
    """Part a text where lines end, or else words."""
    start, length = 0, len(text)
    while start < length:
        end = length if length - start <= size else _cut(text, start + size // 2, start + size)
        low = _cut(text, max(0, start - 2 * margin), start - margin) if start > margin else 0
        yield TextWindow(low, start, end, min(length, end + margin))
        start = end


def _cut(text: str, floor: int, at: int) -> int:
    for sign in "\n ,":
        found = text.rfind(sign, floor, at)
        if found >= 0:
            return found + 1
    return at


def join_places(text: str, found: Sequence[ValuePlace], kinds_of_tenants: frozenset[str]) -> list[ValuePlace]:
    """Return the places of all windows in order, none over another.

    A match of somebody's pattern may be longer than the margins: its parts are made one.
    """
    done: list[ValuePlace] = []
    for one in sorted(found):
        last = done[-1] if done else None
        if last is None or one.start >= last.end:
            done.append(one)
        elif one.end > last.end and one.kind == last.kind and one.kind in kinds_of_tenants:
            whole: Any = text[last.start : one.end]
            done[-1] = ValuePlace(last.start, one.end, one.kind, whole, whole)
    return done
