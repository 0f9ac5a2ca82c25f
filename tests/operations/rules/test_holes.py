"""Holes of a public predecessor in operations, by their numbers in the list of proof; none may exist here."""

from __future__ import annotations

from typing import Any

from tests.operations.rules.stage import (
    AFTER,
    BEFORE,
    Stage,
    after,
    asks,
    echo,
    flags,
    insert,
    keep,
    op,
    profile,
    stage_test,
)

# 27. A profile edit silently hides session state.


async def _edited(stage: Stage) -> None:
    """Any edit that keeps the session's id keeps its state; each run says with which version it worked."""
    session = await stage.chat(profile(after("s", "{{ text }}", keep("s"))))
    await session.generate("a")
    edits: list[Any] = [
        profile(after("s", "{{ text }}!", keep("s")), name="Renamed", version=2),
        profile(after("other", "O", keep("o")), after("s", "{{ text }}?", keep("s"), order=7)),
        profile(op("moved", "{{ art.s.value }}{{ text }}", keep("s", "internal"))),
        profile(enabled=False),
        profile(execution_mode="sequential", inclusions=[{"source": "art.s"}]),
    ]
    seen: list[Any] = []
    for text, edit in zip("bcdef", edits, strict=True):
        await session.change(profile=edit)
        assert await session.art("s", internal=True), "nothing is hidden by the edit itself"
        await session.generate(text)
        seen.append(await session.art("s", internal=True))
    assert seen == ["b!", "c?", "c?d", "c?d", "c?d"]
    assert [one["session_id"] for one in await session.sessions()] == ["default"]
    shown = [await session.show(f"c/r00000{number}") for number in (1, 2, 3, 4, 5, 6)]
    assert [one["profile"] for one in shown] == ["p@1", "p@2", "p@3", "p@4", "", "p@6"]
    assert [one["value"] for one in await session.history("s", internal=True)] == ["c?", "b!", "a"]


test_hole_27_a_profile_edit_keeps_the_sessions_state = stage_test(_edited)

# 28. `append` behaves as replace; JSON is stored as a string; transitive dependencies are invisible.


async def _appended(stage: Stage) -> None:
    entry = '{"turn": {{ chat.turn }}, "said": [{{ text | json }}, null, 1.5, true]}'
    used = profile(
        after("feed", entry, keep("feed", write_mode="append"), output="json"),
        after("typed", "{{ art.feed.value.last.said[2] | plus: 1 }}", keep("sum"), depends_on=["feed"]),
        op("before", "{{ art.feed.value | map: 'turn' | join: '+' }}", insert(), strict=False),
    )
    session = await stage.chat(used)
    for text in ("a", 'b"{{ x }}', "c"):
        await session.generate(text)
    said = [
        {"turn": n, "said": [text, None, 1.5, True]}
        for n, text in enumerate(("a", 'b"{{ x }}', "c"), start=1)
    ]
    assert await session.art("feed") == said
    assert [one["value"] for one in await session.history("feed")] == said[::-1]
    assert await session.art("sum") == "2.5"
    assert ("system", "1+2") in stage.prompt()


test_hole_28_append_appends_and_json_stays_json = stage_test(_appended)


async def _transitive(stage: Stage) -> None:
    """The end of a chain sees the beginning, at both hooks."""
    operations: list[dict[str, Any]] = []
    for hook, name in ((BEFORE, "b"), (AFTER, "a")):
        for number in range(5):
            seen = "".join(f"{{{{ art.{name}{n}.value }}}}" for n in range(number))
            above = [f"{name}{number - 1}"] if number else []
            operations.append(
                op(
                    f"{name}{number}",
                    f"{number}{seen}",
                    keep(f"{name}{number}"),
                    hooks=[hook],
                    depends_on=above,
                    order=-number,
                )
            )
    session = await stage.chat(profile(*operations))
    turn = await session.generate("x")
    assert set(turn.operations.values()) == {"done"}
    for name in "ba":
        assert await session.art(f"{name}4") == "4" + "0" + "10" + "2010" + "30102010"


test_hole_28_transitive_dependencies_are_visible = stage_test(_transitive)

# 29. Required operation with a failed dependency is skipped, not an error.


async def _required(stage: Stage) -> None:
    ways: dict[str, dict[str, Any]] = {
        "failed": op("dep", "{{ nobody }}"),
        "disabled": op("dep", enabled=False),
        "not due": op("dep", activation={"every_n_turns": 5}),
        "other trigger": op("dep", triggers=["regenerate"]),
        "guarded": op(
            "dep", depends_on=["g"], run_conditions=[{"source": "g", "key": "yes", "operator": "is_true"}]
        ),
        "skipped itself": op("dep", depends_on=["off"]),
    }
    for hook, failed_type in ((BEFORE, "before_barrier"), (AFTER, "after_main_llm")):
        for way, dependency in ways.items():
            operations = [
                flags("g", "false"),
                op("off", enabled=False),
                dependency,
                op("must", "M", keep("m"), depends_on=["dep"], required=True, order=5),
                op("may", "M", keep("n"), depends_on=["dep"], order=5),
            ]
            name = f"{failed_type}-{way.replace(' ', '-')}"
            used = profile(*[{**one, "hooks": [hook]} for one in operations], profile_id=name)
            session = await stage.chat(used, chat=name)
            turn = await session.generate("x")
            ends = await stage.ends(turn.run_id)
            assert ends["must"] == "error:dependency_failed", name
            assert ends["may"] == "skipped:dependency_failed", name
            assert turn.status == "failed" and turn.failed is not None
            assert (turn.failed["failed_type"], turn.failed["operation"]) == (failed_type, "must")
            assert await session.arts(internal=True) == {}


test_hole_29_a_required_operation_with_a_failed_dependency_is_an_error = stage_test(_required)

# 30. Text from a user is rendered as a template.

LIQUID = "{{ 6 | times: 7 }}{% assign x = 'owned' %}{{ x }}{{ art.secret.value }}{% raw %}"


async def _rendered(stage: Stage) -> None:
    """Words of a person, a model, a name, an artifact: none is ever a template, at no distance."""
    used = profile(
        op("secret", "hidden-91", keep("secret", "internal")),
        op("said", "{{ text }}", keep("said", "prompt_only"), insert()),
        op(
            "twice",
            "{{ art.said.value }}",
            keep("twice", "prompt_only"),
            insert("<{{ value }}>"),
            depends_on=["said"],
        ),
        asks(
            "asked",
            "aux {{ text }} {{ messages | map: 'content' | join: ' ' }}",
            keep("asked", "prompt_only"),
        ),
        after(
            "reply",
            "{{ reply }}",
            keep("replied", "prompt_only"),
            {"type": "turn.assistant_variant.patch", "mode": "append", "text": "{{ value }}"},
        ),
        inclusions=[{"source": "art.twice", "template": "[{{ value }}]"}, {"source": "art.said"}],
        system="To {{ user.name }} of {{ char.description }}.",
    )
    char = {"name": "Bo", "description": LIQUID}
    session = await stage.chat(used, user=LIQUID, char=char, greetings=[LIQUID])
    for _ in range(2):
        turn = await session.generate(LIQUID)
        assert set(turn.operations.values()) == {"done"}
        assert turn.text == f"re: {LIQUID}\n\nre: {LIQUID}"
    requests = [one for one in stage.model.requests for one in one.messages]
    assert all("42" not in one.text and "hidden-91" not in one.text for one in requests)
    texts = [text for _, text in stage.prompt()]
    assert texts[0].startswith(f"To {LIQUID} of {LIQUID}.")
    assert texts.count(LIQUID) == 4, "a greeting, two turns, an insert"
    for text in (f"<{LIQUID}>", f"[{LIQUID}]", f"## said\n{LIQUID}"):
        assert text in texts
    assert [one.user for one in await session.turns()][1:] == [LIQUID, LIQUID]


test_hole_30_no_words_are_ever_a_template = stage_test(_rendered, echo)


async def _values(stage: Stage) -> None:
    """`{{` in a value comes out as it went in, through every kind that makes texts."""
    value = "{{ user.name }} {% if x %}"
    used = profile(
        op("a", f"{{% raw %}}{value}{{% endraw %}}", keep("a")),
        {
            "operation_id": "t",
            "kind": "transform",
            "order": 2,
            "depends_on": ["a"],
            "params": {"input": "art.a", "steps": [{"op": "case", "to": "upper"}], "effects": [keep("t")]},
        },
        {
            "operation_id": "c",
            "kind": "compute",
            "order": 3,
            "depends_on": ["t"],
            "params": {
                "code": "def run(ctx):\n    return ctx.art['t'].value + ctx.art['a'].value",
                "effects": [keep("c")],
            },
        },
        after("m", "{{ art.c.value }}", {"type": "turn.assistant_variant.patch"}),
    )
    turn = await (await stage.chat(used)).generate("x")
    assert turn.text == value.upper() + value


test_hole_30_values_are_never_rendered_again = stage_test(_values)
