"""The cipher under the vault key: AES-256-GCM for content and values, and for the data keys themselves.

A nonce is never chosen twice for two texts of one key: content has its keyed name, which differs with it,
and a wrapped key has a keyed hash of itself. Equal input so gives equal output, and a blob is stored once.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import lru_cache
from hashlib import scrypt
from hmac import digest
from typing import TYPE_CHECKING

from artelier.errors import InvalidConfig

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE = "ARTELIER_VAULT_KEY"
KEY_BYTES = 32
WORDS_MIN = 16
"""Characters of a vault key that is no 32 bytes in hex or base64."""
_NONCE_BYTES = 12
_FORM = b"\x01"


class VaultCipher:
    """`Sealer` under one vault key. `VaultCipher.of(text)` makes one."""

    def __init__(self, secret: bytes) -> None:
        self._wrapping = digest(secret, b"artelier wrap", "sha256")
        self._naming = digest(secret, b"artelier name", "sha256")

    @classmethod
    def of(cls, text: str) -> VaultCipher:
        """Make a cipher from 32 bytes in hex or base64, or from a passphrase (stretched by scrypt, 50 ms).

        Errors: `InvalidConfig` if it is too short to be either.
        """
        text = text.strip()
        if (key := _bytes_of(text)) is None:
            if len(text) < WORDS_MIN:
                raise InvalidConfig(
                    "ARTELIER_VAULT_KEY is too short",
                    expected=f"32 bytes in hex or base64, or at least {WORDS_MIN} characters",
                    got=f"{len(text)} characters",
                    hint='Make one: python -c "import secrets; print(secrets.token_hex(32))"',
                )
            key = scrypt(text.encode(), salt=b"artelier vault", n=2**14, r=8, p=1, dklen=KEY_BYTES)
        return cls(key)

    def wrap(self, secret: bytes) -> bytes:
        nonce = digest(self._naming, secret, "sha256")[:_NONCE_BYTES]
        return _FORM + nonce + _cipher(self._wrapping).encrypt(nonce, secret, None)

    def unwrap(self, stored: bytes) -> bytes | None:
        if stored[:1] != _FORM:
            return None
        nonce, sealed = stored[1 : 1 + _NONCE_BYTES], stored[1 + _NONCE_BYTES :]
        return _decrypt(self._wrapping, nonce, sealed)

    def seal(self, secret: bytes, name: bytes, content: bytes) -> bytes:
        return _cipher(_sealing(secret)).encrypt(name[:_NONCE_BYTES], content, name)

    def unseal(self, secret: bytes, name: bytes, sealed: bytes) -> bytes | None:
        return _decrypt(_sealing(secret), name[:_NONCE_BYTES], sealed, name)


def sealer_from(environ: Mapping[str, str]) -> VaultCipher | None:
    """The cipher of ARTELIER_VAULT_KEY; None if it is not set. Errors: `InvalidConfig`."""
    text = environ.get(VARIABLE, "")
    return VaultCipher.of(text) if text else None


def check_sealing(sealer: object) -> None:
    """Errors: `InvalidConfig` if there is no vault key where personal data is to be replaced."""
    if sealer is None:
        raise InvalidConfig(
            "personal data is to be replaced, and there is no vault key for what it stands for",
            expected=f"{VARIABLE}: 32 bytes in hex or base64, or at least {WORDS_MIN} characters",
            hint='Make one, and keep it elsewhere: python -c "import secrets; print(secrets.token_hex(32))"',
        )


def _bytes_of(text: str) -> bytes | None:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        try:
            key = base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            return None
    return key if len(key) == KEY_BYTES else None


@lru_cache(maxsize=1024)
def _sealing(secret: bytes) -> bytes:
    return digest(secret, b"artelier seal", "sha256")


@lru_cache(maxsize=1024)
def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _decrypt(key: bytes, nonce: bytes, sealed: bytes, name: bytes | None = None) -> bytes | None:
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher(key).decrypt(nonce, sealed, name)
    except (InvalidTag, ValueError):
        return None
