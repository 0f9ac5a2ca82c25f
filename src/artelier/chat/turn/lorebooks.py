"""Lorebooks in the prompt of a turn: which entries, where, and why. What was decided is recorded, once.

What stays or rests for some turns goes on from the turn before in the conversation, whichever variant of it
that is: so another variant, a branch and a chat that was rewound have the lore of their own past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any, Literal, cast

import msgspec

from artelier.chat.queries.chats import chat_row
from artelier.chat.queries.tree import runs_above
from artelier.chat.turn.turn_config import TurnJob
from artelier.context import Section
from artelier.context.assembly import Source
from artelier.errors import AccessDenied, CorruptStore, InvalidRequest, NotFound, RunEnded
from artelier.kernel import Run
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import runs_by_id
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Blob, BlobRef, Store
from artelier.log.queries import stream_events
from artelier.operations import events as ev
from artelier.operations.graph.artifact_inclusion import Places
from artelier.operations.lore.activation import Active, LoreActivation, activate, with_names
from artelier.operations.lore.entry_rules import LoreScene
from artelier.operations.lore.schemas import Lorebook, ScannedText, read_stored_book
from artelier.threads import run_in_content_thread

ENTRIES_MAX = 256
"""In one prompt, and of those left out that are named; each has a line in the manifest."""
KEY_CHARS_MAX = 60
"""Of a key where it says why an entry is there."""
TURNS_UP_MAX = 64
"""Turns without lore that are passed over in search of the last that had some."""
PRIORITY = 40
"""Below that of artifacts: over the prompt's budget lore is left out first. It has one of its own."""

State = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lore:
    """Sections of a prompt by where they stand."""

    before: tuple[Section, ...] = ()
    """Before the character, in the system prompt."""
    after: tuple[Section, ...] = ()
    at_depth: tuple[tuple[int, Section], ...] = ()
    left_out: tuple[Section, ...] = field(default=())

    def at(self, *, before: bool, after: bool) -> Lore:
        """Return what stands where a prompt has a place for it; the rest is left out, as `off`."""
        off = (*(() if before else self.before), *(() if after else self.after))
        return replace(
            self,
            before=self.before if before else (),
            after=self.after if after else (),
            left_out=(*self.left_out, *map(_off, off)),
        )

    def around(self, places: Places, *, is_replaced: bool) -> Places:
        """Everything else. `is_replaced`: an operation has put its own text in place of the beginning."""
        system = list(places.system)
        if is_replaced:
            own = (*self.before, *self.after)
            system += [replace(one, role="system", joined=True) for one in own]
            if system:
                system[0] = replace(system[0], joined=False)
        return replace(
            places,
            system=tuple(system),
            at_depth=(*self.at_depth, *places.at_depth),
            left_out=(*places.left_out, *self.left_out),
        )


def _off(one: Section) -> Section:
    return replace(one, tag=f"lore {one.sources[0]}"[:120], text="", dropped="off")


def books_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Refs of a chat's lorebooks, that of its character first."""
    char: Mapping[str, Any] = settings.get("char") or {}
    refs: list[Any] = [char.get("lorebook"), *(settings.get("lorebooks") or ())]
    return tuple(dict.fromkeys(ref for ref in refs if isinstance(ref, str) and ref))


async def lore_of(
    run: Run,
    job: TurnJob,
    settings: Mapping[str, Any],
    messages: Sequence[Mapping[str, str]],
    *,
    desk: Any,
    turn: int,
    people: Mapping[str, Mapping[str, Any]],
) -> Lore:
    """Return what the chat's lorebooks bring into the prompt of a turn; read and decided once, then as
    recorded.

    Shapes: `messages` are `{content, name}`, newest last; keys are looked for in names too. `people` are
            `user` and `char`, each with a `name`.
    A book that cannot be read, or is too long with names, brings nothing, and the manifest says so.
    Errors: `StoreUnavailable`, `CorruptStore`; `RunEnded` in a replay of a run that never came so far.
    """
    refs = books_of(settings)
    if not refs:
        return Lore()

    fresh: dict[str, str] = {}
    """Texts that are not durable yet, by reference."""

    async def make(full: str) -> tuple[ev.LoreActivated, list[Blob]]:
        if desk is None:
            raise RunEnded(f"run {run.id} ended before it had looked into its lorebooks")
        books, found = await _activate(run, job, refs, messages, desk, turn, people)
        return _record_activation(run, books, found, fresh, key=full)

    event = await run.receipt(ev.LoreActivated, make, key="lore")
    return await _sections(run, event, fresh)


_Found = tuple[int, str, LoreActivation]
"""Number and id of a book, and what it brings."""


def _find(book: Lorebook, *, user: str, char: str, **more: Any) -> LoreActivation:
    return activate(with_names(book, user=user, char=char), **more)


async def _activate(
    run: Run,
    job: TurnJob,
    refs: Sequence[str],
    messages: Sequence[Mapping[str, str]],
    desk: TenantScope,
    turn: int,
    people: Mapping[str, Mapping[str, Any]],
) -> tuple[list[ev.LoreBook], list[_Found]]:
    texts = [f"{one['name']}: {one['content']}" for one in messages]
    before = await state_at(run.core.services, run.tenant_id, job.chat, job.node)
    user, char = (str(people[one]["name"]) for one in ("user", "char"))
    scene = _scene(people, trigger=job.trigger)
    books: list[ev.LoreBook] = []
    found: list[_Found] = []
    for number, ref in enumerate(refs):
        try:
            book, read = await read_book(desk, ref, by=job.principal or "operator")
            id_ = read.rpartition("@")[0]
            find = partial(
                _find,
                book,
                messages=texts,
                user=user,
                char=char,
                turn=max(1, turn),
                state=before.get(id_),
                seed=_seed(run.id, id_),
                scene=scene,
            )
            size_chars = sum(len(entry.content) for entry in book.entries)
            active = await run_in_content_thread(size_chars, find)
        except (NotFound, AccessDenied, InvalidRequest) as error:
            books.append(ev.LoreBook(ref=ref[:200], missing=error.code))
            continue
        books.append(ev.LoreBook(ref=read))
        found.append((number, id_, active))
    return books, found


def _scene(people: Mapping[str, Mapping[str, Any]], *, trigger: str) -> LoreScene:
    """Return what the rules of entries look at beside the messages."""
    user, char = people["user"], people["char"]
    tags, note = char.get("tags"), char.get("depth_prompt")
    found: dict[ScannedText, object] = {
        "persona": user.get("description"),
        "description": char.get("description"),
        "personality": char.get("personality"),
        "scenario": char.get("scenario"),
        "creator_notes": char.get("creator_notes"),
        "depth_prompt": cast("dict[str, object]", note).get("prompt") if isinstance(note, dict) else None,
    }
    listed = cast("list[object]", tags) if isinstance(tags, list) else []
    return LoreScene(
        char=str(char["name"]),
        tags=frozenset(tag for tag in listed if isinstance(tag, str)),
        trigger=trigger,
        texts={name: text for name, text in found.items() if isinstance(text, str) and text},
    )


def _record_activation(
    run: Run, books: Sequence[ev.LoreBook], found: Sequence[_Found], fresh: dict[str, str], *, key: str
) -> tuple[ev.LoreActivated, list[Blob]]:
    """Entries of all books in one order, as many as a prompt takes; the rest with the reason."""
    core, blobs = run.core, list[Blob]()
    entries: list[ev.LoreEntry] = []
    left_out: list[ev.LoreLeftOut] = []
    listed = [(number, one) for number, _, active in found for one in active.entries]
    for number, one in sorted(listed, key=lambda item: item[1].entry.order):
        entry = one.entry
        if len(entries) == ENTRIES_MAX:
            left_out.append(ev.LoreLeftOut(book=number, entry=entry.id, reason="too_many"))
            continue
        ref, more = core.keep_json(entry.content)
        fresh[ref] = entry.content
        blobs.extend(more)
        entries.append(_entry(number, one, ref))
    left_out.extend(
        ev.LoreLeftOut(book=number, entry=one.entry_id, reason=one.reason)
        for number, _, active in found
        for one in active.dropped
    )
    state = None
    if after := {id_: active.state for _, id_, active in found if active.state}:
        state, more = core.keep_json(after)
        blobs.extend(more)
    event = ev.LoreActivated(
        key=key,
        books=tuple(books),
        entries=tuple(entries),
        left_out=tuple(left_out[:ENTRIES_MAX]),
        state=state,
    )
    return event, blobs


def _entry(book: int, one: Active, text: BlobRef) -> ev.LoreEntry:
    entry = one.entry
    at_depth = entry.place == "depth"
    return ev.LoreEntry(
        book=book,
        entry=entry.id,
        why=_why(one.because, one.key),
        place=entry.place,
        depth=entry.depth if at_depth else 0,
        role=entry.role if at_depth else "system",
        text=text,
    )


def _why(because: str, key: str | None) -> str:
    if key is None:
        return because
    line = " ".join(key.split())
    shown = line if len(line) <= KEY_CHARS_MAX else f"{line[: KEY_CHARS_MAX - 1]}…"
    return f"key “{shown}”" if because == "key" else f"{because}, key “{shown}”"


def _seed(run_id: str, book: str) -> int:
    """Return the seed of a run and a book: another variant rolls anew, a resumed run does not."""
    return int.from_bytes(sha256(f"{run_id}\0lore\0{book}".encode()).digest()[:6])


# Reading


async def read_book(desk: TenantScope, ref: str, *, by: str) -> tuple[Lorebook, str]:
    """A stored lorebook, and the ref `id@version` of what was read.

    Errors: `NotFound`, `AccessDenied`, also for one that has a price; `InvalidArtifact` for what is none.
    """
    artifact = await desk.as_principal(by).artifacts.read(ref, price_max=0)
    return await read_stored_book(artifact.content), f"{artifact.id}@{artifact.version}"


async def state_at(services: Any, tenant: str, chat: str, node: int) -> State:
    """Return what lore the turn of a node has left for those after it: `{book: {entry: turn}}`.

    Cost: that of one run's events; more only after turns without any.
    """
    if not node:
        return {}
    row = await chat_row(services.store, tenant, chat)
    for turns in (1, TURNS_UP_MAX):
        found = await _newest_record(services.store, row.id, tenant, node, turns)
        if found is not None:
            return await _state(services, tenant, found)
    return {}


async def _newest_record(
    store: Store, chat: int, tenant: str, node: int, turns: int
) -> ev.LoreActivated | None:
    above = await runs_above(store, chat, node, nodes_max=turns)
    runs = await runs_by_id(store, tenant, above)
    for row in (runs[run] for run in above if run in runs):
        for event in await stream_events(store, row.id, ev.LoreActivated.KIND, newest=1):
            return event.read(ev.LoreActivated)
    return None


async def _state(services: Any, tenant: str, event: ev.LoreActivated) -> State:
    stored = await blob_json(services, tenant, event.state)
    try:
        return msgspec.convert(stored or {}, dict[str, dict[str, int]])
    except msgspec.ValidationError as error:
        raise CorruptStore(f"the state of a chat's lore cannot be read: {error}") from None


# Sections


async def _sections(run: Run, event: ev.LoreActivated, fresh: Mapping[str, str]) -> Lore:
    before: list[Section] = []
    after: list[Section] = []
    at_depth: list[tuple[int, Section]] = []
    for one in event.entries:
        known = fresh.get(one.text)
        text = await run.core.load_json(one.text) if known is None else known
        section = _section(event, one, str(text))
        if one.place == "depth":
            at_depth.append((max(0, one.depth), section))
        else:
            (before if one.place == "before" else after).append(section)
    return Lore(
        before=tuple(before),
        after=tuple(after),
        at_depth=tuple(at_depth),
        left_out=(*_missing(event), *_left_out(event)),
    )


def _section(event: ev.LoreActivated, one: ev.LoreEntry, text: str) -> Section:
    why = f"entry {one.entry[:80]}, {one.why}, {_place(one)}"
    return Section(
        tag="lore",
        text=text,
        role=_role(one.role),
        priority=PRIORITY,
        truncation="drop",
        stability="append_only",
        sources=(Source(ref=_book(event, one.book), why=why),),
        trust="operations",
        is_fenced=True,
    )


def _place(one: ev.LoreEntry) -> str:
    return f"depth({one.depth})" if one.place == "depth" else f"{one.place} the character"


def _missing(event: ev.LoreActivated) -> Iterable[Section]:
    for book in event.books:
        if book.missing:
            yield Section(tag=f"lore {book.ref}"[:120], dropped=book.missing)


def _left_out(event: ev.LoreActivated) -> Iterable[Section]:
    for one in event.left_out:
        tag = f"lore {_book(event, one.book)}: {one.entry}"[:120]
        yield Section(tag=tag, dropped=one.reason)


def _book(event: ev.LoreActivated, number: int) -> str:
    return event.books[number].ref if 0 <= number < len(event.books) else "lorebook"


def _role(role: str) -> Literal["system", "user", "assistant"]:
    """Errors: `CorruptStore` for a role that no message has."""
    if role not in ("system", "user", "assistant"):
        raise CorruptStore("a message of lore has no role", got=role[:60])
    return role
