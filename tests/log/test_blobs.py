"""Names of content: HMAC-SHA256 under the tenant's key, by whatever way they are computed."""

from __future__ import annotations

import hmac
from hashlib import sha256

import pytest

from artelier.log.blobs import DataKey, name_blob


@pytest.mark.parametrize("key_bytes", [0, 1, 32, 64, 65, 200])
@pytest.mark.parametrize("content", [b"", b"x", b"y" * 100_000])
def test_a_name_is_the_hmac_of_the_content(key_bytes: int, content: bytes) -> None:
    secret = bytes(range(key_bytes % 256))[:key_bytes]

    assert name_blob(DataKey(1, secret), content) == hmac.digest(secret, content, "sha256")


def test_without_a_key_a_name_is_the_plain_hash() -> None:
    assert name_blob(DataKey(None, b"ignored"), b"content") == sha256(b"content").digest()
