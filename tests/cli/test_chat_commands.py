"""Slash commands of `artelier chat` that change what was said, who speaks and how a chat is set."""

from __future__ import annotations

import json

from tests.cli.conftest import Provider, Shell
from tests.cli.test_chat import Say, objects, say

__all__ = ["say"]


def test_an_author_edits_what_was_said_without_touching_a_file(say: Say, provider: Provider) -> None:
    provider.says("one", "two", "three", "four", "five")

    say("a", "b", "c", "--json")
    ran = say(
        "/edit 1 other words",
        "/reword 1",
        "don't ask",
        "/hide 2 user",
        "/delete 3",
        "/title The long evening",
        "/search WORDS",
        "/turns",
        "--json",
    )
    told = objects(ran)
    assert told[3] == {
        "turns": 2,
        "derived_runs": ["c/r000003"],
        "erased_runs": ["c/r000003"],
        "unshown_runs": [],
        "derived_artifacts": [],
        "is_erased": True,
        "is_cleaned": True,
    }
    assert told[4] == {"title": "The long evening"}
    assert [(one["turn"], one["variant"]) for one in told[5]["items"]] == [(1, 1)]
    assert [(one["turn"], one["user"], one["text"]) for one in told[6]["turns"]] == [
        (1, "don't ask", "other words"),
        (2, "b", "two"),
    ]
    assert "The long evening" in say("--list").out
    assert [one["text"] for one in objects(say("/rerun 1", "/turns", "--json"))[1]["turns"]] == ["four"]
    assert say("/delete-chat other", "--json").code == 2
    assert say("/delete-chat c").code == 0
    assert "no chats" in say("--list").err


def test_a_deletion_says_what_it_keeps_on_no_branch_and_how_to_open_it(say: Say, provider: Provider) -> None:
    provider.says("one", "two", "three", "four")
    say("a", "b", "c", "--json")

    ran = say("/rewind 2", "/regenerate", "/delete 2")

    assert "kept, but on no branch: c/r000003" in ran.err
    assert "/branch NAME c/r000003 opens what was said there" in ran.err
    shown = objects(say("/branch back c/r000003", "/turns", "--json"))[-1]["turns"]
    assert [one["user"] for one in shown] == ["a", "c"]


def test_several_characters_and_files_of_other_programs(say: Say, provider: Provider, shell: Shell) -> None:
    provider.says("one", "two", "three")
    card = {"spec": "chara_card_v2", "data": {"name": "Cy", "first_mes": "Hm.", "description": "A cook."}}
    (shell.folder / "cy.json").write_text(json.dumps(card))

    said = ("Hello, Bob", "/speak mira")
    say(*said, "--char", "Mira", "--char", "Bob", "--speaks", "mention", "--user", "Ann")
    ran = say("/group", "/import cy.json", "/group list", "/speak", "/turns", "--json")
    told = objects(ran)
    assert told[0] == {"group": ["Mira", "Bob"], "speaks": "mention"}
    assert told[1] == {"kind": "character", "name": "Cy", "warnings": []}
    assert told[2] == {"group": ["Mira", "Bob", "Cy"], "speaks": "list"}
    assert (told[3]["speaker"], told[3]["turn"]) == ("Bob", 3)
    shown = [(one["persona"], one["user"], one["speaker"], one["text"]) for one in told[4]["turns"]]
    assert shown == [("Ann", "Hello, Bob", "Bob", "one"), ("", "", "Mira", "two"), ("", "", "Bob", "three")]
    assert say("/speak Dora").code == 6
    assert say("/group loudest").code == 2


def test_an_operation_is_run_again_over_what_it_saw(say: Say, provider: Provider) -> None:
    provider.says("one")
    say("I am calm", "--profile", "rp-basic", "--char", "Mira")
    seen, again, current = objects(say("/debug 1 dice", "/again dice", "/again 1 dice current", "--json"))
    assert seen["operations"][0]["scope"]["text"] == "I am calm"
    assert (again["status"], again["operation_id"], again["is_current"]) == ("done", "dice", False)
    assert again["value"] == current["value"], "the same draws of chance"
    assert current["run_id"].endswith("/again-0002") and current["is_current"]
    wrong = say("/again")
    assert wrong.code == 2 and "[TURN] OPERATION [current]" in wrong.err
    shown = say("/again dice").out
    assert "dice at before_main_llm, again: done" in shown and "would change" in shown


def test_the_model_drafts_words_and_quick_replies_are_said(say: Say, provider: Provider) -> None:
    provider.says("one", "I open the door.", "two", "I wait.", "three")
    say("hello", "--char", "Mira")
    kept, drafted, listed = objects(say("/quick Onward Let us go on.", "/impersonate", "/quick", "--json"))
    assert kept == listed == {"quick_replies": [{"label": "Onward", "text": "Let us go on."}]}
    assert (drafted["text"], drafted["run_id"]) == ("I open the door.", "c/draft-000001")
    said, again, turns = objects(say("/quick Onward", "/impersonate say", "/turns", "--json"))
    assert (said["text"], again["text"]) == ("two", "three")
    assert [one["user"] for one in turns["turns"]] == ["hello", "Let us go on.", "I wait."]
    assert all(one["user_tokens"] > 0 for one in turns["turns"])
    assert say("/quick Nothing").code != 0
    assert say("/quick-remove Onward", "/quick", "--json").code == 0


def test_text_at_the_end_of_a_command_stands_as_it_was_typed(say: Say) -> None:
    said = say(
        "one",
        """/edit 1 "It's late," she says.  'Go.'""",
        '/quick "Go on" Let\'s go  on.',
        "/turns",
        "--json",
    )

    kept, turns = objects(said)[-2:]
    assert kept["quick_replies"] == [{"label": "Go on", "text": "Let's go  on."}]
    assert turns["turns"][-1]["text"] == """"It's late," she says.  'Go.'"""
    refused = say('/quick "Go on Let it.', "--json")
    assert refused.code != 0 and "matching quotes" in refused.error["expected"]


def test_settings_are_changed_in_the_chat(say: Say) -> None:
    lines = (
        "/set user Ann",
        "/set temperature 0.5",
        "/set history_max 4",
        "/set char Mira",
        "/set description A smith.",
    )
    shown = objects(say(*lines, "/set temperature none", "/set", "/set top_p", "--json"))

    assert shown[0] == {"settings": {"user": "Ann"}} and shown[1] == {"settings": {"temperature": 0.5}}
    assert shown[-2]["settings"] | {"user": "Ann", "char": "Mira", "history_max": 4} == shown[-2]["settings"]
    assert shown[-2]["settings"]["description"] == "A smith." and "temperature" not in shown[-2]["settings"]
    assert shown[-1] == {"settings": {"top_p": None}}
    for wrong in ("/set profile x", "/set history_max many", "/set nonsense 1", "/set model none"):
        assert say(wrong, "--json").code == 2, wrong


def test_files_leave_as_they_came_and_thoughts_are_shown(say: Say, shell: Shell) -> None:
    card = b'{"spec": "chara_card_v2",\r\n "data": {"name": "Mira", "first_mes": "Hi."}}'
    (shell.folder / "mira.json").write_bytes(card)
    said = {"name": "Mira", "is_user": False, "mes": "Sit.", "extra": {"reasoning": "A guest."}}
    shell.write("old.jsonl", f'{{"user_name": "Ann", "character_name": "Mira"}}\n{json.dumps(said)}\n')

    ran = say(
        "/import mira.json", "/import old.jsonl", "/export out.json character Mira", "/reasoning", "--json"
    )

    assert objects(ran)[-2] == {
        "file": "out.json",
        "kind": "character",
        "bytes": len(card),
        "is_original": True,
    }
    assert (shell.folder / "out.json").read_bytes() == card
    assert objects(ran)[-1]["reasoning"] == "A guest."
    assert "thought: 2 words; /reasoning 0 shows them" in say("/turns").err
    assert say("/export x.json lorebook", "--json").code != 0
    assert "a .json file" in say("/export mira.png character Mira").err


def test_the_order_of_a_prompt_scenario_and_variables_are_set_and_taken_back(say: Say) -> None:
    order = '[{"place": "history"}, {"place": "main"}, {"place": "text", "text": "Be brief."}]'
    said = say(
        f"/set prompts {order}",
        "/set scenario A ferry at night.",
        '/set variables {"coins": "3"}',
        "/set prompts none",
        "/set scenario none",
        "--json",
    )

    shown = [one["settings"] for one in objects(said)]
    assert shown[0] == {"prompts": ["history", "main", "Be brief."]}
    assert shown[1:3] == [{"scenario": "A ferry at night."}, {"variables": {"coins": "3"}}]
    assert shown[3:] == [{"prompts": []}, {"scenario": None}]
    assert say('/set prompts [{"place": "main"}]').code != 0
