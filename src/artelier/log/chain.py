"""The hash chain: what a changed, removed or reordered event breaks.

`hash = SHA-256(prev_hash | canonical JSON of all other fields)`. The local stream name is hashed, tenant and
position are not, so that a stream can be imported elsewhere. A commit root hashes the previous root and, for
each event of the group commit in order, its hash and its full stream name; so a stream moved to another
tenant, and a cut-off tail, are found too.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec

GENESIS = bytes(32)
"""`prev_hash` of the first event of a stream and previous root of the first commit."""


class _Hashed(msgspec.Struct, frozen=True):
    # Field order is the sorted order: it is the canonical form, and cheaper than sorting each time.
    actor: str
    at_us: int
    cause: str | None
    data: msgspec.Raw
    kind: str
    seq: int
    stream: str
    version: int


_encode = msgspec.json.Encoder().encode


def event_hash(
    prev_hash: bytes,
    *,
    stream: str,
    seq: int,
    kind: str,
    version: int,
    data: bytes,
    at_us: int,
    actor: str,
    cause: str | None,
) -> bytes:
    """SHA-256 of an event in its chain. Shapes: `stream` is the local name, `data` canonical JSON."""
    body = _encode(_Hashed(actor, at_us, cause, msgspec.Raw(data), kind, seq, stream, version))
    return sha256(prev_hash + body).digest()


def commit_root(previous: bytes, events: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Root of one group commit over `(event hash, full stream name in UTF-8)` pairs in position order."""
    digest = sha256(previous)
    for hash_, name in events:
        digest.update(hash_)
        digest.update(name)
    return digest.digest()
