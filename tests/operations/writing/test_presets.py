"""Presets: parameters and prompts of other programs, what is out of range, and secrets that stay out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from artelier.errors import InvalidImport
from artelier.operations.lore.presets import Preset, read_preset, write_preset
from artelier.operations.lore.prompt_places import PlacedPrompt
from tests.operations.writing.files import encoded


def preset(**fields: Any) -> Preset:
    return read_preset(encoded(fields))


def prompt(id_: str, text: str, **more: Any) -> dict[str, Any]:
    return {"identifier": id_, "name": id_, "role": "system", "content": text, **more}


def order(*ids: str, off: tuple[str, ...] = (), character: int = 100001) -> dict[str, Any]:
    return {
        "character_id": character,
        "order": [{"identifier": id_, "enabled": id_ not in off} for id_ in ids],
    }


HISTORY = {"identifier": "chatHistory", "marker": True}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temperature": 0.85, "openai_max_tokens": 450}, {"temperature": 0.85, "max_output_tokens": 450}),
        (
            {"temp": 1.15, "genamt": 400, "max_length": 12_288},
            {"temperature": 1.15, "max_output_tokens": 400},
        ),
        ({"temperature": 1.35, "max_length": 160}, {"temperature": 1.35, "max_output_tokens": 160}),
        ({"temp": 1, "top_k": 0, "top_p": 1, "seed": -1}, {"temperature": 1}),
        ({"temp": 1, "rep_pen": 1.05}, {"temperature": 1, "extra": {"repetition_penalty": 1.05}}),
        ({"temp": 1, "repetition_penalty": 1}, {"temperature": 1}),
        ({"temp": 1, "reasoning_effort": "medium"}, {"temperature": 1, "thinking": "medium"}),
        ({"temp": 1, "frequency_penalty": "0.4"}, {"temperature": 1, "frequency_penalty": 0.4}),
        ({"temp": 1, "presence_penalty": None}, {"temperature": 1}),
    ],
)
def test_samplers_are_parameters_and_what_is_off_is_none(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert preset(**fields).params == expected


def test_what_is_out_of_range_or_unknown_is_left_out_and_named() -> None:
    found = preset(temperature=7.5, top_p=1.7, top_k=-3, openai_max_tokens=0, min_p=0.1, xtc_threshold=0.2)

    assert found.params == {"min_p": 0.1}
    said = [note.partition(":")[0] for note in found.warnings]
    assert said == ["temperature", "top_p", "top_k", "openai_max_tokens", "kept, but not followed"]
    assert "xtc_threshold" in found.warnings[-1]


def test_prompts_stand_in_their_order_around_the_conversation() -> None:
    found = preset(
        prompts=[
            prompt("main", "Main."),
            prompt("off", "Off."),
            prompt("rules", "Rules."),
            HISTORY,
            prompt("after", "After."),
            prompt("nowhere", "Nowhere."),
        ],
        prompt_order=[
            order("main", character=100000),
            order("main", "rules", "off", "chatHistory", "after", "ghost", "main", off=("off",)),
        ],
    )

    assert found.system == "Main."
    assert [one.text or one.place for one in found.prompts] == [
        "main",
        "Rules.",
        "lore_before",
        "description",
        "personality",
        "scenario",
        "example_dialogue",
        "lore_after",
        "persona",
        "history",
        "After.",
        "after",
    ]
    said = " ".join(found.warnings)
    for words in (
        "that of 100001 is used",
        "'ghost', which is not there",
        "'main' twice",
        "stand in no prompt: nowhere",
    ):
        assert words in said


def test_prompts_at_a_depth_keep_it_and_what_is_written_is_read_as_it_was() -> None:
    deep = prompt("deep", "Deep.", injection_position=1, injection_depth=3, role="user")
    other = prompt("other", "Else.", injection_position=1, injection_depth=3, injection_trigger=["swipe"])
    own = prompt("main", "First.", role="user", forbid_overrides=True)
    found = preset(temperature=0.5, top_k=40, openai_max_tokens=300, prompts=[own, other, deep])

    inside = [one for one in found.prompts if one.depth is not None]
    assert [(one.id, one.role, one.depth) for one in inside] == [("deep", "user", 3), ("other", "system", 3)]
    assert inside[1].triggers == ("swipe",)
    assert (found.prompts[0].place, found.prompts[0].role, found.prompts[0].is_fixed) == (
        "main",
        "user",
        True,
    )
    assert found.warnings == ()
    again = read_preset(write_preset("p", params=found.params, system=found.system, prompts=found.prompts))
    assert (again.params, again.system, again.prompts) == (found.params, found.system, found.prompts)
    assert (again.name, again.warnings) == ("p", ())


def test_places_are_off_and_in_the_order_of_the_preset() -> None:
    ids = ("personaDescription", "main", "charPersonality", "scenario", "chatHistory", "jailbreak")
    found = preset(
        prompts=[prompt("main", ""), HISTORY, prompt("jailbreak", "Last.")],
        prompt_order=[order(*ids, off=("charPersonality", "jailbreak", "main"))],
    )

    places = [
        "persona",
        "scenario",
        "lore_before",
        "description",
        "example_dialogue",
        "lore_after",
        "history",
    ]
    assert [one.place for one in found.prompts] == places
    usual = preset(prompts=[prompt("main", "Be kind."), HISTORY], prompt_order=[order("main", "chatHistory")])
    assert (usual.system, usual.prompts) == ("Be kind.", ())


def test_what_a_chat_says_otherwise_stands_in_the_preset_that_it_took_in() -> None:
    off, main = prompt("off", "Off."), prompt("main", "Old.", name="Main Prompt")
    orders = [order("main", character=100000), order("main", "off", "chatHistory", off=("off",))]
    given = {"temperature": 1, "prompts": [off, main, HISTORY], "prompt_order": orders}
    base, params = encoded(given), {"temperature": 1}

    now = json.loads(write_preset("p", params=params, system="New.", base=base))
    assert now == {**given, "prompts": [off, {**main, "content": "New."}, HISTORY]}
    other = (PlacedPrompt(place="history"), PlacedPrompt(place="main"))
    changed = write_preset("p", params=params, system="New.", prompts=other, base=base)
    assert off in json.loads(changed)["prompts"]
    again = read_preset(changed)
    assert (again.system, again.prompts, again.params) == ("New.", other, params)


def test_two_of_one_name_are_told_apart_and_a_depth_that_is_none_is_named() -> None:
    found = preset(
        prompts=[
            prompt("main", "First."),
            prompt("main", "Second."),
            prompt("deep", "Deep.", injection_position=1, injection_depth=-3),
        ]
    )

    assert (found.system, found.prompts[-1].depth) == ("First.", 4)
    assert [note for note in found.warnings if "two are called 'main'" in note]
    assert [note for note in found.warnings if "injection_depth: -3 is none" in note]


def test_secrets_and_addresses_are_not_taken_over() -> None:
    found = preset(
        temperature=1,
        reverse_proxy="https://proxy.example.org/v1",
        proxy_password="SECRET-1",
        custom_include_headers="Authorization: SECRET-2",
        custom_url="http://192.0.2.7",
    )

    assert "SECRET" not in repr(found) and "example" not in repr(found) and "192.0.2.7" not in repr(found)
    assert found.warnings == ("addresses, headers and passwords of other servers are not taken over",)


def test_an_export_of_formatting_gives_its_system_prompt_and_its_stop() -> None:
    found = preset(
        instruct={"name": "Plain", "stop_sequence": "<<END>>", "input_sequence": "<<USER>>"},
        sysprompt={"name": "Plain", "content": "Answer as {{char}}.", "post_history": "Keep it short."},
    )

    assert (found.name, found.system, found.params) == ("Plain", "Answer as {{char}}.", {"stop": ["<<END>>"]})
    assert (found.prompts[-1].place, found.prompts[-1].text) == ("after", "Keep it short.")
    assert "not followed: instruct" in found.warnings[0]


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'"x"', b"{}", encoded({"entries": {}}), encoded({"prompts": "x"}), b"{" * 2_000]
)
def test_what_is_no_preset_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidImport):
        read_preset(data)


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1, "prompts": [3, {"content": 4}, prompt("a", "A.")], "prompt_order": [4]},
        {"temperature": 1, "prompts": [prompt("a", "A.")], "prompt_order": [{"order": [5, {}]}]},
        {"temperature": {}, "top_p": [], "min_p": 0.1, "prompts": [prompt("a", "A.")]},
        {"temperature": "hot", "min_p": 0.1, "prompts": [prompt("a", "A.")], "prompt_order": []},
    ],
)
def test_odd_values_stop_nothing(fields: dict[str, Any]) -> None:
    found = preset(**fields)

    assert found.params or found.prompts
