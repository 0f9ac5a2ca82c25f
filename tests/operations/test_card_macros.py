"""Macros of cards, `{{original}}`, notes at a depth: what a prompt has of them, and a replay again."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from artelier import Session
from artelier.chat.turn.turn_loop import replay_turn
from artelier.chat.turn.turn_runner import recorded_job
from artelier.errors import InvalidRequest
from artelier.operations.lore.macros import Macros
from tests.operations.chats import kernel_of, opened, play, requests_of


def _macros(**more: Any) -> Macros:
    fields: dict[str, Any] = {"seed": "s", "chat_seed": "c", "now_us": 1_700_000_000_000_000, **more}
    return Macros(user="Ines", char="Loom", **fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{char}} and {{ USER }}, <BOT>, <user>", "Loom and Ines, Loom, Ines"),
        ("{{// a comment }}a{{comment: shown}}b{{hidden_key:k}}", "ab"),
        ("a\n\n{{trim}}\n\nb{{newline}}c{{noop}}", "ab\nc"),
        ("\na\r\n{{trim}}{{trim}}\n {{trim}}\n\n{{trim}}\n\nb\n{{trim}}\n", "\na b"),
        (
            "{{time}} {{isotime}} {{date}} {{isodate}} {{weekday}}",
            "22:13 22:13 2023-11-14 2023-11-14 Tuesday",
        ),
        ("{{setvar::x::1}}{{incvar::x}}{{addvar::x::3}}{{getvar::x}}{{decvar::x}}", "254"),
        ("{{setvar::m::a}}{{addvar::m::b}}{{getvar::m}}{{getvar::none}}", "ab"),
        (
            "{{reverse:moor}} {{roll:banana}} {{wobble::7}} {{}} { {char} } }} {{",
            "room {{roll:banana}} {{wobble::7}} {{}} { {char} } }} {{",
        ),
        ("{{random::{{user}}::{{user}}}}", "Ines"),
        ("{{random:only\\, one}}", "only, one"),
        ("{{original}}", "{{original}}"),
    ],
)
def test_a_macro_becomes_what_the_card_format_says(text: str, expected: str) -> None:
    assert _macros().expand(text) == expected


def test_chance_is_drawn_from_the_seed_and_pick_stays_in_a_chat() -> None:
    text = "{{random::a::b::c}} {{roll:2d6}} {{roll 1d20}} {{roll:6}}"
    drawn = {_macros(seed=str(n)).expand(text) for n in range(200)}
    assert len(drawn) > 50
    assert all(re.fullmatch(r"[abc] ([2-9]|1[0-2]) ([1-9]|1\d|20) [1-6]", one) for one in drawn)
    assert _macros().expand(text) == _macros().expand(text)
    picks = {_macros(seed=str(n)).expand("{{pick::rain::hail}} {{pick::rain::hail}}") for n in range(50)}
    assert picks in ({"rain rain"}, {"hail hail"})


def test_what_a_macro_becomes_is_data() -> None:
    macros = Macros(user="{{char}}{{roll:6}}", char="{% raw %}", seed="s")
    assert macros.expand("{{user}} {{char}}") == "{{char}}{{roll:6}} {% raw %}"


@pytest.mark.parametrize(
    "text", ["{{" * 200_000, "{{a" * 100_000 + "}}" * 100_000, "{{x" * 3 + "}} {{y" * 100_000]
)
def test_hostile_braces_cost_linear_time_and_stay_text(text: str) -> None:
    assert len(_macros().expand(text)) == len(text)


def test_line_ends_in_a_text_with_a_macro_cost_linear_time() -> None:
    """If each line end looks for `{{trim}}` behind all those after it, this takes a minute: it hangs."""
    ends = "\n" * 200_000

    assert _macros().expand(f"<{ends}x") == f"<{ends}x"
    assert _macros().expand(f"a{ends}x{ends}{{{{trim}}}}{ends}b") == f"a{ends}xb"


def test_a_long_seed_is_read_once_for_all_draws() -> None:
    """If each draw reads the seed, which of greetings is all of their text, this takes minutes: it hangs."""
    macros = _macros(seed="long" * 5_000_000, chat_seed="\ud800" * 5_000_000)

    assert int(macros.expand("{{roll:100d9}}")) == 495
    assert len(macros.expand("{{roll:10d9}}{{pick::a::b}}" * 1_000)) > 2_000


LONG = "{{setvar::v::}}" + f"{{{{addvar::v::{'x' * 1_900}}}}}" * 6


@pytest.mark.parametrize(
    "text",
    [
        LONG + "{{getvar::v}}" * 1_000,
        LONG + "{{a " + "{{getvar::v}}" * 1_000 + "}}",
        LONG + "{{incvar::v}}" * 1_000,
        "<user>" * 20_000,
        "{{char}}" * 20_000,
        "{{group}}" * 1_000,
        "{{roll:100d1000}}" * 1_000,
        LONG + "{{addvar::v::1}}" * 1_000,
        f"{{{{setvar::v::{',' * 1_900}}}}}" + "{{random:{{getvar::v}}}}" * 1_000,
    ],
    ids=lambda text: text[-17:],
)
def test_macros_make_so_much_and_then_stay_as_they_are_written(text: str) -> None:
    """Also inside of others, and in what they draw or add to, which costs time for nothing that is seen."""
    name = "n" * 200
    macros = Macros(user=name, char=name, group=(name,) * 32)

    made = [macros.expand(text) for _ in range(20)]

    assert macros.is_spent and made[-1].endswith(text[-6:])
    assert sum(map(len, made)) <= 20 * 2 * len(text) + 1_000_000
    assert macros.expand("{{trim}}\n" + "-" * 400 + "<char>") == "-" * 400 + name


def test_a_text_that_is_given_has_room_beside_what_macros_make() -> None:
    macros = _macros()
    macros.expand("<user>" * 3)

    assert len(macros.expand("{{original}} Be {{char}}.", original="x" * 1_000_000)) == 1_000_009
    assert not macros.is_spent


CARD = {
    "name": "Loom",
    "description": "{{char}} weaves. {{random::grey::amber::green}} {{roll:1000}}",
    "personality": "{{setvar::mood::patient}}",
    "scenario": "Mood: {{getvar::mood}}.",
    "system_prompt": "{{original}} Be {{char}}.",
    "post_history_instructions": "{{original}} {{char}} answers {{user}}.",
    "depth_prompt": {"prompt": "[{{char}} is tired.]", "depth": 1, "role": "user"},
}


def test_a_card_is_followed_as_its_format_says_and_a_replay_has_the_same_prompt(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(
                kernel,
                "c",
                model="m",
                char=CARD,
                user="Ines",
                system="Be kind.",
                note={"prompt": "Rain.", "depth": 0},
            )
            await session.generate("one")
            result = await session.generate("two")
            request = requests_of(session)[-1]
            system = request.messages[0].text
            assert system.startswith("Be kind. Be Loom.")
            assert re.search(r"Loom weaves. (grey|amber|green) \d+", system)
            assert "Mood: patient." in system and "{{" not in system
            said = [(one.role, one.text) for one in request.messages[1:]]
            assert [text for _, text in said[:2]] == ["one", "re: one"]
            rest = "\n".join(text for _, text in said[2:])
            assert rest.index("[Loom is tired.]") < rest.index("two")
            assert rest.endswith("two\nRain. Loom answers Ines.") and rest.count("Rain.") == 1
            job = await recorded_job(session.desk, result.run_id)
            assert job is not None and job.card_rules == 4
            await kernel_of(session).replay(result.run_id, lambda run: replay_turn(run, job.settings()))

    play(run())


@pytest.mark.parametrize(
    "settings",
    [
        {"char": {"name": "Loom", "description": "{{date}} " * 10_000}},
        {"char": {"name": "Loom", "system_prompt": "{{date}} " * 10_000}},
        {"char": {"name": "Loom", "post_history_instructions": "{{date}} " * 10_000}},
        {"char": {"name": "Loom", "depth_prompt": {"prompt": "{{date}} " * 10_000}}},
        {"note": {"prompt": "{{date}} " * 10_000}},
    ],
)
def test_macros_of_long_texts_are_filled_in_beside_the_event_loop(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    expand = Macros.expand

    def watched(macros: Macros, text: str, **more: Any) -> str:
        threads.append(threading.get_ident())
        return expand(macros, text, **more)

    monkeypatch.setattr(Macros, "expand", watched)

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", **settings)
            result = await session.generate("one")

            assert result.status == "completed", result.failed
            shown = "\n".join(one.text for one in requests_of(session)[-1].messages)
            assert re.search(r"(\d{4}-\d\d-\d\d ?){10000}", shown)
            assert threads and threading.get_ident() not in threads

    play(run())


@pytest.mark.parametrize(
    ("after", "note"),
    [
        ("{{char}} answers.", {"prompt": "Rain.", "depth": 0}),
        ("{{original}} {{char}} answers.", {"prompt": "Rain.", "depth": 1}),
        ("{{original}} {{char}} answers.", {"prompt": "Rain.", "depth": 0, "role": "user"}),
    ],
)
def test_a_note_that_is_not_the_original_of_a_card_stands_by_itself(
    tmp_path: Path, after: str, note: dict[str, Any]
) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            char = {"name": "Loom", "post_history_instructions": after}
            session = await Session.open(kernel, "c", model="m", char=char, note=note)
            await session.generate("one")
            texts = [one.text for one in requests_of(session)[-1].messages]
            assert texts.count("Rain.") == 1 and "Loom answers." in "\n".join(texts[1:])

    play(run())


def test_the_chats_own_system_prompt_has_macros_and_a_replay_the_same(tmp_path: Path) -> None:
    """Prompts of presets are written with them."""

    async def run() -> None:
        with opened(tmp_path) as kernel:
            system = "{{// of a preset }}Be {{random::kind::calm}} to <USER>.{{trim}}"
            session = await Session.open(kernel, "c", model="m", char="Loom", user="Ines", system=system)
            result = await session.generate("one")
            said = requests_of(session)[-1].messages[0].text
            assert re.match(r"Be (kind|calm) to Ines\.", said) and "{{" not in said
            job = await recorded_job(session.desk, result.run_id)
            assert job is not None
            await kernel_of(session).replay(result.run_id, lambda run: replay_turn(run, job.settings()))

    play(run())


def test_without_a_system_prompt_of_its_own_a_card_leaves_that_of_the_chat(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            char = {"name": "Loom", "system_prompt": " "}
            session = await Session.open(kernel, "c", model="m", char=char, system="Be kind.")
            await session.generate("one")
            request = requests_of(session)[-1]
            assert request.messages[0].text.startswith("Be kind.")

    play(run())


@pytest.mark.parametrize(
    "note", [3, {"prompt": 1}, {"prompt": "a", "depth": -1}, {"prompt": "a", "role": "tool"}, {"text": "a"}]
)
def test_a_note_that_is_none_is_refused(tmp_path: Path, note: Any) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            with pytest.raises(InvalidRequest):
                await Session.open(kernel, "c", model="m", note=note)

    play(run())
