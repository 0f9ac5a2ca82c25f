"""Reads of stored content by its reference, for programs and for people."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

from artelier.errors import Erased, InvalidRequest
from artelier.kernel.run.services import Services
from artelier.log import decode_stored, stored_blob
from artelier.log.contract import stored_name


async def blob_json(services: Services, tenant: str, ref: str | None) -> Any:
    if ref is None:
        return None
    return decode_stored(await stored_blob(services.store, tenant, ref))


async def content(services: Services, tenant: str, ref: str) -> Any:
    """Return stored content by its reference: JSON as data, else text or bytes. Errors: see
    `TenantKernel.content`."""
    if not isinstance(cast(object, ref), str) or not _BLOB.fullmatch(ref):
        raise InvalidRequest(
            "this names no stored content",
            expected="a reference of an event, b: and 43 characters",
            got=repr(ref)[:80],
            hint="An artifact is read with `as_principal(...).artifacts.read(ref)`.",
        )
    found = await services.store.blob(tenant, stored_name(ref))
    try:
        return msgspec.json.decode(found)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:
        return found.decode()
    except UnicodeDecodeError:
        return found


_BLOB = re.compile(r"b:[A-Za-z0-9_-]{43}")


async def shown_json(services: Services, tenant: str, ref: str | None) -> Any:
    """Stored JSON to look at: `[erased]` where it was erased, `[locked]` without the vault key."""
    try:
        return await blob_json(services, tenant, ref)
    except Erased as error:
        return error.mark


async def shown_fields(services: Services, tenant: str, ref: str | None) -> dict[str, Any]:
    """A stored JSON object to look at; empty where there is none, or it was erased."""
    found: Any = await shown_json(services, tenant, ref)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
