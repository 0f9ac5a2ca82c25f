"""Passing ticks: run, step, pause, resume, inject."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli import display, exit_codes
from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.completion import model_names
from artelier.cli.world.creation import Name, PolicyFile, app, world_of
from artelier.errors import InvalidRequest, LimitReached, RunSuspended

if TYPE_CHECKING:
    from artelier.world import Passed, World


WorldModel = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="NAME", help="Of agents that name none, from now on.", autocompletion=model_names
    ),
]
MostUsd = Annotated[
    str | None, typer.Option("--max-usd", metavar="AMOUNT", help="Most that models may cost in this call.")
]


@command(app, name="run", example="artelier world run market --ticks 100")
async def run(
    call: CliCall,
    name: Name,
    ticks: Annotated[int, typer.Option("--ticks", metavar="N", help="How many to pass.")] = 1,
    policies: PolicyFile = None,
    model: WorldModel = None,
    max_usd: MostUsd = None,
) -> int:
    """Pass ticks of a world.

    Each tick is recorded whole or not at all: after Ctrl-C or a crash, run goes on where it stopped, and no
    model is asked twice. A model that cannot be asked stops the world before the tick.
    """
    if ticks < 0:
        raise InvalidRequest("--ticks", expected="a number from 0", got=ticks)
    async with call.kernel() as kernel, world_of(call, kernel, name, policies) as world:
        await _warn(call, world)
        async with _apply_options(call, world, model, max_usd):
            return await _pass(call, world, ticks, policies, max_usd)


@command(app, name="step", example="artelier world step market")
async def step(
    call: CliCall, name: Name, policies: PolicyFile = None, model: WorldModel = None, max_usd: MostUsd = None
) -> int:
    """Pass one tick and print what happened in it."""
    from artelier.cli.world.inspection import show_events
    from artelier.world.queries.reports import log

    async with call.kernel() as kernel, world_of(call, kernel, name, policies) as world:
        await _warn(call, world)
        try:
            async with _apply_options(call, world, model, max_usd):
                passed = await world.tick()
        except RunSuspended as stopped:
            return _report_suspended(call, stopped, world, max_usd)
        found = await log(world, tick=passed.tick, limit=10_000)
    if call.print_json(
        {"tick": passed.tick, "acted": passed.acted, "rejected": passed.rejected, "events": found.items}
    ):
        return exit_codes.COMPLETED
    show_events(call, found.items)
    return exit_codes.COMPLETED


async def _warn(call: CliCall, world: World) -> None:
    """Say which rule agents are not there: their agents do nothing, and are not asked by a model."""
    missing = await world.missing_policies()
    if missing:
        names = ", ".join(f"{name} (of {', '.join(agents[:3])})" for name, agents in missing.items())
        call.screen.note(f"no such rule agent: {names}; give --policies FILE.py", "yellow")


@contextlib.asynccontextmanager
async def _apply_options(
    call: CliCall, world: World, model: str | None, max_usd: str | None
) -> AsyncGenerator[None]:
    """Apply `--model` for good, and `--max-usd` as long as this call lasts."""
    call.dollars(max_usd)
    if model is not None:
        await world.use_model(model, by=call.person)
    await world.cap_spending(max_usd, by=call.person)  # also lifts that of a call that was killed
    try:
        yield
    finally:
        await world.cap_spending(None, by=call.person)


def _report_suspended(call: CliCall, stopped: RunSuspended, world: World, max_usd: str | None) -> int:
    """Say that an agent's run waits for somebody: the tick was not passed."""
    from artelier.world.kernel_adapter import scope_of

    if stopped.status == "budget_exhausted" and scope_of(world.id) in (stopped.reason or ""):
        again = call.command_line("world", "run", world.id, "--max-usd", "AMOUNT")
        raise LimitReached(
            f"the models of world {world.id} may cost no more: the tick was not passed",
            expected=f"at most {max_usd} USD",
            got="a call that could cost more than what is left",
            hint=f"What was answered is kept. Go on with: {again}",
        )
    reason = f": {stopped.reason}" if stopped.reason else ""
    if not call.print_json(
        {"world": None, "held": stopped.run_id, "status": stopped.status, "reason": stopped.reason}
    ):
        call.screen.note(
            f"the tick waits for run {stopped.run_id}, which is {stopped.status}{reason};"
            f" go on with: {call.command_line('resume', stopped.run_id)}",
            "yellow",
        )
    return exit_codes.of_status(stopped.status)


async def _pass(call: CliCall, world: World, ticks: int, policies: Path | None, max_usd: str | None) -> int:
    total = acted = rejected = 0
    passed: Passed | None = None
    with call.screen.counting(f"ticks of {world.id}", total=max(ticks, 1)) as tell:
        for _ in range(ticks):
            left = ["world", "run", world.id, "--ticks", str(ticks - total)]
            rules = ["--policies", str(policies)] if policies is not None else []
            cap = ["--max-usd", max_usd] if max_usd is not None else []
            call.resumable = call.command_line(*left, *rules, *cap)
            try:
                passed = await world.tick()
            except RunSuspended as stopped:
                return _report_suspended(call, stopped, world, max_usd)
            total, acted, rejected = total + 1, acted + passed.acted, rejected + passed.rejected
            tell(f"tick {passed.tick}")
    now = passed.tick if passed is not None else await world.tick_now()
    if call.print_json(
        {"world": world.id, "tick": now, "passed": total, "actions": acted, "rejected": rejected}
    ):
        return exit_codes.COMPLETED
    call.screen.line(
        f"{world.id} is at tick {now}: {display.count(total, 'tick')} passed,"
        f" {display.count(acted, 'action')}, {rejected:,} of them rejected"
    )
    return exit_codes.COMPLETED


@command(app, name="pause", example="artelier world pause market")
async def pause(call: CliCall, name: Name) -> None:
    """Let no further tick begin until the world is resumed."""
    async with call.kernel() as kernel:
        await world_of(call, kernel, name).pause(by=call.person)
    _say(call, name, "paused")


@command(app, name="resume", example="artelier world resume market")
async def resume(call: CliCall, name: Name) -> None:
    """Let ticks begin again."""
    async with call.kernel() as kernel:
        await world_of(call, kernel, name).resume(by=call.person)
    _say(call, name, "resumed")


@command(app, name="inject", example="artelier world inject market 'The harvest failed' --to alice")
async def inject(
    call: CliCall,
    name: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What happened.")],
    to: Annotated[
        list[str] | None, typer.Option("--to", metavar="AGENT", help="Only to this one; repeatable.")
    ] = None,
) -> None:
    """Tell agents of an event: they learn of it in the next tick."""
    async with call.kernel() as kernel:
        await world_of(call, kernel, name).inject(text, to=tuple(to or ()), by=call.person)
    _say(call, name, "told")


def _say(call: CliCall, name: str, what: str) -> None:
    if not call.print_json({"world": name, what: True}):
        call.screen.line(f"{name}: {what}")
