"""`transform`: declared steps over an artifact, the turn's text or a template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier.operations.kinds import kind_named
from tests.kernel.stage import open_kernel, play
from tests.operations.kinds.stage import Bench, art, problems, scope

UPPER = [{"op": "case", "to": "upper"}]
NOTHING = [{"op": "trim"}]

SEEN = scope(
    in_prompt=["open"],
    art={
        "open": art(" Hello "),
        "hidden": art({"hp": [1, 2]}),
        "liquid": art("{{ user.name }}"),
        "huge": art("x" * 900_000),
    },
)

GOOD: list[tuple[dict[str, Any], Any]] = [
    ({"input": "art.open", "steps": NOTHING}, "Hello"),
    ({"input": "art.liquid", "steps": UPPER}, "{{ USER.NAME }}"),
    ({"input": "art.hidden", "steps": [{"op": "extract", "path": "$.hp[1]"}]}, 2),
    (
        {
            "input": "art.hidden",
            "steps": [{"op": "json_patch", "patch": [{"op": "add", "path": "/hp/-", "value": 3}]}],
        },
        {"hp": [1, 2, 3]},
    ),
    ({"input": "turn.text", "steps": UPPER}, "I DRAW MY SWORD!"),
    ({"input": "{{ user.name }}: {{ art.open.value }}", "steps": NOTHING}, "Ann:  Hello"),
    ({"input": "{{ nobody }}x", "strict": False, "steps": UPPER}, "X"),
    (
        {"input": "turn.text", "steps": [{"op": "regex", "pattern": "s(w)ord", "replace": r"\1"}]},
        "I draw my w!",
    ),
]

BAD: list[tuple[dict[str, Any], str]] = [
    ({"input": "art.none", "steps": NOTHING}, "missing_input"),
    ({"input": "{{ nobody.x }}", "steps": NOTHING}, "template_undefined"),
    ({"input": "art.hidden", "steps": UPPER}, "transform_error"),
    ({"input": "turn.text", "steps": [{"op": "extract", "path": "$.x"}]}, "transform_error"),
    ({"input": "art.hidden", "steps": [{"op": "extract", "path": "$.x"}]}, "transform_no_match"),
    (
        {"input": "art.huge", "steps": [{"op": "regex", "pattern": "x", "replace": "yyyy"}]},
        "transform_too_large",
    ),
]


def test_steps_change_the_input(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            for params, value in GOOD:
                assert await bench.value("transform", params, seen=SEEN) == value, params

    play(scenario(), within_s=60)


def test_turn_text_is_the_reply_after_the_main_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            params = {"input": "turn.text", "steps": UPPER}
            seen = scope(reply="So be it.")
            assert await Bench(kernel).value("transform", params, seen=seen) == "SO BE IT."

    play(scenario())


def test_errors_of_transforms_have_codes(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            for params, code in BAD:
                assert await bench.code("transform", params, seen=SEEN) == code, params

    play(scenario(), within_s=60)


def test_internal_artifact_cannot_be_carried_into_a_prompt(tmp_path: Path) -> None:
    inserted = {"effects": [{"type": "prompt.insert_after_last_user"}], "steps": NOTHING}

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            for text in ("art.hidden", "{{ art.hidden.value }}"):
                params = {"input": text, **inserted}
                code = await bench.code("transform", params, seen=SEEN)
                assert code in ("missing_input", "template_undefined")
            params = {"input": "art.open", **inserted}
            assert await bench.value("transform", params, seen=SEEN) == "Hello"

    play(scenario())


def test_inputs_into_prompts_are_told_to_who_validates() -> None:
    kind = kind_named("transform")
    effects = [{"type": "prompt.insert_after_last_user"}]
    for text, told in (
        ("art.hidden", {"input": "{{ art.hidden.value }}"}),
        ("{{ art.hidden.value }}", {"input": "{{ art.hidden.value }}"}),
        ("turn.text", {}),
    ):
        params = {"input": text, "steps": NOTHING, "effects": effects}
        assert kind.templates(kind.params.model_validate(params)) == told
        assert kind.templates(kind.params.model_validate({**params, "effects": []})) == {}


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"input": "world", "steps": NOTHING}, "input: bad_input"),
        ({"input": "art.Bad", "steps": NOTHING}, "input: bad_input"),
        ({"input": "{{", "steps": NOTHING}, "input: invalid_template"),
        ({"input": "turn.text", "steps": [{"op": "shout"}]}, "steps[0]: bad_steps"),
        (
            {"input": "turn.text", "steps": [*UPPER, {"op": "regex", "pattern": "(", "replace": ""}]},
            "steps[1].pattern: bad_steps",
        ),
        ({"input": "turn.text", "steps": [7]}, "steps[0]: bad_steps"),
    ],
)
def test_problems_of_transform_params(params: dict[str, Any], problem: str) -> None:
    assert problem in problems("transform", params)


@pytest.mark.parametrize(
    "params",
    [
        {"input": "", "steps": NOTHING},
        {"input": "turn.text", "steps": []},
        {"input": "turn.text"},
        {"input": "turn.text", "steps": NOTHING * 65},
        {"input": "turn.text", "steps": "trim"},
        {"input": 5, "steps": NOTHING},
    ],
)
def test_transform_params_out_of_form_are_refused(params: dict[str, Any]) -> None:
    from pydantic import ValidationError

    with pytest.raises(ValidationError):
        kind_named("transform").params.model_validate(params)
