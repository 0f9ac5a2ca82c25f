"""Reading back what the store has written: what cannot be read is damage, and no fault of the caller."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

from artelier.errors import CorruptStore, Erased, InvalidRequest, NotFound
from artelier.log.blobs import blob_name
from artelier.log.contract import Store

T = TypeVar("T")

RESTORE = "Run `artelier verify`; restore a backup or import an export."


@overload
def decode_stored(content: str | bytes) -> Any: ...


@overload
def decode_stored(content: str | bytes, *, type: type[T]) -> T: ...


def decode_stored(content: str | bytes, *, type: Any = Any) -> Any:
    """JSON from a row or a blob. Errors: `CorruptStore` if it is none, or not of that type."""
    try:
        return msgspec.json.decode(content, type=type)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptStore(
            f"a stored value cannot be read: {error}", got=repr(content[:60]), hint=RESTORE
        ) from None


def stored_name(ref: str) -> bytes:
    """The name behind a stored reference. Errors: `CorruptStore` if it is no reference."""
    try:
        return blob_name(ref)
    except InvalidRequest as error:
        raise CorruptStore(
            "a stored reference is none", expected=error.expected, got=error.got, hint=RESTORE
        ) from None


async def stored_blob(store: Store, tenant: str, ref: str) -> bytes:
    """Content that a row refers to. Errors: `CorruptStore`, also if it is not there; `Erased`."""
    try:
        return await store.blob(tenant, stored_name(ref))
    except Erased:
        raise
    except NotFound as error:
        raise CorruptStore("content that a row refers to is missing", got=error.got, hint=RESTORE) from None


async def missing_mark(store: Store, tenant: str, name: bytes) -> str:
    """Return the text to show for content that `blobs` left out: `[erased]` or `[locked]`."""
    try:
        await store.blob(tenant, name)
    except Erased as error:
        return error.mark
    except (NotFound, CorruptStore):
        pass
    return Erased.mark
