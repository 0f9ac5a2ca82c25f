"""The next steps for a person with a run in its current state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from artelier.chat.turn.turn_config import LOOP as TURN
from artelier.chat.turn.turn_config import chat_of
from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.errors import Erased, PriceUnknown
from artelier.kernel.events import RunExhausted
from artelier.kernel.queries.runs import run_row
from artelier.kernel.queries.steps import has_undone_since_end
from artelier.kernel.run.crash_recovery import STALLED
from artelier.kernel.run.status import FINAL
from artelier.kernel.run_limits import RESETS
from artelier.ledger.queries import scope_limits
from artelier.log import run_stream
from artelier.log.queries import held_leases
from artelier.missions.status import ONCE_MORE
from artelier.money import format_usd

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.kernel.queries.reports import OpenQuestion, RunDetail, UnsettledCall
    from artelier.missions.queries import GoalStanding
    from artelier.missions.reports import MissionDetail

AGENT = "agent"
"""Name of the loop of autonomous agents, which loads too much to be imported for it."""

MISSION = "mission"
"""Name of the loop of missions, likewise."""

WHY_MAX = 5
"""Tasks of a mission that are named."""

_REASONS = {
    "max_iterations": "It found no answer within its cycles.",
    "stuck": "It repeated the same calls with the same results.",
    "plan_invalid": "Its plan had mistakes: word the goal differently, or give a plan with --plan-file.",
    "offline_cannot": "The offline model answers what it can do with certainty: name another --model.",
}


def standing(run: Mapping[str, Any], *, is_driven: bool = True, goal: GoalStanding | None = None) -> str:
    """Return how a run stands, in words. `is_driven`: False if no process drives it. `goal`: of a mission
    that has ended, which stands as its goal does.
    """
    status, reason = (run["status"], run["reason"]) if goal is None else goal
    if status == "running" and not is_driven:
        return "running (nobody drives it)"
    if not reason or status == "waiting_approval":
        return status
    return f"{status} (for {reason})" if status == "waiting" else f"{status} ({reason})"


def go_on(call: CliCall, run: Mapping[str, Any]) -> str:
    """The command that drives a run further."""
    if run["loop"]:
        return call.command_line("resume", run["id"])
    return call.command_line("run", run["agent"] or "FILE:FUNCTION", "--run-id", run["id"])


async def driver_of(kernel: Kernel, tenant: str, run_id: str) -> str | None:
    """The process that drives a run now, as `host:pid`; None if none does."""
    services = kernel.services
    leases = await held_leases(services.store, [run_stream(tenant, run_id)])
    if not leases or not services.is_driving(leases[0].holder, leases[0].end):
        return None
    host, _, rest = leases[0].holder.partition("|")
    return f"{host}:{rest.split('|')[1]}" if rest.count("|") > 1 else host


async def undriven(kernel: Kernel, tenant: str, runs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids of runs that are said to be running, while the process that drove them is gone."""
    running = [run["id"] for run in runs if run["status"] == "running"]
    streams = {run_stream(tenant, id_): id_ for id_ in running}
    names = {stream.name: id_ for stream, id_ in streams.items()}
    for lease in await held_leases(kernel.services.store, list(streams)):
        if kernel.services.is_driving(lease.holder, lease.end):
            del names[lease.stream]
    return set(names.values())


async def goal_of(kernel: Kernel, run: RunDetail) -> MissionDetail | None:
    """Return the goal of a mission whose run has ended: it stands as its tasks do, since a person may have
    judged one, or had it done again. None for any other run.
    """
    if not _is_ended_mission(run):
        return None
    return await kernel.for_tenant(run["tenant"]).mission(run["id"])


async def goals_of(kernel: Kernel, tenant: str, runs: Iterable[Mapping[str, Any]]) -> dict[str, GoalStanding]:
    """Return where the goals stand of those runs that are missions and have ended: `goal_of` for many."""
    from artelier.missions.queries import goal_standings

    ended = [run["id"] for run in runs if _is_ended_mission(run)]
    return await goal_standings(kernel.for_tenant(tenant), ended) if ended else {}


def _is_ended_mission(run: Mapping[str, Any]) -> bool:
    return run["loop"] == MISSION and run["status"] in ("completed", "failed", "cancelled")


async def next_steps(call: CliCall, kernel: Kernel, run: RunDetail) -> list[str]:
    """Lines of advice for a run as `TenantKernel.show` gives it; none for one that is completed."""
    goal = await goal_of(kernel, run)
    has_failed = goal is not None and goal["status"] in ("failed", "blocked")
    if goal is not None and goal["status"] == "completed":
        return []
    left = _left_at_work(call, run)
    if run["status"] in ("completed", "cancelled") and not has_failed:
        return left
    if run["loop"] == TURN and (run["status"] == "failed" or run["origin"] is not None):
        return _of_turn(call, run)
    try:
        way = await way_on(call, kernel, run)
    except Erased:
        return ["what it stored was erased, so nobody goes on with it"]
    if run["status"] == "budget_exhausted":
        gone_s = (kernel.services.clock.now_us() - run["started_us"]) // 1_000_000
        scope, unit, asked = await _limit_reached(kernel, run)
        figures = await _figures(kernel, run["tenant"], scope, unit, asked=asked)
        return [*figures, *_raising(call, run, (scope, unit), way, gone_s=gone_s)]
    if run["status"] == "failed":
        row = await run_row(kernel.services.store, run["tenant"], run["id"])
        if await has_undone_since_end(kernel.services.store, row.id):
            return [*left, *await _of_undone(call, kernel, run)]
    if goal is not None and goal["reason"] in ("tasks_failed", "tasks_blocked"):
        why = await _not_done(call, kernel, run)
        if ONCE_MORE in (goal["message"] or ""):  # a retry of the goal leaves them
            return why
        return [*why, f"try what failed again: {call.command_line('retry', run['id'])}"]
    return [*left, *_advice(call, run, way)]


def _left_at_work(call: CliCall, run: RunDetail) -> list[str]:
    """Return how to settle the calls of which nobody knows what they did, of a run that has ended."""
    if run["status"] not in FINAL:
        return []
    return [f"say what became of {step}: {settling(call, run, step)}" for step in run["unknown_outcomes"]]


async def _of_undone(call: CliCall, kernel: Kernel, run: RunDetail) -> list[str]:
    from artelier.kernel.tool_calls.compensation_plan import has_left_to_undo

    if not await has_left_to_undo(kernel.services, run["tenant"], run["id"]):
        return ["what it did has been undone, so it is not tried again: start a new run"]
    again = call.command_line("runs", "compensate", run["id"])
    return [f"not all that it did was undone, so it is not tried again; undo what still stands: {again}"]


async def _not_done(call: CliCall, kernel: Kernel, run: RunDetail) -> list[str]:
    """The commands that tell why tasks of a mission are not done; of what only waited for those, nothing."""
    desk = kernel.for_tenant(run["tenant"])
    tasks = (await desk.tasks.list(mission=run["id"], limit=1_000))["items"]
    bad = [one for one in tasks if one["status"] in ("failed", "blocked") and one["origin"] is None]
    first = [one for one in bad if one["reason"] != "dependency_failed"] or bad
    return [f"see why: {call.command_line('tasks', 'show', one['id'])}" for one in first[:WHY_MAX]]


def _of_turn(call: CliCall, run: RunDetail) -> list[str]:
    """A turn of a chat has one run: it is neither reopened nor driven in a fork."""
    chat = call.command_line("chat", chat_of(run["origin"] or run["id"]))
    if run["status"] == "failed":
        return [f"try the turn again as another variant: {chat}, then /regenerate"]
    return [
        "a fork of a turn is not driven: it can be compared and exported",
        f"for another reply: {chat}, then /regenerate or /branch",
    ]


async def way_on(call: CliCall, kernel: Kernel, run: RunDetail) -> str:
    """Return how a run is driven further: by its root, and by the program that started it if only that
    can.
    """
    from artelier.agents.loop_registry import code_needed
    from artelier.loops.cycle import BRING_TOOLS

    runs = kernel.for_tenant(run["tenant"])
    root = run if run["root"] == run["id"] else await runs.show(run["root"])
    needed = await code_needed(kernel, run["tenant"], root["id"]) if root["loop"] else None
    if needed is not None and needed.hint == BRING_TOOLS:
        return f"{call.command_line('resume', root['id'], '--tools', 'FILE')}, with its tools ({needed.got})"
    if needed is not None:
        return own_program(root["id"])
    return go_on(call, root)


def own_program(run_id: str) -> str:
    """Return what to do with a run whose tools are in code."""
    return f"run the program that started it again, with run_id={run_id!r}"


def _advice(call: CliCall, run: RunDetail, way: str) -> list[str]:
    status, run_id = run["status"], run["id"]
    if status == "failed":
        reopen = f"try its failed step again: {call.command_line('retry', run_id)}"
        if run["reason"] == PriceUnknown.code:
            allow = call.command_line("tenants", "update", run["tenant"], "--allow-unknown-price")
            return [f'name its price in artelier.toml under [prices."{run["model"]}"], or: {allow}', reopen]
        advice = _REASONS.get(run["reason"])
        if run["loop"] == AGENT and run["reason"] in RESETS:
            more = " or --max-iterations N" if run["reason"] == "max_iterations" else ""
            return [*([advice] if advice else []), f"go on: {way} --note TEXT{more}"]
        return [advice] if advice else [reopen]
    if status == "waiting_approval":
        asked = [*run["approvals"], *run["waits_for"]]
        return [_approval(call, item["run_id"], item) for item in asked]
    if status == "unknown_outcome":
        return [f"say what became of {step}: {settling(call, run, step)}" for step in run["unknown_outcomes"]]
    if status == "paused" and run["reason"].startswith(STALLED):
        return [
            "the process that drove it was killed twice there: frozen, out of memory, or by hand",
            f"let it try that step again: {call.command_line('resume', run_id)}",
            f"or end it: {call.command_line('cancel', run_id)}",
        ]
    return [f"go on: {way}"]


def settling(call: CliCall, run: RunDetail, step: str) -> str:
    """Return the command that settles a step whose outcome is unknown, with the answers to choose from."""
    file = "" if run["loop"] else " --tools FILE"
    command = call.command_line("reconcile", run["id"], step)
    retry = "" if run["status"] in FINAL and "/undo" not in step else " | --retry"
    return f"{command} --succeeded JSON | --failed MESSAGE{retry} | --probe{file}"


async def _limit_reached(kernel: Kernel, run: RunDetail) -> tuple[str, str, int]:
    """Scope and unit of the limit at which a run stopped, and what it asked for."""
    stream = run_stream(run["tenant"], run["id"])
    head, _ = await kernel.store.head(stream)
    for event in reversed(await kernel.store.read(stream, after=max(0, head - 100))):
        if event.kind == RunExhausted.KIND:
            found = event.plain()
            return found["scope"], found["unit"], found.get("asked", 0)
    return "tenant", "usd", 0


async def _figures(kernel: Kernel, tenant: str, scope: str, unit: str, *, asked: int) -> list[str]:
    """Return what was asked, what is left now and the cap; nothing for a rate, which is no budget."""
    if (scope, unit) == ("tenant", "usd"):
        found = await kernel.tenants.show(tenant)
        if found["budget_usd"] is None:
            return []
        cap, left = f"{found['budget_usd']} USD", f"{found['available_usd']} USD"
    else:
        limits = await scope_limits(kernel.services.store, tenant, scope)
        found = next((one for one in limits if one.unit == unit), None)
        if found is None or found.cap is None:
            return []
        cap, left = (_amount(one, unit) for one in (found.cap, found.cap - found.used - found.reserved))
    whose = display.line(scope.replace(":", " ", 1))
    if unit == "ms":
        return [f"cap of {whose}: {cap}"]
    wanted = f"asked: up to {_amount(asked, unit)}; " if asked else ""
    return [f"{wanted}left: {left}; cap of {whose}: {cap}"]


def _amount(number: int, unit: str) -> str:
    if unit == "ms":
        return display.duration(number * 1000)
    return f"{format_usd(number)} USD" if unit == "usd" else f"{number:,} {unit}"


def _raising(call: CliCall, run: RunDetail, limit: tuple[str, str], way: str, *, gone_s: int) -> list[str]:
    scope, unit = limit
    tenant, further = run["tenant"], f"then go on: {way}"
    kind, _, name = scope.partition(":")
    if kind == "run":
        return _raising_of_run(call, run, name, unit, way, gone_s=gone_s)
    if kind in ("agent", "membrane"):
        cap = f"kernel.for_tenant({tenant!r}).cap({scope!r}, unit={unit!r}, cap=...)"
        return [f"raise its cap in Mission Control, or in code: {cap}", further]
    if kind == "tenant" and name:
        rate = call.command_line("tenants", "update", tenant, "--rate", "NAME=REQUESTS/TOKENS")
        return [f"one call needs more than a minute has: {rate}", further]
    if kind != "tenant":
        return ["one call needs more than a minute has: raise the rate in artelier.toml", further]
    raised = call.command_line("tenants", "update", tenant, "--budget-usd", "AMOUNT")
    return [f"raise the tenant's budget: {raised}", further]


def _raising_of_run(
    call: CliCall, run: RunDetail, owner: str, unit: str, way: str, *, gone_s: int
) -> list[str]:
    option = "--budget-usd AMOUNT" if unit == "usd" else f"--limit {unit}=CAP"
    if unit == "ms":
        since = f", {gone_s:,} s ago" if owner == run["id"] else ""
        option = f"--limit wall_s=SECONDS, counted from its beginning{since}"
    raising = call.command_line("resume", owner)
    if owner != run["id"]:
        return [f"the cap is of run {owner}; raise it: {raising} {option}"]
    if run["loop"] and way == go_on(call, run):
        return [f"raise its cap and go on: {way} {option}"]
    return [f"raise its cap: {raising} {option}", f"then go on: {way}"]


def question_lines(asked: OpenQuestion) -> list[str]:
    """A question to a person, and what it is about: a tool's arguments, say."""
    lines = [display.line(str(asked.get("question", "")), chars_max=400)]
    about = asked.get("details")
    details = cast("dict[str, Any]", about) if isinstance(about, dict) else {"details": about}
    for name, value in details.items():
        if value is not None:
            shown = value if isinstance(value, str) else display.arguments(value, chars_max=1_000)
            lines.append(f"  {display.line(name)}: {display.line(shown, chars_max=1_000)}")
    return lines


def unknown_lines(call: UnsettledCall) -> list[str]:
    """A call of unknown outcome, with what a person needs to find it outside."""
    arguments = display.arguments(call["arguments"], chars_max=1_000)
    lines = [
        f"{display.line(call['step'])}: {display.line(call['tool'])}({arguments})",
        f"  idempotency key: {display.line(call['idempotency_key'], chars_max=1_000)}",
        f"  called: {display.moment(call['requested_us'])}",
        f"  not known since: {display.moment(call['unresolved_us'])} ({display.line(call['code'])})",
    ]
    if call["probe_error"]:
        lines.append(f"  probe: {display.line(str(call['probe_error']), chars_max=1_000)}")
    return lines


def _approval(call: CliCall, run_id: str, item: OpenQuestion) -> str:
    command = call.command_line("approve", run_id, item["step"])
    return f"answer “{str(item.get('question', ''))[:200]}”: {command}  (or --deny; --note says more)"
