"""`artelier worker`: drives what is due."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display
from artelier.cli.brought_tools import BroughtTools, ToolFiles
from artelier.cli.call import CliCall
from artelier.cli.command import DRAIN_S, DrainS, HealthAddress, alone, command

if TYPE_CHECKING:
    import asyncio

    from artelier import Kernel
    from artelier.agents import Worker
    from artelier.errors import ArtelierError
    from artelier.kernel import AgentResult

app = alone()


@command(app, example="artelier worker --once")
async def worker(
    call: CliCall,
    once: Annotated[bool, typer.Option("--once", help="Drive what is due now, then end.")] = False,
    tools: ToolFiles = None,
    slots: Annotated[
        int, typer.Option("--slots", metavar="N", min=1, max=1000, help="Runs driven side by side.")
    ] = 16,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--labels",
            metavar="KEY=VALUE",
            help="Take only runs with loop=NAME, model=NAME or agent=ID; repeatable.",
        ),
    ] = None,
    health: HealthAddress = None,
    drain_s: DrainS = DRAIN_S,
) -> None:
    """Drive the runs that nobody drives.

    Those are runs of built-in loops that crashed, were resumed, approved or reopened, whose time has come, or
    that a schedule starts. One line on stdout for each time that a run ends or waits. Without --tenant it
    serves all tenants. Ctrl-C ends it at once; the runs at hand stay resumable. SIGTERM drains it: it takes
    no more runs, lets tools that are at work end, and gives the runs back; a second one ends it at once.

    Several workers may serve one database: each takes what nobody drives, while it has a free slot. Two
    labels of one key are alternatives. A worker with labels leaves to others what has not begun yet:
    schedules, and tasks and turns of chats that nobody has begun. So keep one without. With --health a
    supervisor asks /livez and /readyz, and Prometheus /metrics.
    """
    import asyncio

    from artelier.agents import Worker
    from artelier.cli.work.sigterm import drain_on_sigterm
    from artelier.errors import StoreUnavailable
    from artelier.kernel.queries.runs import Labels

    driven: set[tuple[str, str]] = set()
    wanted = Labels.parse(labels or [])

    def report(tenant: str, run_id: str, outcome: AgentResult | ArtelierError) -> None:
        driven.add((tenant, run_id))
        _print(call, tenant, run_id, outcome)

    async with AsyncExitStack() as stack:
        brought = BroughtTools.of(tools, mcp=False)
        kernel = await stack.enter_async_context(call.kernel(create=True, brought=brought))
        drives = Worker(
            kernel,
            kernel.services,
            tenant=call.named_tenant,
            report=report,
            slots=slots,
            labels=wanted,
            on_away=lambda error: call.screen.note(f"{display.line(str(error))}; trying again"),
        )
        if health is not None:
            await stack.enter_async_context(_health(call, kernel, health, slots=slots))
        told_to_end = asyncio.Event()
        drain_on_sigterm(told_to_end.set)  # before anybody is told that it works
        if once:
            working = _all_due(drives, driven, until_us=kernel.services.clock.now_us())
        else:
            call.screen.note(f"worker on {call.database_label}; Ctrl-C ends it")
            working = drives.forever()
        try:
            await _until_told(call, drives, working, told_to_end, drain_s=drain_s)
        finally:
            with suppress(StoreUnavailable):
                call.screen.note(f"head {await kernel.head()}", "dim")


@asynccontextmanager
async def _health(call: CliCall, kernel: Kernel, address: str, *, slots: int) -> AsyncGenerator[None]:
    """Answer supervisors at an address."""
    from artelier.server.health import serving

    async with serving(kernel, address, slots=slots) as url:
        call.screen.note(f"health on {url}")
        yield


async def _until_told(
    call: CliCall,
    drives: Worker,
    working: Coroutine[Any, Any, None],
    told_to_end: asyncio.Event,
    *,
    drain_s: float,
) -> None:
    """Work until all is done, or until SIGTERM; then drain."""
    import asyncio

    work = asyncio.ensure_future(working)
    ending = asyncio.ensure_future(told_to_end.wait())
    try:
        await asyncio.wait((work, ending), return_when=asyncio.FIRST_COMPLETED)
        if told_to_end.is_set():
            call.screen.note(f"draining: tools at work may take {drain_s:g} s to end")
            await drives.drain(within_s=drain_s)
            work.cancel()
        await work
    except asyncio.CancelledError:
        if not told_to_end.is_set():  # Ctrl-C
            raise
    finally:
        ending.cancel()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _all_due(worker: Worker, driven: set[tuple[str, str]], *, until_us: int) -> None:
    """Rounds until one brings nothing new: a worker takes only so many runs at once."""
    while True:
        before = len(driven)
        await worker.once(until_us=until_us)
        if len(driven) == before:
            return


def _print(call: CliCall, tenant: str, run_id: str, outcome: AgentResult | ArtelierError) -> None:
    from artelier.errors import ArtelierError
    from artelier.money import format_usd
    from artelier.pii.scrubber_registry import marked_wire, redact_output

    if isinstance(outcome, ArtelierError):
        if call.as_json:
            wire = marked_wire(outcome.to_wire())
            found = {"tenant": tenant, "run_id": run_id, "error": wire}
            call.screen.json(found, indent=-1)
        else:
            call.screen.line(
                f"{tenant}  {run_id}  cannot be driven here: {display.line(redact_output(str(outcome)))}",
                "red",
            )
        return
    if call.as_json:
        call.screen.json(
            {
                "tenant": tenant,
                "run_id": run_id,
                "status": outcome.status,
                "reason": outcome.reason,
                "cost_microusd": outcome.cost_microusd,
            },
            indent=-1,
        )
        return
    reason = f" ({outcome.reason})" if outcome.reason else ""
    cost = format_usd(outcome.cost_microusd)
    call.screen.line(f"{tenant}  {run_id}  {outcome.status}{reason}  {cost} USD")
