"""The items of JSON from outside, counted before anything makes objects of them.

An object takes a hundred bytes of memory for one or two that were sent, and some numbers take a parser
a hundred times as long as others.
"""

from __future__ import annotations

from collections.abc import Iterator

from artelier.threads import give_way

ITEMS_MAX = 50_000
"""Elements, fields and brackets of one body (a guess: a tenth of what a megabyte can hold). A text counts as
one item, however long it is, and a number that is slow to read as `SLOW_ITEMS` more."""

FILE_ITEMS_MAX = 250_000
"""Of one file, such as a lorebook with thousands of entries (measured: 40 MB of memory)."""

SLOW_ITEMS = 25
"""For each exponent of three digits and each 32 digits of a number (measured: up to 10 us, while 25 items
take 2): `5e-324` is such a number, and one of 774 digits is 24 of them."""

PIECE_BYTES = 1 << 16
"""Of large JSON that are looked at before other threads have a turn."""

_SIGNS = bytes(
    ord("0") if chr(sign).isdecimal() and sign < 128 else ord("e") if chr(sign) in "eE" else sign
    for sign in range(256)
)
"""All digits are one, and both signs of exponents."""
_SLOW = (b"0" * 32, b"0e000", b"0e+000", b"0e-000")


def count_items(data: bytes, *, most: int = ITEMS_MAX) -> int:
    """Return how many items JSON makes; for what is none, at most so many.

    Beyond `most` it is some number above it. Cost: O(length), in calls of C.
    """
    count, has_zeros = 0, False
    for piece in pieces(data):
        count += _items_in(piece)
        has_zeros = has_zeros or b"\0" in piece
    # In UTF-16 and UTF-32, which have zeros, a byte that looks like a quote may be half of another sign: of
    # these all counts. What is no JSON is counted up to where parsers stop.
    return _count_outside_of_texts(data, most) if count > most and not has_zeros else count


def pieces(data: bytes, overlap: int = 0) -> Iterator[bytes]:
    """Yield data in pieces of `PIECE_BYTES`, each with so many bytes of the one before."""
    for begin in range(0, len(data), PIECE_BYTES):
        yield data[max(begin - overlap, 0) : begin + PIECE_BYTES]
        give_way()


def _items_in(text: bytes) -> int:
    signs = text.translate(_SIGNS, b"\0")
    slow = sum(map(signs.count, _SLOW))
    return text.count(b",") + text.count(b"[") + text.count(b"{") + SLOW_ITEMS * slow


def _count_outside_of_texts(data: bytes, most: int) -> int:
    """Return the items of JSON that stand outside of quotes."""
    count, quotes, is_inside, rest = 0, 0, False, b""
    for piece in pieces(data):
        piece, rest = rest + piece, b""
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # an escape that goes on in the next piece
            piece, rest = piece[:-1], piece[-1:]
        piece = piece.replace(rb"\\", b"").replace(rb"\"", b"")
        quotes += piece.count(b'"')
        # Each element and field has two texts at most, its name and value: so many are more items. To look
        # between them would take a second.
        if quotes > 4 * most + 2:
            return max(count, (quotes + 1) // 4)
        parts = piece.split(b'"')
        count += _items_in(b"".join(parts[is_inside::2]))
        is_inside = is_inside == bool(len(parts) % 2)
    return count
