"""Runs as tools: start, watch, answer, stop. What is started here goes on in the background."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from artelier.agents import AutonomousAgent
from artelier.agents.launch import GOAL_CHARS_MAX, workspace_agent
from artelier.agents.loop_registry import resume_run, settings_of
from artelier.app import Kernel, TenantKernel
from artelier.errors import AccessDenied, ArtelierError, Conflict, InvalidArguments, NotFound, QueueFull
from artelier.ids import fresh_secret
from artelier.kernel import AgentResult, Limits
from artelier.kernel.policy import is_within
from artelier.kernel.queries.content import ShownMedium, media_of_tools
from artelier.kernel.run.context import is_final
from artelier.money import format_usd, parse_usd
from artelier.pii.scrubber_registry import marked_wire
from artelier.tools import Tool, tool

AT_ONCE_MAX = 16
"""Runs that are driven here side by side; those that wait for a person count."""

WAIT_S_MAX = 50
"""Most that `run_result` waits: clients give up after a minute."""

LOOK_S = 0.2
"""How often a run that is waited for is looked at."""

NEEDS_SOMEBODY = frozenset(("waiting_approval", "unknown_outcome", "paused", "budget_exhausted"))

PAGE_MAX = 100
TEXT_CHARS_MAX = 200_000
"""Of a result's text; the artifact holds all of it."""

APPROVE = "approve_run"
"""The tool that answers in a person's name; there only if whoever starts the server says so."""

READ_ONLY = frozenset(("run_status", "run_result", "list_runs"))
"""Tools that change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaAnswer:
    """The answer of a tool: JSON data, and media beside it."""

    value: dict[str, Any]
    media: Sequence[ShownMedium]


class RunDesk:
    """The runs of one tenant, for one principal."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        tenant: str,
        principal: str,
        model: str,
        limits: Limits | None = None,
        workspace: str | None = None,
        approvals: bool = False,
    ) -> None:
        """`limits` cap every run that is started here; a client can ask for less money, never for more.

        `workspace`: the folder below which runs may work; None for runs without files.
        """
        self._kernel = kernel
        self._runs: TenantKernel = kernel.for_tenant(tenant)
        self._tenant = tenant
        self._principal = principal
        self._model = model
        self._limits = limits or Limits()
        self._root = None if workspace is None else os.path.realpath(workspace)
        self._driven: dict[str, asyncio.Task[AgentResult]] = {}
        self._failures: dict[str, ArtelierError] = {}
        self.tools: dict[str, Tool[..., Any]] = {one.name: one for one in self._tools()}
        if not approvals:
            del self.tools[APPROVE]

    # What clients call

    def _tools(self) -> list[Tool[..., Any]]:
        described: dict[str, Callable[..., Any]] = {
            "start_run": self.start_run,
            "run_status": self.run_status,
            "run_result": self.run_result,
            "list_runs": self.list_runs,
            APPROVE: self.approve_run,
            "cancel_run": self.cancel_run,
            "signal_run": self.signal_run,
        }
        return [
            tool(name=name, side_effect=name not in READ_ONLY)(function)
            for name, function in described.items()
        ]

    async def start_run(
        self,
        goal: Annotated[str, Field(min_length=1, max_length=GOAL_CHARS_MAX)],
        run_id: str | None = None,
        workspace: str | None = None,
        output_schema: dict[str, Any] | None = None,
        budget_usd: str | None = None,
    ) -> dict[str, Any]:
        """Start an agent on a goal, in the background. It is told how it stands at once; ask run_result
        later. The same run_id and goal again goes on with that run. workspace is a folder that its tools
        may use, below the one this server was given; budget_usd is the most it may spend, such as "0.50"."""
        limits = self._limits_of(budget_usd)
        root = self._folder(workspace)
        name = run_id or f"mcp-{fresh_secret(6).hex()}"
        if (task := self._driven.get(name)) is not None:
            await self._wait_begun(name, task)
        if await self._same(name, goal, root):
            await self._go_on(name)
            return await self._standing(name)
        self._room()
        self._kernel.models.resolve(self._model)  # before anything is recorded
        work = self._agent(root).run(
            run_id=name,
            tenant=self._tenant,
            model=self._model,
            prompt=goal,
            output_schema=output_schema,
            limits=limits,
            workspace=root,
            artifact=f"reports/{name}" if _is_plain(name) else "",
        )
        task = self._drive(name, work)
        await self._wait_begun(name, task)
        return await self._standing(name)

    async def run_status(self, run_id: str) -> dict[str, Any]:
        """Return how a run stands: status, reason, cost, and the questions that it asks."""
        return await self._standing(run_id)

    async def run_result(
        self, run_id: str, wait_s: Annotated[int, Field(ge=0, le=WAIT_S_MAX)] = 0
    ) -> MediaAnswer:
        """Return what a run has come to: its text, its structured output, the artifact that holds them. For a
        run at work here, up to wait_s seconds are waited until it ends or asks somebody; `ended` says which.
        The newest images, sounds and PDFs that its tools have shown come along.
        """
        if (task := self._driven.get(run_id)) is not None:
            await self._stands_still(run_id, task, wait_s=wait_s)
        run = await self._runs.show(run_id)
        # A loop of ours leaves these three; the result of a run with code of its own is any JSON.
        result = run["result"]
        left: dict[str, Any] = result if _is_of_a_loop(result) else {"output": result}
        text = str(left.get("text") or run["message"] or "")
        space = self._runs.as_principal(self._principal).artifacts
        media = await media_of_tools(self._runs.services, self._runs.id, run_id, space)
        value = {
            **await self._standing(run_id),
            "text": text[:TEXT_CHARS_MAX],
            "text_chars": len(text),
            "output": left.get("output"),
            "artifact": left.get("artifact") or None,
            "media": msgspec.to_builtins([one.facts for one in media]),
        }
        return MediaAnswer(value=value, media=media)

    async def list_runs(
        self, status: str | None = None, after: int = 0, limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = 20
    ) -> dict[str, Any]:
        """The runs of this tenant in the order of their start: items, and `next` to be given as `after`."""
        return dict(await self._runs.runs(status=status, after=after, limit=limit))

    async def approve_run(
        self,
        run_id: str,
        decision: Literal["approve", "deny", "edit"],
        step: str | None = None,
        note: str = "",
        arguments: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Answer what a run asks, in the name of the person that this server acts for: ask them first. step
        is needed if it asks several things; edit approves the call with other arguments."""
        if (decision == "edit") != (arguments is not None):
            raise InvalidArguments("arguments go with the decision edit, and only with it")
        await self._runs.approve(
            run_id, step, deny=decision == "deny", arguments=arguments, note=note, by=self._principal
        )
        await self._go_on(run_id)
        return await self._standing(run_id)

    async def cancel_run(self, run_id: str, note: str = "") -> dict[str, Any]:
        """End a run for good."""
        await self._runs.cancel(run_id, note=note, by=self._principal)
        return await self._standing(run_id)

    async def signal_run(self, run_id: str, name: str, data: object = None) -> dict[str, Any]:
        """Hand data to a run that waits for a signal of this name, or will."""
        data = self._runs.services.escape_placeholders(self._tenant, data)
        await self._runs.signal(run_id, name, data, by=self._principal)
        await self._go_on(run_id)
        return await self._standing(run_id)

    # Checking

    def _limits_of(self, budget_usd: str | None) -> Limits | None:
        """The limits of a new run. Errors: `InvalidArguments` for more money than this server may give."""
        given, most = self._limits, self._limits.usd
        if budget_usd is not None:
            if most is not None and parse_usd(budget_usd) > parse_usd(most):
                raise InvalidArguments(
                    "budget_usd is above what this server may give a run",
                    expected=f"at most {most}",
                    got=budget_usd[:40],
                )
            parse_usd(budget_usd)
            given = Limits(usd=budget_usd, tokens=given.tokens, steps=given.steps, wall_s=given.wall_s)
        return None if given == Limits() else given

    def _folder(self, workspace: str | None) -> str:
        """The real path of a workspace; empty for none. Errors: `AccessDenied`, `NotFound`."""
        if workspace is None:
            return ""
        if self._root is None:
            raise AccessDenied("this server gives no run a workspace", hint="Start it with --workspace DIR.")
        if "\0" in workspace or not workspace.isprintable():
            raise InvalidArguments("workspace is no path")
        place = os.path.realpath(os.path.join(self._root, workspace))
        # Before anything is said of what is there or not.
        if not is_within(place, self._root):
            raise AccessDenied(
                "the workspace leaves the folder of this server",
                expected="a folder below it",
                got=workspace[:200],
            )
        if not os.path.isdir(place):
            raise NotFound("there is no such folder", got=workspace[:200])
        return place

    async def _same(self, run_id: str, goal: str, root: str) -> bool:
        """Return True if the run is there. Errors: `Conflict` if it is about something else."""
        try:
            stored = await settings_of(self._kernel, self._tenant, run_id)
        except NotFound:
            return False
        desk = self._kernel.for_tenant(self._tenant)
        is_asked = desk.services.is_stored(desk.id, "prompt", goal, as_=stored["prompt"])
        if not is_asked or stored["workspace"] != root:
            raise Conflict(
                f"run {run_id} exists with another goal or workspace",
                hint="Give the same ones to go on with it, or another run_id to start anew.",
            )
        return True

    async def _stands_still(self, run_id: str, task: asyncio.Task[AgentResult], *, wait_s: int) -> None:
        """Wait until a run has ended or needs somebody, at most so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while not task.done() and (left := until - loop.time()) > 0:
            await asyncio.wait({task}, timeout=min(left, LOOK_S))
            if (await self._runs.show(run_id))["status"] in NEEDS_SOMEBODY:
                return

    # Driving

    def _agent(self, root: str) -> AutonomousAgent:
        if root:
            return workspace_agent(self._kernel, root, tenant=self._tenant)
        return AutonomousAgent(kernel=self._kernel, agent_id="assistant")

    def _drive(self, run_id: str, work: Awaitable[AgentResult]) -> asyncio.Task[AgentResult]:
        task = asyncio.ensure_future(work)
        self._driven[run_id] = task
        self._failures.pop(run_id, None)
        task.add_done_callback(lambda done: self._forget_driven(run_id, done))
        return task

    def _forget_driven(self, run_id: str, task: asyncio.Task[AgentResult]) -> None:
        self._driven.pop(run_id, None)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ArtelierError):
            self._failures[run_id] = error
            while len(self._failures) > AT_ONCE_MAX:
                self._failures.pop(next(iter(self._failures)))

    def _room(self) -> None:
        if len(self._driven) >= AT_ONCE_MAX:
            raise QueueFull(
                "too many runs are at work here",
                expected=f"at most {AT_ONCE_MAX} at once",
                hint="Wait for one to end, or cancel one.",
            )

    async def _wait_begun(self, run_id: str, task: asyncio.Task[AgentResult]) -> None:
        """Wait until the run is recorded. Errors: what was said at the door, where no run was made."""
        while not task.done():
            with suppress(NotFound):
                await self._runs.show(run_id)
                return
            await asyncio.sleep(0.01)
        await task

    async def _go_on(self, run_id: str) -> None:
        """Drive a run of a built-in loop that nobody drives, after it was answered."""
        run = await self._runs.show(run_id)
        if run_id in self._driven or not run["loop"] or run["status"] not in ("pending", "running"):
            return
        self._room()
        self._drive(run_id, resume_run(self._kernel, self._tenant, run_id))

    async def _standing(self, run_id: str) -> dict[str, Any]:
        run = await self._runs.show(run_id)
        failure = self._failures.get(run_id)
        return {
            "run_id": run_id,
            "status": run["status"],
            "reason": run["reason"],
            "ended": is_final(run["status"]),
            "driven_here": run_id in self._driven,
            "problem": None if failure is None else marked_wire(failure.to_wire()),
            "steps": run["steps"],
            "usage": run["usage"],
            "cost_usd": format_usd(run["cost_microusd"]),
            "asks": run["approvals"],
            "unknown_outcomes": run["unknown_outcomes"],
            "unknown_calls": run["unknown_calls"],
        }

    async def aclose(self) -> None:
        """Stop driving; the runs stay resumable."""
        tasks = list(self._driven.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_plain(run_id: str) -> bool:
    """Return True if a run's id can stand in the id of an artifact."""
    return len(run_id) <= 100 and all(c.isascii() and (c.isalnum() or c in "._-") for c in run_id)


def _is_of_a_loop(result: object) -> bool:
    return isinstance(result, dict) and {"text", "output", "artifact"} <= {*map(str, result)}  # pyright: ignore[reportUnknownArgumentType] - JSON
