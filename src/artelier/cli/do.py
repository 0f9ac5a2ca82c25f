"""`artelier do`: one goal, one folder, one report."""

from __future__ import annotations

import os
import re
import secrets
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli.call import Call
from artelier.cli.command import alone, command
from artelier.errors import Conflict, InvalidRequest, NotFound

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.kernel import AgentResult

app = alone()

GOAL_CHARS_MAX = 100_000
"""A longer goal belongs into a file of the workspace."""


@command(
    app,
    example="artelier do 'Which region sold most? Write a report.' --workspace ./sales",
)
async def do(
    call: Call,
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What to find out or make.")],
    workspace: Annotated[
        str, typer.Option("--workspace", metavar="DIR", help="Folder that the tools may use.")
    ],
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Report: else ./artelier-out/<run id>.md."),
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="ID", help="Name of the run; one that exists is resumed."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="Else ARTELIER_MODEL, settings, offline."),
    ] = None,
    budget_usd: Annotated[
        str | None, typer.Option("--budget-usd", metavar="AMOUNT", help="Most that it may spend.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve whatever the run asks.")] = False,
) -> int:
    """Let an agent work on GOAL in a folder and write a report.

    Its steps are shown on stderr, the report goes to stdout and into a file. If the process dies, the
    same command with --run-id, or `artelier resume`, goes on where it stopped.
    """
    from artelier.cli.driving import conclude

    root, usd = _checked(goal, workspace), call.dollars(budget_usd)
    name = model or call.settings.model
    run_id = run_id or fresh_id(goal)
    async with call.kernel(create=True) as kernel:
        asked = {"prompt": goal, "workspace": root, "model": model}
        if await _exists(kernel, call.tenant, run_id, asked):
            from artelier.cli.runs.control import resumed

            caps = {} if usd is None else {"usd": usd}
            result = await resumed(call, kernel, run_id, yes=yes, caps=caps)
        else:
            kernel.models.resolve(name)  # before anything is recorded
            result = await _start(
                call, kernel, run_id, goal=goal, root=root, model=name, usd=usd, yes=yes
            )
        return await conclude(call, kernel, result, out=out)


async def _start(
    call: Call, kernel: Kernel, run_id: str, *, goal: str, root: str, model: str, usd: str | None,
    yes: bool,
) -> AgentResult:  # fmt: skip
    from artelier.agents import workspace_agent
    from artelier.cli.driving import drive, report_id

    agent = workspace_agent(kernel, root)
    call.screen.note(f"run {run_id}: {model}, workspace {root}, database {call.database}", "bold")
    limits = call.settings.limits(usd=usd)

    async def work(on_wait: str) -> AgentResult:
        return await agent.run(
            run_id=run_id, tenant=call.tenant, model=model, prompt=goal, on_wait=on_wait,
            limits=limits, artifact=report_id(run_id), workspace=root,
        )  # fmt: skip

    return await drive(call, kernel, run_id, work, yes=yes)


def _checked(goal: str, workspace: str) -> str:
    """The absolute path of the workspace. Errors: `InvalidRequest`, `NotFound`."""
    if not goal.strip():
        raise InvalidRequest("the goal is empty", expected="what to find out or make")
    if len(goal) > GOAL_CHARS_MAX:
        raise InvalidRequest(
            "the goal is too long", expected=f"at most {GOAL_CHARS_MAX:,} characters",
            got=f"{len(goal):,}", hint="Put it into a file of the workspace and refer to it.",
        )  # fmt: skip
    root = os.path.realpath(workspace)
    for what, text in (("goal", goal), ("workspace", root)):
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise InvalidRequest(f"the {what} is not UTF-8 text", got=ascii(text)[:80])
    if not os.path.isdir(root):
        what = "is no folder" if os.path.exists(root) else "is not there"
        raise NotFound(f"the workspace {what}", got=workspace, hint="Name a folder that exists.")
    return root


async def _exists(kernel: Kernel, tenant: str, run_id: str, asked: dict[str, Any]) -> bool:
    """Whether the run is there. Errors: `Conflict` if it is about something else."""
    from artelier.agents.loops import settings_of
    from artelier.tokens import canonical_name

    try:
        stored = await settings_of(kernel, tenant, run_id)
    except NotFound:
        return False
    for name, what in (("prompt", "goal"), ("workspace", "workspace"), ("model", "model")):
        same = asked[name] == stored[name]
        if name == "model":
            same = asked[name] is None or canonical_name(asked[name]) == canonical_name(
                stored[name]
            )
        if not same:
            raise Conflict(
                f"run {run_id} exists with another {what}",
                expected=repr(stored[name])[:200], got=repr(asked[name])[:200],
                hint="Give the same one to go on with it, or another --run-id to start anew.",
            )  # fmt: skip
    return True


def fresh_id(text: str) -> str:
    """A readable id for a new run: the first words of its goal and four random characters."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    name = ""
    for word in words:
        if len(name) + len(word) > 28:
            break
        name = f"{name}-{word}" if name else word
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"  # none that are mistaken for another
    return f"{name or 'run'}-{''.join(secrets.choice(alphabet) for _ in range(4))}"
