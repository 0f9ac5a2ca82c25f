"""Artifacts as resources, through the handle of one principal: what it may not read is not shown."""

from __future__ import annotations

import base64
from urllib.parse import quote, unquote

import msgspec
from mcp import types

from artelier.artifacts import Artifacts, Summary
from artelier.errors import InvalidRequest, LimitReached

SCHEME = "artelier://artifacts/"
TEMPLATE = SCHEME + "{id}"
URI_CHARS_MAX = 1_000
PAGE_ROWS = 100
CONTENT_BYTES_MAX = 4 * 1024 * 1024
"""One resource in one message; larger artifacts are read with the command line (guess)."""


def uri_of(id_: str) -> str:
    """The address of an artifact."""
    return SCHEME + quote(id_, safe="")


def ref_of(uri: str) -> str:
    """The ref that an address stands for: an id, `id@7` or `id#part`. Errors: `InvalidRequest`."""
    if not uri.startswith(SCHEME) or len(uri) > URI_CHARS_MAX:
        raise InvalidRequest("no such resource", expected=TEMPLATE, got=repr(uri[:80]))
    # Written by hand the slashes of an id stand as they are, and both forms mean the same. What is no
    # UTF-8 becomes a character that no ref has.
    return unquote(uri.removeprefix(SCHEME))


async def page(artifacts: Artifacts, cursor: str | None) -> types.ListResourcesResult:
    """Artifacts beyond the cursor. Errors: `InvalidRequest` for a cursor that is not ours; `NotFound`."""
    found = await artifacts.list(limit=PAGE_ROWS, after=_after(cursor))
    more = len(found) == PAGE_ROWS
    return types.ListResourcesResult(
        resources=[_resource(one) for one in found], next_cursor=_cursor(found[-1].id) if more else None
    )


def _resource(one: Summary) -> types.Resource:
    return types.Resource(
        uri=uri_of(one.id),
        name=one.id,
        size=one.size_bytes,
        description=f"{one.kind}, version {one.version}, owned by {one.owner}",
    )


def templates() -> list[types.ResourceTemplate]:
    """The one form of address that there is."""
    return [
        types.ResourceTemplate(
            uri_template=TEMPLATE,
            name="artifact",
            description="An artifact by its id; `id@7` is version 7, `id#part` a part of a library.",
        )
    ]


async def read(artifacts: Artifacts, uri: str) -> types.ReadResourceResult:
    """The content of an artifact. It is read only if that costs nothing: no client spends by looking.

    Errors: `NotFound`, `AccessDenied`, `InvalidRequest`, `LimitReached`.
    """
    artifact = await artifacts.read(ref_of(uri), price_max=0)
    return types.ReadResourceResult(contents=[_contents(uri, artifact.content)])


def _contents(uri: str, content: object) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(content, bytes):
        _fits(len(content))
        data = base64.b64encode(content).decode()
        return types.BlobResourceContents(uri=uri, blob=data, mime_type="application/octet-stream")
    kind = "text/plain" if isinstance(content, str) else "application/json"
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    _fits(len(text))
    return types.TextResourceContents(uri=uri, text=text, mime_type=kind)


def _fits(size: int) -> None:
    if size > CONTENT_BYTES_MAX:
        raise LimitReached(
            "this artifact is too large for one message",
            expected=f"at most {CONTENT_BYTES_MAX} bytes",
            got=size,
            hint="Read it with: artelier artifacts show.",
        )


def _cursor(id_: str) -> str:
    return base64.urlsafe_b64encode(id_.encode()).decode()


def _after(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        return base64.b64decode(cursor[:1_000], altchars=b"-_", validate=True).decode()
    except ValueError:
        raise InvalidRequest("not a cursor of this list", got=repr(cursor[:80])) from None
