"""Models fail: passing failures are tried again, others are recorded, and no failure is for ever."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelReply, ModelRequest, Policy, Run, ToolCall
from artelier.errors import (
    ArtelierError,
    ContextTooLong,
    InvalidRequest,
    ModelRefusedCall,
    ModelReplyBroken,
    ModelTimeout,
    NotGranted,
    OutputInvalid,
    ProviderUnavailable,
    RateLimited,
    UnknownModel,
)
from artelier.ports.model import Usage
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.kernel.stage import (
    ACME,
    PRICE,
    ask,
    assert_conserved,
    billed,
    drive,
    echo,
    events,
    kinds,
    open_kernel,
    pass_time,
    play,
    result_of,
    user,
)


async def _ask(run: Run) -> str:
    return await ask(run, "x")


def test_passing_failures_are_tried_again_with_growing_pauses_each_an_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        start = clock.now_us()
        model = ScriptedModel(
            [ProviderUnavailable("503"), RateLimited("429", retry_after_s=7.5), ModelTimeout("slow"), "ok"]
        )
        policy = Policy(backoff_s=0.5, attempts_max=4)
        with open_kernel(tmp_path, model, clock=clock, policy=policy) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, _ask))
            assert await pass_time(clock, work) == "completed"
            assert await result_of(runs) == "ok"
            assert clock.now_us() - start == 500_000 + 7_500_000 + 2_000_000
            attempts = [
                (data["attempt"], data["code"], data["wait_ms"])
                for data in (e.plain() for e in await events(kernel) if "attempted" in e.kind)
            ]
            assert attempts == [
                (1, "provider_unavailable", 500),
                (2, "rate_limited", 7500),
                (3, "model_timeout", 2000),
            ]
        model.assert_done()

    play(scenario())


@pytest.mark.parametrize("told", [float("nan"), -5.0, 10**9])
def test_an_absurd_retry_after_is_not_believed(tmp_path: Path, told: float) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        start = clock.now_us()
        model = ScriptedModel([RateLimited("429", retry_after_s=told), "ok"])
        with open_kernel(tmp_path, model, clock=clock, policy=Policy()) as kernel:
            work = asyncio.create_task(drive(kernel.for_tenant(), _ask))
            assert await pass_time(clock, work) == "completed"
            assert clock.now_us() - start <= 120_000_000

    play(scenario())


@pytest.mark.parametrize(
    ("failure", "family"),
    [
        (ProviderUnavailable("503"), "transient"),
        (ModelReplyBroken("cut off"), "transient"),
        (ModelTimeout("slow"), "timeout"),
        (ModelRefusedCall("content policy"), "permanent"),
        (ContextTooLong("too long"), "permanent"),
        (ZeroDivisionError("a bug in a port"), "permanent"),
    ],
)
def test_a_failure_for_good_fails_the_run_and_retry_reopens_it(
    tmp_path: Path, failure: Exception, family: str
) -> None:
    async def code(run: Run) -> Any:
        first = await ask(run, "before")
        return [first, await ask(run, "x"), await ask(run, "after")]

    async def scenario() -> None:
        count = 4 if family in ("transient", "timeout") else 1
        if isinstance(failure, ModelTimeout):
            count = 4
        model = ScriptedModel(["b", *[failure] * count, "x", "a"], price=PRICE)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            reason = getattr(failure, "code", type(failure).__name__)
            for _ in range(2):  # the second time from the record, without a call
                with pytest.raises((type(failure), ArtelierError)):
                    async with runs.run("r") as run:
                        await code(run)
                shown = await runs.show("r")
                assert (shown["status"], shown["reason"]) == ("failed", reason)
                assert str(failure) in shown["message"]
            data = next(e.plain() for e in await events(kernel, tenant="acme") if e.kind == "model.failed")
            assert (data["family"], data["code"]) == (family, reason)
            await assert_conserved(kernel, "acme")

            await runs.retry("r")
            assert (await runs.show("r"))["status"] == "pending"
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["b", "x", "a"]
        model.assert_done()

    play(scenario())


def test_a_failure_that_code_has_handled_stays_recorded_when_the_run_is_retried(tmp_path: Path) -> None:
    """Otherwise the retried run would take another way than the steps recorded after it."""

    async def code(run: Run) -> Any:
        try:
            answer = await ask(run, "first choice")
        except ModelRefusedCall:
            answer = await ask(run, "second choice")
        both = await run.gather(_branch("left"), _branch("right"))
        return [answer, both, await ask(run, "end")]

    def _branch(name: str) -> Any:
        async def one(branch: Run) -> Any:
            try:
                return await ask(branch, name)
            except ModelRefusedCall:
                return await ask(branch, f"{name} again")

        return one

    refusing = {"first choice", "left", "end"}

    def answer(request: ModelRequest) -> Any:
        text = request.messages[-1].text
        return ModelRefusedCall("no") if text in refusing else f"re: {text}"

    async def scenario() -> None:
        model = ScriptedModel(answer)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "failed: model_refused_call"
            refusing.clear()
            await runs.retry("r")
            reopened = (await events(kernel))[-1]
            assert reopened.plain()["steps"] == ["4"]
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["re: second choice", ["re: left again", "re: right"], "re: end"]

    play(scenario())


def test_all_branches_that_failed_together_are_tried_again_together(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        def branch(name: str) -> Any:
            async def one(inner: Run) -> Any:
                return [await ask(inner, f"{name}{number}") for number in range(3)]

            return one

        return await run.gather(branch("a"), branch("b"), branch("c"))

    down = {"a0", "c1"}

    def answer(request: ModelRequest) -> Any:
        text = request.messages[-1].text
        return ModelRefusedCall("no") if text in down else text

    async def scenario() -> None:
        model = ScriptedModel(answer)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "failed: model_refused_call"
            down.clear()
            await runs.retry("r")
            assert await drive(runs, code) == "completed"
            texts = [request.messages[-1].text for request in model.requests]
            assert sorted(set(texts)) == [f"{name}{n}" for name in "abc" for n in range(3)]
            assert len(texts) == 9 + 2

    play(scenario())


def test_a_model_that_does_not_answer_is_timed_out(tmp_path: Path) -> None:
    class Silent:
        calls = 0

        async def complete(self, request: ModelRequest, /) -> ModelReply:
            self.calls += 1
            if self.calls < 3:
                await asyncio.Event().wait()
            return ModelReply(text="at last")

    async def scenario() -> None:
        model = Silent()
        with open_kernel(tmp_path, model, prices={"m": PRICE}) as kernel:
            async with kernel.run("r") as run:
                assert await ask(run, "x", timeout_s=0.01) == "at last"
            assert (await kinds(kernel)).count("model.attempted") == 2

    play(scenario())


@pytest.mark.parametrize(
    "reply",
    [
        None,
        "text",
        {"text": "a dict"},
        ModelReply(text="a\ud800"),
        ModelReply(text=7),  # pyright: ignore[reportArgumentType]
        ModelReply(text="x", usage=Usage(output_tokens=-5)),
        ModelReply(text="x", usage=Usage(input_tokens=1.5)),  # pyright: ignore[reportArgumentType]
        ModelReply(output={"x": object()}),
        ModelReply(tool_calls=("look",)),  # pyright: ignore[reportArgumentType]
    ],
    ids=lambda reply: type(reply).__name__,
)
def test_a_reply_that_is_none_is_a_broken_reply_and_every_attempt_is_billed(
    tmp_path: Path, reply: Any
) -> None:
    class Port:
        async def complete(self, request: ModelRequest, /) -> Any:
            return reply

    async def scenario() -> None:
        with open_kernel(tmp_path, Port(), prices={"m": PRICE}) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, _ask) == "failed: model_reply_broken"
            found = await assert_conserved(kernel, "acme")
            assert 5_000_000 - found["tenant"] == found["spent"] > 0
            attempts = [e for e in await events(kernel, tenant="acme") if "cost" in e.plain()]
            assert [e.kind for e in attempts] == ["model.attempted"] * 3 + ["model.failed"]

    play(scenario())


def test_nested_tool_arguments_without_end_are_a_broken_reply(tmp_path: Path) -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    reply = ModelReply(tool_calls=(ToolCall(id="1", name="look", arguments=value),))

    class Port:
        async def complete(self, request: ModelRequest, /) -> Any:
            return reply

    async def scenario() -> None:
        with open_kernel(tmp_path, Port(), prices={"m": PRICE}) as kernel:
            assert await drive(kernel.for_tenant(), _ask) == "failed: model_reply_broken"

    play(scenario())


def test_a_reply_of_ten_megabytes_is_kept_and_one_of_forty_is_paid_for_and_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        usage = Usage(input_tokens=10, output_tokens=100)
        model = ScriptedModel(
            [
                ModelReply(text="ab" * 5_000_000, usage=usage),
                ModelReply(text="ab" * 20_000_000, usage=usage),
                ModelReply(tool_calls=(tool_call("t", {"x": "ab" * 20_000_000}),), usage=usage),
            ],
            price=PRICE,
        )
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            async with runs.run("r") as run:
                assert len(await ask(run, "ten")) == 10_000_000
                for name in ("forty", "arguments"):
                    with pytest.raises(ModelRefusedCall, match="too large"):
                        await ask(run, name)
            assert (await assert_conserved(kernel, "acme"))["spent"] == 3 * 210
            assert (tmp_path / "s.db").stat().st_size < 2_000_000, "compressed"
            async with runs.run("r") as run:
                assert len(await ask(run, "ten")) == 10_000_000

    play(scenario())


@dataclass
class Report:
    title: str
    pages: int


SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "pages": {"type": "integer"}},
    "required": ["title", "pages"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("output", [Report, SCHEMA])
def test_structured_output_is_checked_and_a_misfit_can_be_retried(tmp_path: Path, output: Any) -> None:
    good: dict[str, Any] = {"title": "t", "pages": 3}

    async def code(run: Run) -> Any:
        reply = await run.step_model(model="m", messages=[user("x")], output=output)
        found = reply.output
        if isinstance(found, Report):
            return [found.title, found.pages]
        return [found["title"], found["pages"]]

    async def scenario() -> None:
        model = ScriptedModel(["no json", good | {"pages": "three"}, '{"title": "t"}', good])
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            for attempt in range(3):
                if attempt:
                    await runs.retry("r")
                for _ in range(2):
                    with pytest.raises(OutputInvalid) as error:
                        async with runs.run("r") as run:
                            await code(run)
                    assert error.value.facts["reply"].text
                assert (await runs.show("r"))["reason"] == "output_invalid"
            await runs.retry("r")
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["t", 3]
            assert len(model.requests) == 4
            assert (await runs.render("r", "1")).output_schema is not None

    play(scenario())


def test_output_is_the_same_value_live_and_replayed(tmp_path: Path) -> None:
    """A port may hand over tuples; what is used is what is stored."""

    class Port:
        async def complete(self, request: ModelRequest, /) -> ModelReply:
            return ModelReply(output={"pair": (1, 2), "n": {"x": None}})

    async def code(run: Run) -> Any:
        reply = await run.step_model(model="m", messages=[user("x")], output={"type": "object"})
        assert reply.output == {"pair": [1, 2], "n": {"x": None}}
        return reply.output

    async def scenario() -> None:
        with open_kernel(tmp_path, Port(), prices={"m": PRICE}) as kernel:
            assert await drive(kernel.for_tenant(), code) == "completed"
            assert await drive(kernel.for_tenant(), code) == "completed"

    play(scenario())


def test_mistakes_at_the_door_record_no_request_and_can_be_mended(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, {"m": model}) as kernel:
            runs = kernel.for_tenant()
            async with runs.run("r", grants=["tools:*", "models:openai:m"]) as run:
                for wrong, error in (
                    ({"model": ""}, UnknownModel),
                    ({"model": "nobody:knows"}, UnknownModel),
                    ({"model": "offline"}, NotGranted),
                    ({"messages": []}, InvalidRequest),
                    ({"messages": "text"}, InvalidRequest),
                    ({"messages": [{"role": "nobody", "content": "x"}]}, InvalidRequest),
                    ({"messages": [{"role": "user", "text": "x"}]}, InvalidRequest),
                    ({"messages": [user("a\ud800")]}, InvalidRequest),
                    ({"messages": [user("x")], "stop": object()}, InvalidRequest),
                    ({"max_output_tokens": 0}, InvalidRequest),
                    ({"max_output_tokens": "many"}, InvalidRequest),
                    ({"output": object}, InvalidRequest),
                    ({"tools": ["no_such"]}, InvalidRequest),
                ):
                    request: dict[str, Any] = {"model": "m", "messages": [user("x")]} | wrong
                    with pytest.raises(error):
                        await run.step_model(**request)
                assert await ask(run, "good") == "re: good"
            found = [kind for kind in await kinds(kernel) if kind.startswith("model")]
            assert found == ["model.requested", "model.completed"]
            assert len(model.requests) == 1

    play(scenario())


def test_a_pause_between_attempts_is_obeyed_and_a_cancel_ends_the_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        model = ScriptedModel([RateLimited("429", retry_after_s=100), billed("ok")], price=PRICE)
        with open_kernel(tmp_path, model, clock=clock) as kernel:
            runs = kernel.for_tenant(ACME)
            from artelier import RunStopped

            work = asyncio.create_task(drive(runs, _ask))
            async with asyncio.timeout(5):
                while clock.next_us is None:
                    await asyncio.sleep(0.001)
            await runs.cancel("r")
            with pytest.raises(RunStopped):
                await work
            assert (await runs.show("r"))["status"] == "cancelled"
            assert (await assert_conserved(kernel, "acme"))["tenant"] == 5_000_000

    play(scenario())


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"kind": "c", "tags": [], "deep": {"n": 1}}, r"\$\.kind is not one of"),
        ({"kind": "a", "tags": ["x", 3], "deep": {"n": 1}}, r"\$\.tags\[1\] has the wrong type"),
        ({"kind": "a", "tags": "x", "deep": {"n": 1}}, r"\$\.tags has the wrong type"),
        ({"kind": "a", "tags": [], "deep": {}}, r"\$\.deep lacks a property"),
        ({"kind": "a", "tags": [], "deep": {"n": True}}, r"\$\.deep\.n has the wrong type"),
        ({"kind": "a", "tags": [], "deep": {"n": 1.5}}, r"\$\.deep\.n has the wrong type"),
        ({"kind": "a", "tags": [], "deep": {"n": 1}, "x": 1}, r"\$ has a property that is not"),
        ([], r"\$ has the wrong type"),
    ],
)
def test_a_misfit_is_named_by_its_place(tmp_path: Path, value: Any, where: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        },
        "required": ["kind", "tags", "deep"],
        "additionalProperties": False,
    }

    async def scenario() -> None:
        model = ScriptedModel([ModelReply(output=value)])
        with open_kernel(tmp_path, model) as kernel:
            with pytest.raises(OutputInvalid, match=where):
                async with kernel.run("r") as run:
                    await run.step_model(model="m", messages=[user("x")], output_schema=schema)

    play(scenario())
