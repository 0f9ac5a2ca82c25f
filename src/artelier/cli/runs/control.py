"""Steering runs: resume, retry, cancel, pause, step, stop, inject, approve, reconcile, compensate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display, exit_codes
from artelier.cli.brought_tools import BroughtTools, McpServers, SkillFolders, ToolFiles
from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.exit_codes import COMPLETED
from artelier.cli.runs.browse import RunId, app, flat
from artelier.cli.work.run import Replay
from artelier.errors import Conflict, InvalidRequest, NotFound, RunSuspended

if TYPE_CHECKING:
    from artelier.app import Kernel, TenantKernel
    from artelier.kernel import AgentResult, Limits
    from artelier.kernel.queries.reports import RunDetail
    from artelier.kernel.run.status import CompensationResult


@command(app, name="compensate", example="artelier runs compensate refunds-march --tools refunds.py")
async def compensate(
    call: CliCall,
    run: RunId,
    tools: ToolFiles = None,
    upto: Annotated[
        str | None, typer.Option("--upto", metavar="STEP", help="Back to this step, with it, and no further.")
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept in the log.")] = "",
) -> int:
    """Undo what a run has done, the newest first.

    Its tools say how, with `compensate`. The run must have ended, and stays what it is. What is undone is
    undone once: after a failure, a question or an unknown outcome the same command goes on.
    """
    from artelier.kernel.tool_calls.compensation import CompensationFailed

    async with call.kernel(brought=BroughtTools.of(tools)) as kernel:
        runs = kernel.for_tenant(call.tenant)
        again = _again(call, run, tools, upto)
        try:
            done = await runs.compensate(run, upto=upto, note=note, by=call.person, on_wait="suspend")
        except RunSuspended as flow:
            return _report_suspended(call, again, flow)
        except CompensationFailed as error:
            error.hint = f"What came after it is undone. Try again: {again}"
            raise
        shown = await runs.show(run)
        _show(call, done)
        if done.not_undone and not tools:
            file = "FILE" if shown["loop"] else (shown["agent"] or "").partition(":")[0] or "FILE"
            call.screen.note(f"with the tools that made them: {_again(call, run, [file], upto)}")
    return exit_codes.COMPLETED


def _again(call: CliCall, run: str, tools: list[str] | None, upto: str | None) -> str:
    """The same command once more."""
    options = [*BroughtTools.of(tools).words, *(("--upto", upto) if upto else ())]
    return call.command_line("runs", "compensate", run, *options)


def _report_suspended(call: CliCall, again: str, flow: RunSuspended) -> int:
    """Something must be settled first."""
    told: dict[str, Any] = {"run_id": flow.run_id, "status": flow.status, "reason": flow.reason}
    if call.as_json:
        call.screen.json(told)
    call.screen.note(f"{flow.run_id}: {flow.status} {flow.reason or ''}".rstrip(), "bold yellow")
    step = flow.reason or "STEP"
    verb = "approve" if flow.status == "waiting_approval" else "reconcile"
    call.screen.note(f"settle it: {call.command_line(verb, flow.run_id, step)}")
    call.screen.note(f"then: {again}")
    return exit_codes.of_status(flow.status)


def _show(call: CliCall, done: CompensationResult) -> None:
    if call.print_json({"run_id": done.run_id, "undone": done.undone, "not_undone": done.not_undone}):
        return
    for step in done.undone:
        call.screen.line(f"undone {step}")
    for step in done.not_undone:
        call.screen.note(f"stays {step}", "yellow")
    if not done.undone and not done.not_undone:
        call.screen.note(f"nothing of {done.run_id} was left to undo")


Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept in the log.")]


@command(app, name="resume", example="artelier resume q3-report")
async def resume(
    call: CliCall,
    run: RunId,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Report: else ./artelier-out/<run id>.md.")
    ] = None,
    budget_usd: Annotated[
        str | None,
        typer.Option("--budget-usd", metavar="AMOUNT", help="Set the run's own cap to this first."),
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="UNIT=CAP", help="The same for tokens, steps or wall_s; repeatable."),
    ] = None,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="Tell the agent this; reopens a failed run.")
    ] = "",
    max_iterations: Annotated[
        int | None,
        typer.Option(
            "--max-iterations",
            metavar="N",
            min=1,
            help="Reopen a failed run with so many cycles, counted from its beginning.",
        ),
    ] = None,
    stuck_after: Annotated[
        int | None,
        typer.Option(
            "--stuck-after",
            metavar="N",
            min=2,
            help="Reopen a failed run that ends after so many equal calls in a row.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve whatever the run asks.")] = False,
    replay: Replay = "strict",
    tools: ToolFiles = None,
    skills: SkillFolders = None,
    mcp: McpServers = None,
) -> int:
    """Go on with a run where it stopped.

    A pause is lifted. A failed run is reopened by a note or a raised limit, and keeps what it has done and
    paid for; without one, a run that has ended shows its result again. What a schedule has fired, and a
    task that can begin, is begun. A run of your own code is driven by `artelier run FILE:FUNCTION --run-id
    RUN`.
    """
    from artelier.cli.run_driver import conclude

    caps: dict[str, Any] = {**_caps(limits or [])}
    if budget_usd is not None:
        caps["usd"] = call.dollars(budget_usd)
    raised = {"max_iterations": max_iterations, "stuck_after": stuck_after}
    async with call.kernel(brought=BroughtTools.of(tools, skills, mcp=mcp)) as kernel:
        if replay == "fork_on_drift":
            run = await kernel.for_tenant(call.tenant).goes_on_as(run)
        is_asked = bool(caps or note.strip() or any(raised.values()))
        if not is_asked and not await _has_begun(call, kernel, run):
            return await conclude(call, kernel, await _begin(call, kernel, run, yes=yes), out=out)
        shown = await kernel.for_tenant(call.tenant).show(run)
        if is_asked and shown["loop"] and await _reopen(call, kernel, shown, caps, note, raised):
            caps = {}
        elif shown["status"] == "paused" and not await _let_go_on(call, kernel, shown):
            return COMPLETED
        if caps and await _only_capped(call, kernel, shown, caps):
            return COMPLETED
        result = await resume_and_drive(call, kernel, run, yes=yes, caps=caps, replay=replay)
        return await conclude(call, kernel, result, out=out)


async def _reopen(
    call: CliCall,
    kernel: Kernel,
    run: RunDetail,
    caps: Mapping[str, Any],
    note: str,
    raised: Mapping[str, int | None],
) -> bool:
    """Reopen a failed run, or tell one that has not ended what it was not told yet.

    True if what was said has all been done; caps of a run that has not ended are set by who drives it on.
    Errors: `Conflict` for a run that takes no note or limit.
    """
    runs, status = kernel.for_tenant(call.tenant), run["status"]
    if status == "failed" or any(raised.values()):
        await runs.resume(run["id"], note=note, limits=_limits(caps), by=call.person, **raised)
        return True
    if note.strip():
        await runs.inject(run["id"], note, by=call.person)
    return False


def _limits(caps: Mapping[str, Any]) -> Limits | None:
    from artelier.kernel import Limits

    if not caps:
        return None
    return Limits(
        usd=caps.get("usd"), tokens=caps.get("tokens"), steps=caps.get("steps"), wall_s=caps.get("wall_s")
    )


async def _has_begun(call: CliCall, kernel: Kernel, run_id: str) -> bool:
    try:
        await kernel.for_tenant(call.tenant).show(run_id)
    except NotFound:
        return False
    return True


async def _begin(call: CliCall, kernel: Kernel, run_id: str, *, yes: bool) -> AgentResult:
    """The result of a run that waits to be begun. Errors: `NotFound` if nothing of that id does."""
    from artelier.agents import resume_run
    from artelier.cli.run_driver import drive

    async def work(on_wait: str) -> AgentResult:
        return await resume_run(kernel, call.tenant, run_id, on_wait=on_wait)

    return await drive(call, kernel, run_id, work, yes=yes)


_SECONDS = re.compile(r"[0-9]{1,10}(\.[0-9]{1,6})?")


def _caps(given: list[str]) -> dict[str, int | float]:
    """`UNIT=CAP` pairs. Errors: `InvalidRequest`."""
    found: dict[str, int | float] = {}
    for text in given:
        unit, _, cap = text.partition("=")
        if unit == "ms" and cap.isascii() and cap.isdigit():  # its older name
            unit, cap = "wall_s", str(int(cap) / 1000)
        is_count = unit in ("tokens", "steps") and cap.isascii() and cap.isdigit()
        if not is_count and not (unit == "wall_s" and _SECONDS.fullmatch(cap)):
            raise InvalidRequest(
                "--limit takes a unit and a number", expected="tokens=N, steps=N or wall_s=SECONDS", got=text
            )
        found[unit] = int(cap) if is_count else float(cap)
    return found


async def _let_go_on(call: CliCall, kernel: Kernel, run: RunDetail) -> bool:
    """Lift a pause; whether the run is ours to drive then."""
    effect = await kernel.for_tenant(call.tenant).resume(run["id"], by=call.person)
    if getattr(effect, "queued", False):
        return True
    await _print_effect(call, kernel, run["id"], "goes on in the process that drives it")
    return False


async def _only_capped(call: CliCall, kernel: Kernel, run: RunDetail, caps: Mapping[str, Any]) -> bool:
    """Set the caps of a run that only other code can drive; whether it is one."""
    from artelier.cli.next_steps import go_on, way_on
    from artelier.kernel.run.status import FINAL

    runs, run_id = kernel.for_tenant(call.tenant), run["id"]
    if run["status"] in FINAL:
        return False
    way = await way_on(call, kernel, run)
    if run["loop"] and way == go_on(call, run):
        return False
    for unit, cap in caps.items():
        await runs.limit(run_id, unit=unit, cap=cap, by=call.person)
    told = ", ".join(f"{unit}={cap}" for unit, cap in caps.items())
    if not call.print_json(await runs.show(run_id)):
        call.screen.line(f"{run_id} is capped at {told}")
        call.screen.note(f"it cannot be driven from here; go on: {way}")
    return True


async def resume_and_drive(
    call: CliCall, kernel: Kernel, run_id: str, *, yes: bool, caps: Mapping[str, Any], replay: str = "strict"
) -> AgentResult:
    """Drive a run of a built-in loop, its caps (by unit) set first.

    Errors: `NotFound`; `InvalidRequest` for a hand-written run; `LeaseHeld`; `MissingKey`.
    """
    from artelier.agents import resume_run
    from artelier.agents.loop_registry import code_needed, model_of
    from artelier.cli.next_steps import go_on
    from artelier.cli.run_driver import drive
    from artelier.kernel.run.status import FINAL

    runs = kernel.for_tenant(call.tenant)
    shown = await runs.show(run_id)
    status = shown["status"]
    if not shown["loop"]:
        raise InvalidRequest(
            f"run {run_id} is driven by code of its own", hint=f"Go on with: {go_on(call, shown)}"
        )
    model = await model_of(kernel, call.tenant, run_id)
    if status not in FINAL:
        for unit, cap in caps.items():
            await runs.limit(run_id, unit=unit, cap=cap, by=call.person)
        if (needed := await code_needed(kernel, call.tenant, run_id)) is not None:
            raise needed  # its model may be that program's as well: that a key is missing would mislead
        if model:
            kernel.models.resolve(model)  # else the run would fail for want of a key
    call.screen.note(f"run {run_id}: {', '.join(one for one in (status, model) if one)}", "bold")

    async def work(on_wait: str) -> AgentResult:
        return await resume_run(kernel, call.tenant, run_id, on_wait=on_wait, replay=replay)

    return await drive(call, kernel, run_id, work, yes=yes)


@command(app, name="retry", example="artelier retry q3-report")
async def retry(call: CliCall, run: RunId) -> None:
    """Reopen a failed run.

    What made it fail is tried again, and a count that it ended by begins anew, when `artelier resume` or a
    worker drives it. A turn of a chat is not reopened: regenerate it in the chat.
    """
    await give(call, run, "reopened", lambda runs: runs.retry(run, by=call.person))


@command(app, name="cancel", example="artelier cancel q3-report --note 'asked for the wrong year'")
async def cancel(call: CliCall, run: RunId, note: Note = "") -> None:
    """End a run for good, and its children."""
    await give(call, run, "cancelled", lambda runs: runs.cancel(run, by=call.person, note=note))


@command(app, name="pause", example="artelier pause q3-report")
async def pause(call: CliCall, run: RunId, note: Note = "") -> None:
    """Let a run hold after its step at hand, until it is resumed."""
    await give(call, run, "paused", lambda runs: runs.pause(run, by=call.person, note=note))


@command(app, name="step", example="artelier step q3-report")
async def step(call: CliCall, run: RunId) -> None:
    """Let a paused run take one step, and hold again.

    An agent takes one cycle: a prompt, a reply, what it asked for. A run that nobody drives waits for
    `artelier worker` or `artelier resume`, and holds after the step.
    """
    await give(call, run, "steps", lambda runs: runs.step(run, by=call.person))


@command(app, name="stop", example="artelier runs stop q3-report")
async def stop(call: CliCall, run: RunId, note: Note = "") -> None:
    """Pause a run now, its call in flight cancelled.

    What the call produced and cost so far is kept.
    """
    await give(call, run, "stopped", lambda runs: runs.stop(run, by=call.person, note=note))


@command(app, name="inject", example="artelier runs inject q3-report 'leave out the returns'")
async def inject(
    call: CliCall,
    run: RunId,
    note: Annotated[str, typer.Argument(metavar="NOTE", help="What the agent shall take into account.")],
) -> None:
    """Tell a run something before its next step."""
    if not note.strip():
        raise InvalidRequest("the note is empty")
    await give(call, run, "told", lambda runs: runs.inject(run, note, by=call.person))


@command(app, name="approve", example="artelier approve q3-report --note 'numbers checked'")
async def approve(
    call: CliCall,
    run: RunId,
    step: Annotated[
        str | None, typer.Argument(metavar="STEP", help="Which question; needed if several are open.")
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Say no.")] = False,
    arguments: Annotated[
        str | None, typer.Option("--arguments", metavar="JSON", help="Say yes, but with these arguments.")
    ] = None,
    note: Note = "",
) -> None:
    """Answer what a run asks a person."""
    edited = None if arguments is None else json_argument(arguments, "--arguments")
    if deny and edited is not None:
        raise InvalidRequest("--deny and --arguments are two answers", expected="one of them")
    await give(
        call,
        run,
        "denied" if deny else "approved",
        lambda runs: runs.approve(run, step, deny=deny, arguments=edited, note=note, by=call.person),
    )


@command(app, name="reconcile", example="artelier reconcile q3-report c4/tool/0 --succeeded '{\"id\": 7}'")
async def reconcile(
    call: CliCall,
    run: RunId,
    step: Annotated[
        str | None, typer.Argument(metavar="STEP", help="The step; without it, those that can be settled.")
    ] = None,
    succeeded: Annotated[
        str | None, typer.Option("--succeeded", metavar="JSON", help="It happened, with this result.")
    ] = None,
    failed: Annotated[
        str | None, typer.Option("--failed", metavar="MESSAGE", help="It did not happen.")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Call it again with the same idempotency key.")
    ] = False,
    probe: Annotated[bool, typer.Option("--probe", help="Let the tool ask the outside world.")] = False,
    tools: ToolFiles = None,
    skills: SkillFolders = None,
    mcp: McpServers = None,
) -> None:
    """Settle a side effect whose outcome is unknown.

    Exactly one answer is needed; then the run can go on. --tools names the file of a tool of your own, for
    --probe.
    """
    answers: dict[str, Any] = {}
    if succeeded is not None:
        answers["succeeded"] = json_argument(succeeded, "--succeeded")
    if failed is not None:
        answers["failed"] = failed
    for name, given in (("retry", retry), ("probe", probe)):
        if given:
            answers[name] = True
    if step is not None and len(answers) != 1:
        raise InvalidRequest(
            "reconcile takes one answer",
            expected="--succeeded, --failed, --retry or --probe",
            got=" and ".join(f"--{name}" for name in answers) or "none",
        )
    brought = BroughtTools.of(tools, skills, mcp=mcp if probe else False)
    if brought.words and not probe:
        raise InvalidRequest("--tools is for --probe", expected="--probe --tools FILE")
    async with call.kernel(brought=brought) as kernel:
        step = await _unknown_step(call, kernel, run, step)
        if probe:
            await _settle_by_probe(call, kernel, run, step, has_tools=bool(brought.words))
        else:
            desk = kernel.for_tenant(call.tenant)
            await desk.reconcile(run, step, by=call.person, **answers)
        await _print_effect(call, kernel, run, "settled")


async def _unknown_step(call: CliCall, kernel: Kernel, run: str, step: str | None) -> str:
    """Return `step`, if its outcome is unknown.

    Errors: `InvalidRequest` if no step is named, `Conflict` if another one is; the hint lists the steps of
    the run and of those below it that can be settled, each with its command.
    """
    from artelier.cli.next_steps import settling

    desk = kernel.for_tenant(call.tenant)
    shown = await desk.show(run)
    if step is not None and step in shown["unknown_outcomes"]:
        return step
    below = flat(await desk.tree(run))[1:]
    waiting = [one["id"] for one in below if one["status"] == "unknown_outcome"]
    lines: list[str] = []
    for one in [shown, *[await desk.show(each) for each in waiting]]:
        for found in one["unknown_calls"]:
            since = display.moment(found["unresolved_us"])
            lines.append(
                f"{display.line(found['step'])}: {display.line(found['tool'])}, not known since {since}: "
                + settling(call, one, found["step"])
            )
    if not lines:
        raise Conflict(f"run {run} has no step with an unknown outcome", got=step)
    hint = "\n".join(lines)
    if step is None:
        raise InvalidRequest("name the step that is to be settled", hint=hint)
    raise Conflict(f"run {run} has no unknown outcome at this step", got=step, hint=hint)


async def _settle_by_probe(call: CliCall, kernel: Kernel, run: str, step: str, *, has_tools: bool) -> None:
    """Settle by the probe of a tool: one that was brought, or one of the workspace that the run names."""
    import dataclasses

    from artelier.agents.launch import tools_of
    from artelier.agents.loop_registry import settings_of
    from artelier.kernel import reconcile

    services = kernel.services
    is_built_in = bool((await kernel.for_tenant(call.tenant).show(run))["loop"])
    if is_built_in or not has_tools:
        if not is_built_in:
            raise InvalidRequest(
                f"the tools of run {run} are in code that is not loaded here",
                hint="Name its file with --tools, or settle it with --succeeded, --failed or --retry.",
            )
        settings = await settings_of(kernel, call.tenant, run)
        tools = tools_of(kernel.services, call.tenant, settings["workspace"]) or []
        named = {tool.name: tool for tool in tools}
        services = dataclasses.replace(services, tools={**services.tools, **named})
    state = await kernel.for_tenant(call.tenant).state()
    await reconcile(services, state, run, step, answer="probe", result=None, by=call.person)


def json_argument(text: str, option: str) -> Any:
    """Errors: `InvalidRequest` that says where the JSON breaks."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidRequest(
            f"{option} is not JSON: {error}",
            got=text[:200],
            hint="Quote it for the shell, such as '{\"amount\": 5}'.",
        ) from None


async def give(call: CliCall, run: str, done: str, command: Callable[[TenantKernel], Any]) -> None:
    async with call.kernel() as kernel:
        await command(kernel.for_tenant(call.tenant))
        await _print_effect(call, kernel, run, done)


async def _print_effect(call: CliCall, kernel: Kernel, run: str, done: str) -> None:
    """Show what a command led to: the run, or in JSON its object."""
    from artelier.cli.next_steps import driver_of, next_steps

    shown = await kernel.for_tenant(call.tenant).show(run)
    if call.print_json(shown):
        return
    status = shown["status"]
    call.screen.line(f"{run} is {status}" if done == status else f"{run} {done}; it is {status}")
    driver = await driver_of(kernel, call.tenant, run)
    if driver is not None:
        call.screen.note(f"driven by {driver}")
        return
    if shown["status"] == "pending":
        call.screen.note("nobody drives it now")
    for line in await next_steps(call, kernel, shown):
        call.screen.note(line)
