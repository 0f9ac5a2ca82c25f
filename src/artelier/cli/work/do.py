"""`artelier do`: one goal, one folder, one report; by a plan of tasks, or by one agent alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from artelier.cli.brought_tools import BroughtTools, McpServers, SkillFolders, ToolFiles
from artelier.cli.call import CliCall, fresh_id
from artelier.cli.command import (
    Attachments,
    Fallbacks,
    ModelName,
    ModelParams,
    Subject,
    alone,
    command,
    read_attachments,
)
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.pii.scrubber_registry import redact_output
from artelier.ports.model_params import parse_params

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.kernel import AgentResult

app = alone()

PLAN_CHARS_MAX = 4_000_000
"""Of a plan in a file (a hundred tasks with the longest texts)."""


RunId = Annotated[
    str | None, typer.Option("--run-id", metavar="ID", help="Name of the run; one that exists is resumed.")
]
AtMost = Annotated[bool, typer.Option("--at-most", help="Spend no more than the estimate of the plan.")]


@command(app, example="artelier do 'Which region sold most? Write a report.' --workspace ./sales")
async def do(
    call: CliCall,
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What to find out or make.")],
    workspace: Annotated[
        str, typer.Option("--workspace", metavar="DIR", help="Folder that the tools may use.")
    ],
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Report: else ./artelier-out/<run id>.md.")
    ] = None,
    run_id: RunId = None,
    model: ModelName = None,
    fallback: Fallbacks = None,
    param: ModelParams = None,
    budget_usd: Annotated[
        str | None, typer.Option("--budget-usd", metavar="AMOUNT", help="Most that it may spend.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the plan and ask before it is launched.")
    ] = False,
    plan_file: Annotated[
        str | None,
        typer.Option(
            "--plan-file",
            metavar="FILE",
            help="Plan as JSON: launched if it is there; with --plan, written there to be edited.",
        ),
    ] = None,
    at_most: AtMost = False,
    solo: Annotated[bool, typer.Option("--solo", help="One agent, without a plan or an evaluation.")] = False,
    attach: Attachments = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve whatever the run asks.")] = False,
    subject: Subject = "",
    tools: ToolFiles = None,
    skills: SkillFolders = None,
    mcp: McpServers = None,
) -> int:
    """Let agents work on GOAL in a folder and write a report.

    The goal becomes a plan: agents, tasks and what each task must fulfil. Each task ends only when its
    output was evaluated. All steps are shown on stderr, the report goes to stdout and into a file. If the
    process dies, the same command with --run-id, or `artelier resume`, goes on where it stopped.
    """
    from artelier.cli.run_driver import conclude

    root, usd = _check_arguments(goal, workspace), call.dollars(budget_usd)
    wish = DoWish(
        goal=goal,
        root=root,
        models=(model or call.settings.model, *(fallback or ())),
        usd=usd,
        yes=yes,
        subject=subject,
        at_most=at_most,
        params=parse_params(param or ()),
        attachments=tuple(read_attachments(attach or ())),
    )
    given = _read_plan(plan_file, plan=plan, solo=solo)
    run_id = run_id or fresh_id("goal" if call.settings.pii else goal)  # an id is in every event
    brought = BroughtTools.of(tools, skills, mcp=mcp, workspaces=[root])
    async with call.kernel(create=True, brought=brought) as kernel:
        if await _exists(kernel, call.tenant, run_id, {"goal": goal, "workspace": root, "model": model}):
            result = await _gone_on(call, kernel, run_id, wish, given)
        elif solo:
            result = await _alone(call, kernel, run_id, wish)
        else:
            result = await _conduct_mission(call, kernel, run_id, wish, given, asks=plan)
        result = await _print_waiting_plan(call, kernel, result, plan_file) if plan and not solo else result
        return await conclude(call, kernel, result, out=out)


class DoWish(NamedTuple):
    """The wishes of a person for `do`."""

    goal: str
    root: str
    """The workspace."""
    models: tuple[str, ...]
    """To ask in turn until one answers."""
    usd: str | None
    yes: bool
    subject: str = ""
    at_most: bool = False
    params: dict[str, Any] = {}
    attachments: tuple[bytes, ...] = ()


async def _alone(call: CliCall, kernel: Kernel, run_id: str, wish: DoWish) -> AgentResult:
    """One agent, without a plan."""
    from artelier.agents import workspace_agent
    from artelier.cli.run_driver import drive, report_id

    agent = workspace_agent(kernel, wish.root, tenant=call.tenant)
    _announce(call, kernel, run_id, wish)
    limits = call.settings.limits(usd=wish.usd)

    async def work(on_wait: str) -> AgentResult:
        return await agent.run(
            run_id=run_id,
            tenant=call.tenant,
            models=wish.models,
            prompt=wish.goal,
            on_wait=on_wait,
            limits=limits,
            artifact=report_id(run_id),
            workspace=wish.root,
            subject=wish.subject,
            params=wish.params,
            attachments=wish.attachments,
        )

    return await drive(call, kernel, run_id, work, yes=wish.yes)


async def _conduct_mission(
    call: CliCall, kernel: Kernel, run_id: str, wish: DoWish, plan: Any, *, asks: bool
) -> AgentResult:
    """A mission, from its plan on. `asks`: it waits for a person's answer before it is launched."""
    from artelier.cli.run_driver import drive
    from artelier.missions.plan.commands import mission_job
    from artelier.missions.plan.mission_runner import check_mission_id, conduct

    desk = kernel.for_tenant(call.tenant)
    job = mission_job(
        desk,
        wish.goal,
        model=wish.models[0],
        fallbacks=wish.models[1:],
        workspace=wish.root,
        auto_launch=not asks,
        plan=plan,
        at_most=wish.at_most,
        is_plain=not asks,
    )
    check_mission_id(run_id)
    _announce(call, kernel, run_id, wish)
    limits = call.settings.limits(usd=wish.usd)

    async def work(on_wait: str) -> AgentResult:
        return await conduct(
            desk,
            run_id,
            job,
            on_wait=on_wait,
            limits=limits,
            subject=wish.subject,
            params=wish.params,
            attachments=wish.attachments,
        )

    return await drive(call, kernel, run_id, work, yes=wish.yes)


async def _gone_on(call: CliCall, kernel: Kernel, run_id: str, wish: DoWish, plan: Any) -> AgentResult:
    """A run that is there, with its launch answered by an edited plan if one is given."""
    from artelier.cli.runs.control import resume_and_drive
    from artelier.kernel.erasure import check_about

    if wish.subject:
        await check_about(kernel.store, call.tenant, run_id, wish.subject)
    if plan is not None:
        await kernel.for_tenant(call.tenant).launch(run_id, plan, by=call.person)
    caps = {} if wish.usd is None else {"usd": wish.usd}
    return await resume_and_drive(call, kernel, run_id, yes=wish.yes, caps=caps)


def _announce(call: CliCall, kernel: Kernel, run_id: str, wish: DoWish) -> None:
    """Say what begins. Errors: those of its models, before anything is recorded."""
    for name in wish.models:
        kernel.models.resolve(name)
    database = f"database {call.database_label}"
    what = f"run {redact_output(run_id)}: {', then '.join(wish.models)}"
    call.screen.note(f"{what}, workspace {wish.root}, {database}", "bold")


def _read_plan(plan_file: str | None, *, plan: bool, solo: bool) -> object:
    """The plan of a file; None if there is none yet. Errors: `InvalidRequest`, `NotFound`."""
    if solo and (plan or plan_file is not None):
        raise InvalidRequest("--solo works without a plan", got="--plan or --plan-file")
    if plan_file is None:
        return None
    if not os.path.exists(plan_file):
        if plan:
            return None
        raise NotFound(
            "the plan is not there",
            got=plan_file,
            hint="With --plan, the plan that is made is written to this file.",
        )
    from artelier.cli.runs.control import json_argument

    try:
        with open(plan_file, encoding="utf-8") as file:
            text = file.read(PLAN_CHARS_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the plan cannot be read: {error}", got=plan_file) from None
    if len(text) > PLAN_CHARS_MAX:
        raise InvalidRequest("the plan is too long", expected=f"{PLAN_CHARS_MAX:,} characters")
    return json_argument(text, "--plan-file")


async def _print_waiting_plan(
    call: CliCall, kernel: Kernel, result: AgentResult, plan_file: str | None
) -> AgentResult:
    """A plan that waits for its launch, on stdout and in its file; the result with it as output."""
    from dataclasses import replace

    from artelier.cli.display import json_text
    from artelier.cli.narration.run_events import estimate_line, plan_lines

    if result.status != "waiting_approval":
        return result
    mission = await kernel.for_tenant(call.tenant).mission(result.run_id)
    estimate = mission["estimate"]
    if mission["launched_us"] is not None or mission["plan"] is None or estimate is None:
        return result
    if plan_file is not None:
        from pathlib import Path

        from artelier.cli.run_driver import write_report

        write_report(Path(plan_file), json_text(mission["plan"]))
        call.screen.note(f"plan {plan_file}: edit it, and give the same command again to launch it")
    if not call.as_json:
        for line in plan_lines(mission["plan"]):
            call.screen.line(line)
        call.screen.line(estimate_line(**estimate))
    return replace(result, output={"plan": mission["plan"], "estimate": estimate})


def _check_arguments(goal: str, workspace: str) -> str:
    """The absolute path of the workspace. Errors: `InvalidRequest`, `NotFound`."""
    from artelier.agents.launch import check_goal

    check_goal(goal)
    root = os.path.realpath(workspace)
    if any("\ud800" <= char <= "\udfff" for char in root):
        raise InvalidRequest("the workspace is not UTF-8 text", got=ascii(root)[:80])
    if not os.path.isdir(root):
        what = "is no folder" if os.path.exists(root) else "is not there"
        raise NotFound(f"the workspace {what}", got=workspace, hint="Name a folder that exists.")
    return root


async def _exists(kernel: Kernel, tenant: str, run_id: str, asked: dict[str, Any]) -> bool:
    """Return True if the run is there. Errors: `Conflict` if it is about something else."""
    from artelier.agents.loop_registry import settings_of
    from artelier.tokens import canonical_name

    try:
        stored = await settings_of(kernel, tenant, run_id)
    except NotFound:
        return False
    have: dict[str, Any] = {"goal": stored.get("goal", stored.get("prompt"))}
    have |= {name: stored.get(name, "") for name in ("workspace", "model")}
    for name in ("goal", "workspace", "model"):
        field = "prompt" if name == "goal" and "goal" not in stored else name
        if name != "model":
            same = kernel.services.is_stored(tenant, field, asked[name], as_=have[name])
        else:
            same = asked[name] is None or canonical_name(asked[name]) == canonical_name(have[name])
        if not same:
            raise Conflict(
                f"run {run_id} exists with another {name}",
                expected=repr(have[name])[:200],
                got=repr(asked[name])[:200],
                hint="Give the same one to go on with it, or another --run-id to start anew.",
            )
    return True
