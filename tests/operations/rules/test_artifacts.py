"""Artifacts of a session: history, retention, feeds, JSON, and what an operation sees of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.operations.rules.stage import AFTER, Stage, after, insert, keep, op, profile, stage_test


async def _history(stage: Stage) -> None:
    """Earlier values, newest first; the current one is not among them."""
    seen = "{{ art.s.value }}|{% for one in art.s.history %}{{ one.value }}.{{ one.version }},{% endfor %}"
    used = profile(
        op("see", seen, insert(), strict=False),
        after("s", "{{ text }}", keep("s")),
        op("look", "{{ art.s.value }}", keep("copy", "internal"), strict=False),
    )
    session = await stage.chat(used)
    expected = ["|", "a|", "b|a.1,", "c|b.2,a.1,"]
    for text, prompt in zip("abcd", expected, strict=True):
        await session.generate(text)
        assert ("system", prompt) in stage.prompt()
        assert await session.art("s") == text
    assert [(one["value"], one["version"]) for one in await session.history("s")] == [
        ("c", 3),
        ("b", 2),
        ("a", 1),
    ]
    assert [one["run"] for one in await session.history("s")] == ["c/r000003", "c/r000002", "c/r000001"]
    assert (await session.arts())["s"]["version"] == 4


test_history_has_earlier_values_alone = stage_test(_history)


async def _by_count(stage: Stage) -> None:
    """`max_versions` counts earlier values, of a feed its entries; 0 keeps the value and no past."""
    used = profile(
        after("a", "{{ text }}", keep("a", retention={"max_versions": 2})),
        after("b", "{{ text }}", keep("b", retention={"max_versions": 0})),
        after("c", "{{ text }}", keep("c", write_mode="append", retention={"max_versions": 3})),
        op(
            "see",
            "{{ art.a.history.size }}{{ art.b.history.size }}{{ art.c.value.size }}",
            insert(),
            strict=False,
        ),
    )
    session = await stage.chat(used)
    for text in "123456":
        await session.generate(text)
    assert await stage.values(session) == {"a": "6", "b": "6", "c": ["4", "5", "6"]}
    history = {tag: [one["value"] for one in await session.history(tag)] for tag in "abc"}
    assert history == {"a": ["5", "4"], "b": [], "c": ["6", "5", "4"]}
    assert ("system", "203") in stage.prompt()


test_retention_by_count = stage_test(_by_count)


async def _by_age(stage: Stage) -> None:
    """`ttl_s` counts from when a value was written; a current value has no age, an entry has."""
    kept: dict[str, Any] = {"retention": {"ttl_s": 100, "max_versions": 50}}
    used = profile(
        after("a", "{{ text }}", keep("a", **kept)),
        after("f", "{{ text }}", keep("f", write_mode="append", **kept)),
        op(
            "see",
            "{% for one in art.f.value %}{{ one }}{% endfor %}/{{ art.a.history.size }}",
            insert(),
            strict=False,
        ),
    )
    session = await stage.chat(used)
    for text in "abc":
        await session.generate(text)
        stage.clock.advance(60)
    assert await session.art("f") == ["c"], "of 180, 120 and 60 seconds"
    assert [one["value"] for one in await session.history("a")] == []
    stage.clock.advance(41)
    assert await session.art("f") == [] and await session.history("f") == []
    assert await session.art("a") == "c", "the current value stays"
    await session.generate("d")
    assert ("system", "/0") in stage.prompt()
    assert await session.art("f") == ["d"]
    assert [one["value"] for one in await session.history("a")] == []
    stage.clock.advance(50)
    await session.generate("e")
    assert await session.art("f") == ["d", "e"]
    assert [one["value"] for one in await session.history("a")] == ["d"]


test_retention_by_age = stage_test(_by_age)

JSONS: list[Any] = [
    {"a": 1},
    [1, 2.5, "3"],
    7,
    -0.25,
    True,
    None,
    "text",
    "",
    {"deep": [{"er": [None, False]}]},
    "7",
    '{"a": 1}',
]


async def _typed(stage: Stage) -> None:
    """JSON stays JSON: for the next operation, the next turn, code, templates and people."""
    import json

    operations: list[dict[str, Any]] = []
    for number, value in enumerate(JSONS):
        text = "{% raw %}" + json.dumps(value) + "{% endraw %}"
        hooks = {"hooks": [AFTER]}
        operations.append(op(f"w{number}", text, keep(f"t{number}"), output="json", **hooks))
        operations.append(
            op(f"f{number}", text, keep(f"f{number}", write_mode="append"), output="json", **hooks)
        )
    code = "def run(ctx):\n    return {tag: ctx.art[tag].value for tag in ctx.art if tag != 'all'}"
    reads = {
        "operation_id": "reads",
        "kind": "compute",
        "order": 1,
        "params": {"code": code, "effects": [keep("all", "internal")]},
    }
    session = await stage.chat(
        profile(*operations, reads, op("t", "{{ art.t0.value.a | plus: 1 }}", insert(), strict=False))
    )
    turn = await session.generate("x")
    assert set(turn.operations.values()) == {"done"}
    await session.generate("y")
    values = await stage.values(session)
    expected = {f"t{number}": value for number, value in enumerate(JSONS)}
    feeds = {f"f{number}": [value] for number, value in enumerate(JSONS)}
    assert values.pop("all") == {**expected, **feeds}
    assert values == {**expected, **{tag: value * 2 for tag, value in feeds.items()}}
    assert all(type(values[f"t{n}"]) is type(value) for n, value in enumerate(JSONS))
    assert ("system", "2") in stage.prompt()


test_json_stays_typed = stage_test(_typed)


async def _sight(stage: Stage) -> None:
    """An operation sees what it depends on, however far, and nothing that merely ran before it."""
    look = "{{ art.a.value }}{{ art.b.value }}{{ art.c.value }}{{ art.x.value }}"
    writes = {tag: op(tag, f"<{tag}>", keep(tag)) for tag in "abx"}
    used = profile(
        writes["a"],
        {**writes["b"], "depends_on": ["a"]},
        op("c", "<c>", keep("c"), depends_on=["b"]),
        {**writes["x"], "order": -5},
        op("far", look, keep("far"), depends_on=["c"], strict=False, order=90),
        op("near", look, keep("near"), depends_on=["a"], strict=False, order=90),
        op("alone", look, keep("alone"), strict=False, order=90),
        execution_mode="sequential",
    )
    session = await stage.chat(used)
    await session.generate("1")
    seen = {tag: await session.art(tag) for tag in ("far", "near", "alone")}
    assert seen == {"far": "<a><b><c>", "near": "<a>", "alone": ""}
    await session.generate("2")
    seen = {tag: await session.art(tag) for tag in ("far", "near", "alone")}
    assert seen == dict.fromkeys(seen, "<a><b><c><x>"), "what was before the turn all see"


test_an_operation_sees_its_transitive_dependencies_and_no_other = stage_test(_sight)


async def _hooks_apart(stage: Stage) -> None:
    """After the call all that the barrier let through is there, run_only values too."""
    used = profile(
        op("a", "A", keep("a")),
        op("b", "B", keep("b", persistence="run_only")),
        after("c", "{{ art.a.value }}{{ art.b.value }}{{ reply }}", keep("c")),
    )
    session = await stage.chat(used)
    await session.generate("x")
    assert await session.art("c") == "ABre: x"


test_operations_after_see_what_those_before_have_written = stage_test(_hooks_apart)


async def _feeds_in_a_run(stage: Stage) -> None:
    """Who depends on a feed's writer sees the feed with the new entry."""
    used = profile(
        op("f", "{{ text }}", keep("f", write_mode="append", retention={"max_versions": 2})),
        op("see", "{{ art.f.value | join: ',' }}/{{ art.f.history.size }}", keep("seen"), depends_on=["f"]),
    )
    session = await stage.chat(used)
    seen: list[str] = []
    for text in "abc":
        await session.generate(text)
        seen.append(await session.art("seen"))
    assert seen == ["a/1", "a,b/2", "b,c/2"]


test_a_feed_is_its_entries_also_within_the_run = stage_test(_feeds_in_a_run)

CHANGES: list[tuple[str, dict[str, Any], dict[str, Any], Any, list[Any]]] = [
    ("a feed becomes a value", {"write_mode": "append"}, {}, "b", []),
    ("a value becomes a feed", {}, {"write_mode": "append"}, ["b"], ["b"]),
    (
        "less is retained",
        {"write_mode": "append"},
        {"write_mode": "append", "retention": {"max_versions": 1}},
        ["b"],
        ["b"],
    ),
    ("another usage", {}, {"usage": "ui_only"}, "b", ["a"]),
]


@pytest.mark.parametrize("name", [one[0] for one in CHANGES])
def test_a_profile_that_keeps_a_tag_otherwise(name: str, tmp_path: Path) -> None:
    first, second, value, history = next(one[1:] for one in CHANGES if one[0] == name)

    async def scenario(stage: Stage) -> None:
        look = op("see", "{{ art.t.value | json }}", keep("seen", "ui_only"), depends_on=["t"])
        session = await stage.chat(profile(op("t", "{{ text }}", keep("t", **first))))
        await session.generate("a")
        effect = {**keep("t", "ui_only"), **second}
        await session.change(profile=profile(op("t", "{{ text }}", effect), look))
        await session.generate("b")
        assert await session.art("t") == value
        assert [one["value"] for one in await session.history("t")] == history
        import json

        assert json.loads(await session.art("seen")) == value

    stage_test(scenario)(tmp_path)
