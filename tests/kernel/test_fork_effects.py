"""What a fork may do outside: by default it returns what recorded calls returned, and asks before others."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, RunSuspended, ToolContext, tool
from artelier.errors import InvalidRequest, ToolFailed, UnknownEvent
from artelier.kernel import events as ev
from artelier.log.event import decode_data
from tests.kernel.stage import assert_conserved, drive, echo, events, open_kernel, play, result_of
from tests.kernel.test_fork import seq_of


class Bank:
    """Tools that pay and look, and what they did outside, by idempotency key."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.looked = 0
        self.refunded: list[str] = []

    def tools(self) -> list[Any]:
        async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> str:
            self.refunded.append(arguments["to"])
            return "refunded"

        @tool(side_effect=True, compensate=refund)
        async def pay(to: str, usd: int, ctx: ToolContext) -> dict[str, Any]:
            "Pay."
            if to == "nobody":
                raise ToolFailed("there is no such account")
            self.paid.append(to)
            return {"paid": to, "receipt": f"{to}-{len(self.paid)}"}

        @tool(side_effect=True, idempotent=True)
        async def post(text: str) -> str:
            "Post a text; posting it twice is as posting it once."
            self.paid.append(text)
            return f"posted {text}"

        @tool(side_effect=False)
        async def look() -> int:
            "Look."
            self.looked += 1
            return self.looked

        return [pay, post, look]


def payroll(*names: str) -> Any:
    """A run that pays these people, one after the other."""

    async def code(run: Run) -> list[Any]:
        await run.step_model(model="m", messages=[{"role": "user", "content": "Go."}])
        results = [await run.step_tool("pay", {"to": name, "usd": 3}) for name in names]
        return [result.value for result in results]

    return code


def opened(tmp_path: Path, bank: Bank) -> Kernel:
    return open_kernel(tmp_path, echo(), tools=bank.tools())


async def before_payments(kernel: Kernel, run_id: str = "r") -> int:
    return await seq_of(kernel, "model.completed", 1, run_id)


def test_a_fork_pays_nothing_again_and_stops_at_a_new_payment(tmp_path: Path) -> None:
    bank = Bank()

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana", "ben", "nobody"))
            at = await before_payments(kernel)

            same = await runs.fork("r", at=at)
            other = await runs.fork("r", at=at)
            assert await drive(runs, payroll("ana", "ben", "nobody"), same) == "completed"
            more = payroll("ana", "cleo")
            stopped = await drive(runs, more, other, on_wait="suspend")

            assert await result_of(runs, same) == await result_of(runs, "r")
            assert stopped == "waiting_approval"
            assert bank.paid == ["ana", "ben"]
            (asked,) = await runs.approvals(other)
            assert asked["details"]["arguments"] == {"to": "cleo", "usd": 3}
            assert asked["details"]["fork"] == other
            await runs.approve(other, by="user:kim")
            assert await drive(runs, more, other) == "completed"
            assert bank.paid == ["ana", "ben", "cleo"]
            assert [one["receipt"] for one in await result_of(runs, other)] == ["ana-1", "cleo-3"]

    play(scenario())


def test_each_recorded_call_is_returned_once_in_order(tmp_path: Path) -> None:
    bank = Bank()

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana", "ana"))
            name = await runs.fork("r", at=await before_payments(kernel))

            three = payroll("ana", "ana", "ana")
            assert await drive(runs, three, name, on_wait="suspend") == "waiting_approval"

            done = [e.decode() for e in await events(kernel, name) if e.kind == "tool.completed"]
            assert [(one.recorded.run, one.recorded.key) for one in done] == [("r", "2"), ("r", "3")]
            assert bank.paid == ["ana", "ana"]
        with opened(tmp_path, bank) as kernel:  # another process finds them used
            runs = kernel.for_tenant()
            assert await drive(runs, three, name, on_wait="suspend") == "waiting_approval"
            deep = await runs.fork(name)  # and so does a fork of the fork
            assert await drive(runs, three, deep, on_wait="suspend") == "waiting_approval"
            again = await runs.fork(name, at=await before_payments(kernel))
            assert await drive(runs, payroll("ana", "ana"), again) == "completed"
            assert bank.paid == ["ana", "ana"]

    play(scenario())


def test_the_prefix_is_no_store_of_payments(tmp_path: Path) -> None:
    """A payment before the branch has been made in the fork's past: another one like it is new."""
    bank = Bank()

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana"))
            name = await runs.fork("r", at=await seq_of(kernel, "tool.completed"))

            stopped = await drive(runs, payroll("ana", "ana"), name, on_wait="suspend")

            assert stopped == "waiting_approval"
            assert bank.paid == ["ana"]

    play(scenario())


def test_a_denied_payment_is_an_error_that_the_code_reads(tmp_path: Path) -> None:
    bank = Bank()

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana"))
            name = await runs.fork("r", at=await before_payments(kernel))
            await drive(runs, payroll("ben"), name, on_wait="suspend")

            await runs.approve(name, deny=True, note="not in a fork", by="user:kim")
            assert await drive(runs, payroll("ben"), name) == "completed"

            assert "not in a fork" in str(await result_of(runs, name))
            assert bank.paid == ["ana"]

    play(scenario())


def test_a_payment_cut_off_by_the_branch_returns_what_became_of_it(tmp_path: Path) -> None:
    bank = Bank()

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana"))
            name = await runs.fork("r", at=await seq_of(kernel, "tool.requested"))

            assert await drive(runs, payroll("ana"), name) == "completed"
            assert await result_of(runs, name) == await result_of(runs, "r")
            assert bank.paid == ["ana"]

    play(scenario())


def test_a_stub_refuses_and_a_live_fork_acts(tmp_path: Path) -> None:
    bank = Bank()

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana"))
            at = await before_payments(kernel)
            stub = await runs.fork("r", at=at, effects="stub")
            live = await runs.fork("r", at=at, effects="live")

            assert await drive(runs, payroll("ana"), stub) == "completed"
            assert bank.paid == ["ana"]
            assert "does nothing outside" in str(await result_of(runs, stub))
            assert await drive(runs, payroll("ana"), live) == "completed"
            assert bank.paid == ["ana", "ana"]
            with pytest.raises(InvalidRequest, match="recorded, stub, live"):
                await runs.fork("r", effects="dry")

    play(scenario())


def test_reading_is_free_and_repeatable_effects_are_effects(tmp_path: Path) -> None:
    bank = Bank()

    async def code(run: Run) -> list[Any]:
        await run.step_model(model="m", messages=[{"role": "user", "content": "Go."}])
        return [
            (await run.step_tool("look", {})).value,
            (await run.step_tool("post", {"text": "hello"})).value,
        ]

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            name = await runs.fork("r", at=await before_payments(kernel))

            assert await drive(runs, code, name) == "completed"

            assert bank.looked == 2
            assert bank.paid == ["hello"]
            assert await result_of(runs, name) == [2, "posted hello"]

    play(scenario())


def test_runs_below_a_fork_are_held_to_its_mode(tmp_path: Path) -> None:
    bank = Bank()

    def family(*names: str) -> Any:
        async def code(run: Run) -> list[Any]:
            await run.step_model(model="m", messages=[{"role": "user", "content": "Go."}])
            done: list[Any] = []
            for number, name in enumerate(names):
                opening = kernel.for_tenant().run(f"{run.id}/{number}", parent=run, on_wait="suspend")
                async with opening as child:
                    done.append((await child.step_tool("pay", {"to": name, "usd": 3})).value)
                    child.finish(name)
            return done

        return code

    async def scenario() -> None:
        nonlocal kernel
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, family("ana", "ben"))
            at = await before_payments(kernel)
            name = await runs.fork("r", at=at)

            assert await drive(runs, family("ben", "ana"), name) == "completed"
            assert bank.paid == ["ana", "ben"]
            other = await runs.fork("r", at=at)
            stopped = await drive(runs, family("ben", "ben"), other, on_wait="suspend")
            assert stopped.startswith("waiting_approval")
            (asked,) = await runs.approvals(f"{other}/1")
            assert asked["details"]["arguments"]["to"] == "ben"
            assert bank.paid == ["ana", "ben"]
            await assert_conserved(kernel, "default")

    kernel: Any = None
    play(scenario())


def test_two_processes_that_drive_children_of_a_fork_use_a_record_once(tmp_path: Path) -> None:
    """The second one knows the record as it was before the first one used it."""
    bank = Bank()

    async def child(run: Run, *names: str) -> list[Any]:
        await run.wait_for("go", key="go")
        paid = [await run.step_tool("pay", {"to": name, "usd": 3}) for name in names]
        return [one.value for one in paid]

    async def scenario() -> None:
        with opened(tmp_path, bank) as first, opened(tmp_path, bank) as second:
            runs, others = first.for_tenant(), second.for_tenant()
            await drive(runs, payroll("ana", "ben", "ben"))
            name = await runs.fork("r", at=await before_payments(first))
            for number in range(2):
                with suppress(RunSuspended):
                    async with runs.run(name, on_wait="suspend") as run:
                        await run.step_model(model="m", messages=[{"role": "user", "content": "Go."}])
                        opening = runs.run(f"{name}/{number}", parent=run, on_wait="suspend")
                        async with opening as below:
                            await child(below)
            for number in range(2):
                await runs.signal(f"{name}/{number}", "go")

            def pays(*names: str) -> Any:
                return lambda run: child(run, *names)

            assert await drive(others, pays("ben", "cleo"), f"{name}/1", on_wait="suspend") == (
                "waiting_approval"
            )
            assert await drive(runs, pays("ben", "ana"), f"{name}/0") == "completed"
            await others.approve(f"{name}/1", deny=True)
            status = await drive(others, pays("ben", "cleo", "ana"), f"{name}/1", on_wait="suspend")
            assert status == "waiting_approval"
            (asked,) = await others.approvals(f"{name}/1")
            assert asked["details"]["arguments"]["to"] == "ana", "the other process has used it"
            assert bank.paid == ["ana", "ben", "ben"]

    play(scenario())


def test_parallel_payments_do_not_share_one_record(tmp_path: Path) -> None:
    bank = Bank()

    async def beside(run: Run) -> list[Any]:
        await run.step_model(model="m", messages=[{"role": "user", "content": "Go."}])
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(run.step_tool("pay", {"to": "ana", "usd": 3}, key=f"p{n}"))
                for n in range(4)
            ]
        return [task.result().value for task in tasks]

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, beside)
            name = await runs.fork("r", at=await before_payments(kernel))

            assert await drive(runs, beside, name) == "completed"

            receipts = [one["receipt"] for one in await result_of(runs, name)]
            assert sorted(receipts) == ["ana-1", "ana-2", "ana-3", "ana-4"]
            assert len(bank.paid) == 4

    play(scenario())


def test_nothing_is_undone_that_a_fork_only_returned(tmp_path: Path) -> None:
    bank = Bank()

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana"))
            name = await runs.fork("r", at=await before_payments(kernel))
            await drive(runs, payroll("ana"), name)

            assert (await runs.compensate(name)).undone == ()
            assert bank.refunded == []
            await runs.compensate("r")
            assert bank.refunded == ["ana"]

    play(scenario())


def test_a_fork_replays_with_nothing_called(tmp_path: Path) -> None:
    bank = Bank()

    async def finishing(run: Run) -> None:
        run.finish(await payroll("ana", "ben")(run))

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana", "ben"))
            name = await runs.fork("r", at=await before_payments(kernel))
            await drive(runs, payroll("ana", "ben"), name)

            found = await runs.replay(name, finishing)

            assert (found.status, found.model_calls, found.tool_calls) == ("completed", 0, 0)
            await runs.export(name, tmp_path / "f.artelier")
        with Kernel.open(tmp_path / "other.db", environ={}) as kernel:
            taken = await kernel.for_tenant().import_(tmp_path / "f.artelier")
            assert (await kernel.for_tenant().replay(taken.run_id, finishing)).status == "completed"

    play(scenario())


def test_a_fork_that_drifts_is_held_as_before_and_another_run_that_drifts_acts(tmp_path: Path) -> None:
    bank = Bank()

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana", "ben"))
            name = await runs.fork("r", at=await before_payments(kernel))
            await drive(runs, payroll("ana", "dora"), name, on_wait="suspend")

            changed, how = payroll("ben", "ana", "cleo"), {"replay": "fork_on_drift"}
            await drive(runs, changed, name, on_wait="suspend", **how)
            drifted = await runs.goes_on_as(name)

            assert drifted == f"{name}.drift-1"
            assert (await runs.show(drifted))["effects"] == "recorded"
            (asked,) = await runs.approvals(drifted)
            assert asked["details"]["arguments"]["to"] == "cleo"
            assert bank.paid == ["ana", "ben"]
            await drive(runs, payroll("ana"), "plain", **how)
            await drive(runs, payroll("eve"), "plain", **how)
            assert bank.paid == ["ana", "ben", "ana", "eve"]  # it is the same run, that goes on
            assert (await runs.show(await runs.goes_on_as("plain")))["effects"] == "live"
            assert (await runs.show("plain"))["effects"] is None

    play(scenario())


def test_what_a_person_settled_is_returned_too(tmp_path: Path) -> None:
    @tool(side_effect=True)
    async def pay(to: str, usd: int) -> str:
        "Pay, and lose the answer."
        raise ConnectionError("the line went dead")

    async def code(run: Run) -> Any:
        await run.step_model(model="m", messages=[{"role": "user", "content": "Go."}])
        return (await run.step_tool("pay", {"to": "ana", "usd": 3})).value

    async def scenario() -> None:
        with open_kernel(tmp_path, echo(), tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "unknown_outcome"
            early = await runs.fork("r", at=await before_payments(kernel))
            await runs.reconcile("r", "2", succeeded="paid")
            assert await drive(runs, code) == "completed"
            late = await runs.fork("r", at=await before_payments(kernel))

            assert await drive(runs, code, late) == "completed"
            assert await result_of(runs, late) == "paid"
            # What was recorded is what was recorded when the fork was made.
            assert await drive(runs, code, early, on_wait="suspend") == "waiting_approval"

    play(scenario())


def test_a_worker_that_does_not_know_effects_refuses_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As code whose newest `run.forked` is version 1 reads it: it does not fit, and nothing is driven."""
    bank = Bank()

    async def scenario() -> None:
        with opened(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, payroll("ana"))
            name = await runs.fork("r", at=await before_payments(kernel))
            (began,) = await events(kernel, name)
            assert (began.kind, began.version) == ("run.forked", 2)
            registry: Any = sys.modules["artelier.log.event"]
            monkeypatch.setitem(registry._newest, "run.forked", 1)
            monkeypatch.delitem(registry._registry, ("run.forked", 2))

            with pytest.raises(UnknownEvent, match=r"run\.forked version 2"):
                async with runs.run(name) as run:
                    await payroll("ana")(run)
            monkeypatch.undo()

            assert bank.paid == ["ana"]
            assert (await runs.show(name))["status"] == "pending"

    play(scenario())


def test_a_fork_of_before_acts() -> None:
    data = b'{"at":3,"origin":"r"}'

    assert decode_data("run.forked", 1, data) == ev.RunForked(origin="r", at=3, effects="live")
