"""Prompt artifacts: a template is rendered once, values are data, and what is missing has a name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import InvalidArtifact, InvalidRequest, NotFound
from artelier.world.mind_artifacts import (
    ChosenPrompt,
    MissingVariable,
    Reading,
    Skip,
    built_in,
    choose_prompt,
    facts_of,
    prompt_library,
    read_library,
    read_prompt,
    shipped_prompt,
    with_position,
)
from artelier.world.mind_artifacts.prompt import BUILT_IN, PROMPTS
from artelier.world.mind_artifacts.template import read_template
from tests.agents.strict_kinds import strict_kinds
from tests.artifacts.places import Place, in_place

VALUES = built_in(
    with_position(facts_of(agent_id="alice", tick=7, balance=100, my_artifacts=["tool", "notes"]), None, None)
)


def test_prompt_artifact_loading(tmp_path: Path) -> None:
    """A stored prompt, a version of it and a part of the shipped library are read and rendered."""

    async def story(here: Place) -> None:
        alice = here.as_("alice")
        await alice.write("alice_prompt", kind="prompt", content="I am {agent_id}.")
        await alice.write(
            "alice_prompt", kind="prompt", content={"template": "{who} has {balance}.", "variables": ["who"]}
        )
        await alice.write("genesis_prompt_library", kind="library", content=prompt_library())

        newest = read_prompt((await alice.read("alice_prompt")).content)
        first = read_prompt((await alice.read("alice_prompt@1")).content)
        part = read_prompt((await alice.read("genesis_prompt_library#ideate_base")).content)

        assert newest.render({**VALUES, "who": "Alice"}) == "Alice has 100."
        assert first.render(VALUES) == "I am alice."
        assert part.render(VALUES).startswith("You are alice, with 100 scrip, at tick 7.")
        with pytest.raises(NotFound):
            await alice.read("genesis_prompt_library#no_such_prompt")
        with pytest.raises(InvalidArtifact, match=r"{owner}, which is not declared"):
            await alice.write("alice_prompt", kind="prompt", content="I am {owner}.")
        assert (await alice.read("alice_prompt")).version == 2

    with strict_kinds():
        in_place(tmp_path, story)


def test_prompt_variable_substitution() -> None:
    prompt = read_prompt(
        {
            "template": 'Dear {name}, {count:,} of {items}; {ratio:.2f}. Reply {"next": {"to": []}}',
            "variables": [
                "name",
                {"name": "count", "type": "integer"},
                {"name": "items", "type": "array", "default": []},
                {"name": "ratio", "type": "number", "default": 0.5},
            ],
        }
    )

    assert prompt.render({"name": "Bob", "count": 1200, "items": ["a", "b"]}) == (
        'Dear Bob, 1,200 of a, b; 0.50. Reply {"next": {"to": []}}'
    )
    assert prompt.render({"name": "{count}", "count": 1}) == (
        'Dear {count}, 1 of none; 0.50. Reply {"next": {"to": []}}'
    )
    with pytest.raises(MissingVariable) as caught:
        prompt.render({"count": 1})
    assert caught.value.name == "name"
    with pytest.raises(InvalidRequest, match=r"{count} has another type"):
        prompt.render({"name": "Bob", "count": "many"})
    with pytest.raises(InvalidRequest, match=r"{count} has another type"):
        prompt.render({"name": "Bob", "count": True})


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ('{"a": {"b": [1, {"c": {}}]}}', '{"a": {"b": [1, {"c": {}}]}}'),
        ('{"a": {"b": {x}}}', '{"a": {"b": 5}}'),
        ('{{"a": {{"b": 1}}}}', '{"a": {"b": 1}}'),
        ('{{"a": {x}}}', '{"a": 5}'),
        ("{{x}}", "{x}"),
        ("{{{x}}}", "{5}"),
        ("{{ {x} } }", "{{ 5 } }"),
        ("def f():\n    return {1: {x}}", "def f():\n    return {1: 5}"),
        ("a } b { c }} d {{ e", "a } b { c }} d {{ e"),
        ("{} {0} {x[0]} {x:>99999} { x }", "{} {0} {x[0]} {x:>99999} { x }"),
        ("{x!r} {x!s} {x:3d}|{x:<3}|", "5 5   5|5  |"),
        ("{d.key} {d.in.ner}", "value true"),
        ("", ""),
    ],
)
def test_braces_that_are_no_placeholders_stay_what_they_are(template: str, text: str) -> None:
    values = {"x": 5, "d": {"key": "value", "in": {"ner": True}}}

    assert read_template(template).render(values) == text


@pytest.mark.parametrize("template", ["Hi {a}!", "{a} and {b}: {{{a}}}", "{{}}", "{a:>6}|{b:.1f}|"])
def test_templates_of_str_format_give_what_str_format_gives(template: str) -> None:
    values = {"a": "x{b}", "b": 2.25}

    assert read_template(template).render(values) == template.format(**values)


@pytest.mark.parametrize(
    "template", ["{agent_id.__class__}", "{tick.real}", "{balance.to_bytes}", "{my_artifacts.sort}"]
)
def test_attributes_of_values_are_not_reached(template: str) -> None:
    with pytest.raises(MissingVariable):
        read_prompt(template).render(VALUES)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{secret}", "{secret}, which is not declared"),
        ({"template": "{a} {b}", "variables": ["a"]}, "{b}, which is not declared"),
        ({"template": 7}, "invalid template"),
        ({}, "invalid template"),
        (b"bytes", "invalid content"),
        ({"template": "x", "variables": "x"}, "invalid variables"),
        ({"template": "x", "variables": ["a", "a"]}, "declared twice"),
        ({"template": "x", "variables": ["a-b"]}, "invalid name"),
        ({"template": "x", "variables": ["a.b"]}, "invalid name"),
        ({"template": "x", "variables": ["a:d"]}, "invalid name"),
        ({"template": "x", "variables": [7]}, "invalid content"),
        ({"template": "x", "variables": [{"type": "int"}]}, "invalid name"),
        ({"template": "x", "variables": [{"name": "a", "type": "file"}]}, "invalid type"),
        ({"template": "x", "variables": [{"name": "a", "type": []}]}, "invalid type"),
        ({"template": "x", "variables": [{"name": "a", "type": "int", "default": "1"}]}, "default of a"),
        ({"template": "x", "variables": [{"name": "a", "requred": True}]}, "no field 'requred'"),
        ({"template": "x", "code": "run()"}, "no field 'code'"),
        ({"template": "x", "variables": [f"v{n}" for n in range(101)]}, "invalid variables"),
        ("x" * 70_000, "too long"),
        ("{tick}" * 501, "too many"),
    ],
)
def test_a_bad_prompt_is_refused_when_saved(content: Any, why: str) -> None:
    with pytest.raises(InvalidArtifact) as caught:
        read_prompt(content)

    assert why in str(caught.value)


def test_a_bad_part_of_a_library_is_named() -> None:
    with pytest.raises(InvalidArtifact, match=r"prompts\.second: .*{gone}"):
        read_library({"prompts": {"first": "{tick}", "second": "{gone}"}})


GOOD, BAD = Reading(ref="p@2", content="{tick}"), Reading(ref="p@2", content="{gone}")
UNDECLARED = Reading(ref="p@2", content={"template": "{gone}"})


@pytest.mark.parametrize(
    ("reading", "inline", "source", "skipped"),
    [
        (GOOD, "inline", "p@2", ""),
        (None, "inline", "inline", ""),
        ("denied", "inline", "inline", "denied"),
        (BAD, "inline", "p@2", ""),
        (UNDECLARED, "inline", "inline", "broken: "),
        ("missing", None, "genesis_prompt_library#transition_base", "missing"),
        (None, "{gone}", "inline", ""),
    ],
)
def test_a_reference_that_dangles_gives_way(
    reading: Reading | Skip | None, inline: str | None, source: str, skipped: str
) -> None:
    chosen = choose_prompt(reading, inline=inline, shipped="transition_base")

    assert chosen.prompt is not None
    assert chosen.source == source
    assert chosen.skipped.startswith(skipped) and bool(chosen.skipped) is bool(skipped)


def test_without_any_prompt_there_is_none() -> None:
    assert choose_prompt("deleted") == ChosenPrompt(skipped="deleted")
    assert choose_prompt(None).missing


def test_the_result_of_an_action_is_cut_before_it_fills_the_prompt() -> None:
    action = {"type": "read", "success": True, "result": {"text": "é" * 50_000}}
    facts = facts_of(agent_id="alice", tick=7, balance=1, last_action=action)

    text = read_prompt("{last_action_result}").render(built_in(facts))

    assert len(text.encode()) <= 8_000
    assert text.endswith("bytes in all]")
    assert facts["last_action"]["result"] == action["result"]


def test_placeholders_cannot_multiply_a_long_value_without_end() -> None:
    prompt = read_prompt("{recent_memories}" * 500)

    with pytest.raises(InvalidRequest, match="too long"):
        prompt.render({"recent_memories": "x" * 10_000})


@pytest.mark.parametrize("value", [float("nan"), {"x": {1, 2}}, [object()]])
def test_a_value_that_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="no JSON"):
        read_prompt("{recent_memories}").render({"recent_memories": {"value": value}})


def test_each_shipped_prompt_renders_with_the_built_in_variables_alone() -> None:
    library = read_library(prompt_library())

    assert tuple(library) == PROMPTS
    assert len(PROMPTS) == 13
    for name, prompt in library.items():
        text = prompt.render(VALUES)
        assert "alice" in text, name
        assert len(text) > 400, name
        assert set(prompt.template.names) <= set(BUILT_IN), name
    assert '{"next_state": "<phase>", "reason": "<one sentence>"}' in library["transition_base"].render(
        VALUES
    )
    with pytest.raises(NotFound):
        shipped_prompt("../../wording")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner),
    max_leaves=15,
)


@given(json_values, st.sampled_from([None, 2]))
def test_any_json_in_a_template_stays_as_it_is(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)

    assert read_template(text).render({}) == text


@given(st.text("ab{}", max_size=12), st.text("xy{a}", max_size=8))
def test_a_value_is_never_rendered_again(template: str, value: str) -> None:
    marked = f"\x00{value}\x00"
    rendered = read_template(template).render(dict.fromkeys(read_template(template).names, marked))

    assert rendered.count(marked) == sum(not isinstance(p, str) for p in read_template(template).pieces)


@given(st.text("ab{}:.!rs0", max_size=20))
def test_no_template_breaks_the_engine(template: str) -> None:
    read = read_template(template)

    try:
        read.render(dict.fromkeys(read.names, "v"))
    except InvalidRequest:
        pass  # a format for numbers, or a key of a text


@pytest.mark.parametrize("reading", [None, Reading(ref="p@2", content="Say {tick} as {brace.x!r}.")])
def test_a_stray_brace_of_a_plain_prompt_stays_and_the_rest_is_rendered(reading: Reading | None) -> None:
    chosen = choose_prompt(reading, inline="Say {tick} as {brace.x!r}.")

    assert chosen.prompt is not None
    assert chosen.prompt.render({"tick": 7, "x": 1}) == "Say 7 as {brace.x!r}."
