"""Which entries a turn brings in: keys, time, chance, budget, recursion; and what a hostile book can cost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from artelier.operations.lore import LoreActivation, Lorebook, LorebookEntry, activate, read_form, with_names
from artelier.operations.lore.entry_rules import PATTERN_SIZE_MAX, LoreScene, pattern_of
from artelier.patterns import size_of


def entry(id_: str, *keys: str, **more: Any) -> LorebookEntry:
    return LorebookEntry(id=id_, keys=keys, content=more.pop("content", f"<{id_}>"), **more)


def book(*entries: LorebookEntry, **more: Any) -> Lorebook:
    return Lorebook(entries=entries, **{"budget_tokens": 1_000, **more})


def words(text: str) -> int:
    return len(text.split())


def ids(activation: LoreActivation) -> list[str]:
    return [item.entry.id for item in activation.entries]


def dropped(activation: LoreActivation) -> dict[str, str]:
    return {item.entry_id: item.reason for item in activation.dropped}


def found(*messages: str, turn: int = 1, **fields: Any) -> bool:
    """Whether one entry with these fields becomes active."""
    keys = fields.pop("keys", ("cat",))
    return ids(activate(book(entry("a", *keys, **fields)), messages, turn=turn)) == ["a"]


@pytest.mark.parametrize(
    ("message", "fields", "expected"),
    [
        ("the cat", {}, True),
        ("the CAT", {}, True),
        ("the CAT", {"case_sensitive": True}, False),
        ("concatenate", {}, True),
        ("concatenate", {"whole_words": True}, False),
        ("a cat!", {"whole_words": True}, True),
        ("cat", {"whole_words": True}, True),
        ("cats, cat_x, 3cat", {"whole_words": True}, False),
        ("cats; cat", {"whole_words": True}, True),
        ("the black cat sits", {"keys": ("black cat",), "whole_words": True}, True),
        ("the black cats", {"keys": ("black cat",), "whole_words": True}, True),
        ("C++ is old", {"keys": ("C++",), "whole_words": True}, True),
        ("一条龙来了", {"keys": ("龙",), "whole_words": True}, True),
        ("кошка", {"keys": ("кот",)}, False),
        ("КОТЫ", {"keys": ("кот",)}, True),
        ("КОТЫ", {"keys": ("кот",), "whole_words": True}, False),
        ("STRASSE", {"keys": ("straße",)}, True),
        ("cafe\u0301", {"keys": ("café",)}, True),
        ("Ünal", {"keys": ("ünal",)}, True),
        ("x", {"keys": ("  x  ",)}, True),
        ("ab", {"keys": ("abc", "bcd")}, False),
        ("dog", {"keys": ("abc", "dog")}, True),
        ("dog", {"keys": ()}, False),
        ("", {}, False),
        ("anything", {"keys": (), "constant": True}, True),
        ("cat", {"enabled": False}, False),
        ("cat", {"enabled": False, "constant": True}, False),
        ("cat", {"content": ""}, False),
        ("a\ud800cat", {}, True),
    ],
)
def test_a_key_is_found(message: str, fields: dict[str, Any], expected: bool) -> None:
    assert found(message, **fields) is expected


@pytest.mark.parametrize(
    ("message", "key", "expected"),
    [
        ("caaat", "/ca+t/", True),
        ("CAAAT", "/ca+t/", False),
        ("CAAAT", "/ca+t/i", True),
        ("a\nb", "/a.b/", False),
        ("a\nb", "/a.b/s", True),
        ("x\ncat", "/^cat/m", True),
        ("x/y", r"/x\/y/", True),
        ("see /home/user/", "/home/user/", True),
        ("homeuser", "/home/user/", False),
        ("a (b", "/a (b/", False),
        ("look: /a (b/", "/a (b/", True),
        ("caaat", "/ca+t/q", False),
        ("//", "//", True),
        ("/", "/", True),
    ],
)
def test_what_stands_between_slashes_is_a_pattern_if_it_is_one(
    message: str, key: str, expected: bool
) -> None:
    assert found(message, keys=(key,)) is expected


def test_a_pattern_is_text_where_the_entry_says_so() -> None:
    assert not found("caaat", keys=("/ca+t/",), use_regex=False)
    assert found("the key /ca+t/ itself", keys=("/ca+t/",), use_regex=False)


@pytest.mark.parametrize(
    ("logic", "expected"),
    [
        ("and_any", [False, True, True]),
        ("and_all", [False, False, True]),
        ("not_any", [True, False, False]),
        ("not_all", [True, True, False]),
    ],
)
def test_secondary_keys_decide_by_their_logic(logic: str, expected: list[bool]) -> None:
    said = ["cat", "cat red", "cat red blue"]

    results = [found(text, secondary_keys=("red", "blue"), selective_logic=logic) for text in said]

    assert results == expected
    assert not found("red blue", secondary_keys=("red", "blue"), selective_logic=logic)


def test_only_the_newest_messages_are_searched() -> None:
    messages = ["cat", "x", "y"]

    assert not found(*messages, scan_depth=2)
    assert found(*messages, scan_depth=3)
    assert ids(activate(book(entry("a", "cat"), scan_depth=2), messages, turn=1)) == []
    assert ids(activate(book(entry("a", "cat"), scan_depth=0), ["cat"], turn=1)) == []
    assert ids(activate(book(entry("a", "cat"), scan_depth=9), messages, turn=1)) == ["a"]


def test_entries_stand_in_order_and_the_highest_last() -> None:
    lore = book(
        entry("late", "x", order=300), entry("first", "x", order=-5), entry("b", "x"), entry("c", "x")
    )

    activation = activate(lore, ["x"], turn=1)

    assert ids(activation) == ["first", "b", "c", "late"]
    assert [item.key for item in activation.entries] == ["x"] * 4


def test_the_budget_keeps_the_highest_priority() -> None:
    lore = book(
        entry("low", "x", content="a b c", priority=1),
        entry("high", "x", content="a b c", priority=9),
        entry("small", "x", content="a", priority=0),
        entry("huge", "x", content="a " * 50, priority=99),
        budget_tokens=5,
    )

    activation = activate(lore, ["x"], turn=1, estimate=words)

    assert ids(activation) == ["high", "small"]
    assert dropped(activation) == {"huge": "budget", "low": "budget"}
    assert activation.tokens == 4
    assert {item.entry_id: item.tokens for item in activation.dropped} == {"huge": 50, "low": 3}


def test_without_a_budget_nothing_enters() -> None:
    assert ids(activate(book(entry("a", "x", constant=True), budget_tokens=0), ["x"], turn=1)) == []


def chain() -> list[LorebookEntry]:
    return [
        entry("a", "start", content="leads to beta"),
        entry("b", "beta", content="leads to gamma"),
        entry("c", "gamma", content="the end"),
    ]


def test_recursion_follows_contents_only_where_the_book_says_so() -> None:
    deep = activate(book(*chain(), recursive=True), ["start"], turn=1)

    assert ids(activate(book(*chain()), ["start"], turn=1)) == ["a"]
    assert ids(deep) == ["a", "b", "c"]
    assert [item.because for item in deep.entries] == ["key", "recursion", "recursion"]


def test_recursion_spares_entries_that_say_so() -> None:
    a, b, c = chain()
    mute = LorebookEntry(id="b", keys=b.keys, content=b.content, feeds_recursion=False)
    deaf = LorebookEntry(id="b", keys=b.keys, content=b.content, found_by_recursion=False)

    assert ids(activate(book(a, mute, c, recursive=True), ["start"], turn=1)) == ["a", "b"]
    assert ids(activate(book(a, deaf, c, recursive=True), ["start"], turn=1)) == ["a"]


def test_recursion_ignores_what_had_no_room_and_finds_each_entry_once() -> None:
    a, b, c = chain()
    loop = entry("z", "end", content="start beta gamma end")
    small = book(a, b, c, recursive=True, budget_tokens=5)

    assert ids(activate(book(a, b, c, loop, recursive=True), ["start"], turn=1)) == ["a", "b", "c", "z"]
    assert ids(activate(small, ["start"], turn=1, estimate=words)) == ["a"]
    assert dropped(activate(small, ["start"], turn=1, estimate=words)) == {"b": "budget"}


def test_recursion_ends() -> None:
    steps = [entry(str(n), f"k{n}z", content=f"k{n + 1}z") for n in range(50)]

    assert len(activate(book(*steps, recursive=True), ["k0z"], turn=1).entries) == 9


def test_secondary_keys_may_stand_in_the_content_of_others() -> None:
    a = entry("a", "start", content="under the moon")
    b = entry("b", "start", secondary_keys=("moon",))
    c = entry("c", "start", secondary_keys=("moon",), selective_logic="not_any")

    assert ids(activate(book(a, b, c, recursive=True), ["start"], turn=1)) == ["a", "b", "c"]
    assert ids(activate(book(a, b, c), ["start"], turn=1)) == ["a", "c"]


def played(one: LorebookEntry, said: Sequence[str], **more: Any) -> str:
    """`A` for each turn in which the entry is active, `.` for the others; state goes through JSON."""
    state: dict[str, int] = {}
    shown = ""
    for turn, message in enumerate(said, start=1):
        activation = activate(book(one, scan_depth=1), [message], turn=turn, state=state, **more)
        state = json.loads(json.dumps(activation.state))
        shown += "A" if activation.entries else "."
    return shown


@pytest.mark.parametrize(
    ("fields", "said", "expected"),
    [
        ({}, "x.x..", "A.A.."),
        ({"sticky": 2}, "x.......", "AAA....."),
        ({"sticky": 2}, "xxxxxxx...", "AAAAAAAAA."),
        ({"sticky": 2}, "x..x....", "AAAAAA.."),
        ({"sticky": 2}, "xx......", "AAA....."),
        ({"cooldown": 2}, "xxxxxxx", "A..A..A"),
        ({"sticky": 1, "cooldown": 2}, "xxxxxxxxx", "AA..AA..A"),
        ({"delay": 3}, "xxxxx", "..AAA"),
        ({"delay": 1}, "xx", "AA"),
        ({"constant": True, "delay": 2}, "....", ".AAA"),
        ({"constant": True, "cooldown": 1}, ".....", "A.A.A"),
        ({"sticky": 1, "delay": 2}, "x.x..", "..AA."),
        ({"probability": 0}, "xxxx", "...."),
        ({"probability": 0, "constant": True}, "xxxx", "...."),
    ],
)
def test_time_passes_in_turns(fields: dict[str, Any], said: str, expected: str) -> None:
    assert played(entry("a", "x", **fields), said) == expected


def test_why_an_entry_waits_is_told() -> None:
    lore = book(
        entry("cold", "x", cooldown=3),
        entry("late", "x", delay=9),
        entry("rare", "x", probability=0),
        entry("cold but not asked", "y", cooldown=3),
    )

    activation = activate(lore, ["x"], turn=2, state={"cold": 1, "cold but not asked": 1})

    assert dropped(activation) == {"cold": "cooldown", "late": "delay", "rare": "probability"}
    assert activation.state == {"cold": 1, "cold but not asked": 1}


@pytest.mark.parametrize(
    "state",
    [
        {"a": "1"},
        {"a": None},
        {"a": True},
        {"a": [1]},
        {"a": 99},
        {"a": 5},
        {"a": -(10**30)},
        {"a": 1.0},
        {"": 1},
        {"nobody": 4},
    ],
)
def test_a_state_that_makes_no_sense_says_nothing(state: dict[str, Any]) -> None:
    lore = book(entry("a", "x", sticky=9))

    assert ids(activate(lore, ["-"], turn=5, state=state)) == []
    assert activate(lore, ["-"], turn=5, state=state).state == {}


def test_a_sticky_entry_needs_neither_key_nor_luck_but_room() -> None:
    lucky = book(entry("a", "x", sticky=9, probability=0, content="one two"))
    state = {"a": 1}

    assert [item.because for item in activate(lucky, ["-"], turn=2, state=state).entries] == ["sticky"]
    full = book(*lucky.entries, budget_tokens=1)
    crowded = activate(full, ["-"], turn=2, state=state, estimate=words)
    assert (ids(crowded), crowded.state) == ([], {"a": 1})


def test_a_book_without_the_entry_forgets_it() -> None:
    assert activate(book(), ["x"], turn=2, state={"gone": 1}).state == {}


def test_chance_comes_from_the_seed_the_turn_and_the_entry() -> None:
    lore = book(*(entry(f"e{n}", "x", probability=30) for n in range(400)))

    def rolled(seed: int, turn: int) -> list[str]:
        return ids(activate(lore, ["x"], turn=turn, seed=seed))

    assert rolled(1, 1) == rolled(1, 1)
    assert len({tuple(rolled(seed, turn)) for seed in (1, 2) for turn in (1, 2)}) == 4
    assert 80 < len(rolled(1, 1)) < 160


def test_state_is_plain_json_and_nothing_given_is_changed() -> None:
    lore = book(entry("a", "x", sticky=1), entry("b", "x"))
    state: dict[str, object] = {"a": 1}
    messages = ["x"]

    activation = activate(lore, messages, turn=3, state=state)

    assert activation.state == {"a": 3}
    assert (state, messages) == ({"a": 1}, ["x"])


def test_names_are_put_into_keys_and_contents_once() -> None:
    lore = book(
        entry("a", "{{char}}", content="{{user}} knows {{char}}. {{roll:6}}"),
        entry("b", r"/{{user}} said \d+/", content="b"),
        entry("c", "plain", content="c"),
    )

    named = with_names(lore, user="A.B/{{char}}", char="Zoë")

    assert named.entries[0].content == "A.B/{{char}} knows Zoë. {{roll:6}}"
    assert named.entries[2] is lore.entries[2]
    assert ids(activate(named, ["zoë"], turn=1)) == ["a"]
    assert ids(activate(named, ["A.B/{{char}} said 12"], turn=1)) == ["b"]
    assert ids(activate(named, ["AxB/{{char}} said 12"], turn=1)) == []
    assert with_names(lore, user="A.B/{{char}}", char="Zoë") is named


def test_patterns_that_do_not_end_are_stopped_and_not_tried_again() -> None:
    bombs = [r"/(a+)+$/", r"/(a|aa)+$/i", r"/(a(?R)?a)+b/", r"/(?:.*?a){25}P/"]
    lore = book(
        *(entry(str(n), bombs[0]) for n in range(500)),
        *(entry(bomb, bomb) for bomb in bombs),
        entry("ok", "a!"),
    )

    activation = activate(lore, ["a" * 5_000 + "!"], turn=1)

    assert ids(activation) == ["ok"]
    assert dropped(activation).items() >= {(str(n), "pattern_timeout") for n in range(500)}


@pytest.mark.parametrize(
    "pattern",
    ["(?:(?:a{1000}){1000})", "a{999999999}", "((a{1,99}){,99}){99}", "([](]{200}){200}", r"(\({300}){300}"],
)
def test_patterns_that_grow_without_end_are_text(pattern: str) -> None:
    assert size_of(pattern) > PATTERN_SIZE_MAX
    assert pattern_of(f"/{pattern}/") is None
    assert found(f"look: /{pattern}/", keys=(f"/{pattern}/",))


@pytest.mark.parametrize(
    "pattern", [r"\d{1,3}\.\d{1,3}", "[{1,99999}]{2}", ".{0,100}x.{0,100}", r"(a|b){3}\{9999\}"]
)
def test_honest_patterns_are_small(pattern: str) -> None:
    assert pattern_of(f"/{pattern}/i") is not None


def test_a_hostile_book_runs_out_of_work_and_says_so() -> None:
    """Keys that are nearly everywhere: the plain search is at its worst."""
    keys = [
        tuple("a" * (40 + (7 * n + k) % 80) + "b" + "a" * (9 + k) + "aba" for k in range(200))
        for n in range(50)
    ]
    lore = book(*(entry(str(n), *some) for n, some in enumerate(keys)), entry("ok", constant=True))

    activation = activate(lore, ["a" * 29_000 + "baabaab"], turn=1)

    assert ids(activation) == ["ok"]
    assert set(dropped(activation).values()) == {"search_limit"}


def test_very_long_messages_are_searched_at_their_end() -> None:
    assert found("x" * 300_000 + " cat")
    assert not found("cat " + "x" * 300_000)
    assert not found("cat", "x" * 300_000)


def test_each_depth_of_a_book_costs_little() -> None:
    lore = book(*(entry(str(n), "nowhere", scan_depth=n) for n in range(1_000)))

    assert ids(activate(lore, ["y" * 90] * 1_000, turn=1)) == []


def test_a_large_book_is_read_and_searched() -> None:
    content = {
        "scan_depth": 20,
        "entries": [
            {"id": str(n), "keys": [f"key{n}", f"other word {n}", f"{n}th"], "content": f"lore {n}"}
            for n in range(1_000)
        ],
    }
    messages = [f"The {n}th message speaks of key{n * 50 + 7}, and of nothing else." for n in range(20)]

    lore = read_form(Lorebook, content)
    activation = activate(lore, messages, turn=1)

    by_keys = {f"{n * 50 + 7}" for n in range(20)}
    assert by_keys | {str(n) for n in range(20)} <= set(ids(activation))


# Rules beside keys


def test_of_a_group_one_becomes_active_and_the_others_are_said() -> None:
    rivals = book(entry("a", "omen", groups=("sky",)), entry("b", "omen", groups=("sky",)))

    active = activate(rivals, ["an omen"], turn=1)

    (winner,) = ids(active)
    assert dropped(active) == {({"a", "b"} - {winner}).pop(): "group"}


def test_weights_decide_how_often_an_entry_of_a_group_wins() -> None:
    rivals = book(
        entry("light", "sky", groups=("g",)),
        entry("heavy", "sky", groups=("g",), group_weight=300),
        entry("never", "sky", groups=("g",), group_weight=0),
    )

    won = Counter(ids(activate(rivals, ["sky"], turn=1, seed=seed))[0] for seed in range(2_000))

    assert won["never"] == 0
    assert 0.7 < won["heavy"] / 2_000 < 0.8


def test_entries_that_come_first_win_by_order_and_weights_do_not_count() -> None:
    rivals = book(
        entry("low", "omen", groups=("g",), group_first=True, order=5),
        entry("high", "omen", groups=("g",), group_first=True, order=50),
        entry("heavy", "omen", groups=("g",), group_weight=10_000, order=99),
    )

    assert ids(activate(rivals, ["omen"], turn=1)) == ["high"]


def test_an_entry_with_more_keys_in_the_text_wins_where_it_is_scored() -> None:
    rivals = book(
        entry("three", "cook", "stew", "ladle", groups=("g",), group_scoring=True),
        entry("one", "cook", groups=("g",), group_scoring=True, group_weight=10_000),
    )

    assert ids(activate(rivals, ["the cook stirs the stew with a ladle"], turn=1)) == ["three"]


def test_a_group_that_has_an_active_entry_takes_no_other_of_a_later_round() -> None:
    chained = book(
        entry("a", "cat", groups=("g",), content="a dog"), entry("b", "dog", groups=("g",)), recursive=True
    )

    active = activate(chained, ["cat"], turn=1)

    assert (ids(active), dropped(active)) == (["a"], {"b": "group"})


def test_a_sticky_entry_keeps_its_group() -> None:
    rivals = book(
        entry("a", "cat", groups=("g",), sticky=2), entry("b", "dog", groups=("g",), group_first=True)
    )

    assert ids(activate(rivals, ["dog"], turn=2, state={"a": 1})) == ["a"]


def test_an_entry_that_waits_for_recursion_is_found_in_messages_and_contents_then() -> None:
    waiting = [
        entry("seen", "oracle", recursion_level=1),
        entry("first", "oracle", content="birdsong"),
        entry("second", "birdsong", recursion_level=2, content="moth"),
        entry("third", "moth", recursion_level=3),
    ]

    assert sorted(ids(activate(book(*waiting, recursive=True), ["oracle"], turn=1))) == [
        "first",
        "second",
        "seen",
        "third",
    ]
    assert ids(activate(book(*waiting), ["moth"], turn=1)) == ["third"]
    assert ids(activate(book(waiting[0], recursive=True), ["oracle"], turn=1)) == []


def test_levels_are_bounded() -> None:
    levels = book(*(entry(f"e{n}", "cat", recursion_level=n) for n in range(1, 1_001)), recursive=True)

    assert len(ids(activate(levels, ["cat"], turn=1))) < 50


def test_an_entry_that_ignores_the_budget_enters_and_uses_it_up() -> None:
    poor = book(
        entry("free", "x", content="one two three", ignore_budget=True, priority=9),
        entry("other", "x", content="one"),
        budget_tokens=2,
    )

    active = activate(poor, ["x"], turn=1, estimate=words)

    assert (ids(active), dropped(active), active.tokens) == (["free"], {"other": "budget"}, 3)


@pytest.mark.parametrize(
    ("wanted", "scene", "expected"),
    [
        ({"names": ["Marlo"]}, {"char": "marlo "}, True),
        ({"names": ["Marlo"]}, {"char": "Osric"}, False),
        ({"names": ["Marlo"], "exclude": True}, {"char": "Marlo"}, False),
        ({"names": ["Marlo"], "exclude": True}, {"char": "Osric"}, True),
        ({"tags": ["thief"]}, {"char": "Osric", "tags": frozenset(("Thief", "cook"))}, True),
        ({"tags": ["thief"]}, {"char": "Osric", "tags": frozenset(("cook",))}, False),
        ({"tags": ["thief"], "exclude": True}, {"char": "Osric"}, True),
    ],
)
def test_a_filter_names_the_characters_for_whom_an_entry_counts(
    wanted: dict[str, Any], scene: dict[str, Any], expected: bool
) -> None:
    one = read_form(LorebookEntry, {"id": "a", "content": "x", "constant": True, "characters": wanted})

    assert bool(ids(activate(book(one), [], turn=1, scene=LoreScene(**scene)))) is expected


@pytest.mark.parametrize(
    ("triggers", "trigger", "expected"),
    [
        ((), "generate", True),
        (("normal",), "generate", True),
        (("swipe",), "generate", False),
        (("swipe",), "regenerate", True),
        (("continue",), "continue", True),
        (("quiet",), "continue", False),
        (("swipe",), "", True),
    ],
)
def test_an_entry_enters_at_its_triggers_alone(
    triggers: tuple[str, ...], trigger: str, expected: bool
) -> None:
    one = book(entry("a", constant=True, triggers=triggers))

    assert bool(ids(activate(one, [], turn=1, scene=LoreScene(trigger=trigger)))) is expected


def test_keys_are_found_in_the_texts_that_an_entry_names() -> None:
    scene = LoreScene(texts={"scenario": "A vault.", "persona": "A dragon."})
    both = book(entry("a", "vault", also_scans=("scenario",)), entry("b", "dragon", also_scans=("scenario",)))

    assert ids(activate(both, ["hello"], turn=1, scene=scene)) == ["a"]
    assert ids(activate(both, ["hello"], turn=1)) == []


def test_a_large_group_of_scored_entries_is_chosen_from_within_the_work_allowance() -> None:
    keys = [f"word{n}" for n in range(20)]
    large = book(*(entry(f"e{n}", *keys, groups=("g",), group_scoring=True) for n in range(1_000)))

    assert len(ids(activate(large, [" ".join(keys) * 200], turn=1))) <= 1


def test_filters_of_many_names_cost_little() -> None:
    names = [f"n{n}" for n in range(256)]
    form = {"content": "x", "constant": True, "characters": {"tags": names}}
    many = book(*(read_form(LorebookEntry, {"id": f"e{n}", **form}) for n in range(1_000)), budget_tokens=0)

    scene = LoreScene(tags=frozenset(f"t{n}" for n in range(500)))
    assert ids(activate(many, [], turn=1, scene=scene)) == []
