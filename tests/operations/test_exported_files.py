"""What a chat took in goes out again: byte for byte, or written anew with all that nobody follows here.

With `ARTELIER_FOREIGN_FILES`, a folder of cards, lorebooks, presets and chats beside an `expected.json`, the
same is asked of each of its files.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile

import pytest

from artelier import ModelReply, ModelRequest, Session
from artelier.artifacts.media.inspection import read_header
from artelier.chat.conversation_files import parse_chat
from artelier.errors import ArtelierError, InvalidImport, InvalidRequest, NotFound
from artelier.operations.lore.character_cards import card_json, chunks, read_card, write_charx
from artelier.operations.lore.chat_log import sent_us
from artelier.ports.model import Part, reasoning_part
from tests.operations.chats import opened, play, requests_of
from tests.operations.writing.files import encoded, png, text_chunk

CARD: dict[str, Any] = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        "name": "Mira",
        "description": "A smith.",
        "first_mes": "Hi {{user}}.",
        "character_book": {"entries": [{"keys": ["anvil"], "content": "It hums.", "enabled": True}]},
        "relationships": [{"with": "Bob"}],
        "extensions": {"voice/x": 3},
    },
}
BOOK = {"entries": {"0": {"uid": 0, "key": ["gate"], "content": "Shut.", "novelty": 7}}, "colour": "red"}
PERSONA = b'{"description": "A guest.",\r\n "name": "Kim"}'
CHAT = [
    {"user_name": "Kim", "character_name": "Mira"},
    {"name": "Mira", "is_user": False, "mes": "Come in.", "send_date": "June 19, 2023 2:20pm"},
    {"name": "Kim", "is_user": True, "mes": "Thanks.", "send_date": "2024-7-12@01h31m37s"},
    {
        "name": "Mira",
        "is_user": False,
        "mes": "Two.",
        "send_date": "2025-02-28T23:59:59.999Z",
        "extra": {"reasoning": "THOUGHT-TWO"},
        "swipe_id": 1,
        "swipes": ["One.", "Two."],
        "swipe_info": [{"send_date": 1714557700123, "extra": {"reasoning": "THOUGHT-ONE"}}, {}],
    },
    {"name": "Kim", "is_user": True, "mes": "And?", "send_date": "yesterday"},
]


def lines(*values: object) -> bytes:
    return b"\n".join(map(encoded, values))


def test_a_card_a_lorebook_and_a_persona_are_the_bytes_that_came_in(tmp_path: Path) -> None:
    picture, book = png(text_chunk("chara", CARD)), encoded(BOOK)

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            for content, name in ((picture, "m.png"), (book, "town.json"), (PERSONA, "kim.json")):
                await session.import_file(content, name=name)
            for kind, content in (("character", picture), ("lorebook", book), ("persona", PERSONA)):
                made = await session.export_file(kind)
                assert (made.content, made.is_original) == (content, True), kind
            ref = (await session.settings()).char["lorebook"]
            own = json.loads((await session.export_file("lorebook", name=ref)).content)
            assert own["data"]["entries"][0]["content"] == "It hums."
            await session.import_file(picture, name="m.png")  # nothing has changed: no new version
            assert (await session.settings()).char["ref"].endswith("@1")

    play(run())


def test_a_character_that_was_changed_is_written_into_its_picture_with_what_nobody_follows(
    tmp_path: Path,
) -> None:
    picture = png(text_chunk("chara", CARD))

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            await session.import_file(picture, name="m.png")
            char = (await session.settings()).char
            await session.change(char={**char, "name": "Mira Voss", "description": "A retired smith."})
            made = await session.export_file("character")
            assert not made.is_original and made.name.endswith(".png")
            assert read_header(made.content, "image/png") == read_header(picture, "image/png")
            data = json.loads(card_json(made.content))["data"]
            assert (data["name"], data["description"]) == ("Mira Voss", "A retired smith.")
            assert (data["relationships"], data["extensions"]) == ([{"with": "Bob"}], {"voice/x": 3})
            assert data["character_book"]["entries"][0]["content"] == "It hums."
            keywords = [body.partition(b"\0")[0] for kind, body in chunks(made.content) if kind == b"tEXt"]
            assert keywords == [b"chara", b"ccv3"]
            assert read_card(made.content).character.name == "Mira Voss"
            await session.change(user={"name": "Ann", "description": "Tall."})
            assert json.loads((await session.export_file("persona")).content) == {
                "name": "Ann",
                "description": "Tall.",
            }

    play(run())


def test_a_character_of_an_archive_goes_out_in_it_with_all_other_files(tmp_path: Path) -> None:
    """Also those with names outside ASCII, and those that nobody could unpack."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        archive.writestr("assets/icon.png", png(), ZIP_STORED)
        archive.writestr("card.json", encoded(CARD))
        archive.writestr("assets/żółw.txt", "x" * 1_000)
        archive.writestr("module.risum", b"\0\1\2", ZIP_LZMA)
    given = packed.getvalue()

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            await session.import_file(given, name="m.charx")
            assert (await session.export_file("character")).content == given
            char = (await session.settings()).char
            await session.change(char={**char, "description": "A retired smith."})
            made = await session.export_file("character")
            assert made.name.endswith(".charx") and b"A smith." not in made.content
            with ZipFile(BytesIO(made.content)) as now, ZipFile(packed) as was:
                assert now.testzip() is None
                data = json.loads(now.read("card.json"))["data"]
                assert (data["description"], data["relationships"]) == ("A retired smith.", [{"with": "Bob"}])
                assert sorted(now.namelist()) == sorted(was.namelist())
                for name in set(was.namelist()) - {"card.json"}:
                    assert now.read(name) == was.read(name), name
                    assert now.getinfo(name).compress_type == was.getinfo(name).compress_type
            again = await Session.open(kernel, "d", model="m")
            await again.import_file(made.content, name="m.charx")
            assert (await again.settings()).char["description"] == "A retired smith."

    play(run())


def test_an_archive_with_two_files_at_one_place_is_not_written_anew() -> None:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("card.json", encoded(CARD))
        archive.writestr("one", b"1")
        archive.filelist.append(archive.getinfo("one"))

    with pytest.raises(InvalidImport, match="each file at a place of its own"):
        write_charx(packed.getvalue(), b"{}")


def test_scenario_and_variables_of_a_chat_are_followed_and_go_out_equal(tmp_path: Path) -> None:
    metadata = {"scenario": "A ship burns.", "variables": {"n": 3, "mood": "tense"}, "world_info": "Sea"}
    given = [{"user_name": "Kim", "character_name": "Mira", "chat_metadata": metadata}, *CHAT[1:3]]
    char = {"name": "Mira", "scenario": "A forge.", "description": "{{getvar::n}} hammers."}

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", char=char)
            taken = await session.import_file(lines(*given), name="old.jsonl")
            assert "kept of chat_metadata, but not followed: world_info" in taken.warnings
            await session.generate("So?")
            shown = requests_of(session)[-1].messages[0].text
            assert "A ship burns." in shown and "A forge." not in shown and "3 hammers." in shown
            exported = (await session.export_file("chat")).content.splitlines()
            assert json.loads(exported[0]) == given[0]

            await session.change(scenario=None, variables={"n": "4"})
            await session.generate("And?")
            shown = requests_of(session)[-1].messages[0].text
            assert "A forge." in shown and "4 hammers." in shown
            head = json.loads((await session.export_file("chat")).content.splitlines()[0])
            assert head["chat_metadata"] == {"variables": {"n": "4"}, "world_info": "Sea"}
            own = await session.import_file(lines(*given), name="old.jsonl")
            assert "variables: the chat keeps its own" in own.warnings
            assert (await session.settings()).scenario == "A ship burns."

    play(run())


def test_a_chat_keeps_when_it_was_said_and_what_the_model_thought_and_no_prompt_has_that(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            taken = await session.import_file(lines(*CHAT), name="old.jsonl")
            assert taken.warnings == (
                "dates that cannot be read: line 5; they have the time of now",
                "dates without a zone are taken as UTC",
            )
            greeting, first, _ = await session.turns()
            moments = [one.at_us for one in (greeting, first, *first.variants)]
            assert [_moment(at) for at in moments] == [
                "2023-06-19T14:20:00+00:00",
                "2024-07-12T01:31:37+00:00",
                "2024-05-01T10:01:40.123000+00:00",
                "2025-02-28T23:59:59.999000+00:00",
            ]
            assert [[part["channel"] for part in one.parts] for one in first.variants] == [
                ["reasoning", "text"]
            ] * 2
            again = parse_chat((await session.export_file("chat")).content)
            assert again.turns[:2] == taken.turns[:2]
            await session.generate("So?")
            assert "THOUGHT" not in str(requests_of(session)[-1])

            await session.delete_turn(first.number)
            left = parse_chat((await session.export_file("chat")).content)
            assert "THOUGHT" not in str(left)
        held = b"".join(path.read_bytes() for path in tmp_path.glob("state.db*"))
        assert b"THOUGHT" not in held

    play(run())


def _moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat()


ODD = [
    {
        "chat_metadata": {
            "note_prompt": "Candlelight.",
            "note_depth": 2,
            "note_interval": 3,
            "variables": {"n": 3},
        }
    },
    {"name": "Mira", "is_user": False, "is_system": False, "mes": "Come in.", "force_avatar": "m.png"},
    {"name": "Kim", "is_user": True, "mes": "Two.", "swipes": ["CANARY-ONE.", "Two."], "swipe_id": 1},
    {"name": "Narrator", "is_user": False, "mes": "Rain.", "extra": {"type": "narrator", "bias": None}},
    {"name": "Note", "is_user": False, "is_system": True, "mes": "CANARY.", "extra": {"type": "comment"}},
    {"name": "Kim", "is_user": True, "send_date": 1714557700123, "mes": "And?", "extra": {"token_count": 2}},
    {
        "name": "Mira",
        "is_user": False,
        "send_date": "June 19, 2023 2:20pm",
        "mes": "Reworded.",
        "extra": {"reasoning": "Hm.", "model": "x"},
        "gen_started": "2023-06-19T14:20:00.000Z",
        "swipe_id": 1,
        "swipes": ["Words.", "More words."],
        "swipe_info": [{"send_date": 0, "extra": {"reasoning": "Hm, hm."}, "gen_started": 1}, {}],
    },
    {"name": "Kim", "is_user": True, "send_date": None, "mes": "Past the end.", "swipes": [], "swipe_id": 9},
]


def test_a_conversation_goes_out_line_by_line_as_it_came_in(tmp_path: Path) -> None:
    """What a file says and no chat follows is kept with its message: it goes out, and is deleted, with it."""

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            taken = await session.import_file(lines(*ODD), name="old.jsonl")
            assert any("force_avatar, gen_started" in one for one in taken.warnings)
            said = [json.loads(one) for one in (await session.export_file("chat")).content.splitlines()]
            assert said == ODD
            headless = await Session.open(kernel, "d", model="m")
            await headless.import_file(lines(*ODD[1:]), name="old.jsonl")
            assert (await headless.export_file("chat")).content.count(b"\n") == len(ODD) - 1

            await session.generate("So?")
            assert "CANARY" not in str(requests_of(session)[-1])
            assert not any(one.kept for one in await session.turns())
            changed = (await session.turns())[4]
            await session.revise("Other words.", turn=changed.number, role="user")
            await session.select_variant(changed.number, 1)
            await session.change(note=None)
            said = [json.loads(one) for one in (await session.export_file("chat")).content.splitlines()]
            assert said[0]["chat_metadata"] == {"variables": {"n": 3}}
            assert (said[5]["mes"], said[5]["extra"]) == ("Other words.", {"token_count": 2})
            assert (said[6]["mes"], said[6]["swipe_id"], len(said[6]["swipes"])) == ("Words.", 0, 3)

    play(run())


def test_what_is_kept_of_a_message_is_deleted_with_it(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            await session.import_file(lines(*ODD), name="old.jsonl")
            for turn in await session.turns():
                if "Two." in turn.user or "CANARY" in turn.text:
                    await session.delete_turn(turn.number)
            content = (await session.export_file("chat")).content
            assert b"CANARY" not in content and b"force_avatar" in content
        held = b"".join(path.read_bytes() for path in tmp_path.glob("state.db*"))
        assert b"CANARY" not in held

    play(run())


PRESET = {
    "temp": 0.8,
    "top_p": 1,
    "rep_pen": 1.1,
    "genamt": 300,
    "max_length": 8192,
    "dry_base": 1.75,
    "wi_format": "<lore>{0}</lore>",
    "prompts": [
        {"identifier": "main", "role": "system", "content": "Be kind."},
        {"identifier": "charPersonality", "marker": True},
        {"identifier": "chatHistory", "marker": True},
        {"identifier": "spare", "content": "In no place."},
    ],
    "prompt_order": [
        {
            "character_id": 100001,
            "order": [
                {"identifier": "chatHistory"},
                {"identifier": "charPersonality", "enabled": False},
                {"identifier": "main"},
            ],
        }
    ],
}


def test_a_preset_goes_out_as_it_came_in_but_for_what_was_changed(tmp_path: Path) -> None:
    given = json.dumps(PRESET, indent=2).encode()

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            taken = await session.import_file(given, name="mine.json")
            assert any("wi_format" in one for one in taken.warnings)
            made = await session.export_file("preset")
            assert (made.content, made.is_original) == (given, True)

            await session.change(temperature=1.2, extra=None)
            changed = json.loads((await session.export_file("preset")).content)
            wanted = {name: value for name, value in PRESET.items() if name != "rep_pen"}
            assert changed == {**wanted, "temp": 1.2}
            await session.change(system="Be brief.", max_output_tokens=200)
            changed = json.loads((await session.export_file("preset")).content)
            assert (changed["genamt"], changed["max_length"], changed["dry_base"]) == (200, 8192, 1.75)
            other = await Session.open(kernel, "d", model="m")
            await other.import_file((await session.export_file("preset")).content, name="again.json")
            now, then = await other.settings(), await session.settings()
            assert (now.params, now.system, now.prompts) == (then.params, then.system, then.prompts)

    play(run())


def test_addresses_and_secrets_of_a_preset_are_stored_nowhere(tmp_path: Path) -> None:
    hidden = {"url": "http://CANARY", "headers": {"Authorization": "CANARY"}, "deep": [{"api_key": "CANARY"}]}
    given = {"temperature": 0.5, "reverse_proxy": "CANARY", "extensions": hidden, "openai_max_tokens": 9}

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            taken = await session.import_file(encoded(given), name="mine.json")
            assert "addresses, headers and passwords of other servers are not taken over" in taken.warnings
            made = json.loads((await session.export_file("preset")).content)
            assert made == {"temperature": 0.5, "extensions": {"deep": [{}]}, "openai_max_tokens": 9}
        assert b"CANARY" not in b"".join(path.read_bytes() for path in tmp_path.glob("state.db*"))

    play(run())


def test_what_a_chat_does_not_have_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", group=["Mira", "Bob"])
            with pytest.raises(NotFound, match="Mira, Bob"):
                await session.export_file("character", name="Zoe")
            for kind in ("lorebook", "persona"):
                with pytest.raises(NotFound):
                    await session.export_file(kind)
            with pytest.raises(InvalidRequest, match="character, lorebook, persona, preset, chat"):
                await session.export_file("wallpaper")
            made = await session.export_file("character", name="Bob")
            assert read_card(made.content).character.name == "Bob"
            await session.change(temperature=0.5, system="Be kind.", prompts=PARTS)
            preset = await session.export_file("preset")
            other = await Session.open(kernel, "d", model="m")
            await other.import_file(preset.content, name="preset.json")
            now, then = await other.settings(), await session.settings()
            assert (now.params, now.system, now.prompts) == (then.params, then.system, then.prompts)

    play(run())


PARTS: list[dict[str, Any]] = [
    {"place": "main", "role": "user"},
    {"place": "history"},
    {"id": "hail", "text": "Hail."},
    {"id": "rain", "text": "Rain.", "depth": 2},
]


FOLDER = os.environ.get("ARTELIER_FOREIGN_FILES", "")
EXPECTED: dict[str, Any] = (
    json.loads((Path(FOLDER) / "expected.json").read_bytes())["files"] if FOLDER else {}
)
FILES = sorted(name for name in EXPECTED if not name.startswith("bundles/"))


@pytest.mark.skipif(not FOLDER, reason="needs ARTELIER_FOREIGN_FILES")
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_others_comes_in_and_goes_out_as_expected(name: str, tmp_path: Path) -> None:
    wanted, path = EXPECTED[name], Path(FOLDER) / name

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", user="Ines")
            before = await session.settings()
            if wanted["verdict"] == "refuse":
                with pytest.raises(ArtelierError):
                    await session.import_file(path)
                assert (await session.settings(), await session.turns()) == (before, [])
                return
            taken = await session.import_file(path)
            assert len(taken.warnings) >= bool(wanted.get("must_say"))
            made = await session.export_file(taken.kind, name=taken.name if taken.kind == "lorebook" else "")
            has_secrets = taken.kind == "preset" and bool(wanted.get("must_not_appear"))
            if taken.kind == "chat":
                _check_chat(made.content, wanted)
                assert _lines_of(made.content) == _lines_of(path.read_bytes())
            elif not has_secrets:
                assert made.content == path.read_bytes()
            if taken.kind == "preset":
                _check_preset((await session.settings()).params, wanted)
            for secret in wanted.get("must_not_appear", ()) if taken.kind == "preset" else ():
                assert secret.encode() not in made.content
                held = b"".join(file.read_bytes() for file in tmp_path.glob("state.db*"))
                assert secret.encode() not in held

    play(run())


def _lines_of(content: bytes) -> list[dict[str, Any]]:
    """The lines of a chat that can be read: a head, and messages that are text."""
    found: list[dict[str, Any]] = []
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("mes", None if found else ""), str):
            found.append(value)
    return found


def _check_chat(content: bytes, wanted: dict[str, Any]) -> None:
    """Each message that is a person's or a character's is there, in order, with its thoughts and wordings."""
    said = [line for line in _lines_of(content) if "mes" in line]
    at = 0
    for message in wanted["keep"]["messages"]:
        if message["text"].startswith("OBJECT-TEXT"):
            continue  # text that is an object: it is left out, and said so
        at = next(n for n in range(at, len(said)) if said[n]["mes"] == message["text"]) + 1
        line = said[at - 1]
        if message["side"] == "character":
            assert set(message.get("swipes") or ()) <= {*line.get("swipes", ()), line["mes"]}
            assert line["extra"].get("reasoning", "") == message.get("reasoning", "")
        hidden = message.get("hidden")
        assert hidden is None or line["is_system"] is hidden
        moment = wanted["keep"].get("sent", {}).get(str(message["line"])) or {}
        wanted_at = moment.get("instant") or moment.get("wall", "")
        if wanted_at:
            assert _moment(sent_us(str(line["send_date"])))[:19] == wanted_at[:19]
    for text in wanted.get("texts", ()):
        if "user messages" not in str(wanted.get("may_not_follow")) or text != "My own first try.":
            assert text in json.dumps(said, ensure_ascii=False)


def _check_preset(params: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Each sampler of the file is a parameter of the chat, unless it is switched off there."""
    held = {**params, **params.get("extra", {})}
    for sampler, value in wanted["keep"].get("samplers", {}).items():
        if sampler in held:
            assert held[sampler] == pytest.approx(value), sampler
        else:
            assert value in (0, 1, None, -1), sampler


def test_what_the_model_thought_is_beside_the_reply_and_in_no_later_prompt(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        thought = reasoning_part("THOUGHT: a knock.", provider="x", signature=None, id_=None, details=None)
        return ModelReply(text="Come in.", finish_reason="stop", parts=(thought, Part(text="Come in.")))

    async def run() -> None:
        with opened(tmp_path, answer) as kernel:
            session = await Session.open(kernel, "c", model="m")
            result = await session.generate("Hello?")
            assert result.text == "Come in."
            await session.generate("Again?")
            await session.regenerate()
            assert "THOUGHT" not in " ".join(one.text for one in requests_of(session)[-1].messages)
            first = (await session.turns())[0].variants[0]
            assert [(one["channel"], one["text"]) for one in first.parts] == [
                ("reasoning", "THOUGHT: a knock."),
                ("text", "Come in."),
            ]
            said = (await session.export_file("chat")).content.splitlines()
            assert json.loads(said[2])["extra"] == {"reasoning": "THOUGHT: a knock."}

    play(run())
