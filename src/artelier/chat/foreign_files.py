"""Files of other programs for a chat, in and out: cards, lorebooks, personas, presets and conversations.

One door for all of them, so that the command line, the API and the page take the same files in the same way.
The readers stand in `operations/lore`; here is what each file means to a chat. A card, a lorebook and a
persona leave as they came, byte for byte, until somebody changes in the chat what they say; then the file is
written anew, with the picture of the card and what nobody follows here. The turns of a conversation are in
`conversation_files.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from io import BytesIO
from typing import Any, cast

import msgspec

from artelier.artifacts import Artifact
from artelier.chat.conversation_files import ForeignTurn, TakenChat, export_jsonl, parse_chat
from artelier.chat.session.chat_reader import ChatReader
from artelier.chat.session.settings import StoredChatSettings
from artelier.errors import InvalidArtifact, InvalidImport, NotFound
from artelier.kernel.tenants.registry import TenantScope
from artelier.operations.lore.character_cards import (
    CHARX,
    OTHER_FORMATS,
    SIGNATURE,
    write_card,
    write_charx,
    write_png,
)
from artelier.operations.lore.character_import import (
    SHOWN,
    cast_character,
    cast_persona,
    keep_lorebook,
    keep_preset,
    slug,
)
from artelier.operations.lore.presets import write_preset
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
        joins a group, and with `as_member` makes one with the character there is. A conversation sets what
        the chat does not have yet.
        """
        own = dict(self.settings)
        if self.kind is ForeignKind.CHAT:
            return {name: value for name, value in own.items() if not _has(now, name)}
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


def _has(now: StoredChatSettings, name: str) -> bool:
    return bool(getattr(now, name) or (name == "group" and now.char))


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
        return await read_preset_file(desk, content, name=stem, by=by, model=model)
    return _of_chat(await run_in_content_thread(len(content), parse_chat, content))


async def read_preset_file(
    desk: TenantScope, source: Source, *, name: str, by: str, model: str
) -> ForeignFile:
    """Return what a preset sets. Arguments and errors: as of `read_foreign_file`."""
    preset, ref = await keep_preset(desk, source, by=by, name=name)
    own: dict[str, Any] = {**preset.params, **({"preset": ref} if ref else {})}
    if preset.has_prompts:
        own |= {"system": preset.system, "prompts": msgspec.to_builtins(preset.prompts)}
    warnings = (*preset.size_warnings(model, desk.services.window_of(model)), *preset.warnings)
    return ForeignFile(kind=ForeignKind.PRESET, name=preset.name, settings=own, warnings=warnings)


def _of_chat(chat: TakenChat) -> ForeignFile:
    return ForeignFile(
        kind=ForeignKind.CHAT,
        name=chat.char,
        settings=chat.settings,
        turns=chat.turns,
        warnings=chat.warnings,
    )


def foreign_kind(content: bytes, *, name: str) -> ForeignKind:
    """Return what a file is, by what is in it, and by its name where that says it.

    Errors: `InvalidImport` for what is none of them.
    """
    low = name.lower()
    if content.startswith((_PNG, CHARX, *OTHER_FORMATS)) or low.endswith(".png"):
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
            return await _export_preset(session)
        case ForeignKind.CHAT:
            content = await export_jsonl(session)
            return ExportedFile(name=f"{slug(session.chat_id)}.jsonl", content=content, is_original=False)


async def _export_preset(session: ChatReader) -> ExportedFile:
    now, base = await session.settings(), None
    if now.preset:
        try:
            base = (await _artifact(session, now.preset)).content
        except NotFound:  # it was deleted since
            base = None
    write = partial(write_preset, session.chat_id, params=now.params, system=now.system, prompts=now.prompts)
    given = base if isinstance(base, bytes) else None
    content = await run_in_content_thread(WRITTEN_BYTES, partial(write, base=given))
    return ExportedFile(name=f"{slug(session.chat_id)}.json", content=content, is_original=content == given)


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
        suffix = "charx" if original.startswith(CHARX) else suffix
        return ExportedFile(name=f"{stem}.{suffix}", content=original, is_original=True)
    book = None
    if form.lorebook is not None:
        book = await read_stored_book((await _artifact(session, form.lorebook)).content)
    return await run_in_content_thread(WRITTEN_BYTES, _write_card, stem, edited, book, original)


def _write_card(stem: str, edited: Character, book: Lorebook | None, original: bytes | None) -> ExportedFile:
    return _written(stem, write_card(edited, lorebook=book), original)


def _written(stem: str, card: bytes, original: bytes | None) -> ExportedFile:
    """A card, in its picture or its archive if it came in one."""
    if original is not None and original.startswith(SIGNATURE):
        return ExportedFile(name=f"{stem}.png", content=write_png(original, card), is_original=False)
    if original is not None and original.startswith(CHARX):
        return ExportedFile(name=f"{stem}.charx", content=write_charx(original, card), is_original=False)
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
