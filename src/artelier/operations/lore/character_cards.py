"""Character cards, V1 to V3, from JSON, PNG and CHARX; and as V3 for others. All in them is data."""

from __future__ import annotations

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Any, Literal, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec

from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact, InvalidImport
from artelier.operations.lore.schemas import (
    GREETINGS_MAX,
    NAME_CHARS_MAX,
    TAGS_MAX,
    Character,
    Lorebook,
    read_form,
)
from artelier.operations.lore.untrusted_files import (
    FileProblems,
    ForeignFields,
    Source,
    is_nothing,
    listed,
    read_json,
    source_bytes,
)
from artelier.operations.lore.world_info import book_object, read_book

FILE_BYTES_MAX = 32 * 1024 * 1024
"""Of a PNG, most of which is the picture."""

JSON_BYTES_MAX = 8 * 1024 * 1024
DEPTH_MAX = 10_000

CARRIED = "artelier/card"
"""The extension that holds fields of the card that have no meaning here, such as `assets` and `source`."""

_V1 = ("name", "description", "personality", "scenario", "first_mes", "mes_example")
_OUTSIDE = frozenset(
    (
        *_V1,
        "spec",
        "spec_version",
        "data",
        "creatorcomment",
        "avatar",
        "chat",
        "talkativeness",
        "fav",
        "tags",
        "create_date",
        "metadata",
        "shallow",
        "json_data",
    )
)
"""What stands beside `data` and says the same once more, or is private to a program."""

_FOLLOWED = ("talkativeness", "depth_prompt", CARRIED)
"""Extensions that have a meaning here, or are named where they are read."""

_PYGMALION = {
    "char_name": "name",
    "char_persona": "description",
    "world_scenario": "scenario",
    "char_greeting": "first_mes",
    "example_dialogue": "mes_example",
}
"""Fields of an older form of cards, by what they are called since."""

OTHER_FORMATS = {b"\xff\xd8\xff": "a JPEG", b"RIFF": "a WebP", b"GIF8": "a GIF"}
"""Files that hold cards or pictures of other programs, by how they begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The content of a card."""

    character: Character
    lorebook: Lorebook | None
    """The character's own; store it as an artifact and name it in `character.lorebook`."""
    version: Literal["1", "2", "3"]
    warnings: tuple[str, ...]
    """What was changed, left out, or is kept without being followed."""


def read_card(source: Source) -> Card:
    """A card from a PNG, JSON or CHARX file, or from its bytes.

    Text stays as it is: macros, HTML and templates are not looked at.
    Errors: `InvalidImport` naming every wrong field; `NotFound` for no such file.
    """
    data = source_bytes(source, limit_bytes=FILE_BYTES_MAX)
    if data.startswith(SIGNATURE):
        data = card_json(data)
    elif data.startswith(CHARX):
        data = card_of_charx(data)
    for magic, name in OTHER_FORMATS.items():
        if data.startswith(magic):
            raise InvalidImport("this is no character card", expected="a PNG, JSON or CHARX", got=name)
    if len(data) > JSON_BYTES_MAX:
        raise InvalidImport("the card is too large", expected=f"at most {JSON_BYTES_MAX:,} bytes of JSON")
    value = read_json(data, what="the card")
    if not isinstance(value, dict):
        raise InvalidImport("this is no character card", expected="an object", got=safe_repr(value))
    notes = FileProblems()
    version, fields = _fields(cast("dict[str, Any]", value), notes)
    book = fields.mapping("character_book")
    character = _character(fields, notes)
    lorebook = None
    if book:
        lorebook = read_book(book, path=f"{fields.path}character_book.", notes=notes, name=character.name)
    notes.check("the card")
    return Card(character=character, lorebook=lorebook, version=version, warnings=notes.warnings)


def _fields(value: dict[str, Any], notes: FileProblems) -> tuple[Literal["1", "2", "3"], ForeignFields]:
    """The object that holds the character, and by which version of the format."""
    spec, data = value.get("spec"), value.get("data")
    if isinstance(data, dict) and (isinstance(spec, str) or "name" in data):
        if spec not in ("chara_card_v2", "chara_card_v3"):
            notes.warn(f"spec: {safe_repr(spec)} is unknown; read like chara_card_v3")
        newest = value.get("spec_version")
        if isinstance(newest, str) and newest not in ("2.0", "3.0"):
            notes.warn(f"spec_version: {safe_repr(newest)} is unknown; its news are not followed")
        if left := sorted(value.keys() - _OUTSIDE):
            notes.warn(f"left out beside `data`: {listed(left)}")
        inside = cast("dict[str, Any]", data)
        return "2" if spec == "chara_card_v2" else "3", ForeignFields(
            inside, path="data.", notes=notes, is_lenient=True
        )
    if not isinstance(data, dict) and "name" in value and not value.keys().isdisjoint(_V1[1:]):
        if spec is not None:
            notes.warn(f"spec: {safe_repr(spec)}, but there is no `data`; read as a card of V1")
        alone = {name: one for name, one in value.items() if name not in ("spec", "spec_version", "data")}
        return "1", ForeignFields(alone, path="", notes=notes, is_lenient=True)
    if "char_name" in value and "spec" not in value:
        notes.warn("this is a card in the form of Pygmalion; its fields have their usual names here")
        renamed = {_PYGMALION.get(name, name): one for name, one in value.items()}
        return "1", ForeignFields(renamed, path="", notes=notes, is_lenient=True)
    hint = None
    if "entries" in value:
        hint = "It looks like a lorebook; read it as one."
    raise InvalidImport(
        "this is no character card",
        expected="`data` with a name, or the fields of V1",
        got=", ".join(list(value)[:10])[:200] or "an empty object",
        hint=hint,
    )


def _character(fields: ForeignFields, notes: FileProblems) -> Character:
    """Wrong fields go to `notes`; then it is somebody without properties."""
    name = fields.line("name", chars_max=NAME_CHARS_MAX)
    if not name:
        notes.warn(f"{fields.path}name: missing; it became Unnamed")
    comment = fields.text("creatorcomment")
    content: dict[str, Any] = {
        "name": name or "Unnamed",
        "nickname": fields.line("nickname", chars_max=NAME_CHARS_MAX) or None,
        "description": fields.text("description"),
        "personality": fields.text("personality"),
        "scenario": fields.text("scenario"),
        "first_message": fields.text("first_mes"),
        # With the first message they are variants of one turn.
        "alternate_greetings": _at_most(fields, "alternate_greetings", GREETINGS_MAX - 1, notes),
        "example_dialogue": fields.text("mes_example"),
        "system_prompt": fields.text("system_prompt"),
        "post_history_instructions": fields.text("post_history_instructions"),
        "creator_notes": fields.text("creator_notes", comment),
        "tags": [tag[:NAME_CHARS_MAX] for tag in _at_most(fields, "tags", TAGS_MAX, notes)],
        "creator": fields.line("creator", chars_max=NAME_CHARS_MAX),
        "version": fields.line("character_version", chars_max=NAME_CHARS_MAX),
        "extensions": _extensions(fields, notes),
    }
    try:
        return read_form(Character, content)
    except InvalidArtifact as error:
        for problem in error.facts["problems"]:
            notes.problem(f"{fields.path}{problem}")
        return Character(name="Unnamed")


def _at_most(fields: ForeignFields, name: str, most: int, notes: FileProblems) -> tuple[str, ...]:
    # An empty greeting is one: its place in the list is what others are counted by.
    found = fields.texts(name, split=name == "tags", with_empty=name == "alternate_greetings")
    if len(found) > most:
        notes.warn(f"{fields.path}{name}: the first {most} of {len(found)} are kept")
    return found[:most]


def _extensions(fields: ForeignFields, notes: FileProblems) -> dict[str, Any]:
    """The card's extensions, and in one of ours all fields that nobody took."""
    extensions = fields.mapping("extensions")
    if CARRIED in extensions:
        # Else a file could put fields into the card that is written from it.
        notes.warn(f"{fields.path}extensions.{CARRIED}: left out")
        extensions = {name: value for name, value in extensions.items() if name != CARRIED}
    unknown = [name for name, one in extensions.items() if name not in _FOLLOWED and not is_nothing(one)]
    if unknown:
        notes.warn(f"{fields.path}extensions: kept, but not followed: {listed(unknown)}")
    if _has_note(extensions) and depth_prompt(extensions) is None:
        notes.warn(f"{fields.path}extensions.depth_prompt: kept, but not followed: no text, or no depth")
    if rest := {name: value for name, value in fields.rest().items() if value not in (None, [])}:
        notes.warn(f"kept in extensions, but not followed: {listed(rest)}")
        extensions = {**extensions, CARRIED: rest}
    return extensions


def _has_note(extensions: Mapping[str, Any]) -> bool:
    note = extensions.get("depth_prompt")
    return bool(note) and not (isinstance(note, dict) and cast("dict[str, Any]", note).get("prompt") == "")


def depth_prompt(extensions: Mapping[str, Any]) -> dict[str, Any] | None:
    """The note `{prompt, depth, role}` that a card wants among the newest messages; None for no such."""
    given = extensions.get("depth_prompt")
    if not isinstance(given, dict):
        return None
    note = cast("dict[str, Any]", given)
    prompt, depth, role = note.get("prompt"), note.get("depth", 4), note.get("role", "system")
    if not isinstance(prompt, str) or not prompt.strip():
        return None
    if isinstance(depth, str) and re.fullmatch(r"[0-9]{1,5}", depth):
        depth = int(depth)
    if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= DEPTH_MAX:
        return None
    known = role if role in ("system", "user", "assistant") else "system"
    return {"prompt": prompt, "depth": depth, "role": known}


def write_card(character: Character, *, lorebook: Lorebook | None = None) -> bytes:
    """The card as V3 JSON; `read_card` gives equal ones.

    `character.lorebook` is a name in this store and stays here: pass the book itself.
    """
    carried: object = character.extensions.get(CARRIED)
    data: dict[str, Any] = {"group_only_greetings": []}
    if isinstance(carried, dict):
        data |= cast("dict[str, Any]", carried)
    data |= {
        "name": character.name,
        "description": character.description,
        "personality": character.personality,
        "scenario": character.scenario,
        "first_mes": character.first_message,
        "mes_example": character.example_dialogue,
        "creator_notes": character.creator_notes,
        "system_prompt": character.system_prompt,
        "post_history_instructions": character.post_history_instructions,
        "alternate_greetings": list(character.alternate_greetings),
        "tags": list(character.tags),
        "creator": character.creator,
        "character_version": character.version,
        "extensions": {k: v for k, v in character.extensions.items() if k != CARRIED},
    }
    if isinstance(carried, dict):  # what had a wrong type stands in the file as it was
        data |= {name: one for name, one in cast("dict[str, Any]", carried).items() if data.get(name) == ""}
    data.pop("creatorcomment", None)
    data.pop("character_book", None)
    data.pop("nickname", None)
    if character.nickname is not None:
        data["nickname"] = character.nickname
    if lorebook is not None:
        data["character_book"] = book_object(lorebook)
    card = {"spec": "chara_card_v3", "spec_version": "3.0", "data": data}
    return msgspec.json.format(msgspec.json.encode(card), indent=1)


_CARD_FILE = "card.json"
CHARX = b"PK\x03\x04"
"""The beginning of a CHARX file: a zip with `card.json` and the assets beside it, which stay in it."""

ARCHIVE_FILES_MAX = 2_000
"""In a CHARX file (a guess: the largest have some hundred pictures)."""

_DIRECTORY_END = b"PK\x05\x06"
_LARGE_ARCHIVE = b"PK\x06\x07"
_DIRECTORY_END_BYTES = 22
_RECORD_BYTES, _SIZES_AT, _OFFSET_AT = 46, 28, 42
"""Of a file's record in the directory: its bytes without texts, and where their sizes and its place stand."""
_COMMENT_BYTES_MAX = 65_535
_DIRECTORY_BYTES_MAX = 1_000_000


def card_of_charx(data: bytes) -> bytes:
    """The JSON of the character card in a CHARX file.

    Errors: `InvalidImport` for a damaged archive, one without `card.json`, or too large a one.
    Cost:   O(names in the archive, which are few, and the card); no other file in it is unpacked.
    """
    _check_directory(data)
    try:
        with ZipFile(BytesIO(data)) as archive:
            place = archive.getinfo(_CARD_FILE)
            if place.compress_type not in (
                ZIP_STORED,
                ZIP_DEFLATED,
            ):  # others unpack more than they are asked
                raise NotImplementedError("card.json is packed otherwise than by deflate")
            with archive.open(place) as file:
                card = file.read(JSON_BYTES_MAX + 1)
    except KeyError:
        raise InvalidImport("the archive holds no character card", expected="a file card.json") from None
    except _UNREADABLE as error:
        raise InvalidImport(f"the archive cannot be read: {str(error)[:200]}") from None
    return card


_UNREADABLE = (BadZipFile, NotImplementedError, RuntimeError, OSError, ValueError, EOFError, zlib.error)


def write_charx(archive: bytes, card: bytes) -> bytes:
    """Return an archive with another card in it. All other files stay as they are packed, byte for byte.

    Errors: `InvalidImport` for a damaged archive.
    Cost:   O(archive); nothing in it is unpacked.
    """
    alone = BytesIO()
    with ZipFile(alone, "w") as made:
        made.writestr(ZipInfo(_CARD_FILE), card, ZIP_DEFLATED)
    kept = [one for one in _packed_files(archive) if one[0] != _CARD_FILE]
    content, directory = BytesIO(), BytesIO()
    for _, packed, record in (*kept, *_packed_files(alone.getvalue())):
        offset = struct.pack("<I", content.tell())
        directory.write(record[:_OFFSET_AT] + offset + record[_OFFSET_AT + 4 :])
        content.write(packed)
    files, size_bytes = len(kept) + 1, directory.tell()
    end = struct.pack("<4s4H2IH", _DIRECTORY_END, 0, 0, files, files, size_bytes, content.tell(), 0)
    return content.getvalue() + directory.getvalue() + end


def _packed_files(archive: bytes) -> list[tuple[str, bytes, bytes]]:
    """Return the files of an archive: the name, the bytes from its head on, and its record in the directory.

    Errors: `InvalidImport` for a damaged archive, and where two files stand at one place.
    """
    _check_directory(archive)
    try:
        with ZipFile(BytesIO(archive)) as opened:
            entries, at = opened.infolist(), opened.start_dir
    except _UNREADABLE as error:
        raise InvalidImport(f"the archive cannot be read: {str(error)[:200]}") from None
    places = sorted({*(entry.header_offset for entry in entries), at})
    ends = dict(pairwise(places))
    found: list[tuple[str, bytes, bytes]] = []
    for entry in entries:
        size_bytes = _RECORD_BYTES + sum(struct.unpack_from("<3H", archive, at + _SIZES_AT))
        packed = archive[entry.header_offset : ends.pop(entry.header_offset, 0)]
        if not packed.startswith(CHARX):
            raise InvalidImport("the archive cannot be read", expected="each file at a place of its own")
        found.append((entry.filename, packed, archive[at : at + size_bytes]))
        at += size_bytes
    return found


def _check_directory(data: bytes) -> None:
    """Look at the end of an archive before its directory is read: whoever says two things there is refused.

    Errors: `InvalidImport` for one that is too large, or not at one place.
    """
    first = max(0, len(data) - _DIRECTORY_END_BYTES - _COMMENT_BYTES_MAX)
    at = data.find(_DIRECTORY_END, first)
    is_alone = 0 <= at <= len(data) - _DIRECTORY_END_BYTES and data.find(_DIRECTORY_END, at + 1) < 0
    if not is_alone or data.find(_LARGE_ARCHIVE, first) >= 0:
        raise InvalidImport("the archive cannot be read", expected="a zip file with one directory at its end")
    files, size_bytes = struct.unpack_from("<HI", data, at + 10)
    if files > ARCHIVE_FILES_MAX or size_bytes > _DIRECTORY_BYTES_MAX:
        most = f"at most {ARCHIVE_FILES_MAX:,}"
        raise InvalidImport("the archive has too many files", expected=most, got=files)


SIGNATURE = b"\x89PNG\r\n\x1a\n"

CHUNKS_MAX = 65_536
"""Of one file (guess: a large picture in the smallest usual pieces of 8 KiB has a tenth of it)."""

_HEADER_BYTES = 8
_CRC_BYTES = 4
_KEYWORD_BYTES_MAX = 79
_COMPRESSED = (b"zTXt", b"iTXt")


def card_json(data: bytes) -> bytes:
    """The JSON of the character card in a PNG: `ccv3`, or else `chara`, which older readers look at.

    Errors: `InvalidImport` for a damaged file, for none or two different cards, for a compressed chunk.
    """
    found: dict[str, bytes] = {}
    compressed: set[str] = set()
    for kind, body in chunks(data):
        if kind != b"tEXt" and kind not in _COMPRESSED:
            continue
        keyword, separator, text = body.partition(b"\0")
        name = keyword[:_KEYWORD_BYTES_MAX].decode("latin-1").lower()
        if name not in ("chara", "ccv3") or not separator:
            continue
        if kind in _COMPRESSED:
            compressed.add(name)
        elif found.setdefault(name, text) != text:
            raise InvalidImport(f"the PNG has two different cards in chunks `{name}`")
    if not found:
        raise InvalidImport(
            "the PNG has no character card",
            expected="a tEXt chunk `chara` or `ccv3`",
            got="a zTXt or iTXt chunk, in which no card stands" if compressed else "none",
        )
    name = "ccv3" if "ccv3" in found else "chara"
    return _decode(found[name], name)


_SPACES = b" \t\n\r\x0b\x0c"


def _decode(text: bytes, name: str) -> bytes:
    packed = text.translate(None, _SPACES)
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except binascii.Error as error:
        raise InvalidImport(f"the card in the chunk `{name}` of the PNG is no base64: {error}") from None


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Type and data of each chunk up to IEND; what stands after it is not looked at.

    Errors: `InvalidImport` for what is no PNG, is cut off, has a wrong CRC or too many chunks.
    Cost:   O(n), the checksum.
    """
    if not data.startswith(SIGNATURE):
        raise InvalidImport("this is no PNG", expected="its signature", got=repr(data[:8]))
    at = len(SIGNATURE)
    for number in range(CHUNKS_MAX):
        if at + _HEADER_BYTES + _CRC_BYTES > len(data):
            raise InvalidImport("the PNG is cut off", expected="a chunk IEND at its end")
        size_bytes = int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + _HEADER_BYTES]
        end = at + _HEADER_BYTES + size_bytes
        if not (kind.isascii() and kind.isalpha()) or (number == 0 and kind != b"IHDR"):
            raise InvalidImport(f"the PNG is damaged at byte {at:,}", expected="a chunk", got=repr(kind))
        if end + _CRC_BYTES > len(data):
            raise InvalidImport(
                f"the PNG is cut off in its chunk {kind.decode()} at byte {at:,}",
                expected=f"{size_bytes:,} bytes",
                got=max(0, len(data) - at - _HEADER_BYTES - _CRC_BYTES),
            )
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + _CRC_BYTES], "big"):
            raise InvalidImport(f"the PNG is damaged: wrong checksum of {kind.decode()} at byte {at:,}")
        if kind == b"IEND":
            return
        yield kind, data[at + _HEADER_BYTES : end]
        at = end + _CRC_BYTES
    raise InvalidImport("the PNG has too many chunks", expected=f"at most {CHUNKS_MAX:,}")


def write_png(picture: bytes, card: bytes) -> bytes:
    """Return the picture of a card with another card in it, as chunks `chara` and `ccv3`.

    Errors: `InvalidImport` for a damaged picture.
    """
    text = base64.b64encode(card)
    kept = [(kind, body) for kind, body in chunks(picture) if not _holds_card(kind, body)]
    ours = [(b"tEXt", b"chara\0" + text), (b"tEXt", b"ccv3\0" + text)]
    return SIGNATURE + b"".join(_chunk(*one) for one in (*kept, *ours, (b"IEND", b"")))


def _holds_card(kind: bytes, body: bytes) -> bool:
    keyword = body.partition(b"\0")[0].lower()
    return kind in (b"tEXt", *_COMPRESSED) and keyword in (b"chara", b"ccv3")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
