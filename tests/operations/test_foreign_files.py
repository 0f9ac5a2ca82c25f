"""Files of other programs, told apart by what is in them, and what each does to a chat."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest

from artelier import Session
from artelier.artifacts.json_items import FILE_ITEMS_MAX
from artelier.chat.conversation_files import parse_chat
from artelier.chat.foreign_files import ForeignKind, foreign_kind
from artelier.errors import InvalidImport, NotFound
from artelier.operations.lore.character_cards import (
    ARCHIVE_FILES_MAX,
    JSON_BYTES_MAX,
    depth_prompt,
    read_card,
)
from artelier.operations.lore.untrusted_files import PIECE_BYTES, PIECES_MAX, read_json
from artelier.operations.lore.world_info import read_world_info
from tests.operations.chats import opened, play
from tests.operations.writing.files import chunk, png, text_chunk

CARD: dict[str, Any] = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {"name": "Mira", "first_mes": "Hi {{user}}."},
}
BOOK = {"name": "Town", "entries": {"0": {"uid": 0, "key": ["gate"], "content": "The gate is shut."}}}
LINES = [
    {"user_name": "Ann", "character_name": "Mira"},
    {"name": "Ann", "is_user": True, "mes": "Hello"},
    {"name": "Mira", "is_user": False, "mes": "Come in."},
]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _lines() -> bytes:
    return b"\n".join(map(_json, LINES))


def _charx(files: dict[str, Any], packing: int = ZIP_DEFLATED) -> bytes:
    packed = BytesIO()
    with ZipFile(packed, "w", packing) as archive:
        for name, value in files.items():
            archive.writestr(name, _json(value))
    return packed.getvalue()


def _png(card: object) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    text = b"chara\0" + base64.b64encode(_json(card))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"tEXt", text)
        + chunk(b"IDAT", zlib.compress(b"\0\0"))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (_json(CARD), "character"),
        (_png(CARD), "character"),
        (_json({"name": "Old", "personality": "kind", "first_mes": "Hi"}), "character"),
        (_json({"char_name": "Old", "char_greeting": "Hi"}), "character"),
        (_json(BOOK), "lorebook"),
        (_json({"spec": "lorebook_v3", "data": {"entries": []}}), "lorebook"),
        (_json({"lorebookVersion": 5, "entries": []}), "lorebook"),
        (_json({"kind": "memory", "entries": []}), "lorebook"),
        (_json({"name": "Ann", "description": "A smith."}), "persona"),
        (_json({"temperature": 0.7, "prompts": []}), "preset"),
        (_lines(), "chat"),
        (b"\xef\xbb\xbf" + _lines() + b"\n{broken", "chat"),
        (_json(LINES[1]), "chat"),
    ],
)
def test_a_file_is_known_by_what_is_in_it(content: bytes, kind: str) -> None:
    assert foreign_kind(content, name="file") == kind


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"3",
        b"{}",
        b"\n" * 1_000_000,
        b"[" * 100_000,
        b"{" * 100_000,
        _json({"operations": []}),
    ],
)
def test_what_is_no_such_file_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidImport):
        foreign_kind(content, name="file")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps(CARD).encode("utf-16"), "expected UTF-8; got UTF-16"),
        (b'{"name": "caf\xe9",\n"first_mes": ""}', "expected UTF-8; got the byte 0xe9 at 13, line 1"),
        (b"PK\x03\x04" + b"\0" * 40, "the archive cannot be read"),
        (_charx({"card.json": CARD}) + b"PK\x05\x06", "one directory at its end"),
        (
            _charx({"card.json": CARD})[:-22] + b"PK\x06\x07" + b"\0" * 16 + b"PK\x05\x06" + b"\0" * 18,
            "one dir",
        ),
        (_charx({"card.json": CARD}, ZIP_LZMA), "otherwise than by deflate"),
        (_charx({"other.json": CARD}), "expected a file card.json"),
        (_charx({f"{number}": 1 for number in range(ARCHIVE_FILES_MAX + 1)}), "at most 2,000"),
        (_charx({"card.json": "x" * (JSON_BYTES_MAX + 9)}), "the card is too large"),
        (b"RIFF\0\0\0\0WEBP", "got a WebP"),
        (png(chunk(b"tEXt", b"ccv3\0!!"), text_chunk("chara", CARD)), "chunk `ccv3` of the PNG is no base64"),
        (png(chunk(b"iTXt", b"chara\0\0\0\0\0e30=")), "got a zTXt or iTXt chunk"),
        (_json([CARD]), "expected a list of entries"),
        (_json(LINES), "expected a list of entries"),
        (_json({"story_string": "{{system}}"}), "a template of text completion"),
        (_json({"internal": [["a", "b"]]}), "this is no preset"),
    ],
)
def test_a_file_that_is_refused_is_called_by_what_it_is(tmp_path: Path, content: bytes, words: str) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            before = await session.settings()
            with pytest.raises(InvalidImport, match=re.escape(words)):
                await session.import_file(content)
            assert (await session.settings(), await session.turns()) == (before, [])

    play(run())


def test_a_card_in_a_charx_archive_comes_in_and_goes_out(tmp_path: Path) -> None:
    assets = [{"type": "icon", "uri": "embeded://assets/main.png", "name": "main", "ext": "png"}]
    card = {"spec": "chara_card_v3", "spec_version": "3.0", "data": {"name": "Mira", "assets": assets}}
    archive = _charx({"card.json": card, "assets/main.png": 1})

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            taken = await session.import_file(archive, name="mira.charx")
            assert (taken.kind, taken.name) == ("character", "Mira")
            assert any("assets" in one for one in taken.warnings)
            made = await session.export_file("character")
            assert (made.content, made.name, made.is_original) == (archive, "Mira.charx", True)

    play(run())


def test_text_that_means_a_number_or_a_truth_is_one() -> None:
    entry = {
        "uid": "5",
        "key": "a, b",
        "order": "50",
        "position": "4",
        "depth": "2",
        "disable": "false",
        "role": "1",
    }
    warnings: list[str] = []
    (read,) = read_world_info(_json({"entries": {"0": entry}}), warnings=warnings).entries
    assert (read.keys, read.order, read.place, read.depth, read.enabled) == (("a", "b"), 50, "depth", 2, True)
    assert read.role == "user" and any("enabled" in one for one in warnings)
    odd = {"entries": [{"key": ["a"], "position": 12, "role": 9, "disable": "TRUE"}]}
    (read,) = read_world_info(_json(odd), warnings=warnings).entries
    assert not read.enabled
    assert any("position: 12 is unknown" in one for one in warnings)
    assert any("role: 9 is unknown" in one for one in warnings)
    noted = {"depth_prompt": {"prompt": "Rain.", "depth": "3"}}
    card = read_card(_json({**CARD, "data": {**CARD["data"], "extensions": noted}}))
    assert depth_prompt(card.character.extensions) == {"prompt": "Rain.", "depth": 3, "role": "system"}
    alone = read_card(_json({"spec": "chara_card_v2", "data": None, "name": "Mira", "first_mes": "Hi."}))
    assert (alone.version, alone.character.first_message) == ("1", "Hi.")


def test_a_line_with_a_wrong_field_is_left_out_and_the_rest_comes_in() -> None:
    lines = [
        *LINES,
        {"name": "Ann", "is_user": [], "mes": "?"},
        {"name": {}, "mes": "?"},
        {**LINES[1], "mes": "!"},
    ]
    chat = parse_chat(b"\n".join(map(_json, lines)))
    assert [one.user for one in chat.turns] == ["Hello", "!"]
    said = "\n".join(chat.warnings)
    assert "left out: line 4: is_user: expected true or false" in said
    assert "left out: line 5: name: expected text" in said


def test_each_kind_of_file_changes_what_it_is_about(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            persona = await session.import_file(_json({"name": "Ann", "description": "A smith."}))
            card = await session.import_file(_png(CARD), name="mira.png")
            book = await session.import_file(_json(BOOK), name="town.json")
            preset = await session.import_file(_json({"temperature": 0.5}))
            turns = await session.import_file(_lines(), name="old.jsonl")
            kinds = [one.kind for one in (persona, card, book, preset, turns)]
            assert kinds == ["persona", "character", "lorebook", "preset", "chat"]
            settings = await session.settings()
            assert (settings.user["name"], settings.char["name"]) == ("Ann", "Mira")
            assert settings.params == {"temperature": 0.5} and len(settings.lorebooks) == 1
            assert [(one.persona, one.user, one.speaker) for one in await session.turns()] == [
                ("", "", "Mira"),  # it greets, since nothing was said yet
                ("Ann", "Hello", "Mira"),
            ]
            newer = {**BOOK, "entries": {}}
            await session.import_file(_json(newer), name="town.json")
            again = (await session.settings()).lorebooks
            assert len(again) == 1 and again != settings.lorebooks

    play(run())


@pytest.mark.parametrize("said", ["Who is there?", "Nobody wrote this on the card."])
def test_a_conversation_behind_a_card_keeps_one_greeting(tmp_path: Path, said: str) -> None:
    card = {"name": "Mira", "first_mes": "Come in.", "alternate_greetings": ["Who is there?"]}
    lines = [
        {"user_name": "Ann", "character_name": "Mira"},
        {"name": "Mira", "is_user": False, "mes": said},
        {"name": "Ann", "is_user": True, "mes": "It is me."},
        {"name": "Mira", "is_user": False, "mes": "Ah."},
    ]

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            await session.import_file(_json({"spec": "chara_card_v2", "data": card}))
            await session.import_file(b"\n".join(map(_json, lines)), name="old.jsonl")
            assert [(one.user, one.text) for one in await session.turns()] == [
                ("", said),
                ("It is me.", "Ah."),
            ]
            await session.import_file(b"\n".join(map(_json, lines)), name="old.jsonl")
            assert len(await session.turns()) == 4, "what was answered stays"

    play(run())


def test_a_card_with_more_greetings_than_a_turn_has_variants_is_taken_and_says_so(tmp_path: Path) -> None:
    fields = {**CARD["data"], "alternate_greetings": [f"Hello {n}." for n in range(300)]}

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", user="Ann")
            found = await session.import_file(_json({**CARD, "data": fields}))
            assert "data.alternate_greetings: the first 199 of 300 are kept" in found.warnings
            (greeting,) = await session.turns()
            texts = [one.text for one in greeting.variants]
            assert (texts[0], texts[-1], len(texts)) == ("Hi Ann.", "Hello 198.", 200)

    play(run())


def test_prompts_that_no_context_holds_are_named_on_import_and_in_the_turn(tmp_path: Path) -> None:
    prompts = [
        {
            "identifier": f"p{number}",
            "content": f"Rule {number}: always write in the manner of number {number}.",
        }
        for number in range(10_000)
    ]

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            taken = await session.import_file(_json({"prompts": prompts}), name="huge.json")
            (note,) = taken.warnings
            assert "10,000" in note and "m takes 111,616" in note and "every turn fails" in note
            failed = await session.generate("Hello.")
            assert failed.failed is not None
            assert (failed.status, failed.failed["code"]) == ("failed", "context_too_long")
            told = failed.failed["message"]
            assert "the longest: preset with about 1" in told and "111,616" in told
            await session.change(system="Be brief.", prompts=None)
            assert (await session.generate("Hello.")).status == "completed"
            fits = await session.import_file(_json({"prompts": prompts[:100]}), name="small.json")
            assert not fits.warnings

    play(run())


def test_a_second_character_replaces_the_first_or_makes_a_group(tmp_path: Path) -> None:
    def card(name: str, **more: Any) -> bytes:
        return _json({"spec": "chara_card_v2", "data": {"name": name, "first_mes": "Hi", **more}})

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", char="Mira")
            await session.import_file(card("Bob"))
            assert (await session.settings()).char["name"] == "Bob"
            await session.import_file(card("Cy"), as_member=True)
            await session.import_file(card("Dora"))
            await session.import_file(card("Bob", description="now with words"))
            group = (await session.settings()).group
            assert [one["name"] for one in group] == ["Bob", "Cy", "Dora"]
            assert group[0]["description"] == "now with words"

    play(run())


def test_a_file_that_is_not_there_or_broken_changes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", char="Mira")
            before = await session.settings()
            with pytest.raises(NotFound):
                await session.import_file(str(tmp_path / "none.json"))
            for content in (
                b"\x89PNG\r\n\x1a\ncut",
                _json({"spec": "chara_card_v2", "data": {"first_mes": "a", "mes_example": 3, "name": 3}})[
                    :-9
                ],
            ):
                with pytest.raises(InvalidImport):
                    await session.import_file(content)
            assert await session.settings() == before
            assert ForeignKind("chat") == "chat"

    play(run())


WIDE = {"list": [{"uid": n, "key": ["a"], "text": "wörd \U0001f600 " * 3} for n in range(3_000)]}


@pytest.mark.parametrize(
    "value",
    [
        WIDE,
        [WIDE, {"data": {"character_book": {"entries": WIDE["list"]}}}],
        "x" * (3 * PIECE_BYTES),
        {"a": {"b": {"c": {"d": {"e": {"f": ["y" * PIECE_BYTES] * 3}}}}}},
        [1.5, None, True, "z" * PIECE_BYTES],
    ],
    ids=["wide", "a card", "a text", "deep", "mixed"],
)
def test_a_large_file_is_read_in_pieces_and_is_the_same(value: object) -> None:
    for indent in (None, 2):
        assert read_json(json.dumps(value, indent=indent).encode(), what="it") == value


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(WIDE).encode()[:-1],
        json.dumps(WIDE).encode() + b"x",
        json.dumps(WIDE).encode().replace(b'"uid": 2999', b'"uid": 2_999'),
        json.dumps(WIDE).encode().replace(b'"uid": 2999', b'"uid": NaN'),
        json.dumps(WIDE).encode().replace(b'"uid": 2999', b'"\xff": 2999'),
        b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b"[" * 200_000,
    ],
    ids=["cut off", "more behind", "a number", "NaN", "no UTF-8", "nested", "open"],
)
def test_a_large_file_that_is_broken_is_refused(data: bytes) -> None:
    assert len(data) > PIECE_BYTES
    with pytest.raises(InvalidImport, match=r"it (is no JSON|cannot be (taken|read))"):
        read_json(data, what="it")


def test_a_lorebook_of_too_many_entries_is_refused_with_the_numbers(tmp_path: Path) -> None:
    entries = {str(number): {"uid": number, "key": ["k"], "content": "c"} for number in range(40_000)}

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            with pytest.raises(InvalidImport, match=r"40,000 entries, expected at most 5,000"):
                await session.import_file(_json({"entries": entries}), name="town.json")
            assert (await session.settings()).lorebooks == ()

    play(run())


def test_a_card_in_a_picture_with_too_many_items_is_refused_before_they_are_made() -> None:
    """Eight megabytes of empty lists took 0.6 GB."""
    with pytest.raises(InvalidImport, match="too many items"):
        read_card(png(text_chunk("chara", base64.b64encode(b"[" + b"[]," * FILE_ITEMS_MAX + b"1]"))))
    spread = b" ".join(base64.b64encode(_json(CARD))[at : at + 1] for at in range(len(_json(CARD)) * 2))
    assert read_card(png(text_chunk("chara", spread))).character.name == "Mira"


def test_a_key_with_more_texts_between_commas_than_there_can_be_is_refused_unsplit() -> None:
    book = {**BOOK, "entries": {"0": {"uid": 0, "key": "a," * PIECES_MAX, "content": "The gate is shut."}}}
    with pytest.raises(InvalidImport, match="at most 10,000 texts between commas"):
        read_world_info(_json(book))
    named = read_world_info(_json({**BOOK, "name": "Old   Town " * 20_000}))
    assert named.name.startswith("Old Town Old Town")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"a": 1,\n "b": x}', "line 2, column 7"),
        ('{"ä": é}'.encode(), "column 7"),
        (b'{"a": [1, 2', "column 12"),
        (b"[1] x", "column 5"),
    ],
)
def test_the_place_where_json_breaks_is_named(data: bytes, said: str) -> None:
    with pytest.raises(InvalidImport, match=said):
        read_json(data, what="the file")
