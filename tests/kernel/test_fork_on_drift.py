"""`fork_on_drift`: where its code has changed, a run goes on as a fork of itself, in the same drive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Limits, Run, ToolContext, tool
from artelier.errors import ReplayMismatch
from artelier.ports.tool import ToolPort
from artelier.testing import ManualClock
from tests.kernel.crashes import Deaths
from tests.kernel.stage import (
    ACME,
    EAGER,
    PRICE,
    Code,
    World,
    ask,
    assert_conserved,
    drive,
    echo,
    kinds,
    open_kernel,
    play,
    result_of,
    user,
)

DRIFT: dict[str, Any] = {"replay": "fork_on_drift"}


def talk(*questions: str, wait: bool = True) -> Code:
    """A conversation, then a wait: what has been asked is all in each later prompt."""

    async def code(run: Run) -> list[str]:
        conversation = run.conversation()
        texts: list[str] = []
        for question in questions:
            conversation.append(user(question))
            reply = await run.step_model(model="m", messages=conversation)
            conversation.append(reply)
            texts.append(reply.text)
        if wait:
            await run.wait_for("go")
        return texts

    return code


def bank(world: World) -> list[ToolPort]:
    async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
        world.done.append(f"undo {arguments['to']} {ctx.idempotency_key}")

    @tool(side_effect=True, compensate=refund)
    async def pay(to: str, ctx: ToolContext) -> str:
        "Pay."
        if to == "nowhere":
            raise ConnectionError("reset")
        world.done.append(f"pay {to} {ctx.idempotency_key}")
        return to

    return [pay]


def test_the_run_goes_on_in_a_fork_that_shares_what_came_before(tmp_path: Path) -> None:
    model = echo(price=PRICE)

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, talk("a", "b", "c"), on_wait="suspend") == "waiting"
            before = (await runs.show("r"))["cost_microusd"]

            changed = talk("a", "B", "c", wait=False)
            async with runs.run("r", **DRIFT) as run:
                run.finish(await changed(run))
                assert run.id == "r.drift-1"

            assert await result_of(runs, "r.drift-1") == ["re: a", "re: B", "re: c"]
            assert [r.messages[-1].text for r in model.requests] == ["a", "b", "c", "B", "c"]
            old, new = await runs.show("r"), await runs.show("r.drift-1")
            assert (old["status"], old["reason"]) == ("cancelled", "drifted")
            assert (old["cost_microusd"], new["origin"], new["steps"]) == (before, "r", 2)
            assert (await kinds(kernel, "r", tenant="acme"))[-1] == "run.drifted"
            sent = await runs.render("r.drift-1", "2")
            assert sent.canonical() == model.requests[3].canonical()
            # The next drive finds the fork by the first name, and a replay of it calls nothing.
            async with runs.run("r", **DRIFT) as run:
                assert (run.id, await changed(run)) == ("r.drift-1", ["re: a", "re: B", "re: c"])
            replayed = await runs.replay("r.drift-1", changed)
            assert replayed.result == ["re: a", "re: B", "re: c"]
            assert len(model.requests) == 5
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_the_fork_can_drift_again_and_resumes_under_its_own_code(tmp_path: Path) -> None:
    model = echo()

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            for code in (talk("a", "b"), talk("a", "B"), talk("a", "B", "c"), talk("a", "B", "C")):
                assert await drive_to_wait(runs, code) == "waiting"

            shown = [run["id"] for run in (await runs.runs())["items"]]
            assert shown == ["r", "r.drift-1", "r.drift-2", "r.drift-3"]
            await runs.signal("r.drift-3", "go")
            async with runs.run("r", **DRIFT) as run:
                run.finish(await talk("a", "B", "C")(run))
            assert await result_of(runs, "r.drift-3") == ["re: a", "re: B", "re: C"]
            assert [r.messages[-1].text for r in model.requests] == ["a", "b", "B", "c", "C"]

    async def drive_to_wait(runs: Any, code: Code) -> str:
        from artelier import RunSuspended

        with pytest.raises(RunSuspended) as flow:
            async with runs.run("r", on_wait="suspend", **DRIFT) as run:
                await code(run)
        return flow.value.status

    play(scenario())


def test_other_kinds_of_steps_drift_as_well(tmp_path: Path) -> None:
    world = World()

    async def old(run: Run) -> Any:
        await run.step("count", lambda: 1)
        await run.step_tool("pay", {"to": "ann"})
        return await run.wait_for("go")

    async def argument(run: Run) -> Any:
        await run.step("count", lambda: 1)
        return (await run.step_tool("pay", {"to": "bob"})).value

    async def kind(run: Run) -> Any:
        return await ask(run, "instead")

    async def name(run: Run) -> Any:
        return await run.step("sum", lambda: 3)

    async def signal(run: Run) -> Any:
        await run.step("count", lambda: 1)
        await run.step_tool("pay", {"to": "ann"})
        return await run.wait_for("stop")

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            for number, code in enumerate((argument, kind, name, signal)):
                run_id = f"r{number}"
                assert await drive(runs, old, run_id, on_wait="suspend") == "waiting"
                if code is signal:  # told the old run, and heard by the fork
                    await runs.signal(run_id, "stop", "told")
                async with runs.run(run_id, **DRIFT) as run:
                    run.finish(await code(run))
                assert (await runs.show(f"{run_id}.drift-1"))["status"] == "completed"
            found = [await result_of(runs, f"r{number}.drift-1") for number in range(4)]
            assert found == ["bob", "re: instead", 3, "told"]
            assert len([line for line in world.done if line.startswith("pay")]) == 5

    play(scenario())


def test_what_the_old_run_spent_counts_in_the_fork(tmp_path: Path) -> None:
    model = echo()

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            limits = Limits(steps=3)
            assert await drive(runs, talk("a", "b"), on_wait="suspend", limits=limits) == "waiting"

            changed = talk("a", "B", "C", "D", wait=False)
            assert await drive(runs, changed, **DRIFT) == "budget_exhausted"

            assert len(model.requests) == 3
            assert (await runs.show("r.drift-1"))["status"] == "budget_exhausted"
            await runs.limit("r.drift-1", unit="steps", cap=9)
            async with runs.run("r", **DRIFT) as run:
                run.finish(await changed(run))
            assert await result_of(runs, "r.drift-1") == ["re: a", "re: B", "re: C", "re: D"]
            assert len(model.requests) == 5

    play(scenario())


def test_a_crash_at_any_point_goes_on_in_the_same_fork(tmp_path: Path) -> None:
    world = World()
    deaths = Deaths(tmp_path / "s.db", world)

    async def old(run: Run) -> Any:
        first = await ask(run, "a")
        await run.step_tool("pay", {"to": "ann"}, key="pay")
        return first, await ask(run, "old"), await run.wait_for("go")

    async def new(run: Run) -> Any:
        first = await ask(run, "a")
        await run.step_tool("pay", {"to": "ann"}, key="pay")
        return [first, await ask(run, "new"), await ask(run, "more")]

    async def scenario() -> None:
        clock = ManualClock()
        with open_kernel(tmp_path, tools=bank(world), clock=clock, fault=deaths) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, old, on_wait="suspend")
            deaths.found.clear()
            await drive(runs, new, **DRIFT)
        forked = 0
        for death in deaths.found:
            later = ManualClock()
            later.advance(3600)
            with Kernel.open(
                death.path, models=echo(), tools=bank(death.world), policy=EAGER, clock=later
            ) as kernel:
                runs = kernel.for_tenant()
                forked += len((await runs.runs())["items"]) == 2
                async with runs.run("r", **DRIFT) as run:
                    run.finish(await new(run))
                    assert run.id == "r.drift-1", death
                assert await result_of(runs, "r.drift-1") == ["re: a", "re: new", "re: more"]
                assert [run["id"] for run in (await runs.runs())["items"]] == ["r", "r.drift-1"]
                assert len(death.world.done) == 1
                await assert_conserved(kernel, "default")
        assert 0 < forked < len(deaths.found)

    play(scenario(), within_s=60)


def test_an_unknown_side_effect_is_settled_before_the_run_goes_on_elsewhere(tmp_path: Path) -> None:
    async def old(run: Run) -> Any:
        await ask(run, "a")
        return (await run.step_tool("pay", {"to": "nowhere"}, key="pay")).value

    async def new(run: Run) -> Any:
        return await ask(run, "A")

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(World())) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, old) == "unknown_outcome"

            for _ in range(2):
                assert await drive(runs, new, **DRIFT) == "unknown_outcome"
            assert len((await runs.runs())["items"]) == 1
            # It is entered again, though its code does not ask for it, and is unknown again.
            await runs.reconcile("r", "pay", retry=True)
            assert await drive(runs, new, **DRIFT) == "unknown_outcome"
            await runs.reconcile("r", "pay", failed="nothing was paid")

            async with runs.run("r", **DRIFT) as run:
                run.finish(await new(run))
            assert await result_of(runs, "r.drift-1") == "re: A"

    play(scenario())


def test_the_fork_undoes_what_the_run_it_goes_on_for_has_done(tmp_path: Path) -> None:
    world = World()

    async def old(run: Run) -> Any:
        await run.step_tool("pay", {"to": "ann"}, key="pay")
        await ask(run, "old")
        await run.step_tool("pay", {"to": "bob"}, key="late")
        await run.wait_for("go")

    async def new(run: Run) -> Any:
        await run.step_tool("pay", {"to": "ann"}, key="pay")
        await ask(run, "new")
        await run.step_tool("pay", {"to": "cid"}, key="late")
        return list((await run.compensate()).undone)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, old, on_wait="suspend")
            async with runs.run("r", **DRIFT) as run:
                run.finish(await new(run))

            assert await result_of(runs, "r.drift-1") == ["late", "r:late", "r:pay"]
            assert [line.split()[1] for line in world.done[-3:]] == ["cid", "bob", "ann"]
            assert world.done[-1] == "undo ann default/r:r:pay/undo"
            assert (await runs.replay("r.drift-1", new)).result == ["late", "r:late", "r:pay"]

    play(scenario())


def test_an_undoing_of_unknown_outcome_is_entered_again_under_the_key_it_had(tmp_path: Path) -> None:
    entered: list[str] = []

    async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
        entered.append(ctx.idempotency_key)
        if len(entered) == 1:
            raise ConnectionError("reset")

    @tool(side_effect=True, compensate=refund)
    async def pay(to: str) -> str:
        "Pay."
        return to

    def code(said: str) -> Code:
        async def spend(run: Run) -> Any:
            await run.step_tool("pay", {"to": "ann"}, key="pay")
            await ask(run, said)
            if said == "v1":
                await run.wait_for("go")
            return list((await run.compensate()).undone)

        return spend

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code("v1"), on_wait="suspend") == "waiting"
            assert await drive(runs, code("v2"), **DRIFT) == "unknown_outcome"
            told = (await runs.show("r.drift-1"))["unknown_calls"]
            await runs.reconcile("r.drift-1", "r:pay/undo", retry=True)
            async with runs.run("r", **DRIFT) as run:  # its code does not ask for this undoing
                run.finish(await code("v3")(run))

            assert entered == ["default/r:r:pay/undo"] * 2
            assert [one["idempotency_key"] for one in told] == entered[:1]
            assert await result_of(runs, "r.drift-2") == []

    play(scenario())


def test_the_fork_goes_back_to_a_step_that_it_shares_and_no_further(tmp_path: Path) -> None:
    world = World()

    def code(said: str) -> Code:
        async def spend(run: Run) -> Any:
            for name in ("ann", "bob"):
                await run.step_tool("pay", {"to": name}, key=name)
            await ask(run, said)
            await run.step_tool("pay", {"to": "cid"}, key="cid")
            if said == "old":
                await run.wait_for("go")
            return list((await run.compensate(upto="bob")).undone)

        return spend

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code("old"), on_wait="suspend")
            async with runs.run("r", **DRIFT) as run:
                run.finish(await code("new")(run))

            assert await result_of(runs, "r.drift-1") == ["cid", "r:cid", "r:bob"]
            undone = [line.split()[1] for line in world.done if line.startswith("undo")]
            assert undone == ["cid", "cid", "bob"]
            replayed = await runs.replay("r.drift-1", code("new"))
            assert replayed.result == ["cid", "r:cid", "r:bob"]

    play(scenario())


def test_steps_side_by_side_and_children_do_not_fork(tmp_path: Path) -> None:
    def beside(text: str) -> Code:
        async def code(run: Run) -> Any:
            await run.gather(lambda one: ask(one, "left"), lambda one: ask(one, text))
            await run.wait_for("go")

        return code

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, beside("right"), on_wait="suspend")
            assert await drive(runs, beside("wrong"), **DRIFT) == "failed: replay_mismatch"
            assert len((await runs.runs())["items"]) == 1

            async with runs.run("parent") as parent:
                async with runs.run("child", parent=parent) as child:
                    await ask(child, "a")
                    child.fail("tired")
                await runs.retry("child")
                with pytest.raises(ReplayMismatch):
                    async with runs.run("child", parent=parent, **DRIFT) as child:
                        await ask(child, "b")

    play(scenario())


def test_a_run_that_has_ended_goes_on_as_a_fork_and_stays_what_it_is(tmp_path: Path) -> None:
    model = echo()

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, talk("a", "b", wait=False)) == "completed"
            for _ in range(2):
                async with runs.run("r", **DRIFT) as run:
                    value = await talk("a", "B", wait=False)(run)
                    if run.status == "running":
                        run.finish(value)
                    assert run.id == "r.drift-1"
            assert (await runs.show("r"))["status"] == "completed"
            assert await result_of(runs, "r.drift-1") == ["re: a", "re: B"]
            assert len(model.requests) == 3

    play(scenario())


def test_the_log_warns_that_side_effects_are_live_before_one_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warned: list[int] = []

    @tool(side_effect=True)
    async def mail(to: str) -> str:
        "Send a mail."
        warned.append(sum("side effects after it are live" in said for said in caplog.messages))
        return to

    def code(question: str) -> Code:
        async def asked(run: Run) -> str:
            await run.step_model(model="m", messages=[user(question)])
            return (await run.step_tool("mail", {"to": "ben"})).value

        return asked

    async def scenario() -> None:
        with open_kernel(tmp_path, echo(), tools=[mail]) as kernel:
            runs = kernel.for_tenant(ACME)
            await drive(runs, code("one"))
            await drive(runs, code("one"), **DRIFT)  # nothing differs: nothing is said
            assert warned == [0] and not caplog.messages
            await drive(runs, code("two"), **DRIFT)
            assert warned == [0, 1]

    play(scenario())
