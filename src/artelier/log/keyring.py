"""Keys as a store keeps them: wrapped by the vault key if there is one, and what they seal.

Without a vault key a data key only names content. With one its row in `keys` is wrapped, content is sealed
under it, and dropping the row (or losing the vault key) leaves names, sizes and chains, and no content.
The cipher is handed in; this package knows none.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from hmac import digest
from typing import Any, Protocol

from artelier.errors import CorruptStore, Erased, Locked, MissingKey
from artelier.log.blobs import ERASED, SEALED, Blob, DataKey, Scrub, blob_ref, pack, unpack

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

    def row(self, blob: Blob) -> tuple[Any, ...]:
        """A blob as a row of `blobs`."""
        codec, stored = self.pack(blob) if blob.packed is None else blob.packed
        return blob.tenant, blob.name, blob.key_id, codec, len(blob.content), stored

    def pack(self, blob: Blob) -> tuple[int, bytes]:
        """Codec and bytes of a blob as they are stored. Any thread may ask."""
        codec, stored = pack(blob.content)
        if blob.secret:
            assert self._sealer is not None
            codec, stored = codec | SEALED, self._sealer.seal(blob.secret, blob.name, stored)
        return codec, stored

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
