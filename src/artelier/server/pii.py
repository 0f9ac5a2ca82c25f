"""Personal data at the server's face, in one place for all routes.

What a person sends in is text: a placeholder that was typed stands for nothing. What goes out to a person who
may see values has them in place of placeholders. The store and the inspector's prompts keep placeholders,
and so do files that are exported.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from artelier.app import TenantKernel
from artelier.kernel.pii_scrubber import RESTORE
from artelier.kernel.policy import is_granted
from artelier.server.live_hub import EventStream
from artelier.server.security.connection_limits import may_hold_placeholders
from artelier.server.security.guard import LARGE, SAFE
from artelier.server.security.identity import Identity
from artelier.threads import read_beside_loop

AS_SENT = frozenset(("runs_manifest", "runs_prompt", "runs_prompt_diff", "runs_media", "agents_next_prompt"))
"""Operations that show what a model was, or would be, sent: nobody sees more there than it did."""

JSON = "application/json"
DATA = b"data: "


class ReadRequest(Request):
    """A request with this body. What is large becomes JSON beside the event loop."""

    _json: Any

    def __init__(self, request: Request, body: bytes) -> None:
        super().__init__(request.scope, request.receive)
        self._body = body

    async def json(self) -> Any:
        """Return the body as JSON. Errors: those of `json.loads`."""
        if not hasattr(self, "_json"):
            self._json = await read_beside_loop(len(self._body), json.loads, self._body)
        return self._json


def escape_placeholders(desk: TenantKernel, value: object) -> Any:
    """JSON data of a person, in which what only looks like a placeholder is none."""
    return desk.services.escape_placeholders(desk.id, value)


def disarmer(desk: TenantKernel) -> Callable[[Any], Any]:
    """Return `escape_placeholders` of a tenant as a call for any thread."""
    personal = desk.services.personal
    if personal is None:
        return lambda value: value
    scrubber = personal(desk.id)
    return lambda value: scrubber.escape_lookalikes(value, lambda _: False)


async def scrub_content(desk: TenantKernel, content: bytes) -> bytes:
    """Content as it is stored, to compare it with what is there; large content is searched elsewhere."""
    personal = desk.services.personal
    if personal is None:
        return content
    scrubber = personal(desk.id)
    await scrubber.prepare(content)
    return scrubber.content(content)


async def scrub_query(desk: TenantKernel, who: Identity, words: str) -> str:
    """Return what a person looks for, as it is stored; who sees no values finds none by them either."""
    personal = desk.services.personal
    if personal is None or not who.may("operator"):
        return words
    return personal(desk.id).text(words) if is_granted((await desk.state()).grants, RESTORE) else words


async def escape_request(request: Request, desk: TenantKernel) -> Request:
    """A request as routes may read it: JSON whose placeholders were escaped, whatever the request calls it.
    Files are read by their routes.
    """
    if request.method in SAFE or request.url.path in LARGE or not (body := await request.body()):
        return request
    if not await may_hold_placeholders(body):
        return request
    disarm = disarmer(desk)
    changed = await read_beside_loop(len(body), _escape_body, body, disarm)
    return request if changed is None else ReadRequest(request, changed)


def _escape_body(body: bytes, disarm: Callable[[Any], Any]) -> bytes | None:
    """The body with what was typed in it; None if that is what it says."""
    for read, write in _FORMS:
        try:
            value = read(body)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            continue
        clean = disarm(value)
        return None if clean == value else write(clean)
    return None  # the route says what is wrong with it


_FORMS: tuple[tuple[Callable[[bytes], Any], Callable[[Any], bytes]], ...] = (
    (msgspec.json.decode, msgspec.json.encode),
    (json.loads, lambda value: json.dumps(value).encode()),
)
"""The second is slower and takes more, as parsers of routes do: UTF-16, NaN, half of a character."""


async def restore_response(response: Response, desk: TenantKernel) -> Response:
    """A response with values for placeholders, as far as the tenant's grants allow."""
    if isinstance(response, EventStream):
        return response.map_frames(lambda frames: _restored_frames(frames, desk))
    body = getattr(response, "body", None)
    media = response.headers.get("content-type", "").partition(";")[0]
    if not isinstance(body, bytes) or b"<" not in body:
        return response  # nothing in it, or a file
    if media == JSON:
        done = await _restored_json(body, desk)
    elif media == "text/plain":
        done = (await desk.restored(body.decode())).encode()
    else:
        return response
    response.body = done
    response.headers["content-length"] = str(len(done))
    return response


async def _restored_json(body: bytes, desk: TenantKernel) -> bytes:
    value = await read_beside_loop(len(body), msgspec.json.decode, body)
    return await read_beside_loop(len(body), msgspec.json.encode, await desk.restored(value))


async def _restored_frames(frames: AsyncIterator[bytes], desk: TenantKernel) -> AsyncGenerator[bytes]:
    """Frames whose data is JSON; the grants are looked at for each, so that a withdrawn one ends at once."""
    async with aclosing(cast("AsyncGenerator[bytes]", frames)):
        async for piece in frames:
            if b"<" not in piece:
                yield piece
                continue
            lines = piece.split(b"\n")
            for at, line in enumerate(lines):
                if b"<" in line and line.startswith(DATA):
                    lines[at] = DATA + await _restored_json(line[len(DATA) :], desk)
            yield b"\n".join(lines)
