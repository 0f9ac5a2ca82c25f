"""`artelier schedule`: what is started again and again, and what became of each time."""

from __future__ import annotations

from os.path import abspath
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import ModelName, Subject, command, group

if TYPE_CHECKING:
    from artelier.agents.schedules.api import Schedules
    from artelier.agents.schedules.queries import ScheduleDetail, ScheduleView
    from artelier.app import Kernel

app = group("schedule", help="Start runs at fixed times, and see what became of each time.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]

GOAL_CHARS = 50


def _of(call: CliCall, kernel: Kernel) -> Schedules:
    return kernel.for_tenant(call.tenant).schedules


@command(
    app,
    name="add",
    example="artelier schedule add nightly --cron '0 3 * * *' --goal 'Which region sold most?' --workspace .",
)
async def add(
    call: CliCall,
    name: Name,
    goal: Annotated[str, typer.Option("--goal", metavar="TEXT", help="What to find out or make.")],
    cron: Annotated[
        str | None, typer.Option("--cron", metavar="LINE", help="Five fields: minute hour day month weekday.")
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="Such as 30m, 2h or 1d, counted from now.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="Of --cron, as Europe/Berlin; else UTC.")
    ] = None,
    workspace: Annotated[
        str, typer.Option("--workspace", metavar="DIR", help="Folder that the tools may use.")
    ] = "",
    model: ModelName = None,
    budget_usd: Annotated[
        str | None, typer.Option("--budget-usd", metavar="AMOUNT", help="Most that each run may spend.")
    ] = None,
    solo: Annotated[bool, typer.Option("--solo", help="One agent, without a plan or an evaluation.")] = False,
    overlap: Annotated[
        str,
        typer.Option(
            "--overlap",
            metavar="HOW",
            help="While an earlier run goes on: skip, queue, cancel_running or allow.",
        ),
    ] = "skip",
    catch_up: Annotated[
        str,
        typer.Option(
            "--catch-up", metavar="HOW", help="Of times that nobody was there for: one run for all, or none."
        ),
    ] = "one",
    max_failures: Annotated[
        int, typer.Option("--max-failures", metavar="N", help="So many in a row pause it; 0: none do.")
    ] = 0,
    subject: Subject = "",
) -> None:
    """Work on a goal at each time of a cron line, or at an interval.

    Times come true while `artelier worker` or `artelier up` runs. Each starts a run of its own, called
    NAME/<time in UTC>; one time never starts two. A fixed time that the clock leaves out is made up for
    right afterwards, one that comes twice counts once.
    """
    async with call.kernel(create=True) as kernel:
        made = await _of(call, kernel).add(
            name,
            cron=cron,
            every=every,
            timezone=timezone,
            goal=goal,
            model=model or call.settings.model,
            workspace=workspace and abspath(workspace),
            solo=solo,
            limits=call.settings.limits(usd=budget_usd),
            overlap=overlap,
            catch_up=catch_up,
            max_failures=max_failures,
            by=call.person,
            subject=subject,
        )
        found = await kernel.for_tenant(call.tenant).restored(made)
    _print(call, found)


@command(app, name="list", example="artelier schedule list --status paused")
async def list_schedules(
    call: CliCall,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="active or paused.")
    ] = None,
    after: Annotated[
        int, typer.Option("--after", metavar="N", help="Go on behind this place of the list.")
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 100,
) -> None:
    """List schedules with their next times and how they last went."""
    async with call.kernel() as kernel:
        page = await _of(call, kernel).list(status=status, after=after, limit=limit)
        found = await kernel.for_tenant(call.tenant).restored(page)
    if call.print_json(found):
        return
    rows = [
        (
            one["id"],
            _standing(one),
            _times(one),
            display.moment(one["next_due_us"]),
            _last(one),
            display.line(one["goal"], chars_max=GOAL_CHARS),
        )
        for one in found["items"]
    ]
    columns = ("schedule", "status", "times", "next", "last run", "goal")
    call.screen.table(columns, rows, empty=f"no schedules in tenant {call.tenant}")
    if found["next"] is not None:
        call.screen.note(f"more with --after {found['next']}")


@command(app, name="show", example="artelier schedule show nightly")
async def show(call: CliCall, name: Name) -> None:
    """Show a schedule and its newest runs."""
    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).restored(await _of(call, kernel).get(name))
    _print(call, found)


@command(app, name="pause", example="artelier schedule pause nightly --note 'until the move is over'")
async def pause(
    call: CliCall,
    name: Name,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept in the log.")] = "",
) -> None:
    """Let a schedule hold. Runs that are at work go on."""
    async with call.kernel() as kernel:
        done = await _of(call, kernel).pause(name, by=call.person, note=note)
        found = await kernel.for_tenant(call.tenant).restored(done)
    _print_schedule(call, found)


@command(app, name="resume", example="artelier schedule resume nightly")
async def resume(call: CliCall, name: Name) -> None:
    """Let a paused schedule go on from now. What passed meanwhile is not made up for."""
    async with call.kernel() as kernel:
        done = await _of(call, kernel).resume(name, by=call.person)
        found = await kernel.for_tenant(call.tenant).restored(done)
    _print_schedule(call, found)


@command(app, name="remove", example="artelier schedule remove nightly")
async def remove(call: CliCall, name: Name) -> None:
    """Remove a schedule. Its runs stay, and those that are at work go on."""
    async with call.kernel() as kernel:
        await _of(call, kernel).remove(name, by=call.person)
    if not call.print_json({"id": name, "removed": True}):
        call.screen.line(f"{name} is removed")


@command(app, name="fire", example="artelier schedule fire nightly")
async def fire(call: CliCall, name: Name) -> None:
    """Fire a schedule now, outside of its times. A worker starts the run."""
    async with call.kernel() as kernel:
        found = await _of(call, kernel).fire(name, by=call.person)
    if call.print_json(found):
        return
    run_id = found["run_id"]
    if run_id is None:
        call.screen.line(f"{name} fires when its earlier run has ended")
        return
    call.screen.line(run_id)
    call.screen.note(f"a worker starts it, or you: {call.command_line('resume', run_id)}")


def _print_schedule(call: CliCall, found: ScheduleView) -> None:
    if call.print_json(found):
        return
    following = display.moment(found["next_due_us"])
    call.screen.line(f"{found['id']} is {_standing(found)}{f', next {following}' * bool(following)}")


def _standing(found: ScheduleView) -> str:
    return f"{found['status']} ({found['reason']})" if found["reason"] else found["status"]


def _times(found: ScheduleView) -> str:
    if found["every"]:
        return f"every {found['every']}"
    zone = "" if found["timezone"] == "UTC" else f" {found['timezone']}"
    return f"{found['cron']}{zone}"


def _last(found: ScheduleView) -> str:
    last = found["last_run"]
    return "" if last is None else f"{last['status']} {display.minute(last['due_us'])}"


def _print(call: CliCall, found: ScheduleDetail) -> None:
    if call.print_json(found):
        return
    from artelier.money import format_usd

    failures = f"{found['failures']} in a row" if found["failures"] else ""
    if failures and found["max_failures"]:
        failures += f", {found['max_failures']} pause it"
    skipped = f"{found['skipped']}, last: {found['last_skip']}" if found["skipped"] else ""
    call.screen.facts(
        [
            ("schedule", found["id"]),
            ("status", _standing(found)),
            ("times", _times(found)),
            ("next", display.moment(found["next_due_us"])),
            ("queued", display.moment(found["queued_us"])),
            ("goal", display.line(found["goal"], chars_max=600)),
            ("loop", found["loop"]),
            ("model", found["model"]),
            ("workspace", found["workspace"]),
            ("budget", f"{found['budget_usd']} USD a run" if found["budget_usd"] else ""),
            ("overlap", found["overlap"]),
            ("catch up", found["catch_up"]),
            ("fired", str(found["firings"])),
            ("failures", failures),
            ("skipped", skipped),
            ("made by", found["created_by"]),
        ]
    )
    if found["runs"]:
        call.screen.line()
    rows = [
        (
            one["run_id"],
            one["status"],
            one["reason"] or "",
            display.moment(one["fired_us"]),
            f"{format_usd(one['cost_microusd'])} USD",
            display.line(one["message"] or "", chars_max=80),
        )
        for one in found["runs"]
    ]
    call.screen.table(("run", "status", "reason", "fired", ">cost", "message"), rows, empty="no runs yet")
    last = found["last_run"]
    if last is not None and not (last["is_begun"] or last["is_open"]):
        again = call.command_line("schedule", "fire", found["id"])
        call.screen.note(f"the newest could not be started; when its cause is mended: {again}")
