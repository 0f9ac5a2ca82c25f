"""`artelier chat`: a conversation by lines, by messages and at a terminal, with everything around it."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from artelier import Kernel, Policy, Session, tool
from artelier.chat import TurnResult
from artelier.operations import OperationProfile
from artelier.testing.faults import Fault, Slow
from tests.cli.conftest import Provider, Ran, Shell
from tests.cli.terminal import KILL, on_terminal
from tests.operations.writing.files import png, text_chunk
from tests.processes import run_warm

Say = Callable[..., Ran]

CARD: dict[str, Any] = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        "name": "Mira",
        "description": "{{char}} is a smith.",
        "personality": "",
        "scenario": "",
        "first_mes": "Hello {{user}}.",
        "mes_example": "",
        "alternate_greetings": ["Go away."],
        "character_book": {
            "entries": [
                {
                    "keys": ["anvil"],
                    "content": "It hums.",
                    "extensions": {},
                    "enabled": True,
                    "insertion_order": 1,
                }
            ]
        },
    },
}

SECRETS = {
    "profile_id": "secrets",
    "name": "Secrets",
    "operations": [
        {
            "operation_id": f"{usage}-op",
            "kind": "template",
            "order": number,
            "params": {
                "template": f"CANARY-{usage} {{{{ text }}}}",
                "effects": [{"type": "artifact.upsert", "tag": tag, "usage": usage, "write_mode": mode}],
            },
        }
        for number, (tag, usage, mode) in enumerate(
            [
                ("hidden", "internal", "replace"),
                ("whispered", "prompt_only", "append"),
                ("seen", "ui_only", "replace"),
            ]
        )
    ],
}


@pytest.fixture
def say(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Say:
    """`say("one", "/state", "--json")`: lines of a pipe, then options, in the chat `c`."""

    def run(*words: str, chat: str = "c") -> Ran:
        cut = next((n for n, word in enumerate(words) if word.startswith("--")), len(words))
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{one}\n" for one in words[:cut])))
        return shell("chat", chat, *words[cut:])

    return run


def objects(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


def test_lines_are_turns_and_under_each_stands_what_operations_did(say: Say) -> None:
    ran = say(
        "I attack the wolf with my sword",
        "",
        "/state",
        "/feed combat_log",
        "--profile",
        "rp-basic",
        "--char",
        "Mira",
        "--user",
        "Kim",
    )

    assert ran.code == 0
    assert "Mira" in ran.out.splitlines()[0]
    assert (
        "turn 1: ran combat_guard, dice, lore, augmentation_notes, world_state, combat_log;"
        " world_state v1, combat_log +1; 0.00 USD" in ran.err
    )
    assert "world_state v1  state" in ran.out
    assert "Turn 1: I attack the wolf with my sword" in ran.out
    calm = say("Good evening")
    assert "skipped dice, combat_log; world_state v2;" in calm.err


def test_json_has_an_object_for_each_turn_and_answer(say: Say, shell: Shell) -> None:
    ran = shell(
        "chat",
        "c",
        "--message",
        "one",
        "--message",
        "/branches",
        "--message",
        "//two",
        "--json",
        "--profile",
        "rp-basic",
    )

    first, branches, second = objects(ran)
    assert (first["turn"], first["status"], first["run_id"]) == (1, "completed", "c/r000001")
    assert first["operations"]["world_state"] == "done"
    assert first["changes"] == [{"tag": "world_state", "version": 1}]
    assert first["text"] and first["failed"] is None and first["cost_microusd"] == 0
    assert [one["name"] for one in branches["branches"]] == ["main"]
    assert "/two" in json.dumps(objects(say("/turns", "--json"))[0]["turns"][1]["user"])
    assert second["turn"] == 2


def test_a_chat_without_a_name_gets_one_that_is_said(shell: Shell) -> None:
    ran = shell("chat", "--message", "hello")

    name = ran.err.splitlines()[0].removeprefix("new chat ")
    assert ran.code == 0
    assert objects(shell("chat", name, "--message", "/turns", "--json"))[0]["turns"][0]["turn"] == 1


def test_variants_branches_and_sessions_move_the_state(say: Say) -> None:
    def turn() -> list[tuple[int, str, int]]:
        shown = objects(say("/turns", "/branches", "--json"))
        here = next(one["name"] for one in shown[1]["branches"] if one["is_current"])
        return [(one["turn"], here, one["selected"]) for one in shown[0]["turns"]][-1:]

    say("one", "/regenerate", "two", "--profile", "rp-basic")
    assert turn() == [(2, "main", 1)]
    moved = objects(say("/rewind 1", "/variants", "/select 1 1", "/variants 1", "--json"))
    assert moved[0] == {"branch": "main", "turn": 1}
    assert [one["selected"] for one in moved[1]["variants"]] == [False, True]
    assert [one["selected"] for one in moved[3]["variants"]] == [True, False]
    away = objects(say("/branch other 1", "three", "/state", "/switch main", "/state", "--json"))
    assert away[0] == {"branch": "other", "turn": 1}
    assert [away[n]["artifacts"]["world_state"]["version"] for n in (2, 4)] == [2, 1]
    begun = objects(say("/reset", "/state", "/sessions", "/reopen default", "/state", "--json"))
    assert begun[0] == {"session_id": "s2"} and begun[1]["artifacts"] == {}
    assert [one["session_id"] for one in begun[2]["sessions"]] == ["default", "s2"]
    assert begun[4]["artifacts"]["world_state"]["version"] == 1


def test_continue_goes_on_with_the_reply(say: Say, provider: Provider) -> None:
    provider.says("Once upon", "a time.")

    ran = say("Tell me", "/continue", "/turns", "--json")

    assert [one["text"] for one in objects(ran)[:2]] == ["Once upon", "Once upon a time."]
    assert len(objects(ran)[2]["turns"]) == 1


def test_what_is_not_for_people_is_nowhere_but_in_the_exact_prompt(
    say: Say, shell: Shell, provider: Provider
) -> None:
    provider.says("a", "b", "c")  # a model could repeat what only prompts show
    shell.write("secrets.json", json.dumps(SECRETS))
    assert shell("profile", "import", "secrets.json").code == 0

    looks = ("/state", "/turns", "/variants", "/explain", "/history seen", "/profile")
    plain = say("one", "two", *looks, "--profile", "secrets")
    wire = say("three", *looks, "--json")
    explained = objects(say("/explain", "--json"))[0]

    for ran in (plain, wire):
        assert ran.code == 0
        assert "CANARY-ui_only two" in ran.out
        # A profile is what its owner wrote; it is no value of an artifact.
        shown = "\n".join(line for line in ran.out.splitlines() if "profile_id" not in line)
        assert "CANARY-internal" not in shown and "CANARY-prompt_only" not in shown
        assert "whispered +1" not in ran.err and "hidden v" not in ran.err
    assert {one["tag"]: one["usage"] for one in explained["state"]} == {
        "hidden": "internal",
        "seen": "ui_only",
        "whispered": "prompt_only",
    }
    assert all(one["size_bytes"] > 0 for one in explained["state"])
    for tag in ("hidden", "whispered"):
        refused = say(f"/history {tag}", "--json")
        assert (refused.code, refused.error["code"]) == (6, "not_found")


def test_explain_and_prompt_say_why(say: Say) -> None:
    ran = say("I am calm", "/explain", "/prompt", "--profile", "rp-basic", "--char", "Mira")

    assert "dice" in ran.out and "guard_not_matched; combat_guard.combat is false" in ran.out
    assert "profile:rp-basic@1" in ran.out
    assert "left out: art.world_state (missing)" in ran.out
    assert "--- 1 system" in ran.out and "You are Mira" in ran.out
    request = objects(say("/prompt", "--json"))[0]
    assert request["messages"][-1]["content"] == "I am calm"


def test_cards_personas_and_lorebooks_make_the_prompt(say: Say, shell: Shell) -> None:
    (shell.folder / "mira.png").write_bytes(png(text_chunk("chara", CARD)))
    shell.write("kim.json", '{"name": "Kim", "description": "A guest of the forge."}')
    book = {"entries": {"0": {"uid": 0, "key": ["forge"], "content": "The forge is hot.", "position": 0}}}
    shell.write("town.json", json.dumps(book))

    options = ("--char", "mira.png", "--persona", "kim.json", "--lorebook", "town.json")
    ran = say("the anvil of the forge", "/turns", "/prompt", "/explain", *options)
    again = say("/turns", *options, "--json")

    assert "Hello Kim." in ran.out
    for text in ("Mira is a smith.", "It hums.", "A guest of the forge.", "The forge is hot."):
        assert text in ran.out
    assert "entry 0, key “forge”, before the character" in ran.out
    assert objects(again)[0]["turns"][0]["variants"] == 2
    listed = shell("artifacts", "list", "--as", "user:kim", "--json").json["items"]
    assert {(one["kind"], one["owner"], one["version"]) for one in listed} == {
        (kind, "user:kim", 1) for kind in ("character", "persona", "lorebook", "document")
    }
    assert objects(say("the forge", "/prompt", "--lorebook", "none", "--json"))[1]["messages"]
    assert "The forge is hot." not in say("/prompt").out


def test_turns_of_other_programs_come_and_go(say: Say, shell: Shell) -> None:
    lines: list[dict[str, Any]] = [
        {"user_name": "Kim", "character_name": "Mira", "chat_metadata": {}},
        {"name": "Mira", "is_user": False, "mes": "Hello."},
        {"name": "Kim", "is_user": True, "mes": "Who are you?"},
        {"name": "Mira", "is_user": False, "mes": "B", "swipes": ["A", "B"], "swipe_id": 1},
        {"name": "System", "is_user": False, "is_system": True, "mes": "hidden"},
    ]
    shell.write("old.jsonl", "".join(json.dumps(one) + "\n" for one in lines))

    ran = say(
        "/variants",
        "/export new.jsonl",
        "/branch b 0",
        "/import new.jsonl",
        "/turns",
        "--import",
        "old.jsonl",
    )

    assert ran.code == 0
    assert "old.jsonl: 3 turns of Kim and Mira" in ran.err
    assert "note: messages of the program stand as replies that no prompt shows" in ran.err
    written = (shell.folder / "new.jsonl").read_text().splitlines()
    assert [json.loads(one).get("mes") for one in written] == [None, "Hello.", "Who are you?", "B", "hidden"]
    assert json.loads(written[3])["swipes"] == ["A", "B"] and json.loads(written[4])["is_system"] is True
    assert ran.out.count("> Who are you?") == 1
    assert ran.out.count("Hello.") == 1, "the greeting that nobody has answered stays the only one"


def test_a_whole_chat_travels_to_another_database(say: Say, shell: Shell) -> None:
    out = say("one", "two", "/export c.artelier", "--profile", "rp-basic", "--json")
    there = shell("chat", "d", "--message", "/import c.artelier", "--db", "there.db", "--json")
    turns = shell("chat", "c", "--message", "/turns", "--message", "three", "--db", "there.db", "--json")

    assert objects(out)[2]["runs"] == 2
    assert objects(there) == [{"chat_id": "c", "runs": 2}]
    assert [one["user"] for one in objects(turns)[0]["turns"]] == ["one", "two"]
    assert objects(turns)[1]["turn"] == 3
    assert shell("verify", "--db", "there.db").code == 0


def test_list_has_the_chats_with_their_newest_turn(say: Say, shell: Shell) -> None:
    say("one", "two", "/branch other 1")
    say("hello", chat="d")

    items = shell("chat", "--list", "--json").json["items"]

    assert {(one["chat_id"], one["branches"], one["turn"]) for one in items} == {("c", 2, 2), ("d", 1, 1)}
    heads = ["chat", "title", "branches", "turn", "changed"]
    assert shell("chat", "--list").out.splitlines()[0].split() == heads


HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202eevil\r\x9b31m"


def test_a_reply_commands_no_terminal(say: Say, provider: Provider, shell: Shell) -> None:
    shell.write("secrets.json", json.dumps(SECRETS))
    shell("profile", "import", "secrets.json")
    provider.says(HOSTILE, HOSTILE)

    plain = say(
        HOSTILE,
        "/turns",
        "/state",
        "/variants",
        "/explain",
        "/prompt",
        "--profile",
        "secrets",
        "--system",
        HOSTILE,
    )
    wire = say(HOSTILE, "/state", "--json")

    for text in (plain.out, plain.err, wire.out, wire.err):
        assert not {"\x1b", "\x07", "\u202e", "\x9b", "\r"} & set(text)
    assert "\\x1b[2J" in plain.out
    assert objects(wire)[0]["text"] == HOSTILE


def test_a_script_stops_at_a_turn_that_failed(say: Say, provider: Provider) -> None:
    provider.says("fine", *[Fault.status(400, "no such thing")] * 3)

    ran = say("one", "two", "three", "--json")

    first, second = objects(ran)
    assert (ran.code, first["status"], second["status"]) == (1, "completed", "failed")
    assert second["failed"]["failed_type"] == "main_llm"
    told = say("two")
    assert told.code == 1 and "the turn failed (main_llm)" in told.err


def test_a_used_up_budget_waits_and_goes_on_when_it_is_raised(
    say: Say, provider: Provider, shell: Shell
) -> None:
    shell("tenants", "update", "--budget-usd", "0.000001")
    stopped = say("one", "two")
    waits = say("two", "--json")
    shell("tenants", "update", "--budget-usd", "5")
    provider.says("At last.")
    goes_on = say("/resume", "/turns", "--json")

    assert (stopped.code, waits.code, goes_on.code) == (4, 4, 0)
    assert "/resume" not in stopped.err  # nobody is asked here
    assert "c/r000001 is budget_exhausted" in stopped.err
    assert "artelier tenants update default --budget-usd" in stopped.err
    assert objects(waits)[0]["status"] == "budget_exhausted"
    assert [one.get("text") for one in objects(goes_on)] == ["", "At last.", None]
    assert [one["user"] for one in objects(goes_on)[2]["turns"]] == ["one"]


def test_cancel_ends_a_turn_that_waits(say: Say, shell: Shell, provider: Provider) -> None:
    shell("tenants", "update", "--budget-usd", "0.000001")
    say("one")
    looked = say("/turns", "--json")
    cancelled = say("/cancel", "--json")

    assert (looked.code, cancelled.code) == (4, 0)
    assert objects(looked)[0]["status"] == "budget_exhausted"
    assert objects(say("/turns", "--json"))[0]["turns"][0]["text"] == ""


DESK = {
    "profile_id": "desk",
    "name": "Desk",
    "operations": [
        {
            "operation_id": "note",
            "kind": "template",
            "order": 1,
            "params": {"template": "x", "effects": [{"type": "artifact.upsert", "tag": "note"}]},
        },
        {
            "operation_id": "pay",
            "kind": "tool",
            "order": 2,
            "required": True,
            "hooks": ["after_main_llm"],
            "params": {"name": "refund", "arguments": {"amount": "{{ text }}"}},
        },
    ],
}


@tool(side_effect=True, risk="high")
async def refund(amount: str) -> str:
    """Give money back."""
    return f"refunded {amount}"


async def _in_the_program(database: str, text: str = "") -> TurnResult:
    """The turn in the program that has the tool: begun, or gone on with."""
    with Kernel.open(database, tools=[refund], policy=Policy(approve_risk="high")) as kernel:
        if not text:
            return await (await Session.open(kernel, "w")).resume(on_wait="suspend")
        profile = OperationProfile.parse(DESK)
        session = await Session.open(kernel, "w", model="offline", profile=profile)
        *_, result = [item async for item in session.stream(text, on_wait="suspend")]
        assert isinstance(result, TurnResult)
        return result


def test_a_run_that_waits_for_an_approval_is_left_waiting(shell: Shell) -> None:
    database = str(shell.folder / "v.db")
    here = ("--db", database)
    waits = asyncio.run(_in_the_program(database, "12 USD"))

    told = shell("chat", "w", "--message", "hello", *here)
    wire = shell("chat", "w", "--message", "hello", "--json", *here).json
    refused = shell("chat", "w", "--message", "/resume", *here)
    elsewhere = shell("resume", "w/r000001", *here)
    approved = shell("approve", "w/r000001", wire["approvals"][0]["step"], *here)
    still = shell("chat", "w", "--message", "hello", *here)
    seen = shell("chat", "w", "--message", "/turns", *here)
    done = asyncio.run(_in_the_program(database))

    assert waits.text in seen.out
    assert done.text == waits.text
    assert (waits.status, waits.finish_reason) == ("waiting_approval", "completed")
    assert "12 USD" in waits.text  # it is recorded, though the turn has not ended
    assert waits.operations == {"note": "done", "pay": "running"}
    assert (wire["text"], wire["operations"]) == (waits.text, dict(waits.operations))
    assert (told.code, refused.code, elsewhere.code, approved.code, still.code) == (3, 2, 2, 0, 3)
    for words in ("call refund", 'amount="12 USD"', "artelier approve w/r000001", "not here (refund)"):
        assert words in told.err
    assert (wire["status"], wire["tools_missing"]) == ("waiting_approval", ["refund"])
    assert (done.status, done.operations["pay"]) == ("completed", "done")
    turns = shell("chat", "w", "--message", "/turns", "--json", *here)
    assert (turns.code, [one["user"] for one in turns.json["turns"]]) == (0, ["12 USD"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("/nope",), 2, "there is no command /nope"),
        (("/",), 2, "this is no command"),
        (("/select 1",), 2, "/select TURN VARIANT"),
        (("/select one 1",), 2, "a turn is a number"),
        (("/rewind 9",), 6, "no turn 9"),
        (("/switch nowhere",), 6, "no branch"),
        (("/reset",), 1, "no profile"),
        (("/explain",), 6, "no turn"),
        (("/import gone.jsonl",), 6, "no such file"),
        (("/import gone.artelier",), 6, "gone.artelier"),
        (("/regenerate",), 1, "nothing to reply to"),
        (("/continue",), 1, "ends with no reply"),
        (("x", "--branch", "b"), 6, "no branch"),
        (("x", "--profile", "gone"), 6, "gone"),
        (("x", "--session", "s2"), 1, "no profile"),
        (("x", "--model", "nobody:none"), 2, "nobody"),
        (("x", "--char", "gone.png"), 6, "no such file"),
        (("x", "--char", "mira.jsn"), 6, "no such file"),
        (("x", "--char", "cards/mira"), 6, "no such file"),
        (("x", "--profile", "bad.json"), 6, "artelier profile import bad.json"),
        (("/profile nope",), 6, "Shipped are rp-basic"),
        (("/branch 7",), 6, "no turn 7"),
        (("x", "--char", "bad.json"), 2, "no character card"),
        (("x", "--persona", "bad.json"), 2, "no persona"),
        (("x", "--lorebook", "bad.json"), 2, "no lorebook"),
        (("x", "--lorebook", "gone"), 6, "gone"),
        (("x", "--import", "bad.json"), 2, "expected a message"),
    ],
)
def test_mistakes_say_what_was_expected(
    say: Say, shell: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    shell.write("bad.json", '{"a": 1}')
    shell("chat", "c", "--message", "/turns")

    ran = say(*words)

    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert "Traceback" not in ran.err


# Real processes

ARTELIER = [sys.executable, "-m", "artelier"]


@pytest.mark.slow
def test_a_pipe_and_a_file_are_read_line_by_line(shell: Shell) -> None:
    shell.write("said.txt", "Good evening\r\n\n/turns\nwithout an end")
    with (shell.folder / "said.txt").open() as file:
        from_file = run_warm(
            [*ARTELIER, "chat", "f", "--json", "--profile", "rp-basic"],
            stdin=file,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    from_pipe = run_warm(
        [*ARTELIER, "chat", "f", "--json"],
        input="/turns\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    endless = run_warm(
        [*ARTELIER, "chat", "f"],
        input="x" * 5_000_000,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (endless.returncode, endless.stdout) == (2, "")
    assert [json.loads(one).get("turn") for one in from_file.stdout.splitlines()] == [1, None, 2]
    turns = json.loads(from_pipe.stdout)["turns"]
    assert [one["user"] for one in turns] == ["Good evening", "without an end"]


@pytest.mark.slow
def test_at_a_terminal_mistakes_are_told_and_the_talk_goes_on(shell: Shell) -> None:
    seen = on_terminal(
        ["chat", "t", "--profile", "rp-basic", "--char", "Mira"],
        folder=shell.folder,
        typed=(("> ", "/nope\n"), ("// begins", "Good evening\n"), ("USD", "\x04")),
    )

    assert seen.code == 0
    assert "new chat t: offline, profile rp-basic; /help helps" in seen.text
    assert "there is no command /nope" in seen.text
    assert "turn 1: ran" in seen.text


STORY = "It was a dark night. " * 40


@pytest.mark.slow
def test_ctrl_c_ends_the_reply_and_then_the_talk(shell: Shell, provider: Provider) -> None:
    provider.says(Slow(step=STORY, between_s=1.0), "Shorter.")

    seen = on_terminal(
        ["chat", "t"],
        folder=shell.folder,
        typed=(
            ("> ", "A story\n"),
            ("It was", "\x03"),
            ("USD", "/variants\n"),
            ("aborted", "/regenerate\n"),
            ("variant 2:", "\x03"),
        ),
    )

    assert seen.code == 130
    assert "cancelling the reply" in seen.text and "cancelled" in seen.text
    assert "go on with: artelier chat t" in seen.text
    assert "Traceback" not in seen.text
    turns = objects(shell("chat", "t", "--message", "/variants", "--json"))[0]
    assert [one["status"] for one in turns["variants"]] == ["aborted", "done"]
    assert turns["variants"][0]["text"].startswith("It was")


@pytest.mark.slow
def test_two_ctrl_c_leave_wherever_they_come(shell: Shell, provider: Provider) -> None:
    provider.says(Slow(step=STORY, between_s=1.0))

    seen = on_terminal(
        ["chat", "t"],
        folder=shell.folder,
        typed=(("> ", "A story\n"), ("It was", "\x03"), ("once more leaves", "\x03")),
    )

    assert seen.code == 130
    assert "Traceback" not in seen.text


@pytest.mark.slow
def test_killed_in_the_middle_of_a_reply_the_next_one_goes_on(shell: Shell, provider: Provider) -> None:
    shell("chat", "t", "--message", "/turns", "--profile", "rp-basic")
    provider.says(Slow(step=STORY, between_s=1.0))
    killed = on_terminal(
        ["chat", "t", "--char", "Mira"], folder=shell.folder, typed=(("> ", "A story\n"), ("It was", KILL))
    )
    state = (
        '{"turn": 1, "location": "", "time": "", "mood": "", "characters": [],'
        ' "inventory": [], "last_event": ""}'
    )
    provider.says(STORY, state, "And so on.", state)

    ran = shell("chat", "t", "--message", "More", "--message", "/turns", "--json")

    assert killed.code == -9
    assert "run t/r000001 was not finished; it goes on" in ran.err
    first, second, turns = objects(ran)
    assert (first["run_id"], first["text"], first["status"]) == ("t/r000001", STORY, "completed")
    assert (second["run_id"], second["turn"]) == ("t/r000002", 2)
    assert [one["variants"] for one in turns["turns"]] == [1, 1]
    assert shell("verify").code == 0
