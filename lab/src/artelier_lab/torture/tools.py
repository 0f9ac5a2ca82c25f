"""The tools of tortured agents: one of each sort, all of them pretending to reach the outside world."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from artelier.errors import ToolFailed, TransientError
from artelier.ports.tool import Happened, ProbeAnswer, ToolContext, ToolPort, happened, not_happened, unsure
from artelier.tools import tool
from artelier_lab.torture.outside import Outside, Transfer
from artelier_lab.torture.process import Process, current

ANSWER_S_MAX = 4.0
"""How long a call usually takes at most."""


def _process() -> Process:
    process = current.get()
    assert process is not None, "a tool is called outside every process"
    return process


async def _enter(kind: str, context: ToolContext) -> Process:
    process = _process()
    key = context.idempotency_key.removeprefix(f"{context.tenant_id}/{context.run_id}:")
    await process.enter(kind, context.run_id, key)
    return process


async def _work(kind: str, context: ToolContext) -> Process:
    """Enter a call: it takes some time, and the process may be dead by then."""
    process = await _enter(kind, context)
    await asyncio.sleep(process.plan.rng.uniform(0.0, ANSWER_S_MAX))
    process.check_alive()
    return process


def _fail_at_first(outside: Outside, process: Process, call: str) -> None:
    """Some calls fail in a passing way, at most as often as they are tried again by themselves."""
    left = outside.failures.get(call)
    if left is None:
        left = process.plan.failures(most=3)
    outside.failures[call] = max(0, left - 1)
    if left:
        process.plan.count("tool fails at first")
        raise TransientError("the service is busy")


def make_tools(outside: Outside) -> list[ToolPort]:
    """Tools over one outside world. They find their process by the context they are called in."""
    return [*_harmless(outside), *_once(outside)]


def _harmless(outside: Outside) -> list[ToolPort]:
    @tool(side_effect=False)
    async def look(op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Look something up."""
        process = await _work("look", ctx)
        _fail_at_first(outside, process, ctx.idempotency_key)
        return {"op": op, "seen": amount * 7}

    @tool(side_effect=True, idempotent=True)
    async def put(op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Put something on the board; putting it twice is putting it once."""
        process = await _work("put", ctx)
        _fail_at_first(outside, process, ctx.idempotency_key)
        outside.board[ctx.idempotency_key] = f"{op}={amount}"
        return {"op": op, "put": amount}

    @tool(side_effect=False)
    async def big(op: str, amount: int, ctx: ToolContext) -> str:
        """A long result."""
        await _work("big", ctx)
        return f"{op} {{{{ignore}}}} <system> " + "x" * (2_000 + amount * 40)

    @tool(side_effect=False)
    async def broken(op: str, amount: int, ctx: ToolContext) -> str:
        """Raises what nobody expects."""
        await _work("broken", ctx)
        raise ZeroDivisionError(f"{op}: {amount} / 0")

    @tool(side_effect=False, heartbeat_timeout_s=2.0)
    async def hang(op: str, amount: int, ctx: ToolContext) -> str:
        """Says that it works, then falls silent."""
        await _enter("hang", ctx)
        for _ in range(3):
            ctx.progress("working")
            await asyncio.sleep(1.0)
        await asyncio.Event().wait()
        return "never"

    @tool(side_effect=False, grant="never:granted")
    async def forbidden(op: str, amount: int) -> str:
        """Nobody may call this."""
        outside.violations.append(f"a tool without a grant was entered for {op}")
        return op

    @tool(side_effect=False)
    async def consult(op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Asks a person while it works."""
        await _work("consult", ctx)
        answer = await ctx.ask("may I", {"op": op})
        return {"op": op, "may": answer.decision}

    return [look, put, big, broken, hang, forbidden, consult]


async def _transfer(outside: Outside, kind: str, op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
    """Send money: the answer may be lost, late, or never come."""
    process = await _enter(kind, ctx)
    outside.dispatch(ctx.idempotency_key)
    found = outside.request(ctx.idempotency_key, op, amount)
    takes_s = process.plan.rng.uniform(0.0, ANSWER_S_MAX)
    if process.plan.chance(process.plan.rates.late):
        fates = ("late", "lost", "error", "nothing", *(("thread",) * 3 if kind == "wire" else ()))
        fate = process.plan.rng.choice(fates)
        process.plan.count(f"{kind} {fate}")
        if fate == "thread":
            _fly(_outlive(process, found, ctx.in_thread()))
            await asyncio.sleep(1e9)
        if fate == "nothing":
            await asyncio.sleep(takes_s)
            raise ConnectionError("reset before it was sent")
        _carry_out(outside, found, after_s=30.0 if fate == "late" else takes_s)
        if fate == "error":
            await asyncio.sleep(takes_s + 0.1)
            raise ConnectionError("reset after it was sent")
        await asyncio.sleep(40.0 if fate == "late" else 1e9)
        return found.receipt
    await asyncio.sleep(takes_s / 2)
    process.check_alive()
    _carry_out(outside, found, after_s=0.0)
    await asyncio.sleep(takes_s / 2)
    return found.receipt


def _once(outside: Outside) -> list[ToolPort]:
    transfer = partial(_transfer, outside)

    async def books(idempotency_key: str, arguments: dict[str, Any]) -> Happened | ProbeAnswer:
        """Return what the bank says when it is asked."""
        _process().check_alive()
        outside.called("probe", idempotency_key)
        await asyncio.sleep(0.5)
        found = outside.transfers.get(idempotency_key)
        if found is not None and found.in_flight:
            if arguments["amount"] % 2:
                return unsure
            raise TransientError("still on its way")
        if found is not None and found.applied:
            return happened(found.receipt)
        step = idempotency_key.partition("/")[2]
        if not arguments["amount"] % 5:
            outside.denied.add(step.partition(":")[0])
            raise ToolFailed("no such transfer, and none is taken any more")
        outside.not_happened[step] += 1
        return not_happened

    @tool(side_effect=True, timeout_s=10.0, risk="low")
    async def pay(op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Pay; nobody can be asked whether it worked, but for the operator's look at the books."""
        return await transfer("pay", op, amount, ctx)

    @tool(side_effect=True, timeout_s=10.0, probe=books, risk="low")
    async def wire(op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Pay at a bank that can be asked."""
        return await transfer("wire", op, amount, ctx)

    @tool(side_effect=True, timeout_s=10.0, risk="high")
    async def risky(op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Pay, after a person has said yes."""
        return await transfer("risky", op, amount, ctx)

    @tool(side_effect=True, timeout_s=10.0, risk="low")
    async def vouch(op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Ask a person, then pay."""
        if not await ctx.ask("may I pay", {"op": op}, before_acting=True):
            raise ToolFailed(f"nobody vouches for {op}")
        return await transfer("vouch", op, amount, ctx)

    async def take_back(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> dict[str, Any]:
        """Undo an order: a transfer of its own, under the key of the undoing."""
        return await transfer("take back", arguments["op"], arguments["amount"], ctx)

    @tool(side_effect=True, timeout_s=10.0, compensate=take_back, risk="low")
    async def order(op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Order something that can be taken back."""
        return await transfer("order", op, amount, ctx)

    @tool(side_effect=True, risk="low")
    async def refuse(op: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Says that nothing happened."""
        await _work("refuse", ctx)
        outside.dispatch(ctx.idempotency_key)
        raise ToolFailed(f"the account of {op} is closed")

    return [pay, wire, risky, vouch, refuse, order]


async def _outlive(process: Process, transfer: Transfer, ended: Callable[[], None]) -> None:
    """A thread that goes on after its call was cut off: it pays late, unless its process has died."""
    await asyncio.sleep(process.plan.rng.uniform(11.0, 25.0))
    if process.alive:
        transfer.applied += 1
    ended()


_flights: set[asyncio.Task[None]] = set()


def _carry_out(outside: Outside, transfer: Transfer, *, after_s: float) -> None:
    """The bank works on its own: it outlives whoever asked."""
    _fly(outside.carry_out(transfer, after_s=after_s))


def _fly(work: Coroutine[Any, Any, None]) -> None:
    """Begin what no process of the simulation owns."""
    task = contextvars.Context().run(asyncio.get_running_loop().create_task, work)
    _flights.add(task)
    task.add_done_callback(_flights.discard)
