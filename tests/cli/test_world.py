"""`world`: societies made, passed and looked at from the command line."""

from __future__ import annotations

import pytest

from artelier.cli import exit_codes
from artelier.cli.world import transfer
from tests.cli.conftest import Shell

RULES = """
def give(facts):
    if facts["agent_id"] == "ana":
        return {"action": "transfer", "to": "bob", "amount": 3, "reasoning": "\\x1b[2Jrent"}
    return {"action": "message", "to": "ana", "text": "thanks"}

POLICIES = {"give": give}
"""

WORLD = """
[world]
seed = 5

[[agents]]
id = "ana"
policy = "give"

[[agents]]
id = "bob"
policy = "give"
"""


@pytest.fixture
def village(shell: Shell) -> Shell:
    shell.write("rules.py", RULES)
    file = shell.write("village.toml", WORLD)
    made = shell("world", "new", "village", "--file", str(file), "--json")
    assert made.json == {"world": "village", "seed": 5, "agents": 2}
    return shell


def test_a_world_is_made_passed_and_seen(village: Shell) -> None:
    ran = village("world", "run", "village", "--ticks", "3", "--policies", "rules.py", "--json")
    listed = village("world", "list", "--json").json["items"]
    shown = village("world", "show", "village", "--json").json
    agents = village("world", "agents", "village", "--json").json["items"]

    assert ran.json == {"world": "village", "tick": 3, "passed": 3, "actions": 6, "rejected": 0}
    assert [(one["id"], one["tick"], one["agents"]) for one in listed] == [("village", 3, 2)]
    assert shown["tick"] == 3 and shown["scrip"] == 200 and shown["settings"]["seed"] == 5
    assert [(one["id"], one["balance"]) for one in agents] == [("bob", 109), ("ana", 91)]
    assert "bob 109, ana 91" in village("world", "show", "village").out
    assert village("verify").code == exit_codes.COMPLETED


def test_a_step_tells_what_happened_and_obeys_no_escape_sequence(village: Shell) -> None:
    ran = village("world", "step", "village", "--policies", "rules.py")

    assert ran.code == exit_codes.COMPLETED
    assert "transfer bob" in ran.out and "3 scrip moved" in ran.out and "thanks" in ran.out
    assert "\x1b" not in ran.out and "x1b[2Jrent" in ran.out


def test_the_log_is_filtered_and_paged(village: Shell) -> None:
    village("world", "run", "village", "--ticks", "2", "--policies", "rules.py")

    found = village("world", "log", "village", "--agent", "bob", "--tick", "2", "--json").json
    first = village("world", "log", "village", "--limit", "1", "--json").json
    rest = village("world", "log", "village", "--after", str(first["next"]), "--json").json
    sent = village("world", "log", "village", "--kind", "message.sent", "--json").json["items"]

    assert [one["kind"] for one in found["items"]] == ["message.sent"]
    assert found["items"][0]["data"]["text"] == "thanks"
    assert first["items"][0]["seq"] == 1 and rest["items"][0]["seq"] == 2
    assert [one["tick"] for one in sent] == [1, 2]


def test_the_newest_events_are_reached_and_what_never_was_is_an_error(village: Shell) -> None:
    village("world", "run", "village", "--ticks", "2", "--policies", "rules.py")

    newest = village("world", "log", "village", "--last", "2", "--json").json
    anas = village("world", "log", "village", "--last", "1", "--agent", "ana", "--json").json
    stranger = village("world", "log", "village", "--agent", "eve", "--json")
    mistyped = village("world", "log", "village", "--kind", "mesage.sent", "--json")
    both = village("world", "log", "village", "--last", "2", "--after", "3", "--json")
    all_events = village("world", "log", "village", "--json").json

    assert newest["items"] == all_events["items"][-2:] and newest["next"] is None
    assert newest["items"][-1]["kind"] == "tick.passed"
    assert [(one["tick"], one["actor"]) for one in anas["items"]] == [(2, "ana")]
    assert stranger.code == exit_codes.NOT_FOUND and "eve" in stranger.error["message"]
    assert mistyped.code == exit_codes.USAGE and "message.sent" in mistyped.error["expected"]
    assert both.code == exit_codes.USAGE


TRADE = """
def trade(facts):
    if facts["agent_id"] == "ana" and facts["tick"] == 1:
        return {"action": "offer", "artifact_id": "map", "price": 1500, "sells": "licence", "uses": 3}
    if facts["agent_id"] == "bob" and facts["tick"] == 2:
        return {"action": "configure", "personality_prompt_artifact_id": "map"}
    return {"action": "noop"}

POLICIES = {"give": trade}
"""

MAP = """
[[artifacts]]
id = "map"
kind = "document"
owner = "ana"
content = "north"
"""


def test_offers_and_settings_of_minds_are_told_whole(village: Shell) -> None:
    village.write("trade.py", TRADE)
    village("world", "new", "fair", "--file", str(village.write("fair.toml", WORLD + MAP)))
    village("world", "run", "fair", "--ticks", "2", "--policies", "trade.py")

    logged = village("world", "log", "fair", "--last", "10").out
    offers = village("market", "list", "fair").out
    shown = village("market", "show", "fair").out
    told = village("market", "show", "fair", "--json").json

    assert "price 1,500, sells licence, 3 uses" in logged
    assert "personality_prompt_artifact_id = map" in logged
    assert "3 uses" in offers and "1,500" in offers
    assert "prices since" in shown and "1,500" in shown
    assert [one["artifact"] for one in told["open"]] == ["map"] and not told["prices"]
    assert "1 to 10,000" in village("market", "list", "fair", "--limit", "0").err


COPIES = """\
def trade(facts):
    if facts["agent_id"] == "ana" and facts["tick"] == 1:
        return {"action": "offer", "artifact_id": "map", "price": 5, "sells": "copy"}
    if facts["agent_id"] == "bob" and facts["tick"] == 2:
        return {"action": "accept", "offer_id": "offer-1-1"}
    return {"action": "noop"}

POLICIES = {"give": trade}
"""


def test_an_offer_that_sold_copies_and_is_for_sale_still_is_shown_once(village: Shell) -> None:
    village.write("trade.py", COPIES)
    village("world", "new", "fair", "--file", str(village.write("fair.toml", WORLD + MAP)))
    village("world", "run", "fair", "--ticks", "2", "--policies", "trade.py")

    told = village("market", "show", "fair", "--json").json
    shown = village("market", "show", "fair").out

    assert [(one["offer"], one["sold"]) for one in told["open"]] == [("offer-1-1", 1)]
    assert told["closed"] == []
    assert shown.count("offer-1-1") == 1


def test_pause_resume_and_inject(village: Shell) -> None:
    assert village("world", "pause", "village").code == exit_codes.COMPLETED
    refused = village("world", "run", "village", "--policies", "rules.py", "--json")
    told = village("world", "inject", "village", "a storm", "--to", "ana")
    unknown = village("world", "inject", "village", "a storm", "--to", "eve", "--json")
    village("world", "resume", "village")
    ran = village("world", "run", "village", "--policies", "rules.py", "--json")

    assert refused.code == exit_codes.FAILED and "paused" in refused.error["message"]
    assert told.code == exit_codes.COMPLETED
    assert unknown.code == exit_codes.NOT_FOUND and "eve" in unknown.error["message"]
    assert ran.json["tick"] == 1


def test_what_cannot_be_is_said(village: Shell) -> None:
    again = village("world", "new", "village", "--empty", "--json")
    nothing = village("world", "show", "nowhere", "--json")
    unknown = village("world", "new", "atlantis", "--json")
    both = village("world", "new", "x", "--empty", "--example", "market", "--json")
    ghost = village("world", "join", "village", "ghost", "--json")
    no_file = village("world", "run", "village", "--policies", "none.py", "--json")

    assert (again.code, again.error["code"]) == (exit_codes.FAILED, "conflict")
    assert nothing.code == exit_codes.NOT_FOUND and "world new" in nothing.error["hint"]
    assert unknown.code == exit_codes.USAGE and "market" in unknown.error["expected"]
    assert both.code == exit_codes.USAGE
    assert ghost.code == exit_codes.NOT_FOUND
    assert no_file.code == exit_codes.USAGE


def test_artifacts_of_a_world_are_listed_by_tick(village: Shell) -> None:
    found = village("artifacts", "list", "--world", "village", "--as", "ana")
    shown = village("artifacts", "show", "ana", "--world", "village", "--as", "ana")
    nowhere = village("artifacts", "list", "--world", "nowhere", "--json")

    assert "tick 0" in found.out and "handbook" in found.out
    assert '"policy": "give"' in shown.out
    assert nowhere.code == exit_codes.NOT_FOUND


def test_a_diff_of_different_ticks_says_so(village: Shell) -> None:
    village("world", "run", "village", "--ticks", "2", "--policies", "rules.py")
    village("world", "fork", "village", "--at", "1", "--id", "hamlet")

    uneven = village("world", "diff", "village", "hamlet").out
    village("world", "run", "hamlet", "--policies", "rules.py")
    even = village("world", "diff", "village", "hamlet").out

    assert "at different ticks: village at 2, hamlet at 1" in uneven and "103" in uneven
    assert "no difference: village and hamlet are both at tick 2" in even


def test_long_lists_of_a_diff_are_cut() -> None:
    ids = [f"poem_{n}" for n in range(12)]
    cell = transfer._rest({"owned": {"a": ids, "b": ["hat"]}, "actions": {"write": {"a": 1, "b": 0}}})

    assert cell == ("write 1/0, lost 12: poem_0, poem_1, poem_2, poem_3, poem_4, poem_5, ..., got hat")


MEMORY = """
[[artifacts]]
id = "diary"
kind = "memory_store"
owner = "ana"
content = { config = {} }
"""

ADDING = """
def add(facts):
    if facts["agent_id"] == "bob":
        return {"action": "write", "artifact_id": "note", "content": "x"}
    return {"action": "invoke", "artifact_id": "genesis_memory_add", "args": {"memory_artifact_id": "diary",
            "text": "flour is dear"}}

POLICIES = {"give": add}
"""


def test_a_memory_store_is_shown_without_its_vectors(village: Shell) -> None:
    village.write("adding.py", ADDING)
    village("world", "new", "mill", "--file", str(village.write("mill.toml", WORLD + MEMORY)))
    village("world", "run", "mill", "--policies", "adding.py")

    shown = village("artifacts", "show", "diary", "--world", "mill", "--as", "ana")
    whole = village("artifacts", "show", "diary", "--world", "mill", "--as", "ana", "--json").json
    refused = village("world", "log", "mill", "--kind", "action.rejected").out

    assert "flour is dear" in shown.out and "embedding" not in shown.out
    assert len(whole["content"]["entries"][0]["embedding"]) > 1
    assert "a new artifact needs a kind" in refused


def test_names_and_ticks_that_cannot_be_are_said_in_words_of_worlds(village: Shell) -> None:
    named = village("world", "new", "Bad/Name", "--empty", "--json")
    later = village("world", "log", "village", "--tick", "7", "--json")
    nobody = village("world", "join", "village", "zoe", "--json")
    rich = village("world", "join", "village", "ana", "--scrip", str(10**18), "--json")

    assert named.code == exit_codes.USAGE and named.error["message"] == "invalid name of a world"
    assert later.code == exit_codes.USAGE and later.error["expected"] == "a tick from 0 to 0"
    assert nobody.code == exit_codes.NOT_FOUND and "artelier migrate agents" in nobody.error["hint"]
    assert rich.code == exit_codes.USAGE and rich.error["message"] == "no amount of scrip"
