"""The models that an operation asks: fallbacks in turn, each with a bound, and prompts that are cached."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Policy, Price, Session
from artelier.errors import ContextTooLong, ModelRefusedCall, ModelReplyBroken, ProviderUnavailable
from artelier.kernel import events as kev
from artelier.operations import events as ev
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.ports.model import Usage, is_tail
from artelier.testing import ScriptedModel
from artelier.testing.openai_server import OpenAIServer
from artelier.testing.providers import StrictAnthropic
from tests.kernel.stage import PRICE, events, play
from tests.operations.kinds.stage import Bench, problems
from tests.operations.rp import replayed

FORM = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}
ASKED = {"prompt": "Mood of {{ text }}", "model": "a", "fallbacks": ["b"]}
PATIENCE = Policy(backoff_s=0, attempts_max=2)


def open_with(folder: Path, **models: ScriptedModel) -> Kernel:
    return Kernel.open(folder / "s.db", models=models, policy=PATIENCE, environ={})


def profile_of(params: dict[str, Any], kind: str = "llm") -> OperationProfile:
    mood = {"operation_id": "mood", "kind": kind, "order": 1, "params": params}
    return OperationProfile.parse({"profile_id": "p", "operations": [mood]})


async def ended(kernel: Kernel, run_id: str) -> ev.OperationFinished:
    return next(one.decode() for one in await events(kernel, run_id) if one.kind == "operation.finished")  # pyright: ignore[reportReturnType]


# Fallbacks


@pytest.mark.parametrize(
    ("error", "calls"), [(ProviderUnavailable("down"), 2), (ModelRefusedCall("no quota"), 1)]
)
def test_a_fallback_answers_for_a_model_that_fails_and_a_replay_asks_nobody(
    tmp_path: Path, error: Exception, calls: int
) -> None:
    first, second, main = ScriptedModel([error] * calls), ScriptedModel(["calm"]), ScriptedModel(["Hi."])

    async def scenario() -> None:
        with open_with(tmp_path, a=first, b=second, m=main) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=profile_of(ASKED))
            turn = await session.generate("Hello")
            assert (turn.status, turn.operations) == ("completed", {"mood": "done"})
            runs, at = kernel.for_tenant(), "before_main_llm/mood/model"
            assert (await runs.manifest(turn.run_id, at)).model == "openai:a"
            assert (await runs.manifest(turn.run_id, f"{at}/fallback-1")).model == "openai:b"
            assert (await replayed(kernel, turn.run_id)).status == "completed"
            await runs.export(turn.run_id, tmp_path / "r.artelier")
            assert kernel.verify().ok

    play(scenario())

    assert [len(one.requests) for one in (first, second, main)] == [calls, 1, 1]
    assert first.requests[0].messages == second.requests[0].messages


def test_a_prompt_that_is_too_long_is_not_sent_to_another_model(tmp_path: Path) -> None:
    second = ScriptedModel([])

    async def scenario() -> None:
        with open_with(tmp_path, a=ScriptedModel([ContextTooLong("full")]), b=second) as kernel:
            assert await Bench(kernel).code("llm", ASKED) == "context_too_long"

    play(scenario())

    assert not second.requests


def test_when_all_models_fail_the_operation_has_the_last_failure(tmp_path: Path) -> None:
    models = {name: ScriptedModel([ProviderUnavailable(f"{name} is down")] * 2) for name in "ab"}

    async def scenario() -> None:
        with open_with(tmp_path, **models) as kernel:
            error = await Bench(kernel).error("llm", ASKED)
        assert (error.code, "b is down" in str(error)) == ("provider_unavailable", True)

    play(scenario())


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"fallbacks": ["b", "nobody:knows"]}, "unknown_model"),
        ({"fallbacks": ["b", "forbidden"]}, "not_granted"),
        ({"fallbacks": ["b", "priceless"], "max_cost_usd": 5}, "price_unknown"),
    ],
)
def test_a_fallback_that_cannot_be_asked_is_said_before_any_model_is(
    tmp_path: Path, more: dict[str, Any], code: str
) -> None:
    models = {name: ScriptedModel([]) for name in ("a", "b", "forbidden")}
    models["priceless"] = ScriptedModel([], price=None)

    async def scenario() -> None:
        policy = Policy(models=("openai:a", "openai:b", "openai:priceless", "nobody:*"))
        with Kernel.open(tmp_path / "s.db", models=models, policy=policy, environ={}) as kernel:
            assert await Bench(kernel).code("llm", {**ASKED, **more}) == code

    play(scenario())

    assert not any(one.requests for one in models.values())


def test_the_model_of_the_chat_is_asked_once_if_it_is_a_fallback_too(tmp_path: Path) -> None:
    model = ScriptedModel([ProviderUnavailable("down")] * 2)

    async def scenario() -> None:
        with open_with(tmp_path, m=model, b=ScriptedModel(["calm"])) as kernel:
            asked = {"prompt": "x", "fallbacks": ["openai:m", "b"]}
            assert await Bench(kernel).value("llm", asked) == "calm"

    play(scenario())


def test_a_guard_falls_back_and_its_fallback_repairs_what_it_has_said(tmp_path: Path) -> None:
    """Who has failed a moment ago is not asked again for the repair."""
    first = ScriptedModel([ModelRefusedCall("no")])
    second = ScriptedModel(["no json", '{"angry": true}'])

    async def scenario() -> None:
        with open_with(tmp_path, a=first, b=second) as kernel:
            asked = {**ASKED, "output_contract": ["angry"]}
            assert await Bench(kernel).value("guard", asked) == {"angry": True}

    play(scenario())


def test_a_model_that_hangs_is_followed_by_another_within_the_time_of_the_operation(tmp_path: Path) -> None:
    async def hang(_: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    async def scenario() -> None:
        models = {"a": ScriptedModel(hang), "b": ScriptedModel(["calm"]), "m": ScriptedModel(["Hi."])}
        with open_with(tmp_path, **models) as kernel:
            profile = profile_of({**ASKED, "attempt_timeout_s": 0.02})
            session = await Session.open(kernel, "c", model="m", profile=profile)
            turn = await session.generate("Hello")
            assert turn.operations == {"mood": "done"}
            told = [one.decode() for one in await events(kernel, turn.run_id)]
            failed = [one.code for one in told if isinstance(one, kev.ModelFailed)]
            assert failed == ["model_timeout"]

    play(scenario())


def test_a_cut_answer_of_a_fallback_is_asked_for_once_more(tmp_path: Path) -> None:
    cut = ModelReply(text="Once", finish_reason="length", usage=Usage(input_tokens=9, output_tokens=16_384))
    first = ScriptedModel([ModelRefusedCall("no")])

    async def scenario() -> None:
        with open_with(tmp_path, a=first, b=ScriptedModel([cut, "Once more."])) as kernel:
            assert await Bench(kernel).value("llm", ASKED) == "Once more."

    play(scenario())


@pytest.mark.parametrize(("allowed", "code"), [("0.002", "max_cost"), ("1", "")])
def test_a_fallback_that_costs_more_than_the_operation_may_is_not_asked(
    tmp_path: Path, allowed: str, code: str
) -> None:
    dear = ScriptedModel(lambda _: "calm", price=Price(input=Decimal(1), output=Decimal(500)))
    cheap = ScriptedModel([ModelRefusedCall("no")], price=PRICE)

    async def scenario() -> None:
        with open_with(tmp_path, a=cheap, b=dear) as kernel:
            asked = {**ASKED, "max_output_tokens": 5, "max_cost_usd": allowed}
            if code:
                assert await Bench(kernel).code("llm", asked) == code
            else:
                assert await Bench(kernel).value("llm", asked) == "calm"

    play(scenario())

    assert (len(cheap.requests), len(dear.requests)) == (1, 0 if code else 1)


@pytest.mark.parametrize(
    ("error", "code"), [(ModelRefusedCall("no"), ""), (ModelReplyBroken("half"), "max_cost")]
)
def test_a_model_that_failed_counts_towards_the_bound_if_it_is_billed(
    tmp_path: Path, error: Exception, code: str
) -> None:
    first = ScriptedModel(lambda _: error, price=PRICE)
    second = ScriptedModel(lambda _: "calm", price=PRICE)

    async def scenario() -> None:
        with open_with(tmp_path, a=first, b=second) as kernel:
            bench, asked = Bench(kernel), {**ASKED, "max_output_tokens": 50}
            refused = await bench.error("llm", {**asked, "max_cost_usd": 0})
            one_call = Decimal(str(refused.got).split()[0])
            asked["max_cost_usd"] = str(one_call * Decimal("1.5"))
            if code:
                assert await bench.code("llm", asked) == code
            else:
                assert await bench.value("llm", asked) == "calm"

    play(scenario())


# Params


@pytest.mark.parametrize(
    ("kind", "more", "problem"),
    [
        ("llm", {"fallbacks": ["a"]}, "fallbacks[0]: duplicate_model"),
        ("llm", {"fallbacks": ["b", "openai:a"]}, "fallbacks[1]: duplicate_model"),
        ("llm", {"model": None, "fallbacks": ["b", "b"]}, "fallbacks[1]: duplicate_model"),
        ("llm", {"tail": "{% if %}"}, "tail: invalid_template"),
        ("llm", {"attempt_timeout_s": 61}, "attempt_timeout_s: bad_timeout"),
        ("guard", {"output_contract": ["x"], "template": "true", "prompt": None}, "fallbacks: bad_guard"),
    ],
)
def test_problems_of_fallbacks_and_tails(kind: str, more: dict[str, Any], problem: str) -> None:
    assert problem in problems(kind, {**ASKED, **more})


def test_every_mistake_of_a_profile_is_named_with_its_place() -> None:
    from artelier.operations.profile.operation_profile import mistakes_in

    params = {**ASKED, "fallbacks": ["b", *"bcdefgh"], "tail": "{{ art.secret.value }}"}
    hidden = {"type": "artifact.upsert", "tag": "secret", "usage": "internal"}
    operations = [
        {"operation_id": "mood", "kind": "llm", "order": 1, "params": params},
        {
            "operation_id": "s",
            "kind": "template",
            "order": 2,
            "params": {"template": "x", "effects": [hidden]},
        },
    ]
    found = mistakes_in({"profile_id": "p", "operations": operations})
    assert [(one["path"], one["code"]) for one in found] == [("operations[0].params.fallbacks", "too_long")]
    params["fallbacks"] = ["b", "openai:b"]
    found = mistakes_in({"profile_id": "p", "operations": operations})
    assert [(one["path"], one["code"]) for one in found] == [
        ("operations[0].params.fallbacks[1]", "duplicate_model"),
        ("operations[0].params.tail", "usage_forbids_prompt"),
    ]


def test_profiles_without_the_new_params_are_stored_as_they_were() -> None:
    params = {"prompt": "x", "model": "a"}
    assert profile_of(params).data()["operations"][0]["params"] == params


# Caches


def test_what_changes_from_call_to_call_stands_behind_the_prompt(tmp_path: Path) -> None:
    model = ScriptedModel(["no json", '{"mood": "dark"}'])
    asked = {"system": "Judge.", "prompt": "Which mood?", "tail": "{{ text }}", "output": "json"}

    async def scenario() -> None:
        with open_with(tmp_path, m=model) as kernel:
            assert await Bench(kernel).value("llm", {**asked, "schema": FORM}) == {"mood": "dark"}

    play(scenario())

    first, repair = model.requests
    question = first.messages[1]
    assert question.text == "Which mood?\n\nI draw my sword!"
    assert [is_tail(one) for one in question.content if not isinstance(one, str)] == [False, True]
    assert repair.messages[:2] == first.messages and len(repair.messages) == 4


def test_what_stands_before_the_tail_is_read_from_the_cache_of_the_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = StrictAnthropic(["calm", "dark", "Hi.", "Ho."])
    asked = {
        "model": "anthropic:claude-sonnet-4-6",
        "system": "You judge moods. " * 800,
        "prompt": "Here are the moods that there are. " * 100,
        "tail": "{{ text }}",
    }

    async def scenario(kernel: Kernel) -> None:
        session = await Session.open(kernel, "c", model="m", profile=profile_of(asked))
        for text in ("I sing.", "I weep."):
            turn = await session.generate(text)
            assert turn.operations == {"mood": "done"}
            forecast = await kernel.for_tenant().cache_forecast(turn.run_id, "before_main_llm/mood/model")
            assert forecast is not None and forecast.billed is not None

    with OpenAIServer(strict) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url.removesuffix("/v1"))
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(["Hi.", "Ho."])}) as kernel:
            asyncio.run(scenario(kernel))

    assert strict.refusals == []
    first, second = strict.bills
    assert first.written_tokens > 4_000 and first.read_tokens == 0
    assert (second.read_tokens, second.written_tokens) == (first.written_tokens, 0)
    *_, marked, tail = strict.bodies[1]["messages"][-1]["content"]
    assert "cache_control" in marked and tail["text"] == "I weep." and "cache_control" not in tail
