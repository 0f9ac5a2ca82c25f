"""What files of other programs do: which lore enters, what macros become, and the prompt word for word.

The files and what is expected of them stand in `expected/`. With `ARTELIER_FOREIGN_FILES`, a folder of the
same form, each of its files is asked, too.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import Session
from artelier.chat.foreign_files import ForeignKind, foreign_kind
from artelier.chat.turn.main_call import people_of
from artelier.chat.turn.turn_loop import replay_turn
from artelier.chat.turn.turn_runner import recorded_job
from artelier.operations.lore.activation import LoreActivation, activate, with_names
from artelier.operations.lore.character_cards import depth_prompt, read_card
from artelier.operations.lore.character_import import cast_character
from artelier.operations.lore.entry_rules import LoreScene
from artelier.operations.lore.macros import Macros
from artelier.operations.lore.schemas import Lorebook
from artelier.operations.lore.world_info import read_world_info
from tests.operations.chats import kernel_of, opened, play, requests_of

OURS = Path(__file__).parent / "expected"
FOLDERS = [OURS, *(Path(one) for one in [os.environ.get("ARTELIER_FOREIGN_FILES", "")] if one)]


def _files(*keys: str) -> list[Any]:
    """Return each file of which one of these things is expected, with what that is."""
    return [
        pytest.param(folder / name, wanted, id=f"{folder.name}/{name}")
        for folder in FOLDERS
        for name, wanted in json.loads((folder / "expected.json").read_bytes())["files"].items()
        if any(key in wanted for key in keys)
    ]


def _book(path: Path) -> Lorebook:
    if foreign_kind(path.read_bytes(), name=path.name) is ForeignKind.LOREBOOK:
        return read_world_info(path)
    book = read_card(path).lorebook
    assert book is not None
    return book


def _activate(book: Lorebook, case: Mapping[str, Any], *, seed: int = 0, **more: Any) -> LoreActivation:
    settings = {
        name: case["settings"][name] for name in ("scan_depth", "recursive") if name in case["settings"]
    }
    named = msgspec.structs.replace(book, **settings)
    char = case.get("char", "Char")
    scene = LoreScene(char=char, tags=frozenset(case.get("tags", ())), trigger="generate")
    named = with_names(named, user=case.get("user", "User"), char=char)
    return activate(named, case["messages"], **{"turn": 1, "seed": seed, "scene": scene, **more})


def _ids(found: LoreActivation) -> list[str]:
    return sorted(one.entry.id for one in found.entries)


@pytest.mark.parametrize(("path", "wanted"), _files("fires"))
def test_the_entries_that_a_chat_speaks_of_enter(path: Path, wanted: dict[str, Any]) -> None:
    book = _book(path)
    left = {str(one["id"]) for one in wanted.get("keep", {}).get("entries", ()) if one.get("outlet")}
    for case in wanted["fires"]:
        case = {"settings": {}, **case}
        listed = [[str(id_) for id_ in one] for one in case.get("entries_one_of", [case.get("entries")])]
        allowed = [sorted(one for one in ids if one not in left) for ids in listed]
        for seed in range(30 if len(allowed) > 1 else 1):
            found = _activate(book, case, seed=seed)
            names = sorted(one.entry.name for one in found.entries)  # entries of Agnai have no ids
            assert _ids(found) in allowed or names in allowed, case
        elsewhere = [one["text"] for one in case.get("examples", ())]  # which the import names
        placed = {place: [one.entry for one in found.entries if one.entry.place == place] for place in PLACES}
        for place, name in PLACES.items():
            if name in case:
                texts = [one.content for one in placed[place] if one.content not in elsewhere]
                assert "\n".join(texts) == case[name], case
        for group in case.get("at_depth", ()):
            texts = [
                one.content
                for one in placed["depth"]
                if (one.depth, one.role) == (group["depth"], group["role"])
            ]
            assert texts == group["texts"], case


PLACES = {"before": "before_char", "after": "after_char", "depth": ""}


@pytest.mark.parametrize(("path", "wanted"), _files("turns"))
def test_lore_stays_rests_and_waits_as_a_chat_grows(path: Path, wanted: dict[str, Any]) -> None:
    book, state = _book(path), dict[str, int]()
    if "sticky" in wanted.get("may_not_follow", ()):
        warnings: list[str] = []
        read_world_info(path, warnings=warnings)
        assert any("count turns here, not messages" in one for one in warnings)
        return
    for step in wanted["turns"]["steps"]:
        case = {"settings": wanted["turns"]["settings"], "messages": [step["newest"]]}
        found = _activate(book, case, turn=(step["messages_total"] + 1) // 2, state=state)
        assert _ids(found) == sorted(map(str, step["entries"])), step
        state = found.state


@pytest.mark.parametrize(("path", "wanted"), _files("chances"))
def test_of_a_group_each_entry_has_its_share_of_chance(path: Path, wanted: dict[str, Any]) -> None:
    book = _book(path)
    for word, shares in wanted["chances"].items():
        case = {"settings": {"scan_depth": 2, "recursive": False}, "messages": [word]}
        won = Counter(one for seed in range(2_000) for one in _ids(_activate(book, case, seed=seed)))
        for entry, share in shares.items():
            assert won[entry] / 2_000 == pytest.approx(share, abs=0.05), (word, won)


@pytest.mark.parametrize(("path", "wanted"), _files("render"))
def test_macros_of_a_card_become_what_its_format_says(
    path: Path, wanted: dict[str, Any], tmp_path: Path
) -> None:
    async def greetings(user: str) -> tuple[str, ...]:
        with opened(tmp_path) as kernel:
            desk = kernel.for_tenant()
            await desk.state()
            return (await cast_character(desk, path, by="operator", user=user)).greetings

    character = read_card(path).character
    for case in wanted["render"]:
        user, field = case.get("user", "User"), case["field"]
        macros = Macros(
            user=user, char=character.called, seed="s", chat_seed="c", now_us=1_764_000_000_000_000
        )
        if "greeting" in field:
            number = 0 if field == "first greeting" else int(field.rpartition(" ")[2])
            text = play(greetings(user))[number]
        elif field == "depth_note":
            text = macros.expand(str((depth_prompt(character.extensions) or {})["prompt"]))
        elif field in ("system_prompt", "post_history"):
            own = character.system_prompt if field == "system_prompt" else character.post_history_instructions
            text = macros.expand(own, original=case["original"]) if own.strip() else case["original"]
        else:
            told = {name: getattr(character, name) for name in ("description", "personality", "scenario")}
            settings = {"user": {"name": user}, "char": {"name": character.called, **told}}
            text = people_of(settings, macros)["char"][field]
        assert case.get("equals", text) == text, case
        assert re.search(case.get("matches", ""), text), (case, text)
        assert all(one in text for one in case.get("contains", ())), (case, text)
        assert not any(one in text for one in case.get("lacks", ())), (case, text)


KEYS = ("in_prompt", "not_in_prompt", "must_not_appear", "never_as_text", "prompt_order_expected")


@pytest.mark.parametrize(("path", "wanted"), _files(*KEYS))
def test_a_model_reads_of_a_file_what_it_should_and_nothing_else(
    path: Path, wanted: dict[str, Any], tmp_path: Path
) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            char = {"name": "Bram", "description": "DESCRIPTION", "scenario": "SCENARIO"}
            char |= {"personality": "PERSONALITY", "example_dialogue": "EXAMPLES"}
            char["post_history_instructions"] = "{{original}} POST"
            user = {"name": "Ines", "description": "PERSONA"}
            session = await Session.open(kernel, "c", model="m", char=char, user=user)
            if wanted["kind"] == "preset":
                book = {"0": {"uid": 0, "content": "LORE-BEFORE", "constant": True, "position": 0}}
                book["1"] = {"uid": 1, "content": "LORE-AFTER", "constant": True, "position": 1}
                await session.import_file(json.dumps({"entries": book}).encode(), name="book.json")
            await session.import_file(path)
            if wanted["kind"] == "chat":
                now = await session.settings()
                assert now.char == char  # the chat has a character of its own
            await session.generate("HISTORY.")
            shown = "\n".join(one.text for one in requests_of(session)[-1].messages)
            for text in wanted.get("in_prompt", ()):
                assert text in shown
            for key in ("not_in_prompt", "must_not_appear", "never_as_text"):
                for text in wanted.get(key, ()):
                    assert text not in shown, text
            if order := wanted.get("prompt_order_expected"):
                texts = {one["id"]: one.get("text", "") for one in wanted["keep"]["prompts"]}
                marks = {name: name.upper().replace(" ", "-") for name in order}
                marks["post history"] = texts["jailbreak"]
                said = [texts.get(one) or marks[one] for one in order]
                macros = Macros(user="Ines", char="Bram")
                places = [shown.index(macros.expand(one)) for one in said]
                assert places == sorted(places), order
                assert "PERSONALITY" not in shown  # off in the order

    play(run())


PROMPT = json.loads((OURS / "prompt.json").read_bytes())


def test_a_card_a_book_a_preset_and_a_chat_make_this_prompt_word_for_word(tmp_path: Path) -> None:
    """And a replay the same; another reply has its own triggers and chance."""

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m")
            for name in ("chat.jsonl", "card.json", "book.json", "persona.json", "preset.json"):
                await session.import_file(OURS / name)
            result = await session.generate("The river, and a silver coin.")
            assert _said(session) == PROMPT["generate"]
            job = await recorded_job(session.desk, result.run_id)
            assert job is not None
            await kernel_of(session).replay(result.run_id, lambda run: replay_turn(run, job.settings()))
            await session.regenerate()
            assert _said(session) == PROMPT["regenerate"]
            made = await session.export_file("preset")
            assert made.content == (OURS / "preset.json").read_bytes()
            said = (await session.export_file("chat")).content.splitlines()
            assert [json.loads(one) for one in said[:4]] == [
                json.loads(one) for one in (OURS / "chat.jsonl").read_bytes().splitlines()
            ]

    play(run())


def _said(session: Session) -> list[list[str]]:
    return [[one.role, one.text] for one in requests_of(session)[-1].messages]
