"""Forks share a history by reference, pay for what they change, and settle what their origin left open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Limits, Run, Tenant, ToolContext, tool
from artelier.errors import Conflict, InvalidRequest, ModelRefusedCall, NotFound, ToolFailed, UnknownModel
from artelier.kernel import events as ev
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.stage import (
    PRICE,
    assert_conserved,
    billed,
    drive,
    echo,
    events,
    kinds,
    open_kernel,
    play,
    result_of,
    user,
)


async def three_turns(run: Run) -> list[str]:
    """A conversation of three questions, each step a model call."""
    conversation = run.conversation()
    texts: list[str] = []
    for question in ("a", "b", "c"):
        conversation.append(user(question))
        reply = await run.step_model(model="m", messages=conversation)
        conversation.append(reply)
        texts.append(reply.text)
    return texts


async def seq_of(
    kernel: Kernel, kind: str, nth: int = 1, run_id: str = "r", *, tenant: str = "default"
) -> int:
    found = await events(kernel, run_id, tenant=tenant)
    return [event.seq for event in found if event.kind == kind][nth - 1]


def test_a_fork_shares_the_prefix_and_pays_only_for_what_comes_after(tmp_path: Path) -> None:
    model = echo(price=PRICE)

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            spent = len(model.requests)
            blobs = await kernel.store.query("SELECT count(*) FROM blobs")

            name = await runs.fork("r", at=await seq_of(kernel, "model.completed", 2))

            assert name == "r.fork-1"
            assert await kinds(kernel, name) == ["run.forked"]
            assert await kernel.store.query("SELECT count(*) FROM blobs") == blobs
            assert (await runs.show(name))["status"] == "pending"
            assert await drive(runs, three_turns, name) == "completed"
            assert await result_of(runs, name) == ["re: a", "re: b", "re: c"]
            assert len(model.requests) == spent + 1
            assert model.requests[-1].messages == model.requests[-2].messages
            shown = await runs.show(name)
            assert (shown["origin"], shown["steps"]) == ("r", 1)
            one = (await runs.show("r"))["cost_microusd"]
            assert 0 < shown["cost_microusd"] < one
            await assert_conserved(kernel, "default")

    play(scenario())


def test_a_fork_of_a_finished_run_at_its_head_calls_nothing(tmp_path: Path) -> None:
    model = echo()

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)

            name = await runs.fork("r", new_id="again")

            assert name == "again"
            assert await drive(runs, three_turns, name) == "completed"
            assert len(model.requests) == 3
            assert await result_of(runs, name) == await result_of(runs, "r")

    play(scenario())


def test_another_model_answers_the_new_steps_and_only_those(tmp_path: Path) -> None:
    old, new = echo(), ScriptedModel(lambda request: f"new: {request.messages[-1].text}")

    async def scenario() -> None:
        with open_kernel(tmp_path, {"m": old, "better": new}) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            at = await seq_of(kernel, "model.completed", 1)

            name = await runs.fork("r", at=at, with_={"model": "better", "steering": {"x": 1}})
            await drive(runs, three_turns, name)
            await drive(runs, three_turns, name)  # its own steps replay under the changed model

            assert await result_of(runs, name) == ["re: a", "new: b", "new: c"]
            assert (len(old.requests), len(new.requests)) == (3, 2)
            assert (await runs.manifest(name, "1")).model == "openai:m"
            assert (await runs.manifest(name, "2")).model == "openai:better"
            async with runs.run(name) as run:
                assert run.core.changes == {"model": "better", "steering": {"x": 1}}
                run.finish(await three_turns(run))

    play(scenario())


def test_forks_of_forks_read_every_ancestor_and_the_nearest_change_counts(tmp_path: Path) -> None:
    models = {
        name: ScriptedModel(lambda request, name=name: f"{name}: {request.messages[-1].text}")
        for name in ("m", "second", "third")
    }

    async def scenario() -> None:
        with open_kernel(tmp_path, models) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            first = await runs.fork(
                "r", at=await seq_of(kernel, "model.completed", 1), with_={"model": "second"}
            )
            await drive(runs, three_turns, first)
            at = await seq_of(kernel, "model.completed", 1, first)

            same = await runs.fork(first, at=at)
            other = await runs.fork(first, at=at, with_={"model": "third"})
            own = await runs.fork(first, at=at, with_={"model": None})
            for name in (same, other, own):
                await drive(runs, three_turns, name)

            assert await result_of(runs, same) == ["m: a", "second: b", "second: c"]
            assert await result_of(runs, other) == ["m: a", "second: b", "third: c"]
            assert await result_of(runs, own) == ["m: a", "second: b", "m: c"]
            assert {name: len(model.requests) for name, model in models.items()} == {
                "m": 4,
                "second": 3,
                "third": 1,
            }

    play(scenario())


def test_every_prompt_of_a_fork_renders_to_the_bytes_that_were_sent(tmp_path: Path) -> None:
    model = echo()

    async def other_end(run: Run) -> list[str]:
        """The same first two questions, then a different third one."""
        conversation = run.conversation()
        for question in ("a", "b", "another"):
            conversation.append(user(question))
            conversation.append(await run.step_model(model="m", messages=conversation))
        plain = [*(m.canonical() for m in conversation.messages(1, len(conversation)))]
        return [text.decode() for text in plain]

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            name = await runs.fork("r", at=await seq_of(kernel, "model.completed", 2))
            deep = await runs.fork(name)
            await drive(runs, other_end, deep)

            sent = [request.canonical() for request in model.requests]
            shown = [(await runs.render(deep, str(n))).canonical() for n in (1, 2, 3)]

            assert shown == [sent[0], sent[1], sent[3]]
            assert (await runs.render("r", "3")).canonical() == sent[2]
            with pytest.raises(NotFound):
                await runs.render(name, "3")

    play(scenario())


def test_a_request_without_reply_is_asked_again_with_a_hold_of_the_forks_own(tmp_path: Path) -> None:
    model = ScriptedModel(["one", "two", billed("origin"), billed("fork")], price=PRICE)
    tenant = Tenant("acme", budget_usd="5.00")

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(tenant)
            await drive(runs, three_turns)
            at = await seq_of(kernel, "model.requested", 3, tenant="acme")

            name = await runs.fork("r", at=at)
            assert await drive(runs, three_turns, name) == "completed"

            assert await result_of(runs, name) == ["one", "two", "fork"]
            found = await kinds(kernel, name, tenant="acme")
            assert found.count("model.requested") == found.count("model.completed") == 1
            assert (await runs.render(name, "3")) == model.requests[3]
            money = await assert_conserved(kernel, "acme")
            costs = [(await runs.show(run))["cost_microusd"] for run in ("r", name)]
            assert money["spent"] == sum(costs)

    play(scenario())


class Bank:
    """A tool that pays once, whose answer may be lost; it can be asked what became of a payment."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.lose = True
        self.silent = True

    def tools(self) -> list[Any]:
        async def probe(key: str, arguments: dict[str, Any]) -> Any:
            if self.silent:
                raise RuntimeError("the bank does not answer")
            if key not in self.paid:
                raise ToolFailed("no such payment")
            return {"paid": arguments["amount"]}

        @tool(side_effect=True, probe=probe)
        async def pay(amount: int, ctx: ToolContext) -> dict[str, Any]:
            "Pay."
            self.paid.append(ctx.idempotency_key)
            if self.lose:
                raise ConnectionError("the line went dead")
            return {"paid": amount}

        return [pay]


async def pays(run: Run) -> Any:
    return (await run.step_tool("pay", {"amount": 3})).value


def test_a_payment_that_the_origin_left_open_is_unknown_to_the_fork_too(tmp_path: Path) -> None:
    bank = Bank()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, pays) == "unknown_outcome"
            at = await seq_of(kernel, "tool.requested")

            early = await runs.fork("r", at=at)
            late = await runs.fork("r")
            for name in (early, late):
                assert await drive(runs, pays, name) == "unknown_outcome"
                assert await drive(runs, pays, name) == "unknown_outcome"

            assert bank.paid == ["default/r:1"]
            await runs.reconcile(early, "1", succeeded={"paid": 3})
            assert await drive(runs, pays, early) == "completed"
            assert await result_of(runs, early) == {"paid": 3}
            bank.lose = False
            await runs.reconcile(late, "1", retry=True)
            assert await drive(runs, pays, late) == "completed"
            # The same idempotency key: a bank that knows the payment makes no second one.
            assert bank.paid == ["default/r:1"] * 2
            assert (await runs.show("r"))["status"] == "unknown_outcome"

    play(scenario())


def test_the_probe_is_asked_about_the_origins_payment(tmp_path: Path) -> None:
    bank = Bank()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, pays)
            unasked, asked = await runs.fork("r"), await runs.fork("r")
            await drive(runs, pays, asked)
            bank.silent = False

            assert await drive(runs, pays, unasked) == "completed"
            await runs.reconcile(asked, "1", probe=True)
            assert await drive(runs, pays, asked) == "completed"

            assert await result_of(runs, unasked) == await result_of(runs, asked) == {"paid": 3}
            assert bank.paid == ["default/r:1"]

    play(scenario())


def test_a_harmless_tool_is_simply_called_again_by_the_fork(tmp_path: Path) -> None:
    called: list[str] = []

    @tool(side_effect=False)
    async def look(ctx: ToolContext) -> str:
        "Look."
        called.append(ctx.idempotency_key)
        return "seen"

    async def code(run: Run) -> Any:
        return (await run.step_tool("look", {})).value

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            name = await runs.fork("r", at=await seq_of(kernel, "tool.requested"))

            assert await drive(runs, code, name) == "completed"

            assert called == ["default/r:1", f"default/{name}:1"]
            assert [step["status"] for step in await runs.steps(name)] == ["completed"]

    play(scenario())


def test_a_fork_of_a_failed_run_asks_the_failed_step_again(tmp_path: Path) -> None:
    bad = ScriptedModel(["re: a", ModelRefusedCall("no")])
    good = echo()

    async def scenario() -> None:
        with open_kernel(tmp_path, {"m": bad, "good": good}) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, three_turns) == "failed: model_refused_call"

            for at in (None, await seq_of(kernel, "model.failed")):
                name = await runs.fork("r", at=at, with_={"model": "good"})
                assert await drive(runs, three_turns, name) == "completed"
                assert await result_of(runs, name) == ["re: a", "re: b", "re: c"]
            assert (await runs.show("r"))["status"] == "failed"

    play(scenario())


def test_a_failure_that_the_code_went_on_after_stays_what_it_was(tmp_path: Path) -> None:
    model = ScriptedModel([ModelRefusedCall("no"), "plan b", "more"])

    async def code(run: Run) -> str:
        try:
            await run.step_model(model="m", messages=[user("a")])
        except ModelRefusedCall:
            await run.step_model(model="m", messages=[user("b")])
        return (await run.step_model(model="m", messages=[user("c")])).text

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            name = await runs.fork("r")

            assert await drive(runs, code, name) == "completed"
            assert await result_of(runs, name) == "more"

    play(scenario())
    model.assert_done()


def test_a_question_to_people_is_asked_again_and_a_clock_runs_on(tmp_path: Path) -> None:
    clock = ManualClock()

    async def code(run: Run) -> Any:
        await run.sleep(60)
        return (await run.approve("go on?")).decision

    async def scenario() -> None:
        with open_kernel(tmp_path, clock=clock) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting"
            asleep = await runs.fork("r")
            assert await drive(runs, code, asleep, on_wait="suspend") == "waiting"
            waits = await kernel.store.query("SELECT until_us FROM waits ORDER BY run")
            assert len(waits) == 2
            assert waits[0] == waits[1]
            clock.advance(60)
            assert await drive(runs, code, asleep, on_wait="suspend") == "waiting_approval"
            awake = await runs.fork(asleep)
            assert await drive(runs, code, awake, on_wait="suspend") == "waiting_approval"

            await runs.approve(awake)

            assert await drive(runs, code, awake) == "completed"
            assert (await runs.show(asleep))["status"] == "waiting_approval"
            assert len(await runs.approvals(asleep)) == 1

    play(scenario())


def test_notes_and_signals_that_nobody_has_taken_reach_both_runs_once(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        early = await run.notes()
        heard = [await run.wait_for("go") for _ in range(2)]
        return [early, heard, await run.notes()]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code, on_wait="suspend")
            await runs.signal("r", "go", 1)
            await drive(runs, code, on_wait="suspend")
            await runs.signal("r", "go", 2, by="ann")
            await runs.inject("r", "mind the gap", by="bob")
            name = await runs.fork("r")
            deep = await runs.fork(name)

            for run in ("r", name, deep):
                assert await drive(runs, code, run, on_wait="suspend") == "completed"
                assert await result_of(runs, run) == [[], [1, 2], ["mind the gap"]]
            born = (await events(kernel, name))[:3]
            assert [(event.kind, event.actor) for event in born] == [
                ("run.forked", "operator"),
                ("signal.received", "ann"),
                ("note.injected", "bob"),
            ]
            assert born[1].cause == f"run:r@{await seq_of(kernel, 'signal.received', 2)}"

    play(scenario())


def test_caps_are_inherited_and_counted_afresh(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, three_turns, limits=Limits(steps=2)) == "budget_exhausted"

            name = await runs.fork("r", at=await seq_of(kernel, "model.completed", 1))

            assert await drive(runs, three_turns, name) == "completed"
            second = await runs.fork(name, at=1)
            assert await drive(runs, three_turns, second) == "completed"
            third = await runs.fork("r", at=2)
            assert await drive(runs, three_turns, third) == "budget_exhausted"

    play(scenario())


def test_a_built_in_loop_goes_on_from_the_origins_snapshot(tmp_path: Path) -> None:
    """The loop's state at the fork is that of the origin's newest cycle before it."""

    async def loop(runs: Any, run_id: str, cycles: int) -> list[int]:
        opened = runs.run(run_id, loop="test", from_snapshot=True)
        async with opened as run:
            start = (opened.snapshot or {"n": 0})["n"]
            for n in range(start + 1, cycles + 1):
                await run.step_model(model="m", messages=[user(f"q{n}")], key=f"c{n}/model")
                run.complete_cycle(n, {"n": n})
            run.finish(list(range(start + 1, cycles + 1)))
        return (await runs.show(run_id))["result"]

    model = echo()

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await loop(runs, "r", 5)
            cycles = [e.seq for e in await events(kernel) if e.kind == "cycle.completed"]

            between = await runs.fork("r", at=cycles[2] + 1)
            assert await loop(runs, between, 4) == [4]
            deep = await runs.fork(await runs.fork("r", at=cycles[1]))
            assert await loop(runs, deep, 2) == []
            assert await loop(runs, await runs.fork("r"), 5) == []
            assert await loop(runs, await runs.fork("r", at=1), 1) == [1]
            assert len(model.requests) == 5 + 2

    play(scenario())


def test_a_fork_reads_back_under_other_code_only_after_the_branch(tmp_path: Path) -> None:
    """What is inherited is not compared: a fork may be made to try changed code."""
    model = echo()

    async def changed(run: Run) -> list[str]:
        conversation = run.conversation()
        conversation.append({"role": "system", "content": "new rules"})
        texts: list[str] = []
        for question in ("a", "b", "c"):
            conversation.append(user(question))
            reply = await run.step_model(model="m", messages=conversation)
            conversation.append(reply)
            texts.append(reply.text)
        return texts

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            name = await runs.fork("r", at=await seq_of(kernel, "model.completed", 1))

            assert await drive(runs, changed, name) == "completed"
            assert await drive(runs, changed, name) == "completed"

            assert len(model.requests) == 3 + 2
            assert model.requests[3].messages[0].text == "new rules"
            for key, request in (("2", model.requests[3]), ("3", model.requests[4])):
                assert await runs.render(name, key) == request
            assert await runs.render(name, "1") == model.requests[0]

    play(scenario())


@pytest.mark.parametrize("at", [0, -1, 8, 99, True, "3", 1.5])
def test_a_branch_outside_the_origin_is_refused(tmp_path: Path, at: Any) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, lambda run: run.step_model(model="m", messages=[user("a")]))
            with pytest.raises(InvalidRequest, match="a seq from 1 to 5"):
                await runs.fork("r", at=at)
            assert len((await runs.runs())["items"]) == 1

    play(scenario())


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"model": 7}, InvalidRequest),
        ({"model": "nobody:none"}, UnknownModel),
        ({1: "x"}, InvalidRequest),
        (["model"], InvalidRequest),
        ({"steering": object()}, InvalidRequest),
        ({"ref": "x" * 70_000}, InvalidRequest),
    ],
)
def test_changes_that_make_no_sense_are_refused(tmp_path: Path, changes: Any, error: type[Exception]) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, {"m": echo()}) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            with pytest.raises(error):
                await runs.fork("r", with_=changes)
            assert len((await runs.runs())["items"]) == 1

    play(scenario())


def test_a_fork_needs_an_origin_of_this_tenant_and_an_id_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            with pytest.raises(NotFound):
                await runs.fork("nobody")
            with pytest.raises(NotFound):
                await kernel.for_tenant("other").fork("r")
            with pytest.raises(Conflict):
                await runs.fork("r", new_id="r")
            with pytest.raises(InvalidRequest):
                await runs.fork("r", new_id="no spaces, please")

    play(scenario())


def test_forks_made_at_once_get_ids_of_their_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            names = await asyncio.gather(*(runs.fork("r") for _ in range(8)))
            assert sorted(names) == [f"r.fork-{n}" for n in range(1, 9)]

    play(scenario())


def test_a_fork_says_where_it_comes_from_in_its_first_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            name = await runs.fork("r", at=4, with_={"model": "m"}, by="ann")
            born = (await events(kernel, name))[0]
            data = born.decode()
            assert isinstance(data, ev.RunForked)
            assert (data.origin, data.at, born.actor) == ("r", 4, "ann")
            assert data.changes is not None

    play(scenario())


def test_what_the_origin_has_taken_note_of_is_not_told_to_the_fork_again(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        heard = await run.wait_for("go")
        notes = await run.notes()
        return [heard, notes, await run.wait_for("go", timeout_s=0.0)]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code, on_wait="suspend")
            await runs.inject("r", "one")
            await runs.signal("r", "go", 1)
            with pytest.raises(TimeoutError):
                async with runs.run("r") as run:
                    await code(run)
            found = await events(kernel)
            took = next(event.seq for event in found if b'"took":' in event.data)

            name = await runs.fork("r", at=took)

            assert await kinds(kernel, name) == ["run.forked"]
            with pytest.raises(TimeoutError):
                async with runs.run(name) as run:
                    await code(run)

    play(scenario())


def test_a_model_whose_key_is_elsewhere_may_be_named(tmp_path: Path) -> None:
    """Whoever drives the fork may have the key; whoever makes it need not."""

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": echo()}, environ={}) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            name = await runs.fork("r", at=2, with_={"model": "openai:gpt-5-mini"})
            assert (await runs.show(name))["status"] == "pending"
            assert (await drive(runs, three_turns, name)).startswith("failed: missing_key")

    play(scenario())


def test_a_reopened_failure_is_not_reopened_twice(tmp_path: Path) -> None:
    model = ScriptedModel([ModelRefusedCall("no"), "a", ModelRefusedCall("no"), "b", "c"])

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            await runs.retry("r")
            name = await runs.fork("r")
            assert await kinds(kernel, name) == ["run.forked"]
            assert await drive(runs, three_turns, name) == "failed: model_refused_call"
            await runs.retry(name)
            assert await drive(runs, three_turns, name) == "completed"
            assert await result_of(runs, name) == ["a", "b", "c"]

    play(scenario())


def test_a_fork_keeps_the_prompt_that_its_origin_asked_before_it_was_retried(tmp_path: Path) -> None:
    """The origin's row of the step moves on; the part of its history that the fork has does not."""
    model = ScriptedModel(["one", ModelRefusedCall("no"), "two", "three"])

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, three_turns)
            name = await runs.fork("r")
            before = await runs.render(name, "2")
            short = await runs.fork("r", at=await seq_of(kernel, "model.completed"))
            await runs.retry("r")
            assert await drive(runs, three_turns) == "completed"

            assert await runs.render(name, "2") == before == model.requests[1]
            assert (await runs.manifest(name, "2")).key == "2"
            found = (await runs.diff(name, short))["first_divergence"]
            assert found is not None and found["at_a"] is not None
            assert (found["key"], found["kind"], found["what"]) == ("2", "model", "missing")
            assert found["at_a"]["seq"] == await seq_of(kernel, "model.requested", 2)
            with pytest.raises(NotFound):
                await runs.render(name, "9")

    play(scenario())
