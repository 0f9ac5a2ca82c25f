"""Exports of a chat as files for other programs: characters, lorebooks, the persona, a preset, its turns.

A card, a lorebook and a persona leave as they came, byte for byte, until somebody changes in the chat what
they say; then the file is written anew, with the picture of the card and what nobody follows here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from artelier.artifacts import Artifact
from artelier.chat.chat_interchange import export_jsonl
from artelier.chat.foreign_files import ForeignKind
from artelier.chat.session.chat_reader import ChatReader
from artelier.errors import InvalidArtifact, NotFound
from artelier.operations.lore.character_cards import SIGNATURE, write_card, write_png
from artelier.operations.lore.character_import import SHOWN, slug
from artelier.operations.lore.presets import write_preset
from artelier.operations.lore.schemas import Character, Lorebook, Persona, read_form, register_writing
from artelier.operations.lore.world_info import write_lorebook


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
        book = read_form(Lorebook, (await _artifact(session, form.lorebook)).content)
    card = await asyncio.to_thread(write_card, edited, lorebook=book)
    return await asyncio.to_thread(_written, stem, card, original)


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
    content = await asyncio.to_thread(write_lorebook, read_form(Lorebook, artifact.content))
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
