"""The chat methods of a tenant's kernel: open, list, export, import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from artelier.kernel.export.archive import SIZE_BYTES_MAX

if TYPE_CHECKING:
    from artelier.chat.files.transfer import ChatFileContents
    from artelier.chat.session.session import Session
    from artelier.kernel import Services, TenantState
    from artelier.kernel.export.transfer import KeyStore


class ChatKernel(Protocol):
    """The kernel bound to one tenant, as far as this needs it."""

    @property
    def id(self) -> str: ...

    @property
    def services(self) -> Services: ...

    @property
    def keys(self) -> KeyStore: ...

    async def state(self) -> TenantState: ...


class ChatsHandle:
    """Methods of `TenantKernel`."""

    async def chat(self: ChatKernel, chat_id: str, **opening: Any) -> Session:
        """The chat of that id, made if there is none: see `Session.open`."""
        from artelier.chat.session.session import Session

        return await Session.open(self, chat_id, **opening)

    async def chats(self: ChatKernel, *, after: str | None = None, limit: int = 100) -> dict[str, Any]:
        """`{items: [{chat_id, branches, runs, opened_us, changed_us}], next}`, by id."""
        from artelier.chat.queries.chats import list_chats

        return await list_chats(self.services.store, self.id, after=after, limit=limit)

    async def export_chat(self: ChatKernel, chat_id: str, path: str | Path) -> ChatFileContents:
        """Write a chat into one verifiable file: its branches, turns and artifacts, all its runs with what
        belongs to them, and the profiles that these worked with.

        The file is complete or not there, and only its owner may read it.
        Errors: `NotFound`; `CorruptStore`, `InvalidExport`, `StoreUnavailable` as for `export`.
        """
        from artelier.chat.files.transfer import export_chat

        return await export_chat(self.services, self.id, chat_id, path)

    async def import_chat(
        self: ChatKernel, path: str | Path, *, size_max_bytes: int = SIZE_BYTES_MAX, by: str = "operator"
    ) -> ChatFileContents:
        """Take a chat into this tenant, hash for hash: its runs are records, the chat goes on.

        Units:  `size_max_bytes` bounds the unpacked size.
        Errors: `InvalidExport` that names what is wrong; `Conflict` if a chat, run or other artifact of that
        name is here; `NotFound`. Nothing is imported by a refusal.
        """
        from artelier.chat.files.transfer import import_chat

        await self.state()
        return await import_chat(
            self.services, self.keys, self.id, path, size_max_bytes=size_max_bytes, by=by
        )
