"""Content, stored once: a blob is named by a keyed hash of its bytes and compressed where that pays.

The key makes a name useless for guessing content once the key is gone. `key_id` says which row of `keys`
named a blob; without one the name is a plain SHA-256. With a vault key the content is sealed as well, and
what personal data it holds is replaced before it is named (see `keyring.py`).
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from artelier.errors import CorruptStore, InvalidRequest
from artelier.log.event import BlobRef

BLOB_BYTES_MAX = 256 * 1024 * 1024
"""A single blob; larger content is refused before anything is written (guess: a generous upload)."""

_COMPRESS_FROM_BYTES = 1024
# Below this, zlib costs more CPU than the disk it saves (measured: 15 us for a 0.8 KB tool result).

PLAIN = 0
ZLIB = 1
SEALED = 2
"""Set in the codec of what is encrypted, after it was compressed."""
ERASED = 4
"""The codec of a blob whose key is gone and whose content was taken away; name and size stay."""


class Secret(NamedTuple):
    """A row of the table `vault`: what a placeholder stands for, sealed."""

    tenant: str
    placeholder: str
    digest: bytes
    """Of kind and normalised value, keyed: the same for all spellings of one value."""
    generation: int
    """How often this value was erased before."""
    key_id: int | None
    sealed: bytes


LARGE_BYTES = 32 * 1024
"""Content above this size is searched for personal data before it is named."""

HASHED_ASIDE_BYTES = 1024 * 1024
"""Content above this size is hashed in a thread."""


class Scrub(Protocol):
    """A filter in front of a key, where personal data is replaced."""

    def __call__(self, content: bytes, /) -> tuple[bytes, tuple[Secret, ...]]:
        """Return content without personal data, and the rows of its placeholders that are not stored."""
        ...

    async def prepare(self, content: bytes, /) -> None:
        """Do the work of the call ahead, off the event loop."""
        ...

    def under(self, rules: int, /) -> Scrub:
        """Return the same under the rules that a run was started under."""
        ...


class DataKey(NamedTuple):
    """A key of the table `keys`, and what it demands of content."""

    key_id: int | None
    secret: bytes
    is_sealing: bool = False
    scrub: Scrub | None = None


class Blob(NamedTuple):
    """A blob about to be stored."""

    tenant: str
    name: bytes
    key_id: int | None
    content: bytes
    secret: bytes = b""
    """What seals it; empty for plain content."""
    vault: tuple[Secret, ...] = ()
    """What rides with it."""
    packed: tuple[int, bytes] | None = None
    """Codec and bytes as they are stored, where that was done ahead of the writer."""


def name_blob(key: DataKey, content: bytes) -> bytes:
    """The 32-byte name of some content under a key."""
    return sha256(content).digest() if key.key_id is None else hmac_sha256(key.secret, content)


def hmac_sha256(secret: bytes, content: bytes) -> bytes:
    """`hmac.digest(secret, content, "sha256")`, and faster for many small contents under one key.

    `hmac.digest` also gives other threads a turn each time, which may take milliseconds.
    """
    inner, outer = _hmac_states(secret)
    digest = inner.copy()
    digest.update(content)
    name = outer.copy()
    name.update(digest.digest())
    return name.digest()


@lru_cache(maxsize=1024)
def _hmac_states(secret: bytes) -> tuple[Any, Any]:
    """HMAC-SHA256 (RFC 2104) with its key already hashed: `hmac.digest` does that for each content anew."""
    if len(secret) > 64:
        secret = sha256(secret).digest()
    padded = secret.ljust(64, b"\0")
    inner, outer = (sha256(bytes(byte ^ pad for byte in padded)) for pad in (0x36, 0x5C))
    return inner, outer


def blob_ref(name: bytes) -> BlobRef:
    return BlobRef("b:" + base64.urlsafe_b64encode(name)[:43].decode("ascii"))


def blob_name(ref: str) -> bytes:
    """The 32-byte name behind a reference. Errors: `InvalidRequest` if it is none."""
    if not ref.startswith("b:") or len(ref) != 45:
        raise InvalidRequest("not a blob reference", expected="b:<43 characters>", got=ref[:60])
    try:
        return base64.b64decode(f"{ref[2:]}=", altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidRequest("not a blob reference", expected="base64url", got=ref[:60]) from None


async def prepared_blob(tenant: str, key: DataKey, content: bytes) -> tuple[BlobRef, Blob]:
    """Name some content, as `make_blob` does, without holding up the event loop, however large it is.

    Errors: those of `make_blob` and of the search for personal data; then it must not be stored.
    """
    if key.scrub is not None and len(content) > LARGE_BYTES:
        await key.scrub.prepare(content)
    if len(content) > HASHED_ASIDE_BYTES:
        return await asyncio.to_thread(make_blob, tenant, key, content)
    return make_blob(tenant, key, content)


def make_blob(tenant: str, key: DataKey, content: bytes) -> tuple[BlobRef, Blob]:
    """Name some content. Errors: `InvalidRequest` if it is larger than `BLOB_BYTES_MAX`."""
    if len(content) > BLOB_BYTES_MAX:
        raise InvalidRequest(
            "content too large", expected=f"at most {BLOB_BYTES_MAX} bytes", got=len(content)
        )
    if key.scrub is None and not key.is_sealing:
        name = name_blob(key, content)
        return blob_ref(name), Blob(tenant, name, key.key_id, content)
    vault: tuple[Secret, ...] = ()
    if key.scrub is not None:
        content, vault = key.scrub(content)
    name = name_blob(key, content)
    secret = key.secret if key.is_sealing else b""
    return blob_ref(name), Blob(tenant, name, key.key_id, content, secret, vault)


def pack(content: bytes) -> tuple[int, bytes]:
    """Codec and stored bytes."""
    if len(content) >= _COMPRESS_FROM_BYTES:
        packed = zlib.compress(content, 1)
        if len(packed) * 10 < len(content) * 9:
            return ZLIB, packed
    return PLAIN, content


def unpack(codec: int, stored: bytes, size: int) -> bytes:
    """The content again. Errors: `CorruptStore` if it cannot be, or is not `size` bytes."""
    if codec == PLAIN:
        content = stored
    elif codec == ZLIB:
        reader = zlib.decompressobj()
        try:
            content = reader.decompress(stored, size + 1)
        except (zlib.error, ValueError, OverflowError) as error:
            raise CorruptStore(f"a blob cannot be decompressed: {error}") from None
    else:
        raise CorruptStore("unknown blob codec", expected="0 or 1", got=codec)
    if len(content) != size:
        raise CorruptStore("a blob has the wrong size", expected=size, got=len(content))
    return content
