"""Reads of stored content by its reference, of a run's messages, and of the snapshots of its loop."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, cast

import msgspec

from artelier.artifacts import Artifacts
from artelier.artifacts.media.inspection import type_of
from artelier.errors import ArtelierError, Erased, InvalidRequest
from artelier.kernel.events import ToolCompleted
from artelier.kernel.queries.runs import run_row
from artelier.kernel.run.services import Services
from artelier.log import Store, Tx, decode_stored, stored_blob
from artelier.log.contract import stored_name
from artelier.log.queries import fetch_all, fetch_first, fetch_value, stream_events
from artelier.ports.media import Medium, medium_of
from artelier.ports.model import Part


async def blob_json(services: Services, tenant: str, ref: str | None) -> Any:
    if ref is None:
        return None
    return decode_stored(await stored_blob(services.store, tenant, ref))


async def content(services: Services, tenant: str, ref: str) -> object:
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


MEDIA_SHOWN_MAX = 8
"""Media of one run in one answer: the newest (guess)."""
MEDIA_BYTES_MAX = 4 * 1024 * 1024
"""All media of one answer together: as much as one resource of MCP in one message."""
_MEDIA_CALLS = 1_000
"""Newest results of tools in which media are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMedium:
    """An image, a sound, a PDF or a text that a tool has shown, or that a task came with."""

    ref: str
    """Of the artifact that holds it; empty for what a task came with."""
    media_type: str
    size_bytes: int
    content: bytes | None
    """None where it would make the answer too large."""

    @property
    def facts(self) -> MediumFacts:
        """Return what is told of it without its content."""
        return MediumFacts(
            artifact=self.ref,
            media_type=self.media_type,
            size_bytes=self.size_bytes,
            left_out=self.content is None,
        )


class MediumFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A medium that a tool has shown, without its content."""

    artifact: str
    """Ref of the artifact that holds it."""
    media_type: str
    size_bytes: int
    left_out: bool
    """True where its content would make the answer too large."""


async def media_of_tools(
    services: Services, tenant: str, run_id: str, space: Artifacts, *, bytes_max: int = MEDIA_BYTES_MAX
) -> list[ShownMedium]:
    """Return the newest media that the tools of a run have shown, oldest first, each once: those that the
    reader of `space` may read. `bytes_max`: of their content together. Errors: `NotFound` for no such run.
    """
    row = await run_row(services.store, tenant, run_id)
    events = await stream_events(
        services.store, row.id, "tool.completed", containing='"media":[', newest=_MEDIA_CALLS
    )
    calls = [decode_stored(one.data, type=ToolCompleted) for one in events]
    refs = [ref for one in calls for ref in reversed(one.media) if ref]
    found: dict[bytes, ShownMedium] = {}
    left = bytes_max
    for ref in refs[: 4 * MEDIA_SHOWN_MAX]:
        if len(found) == MEDIA_SHOWN_MAX:
            break
        try:
            content = (await space.read(ref, price_max=0)).content
        except ArtelierError:  # erased, deleted, or not for this reader
            continue
        if not isinstance(content, bytes) or (name := sha256(content).digest()) in found:
            continue
        is_small = len(content) <= left
        left -= len(content) if is_small else 0
        found[name] = ShownMedium(
            ref=ref,
            media_type=type_of(content) or "text/plain",
            size_bytes=len(content),
            content=content if is_small else None,
        )
    return list(reversed(found.values()))


class RunAttachments(msgspec.Struct):
    """The attachments among the settings of a run; the rest is passed over unread."""

    attachments: tuple[Part, ...] = ()

    @property
    def media(self) -> tuple[Medium, ...]:
        """Return what they show. Errors: `InvalidRequest` for one that is malformed."""
        return tuple(map(medium_of, self.attachments))


async def media_of_request(
    services: Services, tenant: str, run_id: str, *, bytes_max: int = MEDIA_BYTES_MAX
) -> list[ShownMedium]:
    """Return the media that the task of a run came with, in their order, without what was erased.

    `bytes_max`: of their content together. Errors: `NotFound` for no such run.
    """
    row = await run_row(services.store, tenant, run_id)
    found: list[ShownMedium] = []
    with suppress(Erased):
        settings = b"{}" if row.settings is None else await stored_blob(services.store, tenant, row.settings)
        for one in decode_stored(settings, type=RunAttachments).media:
            is_small = one.size_bytes <= bytes_max
            content = await stored_blob(services.store, tenant, one.blob) if is_small else None
            bytes_max -= one.size_bytes if is_small else 0
            found.append(
                ShownMedium(ref="", media_type=one.media_type, size_bytes=one.size_bytes, content=content)
            )
    return found


class MessageRow(NamedTuple):
    """A message as the view has it; see `Entry`."""

    n: int
    form: str
    ref: str
    call: str


async def messages_between(
    store: Store, stream_id: int, conversation: str, *, start: int, end: int, upto: int
) -> list[MessageRow]:
    """Return messages `start..end` that a run itself has, and what its conversation goes on from (form `b`).

    Only those that were recorded up to the event `upto`.
    """
    return await fetch_all(
        store,
        MessageRow,
        "SELECT n, form, ref, call FROM messages WHERE run = ? AND conversation = ?"
        " AND n BETWEEN ? AND ? AND seq <= ? AND form <> 'b'"
        " UNION ALL SELECT n, form, ref, call FROM (SELECT n, form, ref, call FROM messages"
        " WHERE run = ? AND conversation = ? AND seq <= ? ORDER BY n LIMIT 1)"
        " WHERE form = 'b'",
        (*(stream_id, conversation, start, end, upto), *(stream_id, conversation, upto)),
    )


async def conversation_rows(
    store: Store, stream_id: int | None, conversation: str, *, start: int, limit: int
) -> list[MessageRow]:
    """Return the messages of a run's conversation from a number on; none for a run that is not stored yet."""
    return await fetch_all(
        store,
        MessageRow,
        "SELECT n, form, ref, call FROM messages WHERE run = ? AND conversation = ? AND n >= ?"
        " ORDER BY n LIMIT ?",
        (stream_id, conversation, start, limit),
    )


class BaseRow(NamedTuple):
    """The run that a conversation goes on from."""

    run: str
    n: int
    position: int | None
    """Of the event that recorded message `n` there; None if it is missing."""


async def bases_of(store: Store, tenant: str, stream_id: int, *, upto: int) -> list[BaseRow]:
    """Return what the conversations of a run go on from, up to a position of the log."""
    return await fetch_all(
        store,
        BaseRow,
        "SELECT m.ref, m.n, e.position FROM messages m"
        " JOIN event_log o ON o.stream_id = m.run AND o.seq = m.seq"
        " LEFT JOIN runs r ON r.tenant = ? AND r.run = m.ref"
        " LEFT JOIN messages b ON b.run = r.id AND b.conversation = m.call AND b.n = m.n"
        " LEFT JOIN event_log e ON e.stream_id = b.run AND e.seq = b.seq"
        " WHERE m.run = ? AND m.form = 'b' AND o.position <= ?",
        (tenant, stream_id, upto),
    )


class SnapshotRow(NamedTuple):
    """The state of a loop at the end of a cycle, as JSON."""

    state: str
    seq: int


async def newest_snapshot(store: Store, stream_id: int, *, upto: int) -> SnapshotRow | None:
    """Return the newest snapshot of a run up to an event."""
    return await fetch_first(
        store,
        SnapshotRow,
        "SELECT state, seq FROM snapshots WHERE run = ? AND seq <= ? ORDER BY cycle DESC LIMIT 1",
        (stream_id, upto),
    )


_NEWEST = (
    "SELECT max(m.n) FROM messages m JOIN runs r ON r.id = m.run"
    " WHERE r.tenant = ? AND r.run = ? AND m.conversation = ?"
)


async def newest_message(store: Store, tenant: str, run_id: str, conversation: str) -> int:
    """Return the number of the last message of a run's conversation; 0 if it has none."""
    return (await store.query(_NEWEST, (tenant, run_id, conversation)))[0][0] or 0


def newest_message_in(tx: Tx, tenant: str, run_id: str, conversation: str) -> int:
    """Return the same as `newest_message`, as it stands inside a transaction."""
    row = tx.one(_NEWEST, (tenant, run_id, conversation))
    return (row[0] if row else 0) or 0


async def count_messages(store: Store, tenant: str, run_id: str, conversation: str, *, upto: int) -> int:
    """Return how many messages of a run's conversation are recorded with a number up to `upto`."""
    return await fetch_value(
        store,
        "SELECT count(*) FROM messages m JOIN runs r ON r.id = m.run"
        " WHERE r.tenant = ? AND r.run = ? AND m.conversation = ? AND m.n <= ?",
        (tenant, run_id, conversation, upto),
    )


async def conversation_names(store: Store, stream_id: int, *, limit: int) -> list[str]:
    """Return the conversations of a run, each by one look into the index."""
    found: list[str] = []
    last = ""
    while len(found) < limit:
        rows = await store.query(
            "SELECT min(conversation) FROM messages WHERE run = ? AND conversation > ?", (stream_id, last)
        )
        if rows[0][0] is None:
            break
        last = rows[0][0]
        found.append(last)
    return found


async def messages_after(
    store: Store, stream_id: int, conversation: str, *, after: int, upto: int, limit: int
) -> list[MessageRow]:
    """Return the messages of a conversation with `after < n <= upto`, as far as the run itself has them."""
    return await fetch_all(
        store,
        MessageRow,
        "SELECT n, form, ref, call FROM messages WHERE run = ? AND conversation = ?"
        " AND n > ? AND n <= ? AND form <> 'b' ORDER BY n LIMIT ?",
        (stream_id, conversation, after, upto, limit),
    )
