"""The group `artelier runs`, and looking at runs: list, show, tail, tree, cost, steps, compactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.cli.completion import run_ids
from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.cli.narration.run_events import Narration
    from artelier.kernel.queries.reports import RateDelay, RunDetail, RunFamily
    from artelier.log import Event
    from artelier.missions.queries import GoalStanding
    from artelier.missions.reports import MissionDetail


app = group("runs", help="Look at runs, steer them, branch off them.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.", autocompletion=run_ids)]


TAIL = 30
"""Events that `tail` shows if nobody says from where."""

PAGE = 1000


@command(app, name="list", example="artelier runs list --status waiting_approval")
async def list_runs(
    call: CliCall,
    status: Annotated[
        str | None,
        typer.Option(
            "--status", metavar="STATUS", help="Only runs with this status; that of a blocked goal is failed."
        ),
    ] = None,
    after: Annotated[
        int, typer.Option("--after", metavar="N", help="Go on after a page's `next`.", min=0)
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Runs at most.", min=1, max=1000)] = 100,
) -> None:
    """List runs in the order of their start, oldest first."""
    from artelier.cli.next_steps import go_on, goals_of, standing, undriven
    from artelier.money import format_usd

    check_status(status)
    async with call.kernel() as kernel:
        page = await kernel.for_tenant(call.tenant).runs(status=status, after=after, limit=limit)
        left = await undriven(kernel, call.tenant, page["items"])
        goals = await goals_of(kernel, call.tenant, page["items"])
    # Of a mission that has ended, with the status of its goal.
    ended = {run: {"goal_status": goal.status} for run, goal in goals.items()}
    items = [{**run, **ended.get(run["id"], {})} for run in page["items"]]
    if call.print_json({"items": items, "next": page["next"]}):
        return
    rows = [
        (
            run["id"],
            standing(run, is_driven=run["id"] not in left, goal=goals.get(run["id"])),
            run["agent"] or run["loop"] or "own code",
            run["model"],
            run["steps"],
            format_usd(run["total_cost_microusd"]),
            display.minute(run["started_us"]),
        )
        for run in page["items"]
    ]
    columns = ("run", "status", "agent", "model", ">calls", ">USD", "started")
    which = f" that are {status}" if status else ""
    call.screen.table(columns, rows, empty=f"no runs{which} in tenant {call.tenant}")
    for run in page["items"]:
        if run["id"] in left:
            call.screen.note(f"{run['id']} was left by a process that is gone: {go_on(call, run)}")
    if page["next"] is not None:
        call.screen.note(f"more: --after {page['next']}")


@command(app, name="show", example="artelier runs show q3-report")
async def show(call: CliCall, run: RunId) -> None:
    """Show one run, its result, and what to do next."""
    from artelier.cli.next_steps import driver_of, goal_of, next_steps

    async with call.kernel() as kernel:
        desk = kernel.for_tenant(call.tenant)
        shown = await desk.restored(await desk.show(run))
        driver = await driver_of(kernel, call.tenant, run)
        goal = await goal_of(kernel, shown)
        advice = [] if driver is not None else await next_steps(call, kernel, shown)
    if call.print_json(shown if goal is None else {**shown, "goal_status": goal["status"]}):
        return
    _show_run(call, shown, driver, goal)
    for line in advice:
        call.screen.note(line)


def _show_run(call: CliCall, run: RunDetail, driver: str | None, goal: MissionDetail | None) -> None:
    from artelier.cli.next_steps import question_lines, standing, unknown_lines
    from artelier.kernel.run_limits import GO_ON

    usage = run["usage"]
    cached = f" ({usage['cached_input_tokens']:,} cached)" if usage["cached_input_tokens"] else ""
    took = ""
    if run["ended_us"] is not None:
        took = f", took {display.duration(run['ended_us'] - run['started_us'])}"
    call.screen.facts(
        [
            ("run", run["id"]),
            ("status", standing(run, is_driven=driver is not None)),
            ("goal stands", standing(goal) if goal and goal["status"] != run["status"] else None),
            ("driven by", driver),
            ("agent", run["agent"]),
            ("model", run["model"]),
            ("parent", run["parent"]),
            ("waits for", "\n".join(f"{one['run_id']} at {one['step']}" for one in run["waits_for"])),
            ("waits for the", _rate_text(run["rate_wait"])),
            ("asks", "\n".join(line for one in run["approvals"] for line in question_lines(one))),
            ("not known", "\n".join(line for one in run["unknown_calls"] for line in unknown_lines(one))),
            ("forked from", run["origin"] and f"{run['origin']} at {run['origin_seq']}"),
            ("effects", run["effects"]),
            ("started", display.moment(run["started_us"]) + took),
            ("model calls", run["steps"]),
            ("tokens", f"{usage['input_tokens']:,} in{cached}, {usage['output_tokens']:,} out"),
            ("cost", _cost_text(run)),
            ("goal", display.value_text(run["goal"])),
            # The command that an agent's message ends with is among the advice, if it still stands.
            ("message", (display.value_text(run["message"]) or "").partition(GO_ON)[0]),
            ("result", display.result_text(run["result"])),
        ]
    )


def _rate_text(wait: RateDelay | None) -> str:
    """Return the rate that a call waits for; empty if none does."""
    if wait is None:
        return ""
    return f"rate of {display.line(wait['rate'])}, until {display.moment(wait['until_us'])} at least"


@command(app, name="tail", example="artelier runs tail q3-report --follow")
async def tail(
    call: CliCall,
    run: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    after: Annotated[
        int | None, typer.Option("--after", metavar="SEQ", help="From this event on: else the newest.", min=0)
    ] = None,
) -> None:
    """Print a run's events: the newest, or all after SEQ.

    With --json and --follow each event is one line.
    """
    from artelier.cli.narration.run_events import Narration
    from artelier.log import blob_name, run_stream

    async with call.kernel() as kernel:
        await kernel.for_tenant(call.tenant).show(run)
        stream = run_stream(call.tenant, run)
        position = (await kernel.store.root())[0]
        if after is None:
            after = max(0, (await kernel.store.head(stream))[0] - TAIL)
        events = await kernel.store.read(stream, after=after, limit=PAGE)
        if call.as_json and not follow:
            more = events[-1].seq if len(events) == PAGE else None
            call.screen.json({"items": list(map(_list_event, events)), "next": more})
            return
        story = Narration(lambda ref: kernel.store.blob(call.tenant, blob_name(ref)))
        for event in await kernel.store.read(stream, after=max(0, after - TAIL), limit=TAIL):
            if event.seq <= after:
                story.remember(event)
        while events:
            for event in events:
                await _print_event(call, kernel, story, event)
            after = events[-1].seq
            events = await kernel.store.read(stream, after=after, limit=PAGE)
        if follow:
            await _follow(call, kernel, story, run, position=position, after=after)


async def _follow(
    call: CliCall, kernel: Kernel, story: Narration, run: str, *, position: int, after: int
) -> None:
    from artelier.kernel.run.status import FINAL
    from artelier.log import run_stream

    runs, stream = kernel.for_tenant(call.tenant), run_stream(call.tenant, run)
    has_ended = (await runs.show(run))["status"] in FINAL
    for event in await kernel.store.read(stream, after=after, limit=PAGE):
        await _print_event(call, kernel, story, event)
        after = event.seq
    if has_ended:
        return
    async for event in kernel.events(after=position, follow=True):
        if event.stream != stream or event.seq <= after:
            continue
        await _print_event(call, kernel, story, event)
        if event.kind.startswith("run.") and (await runs.show(run))["status"] in FINAL:
            return


async def _print_event(call: CliCall, kernel: Kernel, story: Narration, event: Event) -> None:
    if call.as_json:
        call.screen.json(_list_event(event), indent=-1)
        return
    time = display.moment(event.at_us)
    lines = await story.lines(event)
    if not lines:
        from artelier.cli.narration.event_labels import words_of

        said = words_of(event.kind, event.plain())
        text = await kernel.for_tenant(call.tenant).restored(f"{event.kind}  {said}".rstrip())
        call.screen.line(f"{event.seq:>6}  {time}  {text}", "dim")
    for line in lines:
        text = await kernel.for_tenant(call.tenant).restored(line.text)
        call.screen.line(f"{event.seq:>6}  {time}  {text}", line.style)


class ListedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as `--json` shows it; content stays behind its reference."""

    seq: int
    """In the stream of the run, from 1."""
    position: int
    """In the whole log."""
    kind: str
    version: int
    at_us: int
    """Microseconds since 1970."""
    actor: str
    cause: str | None
    data: dict[str, Any]
    hash: str
    """In hex."""


def _list_event(event: Event) -> ListedEvent:
    return ListedEvent(
        seq=event.seq,
        position=event.position,
        kind=event.kind,
        version=event.version,
        at_us=event.at_us,
        actor=event.actor,
        cause=event.cause,
        data=event.plain(),
        hash=event.hash.hex(),
    )


@command(app, name="tree", example="artelier runs tree q3-report")
async def tree(call: CliCall, run: RunId) -> None:
    """Show a run with its children and what each cost."""
    from artelier.cli.next_steps import goals_of, undriven

    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).tree(run)
        left = await undriven(kernel, call.tenant, flat(found))
        goals = await goals_of(kernel, call.tenant, flat(found))
    if call.print_json(found):
        return
    _print_branch(call, found, left, goals, first="", rest="")


def _cost_text(run: RunDetail) -> str:
    """Return what a run cost with its children, and how much of it is its own."""
    from artelier.money import format_usd

    total = f"{format_usd(run['total_cost_microusd'])} USD"
    if run["runs"] == 1:
        return total
    return f"{total} with its children, {format_usd(run['cost_microusd'])} of it its own"


def flat(run: RunFamily) -> list[RunFamily]:
    """Return a run of a tree and all below it."""
    return [run, *(below for child in run["children"] for below in flat(child))]


def _print_branch(
    call: CliCall, run: RunFamily, left: set[str], goals: dict[str, GoalStanding], *, first: str, rest: str
) -> None:
    """`left`: those that nobody drives. `goals`: of missions that have ended."""
    from artelier.cli.next_steps import standing
    from artelier.money import format_usd

    cost = format_usd(run["total_cost_microusd"])
    if run["children"]:
        cost = f"{cost} USD, {format_usd(run['cost_microusd'])} of it its own"
    else:
        cost = f"{cost} USD"
    agent = f"{run['agent']}  " if run["agent"] else ""
    stands = standing(run, is_driven=run["id"] not in left, goal=goals.get(run["id"]))
    call.screen.line(f"{first}{run['id']}  {agent}{stands}  {cost}")
    for index, child in enumerate(run["children"]):
        last = index == len(run["children"]) - 1
        _print_branch(
            call,
            child,
            left,
            goals,
            first=rest + ("└─ " if last else "├─ "),
            rest=rest + ("   " if last else "│  "),
        )


@command(app, name="cost", example="artelier runs cost q3-report")
async def cost(call: CliCall, run: RunId) -> None:
    """Show what a run cost, call by call."""
    from artelier.money import format_usd

    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).cost(run)
    if call.print_json(found):
        return
    rows = [
        (
            step["key"],
            f"{step['input_tokens']:,}",
            f"{step['cached_input_tokens']:,}",
            f"{step['output_tokens']:,}",
            format_usd(step["cost_microusd"]) if step["price_known"] else "unknown",
            " ".join(mark for mark in ("estimated", "suspicious") if step[mark]),
        )
        for step in found["steps"]
    ]
    columns = ("step", ">input", ">cached", ">output", ">USD", "")
    call.screen.table(columns, rows, empty="no model was called")
    call.screen.line()
    is_alone = found["runs"] == 1
    children = found["total_cost_microusd"] - found["cost_microusd"]
    call.screen.facts(
        [
            ("own", None if is_alone else f"{found['cost_usd']} USD"),
            ("children", None if is_alone else f"{format_usd(children)} USD"),
            ("total", f"{found['total_cost_usd']} USD"),
            ("held", f"{format_usd(found['held_microusd'])} USD"),
        ]
    )


@command(app, name="steps", example="artelier runs steps q3-report")
async def steps(call: CliCall, run: RunId) -> None:
    """List a run's steps in the order they were asked for.

    The key of a model step follows a run's id in `artelier manifest show RUN:STEP`.
    """
    async with call.kernel() as kernel:
        found = await kernel.for_tenant(call.tenant).steps(run)
    if call.print_json({"items": found, "next": None}):
        return
    rows = [
        (step["key"], step["kind"], step["status"], step["requested_seq"], step["completed_seq"] or "")
        for step in found
    ]
    columns = ("step", "kind", "status", ">asked at", ">done at")
    failed = [f"{step['key']} failed: {display.line(step['error'])}" for step in found if step["error"]]
    call.screen.table(columns, rows, empty=f"run {run} has no steps yet")
    for line in failed:
        call.screen.note(line, "bold yellow")


def check_status(status: str | None) -> None:
    """Errors: `InvalidRequest` for a status that no run can have."""
    from artelier.kernel.run.status import FINAL, RESUMABLE

    known = sorted(FINAL | RESUMABLE)
    if status is not None and status not in known:
        raise InvalidRequest("no run has such a status", expected=", ".join(known), got=repr(status))


@command(app, name="compactions", example="artelier runs compactions q3-report")
async def compactions(
    call: CliCall,
    run: RunId,
    undo: Annotated[
        bool, typer.Option("--undo", help="Show the newest block again, from the run's next cycle on.")
    ] = False,
    at_messages: Annotated[
        int | None,
        typer.Option("--at-messages", metavar="N", help="With --undo: compact anew from N messages."),
    ] = None,
    keep_recent: Annotated[
        int | None, typer.Option("--keep-recent", metavar="N", help="With --undo: keep N messages verbatim.")
    ] = None,
    summarize_with: Annotated[
        str | None, typer.Option("--summarize-with", metavar="MODEL", help="With --undo: who summarises.")
    ] = None,
) -> None:
    """Show which messages were summarised, and what was lost.

    Nothing was deleted: --undo brings the newest block back, optionally under another strategy.
    """
    wished: dict[str, Any] = {
        "trigger_at_messages": at_messages,
        "keep_recent_messages": keep_recent,
        "summarize_with_model": summarize_with,
    }
    given: dict[str, Any] = {name: value for name, value in wished.items() if value is not None}
    if given and not undo:
        raise InvalidRequest("these options belong to an undo", expected="--undo beside them")
    async with call.kernel() as kernel:
        runs = kernel.for_tenant(call.tenant)
        if undo:
            from artelier.context import CompactionStrategy

            policy = CompactionStrategy(**given) if given else None
            await runs.undo_compaction(run, policy=policy, by=call.person)
        found = await runs.compactions(run)
    if call.print_json({"items": found, "next": None}):
        return
    rows = [_row(receipt) for receipt in found]
    columns = ("step", "messages", "by", "why", ">tokens before", ">after", ">lost")
    call.screen.table(columns, rows, empty="this run was never compacted")
    if undo:
        call.screen.line("the newest block comes back at the run's next cycle")


def _row(receipt: dict[str, Any]) -> tuple[object, ...]:
    if receipt["kind"] == "context.restored":
        return (
            receipt["step"],
            f"{receipt['start']}- again",
            "",
            f"undo {receipt['compaction']}",
            "",
            "",
            "",
        )
    by = receipt.get("model") or receipt["how"]
    if failure := receipt.get("failure"):
        by = f"extract ({failure}: {by})"
    return (
        receipt["step"],
        f"{receipt['start']}-{receipt['end']}",
        by,
        receipt.get("why", ""),
        receipt.get("tokens_before", 0),
        receipt.get("tokens_after", 0),
        receipt.get("lost", 0),
    )
