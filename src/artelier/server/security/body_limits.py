"""Bounds of a body of JSON that hold before anything parses it: a megabyte may be half a million items."""

from __future__ import annotations

from artelier.server.errors import TooLarge

ITEMS_MAX = 50_000
"""Elements, fields and brackets of one body (a guess: a tenth of what a megabyte can hold). A text counts as
one item, however long it is."""


def check_items(body: bytes) -> None:
    """Refuse a body that makes too many items. Errors: `TooLarge`. Cost: O(length), in a few calls of C."""
    if len(body) <= ITEMS_MAX or _items_in(body) <= ITEMS_MAX:
        return
    if (count := _items_in(_outside_of_texts(body))) > ITEMS_MAX:
        raise TooLarge(
            "the body has too many items",
            expected=f"at most {ITEMS_MAX:,} elements and fields",
            got=f"{count:,}",
            hint="Upload large data as a file: POST /api/v1/uploads.",
        )


def may_hold_placeholders(body: bytes) -> bool:
    """Return whether texts of a body may have the sign that placeholders begin with, written in any way."""
    return b"<" in body or b"\\u003c" in body.replace(b"\0", b"").lower()


def _items_in(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _outside_of_texts(body: bytes) -> bytes:
    """Return what of JSON stands outside of quotes.

    In UTF-16 and UTF-32, which have zeros, a byte that looks like a quote may be half of another sign: of
    these all counts. What is no JSON is counted up to where parsers stop.
    """
    if b"\0" in body:
        return body
    return b"".join(body.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
