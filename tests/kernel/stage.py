"""What the kernel's tests stand on: small models and tools, and questions to a store from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from artelier import Kernel, ModelReply, ModelRequest, Policy, Price, Run, RunSuspended, Tenant
from artelier.app import TenantKernel
from artelier.errors import ArtelierError, NotFound
from artelier.ports.model import Usage
from artelier.testing import ManualClock, ScriptedModel

T = TypeVar("T")
Code = Callable[[Run], Awaitable[Any]]

EAGER = Policy(backoff_s=0.0)
"""Attempts follow each other at once."""

PRICE = Price(input=Decimal(1), output=Decimal(2))
"""A micro-dollar per token of input, two per token of output."""

ACME = Tenant("acme", grants={"tools:*"}, budget_usd="5.00")


def play(scenario: Coroutine[Any, Any, T], *, within_s: float = 30.0) -> T:
    """Run a scenario to its end; one that hangs is a failure."""

    async def bounded() -> T:
        async with asyncio.timeout(within_s):
            return await scenario

    return asyncio.run(bounded())


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def ask(run: Run, text: str, **more: Any) -> str:
    """The text of one model step about one message."""
    return (await run.step_model(model="m", messages=[user(text)], **more)).text


def last(request: ModelRequest) -> str:
    return request.messages[-1].text


def echo(*, price: Price | None = None) -> ScriptedModel:
    """A model that answers every message with `re: <message>`."""
    if price is None:
        return ScriptedModel(lambda request: f"re: {last(request)}")
    return ScriptedModel(lambda request: f"re: {last(request)}", price=price)


def billed(text: str, *, inputs: int = 10, outputs: int = 10) -> ModelReply:
    return ModelReply(text=text, usage=Usage(input_tokens=inputs, output_tokens=outputs))


class GateModel:
    """Answers a message when the test says so: `await gate.asked("a")`, then `gate.answer("a")`."""

    price = Price()

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self._asked: dict[str, asyncio.Event] = {}
        self._answers: dict[str, asyncio.Future[str]] = {}

    def _gate(self, text: str) -> tuple[asyncio.Event, asyncio.Future[str]]:
        loop = asyncio.get_running_loop()
        event = self._asked.setdefault(text, asyncio.Event())
        return event, self._answers.setdefault(text, loop.create_future())

    async def asked(self, text: str) -> None:
        await self._gate(text)[0].wait()

    def answer(self, text: str, reply: str | None = None) -> None:
        self._gate(text)[1].set_result(f"re: {text}" if reply is None else reply)

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        self.requests.append(request)
        event, answer = self._gate(last(request))
        event.set()
        return ModelReply(text=await asyncio.shield(answer))


class World:
    """The outside: what tools did to it, by idempotency key, in order."""

    def __init__(self, done: list[str] | None = None) -> None:
        self.done = list(done or ())

    def copy(self) -> World:
        return World(self.done)


def all_others_are_dead(kernel: Kernel) -> None:
    """Whoever else holds a lease is known to be gone."""
    services = kernel.services
    services.is_dead = lambda holder: holder.partition("/")[0] != services.holder


async def drive(runs: TenantKernel, code: Code, run_id: str = "r", **opening: Any) -> str:
    """Open a run, run code in it and tell how it went: its status, or `status: error`."""
    error = ""
    try:
        async with runs.run(run_id, **opening) as run:
            run.finish(await code(run))
    except RunSuspended as suspended:
        return suspended.status
    except ArtelierError as raised:
        error = f": {raised.code}"
    return (await runs.show(run_id))["status"] + error


async def result_of(runs: TenantKernel, run_id: str = "r") -> Any:
    return (await runs.show(run_id))["result"]


async def kinds(kernel: Kernel, run_id: str = "r", *, tenant: str = "default") -> list[str]:
    """The kinds of a run's events, in order."""
    return [event.kind for event in await events(kernel, run_id, tenant=tenant)]


async def events(kernel: Kernel, run_id: str = "r", *, tenant: str = "default") -> list[Any]:
    return [
        event
        async for event in kernel.events()
        if event.stream.tenant == tenant and event.stream.local == f"run:{run_id}"
    ]


async def balances(kernel: Kernel, tenant: str) -> dict[str, int]:
    rows = await kernel.store.query(
        "SELECT account, balance FROM accounts WHERE tenant = ? AND asset = 'usd'", (tenant,)
    )
    return {account: balance for account, balance in rows if balance}


async def assert_conserved(kernel: Kernel, tenant: str, *, held: int = 0) -> dict[str, int]:
    """All money of a tenant is somewhere, nobody but a source owes any, and so much of it is held."""
    found = await balances(kernel, tenant)
    assert sum(found.values()) == 0, found
    debtors = {name for name, amount in found.items() if amount < 0}
    assert all(name.startswith("source:") for name in debtors), found
    assert sum(v for name, v in found.items() if name.startswith("hold:")) == held, found
    return found


async def until(fact: Callable[[], Awaitable[bool]], *, within_s: float = 5.0) -> None:
    """Wait until something is so; for effects of other processes, which come on their own."""
    async with asyncio.timeout(within_s):
        while not await fact():
            await asyncio.sleep(0.005)


async def has_status(runs: TenantKernel, status: str, run_id: str = "r") -> None:
    async def so() -> bool:
        try:
            return (await runs.show(run_id))["status"] == status
        except NotFound:
            return False

    await until(so)


async def pass_time(clock: ManualClock, task: asyncio.Task[T]) -> T:
    """Move the clock to each sleeper's time until a task is done."""
    while not task.done():
        await asyncio.sleep(0.001)
        clock.advance_to_next()
    return await task


def open_kernel(folder: Path, model: Any = None, **more: Any) -> Kernel:
    """A kernel on `s.db` in a folder; `model` answers every name."""
    more.setdefault("policy", EAGER)
    return Kernel.open(folder / "s.db", models=model or echo(), **more)
