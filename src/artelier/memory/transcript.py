"""The transcript of a run: messages from the log's rows, read from the store alone, with no run open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

import msgspec

from artelier.errors import CorruptStore, NotFound
from artelier.kernel.prompt.manifest import decode_message, decode_reply, message_of_reply, message_of_result
from artelier.log import Store, blob_name
from artelier.ports.model import ChatMessage

PAGE = 1_000
CONVERSATIONS_MAX = 200
"""Of one run."""


class Transcript:
    """Reads the conversations of one tenant's runs, which are named by their row."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    async def conversations(self, row_id: int) -> list[str]:
        """Their names, each by one look into the index."""
        found: list[str] = []
        last = ""
        while len(found) < CONVERSATIONS_MAX:
            rows = await self._store.query(
                "SELECT min(conversation) FROM messages WHERE run = ? AND conversation > ?", (row_id, last)
            )
            if rows[0][0] is None:
                break
            last = rows[0][0]
            found.append(last)
        return found

    async def messages(
        self, row_id: int, conversation: str, *, after: int = 0, upto: int = 1 << 62
    ) -> AsyncIterator[tuple[int, ChatMessage | None]]:
        """Messages with `after < n <= upto`, with their numbers; None for one whose content is gone."""
        while True:
            rows = await self._store.query(
                "SELECT n, form, ref, call FROM messages WHERE run = ? AND conversation = ?"
                " AND n > ? AND n <= ? AND form <> 'b' ORDER BY n LIMIT ?",
                (row_id, conversation, after, upto, PAGE),
            )
            for n, form, ref, call in rows:
                after = n
                yield n, await self._message(row_id, form, ref, call)
            if len(rows) < PAGE:
                return

    async def value(self, ref: str | None, role: Literal["user", "assistant"]) -> ChatMessage | None:
        """The task or the result of a run as a message."""
        if ref is None:
            return None
        try:
            value: object = msgspec.json.decode(await self._blob(ref))
        except (NotFound, msgspec.DecodeError):
            return None
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return ChatMessage(role=role, content=text)

    async def _message(self, row_id: int, form: str, ref: str, call: str) -> ChatMessage | None:
        """A message by its entry; None if its content was erased or its outcome was never recorded."""
        try:
            if form == "m":
                return decode_message(await self._blob(ref))
            content = await self._outcome(row_id, ref)
            if content is None:
                return None
            return (
                message_of_reply(decode_reply(content)) if form == "r" else message_of_result(content, call)
            )
        except (NotFound, CorruptStore):
            return None

    async def _outcome(self, row_id: int, key: str) -> bytes | None:
        """Recorded reply or result of a step; of the origin's, if this run was forked after it."""
        while True:
            rows = await self._store.query(
                "SELECT e.data FROM steps s JOIN events e ON e.stream = s.run"
                " AND e.seq = s.completed WHERE s.run = ? AND s.key = ?",
                (row_id, key),
            )
            if rows:
                data = msgspec.json.decode(rows[0][0])
                ref = data.get("reply") or data.get("result")
                return None if ref is None else await self._blob(ref)
            origin = await self._store.query(
                "SELECT o.id FROM runs r JOIN runs o ON o.tenant = r.tenant AND o.run = r.origin"
                " WHERE r.id = ? AND o.id < r.id",
                (row_id,),
            )
            if not origin:
                return None
            row_id = origin[0][0]

    async def _blob(self, ref: str) -> bytes:
        return await self._store.blob(self._tenant, blob_name(ref))
