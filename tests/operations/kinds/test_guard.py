"""`guard`: exactly the flags of its contract, as booleans, or an error that may be made harmless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import RunSuspended
from artelier.errors import ProviderUnavailable
from artelier.kernel import Limits
from artelier.operations.kinds import OperationFailed, kind_named
from artelier.operations.kinds.guard import GuardParams, fallback_of
from artelier.testing import ScriptedModel
from tests.kernel.stage import open_kernel, play
from tests.operations.kinds.stage import Bench, art, problems, scope

ONE = ["is_combat"]
TWO = ["is_combat", "is_calm"]


def _by(template: str, flags: list[str] = TWO, **more: Any) -> dict[str, Any]:
    return {"output_contract": flags, "template": template, **more}


GOOD: list[tuple[dict[str, Any], dict[str, bool]]] = [
    (_by('{"is_calm": false, "is_combat": true}'), {"is_combat": True, "is_calm": False}),
    (_by("{% if text contains 'sword' %} True {% else %}false{% endif %}", ONE), {"is_combat": True}),
    (_by("FALSE", ONE), {"is_combat": False}),
    (_by('```json\n{"is_combat": true}\n```', ONE), {"is_combat": True}),
    (_by('{"is_combat": {{ art.hidden.value }}}', ONE), {"is_combat": True}),
]

BAD: list[tuple[dict[str, Any], str]] = [
    (_by("true"), "output_invalid"),
    (_by("yes", ONE), "output_invalid"),
    (_by("", ONE), "output_invalid"),
    (_by("1", ONE), "output_invalid"),
    (_by('{"is_combat": true}'), "output_invalid"),
    (_by('{"is_combat": true, "is_calm": "false"}'), "output_invalid"),
    (_by('{"is_combat": true, "is_calm": 0}'), "output_invalid"),
    (_by('{"is_combat": true, "is_calm": null}'), "output_invalid"),
    (_by('{"is_combat": true, "is_calm": false, "more": true}'), "output_invalid"),
    (_by("[true, false]"), "output_invalid"),
    (_by("{{ nobody.name }}"), "template_undefined"),
]


def test_guard_by_template_gives_the_flags(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            seen = scope(art={"hidden": art(True)})
            for params, flags in GOOD:
                found = await bench.found("guard", params, seen=seen)
                assert (found.value, found.details) == (flags, None), params
                assert list(found.value) == params["output_contract"]

    play(scenario())


def test_anything_else_is_an_error_or_all_false(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            bench = Bench(kernel)
            for params, code in BAD:
                assert await bench.code("guard", params) == code, params
                found = await bench.found("guard", {**params, "run_on_error": "all_false"})
                assert found.value == dict.fromkeys(params["output_contract"], False)
                assert found.details is not None
                assert found.details["error"]["code"] == code

    play(scenario())


def test_guard_by_model_is_held_to_its_contract(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(
            [
                '{"is_combat": true, "is_calm": "no"}',
                '{"is_combat": true, "is_calm": false}',
                '{"is_combat": true, "is_calm": false, "x": 1}',
                "again",
                ProviderUnavailable("down"),
                ProviderUnavailable("down"),
                ProviderUnavailable("down"),
                ProviderUnavailable("down"),
                ProviderUnavailable("down"),
            ]
        )
        params = {"output_contract": TWO, "prompt": "Fight? {{ text }}"}
        with open_kernel(tmp_path, model) as kernel:
            bench = Bench(kernel)
            flags = await bench.value("guard", params)
            assert flags == {"is_combat": True, "is_calm": False}
            assert await bench.code("guard", params) == "output_invalid"
            found = await bench.found("guard", {**params, "run_on_error": "all_false"})
            assert found.details is not None
            assert found.details["error"]["code"] == "provider_unavailable"
        schema = model.requests[0].output_schema
        assert schema is not None
        assert schema["required"] == TWO
        assert schema["additionalProperties"] is False

    play(scenario())


def test_internal_values_reach_no_prompt_of_a_guard(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(lambda _: "{}")
        with open_kernel(tmp_path, model) as kernel:
            params = {"output_contract": ONE, "prompt": "{{ art.hidden.value }}"}
            seen = scope(art={"hidden": art("hush")})
            assert await Bench(kernel).code("guard", params, seen=seen) == "template_undefined"
        assert not model.requests

    play(scenario())


def test_all_false_hides_no_spent_budget(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel(lambda _: "{}")) as kernel:
            bench = Bench(kernel, limits=Limits(tokens=1))
            params = {"output_contract": ONE, "prompt": "x", "run_on_error": "all_false"}
            with pytest.raises(RunSuspended):
                await bench.found("guard", params)

    play(scenario())


def test_guard_whose_time_is_up_may_be_all_false_too() -> None:
    late = OperationFailed("timeout", "no result in time")
    params = GuardParams.model_validate(_by("true", ONE, run_on_error="all_false"))
    found = fallback_of(params, late)
    assert found is not None
    assert found.value == {"is_combat": False}
    assert fallback_of(GuardParams.model_validate(_by("true", ONE)), late) is None


def test_guard_declares_its_keys_and_prompts() -> None:
    kind = kind_named("guard")
    asked = kind.params.model_validate({"output_contract": TWO, "prompt": "p", "system": "s"})
    assert kind.keys(asked) == frozenset(TWO)
    assert kind.templates(asked) == {"prompt": "p", "system": "s"}
    assert kind.templates(kind.params.model_validate(_by("x"))) == {}


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"output_contract": ONE}, "template: bad_guard"),
        (_by("x", prompt="y"), "template: bad_guard"),
        (_by("x", system="y"), "system: bad_guard"),
        (_by("x", ["a", "a"]), "output_contract: duplicate_keys"),
        (_by("{{"), "template: invalid_template"),
        ({"output_contract": ONE, "prompt": "{{"}, "prompt: invalid_template"),
    ],
)
def test_problems_of_guard_params(params: dict[str, Any], problem: str) -> None:
    assert problem in problems("guard", params)


@pytest.mark.parametrize(
    "flags", [[], ["Bad"], ["a b"], ["_x"], [1], "abc", ["a"] * 33, [f"f{n}" for n in range(33)]]
)
def test_contracts_out_of_form_are_refused(flags: Any) -> None:
    from pydantic import ValidationError

    with pytest.raises(ValidationError):
        kind_named("guard").params.model_validate({"output_contract": flags, "template": "true"})
