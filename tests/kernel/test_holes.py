"""Holes of public predecessors, each by its number in the list of proof; none may exist here."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest, Policy, Run, RunSuspended, Tenant, ToolContext, tool
from artelier.app import TenantKernel
from artelier.errors import (
    ArtelierError,
    Conflict,
    LeaseHeld,
    LeaseLost,
    NotFound,
    PriceUnknown,
    ProviderUnavailable,
)
from artelier.log import LeaseEnd
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.kernel.stage import (
    ACME,
    PRICE,
    GateModel,
    ask,
    assert_conserved,
    billed,
    drive,
    echo,
    kinds,
    open_kernel,
    play,
    result_of,
    until,
    user,
)

# 1. Parallel model steps of one run replay the wrong answer.


def test_hole_1_parallel_model_steps_replay_their_own_answers(tmp_path: Path) -> None:
    """Three answers recorded in one order, replayed by code whose branches finish in the reverse."""

    async def scenario() -> None:
        gate = GateModel()
        order = ["c", "a", "b"]

        async def code(run: Run) -> Any:
            async def one(name: str) -> str:
                return await ask(run, name)

            return await run.gather(*(one(name) for name in ("a", "b", "c")))

        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            for name in order:
                await gate.asked(name)
                gate.answer(name)
            assert await work == "completed"
            assert await result_of(runs) == ["re: a", "re: b", "re: c"]

        async def reversed_code(run: Run) -> Any:
            finished: dict[str, asyncio.Event] = {name: asyncio.Event() for name in "abcd"}
            finished["d"].set()

            async def one(name: str) -> str:
                await finished[chr(ord(name) + 1)].wait()
                text = await ask(run, name)
                finished[name].set()
                return text

            return await run.gather(*(one(name) for name in ("a", "b", "c")))

        with open_kernel(tmp_path) as kernel:
            async with kernel.run("r") as run:
                assert await reversed_code(run) == ["re: a", "re: b", "re: c"]

    play(scenario())


# 2. Parallel tool calls (or sub-agents) share one idempotency key.


def test_hole_2_parallel_calls_and_children_have_keys_of_their_own(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool(side_effect=True)
    async def pay(amount: int, ctx: ToolContext) -> None:
        """Pay."""
        keys.append(ctx.idempotency_key)
        await asyncio.sleep(0)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            for tenant in ("a", "b"):
                runs = kernel.for_tenant(tenant)
                async with runs.run("r") as run:

                    async def child(branch: Run, runs: TenantKernel = runs) -> None:
                        name = "child" + branch.core.parent_key.replace("/", ".")
                        async with runs.run(name, parent=branch) as inner:
                            await inner.step_tool("pay", {"amount": 1})

                    pays = [lambda b: b.step_tool("pay", {"amount": 1})] * 3
                    await run.gather(*pays, child, child)
                    await run.step_tool("pay", {"amount": 1})
                    await run.step_tool("pay", {"amount": 1})

    play(scenario())
    assert len(keys) == len(set(keys)) == 14


# 3. The same step on two workers executes twice.


def test_hole_3_a_run_has_one_driver_and_the_loser_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as one, open_kernel(tmp_path, gate) as two:
            work = asyncio.create_task(drive(one.for_tenant(), lambda run: ask(run, "a")))
            await gate.asked("a")
            root = await one.store.root()
            for kernel in (one, two):
                for _ in range(3):
                    with pytest.raises(LeaseHeld):
                        async with kernel.run("r") as run:
                            await ask(run, "a")
            assert await two.store.root() == root
            gate.answer("a")
            assert await work == "completed"
            assert len(gate.requests) == 1

            started = await asyncio.gather(
                *(drive(k.for_tenant(), lambda run: ask(run, "b"), "s") for k in (one, two)),
                *(_release(gate, "b") for _ in range(1)),
                return_exceptions=True,
            )
            assert started.count("completed") == 1
            assert len([r for r in gate.requests if r.messages[-1].text == "b"]) == 1
            assert (await kinds(one, "s")).count("run.started") == 1

    async def _release(gate: GateModel, text: str) -> None:
        await gate.asked(text)
        await asyncio.sleep(0.05)
        gate.answer(text)

    play(scenario())


def test_hole_3_a_driver_that_slept_past_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock, gate = ManualClock(), GateModel()
        with (
            open_kernel(tmp_path, gate, clock=clock) as slow,
            open_kernel(tmp_path, echo(), clock=clock) as quick,
        ):
            asleep = asyncio.create_task(drive(slow.for_tenant(), _two))
            await gate.asked("a")
            with pytest.raises(LeaseHeld):
                async with quick.run("r"):
                    pass
            clock.advance(31)
            assert await drive(quick.for_tenant(), _two) == "completed"
            root = await quick.store.root()
            gate.answer("a")
            with pytest.raises(LeaseLost):
                await _raised(asleep)
            assert await quick.store.root() == root
            assert await result_of(quick.for_tenant()) == ["re: a", "re: b"]

    async def _two(run: Run) -> Any:
        return [await ask(run, "a"), await ask(run, "b")]

    async def _raised(task: asyncio.Task[str]) -> None:
        assert (await task).endswith("lease_lost")
        raise LeaseLost("told by the run itself")

    play(scenario())


# 5. One 503, budget stop, tool error, invented tool or argument, denied grant leaves the run dead.


def test_hole_5_nothing_small_kills_a_run_for_ever(tmp_path: Path) -> None:
    troubles = {"503", "budget", "tool", "permanent"}

    @tool(side_effect=False)
    async def look(at: str) -> str:
        """Look."""
        if "tool" in troubles:
            troubles.discard("tool")
            raise RuntimeError("no telescope")
        return at

    @tool(side_effect=True, grant="payments:send")
    async def pay() -> str:
        """Pay."""
        raise AssertionError("not granted")

    def answer(request: ModelRequest) -> Any:
        for trouble, error in (("503", ProviderUnavailable("503")), ("permanent", ValueError("x"))):
            if trouble in troubles and request.messages[-1].text == trouble:
                troubles.discard(trouble)
                return error
        if request.messages[-1].text == "call":
            return [
                tool_call("look", {"at": "moon"}),
                tool_call("no_such", {}),
                tool_call("look", {"where": "moon"}),
                tool_call("pay", {}),
            ]
        return billed("fine", inputs=900)

    async def code(run: Run) -> Any:
        said = [await ask(run, text) for text in ("503", "permanent", "budget")]
        reply = await run.step_model(model="m", messages=[user("call")])
        codes: list[Any] = []
        for call in reply.tool_calls:
            result = await run.step_tool(call.name, call.arguments, call=call)
            codes.append(result.value["error"]["code"] if result.is_error else result.value)
        return [said, codes, await ask(run, "end")]

    async def scenario() -> None:
        model = ScriptedModel(answer, price=PRICE)
        with open_kernel(tmp_path, model, tools=[look, pay]) as kernel:
            runs = kernel.for_tenant(Tenant("t", grants={"tools:*"}, budget_usd="0.005000"))
            statuses: list[str] = []
            while (status := await _driven(runs, code)) != "completed":
                statuses.append(status)
                assert len(statuses) < 10
                if status == "failed":
                    await runs.retry("r")
                else:
                    shown = await kernel.tenants.show("t")
                    budget = float(shown["budget_usd"] or 0) + 0.01
                    await kernel.tenants.update("t", budget_usd=f"{budget:.6f}")
                    runs = kernel.for_tenant("t")
            assert statuses == ["failed", "budget_exhausted"]
            said, codes, end = await result_of(runs)
            assert [*said, end] == ["fine"] * 4
            assert codes == ["tool_failed", "tool_failed", "invalid_arguments", "not_granted"]
            await assert_conserved(kernel, "t")
        assert troubles == {"budget"}

    async def _driven(runs: TenantKernel, body: Callable[[Run], Awaitable[Any]]) -> str:
        try:
            return (await drive(runs, body)).partition(":")[0]
        except ValueError:
            return "failed"

    play(scenario())


# 6. An argument error becomes an unknown outcome.


def test_hole_6_an_argument_error_is_never_an_unknown_outcome(tmp_path: Path) -> None:
    @tool(side_effect=True)
    async def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError("never entered")

    async def code(run: Run) -> Any:
        results = [
            await run.step_tool("pay", arguments)
            for arguments in ({}, {"amount": "3"}, {"amount": 3, "to": "x"}, "[]", None)
        ]
        return [result.value["error"]["code"] for result in results]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert set(await result_of(runs)) == {"invalid_arguments"}
            assert set(await kinds(kernel)) == {"run.started", "tool.refused", "run.completed"}

    play(scenario())


# 7. Budget per run instead of per tenant; concurrent calls all pass; unknown price is zero.


def test_hole_7_five_concurrent_calls_share_one_budget(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        gate.price = PRICE
        with open_kernel(tmp_path, gate, policy=Policy(funds_wait_s=0.0)) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="0.003000"))
            calls = [
                asyncio.create_task(
                    drive(runs, lambda run, n=n: ask(run, f"{n}", max_output_tokens=900), f"r{n}")
                )
                for n in range(5)
            ]
            await until(lambda: _done(calls, 4))
            assert len(gate.requests) == 1, "only one fits while it is held"
            gate.answer(gate.requests[0].messages[-1].text)
            found = sorted(await asyncio.gather(*calls))
            assert found == ["budget_exhausted"] * 4 + ["completed"]
            await assert_conserved(kernel, "t")

    async def _done(calls: list[asyncio.Task[str]], count: int) -> bool:
        return sum(call.done() for call in calls) >= count

    play(scenario())


def test_hole_7_children_spend_from_the_limit_of_their_tenant_and_parent(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(lambda _: billed("a", inputs=900), price=PRICE)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="0.006000"))

            async def code(run: Run) -> None:
                for number in range(20):
                    async with runs.run(f"c{number}", parent=run) as child:
                        await ask(child, "x")

            assert await drive(runs, code) == "budget_exhausted"
            spent = (await assert_conserved(kernel, "t"))["spent"]
            assert spent == 920 * len(model.requests) <= 6000
            assert (await runs.tree("r"))["total_cost_microusd"] == spent

    play(scenario())


def test_hole_7_an_unknown_price_blocks(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["a"], price=None)
        with open_kernel(tmp_path, model) as kernel:
            with pytest.raises(PriceUnknown):
                async with kernel.run("r") as run:
                    await ask(run, "x")
            assert model.requests == []
            tenant = Tenant("generous", allow_unknown_price=True)
            assert await drive(kernel.for_tenant(tenant), lambda run: ask(run, "x")) == "completed"

    play(scenario())


# 11. Pause is not enforced; finished runs never complete.


def test_hole_11_a_pause_holds_over_restarts_answers_and_the_end(tmp_path: Path) -> None:
    async def code(run: Run) -> str:
        await run.approve("go?")
        return await ask(run, "a")

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            await runs.pause("r")
            await runs.approve("r")
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            for _ in range(2):
                assert await drive(runs, code, on_wait="suspend") == "paused"
            assert model.requests == []
            await runs.resume("r")
            assert await drive(runs, code) == "completed"
            assert (await runs.show("r"))["status"] == "completed"
            assert await kernel.store.query("SELECT count(*) FROM leases") == [(0,)]

        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, lambda run: ask(run, "last"), "s"))
            await gate.asked("last")
            await runs.pause("s")
            gate.answer("last")
            await asyncio.sleep(0.05)
            assert (await runs.show("s"))["status"] == "paused", "the end is a boundary too"
            await runs.resume("s")
            assert await work == "completed"

    play(scenario())


# 12. Deleting the last events, or changing index columns or snapshots, still verifies.


def _finished(folder: Path) -> tuple[Kernel, str]:
    """A closed store with a run of a loop, two commands and an artifact, and the head before its end."""

    async def scenario() -> str:
        with open_kernel(folder) as kernel:
            runs = kernel.for_tenant(ACME)
            async with runs.run("r", loop="test") as run:
                talk = run.conversation()
                talk.append(user("a"))
                talk.append(await run.step_model(model="m", messages=talk))
                run.complete_cycle(1, {"cycle": 1})
                await run.approve("?", expires_s=0)
                run.finish({"done": True})
            space = runs.as_principal("alice")
            await space.artifacts.write("plan", kind="document", content="v1")
            return await kernel.head()

    head = play(scenario())
    kernel = Kernel.open(folder / "s.db")
    kernel.close()
    assert kernel.verify(head=head).findings == []
    assert kernel.verify(head=head).truncation == "excluded"
    assert kernel.verify().truncation == "not excluded"
    return kernel, head


def _tamper(folder: Path, *statements: str) -> None:
    db = sqlite3.connect(folder / "s.db")
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


@pytest.mark.corrupts
def test_hole_12_a_cut_off_end_is_found_with_the_head(tmp_path: Path) -> None:
    kernel, head = _finished(tmp_path)
    events = kernel.verify().events
    _tamper(
        tmp_path,
        "DELETE FROM events WHERE position > (SELECT max(first_position) - 1 FROM commits)",
        "DELETE FROM commits WHERE first_position = (SELECT max(first_position) FROM commits)",
    )

    report = kernel.verify(head=head)

    assert report.events < events
    assert any("cut off" in finding for finding in report.findings)


@pytest.mark.corrupts
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET seq = seq + 1 WHERE position = (SELECT max(position) FROM events)",
        "UPDATE events SET kind = 'run.failed' WHERE kind = 'run.completed'",
        "UPDATE events SET at_us = at_us + 1 WHERE position = 3",
        "UPDATE events SET actor = 'somebody' WHERE position = 3",
        "UPDATE events SET stream = 99 WHERE position = (SELECT max(position) FROM events)",
        "DELETE FROM events WHERE position = 3",
        "UPDATE streams SET tenant = 'other' WHERE name = 'run:r'",
        "UPDATE streams SET name = 'run:q' WHERE name = 'run:r'",
        "UPDATE snapshots SET state = '{}'",
        "DELETE FROM snapshots",
        "UPDATE runs SET status = 'running'",
        "UPDATE runs SET cost = 1, control_seq = 9",
        "UPDATE steps SET status = 'failed' WHERE key = '1'",
        "DELETE FROM steps WHERE key = '1'",
        "UPDATE messages SET n = n + 10",
        "INSERT INTO messages SELECT run, conversation, n + 50, form, ref, call, seq FROM messages",
        "UPDATE approvals SET decision = 'approve'",
        "UPDATE accounts SET balance = balance + 1 WHERE account = 'tenant'",
        "UPDATE tenants SET budget = NULL",
        "UPDATE artifacts SET owner = 'mallory'",
        "DELETE FROM commits WHERE first_position = 1",
        "UPDATE commits SET root = randomblob(32) WHERE first_position = 1",
        "UPDATE blobs SET content = randomblob(10) WHERE rowid = 1",
        "DELETE FROM blobs WHERE rowid = 1",
    ],
)
def test_hole_12_any_change_of_events_columns_views_and_content_is_found(
    tmp_path: Path, statement: str
) -> None:
    kernel, _ = _finished(tmp_path)

    _tamper(tmp_path, statement)

    assert kernel.verify().findings != [], statement


# 13. Cancelling a coroutine during an append leaves the store unusable; leases race with appends.


def test_hole_13_a_cancel_at_any_point_leaves_run_and_store_usable(tmp_path: Path) -> None:
    """The same run, cancelled after one turn of the loop, after two, ..., until it gets through."""

    @tool(side_effect=False)
    async def look() -> str:
        """Look."""
        return "seen"

    async def code(run: Run) -> Any:
        both = await run.gather(
            lambda b: ask(b, "a"), lambda b: b.step("count", lambda: 1), lambda b: ask(b, "b")
        )
        looked = (await run.step_tool("look")).value
        return [*both, looked, await ask(run, "c")]

    async def scenario() -> None:
        model = ScriptedModel(lambda r: billed(f"re: {r.messages[-1].text}"), price=PRICE)
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            runs = kernel.for_tenant(ACME)
            for turns in range(10_000):
                work = asyncio.create_task(drive(runs, code))
                for _ in range(turns):
                    if work.done():
                        break
                    await asyncio.sleep(0.0002)
                work.cancel()
                try:
                    status = await work
                except asyncio.CancelledError:
                    status = await _rests(runs)
                if status == "completed":
                    break
                assert status in ("", "pending", "running")
            assert await result_of(runs) == ["re: a", 1, "re: b", "seen", "re: c"]
            await assert_conserved(kernel, "acme")
            assert await kernel.store.query("SELECT count(*) FROM leases") == [(0,)]
            for step in await runs.steps("r"):
                assert step["status"] == "completed"
                if step["kind"] == "model":
                    await runs.render("r", step["key"])

    async def _rests(runs: TenantKernel) -> str:
        """Whatever was cancelled, the run can be driven and told things at once. Its status."""
        try:
            status = (await runs.show("r"))["status"]
            if status != "completed":
                await runs.inject("r", "still there?")
            return status
        except (NotFound, Conflict):
            return ""

    play(scenario(), within_s=60)


def test_hole_13_a_cancelled_open_gives_its_lease_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel, open_kernel(tmp_path) as other:
            for turns in range(12):
                opened = kernel.run(f"r{turns}")
                opening = asyncio.create_task(opened.__aenter__())
                for _ in range(turns):
                    await asyncio.sleep(0)
                opening.cancel()
                try:
                    await opening
                except asyncio.CancelledError:
                    await until(lambda: _free(kernel))
                    assert await drive(other.for_tenant(), _ask, f"r{turns}") == "completed"
                else:
                    await opened.__aexit__(None, None, None)

    async def _free(kernel: Kernel) -> bool:
        await kernel.store.renew("nobody", until=LeaseEnd(0))  # behind everything that is queued
        return await kernel.store.query("SELECT count(*) FROM leases") == [(0,)]

    async def _ask(run: Run) -> str:
        return await ask(run, "x")

    play(scenario())


# 14. A tool-calling reply with empty content fails structured output.


def test_hole_14_a_reply_that_calls_tools_has_no_output_yet(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def code(run: Run) -> Any:
        talk = run.conversation()
        talk.append(user("x"))
        first = await run.step_model(model="m", messages=talk, output=schema)
        assert (first.text, first.output, len(first.tool_calls)) == ("", None, 1)
        talk.append(first)
        talk.append(await run.step_tool("count", call=first.tool_calls[0]))
        return (await run.step_model(model="m", messages=talk, output=schema)).output

    @tool(side_effect=False)
    async def count() -> int:
        """Count."""
        return 3

    async def scenario() -> None:
        model = ScriptedModel([tool_call("count"), {"n": 3}])
        with open_kernel(tmp_path, model, tools=[count]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == {"n": 3}
            assert await drive(runs, code) == "completed"

    play(scenario())


# 18. Cost of a step grows with the run.


class Meter:
    """Counts what a store does: statements, rows written, bytes of events and content."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.statements = 0
        self.reads = 0
        store: Any = kernel.store
        store._write_db.set_trace_callback(self._count)
        store._read_db.set_trace_callback(self._count_read)

    def _count(self, statement: str) -> None:
        if not statement.startswith(("BEGIN", "COMMIT", "PRAGMA", "SAVEPOINT", "RELEASE")):
            self.statements += 1

    def _count_read(self, statement: str) -> None:
        self.reads += 1

    async def bytes(self) -> int:
        sizes = await self._kernel.store.query(
            "SELECT (SELECT sum(length(data)) FROM events) + (SELECT sum(length(content)) FROM blobs)"
        )
        return int(sizes[0][0])


def test_hole_18_a_step_costs_the_same_at_any_age_of_the_run(tmp_path: Path) -> None:
    @tool(side_effect=False)
    async def look(at: int) -> dict[str, Any]:
        """Look."""
        return {"at": f"{at:06}", "rows": ["x" * 700]}

    async def cycles(run: Run, count: int) -> None:
        talk = run.conversation()
        for _ in range(count):
            talk.append(await run.step_model(model="m", messages=talk.tail(20)))
            talk.append(await run.step_tool("look", {"at": len(talk)}))
        await run.core.writer.commit()

    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel(lambda _: "ok"), tools=[look]) as kernel:
            meter = Meter(kernel)
            async with kernel.run("r") as run:
                run.conversation().append(user("go"))
                seen: list[tuple[int, int, int]] = []
                for _ in range(4):
                    await cycles(run, 25)  # warm: windows are full, ids have their width
                    before = (meter.statements, meter.reads, await meter.bytes())
                    await cycles(run, 100)
                    after = (meter.statements, meter.reads, await meter.bytes())
                    seen.append(tuple(b - a for a, b in zip(before, after, strict=True)))  # pyright: ignore[reportArgumentType]
            first, last = seen[0], seen[-1]
            assert last[0] <= first[0] * 1.1
            assert last[1] <= first[1] + 2, "no read depends on the age of the run"
            assert last[2] <= first[2] * 1.1
            assert first[2] / 100 < 3000, "bytes of a cycle with 760 of payload"

    play(scenario())


def test_hole_18_resuming_reads_each_event_once(tmp_path: Path) -> None:
    async def code(run: Run) -> int:
        for number in range(300):
            await run.step("n", lambda n=number: n)
        return 300

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            async with kernel.run("r") as run:
                with pytest.raises(RunSuspended):
                    await code(run)
                    raise RunSuspended("r", status="pending")
        with open_kernel(tmp_path) as kernel:
            meter = Meter(kernel)
            assert await drive(kernel.for_tenant(), code) == "completed"
            results, pages = 300, 300 // 500 + 1
            assert meter.reads <= results + pages + 30

    play(scenario())


# 25. Deleted artifacts stay readable.


def test_hole_25_a_deleted_artifact_is_gone_for_everybody_also_for_old_refs(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            alice, bob = (runs.as_principal(name).artifacts for name in ("alice", "bob"))
            for content in ("first", "second"):
                await alice.write("plan", kind="document", content=content)
            assert (await bob.read("plan@1")).content == "first"
            await alice.delete("plan")
            for space in (alice, bob):
                for ref in ("plan", "plan@1", "plan@2"):
                    with pytest.raises(ArtelierError) as error:
                        await space.read(ref)
                    assert error.value.code in ("not_found", "access_denied")
                assert await space.search("second") == []
                assert await space.list() == []
            with pytest.raises(ArtelierError):
                await alice.write("plan", kind="document", content="third")

    play(scenario())
