"""Effects: in which order they are committed, what each becomes, and what an operation may not touch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier.operations.profile.operation_profile import mistakes_in
from tests.operations.rules.stage import (
    AFTER,
    BEFORE,
    SYSTEM,
    Stage,
    after,
    insert,
    keep,
    op,
    profile,
    stage_test,
)

USER = {"type": "turn.user_variant.upsert_and_select"}
PATCH = {"type": "turn.assistant_variant.patch"}
BLOCKS = {"type": "turn.assistant_blocks.update"}


def system(mode: str, text: str | None = None) -> dict[str, Any]:
    return {"type": "prompt.system_update", "mode": mode, "text": text}


def depth(number: int, text: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "prompt.insert_at_depth", "depth_from_end": number, "text": text, **more}


ORDERS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "by order": ([op("a", order=3), op("b", order=1), op("c", order=2)], ["b", "c", "a"]),
    "by id": ([op("b"), op("C"), op("a")], ["C", "a", "b"]),
    "fractions and negatives": (
        [op("a", order=0), op("b", order=-0.5), op("c", order=0.25)],
        ["b", "a", "c"],
    ),
    "dependencies first": (
        [op("a", order=1, depends_on=["z"]), op("m", order=2), op("z", order=9)],
        ["m", "z", "a"],
    ),
    "freed ones in their order": (
        [
            op("root"),
            op("x", order=5, depends_on=["root"]),
            op("y", order=4, depends_on=["root"]),
            op("w", order=4.5),
        ],
        ["root", "y", "w", "x"],
    ),
}


@pytest.mark.parametrize("mode", ["concurrent", "sequential"])
@pytest.mark.parametrize("hook", [BEFORE, AFTER])
@pytest.mark.parametrize("name", list(ORDERS))
def test_effects_are_committed_by_dependencies_order_and_id(
    name: str, hook: str, mode: str, tmp_path: Path
) -> None:
    given, expected = ORDERS[name]
    effect = insert() if hook == BEFORE else {**PATCH, "mode": "append"}
    operations = [{**one, "hooks": [hook], "params": {**one["params"], "effects": [effect]}} for one in given]

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(*operations, execution_mode=mode))
        turn = await session.generate("x")
        assert [one.operation_id for one in await stage.reports(turn.run_id)] == expected
        if hook == BEFORE:
            assert [text for _, text in stage.prompt()[2:]] == expected
        else:
            assert turn.text == "\n\n".join(["re: x", *expected])

    stage_test(scenario)(tmp_path)


async def _array_order(stage: Stage) -> None:
    """Inside an operation the order is the array's."""
    used = profile(
        op("a", "A", insert("1"), depth(0, "2"), insert("3"), USER, keep("a"), system("append", "4"))
    )
    turn = await (await stage.chat(used)).generate("x")
    reports = await stage.reports(turn.run_id)
    assert [(one.index, one.type, one.status) for one in reports] == [
        (0, "prompt.insert_after_last_user", "applied"),
        (1, "prompt.insert_at_depth", "applied"),
        (2, "prompt.insert_after_last_user", "applied"),
        (3, "turn.user_variant.upsert_and_select", "applied"),
        (4, "artifact.upsert", "applied"),
        (5, "prompt.system_update", "applied"),
    ]
    assert stage.prompt() == [
        ("system", f"{SYSTEM}\n\n4"),
        ("user", "A"),
        ("system", "1"),
        ("system", "3"),
        ("system", "2"),
        ("system", "## a\nA"),
    ]


test_the_effects_of_an_operation_keep_the_order_of_their_array = stage_test(_array_order)


async def _systems(stage: Stage) -> None:
    """Parts of the system prompt are one message, a blank line between them; replace begins anew."""
    cases: list[tuple[list[dict[str, Any]], str]] = [
        ([system("prepend", "A")], "A\n\nBase"),
        ([system("append", "A")], "Base\n\nA"),
        ([system("replace", "A")], "A"),
        ([system("prepend", "A"), system("prepend", "B")], "B\n\nA\n\nBase"),
        ([system("append", "A"), system("append", "B")], "Base\n\nA\n\nB"),
        ([system("append", "A"), system("replace", "B"), system("append", "C")], "B\n\nC"),
        ([system("replace", "A"), system("prepend", "B")], "B\n\nA"),
        ([system("append", "  "), system("append", "A")], "Base\n\nA"),
    ]
    for number, (effects, expected) in enumerate(cases):
        operations = [op(f"o{n}", "x", effect) for n, effect in enumerate(effects)]
        session = await stage.chat(
            profile(*operations, profile_id=f"p{number}", system="Base"), chat=f"c{number}"
        )
        await session.generate("x")
        assert stage.prompt() == [("system", expected), ("user", "x")], effects


test_updates_of_the_system_prompt = stage_test(_systems)


async def _depths(stage: Stage) -> None:
    """0 is the tail, n stands before the n-th last message; what is too deep stands before the first."""
    session = await stage.chat(None)
    for text in ("a", "b"):
        await session.generate(text)
    operations = [op(f"d{n}", f"<{n}>", depth(n, role="assistant")) for n in (0, 1, 2, 4, 99)]
    await session.change(profile=profile(*operations))
    await session.generate("c")
    assert [text for _, text in stage.prompt()[1:]] == [
        "<99>",
        "a",
        "<4>",
        "re: a",
        "b",
        "<2>",
        "re: b",
        "<1>",
        "c",
        "<0>",
    ]
    roles = {text: role for role, text in stage.prompt()}
    assert roles["<1>"] == roles["<0>"] == roles["<99>"] == "assistant"


test_inserts_at_a_depth_are_counted_from_the_end = stage_test(_depths)


async def _anchor(stage: Stage) -> None:
    """Inserts after the last user message keep commit order, and stay with the message of their run."""
    used = profile(op("a", "A-{{ text }}", insert()), op("b", "B", insert(role="assistant")))
    session = await stage.chat(used)
    await session.generate("x")
    await session.generate("y")
    assert stage.prompt()[1:] == [
        ("user", "x"),
        ("assistant", "re: x"),
        ("user", "y"),
        ("system", "A-y"),
        ("assistant", "B"),
    ]
    await session.regenerate()
    assert stage.prompt()[3:] == [("user", "y"), ("system", "A-y"), ("assistant", "B")]


test_inserts_stand_behind_the_message_of_their_run_and_are_not_kept = stage_test(_anchor)


async def _user_text(stage: Stage) -> None:
    """Other words for this variant; what was said stays what it was, and a new variant begins from it."""
    session = await stage.chat(profile(op("a", "{{ text }}!", USER, triggers=["generate"])))
    await session.generate("x")
    turn = await session.turn()
    assert (turn.said, turn.user) == ("x", "x!")
    assert stage.prompt()[-1] == ("user", "x!")
    await session.generate("y")
    assert stage.prompt()[1:] == [("user", "x!"), ("assistant", "re: x!"), ("user", "y!")]
    await session.regenerate()
    assert stage.prompt()[-1] == ("user", "y")
    assert (await session.turn()).user == "y"
    await session.select_variant(2, 1)
    assert (await session.turn()).user == "y!"


test_the_users_part_belongs_to_the_variant = stage_test(_user_text)


async def _reply(stage: Stage) -> None:
    """Patches of the reply in commit order; blocks beside it, each with its own visibility."""
    blocks = {
        **BLOCKS,
        "blocks": [
            {"channel": "state", "text": "shown", "ui": True, "prompt": False},
            {"channel": "reasoning", "text": "thought", "ui": False, "prompt": True},
            {"channel": "tool", "text": " ", "ui": True, "prompt": True},
        ],
    }
    used = profile(
        after("a", "[{{ reply }}]", {**PATCH, "mode": "replace"}),
        after("b", "last", {**PATCH, "mode": "append"}, order=2),
        after("c", "c", blocks, order=3),
    )
    session = await stage.chat(used)
    turn = await session.generate("x")
    assert turn.text == "[re: x]\n\nlast"
    variant = (await session.turn()).variants[0]
    assert [(one["channel"], one["text"], one["operation"]) for one in variant.parts] == [
        ("text", "[re: x]\n\nlast", "b"),
        ("state", "shown", "c"),
    ]
    await session.generate("y")
    assert stage.prompt()[2] == ("assistant", "[re: x]\n\nlast\n\nthought")


test_the_assistants_part_is_changed_after_the_call = stage_test(_reply)


async def _statuses(stage: Stage) -> None:
    """An effect without text changes nothing and says so."""
    empty = op("e", "{% if false %}x{% endif %}", insert(), system("replace"), USER, depth(1))
    session = await stage.chat(profile(empty, after("f", "{% comment %}{% endcomment %}", BLOCKS)))
    turn = await session.generate("x")
    reports = await stage.reports(turn.run_id)
    assert {(one.status, one.code, one.value) for one in reports} == {("skipped", "empty", None)}
    assert len(reports) == 5
    assert stage.prompt() == [("system", SYSTEM), ("user", "x")]


test_effects_without_text_are_skipped = stage_test(_statuses)


def _computed(*effects: dict[str, Any]) -> dict[str, Any]:
    code = f"def run(ctx):\n    return {{'value': 1, 'effects': {list(effects)!r}}}"
    declared = [keep("own"), insert("x")]
    params = {"code": code, "returns": "effects", "effects": declared}
    return {"operation_id": "dynamic", "kind": "compute", "order": 1, "params": params}


OWN = {"type": "artifact.upsert", "tag": "own", "value": 5}
HOSTILE: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a foreign tag": ([OWN, {**OWN, "tag": "other"}], "tag_not_declared"),
    "an effect that is not declared": ([OWN, {**USER, "value": "z"}], "effect_not_declared"),
    "an effect of the other hook": ([OWN, {**PATCH, "value": "z"}], "wrong_hook"),
    "no effect at all": ([OWN, {"type": "format.disk"}], "invalid_effect"),
    "a field too much": ([{**OWN, "usage": "prompt+ui", "sudo": 1}], "invalid_effect"),
    "too many": ([OWN] * 17, "too_many_effects"),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_an_operation_that_asks_for_more_than_it_may_commits_nothing(name: str, tmp_path: Path) -> None:
    effects, code = HOSTILE[name]

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(_computed(*effects), op("other", "kept", keep("other"))))
        turn = await session.generate("x")
        assert await stage.ends(turn.run_id) == {"dynamic": f"error:{code}", "other": "done"}
        assert await stage.values(session) == {"other": "kept"}
        reports = [one for one in await stage.reports(turn.run_id) if one.operation_id == "dynamic"]
        told = {(one.status, one.code) for one in reports}
        if code in ("tag_not_declared", "effect_not_declared", "wrong_hook"):
            assert told == {("error", code), ("skipped", "not_committed")}
        else:
            assert not told

    stage_test(scenario)(tmp_path)


async def _dynamic(stage: Stage) -> None:
    """What it may, it may: usage and retention are the profile's, whatever the code says."""
    wish = {**OWN, "usage": "internal", "persistence": "run_only"}
    session = await stage.chat(profile(_computed(wish, insert("from code"))))
    turn = await session.generate("x")
    assert turn.operations == {"dynamic": "done"}
    assert (await session.arts())["own"]["usage"] == "prompt+ui"
    assert await session.art("own") == 5
    assert ("system", "from code") in stage.prompt()


test_effects_of_code_stay_within_what_is_declared = stage_test(_dynamic)


async def _both_hooks(stage: Stage) -> None:
    """An operation at both hooks writes its tag once per hook."""
    text = "{{ art.x.value }}{{ chat.turn }}{{ reply }}"
    used = profile(op("x", text, keep("x"), hooks=[BEFORE, AFTER], strict=False))
    session = await stage.chat(used)
    turn = await session.generate("t")
    for hook, version in ((BEFORE, 1), (AFTER, 2)):
        assert [one.version for one in await stage.reports(turn.run_id, hook)] == [version]
    assert await session.art("x") == "11re: t"
    assert [one["value"] for one in await session.history("x")] == ["1"]


test_an_operation_at_both_hooks_writes_once_at_each = stage_test(_both_hooks)


Mistake = Callable[[], dict[str, Any]]

SAVED: dict[str, dict[str, Any]] = {
    "prompt_effect_after": after("x", "x", insert()),
    "assistant_effect_before": op("x", "x", PATCH),
    "multiple_tags": op("x", "x", keep("a"), keep("b")),
    "duplicate_effect": op("x", "x", keep("a"), keep("a")),
    "invalid_tag": op("x", "x", keep("Not a tag")),
}


@pytest.mark.parametrize("code", list(SAVED))
def test_what_an_operation_may_never_do_is_refused_when_saved(code: str) -> None:
    found = mistakes_in({"profile_id": "p", "operations": [SAVED[code]]})
    assert len(found) == 1 and found[0]["path"].startswith("operations[0].params.effects[")
    assert found[0]["code"] == code or code.endswith(("_after", "_before")), found


def test_two_operations_that_write_one_tag_are_refused_when_saved() -> None:
    found = mistakes_in(
        {"profile_id": "p", "operations": [op("x", "x", keep("a")), after("y", "y", keep("a"))]}
    )
    assert [one["code"] for one in found] == ["duplicate_writer"]
