"""`template`: text rendered once over what may stand where it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier.operations.kinds import kind_named
from artelier.operations.kinds.contract import parse_json
from tests.kernel.stage import open_kernel, play
from tests.operations.kinds.stage import Bench, art, problems, scope

SECRETS = scope(
    in_prompt=["open", "whisper"],
    in_ui=["open", "panel"],
    art={name: art(f"<{name}>") for name in ("open", "whisper", "panel", "hidden")},
)


def _wrote(usage: str, **more: Any) -> dict[str, Any]:
    return {"type": "artifact.upsert", "tag": "out", "usage": usage, **more}


def _said(type_: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, **more}


def test_template_gives_text_or_json(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"template": "{{ user.name }} and {{ char.name }}"}, "Ann and Bo"),
        ({"template": "{{ chat_history[0].content }}"}, "Hello {{ art.secret.value }}"),
        ({"template": "{{ nobody.name }}!", "strict": False}, "!"),
        ({"template": '{"n": {{ chat.turn }}}', "output": "json"}, {"n": 2}),
        ({"template": "```json\n[1, 2]\n```", "output": "json"}, [1, 2]),
        ({"template": ""}, ""),
    ]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            for params, value in cases:
                assert await bench.value("template", params) == value, params

    play(scenario())


def test_template_errors_have_codes(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"template": "{{ nobody.name }}"}, "template_undefined"),
        ({"template": "{% for x in (1..1000000) %}a{% endfor %}"}, "template_limit"),
        ({"template": "no json", "output": "json"}, "output_invalid"),
        ({"template": "", "output": "json"}, "output_invalid"),
        ({"template": "1" * 60_000, "output": "json"}, "output_invalid"),
    ]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            for params, code in cases:
                assert await bench.code("template", params) == code, params

    play(scenario())


REACHED: list[tuple[dict[str, Any], set[str]]] = [
    (_wrote("internal"), {"open", "whisper", "panel", "hidden"}),
    (_wrote("prompt_only"), {"open", "whisper"}),
    (_wrote("ui_only"), {"open", "panel"}),
    (_wrote("prompt+ui"), {"open"}),
    (_wrote("prompt+ui", value="{{ value }}"), {"open"}),
    (_wrote("prompt+ui", value="fixed"), {"open", "whisper", "panel", "hidden"}),
    (_said("prompt.system_update", mode="append"), {"open", "whisper"}),
    (_said("prompt.insert_after_last_user"), {"open", "whisper"}),
    (_said("prompt.insert_at_depth", depth_from_end=0), {"open", "whisper"}),
    (_said("turn.user_variant.upsert_and_select"), {"open"}),
    (_said("turn.assistant_variant.patch"), {"open"}),
    (_said("turn.assistant_blocks.update"), {"open", "panel"}),
    (_said("turn.assistant_blocks.update", blocks=[{"prompt": True, "ui": False}]), {"open", "whisper"}),
]


def test_value_shows_only_what_may_stand_where_it_goes(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            for effect, reached in REACHED:
                shown = await bench.value(
                    "template", {"template": "{{ art | json }}", "effects": [effect]}, seen=SECRETS
                )
                seen = {name for name in SECRETS.names["art"] if f"<{name}>" in shown}
                assert seen == reached, effect

    play(scenario())


def test_templates_into_prompts_are_told_to_who_validates() -> None:
    kind = kind_named("template")
    for effect, reached in REACHED:
        params = kind.params.model_validate({"template": "x", "effects": [effect]})
        assert bool(kind.templates(params)) == ("panel" not in reached), effect


def test_broken_template_is_a_problem_of_its_params() -> None:
    assert problems("template", {"template": "{% if %}"}) == ["template: invalid_template"]
    assert problems("template", {"template": "{{ 'a"}) == ["template: invalid_template"]


@pytest.mark.parametrize(
    ("text", "value"),
    [(' {"a": 1} ', {"a": 1}), ('Sure:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}), ("```\nnull\n```", None)],
)
def test_json_is_read_also_from_one_code_fence(text: str, value: Any) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "NaN",
        "[1,]",
        "{'a': 1}",
        "1 2",
        '{"a": 1} and so on',
        "[" * 100_000,
        "```json\n{}\n```\n```json\n{}\n```",
        "```{}```",
        "```\n{}",
        '"\\ud800"',
        "9" * 5_000,
        "```" * 100_000,
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
