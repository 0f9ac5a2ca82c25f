"""The cast of a chat: characters, personas and lorebooks of files become artifacts of whoever brings them.

What a chat needs of them is returned in the form of its settings; the artifacts keep everything, for export
and for other chats. Texts are unchanged, except for the names in them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.artifacts import Artifacts
from artelier.errors import InvalidArtifact, InvalidImport
from artelier.operations.lore.character_cards import FILE_BYTES_MAX as CARD_BYTES_MAX
from artelier.operations.lore.character_cards import SIGNATURE, Card, depth_prompt, read_card
from artelier.operations.lore.macros import Macros
from artelier.operations.lore.presets import FILE_BYTES_MAX as PRESET_BYTES_MAX
from artelier.operations.lore.presets import Preset, read_preset
from artelier.operations.lore.schemas import (
    Character,
    Lorebook,
    LoreForm,
    Persona,
    read_form,
    register_writing,
)
from artelier.operations.lore.untrusted_files import Source, read_json, source_bytes
from artelier.operations.lore.world_info import FILE_BYTES_MAX as BOOK_BYTES_MAX
from artelier.operations.lore.world_info import read_world_info
from artelier.operations.profile.store import save_content
from artelier.threads import run_in_content_thread

if TYPE_CHECKING:
    from artelier.kernel.tenants.registry import TenantScope

PERSONA_BYTES_MAX = 2 * 1024 * 1024

SHOWN = (
    "description",
    "personality",
    "scenario",
    "example_dialogue",
    "system_prompt",
    "post_history_instructions",
)
"""Of a character, what its chat's prompts show; see `chat/turn/main_call.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCharacter:
    """A character as a chat takes it: `char` and `greetings` of `Session.open`."""

    char: Mapping[str, Any]
    """Its texts, `ref` of the artifact, and `lorebook`, the ref of its own book if it has one."""
    greetings: tuple[str, ...]
    """With which it may begin; the first is its first message."""
    refs: tuple[str, ...]
    """Of what was stored: `id@version`."""
    warnings: tuple[str, ...] = field(default=())
    """What was changed, left out, or is kept without being followed."""


async def cast_character(
    desk: TenantScope, source: Source, *, by: str, user: str = "User"
) -> ImportedCharacter:
    """A character from a card (V1, V2, V3; JSON or PNG), stored in the name of `by`.

    `desk` is the kernel bound to a tenant. `user` is what greetings call the person.
    Errors: `InvalidImport` naming every wrong field; `NotFound` for no such file; `AccessDenied`.
    """
    register_writing()
    content = await asyncio.to_thread(source_bytes, source, limit_bytes=CARD_BYTES_MAX)
    card = await run_in_content_thread(len(content), read_card, content)
    artifacts = desk.as_principal(by).artifacts
    place = f"characters/{slug(by, chars_max=40)}/{slug(card.character.called)}"
    refs: list[str] = []
    character = card.character
    if card.lorebook is not None and card.lorebook.entries:
        book = await _store_form(artifacts, f"{place}/lorebook", "lorebook", card.lorebook)
        character = msgspec.structs.replace(character, lorebook=book)
        refs.append(book)
    kept = await _store_file(desk, artifacts, place, content)
    ref = await _store_form(artifacts, place, "character", character, metadata=kept)
    now_us = desk.services.clock.now_us()
    greetings, notes = await run_in_content_thread(len(content), _greetings, character, user, now_us)
    portrait = {"portrait": kept["file"]} if kept and content.startswith(SIGNATURE) else {}
    return ImportedCharacter(
        char={**_settings(character, ref), **portrait},
        greetings=greetings,
        refs=(ref, *refs),
        warnings=(*_warnings(card), *notes),
    )


def _settings(character: Character, ref: str) -> dict[str, Any]:
    told = {name: text for name in SHOWN if (text := getattr(character, name))}
    own: dict[str, Any] = {"lorebook": character.lorebook} if character.lorebook is not None else {}
    if note := depth_prompt(character.extensions):
        own["depth_prompt"] = note
    if character.tags:
        own["tags"] = list(character.tags)
    if (talks := character.extensions.get("talkativeness")) is not None:
        own["talkativeness"] = talks
    return {"name": character.called, **told, "ref": ref, **own}


def _greetings(character: Character, user: str, now_us: int) -> tuple[tuple[str, ...], list[str]]:
    """Return the greetings with what macros become, and a warning if some stay as they are written."""
    texts = (character.first_message, *character.alternate_greetings)
    own = "\n".join(texts)
    macros = Macros(user=user, char=character.called, seed=own, chat_seed=own, now_us=now_us)
    greetings = tuple(macros.expand(text) for text in texts if text.strip())
    notes = ["greetings: they would become too long, so some macros stay"] if macros.is_spent else []
    return greetings, notes


def _warnings(card: Card) -> tuple[str, ...]:
    if card.lorebook is not None and not card.lorebook.entries:
        return (*card.warnings, "the card's lorebook has no entries")
    return card.warnings


async def cast_persona(desk: TenantScope, source: Source, *, by: str) -> dict[str, Any]:
    """`{name, description, ref}` of a persona in a JSON file `{name, description}`, stored as an artifact.

    Errors: `InvalidImport`, `NotFound`, `AccessDenied`.
    """
    register_writing()
    content = await asyncio.to_thread(source_bytes, source, limit_bytes=PERSONA_BYTES_MAX)
    persona = await run_in_content_thread(len(content), _read_persona, content)
    place = f"personas/{slug(by, chars_max=40)}/{slug(persona.name)}"
    artifacts = desk.as_principal(by).artifacts
    kept = await _store_file(desk, artifacts, place, content)
    ref = await _store_form(artifacts, place, "persona", persona, metadata=kept)
    return {"name": persona.name, "description": persona.description, "ref": ref}


def _read_persona(content: bytes) -> Persona:
    try:
        return read_form(Persona, read_json(content, what="the persona"))
    except InvalidArtifact as error:
        raise InvalidImport(error.message, expected='{"name": ..., "description": ...}') from None


async def keep_lorebook(
    desk: TenantScope, source: Source, *, by: str, name: str = ""
) -> tuple[str, tuple[str, ...]]:
    """A World Info file (or a `lorebook_v3`) as an artifact: its ref `id@version`, and warnings.

    It is named by the book, else by `name`, else by the file.
    Errors: `InvalidImport` naming every wrong field; `NotFound` for no such file; `AccessDenied`.
    """
    register_writing()
    warnings: list[str] = []
    content = await asyncio.to_thread(source_bytes, source, limit_bytes=BOOK_BYTES_MAX)
    book = await run_in_content_thread(len(content), partial(read_world_info, content, warnings=warnings))
    called = book.name or name or (Path(source).stem if isinstance(source, str | Path) else "book")
    place = f"lorebooks/{slug(by, chars_max=40)}/{slug(called)}"
    artifacts = desk.as_principal(by).artifacts
    kept = await _store_file(desk, artifacts, place, content)
    return await _store_form(artifacts, place, "lorebook", book, metadata=kept), tuple(warnings)


async def keep_preset(desk: TenantScope, source: Source, *, by: str, name: str = "") -> tuple[Preset, str]:
    """A preset, and the ref of its file without secrets; an empty one where personal data is replaced.

    Errors: `InvalidImport` for what is no preset; `NotFound` for no such file; `AccessDenied`.
    """
    content = await asyncio.to_thread(source_bytes, source, limit_bytes=PRESET_BYTES_MAX)
    preset = await run_in_content_thread(len(content), partial(read_preset, content, name=name))
    place = f"presets/{slug(by, chars_max=40)}/{slug(preset.name or 'preset')}"
    kept = await _store_file(desk, desk.as_principal(by).artifacts, place, preset.content)
    return preset, str(kept.get("file", ""))


def slug(name: str, *, chars_max: int = 48) -> str:
    """A name as a piece of an artifact's id; names that would collide get a digest."""
    plain = re.sub(r"[^A-Za-z0-9.:_-]+", "-", name).strip("-.:_")
    if plain == name and 0 < len(name) <= chars_max:
        return name
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: chars_max - 9].rstrip('-.:_') or 'x'}-{digest}"


async def _store_form(
    artifacts: Artifacts,
    id: str,
    kind: str,
    form: Character | Lorebook | Persona,
    *,
    metadata: dict[str, Any] | None = None,
) -> str:
    """Store a form; what is stored already as it is gets no new version."""
    content = await asyncio.to_thread(LoreForm.to_content, form)
    return await save_content(artifacts, id, kind, content, metadata=metadata)


async def _store_file(desk: TenantScope, artifacts: Artifacts, place: str, content: bytes) -> dict[str, Any]:
    """Store a file as it came, and return the metadata that name it; it is exported unchanged.

    Where personal data is replaced, a file is not kept: nobody searches its bytes.
    """
    if desk.services.personal is not None:
        return {}
    return {"file": await save_content(artifacts, f"{place}/file", "document", content)}
