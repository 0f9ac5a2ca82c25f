"""Files of other programs for a chat, in and out: cards, lorebooks, personas, presets and conversations.

One door for all of them, so that the command line, the API and the page take the same files in the same way.
The readers stand in `operations/lore`; here is what each file means to a chat. A card, a lorebook and a
persona leave as they came, byte for byte, until somebody changes in the chat what they say; then the file is
written anew, with the picture of the card and what nobody follows here. A conversation is its turns and
variants, and nothing of what Artelier adds to them: the whole chat, with its runs and artifacts, is
`chat_file.py`.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from io import BytesIO
from typing import Any, Literal, cast

import msgspec

from artelier.artifacts import Artifact
from artelier.chat.rows import VARIANTS_MAX
from artelier.chat.session.chat_reader import ChatReader, Turn, Variant
from artelier.chat.session.settings import MEMBERS_MAX, NOTE_DEPTH_MAX, StoredChatSettings, checked_text
from artelier.errors import InvalidArtifact, InvalidImport, InvalidRequest, NotFound
from artelier.kernel.tenants.registry import TenantScope
from artelier.operations.lore import chat_log
from artelier.operations.lore.character_cards import SIGNATURE, write_card, write_png
from artelier.operations.lore.character_import import SHOWN, cast_character, cast_persona, keep_lorebook, slug
from artelier.operations.lore.presets import read_preset, write_preset
from artelier.operations.lore.schemas import (
    Character,
    Lorebook,
    Persona,
    read_form,
    read_stored_book,
    register_writing,
)
from artelier.operations.lore.untrusted_files import Source, read_json, source_bytes
from artelier.operations.lore.world_info import write_lorebook
from artelier.threads import run_in_content_thread

WRITTEN_BYTES = 1 << 20
"""The size that a card or lorebook counts for when it is written (a guess: a large one)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenChat:
    """A chat of another program, as `Session.import_turns` takes it."""

    user: str
    char: str
    turns: tuple[ForeignTurn, ...]
    group: tuple[str, ...] = ()
    """Names of the characters, if there are several."""
    note: dict[str, Any] = field(default_factory=dict[str, Any])
    """The author's note, as `Session.open` takes it; empty for none."""
    warnings: tuple[str, ...]
    """The changes and omissions, in words."""


def parse_chat(source: Source) -> TakenChat:
    """Return a chat from a JSONL file, or from its bytes.

    Errors: `InvalidImport` naming every line that cannot be read; `NotFound` for no such file.
    """
    chat = chat_log.read_chat(source)
    warnings = list(chat.warnings)
    turns = [turn for one in chat.turns for turn in _as_turns(one, warnings)]
    metadata = chat.extensions.get("chat_metadata")
    note = _author_note(cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}, warnings)
    warnings += _left_out(chat)
    return TakenChat(
        user=chat.user,
        char=chat.char,
        group=_speakers(chat),
        turns=tuple(turns),
        note=note,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _speakers(chat: chat_log.ImportedChat) -> tuple[str, ...]:
    """The names of several characters in the order in which they spoke first; none of one alone."""
    said = [one.name for turn in chat.turns for one in turn.messages if one.role == "assistant" and one.name]
    names = list(dict.fromkeys(said))
    return tuple(names[:MEMBERS_MAX]) if len({one.casefold() for one in names}) == len(names) > 1 else ()


def _as_turns(turn: chat_log.ChatLogTurn, warnings: list[str]) -> Iterator[ForeignTurn]:
    """Give a turn of a file, parted where a narrator or the program says something in it."""
    own: list[chat_log.ChatLogMessage] = []
    for message in (*turn.messages, None):
        if message is not None and (message.role != "system" or not message.text.strip()):
            own += [message] if message.role != "system" else []
            continue
        if own and (said := _turn(chat_log.ChatLogTurn(messages=tuple(own)), warnings)) is not None:
            yield said
        own = []
        if message is not None:
            yield _narrated(message, warnings)


def _narrated(message: chat_log.ChatLogMessage, warnings: list[str]) -> ForeignTurn:
    at_us = chat_log.sent_us(message.variants[message.selected].sent_at)
    turn = ForeignTurn(variants=(message.text,), sent_us=(0, at_us) if at_us else ())
    if not message.hidden:
        warnings.append("messages of a narrator stand as replies")
        return turn
    warnings.append("messages of the program stand as replies that no prompt shows")
    return msgspec.structs.replace(turn, hidden=("assistant",), speaker=message.name or "System")


def _turn(turn: chat_log.ChatLogTurn, warnings: list[str]) -> ForeignTurn | None:
    """A turn of a file; None if it says nothing."""
    variants, selected = list(turn.variants), turn.selected
    reply = turn.reply
    wordings = list(reply.variants) if reply is not None else []
    if len(variants) > VARIANTS_MAX:
        first = max(0, selected - VARIANTS_MAX + 1)
        variants, selected = variants[first : first + VARIANTS_MAX], selected - first
        wordings = wordings[first : first + VARIANTS_MAX]
        warnings.append(f"of one turn {VARIANTS_MAX} variants are kept")
    if turn.user is None and not variants:
        return None
    names = {one.role: one.name for one in turn.messages if one.name}
    said = next((one for one in turn.messages if one.role == "user"), None)
    times = [0 if said is None else chat_log.sent_us(said.variants[said.selected].sent_at)]
    times += [chat_log.sent_us(one.sent_at) for one in wordings]
    thoughts = [checked_text(one.reasoning, what="reasoning") for one in wordings]
    return ForeignTurn(
        user=turn.user,
        variants=tuple(variants),
        selected=selected,
        hidden=tuple(one.role for one in turn.messages if one.hidden and one.role != "system"),
        persona=names.get("user", ""),
        speaker=names.get("assistant", ""),
        reasoning=tuple(thoughts) if any(thoughts) else (),
        sent_us=tuple(times) if any(times) else (),
    )


_NOTE_FIELDS = ("note_prompt", "note_depth", "note_role", "note_position", "note_interval")
_NOTE_ROLES = ("system", "user", "assistant")
_IN_CHAT = 1
"""The `note_position` of a note that stands among the messages."""
_HOUSEKEEPING = frozenset(("integrity", "chat_id_hash", "tainted", "lastInContextMessageId", *_NOTE_FIELDS))


def _author_note(metadata: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Return the author's note of a file's head; empty if there is none. What is not followed is named."""
    left = sorted(name for name, value in metadata.items() if value and name not in _HOUSEKEEPING)
    if left:
        warnings.append(f"left out of chat_metadata: {', '.join(left[:20])[:300]}")
    prompt, depth, role = (metadata.get(f"note_{name}") for name in ("prompt", "depth", "role"))
    if not isinstance(prompt, str) or not prompt.strip():
        return {}
    if metadata.get("note_position", _IN_CHAT) != _IN_CHAT:
        warnings.append("note_position: the author's note stands among the messages here")
    if metadata.get("note_interval", 1) != 1:
        warnings.append("note_interval: the author's note stands in every prompt here")
    is_depth = isinstance(depth, int) and not isinstance(depth, bool) and 0 <= depth <= NOTE_DEPTH_MAX
    return {"prompt": prompt, "depth": depth if is_depth else 4, "role": _role(role)}


def _role(number: object) -> str:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(_NOTE_ROLES):
        return "system"
    return _NOTE_ROLES[number]


def _left_out(chat: chat_log.ImportedChat) -> list[str]:
    """Return what a file says of its messages and a chat here does not hold, each once."""
    messages = [one for turn in chat.turns for one in turn.messages]
    empty = sum(one.role == "system" and not one.text.strip() for one in messages)
    reworded = sum(one.role == "user" and len(one.variants) > 1 for one in messages)
    found: list[str] = []
    if empty:
        found.append(f"left out: {empty} messages of the program without words")
    if reworded:
        found.append(f"left out: other wordings of {reworded} messages of the person")
    if left := sorted({name for one in messages for name in _unfollowed(one)}):
        found.append(f"left out of messages: {', '.join(left[:40])[:600]}")
    return found


_FOLLOWED = frozenset(("reasoning", "type", "gen_id"))
"""Fields of `extra` that are taken over, or say nothing beside a message."""


def _unfollowed(message: chat_log.ChatLogMessage) -> Iterator[str]:
    """Give the fields of a message that a chat here has no place for."""
    for name, value in message.extensions.items():
        if value not in (None, "", [], {}, False):
            yield name
    for variant in message.variants:
        for name, value in variant.extensions.items():
            if name not in _FOLLOWED and value not in (None, "", [], {}, False):
                yield f"extra.{name}"


async def export_jsonl(session: ChatReader) -> bytes:
    """The conversation of a branch as JSONL, with all variants of each turn, as people see them."""
    return b"".join([lines async for lines in await exported_lines(session)])


async def exported_lines(session: ChatReader) -> AsyncGenerator[bytes]:
    """Return what `export_jsonl` returns, some lines at a time."""
    settings, row = await session.settings(), await session.row()
    user = str(settings.user.get("name") or "User")
    char = str(settings.char.get("name") or "Assistant")
    head = chat_log.ImportedChat(user=user, char=char, turns=(), created_at=_date(row.opened_us))

    async def lines() -> AsyncGenerator[bytes]:
        yield chat_log.write_header(head)
        async with aclosing(session.each_turn()) as pages:
            async for page in pages:
                yield b"".join(chat_log.write_turn(_messages(turn, user=user, char=char)) for turn in page)

    return lines()


def _messages(turn: Turn, *, user: str, char: str) -> chat_log.ChatLogTurn:
    messages: list[chat_log.ChatLogMessage] = []
    at = _date(turn.at_us)
    if turn.user:
        said = (chat_log.ChatLogVariant(text=turn.user, sent_at=at),)
        name = turn.persona or user
        messages.append(chat_log.ChatLogMessage(role="user", name=name, variants=said, hidden=turn.is_hidden))
    if turn.variants:
        numbers = [one.number for one in turn.variants]
        messages.append(
            chat_log.ChatLogMessage(
                role="assistant",
                name=turn.speaker or char,
                variants=tuple(
                    chat_log.ChatLogVariant(text=one.text, sent_at=_date(one.at_us), extensions=_extra(one))
                    for one in turn.variants
                ),
                selected=numbers.index(turn.selected) if turn.selected in numbers else 0,
                hidden=any(one.is_hidden for one in turn.variants if one.number == turn.selected),
            )
        )
    return chat_log.ChatLogTurn(messages=tuple(messages))


def _extra(variant: Variant) -> dict[str, Any]:
    """Return what the file says beside a reply: the model's thoughts."""
    thoughts = [part["text"] for part in variant.parts if part["channel"] == "reasoning"]
    return {"reasoning": "\n\n".join(thoughts)} if thoughts else {}


def _date(at_us: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Turns of a conversation from elsewhere, as data: checked, and cut into pieces of bounded size


TURNS_MAX = 100_000
PAGE_NODES_MAX = 1_000
"""Turns and variants of one event; fewer than a chat's stream has numbers for."""
PAGE_CHARS_MAX = 8_000_000


class ForeignTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's message and the replies to it."""

    user: str | None = None
    """None if the character began."""
    variants: tuple[str, ...] = ()
    selected: int = 0
    hidden: tuple[Literal["user", "assistant"], ...] = ()
    """The roles whose message is left out of prompts."""
    persona: str = ""
    """The name of the person."""
    speaker: str = ""
    """The name of whoever replies."""
    reasoning: tuple[str, ...] = ()
    """The reasoning of the model before each variant; empty for none."""
    sent_us: tuple[int, ...] = ()
    """The times at which the words, then each variant, were sent: microseconds since 1970, 0 if unknown."""

    def check(self) -> None:
        """Errors: `InvalidRequest`."""
        if len(self.variants) > VARIANTS_MAX:
            raise InvalidRequest(
                "variants of one turn", expected=f"at most {VARIANTS_MAX}", got=len(self.variants)
            )
        if self.variants and not 0 <= self.selected < len(self.variants):
            raise InvalidRequest("selected", expected=f"0 to {len(self.variants) - 1}", got=self.selected)
        if len(self.reasoning) > len(self.variants) or len(self.sent_us) > self.nodes:
            raise InvalidRequest("reasoning and times of a turn", expected="one for each variant", got="more")
        if not all(0 <= at_us < chat_log.SENT_US_MAX for at_us in self.sent_us):
            raise InvalidRequest("sent_us", expected="microseconds since 1970, before the year 10000")
        if self.user is None and not self.variants:
            raise InvalidRequest("a turn needs words or replies", got="neither")
        for text in (self.user or "", *self.variants, self.persona, self.speaker, *self.reasoning):
            checked_text(text, what="text of a turn")

    def __getitem__(self, name: str) -> object:
        """Return a field by name, as when files gave dicts. Deprecated."""
        if name not in self.__struct_fields__:
            raise KeyError(name)
        warnings.warn(f'turn["{name}"] of a file is now turn.{name}', DeprecationWarning, stacklevel=2)
        return getattr(self, name)

    @property
    def nodes(self) -> int:
        return 1 + len(self.variants)

    @property
    def chars(self) -> int:
        return len(self.user or "") + sum(map(len, (*self.variants, *self.reasoning)))


def batches(turns: object) -> Iterator[Sequence[ForeignTurn]]:
    """Pages of turns, each for one event; nothing is given before all of them were checked.

    Errors: `InvalidRequest`.
    """
    if isinstance(turns, list | tuple) and len(turns) > TURNS_MAX:  # pyright: ignore[reportUnknownArgumentType] - any list
        raise InvalidRequest("turns of one import", expected=f"at most {TURNS_MAX}")
    try:
        checked = msgspec.convert(turns, tuple[ForeignTurn, ...], from_attributes=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidRequest(
            f"turns of a conversation: {error}",
            expected="a list of {user: text or null, variants: [text], selected: index, hidden: [role],"
            " persona: name, speaker: name, reasoning: [text], sent_us: [time]}",
        ) from None
    for turn in checked:
        turn.check()
    return _pages(checked)


def _pages(turns: Sequence[ForeignTurn]) -> Iterator[Sequence[ForeignTurn]]:
    page: list[ForeignTurn] = []
    nodes = chars = 0
    for turn in turns:
        if page and (nodes + turn.nodes > PAGE_NODES_MAX or chars + turn.chars > PAGE_CHARS_MAX):
            yield page
            page, nodes, chars = [], 0, 0
        page.append(turn)
        nodes, chars = nodes + turn.nodes, chars + turn.chars
    if page:
        yield page


FILE_BYTES_MAX = 32 * 1024 * 1024
"""The largest that one of the readers takes."""
_PNG = b"\x89PNG\r\n\x1a\n"
_CARD_FIELDS = ("first_mes", "char_name", "char_greeting", "mes_example")
_PERSONA_FIELDS = {"name", "description"}


class ForeignKind(StrEnum):
    """The kinds of files that a chat takes."""

    CHARACTER = "character"
    LOREBOOK = "lorebook"
    PERSONA = "persona"
    PRESET = "preset"
    CHAT = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFile:
    """A file that was read, and what it holds for a chat. What it needs of artifacts is stored."""

    kind: ForeignKind
    name: str
    """Of who or what is in it; empty if it says none."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What it sets, as `Session.change` takes it."""
    greetings: tuple[str, ...] = ()
    """With which a new chat may begin."""
    turns: tuple[ForeignTurn, ...] = ()
    """A conversation, as `Session.import_turns` takes it."""
    warnings: tuple[str, ...] = ()
    """What was changed, left out, or is kept without being followed."""

    def opening(self) -> dict[str, Any]:
        """Return what a new chat begins with, as `Session.open` takes it."""
        own = dict(self.settings)
        return {**own, "greetings": list(self.greetings)} if self.greetings else own

    def changes(self, now: StoredChatSettings, *, as_member: bool) -> dict[str, Any]:
        """Return what changes in a chat with these settings, as `Session.change` takes it.

        A lorebook takes the place of an older version of it. A character takes that of a member of its name,
        joins a group, and with `as_member` makes one with the character there is.
        """
        own = dict(self.settings)
        if self.kind is ForeignKind.CHAT:
            return {}
        if self.kind is ForeignKind.LOREBOOK:
            ref = str(own["lorebooks"][0])
            same = ref.partition("@")[0]
            own["lorebooks"] = [*(one for one in now.lorebooks if one.partition("@")[0] != same), ref]
        if self.kind is ForeignKind.CHARACTER and (now.group or (as_member and now.char)):
            members = list(now.group or (now.char,))
            names = [one["name"] for one in members]
            if self.name in names:
                members[names.index(self.name)] = dict(own["char"])
            else:
                members.append(dict(own["char"]))
            own = {"group": members}
        return own


async def read_foreign_file(
    desk: TenantScope, source: Source, *, name: str, by: str, user: str, model: str
) -> ForeignFile:
    """Return what a file holds. Characters, lorebooks and personas are stored in the name of `by`.

    `desk` is the kernel bound to a tenant. `name` is what the file is called; `user` what greetings call the
    person, and `model` is the chat's. Cost: O(size of the file), in a thread.
    Errors: `InvalidImport` that says what is wrong; `NotFound` for no such file; `AccessDenied`.
    """
    content = await asyncio.to_thread(source_bytes, source, limit_bytes=FILE_BYTES_MAX)
    kind = await run_in_content_thread(len(content), partial(foreign_kind, content, name=name))
    stem = name.rpartition("/")[2].rpartition(".")[0]
    if kind is ForeignKind.CHARACTER:
        cast_ = await cast_character(desk, content, by=by, user=user)
        return ForeignFile(
            kind=kind,
            name=str(cast_.char["name"]),
            settings={"char": dict(cast_.char)},
            greetings=cast_.greetings,
            warnings=cast_.warnings,
        )
    if kind is ForeignKind.LOREBOOK:
        ref, warnings = await keep_lorebook(desk, content, by=by, name=stem[:100])
        return ForeignFile(kind=kind, name=ref, settings={"lorebooks": [ref]}, warnings=warnings)
    if kind is ForeignKind.PERSONA:
        persona = await cast_persona(desk, content, by=by)
        return ForeignFile(kind=kind, name=str(persona["name"]), settings={"user": persona})
    if kind is ForeignKind.PRESET:
        preset = await run_in_content_thread(len(content), partial(read_preset, content, name=stem))
        texts = {"system": preset.system, "note": dict(preset.note)}
        own: dict[str, Any] = {**preset.params, **{key: value for key, value in texts.items() if value}}
        too_long = preset.size_warnings(model, desk.services.window_of(model))
        warnings = (*too_long, *preset.warnings)
        return ForeignFile(kind=kind, name=preset.name, settings=own, warnings=warnings)
    return _of_chat(await run_in_content_thread(len(content), parse_chat, content))


def _of_chat(chat: TakenChat) -> ForeignFile:
    own: dict[str, Any] = {"user": chat.user, "char": chat.char}
    own |= {"group": list(chat.group)} if chat.group else {}
    own |= {"note": chat.note} if chat.note else {}
    return ForeignFile(
        kind=ForeignKind.CHAT, name=chat.char, settings=own, turns=chat.turns, warnings=chat.warnings
    )


def foreign_kind(content: bytes, *, name: str) -> ForeignKind:
    """Return what a file is, by what is in it, and by its name where that says it.

    Errors: `InvalidImport` for what is none of them.
    """
    low = name.lower()
    if content.startswith(_PNG) or low.endswith(".png"):
        return ForeignKind.CHARACTER
    if low.endswith(".jsonl"):
        return ForeignKind.CHAT
    try:
        value = read_json(content, what="the file")
    except InvalidImport:
        if _begins_chat(content):
            return ForeignKind.CHAT
        raise
    if isinstance(value, list):
        return ForeignKind.LOREBOOK
    if not isinstance(value, dict):
        raise _unknown("neither an object nor a list")
    return _kind_of_object(cast("dict[str, Any]", value))


def _kind_of_object(value: dict[str, Any]) -> ForeignKind:
    spec, data = value.get("spec"), value.get("data")
    if "mes" in value or "chat_metadata" in value:
        return ForeignKind.CHAT
    if spec == "lorebook_v3" or "lorebookVersion" in value or value.get("kind") == "memory":
        return ForeignKind.LOREBOOK
    if isinstance(spec, str) or any(one in value for one in _CARD_FIELDS):
        return ForeignKind.CHARACTER
    if isinstance(data, dict) and any(one in data for one in _CARD_FIELDS):
        return ForeignKind.CHARACTER
    if "entries" in value:
        return ForeignKind.LOREBOOK
    if "operations" in value or str(value.get("type", "")).startswith(("talespinner", "operation_profile")):
        raise InvalidImport(
            "this is a profile of TaleSpinner",
            hint="artelier profile import FILE --from talespinner reads it.",
        )
    if value.keys() <= _PERSONA_FIELDS and "name" in value:
        return ForeignKind.PERSONA
    if {"name", "personality"} <= value.keys():
        return ForeignKind.CHARACTER
    if not value:
        raise _unknown("an empty object")
    return ForeignKind.PRESET


def _begins_chat(content: bytes) -> bool:
    """Return True if a file of lines has one of a chat at its top; broken lines after it are the reader's."""
    lines = BytesIO(content[: 4 * 1024 * 1024].removeprefix(b"\xef\xbb\xbf"))
    for _ in range(2):
        try:
            value = read_json(lines.readline(), what="the line")
        except InvalidImport:
            continue
        if isinstance(value, dict) and {"mes", "chat_metadata", "user_name", "swipes"} & value.keys():
            return True
    return False


def _unknown(got: str) -> InvalidImport:
    return InvalidImport(
        "a chat takes no such file",
        expected="a character card, a lorebook, a persona, a preset, or a chat as JSONL",
        got=got,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file for other programs."""

    name: str
    """A file name of letters, digits and a suffix."""
    content: bytes
    is_original: bool
    """True if these are the bytes that were taken in."""


async def export_file(session: ChatReader, kind: ForeignKind, *, name: str = "") -> ExportedFile:
    """Return a file of what a chat has.

    `name`: which member of a group, or which lorebook by its ref; it can be left out where there is one.
    Errors: `NotFound` for what the chat does not have, `AccessDenied`.
    """
    register_writing()
    match kind:
        case ForeignKind.CHARACTER:
            return await _export_character(session, name)
        case ForeignKind.LOREBOOK:
            return await _export_lorebook(session, name)
        case ForeignKind.PERSONA:
            return await _export_persona(session)
        case ForeignKind.PRESET:
            now = await session.settings()
            content = write_preset(session.chat_id, params=now.params, system=now.system, note=now.note)
            return ExportedFile(name=f"{slug(session.chat_id)}.json", content=content, is_original=False)
        case ForeignKind.CHAT:
            content = await export_jsonl(session)
            return ExportedFile(name=f"{slug(session.chat_id)}.jsonl", content=content, is_original=False)


async def read_portrait(session: ChatReader, name: str = "") -> bytes:
    """Return the picture of a character as PNG. Errors: as `export_file`; `NotFound` if it has none."""
    char = await _member(session, name)
    if (ref := char.get("portrait")) is not None:
        content = (await _artifact(session, str(ref))).content
        if isinstance(content, bytes) and content.startswith(SIGNATURE):
            return content
    raise NotFound(f"{char['name']} has no picture", hint="A card that is a PNG brings one.")


async def _member(session: ChatReader, name: str) -> Mapping[str, Any]:
    """The character of a name; without one the only, or first. Errors: `NotFound`."""
    now = await session.settings()
    members = list(now.group or ((now.char,) if now.char else ()))
    found = [one for one in members if not name or one.get("name") == name]
    if not found:
        names = ", ".join(str(one.get("name")) for one in members)[:200]
        raise NotFound(f"no character {name[:60]!r} in the chat", expected=names or "a character")
    return found[0]


async def _artifact(session: ChatReader, ref: str) -> Artifact:
    principal = (await session.settings()).principal
    return await session.desk.as_principal(principal).artifacts.read(ref)


async def _original(session: ChatReader, artifact: Artifact) -> bytes | None:
    """Return the file that a form was read from; None if it is not kept."""
    if not isinstance(ref := (artifact.metadata or {}).get("file"), str):
        return None
    try:
        content = (await _artifact(session, ref)).content
    except NotFound:  # it was deleted since
        return None
    return content if isinstance(content, bytes) else None


async def _export_character(session: ChatReader, name: str) -> ExportedFile:
    char = await _member(session, name)
    stem = slug(str(char["name"]))
    if not isinstance(ref := char.get("ref"), str):
        return _written(stem, write_card(_edited(Character(name=str(char["name"])), char)), None)
    artifact = await _artifact(session, ref)
    form = read_form(Character, artifact.content)
    original = await _original(session, artifact)
    edited = _edited(form, char)
    if original is not None and edited == form:
        suffix = "png" if original.startswith(SIGNATURE) else "json"
        return ExportedFile(name=f"{stem}.{suffix}", content=original, is_original=True)
    book = None
    if form.lorebook is not None:
        book = await read_stored_book((await _artifact(session, form.lorebook)).content)
    return await run_in_content_thread(WRITTEN_BYTES, _write_card, stem, edited, book, original)


def _write_card(stem: str, edited: Character, book: Lorebook | None, original: bytes | None) -> ExportedFile:
    return _written(stem, write_card(edited, lorebook=book), original)


def _written(stem: str, card: bytes, original: bytes | None) -> ExportedFile:
    """A card, in its picture if it came in one."""
    if original is not None and original.startswith(SIGNATURE):
        return ExportedFile(name=f"{stem}.png", content=write_png(original, card), is_original=False)
    return ExportedFile(name=f"{stem}.json", content=card, is_original=False)


def _edited(form: Character, char: Mapping[str, Any]) -> Character:
    """Return a form with the name and the texts that the chat has of it."""
    texts = {one: str(char.get(one) or "") for one in SHOWN}
    name = str(char["name"])
    if name != form.called:
        texts["nickname" if form.nickname is not None else "name"] = name
    return msgspec.structs.replace(form, **texts)


async def _export_lorebook(session: ChatReader, ref: str) -> ExportedFile:
    now = await session.settings()
    known = [*now.lorebooks]
    known += [str(one["lorebook"]) for one in (*now.group, now.char) if one.get("lorebook")]
    if not ref and len(now.lorebooks) == 1:
        ref = now.lorebooks[0]
    if ref not in known:
        listed = ", ".join(dict.fromkeys(known))[:300]
        raise NotFound(f"no lorebook {ref[:120]!r} in the chat", expected=listed or "a lorebook")
    artifact = await _artifact(session, ref)
    stem = slug(ref.partition("@")[0].rpartition("/")[2])
    if (original := await _original(session, artifact)) is not None:
        return ExportedFile(name=f"{stem}.json", content=original, is_original=True)
    book = await read_stored_book(artifact.content)
    content = await run_in_content_thread(WRITTEN_BYTES, write_lorebook, book)
    return ExportedFile(name=f"{stem}.json", content=content, is_original=False)


async def _export_persona(session: ChatReader) -> ExportedFile:
    user = (await session.settings()).user
    if not user:
        raise NotFound("the chat has no persona", hint="Nobody said who speaks.")
    persona = {"name": str(user["name"]), "description": str(user.get("description") or "")}
    stem = slug(persona["name"])
    if isinstance(ref := user.get("ref"), str):
        artifact = await _artifact(session, ref)
        try:
            form = read_form(Persona, artifact.content)
        except InvalidArtifact:
            form = None
        if form is not None and persona == {"name": form.name, "description": form.description}:
            if (original := await _original(session, artifact)) is not None:
                return ExportedFile(name=f"{stem}.json", content=original, is_original=True)
    content = msgspec.json.format(msgspec.json.encode(persona), indent=1)
    return ExportedFile(name=f"{stem}.json", content=content, is_original=False)
