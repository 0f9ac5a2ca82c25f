"""Content, stored once: a blob is named by a keyed hash of its bytes and compressed where that pays.

The key makes a name useless for guessing content once the key is gone. `key_id` says which row of `keys`
named a blob; without one the name is a plain SHA-256. With a vault key the content is sealed as well, and
what personal data it holds is replaced before it is named.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from hmac import digest
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from artelier.errors import CorruptStore, Erased, InvalidRequest, Locked, MissingKey
from artelier.log.event import BlobRef, EventData, event

if TYPE_CHECKING:
    from _hashlib import HASH

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


LARGE_BYTES = 8 * 1024
"""Content above this size is searched for personal data before it is named."""

HASHED_ASIDE_BYTES = 1024 * 1024
"""Content above this size is hashed in a thread."""


class Scrub(Protocol):
    """A filter in front of a key, where personal data is replaced."""

    def __call__(self, content: bytes, /) -> tuple[bytes, tuple[Secret, ...]]:
        """Return content without personal data, and the rows of its placeholders that are not stored."""
        ...

    async def prepare(self, content: bytes, /) -> None:
        """Do the work of the call ahead, off the event loop; let others have turns where many are small."""
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


class PackedContent(NamedTuple):
    """Content as it is stored."""

    codec: int
    stored: bytes
    size: int
    """Bytes before compression."""


NO_CONTENT = PackedContent(ERASED, b"", 0)
"""The place of content that was erased."""


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
    packed: PackedContent | None = None
    """The content as it is stored, where that was made ahead of the writer; `content` may be empty then."""


def name_blob(key: DataKey, *pieces: bytes) -> bytes:
    """The 32-byte name of some content under a key. Large content may be given in pieces."""
    if key.key_id is not None:
        return hmac_sha256(key.secret, *pieces)
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def hmac_sha256(secret: bytes, *pieces: bytes) -> bytes:
    """`hmac.digest(secret, content, "sha256")`, and faster for many small contents under one key.

    `hmac.digest` also gives other threads a turn each time, which may take milliseconds.
    """
    inner, outer = _hmac_states(secret)
    digest = inner.copy()
    for piece in pieces:
        digest.update(piece)
    name = outer.copy()
    name.update(digest.digest())
    return name.digest()


@lru_cache(maxsize=1024)
def _hmac_states(secret: bytes) -> tuple[HASH, HASH]:
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
    """Name some content, as `make_blob` does, without holding up the event loop, however large or many.

    Errors: those of `make_blob` and of the search for personal data; then it must not be stored.
    """
    if key.scrub is not None:
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


# --------------------------------------------------------------------------- keyring
# Keys as a store keeps them: wrapped by the vault key if there is one, and what they seal.
#
# Without a vault key a data key only names content. With one its row in `keys` is wrapped, content is sealed
# under it, and dropping the row (or losing the vault key) leaves names, sizes and chains, and no content.
# The cipher is handed in; this package knows none.

SECRET_BYTES = 32
"""A data key as it is used. Its wrapped form is longer."""


SUBJECT = "s:"
"""How the name of a subject begins that only whoever has its tenant's key can tell."""


def subject_name(secret: bytes, subject: str) -> str:
    """Return what a subject is called in `keys`, where `anna@example.org` would be as good as her content."""
    name = digest(secret, f"artelier subject\0{subject}".encode(), "sha256")
    return SUBJECT + base64.urlsafe_b64encode(name).decode().rstrip("=")


def is_subject_name(text: str) -> bool:
    """Return True if a text has the form of `subject_name`: nobody is called so."""
    return text.startswith(SUBJECT) and len(text) == len(SUBJECT) + 43


class Sealer(Protocol):
    """A cipher under the vault key. Equal input gives equal output."""

    def wrap(self, secret: bytes) -> bytes:
        """A data key as it is stored; longer than `SECRET_BYTES`."""
        ...

    def unwrap(self, stored: bytes) -> bytes | None:
        """The data key; None if another vault key wrapped it."""
        ...

    def seal(self, secret: bytes, name: bytes, content: bytes) -> bytes:
        """Content under a data key; no two contents of one key have one `name`."""
        ...

    def unseal(self, secret: bytes, name: bytes, sealed: bytes) -> bytes | None:
        """The content; None if it is not what was sealed under that key and name."""
        ...


ScrubOf = Callable[[str, DataKey], Scrub | None]
"""What replaces personal data of a tenant; None where nothing does."""


def blob_refs(data: str | bytes) -> Iterator[bytes]:
    """Names of the blobs that some event data refers to, wherever they stand in it."""
    try:
        stack: list[Any] = [msgspec.json.decode(data)]
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return  # changed data, which its chain names
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            if len(value) == 45 and value.startswith("b:"):
                with suppress(InvalidRequest):
                    yield blob_name(value)
        elif isinstance(value, list):
            stack.extend(value)  # pyright: ignore[reportUnknownArgumentType] - JSON
        elif isinstance(value, dict):
            stack.extend(value.values())  # pyright: ignore[reportUnknownArgumentType] - JSON


class Keyring:
    """Between the table `keys` and those who store content."""

    def __init__(self, sealer: Sealer | None = None) -> None:
        self._sealer = sealer
        self._opened: dict[bytes, bytes] = {}
        """Data keys by their wrapped form."""
        self._plain: set[int | None] = set()
        """Keys in use that were stored before there was a vault key."""
        self.scrub_of: ScrubOf | None = None
        """Set by who opens the store, before the first key is asked for."""

    @property
    def sealer(self) -> Sealer | None:
        """The cipher, if there is a vault key."""
        return self._sealer

    def change(self, sealer: Sealer) -> None:
        """Use another vault key: all rows are wrapped by it now."""
        self._sealer = sealer
        self._opened.clear()

    @property
    def is_sealing(self) -> bool:
        return self._sealer is not None

    def seal_key(self, secret: bytes) -> bytes:
        """The form of a data key in its row."""
        return secret if self._sealer is None else self._sealer.wrap(secret)

    def can_open(self, stored: bytes) -> bool:
        """Return True if a data key can be used: it is not wrapped, or by the vault key that is here."""
        return self._secret(stored) is not None

    def plain_of(self, key_ids: Iterable[int | None]) -> set[int | None]:
        """Return those of these keys that are in use and were stored before there was a vault key."""
        return self._plain.intersection(key_ids)

    def forget_plain(self, key_id: int | None) -> None:
        """Take a key as wrapped from now on."""
        self._plain.discard(key_id)

    def key(self, tenant: str, key_id: int | None, stored: bytes) -> DataKey:
        """A key to store content with.

        Errors: `MissingKey` if its row is wrapped and the vault key is not here.
        """
        if key_id is None:
            return DataKey(None, b"")
        key = DataKey(key_id, self.secret_of(tenant, stored), self._sealer is not None)
        if key.is_sealing and len(stored) <= SECRET_BYTES:
            self._plain.add(key_id)
        if self.scrub_of is not None:
            key = key._replace(scrub=self.scrub_of(tenant, key))
        return key

    def secret_of(self, tenant: str, stored: bytes) -> bytes:
        """A data key behind its row. Errors: `MissingKey`."""
        secret = self._secret(stored)
        if secret is None:
            raise MissingKey(
                f"the content of tenant {tenant!r} is encrypted, and its vault key is not here",
                expected="ARTELIER_VAULT_KEY in the environment",
            )
        return secret

    def _secret(self, stored: bytes) -> bytes | None:
        if len(stored) <= SECRET_BYTES:
            return stored
        if self._sealer is None:
            return None
        if (known := self._opened.get(stored)) is None:
            known = self._sealer.unwrap(stored)
            if known is not None:
                self._opened[stored] = known
        return known

    def forget(self) -> None:
        """Keys may have been dropped: open them again."""
        self._opened.clear()

    def row(self, blob: Blob) -> tuple[str, bytes, int | None, int, int, bytes]:
        """A blob as a row of `blobs`."""
        packed = self.pack(blob) if blob.packed is None else blob.packed
        return blob.tenant, blob.name, blob.key_id, packed.codec, packed.size, packed.stored

    def pack(self, blob: Blob) -> PackedContent:
        """Return the content of a blob as it is stored. Any thread may ask."""
        codec, stored = pack(blob.content)
        if blob.secret:
            assert self._sealer is not None
            codec, stored = codec | SEALED, self._sealer.seal(blob.secret, blob.name, stored)
        return PackedContent(codec, stored, len(blob.content))

    def unpack(
        self, name: bytes, key_id: int | None, secret: bytes | None, codec: int, stored: bytes, size: int
    ) -> bytes:
        """The content of a row, with `secret` as its key's row has it; None if that row is gone.

        Errors: `Erased`, `Locked`, `CorruptStore`.
        """
        if codec == ERASED or (key_id is not None and secret is None):
            raise Erased(
                "this content was erased",
                got=blob_ref(name),
                hint="Nobody brings it back. What needs it goes no further: begin anew under another name.",
            )
        if codec & ~1 != SEALED:
            return unpack(codec, stored, size)
        key = None if secret is None else self._secret(secret)
        if key is None or self._sealer is None:
            raise Locked(
                "this content is sealed, and the vault key is not here",
                got=blob_ref(name),
                hint="Set ARTELIER_VAULT_KEY.",
            )
        packed = self._sealer.unseal(key, name, stored)
        if packed is None:
            raise CorruptStore("a sealed blob is not what was written", got=blob_ref(name))
        return unpack(codec & ~SEALED, packed, size)


# --------------------------------------------------------------------------- erasure
# Values of erasing content and of collecting garbage: the event, what is to go, and what went.
#
# The database's side is `log/erasure.py`.


@event("content.erased")
class ContentErased(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Keys were dropped, and all content under them; or the vault forgot what placeholders stand for."""

    keys: tuple[int, ...] = ()
    whole: bool = False
    """Everything that the tenant had stored, under keys up to `upto_key`."""
    what: str = ""
    """Keyed hash of the subject or value that was named: it tells who knows the name that it was done."""
    blobs: int = 0
    values: int = 0
    upto_key: int | None = None
    """The newest key that this may have reached. None: recorded by an older version, which did not say."""
    stream: str = ""
    """Of keys of parts: the stream whose own deletion this was, such as `session:tavern`."""


IMPORTED = "import"
"""In `keys`, the subject of keys that came with exports; nobody else may be called so."""


SUBJECT_CHARS_MAX = 200


def check_subject(subject: object) -> str:
    """A subject's id, such as `customer-17`. Errors: `InvalidRequest`."""
    if (
        not isinstance(subject, str)
        or not 0 < len(subject) <= SUBJECT_CHARS_MAX
        or not subject.isprintable()
        or subject.strip() != subject
        or subject == IMPORTED
        or is_subject_name(subject)
    ):
        raise InvalidRequest(
            "this is no subject",
            expected=f"1 to {SUBJECT_CHARS_MAX} characters in one line, other than {IMPORTED!r}",
            got=repr(subject)[:80],
        )
    return subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasing:
    """The data of one tenant to remove. `whole` removes everything that it has stored."""

    tenant: str
    keys: tuple[int, ...] = ()
    """Rows of `keys`; all content under them goes with them."""
    placeholders: tuple[str, ...] = ()
    """Rows of the vault that lose what they stand for."""
    whole: bool = False
    upto_key: int | None = None
    """Only keys up to this one, and what is under them. None: all."""
    expected: Wiped | None = None
    """What the event says that goes; `wipe` takes that or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiped:
    """The amounts that were removed."""

    keys: int = 0
    blobs: int = 0
    size_bytes: int = 0
    """Of the content before compression."""
    values: int = 0
    """Placeholders that stand for nothing any more."""


Driving = Callable[[str, Sequence[Any]], bool]
"""Tells whether a lease holds, from its holder and its `expires_us` and `expires_uptime_us`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The garbage that was found and, except in a dry run, removed."""

    blobs: int = 0
    size_bytes: int = 0
    """As they were stored."""
    resealed: int = 0
    """Contents that were stored before there was a vault key, and are sealed now."""
    rates: int = 0
    """Rows of windows that are long over."""
    busy: tuple[str, ...] = ()
    """Tenants whose garbage stays this time: runs of theirs are driven."""
    cleaned: bool = True
    """Whether no byte of what was taken away is left in the file."""
