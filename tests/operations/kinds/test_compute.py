"""`compute`: code in the sandbox that sees the context, and gives the same value for the same context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier.operations.kinds import kind_named
from artelier.operations.template_engine.values import Messages, Named
from tests.kernel.stage import open_kernel, play
from tests.operations.kinds.stage import Bench, art, problems, scope

SEEN = scope(
    art={"world": art({"hp": 12}, history=[{"hp": 20}], version=4), "odd": art(None)},
    deps={"guard": {"is_combat": True}},
    rag={"lore": [{"text": "t", "score": 1.0, "ref": "x@1"}]},
)


def _code(*lines: str) -> dict[str, Any]:
    return {"code": "def run(ctx):\n" + "".join(f"    {line}\n" for line in lines)}


GOOD: list[tuple[dict[str, Any], Any]] = [
    (_code("return ctx.art['world'].value['hp'] - 2"), 10),
    (_code("world = ctx.art['world']", "return [world.history[0]['value'], world.version]"), [{"hp": 20}, 4]),
    (_code("return sorted(tag for tag in ctx.art)"), ["odd", "world"]),
    (
        _code("return [ctx.user['name'], ctx.char['name'], ctx.chat['turn'], ctx.run['id']]"),
        ["Ann", "Bo", 2, "r"],
    ),
    (
        _code("return [ctx.text, len(ctx.messages), ctx.chat_history[-1]['role'], ctx.reply]"),
        ["I draw my sword!", 3, "user", None],
    ),
    (
        _code("return [ctx.deps['guard']['is_combat'], ctx.rag['lore'][0]['ref'], ctx.now]"),
        [True, "x@1", "2026-03-01T12:00:00Z"],
    ),
    (_code("from datetime import datetime", "return str(datetime.now())[:19]"), "2026-03-01 12:00:00"),
    (_code("print('x' * 1000)", "return None"), None),
    ({"code": "import random\nclass _Part:\n    pass\ndef run(ctx, more=1):\n    return more"}, 1),
]

BAD: list[tuple[dict[str, Any], str]] = [
    (_code("return 1 / 0"), "code_error"),
    (_code("return ctx.nothing"), "code_error"),
    (_code("return ctx.art['none'].value"), "code_error"),
    (_code("raise ValueError('x' * 100000)"), "code_error"),
    (_code("return run(ctx)"), "code_error"),
    (_code("return open('/etc/passwd').read()"), "code_error"),
    (_code("import os", "return os.environ['HOME']"), "code_error"),
    ({**_code("while True:", "    pass"), "limits": {"time_ms": 50}}, "timeout"),
    (_code("return 'x' * 50_000_000"), "memory"),
    (
        {**_code("return 'x' * 50_000_000"), "limits": {"memory_bytes": 512 * 2**20, "time_ms": 10_000}},
        "too_large",
    ),
    (_code("return 'x' * 1_500_000"), "too_large"),
    (_code("return {1: 2}"), "not_json"),
    (_code("return float('nan')"), "not_json"),
    (_code("return 10 ** 300"), "not_json"),
    (_code("a = []", "a.append(a)", "return a"), "not_json"),
    (_code("return ctx.art['world']"), "not_json"),
]


def test_code_sees_the_context(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            for params, value in GOOD:
                assert await bench.value("compute", params, seen=SEEN) == value, params
            await kernel.aclose()

    play(scenario())


def test_code_that_fails_ends_with_a_code(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            for params, code in BAD:
                error: Any = await bench.error("compute", params, seen=SEEN)
                assert error.code == code, (params, str(error))
                assert len(str(error)) < 2_000
            await kernel.aclose()

    play(scenario(), within_s=60)


def test_chance_is_that_of_the_seed(tmp_path: Path) -> None:
    dice = _code("import random", "return [random.randint(1, 20) for _ in range(8)]")

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            rolls = [await bench.value("compute", dice, seed=seed) for seed in (7, 7, 8)]
            await kernel.aclose()
        assert rolls[0] == rolls[1] != rolls[2]

    play(scenario())


def test_code_cannot_change_what_others_see(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            params = _code("ctx.art['world'].value['hp'] = 0", "return ctx.art['world'].value")
            assert await Bench(kernel).value("compute", params, seen=SEEN) == {"hp": 0}
            await kernel.aclose()
        assert SEEN.names["art"]["world"]["value"] == {"hp": 12}

    play(scenario())


def test_names_for_templates_are_data_for_code(tmp_path: Path) -> None:
    seen = scope(
        user=Named(name="Ann", fields={"description": "tall"}),
        messages=Messages([{"role": "user", "content": "hi"}]),
    )

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            params = _code("return [ctx.user, ctx.messages]")
            value = await Bench(kernel).value("compute", params, seen=seen)
            await kernel.aclose()
        assert value == [{"name": "Ann", "description": "tall"}, [{"role": "user", "content": "hi"}]]

    play(scenario())


def test_code_may_return_effects_as_data(tmp_path: Path) -> None:
    effect = {"type": "artifact.upsert", "tag": "world", "value": 1}
    good = {**_code(f"return {{'value': 5, 'effects': [{effect!r}]}}"), "returns": "effects"}
    bad = [
        "5",
        "{'value': 1}",
        "{'value': 1, 'effects': 2}",
        "{'value': 1, 'effects': [2]}",
        "{'value': 1, 'effects': [], 'more': 1}",
    ]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            found = await bench.found("compute", good)
            assert (found.value, found.effects) == (5, (effect,))
            for text in bad:
                params = {**_code(f"return {text}"), "returns": "effects"}
                assert await bench.code("compute", params) == "bad_return", text
            huge = _code("return {'value': 1, 'effects': [{'value': 'x' * 1_500_000}]}")
            assert await bench.code("compute", {**huge, "returns": "effects"}) == "too_large"
            await kernel.aclose()

    play(scenario())


def test_context_too_large_for_the_sandbox_is_said(tmp_path: Path) -> None:
    seen = scope(art={"big": art("x" * 1_000_000)})

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            params = {**_code("return 1"), "limits": {"memory_bytes": 2**20}}
            assert await Bench(kernel).code("compute", params, seen=seen) == "too_large"
            await kernel.aclose()

    play(scenario())


@pytest.mark.parametrize(
    "code",
    [
        "x = 1",
        "def run():\n    pass",
        "def run(ctx, other):\n    pass",
        "def run(ctx:\n",
        "def run(ctx):\n    yield 1",
        "import socket\ndef run(ctx):\n    pass",
        "async def run(ctx):\n    pass",
        "def run(ctx):\n    return eval('1')" + "{" * 5_000,
        "def run(ctx):\n    pass\ndef run(ctx):\n    pass",
    ],
)
def test_code_that_cannot_run_is_a_problem_of_its_params(code: str) -> None:
    found = problems("compute", {"code": code})
    assert found
    assert set(found) == {"code: bad_code"}


@pytest.mark.parametrize(
    "more",
    [
        {"code": ""},
        {"code": "#" * 40_000},
        {"limits": {"time_ms": 60_000}},
        {"returns": "x"},
        {"limits": {"memory_bytes": 1}},
        {"limits": {"workers": 9}},
        {"code": None},
    ],
)
def test_compute_params_out_of_form_are_refused(more: dict[str, Any]) -> None:
    from pydantic import ValidationError

    with pytest.raises(ValidationError):
        kind_named("compute").params.model_validate({**_code("return 1"), **more})
