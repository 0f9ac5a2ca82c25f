"""Text within a number of bytes: cut between characters, with a mark, the mark included."""

from __future__ import annotations

from typing import NamedTuple

from artelier.errors import InvalidRequest


class Clipped(NamedTuple):
    text: str
    is_cut: bool


def clip(text: str, *, limit_bytes: int) -> Clipped:
    """The text as it is if it fits, else its beginning and a mark, together within `limit_bytes` of UTF-8.

    Errors: `InvalidRequest` for a limit that has no room for the mark.
    """
    # A lone surrogate has no UTF-8; it must not end a tick.
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return Clipped(data.decode(), False)
    mark = f"\n[cut: {len(data):,} bytes in all]"
    room = limit_bytes - len(mark)
    if room < 0:
        raise InvalidRequest(
            "a limit without room for the mark", expected=f"at least {len(mark)}", got=limit_bytes
        )
    return Clipped(data[:room].decode("utf-8", "ignore") + mark, True)
