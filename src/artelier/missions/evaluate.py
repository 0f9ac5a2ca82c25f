"""Whether outputs meet the success criteria: judged by these alone, proved by quotes, checked by rule.

The evaluator never sees decisions, reasons or results of tools. Nothing it says is believed: each quote must
stand in the version that it cites. What breaks a rule fails without asking, so that no evaluator can wave it
through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artelier.context import Section, assemble
from artelier.kernel import Prompt, Run
from artelier.kernel.fence import fenced
from artelier.missions.checks import by_rule, by_tool, shown_to_tools
from artelier.missions.decide import ask, read_as
from artelier.missions.faults import Grounds, Judged, faults_of
from artelier.missions.job import TaskJob
from artelier.missions.proof import void_of
from artelier.missions.wording import template

if TYPE_CHECKING:
    from artelier.missions.definition import TaskContent, Verdict
    from artelier.ports.model import ModelReply

VERDICT_TOKENS_MAX = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What an evaluation came to."""

    passed: bool
    stored: dict[str, Any]
    """`{criteria, checks, faults, summary}`."""
    void: str = ""
    """Why a verdict does not count."""


async def evaluate(
    run: Run,
    job: TaskJob,
    task: TaskContent,
    outputs: Sequence[Judged],
    grounds: Grounds,
    *,
    key: str,
) -> Judgement:
    """Judge the outputs; steps are keyed below `key`.

    Errors: those of `Run.step_model`; a reply that is no verdict makes it void.
    """
    stored: dict[str, Any] = {"criteria": [], "checks": [], "faults": [], "summary": ""}

    async def by_rules() -> dict[str, Any]:
        return await asyncio.to_thread(_ruled, task, outputs, grounds)

    ruled = await run.step("checks", by_rules, key=f"{key}/checks")
    stored["faults"] = ruled["faults"]
    stored["checks"] = ruled["checks"]
    if ruled["faults"]:
        return Judgement(passed=False, stored=stored, void=str(ruled["faults"][0]["rule"]))
    for number, check in enumerate(task.checks):
        if check.kind == "tool":
            given = shown_to_tools(outputs)
            said = await run.step_tool(check.tool or "", given, key=f"{key}/check/{number}")
            stored["checks"].append(by_tool(check, said.value, is_error=said.is_error))
    if not all(check["passed"] for check in stored["checks"]):
        return Judgement(passed=False, stored=stored)
    if task.only_checks and task.checks:
        return Judgement(passed=True, stored=stored)
    return await _judged(run, job, task, outputs, stored, key=key)


def _ruled(task: TaskContent, outputs: Sequence[Judged], grounds: Grounds) -> dict[str, Any]:
    faults = [fault.stored() for fault in faults_of(outputs, grounds)]
    checks = [by_rule(check, outputs) for check in task.checks if check.kind != "tool"]
    return {"faults": faults, "checks": [] if faults else checks}


async def _judged(
    run: Run, job: TaskJob, task: TaskContent, outputs: Sequence[Judged], stored: dict[str, Any], *,
    key: str,
) -> Judgement:  # fmt: skip
    from artelier.missions.definition import Verdict

    def read(reply: ModelReply) -> Verdict:
        return read_as(Verdict, reply)

    asked = await ask(
        run, _prompt(job, task, outputs), key=key, model=job.model, read=read,
        repair="repair-verdict-1", form=Verdict,
        max_output_tokens=min(job.max_output_tokens, VERDICT_TOKENS_MAX),
    )  # fmt: skip
    if asked.value is None:
        return Judgement(passed=False, stored={**stored, "summary": asked.mistakes}, void="invalid")
    verdict: Verdict = asked.value
    stored = {**stored, **verdict.model_dump(mode="json")}
    void = void_of(verdict, task.success_criteria, outputs)
    met = all(one.met for one in verdict.criteria)
    return Judgement(passed=met and not void, stored=stored, void=void)


def _prompt(job: TaskJob, task: TaskContent, outputs: Sequence[Judged]) -> Prompt:
    sections = [
        Section(tag="contract", text=template("evaluation-1"), sources=("evaluation-1",), pinned=True),
        Section(
            tag="criteria", role="user", text=f"## Success criteria\n\n{task.success_criteria}",
            pinned=True,
        ),
        Section(tag="outputs", role="user", text="## Outputs", joined=True, pinned=True),
    ]  # fmt: skip
    for output in outputs:
        sections.append(
            Section(
                tag=f"output:{output.ref}"[:120], role="user", joined=True, is_fenced=True,
                text=fenced(output.text, source=output.ref), trust="untrusted", truncation="middle",
                sources=(output.ref,),
            )
        )  # fmt: skip
    return assemble(sections, budget_tokens=job.prompt_tokens_max)
