"""The content of a chat's file beside runs, trusted only after checks.

Views, prompts and people read what a chat's events say. So each must stand in the stream of this chat, hold
valid names, numbers and references, and refer to content of the right form. Whether the events fit together
is decided by the view's handlers when they are appended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import msgspec

from artelier.artifacts import ArtifactWritten, artifact_stream
from artelier.artifacts.json_items import FILE_ITEMS_MAX, count_items
from artelier.chat.queries.chats import ChatRow, chat_row, has_chat
from artelier.chat.queries.tree import profiles_used
from artelier.chat.session.settings import StoredChatSettings, check_chat, check_name
from artelier.chat.turn.lorebooks import books_of
from artelier.chat.turn.turn_config import LOOP, TurnJob
from artelier.chat.turn.turn_events import session_stream
from artelier.errors import Conflict, CorruptStore, InvalidExport, InvalidRequest
from artelier.ids import MAIN_SPACE
from artelier.kernel import Services
from artelier.kernel.export.archive import SIZE_BYTES_MAX, Arrival, Belongings, Header
from artelier.kernel.export.transfer import KeyStore, StorePart, import_file, write_file
from artelier.kernel.export.writer import streams_of
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import runs_between
from artelier.log import BlobRef, EventData, Stream, Tx, blob_name
from artelier.operations import events as ev
from artelier.operations.profile.definition import TAG
from artelier.operations.profile.store import KIND as PROFILE

KINDS: tuple[type[EventData], ...] = (
    ev.ChatOpened,
    ev.ChatChanged,
    ev.TurnAsked,
    ev.VariantBegun,
    ev.VariantEnded,
    ev.VariantSelected,
    ev.BranchMade,
    ev.BranchRewound,
    ev.SessionSet,
    ev.TurnsImported,
    ev.MessageRevised,
    ev.MessageHidden,
    ev.TurnDeleted,
    ev.VariantDeleted,
    ev.BranchDeleted,
    ev.ChatLabeled,
)
"""Of events in the stream of a chat."""

LOREBOOK = "lorebook"
INTEGER_MAX = 2**53
NAME_CHARS_MAX = 600
"""Of any text that stands in an event itself: the longest is the id of a run."""
MAP_MAX = 1_000
CONTENT_BYTES_MAX = 16 * 1024 * 1024

_BRANCHES = ("branch", "origin")
_TEXTS = ("text", "user", "variants", "greetings", "reasoning", "kept")
_tag = re.compile(TAG)


class ChatFile(Belongings):
    """The checks of one file. Every refusal is an `InvalidExport`, or becomes one."""

    def __init__(self, chat: str) -> None:
        self.chat = check_chat(chat)
        self._stream = f"session:{chat}"
        self._is_open = False
        self._named: set[str] = set()
        """Ids of profiles that events or settings name."""
        self._books: set[str] = set()
        """Ids of lorebooks that settings name."""
        self._written: dict[str, set[str]] = {}
        """Kinds that each artifact of the file was written as."""
        self._looks: dict[bytes, set[Callable[[bytes], None]]] = {}
        """The parts of a content that must be seen, by its name."""

    @property
    def profiles(self) -> tuple[str, ...]:
        """Ids of the profiles in the file."""
        return tuple(sorted(id_ for id_ in self._written if self._is(id_, PROFILE)))

    @property
    def kinds(self) -> frozenset[str]:
        """See `Belongings`: artifacts have their own events only."""
        return frozenset()

    @property
    def may_meet_runs(self) -> bool:
        """See `Belongings`: an artifact that a run wrote may be here already."""
        return True

    @property
    def erased_parts(self) -> str:
        """See `Belongings`: messages that were deleted."""
        return f"part:{self._stream}"

    def gives_way(self, local: str) -> bool:
        """See `Belongings`: a tenant that has a profile or a lorebook of that name goes on with its own."""
        return self.owns(local.removeprefix("artifact:")) if local.startswith("artifact:") else False

    def has_stream(self, local: str) -> bool:
        """See `Belongings`."""
        return local == self._stream

    # Events

    def take_own(self, local: str, seq: int, data: EventData, *, at_us: int) -> None:
        """See `Belongings`."""
        where = f"event {seq} of {local[:140]}"
        if not isinstance(data, KINDS):
            raise InvalidExport(f"{where}: {data.KIND[:80]} does not belong in such a stream")
        if isinstance(data, ev.ChatOpened) != (seq == 1):
            raise InvalidExport(f"{where}: a chat begins with its opening, and nowhere else")
        if not 0 <= at_us < 2**62:
            raise InvalidExport(f"{where} has no time", got=at_us)
        self._is_open = True
        try:
            self._check(data)
        except InvalidRequest as error:
            raise InvalidExport(f"{where}: {error}") from None

    def _check(self, data: msgspec.Struct) -> None:
        """Names, numbers and references of an event, and of all within it."""
        for field, value in _fields(data):
            _check_plain(field, value)
        for field, ref in _refs(data):
            self._look(ref, _reader_of(data, field, self))
        for inner in _inner(data):
            self._check(inner)
        if isinstance(data, ev.VariantBegun):
            _check_scope(data.scope)
            self._named.add(data.profile.partition("@")[0])

    def _look(self, ref: str, look: Callable[[bytes], None]) -> None:
        self._looks.setdefault(blob_name(ref), set()).add(look)

    def take(self, artifact: str, seq: int, data: EventData) -> None:
        """See `Belongings`."""
        if isinstance(data, ArtifactWritten):
            self._written.setdefault(artifact, set()).add(data.kind)

    # Content

    def wants(self, name: bytes) -> bool:
        """See `Belongings`."""
        return name in self._looks

    def content(self, name: bytes, content: bytes) -> None:
        """See `Belongings`."""
        if len(content) > CONTENT_BYTES_MAX:
            raise InvalidExport("content of a chat is too large", got=len(content))
        if (count := count_items(content, most=FILE_ITEMS_MAX)) > FILE_ITEMS_MAX:
            raise InvalidExport("content of a chat has too many items", got=count)
        for look in self._looks[name]:
            try:
                look(content)
            except (msgspec.MsgspecError, UnicodeError, RecursionError, CorruptStore) as error:
                raise InvalidExport(f"content of the chat cannot be read: {error}") from None

    def settings(self, content: bytes) -> None:
        """Content that must be the settings of a chat."""
        stored = StoredChatSettings.from_stored(msgspec.json.decode(content))
        self._named.add(stored.profile.partition("@")[0])
        self._books.update(ref.partition("@")[0] for ref in books_of(msgspec.to_builtins(stored)))

    def job(self, content: bytes) -> None:
        """Content that must be what one of its runs is to do."""
        job = TurnJob.from_stored(msgspec.json.decode(content))
        if job.chat != self.chat:
            raise InvalidExport("a run of another chat", got=job.chat[:140])

    # The whole

    def owns(self, artifact: str) -> bool:
        """See `Belongings`."""
        return self._is(artifact, PROFILE) or self._is(artifact, LOREBOOK)

    def _is(self, artifact: str, kind: str) -> bool:
        """Return True if an artifact is one of those of a kind that the chat names."""
        named = self._named if kind == PROFILE else self._books
        return artifact in named and self._written.get(artifact) == {kind}

    def end(self) -> None:
        """See `Belongings`."""
        if not self._is_open:
            raise InvalidExport(f"the events of chat {self.chat} are missing")

    async def arrival(self, services: Services, tenant: str, header: Header, sha256: str) -> Arrival:
        """See `Belongings`."""
        if (await services.store.head(session_stream(tenant, self.chat)))[0]:
            raise self._exists_error()

        def still_free(tx: Tx) -> None:
            if has_chat(tx, tenant, self.chat):
                raise self._exists_error()

        return Arrival(guard=still_free)

    def _exists_error(self) -> Conflict:
        return Conflict(
            f"there is a chat {self.chat} already", hint="Import it into another tenant or another database."
        )


# Forms


def _reader_of(data: msgspec.Struct, field: str, file: ChatFile) -> Callable[[bytes], None]:
    """Return what the content behind a field must be."""
    if field == "settings":
        return file.job if isinstance(data, ev.TurnAsked) else file.settings
    return _is_text if field in _TEXTS else _is_json


def _is_text(content: bytes) -> None:
    msgspec.json.decode(content, type=str)


def _is_json(content: bytes) -> None:
    msgspec.json.decode(content)


def _check_plain(field: str, value: object) -> None:
    """Errors: `InvalidRequest` for a name or a number that no chat of ours would have."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        if not 0 <= value < INTEGER_MAX:
            raise InvalidRequest(field, expected="a number from 0", got=value)
    elif isinstance(value, str):
        if len(value) > NAME_CHARS_MAX:
            raise InvalidRequest(f"{field} is too long", got=value[:60])
        if field == "tag" and not _tag.fullmatch(value):
            raise InvalidRequest("tag", expected=TAG, got=value[:80])
        if field in _BRANCHES:
            check_name(value, what="branch")


def _check_scope(scope: str) -> None:
    if scope:
        profile, _, session = scope.partition("/")
        check_name(profile, what="profile")
        check_name(session, what="session")


def _fields(data: msgspec.Struct) -> Iterator[tuple[str, object]]:
    """Plain values of a struct, those in maps included."""
    forms = _forms(type(data))
    for field in data.__struct_fields__:
        value = getattr(data, field)
        if forms.get(field):
            continue
        if isinstance(value, dict):
            if len(value) > MAP_MAX:  # pyright: ignore[reportUnknownArgumentType] - marks
                raise InvalidRequest(f"{field} is too long")
            for name, numbers in value.items():  # pyright: ignore[reportUnknownVariableType] - marks
                yield field, name
                yield from ((field, number) for number in cast(list[int], numbers))  # pyright: ignore[reportUnknownVariableType] - marks
        else:
            yield field, value


def _refs(data: msgspec.Struct) -> Iterator[tuple[str, str]]:
    for field, form in _forms(type(data)).items():
        value = getattr(data, field)
        if form == "ref" and value is not None:
            yield field, value
        elif form == "refs":
            yield from ((field, ref) for ref in cast(tuple[str, ...], value))


def _inner(data: msgspec.Struct) -> Iterator[msgspec.Struct]:
    for field, form in _forms(type(data)).items():
        if form == "structs":
            yield from getattr(data, field)


@lru_cache(maxsize=1_000)
def _forms(cls: type[msgspec.Struct]) -> dict[str, str]:
    """Fields that hold a reference, several, or structs; others are not in it."""
    hints: dict[str, Any] = get_type_hints(cls)
    found: dict[str, str] = {}
    for field in cls.__struct_fields__:
        types = get_args(hints[field]) or (hints[field],)
        is_many = getattr(hints[field], "__origin__", None) is tuple
        if BlobRef in types:
            found[field] = "refs" if is_many else "ref"
        elif is_many and any(isinstance(t, type) and issubclass(t, msgspec.Struct) for t in types):
            found[field] = "structs"
    return found


RUNS_MAX = 10_000
"""Of one file: an import holds all their events in memory (guess: 1 GB)."""


class ChatFileContents(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a chat's file."""

    chat_id: str
    runs: tuple[str, ...]
    """Of its turns, with their children and whatever they go on from."""
    profiles: tuple[str, ...]
    events: int
    blobs: int
    sha256: str
    """Of the file without its seal."""


async def export_chat(services: Services, tenant: str, chat: str, path: str | Path) -> ChatFileContents:
    """Write the file, whole or not at all. Errors: see `ChatsHandle.export_chat`."""
    row = await chat_row(services.store, tenant, check_chat(chat))
    position, root = await services.store.root()
    runs = await _runs(services, row, position)
    streams = await streams_of(services, tenant, runs, position=position)
    streams[session_stream(tenant, chat)] = position
    profiles, books = await _artifacts(services, row)
    streams.update((_artifact(tenant, id_), position) for id_ in (*profiles, *books))
    header = Header.of_store(position, root, tenant=tenant, code=services.code_version, chat=chat)
    done = await write_file(path, header, [StorePart(services, streams)], belongings=ChatFile(chat))
    return ChatFileContents(
        chat_id=chat,
        runs=done.runs,
        profiles=profiles,
        events=done.events,
        blobs=done.blobs,
        sha256=done.sha256,
    )


def _artifact(tenant: str, id_: str) -> Stream:
    return artifact_stream(tenant, MAIN_SPACE, id_)


async def _runs(services: Services, row: ChatRow, position: int) -> list[str]:
    """Return the runs that had begun at a position. Errors: `InvalidRequest` for more than one file takes."""
    low, high = f"{row.chat}/r", f"{row.chat}/s"
    runs = await runs_between(
        services.store, row.tenant, low, high, loop=LOOP, upto=position, limit=RUNS_MAX + 1
    )
    if len(runs) > RUNS_MAX:
        raise InvalidRequest(
            f"chat {row.chat!r} has more runs than one file takes",
            expected=f"at most {RUNS_MAX}",
            hint="Export the runs that matter one by one.",
        )
    return runs


async def _artifacts(services: Services, row: ChatRow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids of the profiles that its turns worked with, and of the one that it works with now; of lorebooks."""
    stored = await blob_json(services, row.tenant, row.settings)
    named = {*await profiles_used(services.store, row.id), StoredChatSettings.from_stored(stored).profile}
    return (await _there(services, row.tenant, named), await _there(services, row.tenant, books_of(stored)))


async def _there(services: Services, tenant: str, refs: Iterable[str]) -> tuple[str, ...]:
    ids = sorted({ref.partition("@")[0] for ref in refs if ref})
    there = [id_ for id_ in ids if (await services.store.head(_artifact(tenant, id_)))[0]]
    return tuple(there)


async def import_chat(
    services: Services,
    keys: KeyStore,
    tenant: str,
    path: str | Path,
    *,
    size_max_bytes: int = SIZE_BYTES_MAX,
    events_max: int | None = None,
    by: str = "operator",
) -> ChatFileContents:
    """Check the whole file, then take all of it in. Errors: see `ChatsHandle.import_chat`."""
    found = await import_file(
        services,
        keys,
        tenant,
        path,
        size_max_bytes=size_max_bytes,
        events_max=events_max,
        by=by,
        about="chat",
        belongings=lambda header: ChatFile(header.chat),
    )
    file = found.belongings
    assert isinstance(file, ChatFile)
    return ChatFileContents(
        chat_id=found.header.chat,
        runs=tuple(sorted(found.runs)),
        profiles=file.profiles,
        events=len(found.drafts),
        blobs=found.blobs,
        sha256=found.sha256,
    )
