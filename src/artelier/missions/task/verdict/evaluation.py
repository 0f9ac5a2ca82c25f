"""The evaluation of outputs: judged by the success criteria alone, proved by quotes, checked by rule.

The evaluator never sees decisions, reasons or results of tools. Nothing it says is believed: each quote must
stand in the version that it cites. What breaks a hard rule fails without asking, so that no evaluator can
wave it through. What a rule about words has found is advice: the evaluator must say of each finding whether
it is a fault, and a verdict that passes over one does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artelier.context import Section, assemble
from artelier.kernel import Prompt, Run
from artelier.kernel.prompt.delimiters import fence
from artelier.missions.definition import template
from artelier.missions.task.decision import ask, read_as
from artelier.missions.task.task_config import TaskJob
from artelier.missions.task.verdict.declared_checks import by_rule, by_tool, shown_to_tools, void_of
from artelier.missions.task.verdict.output_lint import ADVICE, Grounds, Judged, OutputFault, faults_of

if TYPE_CHECKING:
    from artelier.missions.definition import Answer, TaskContent, Verdict
    from artelier.ports.model import ModelReply

VERDICT_TOKENS_MAX = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The result of an evaluation."""

    passed: bool
    stored: dict[str, Any]
    """`{criteria, checks, faults, summary}`, and `advice` if rules advise and have found something:
    `[{rule, ref, found, is_fault, why}]`, where `is_fault` is None if the evaluator passed over it."""
    void: str = ""
    """Why a verdict does not count."""


async def evaluate(
    run: Run,
    job: TaskJob,
    task: TaskContent,
    outputs: Sequence[Judged],
    grounds: Grounds,
    *,
    rejected: Callable[[], Awaitable[list[OutputFault]]],
    key: str,
) -> EvaluationResult:
    """Judge the outputs; steps are keyed below `key`. `rejected` finds what a person has rejected in them.

    Errors: those of `Run.step_model`; a reply that is no verdict makes it void.
    """
    stored: dict[str, Any] = {"criteria": [], "checks": [], "faults": [], "summary": ""}

    async def by_rules() -> dict[str, Any]:
        found = await asyncio.to_thread(_apply_rules, task, outputs, grounds, advises=job.advises)
        if job.heeds and (heeded := await rejected()):
            found["faults"] = [*(one.to_stored() for one in heeded), *found["faults"]]
            found["checks"] = []
        return found

    ruled = await run.step("checks", by_rules, key=f"{key}/checks")
    stored["faults"] = ruled["faults"]
    stored["checks"] = ruled["checks"]
    if advice := ruled.get("advice"):
        stored["advice"] = [{**one, "is_fault": None, "why": ""} for one in advice]
    if ruled["faults"]:
        return EvaluationResult(passed=False, stored=stored, void=str(ruled["faults"][0]["rule"]))
    for number, check in enumerate(task.checks):
        if check.kind == "tool":
            given = shown_to_tools(outputs)
            said = await run.step_tool(check.tool or "", given, key=f"{key}/check/{number}")
            stored["checks"].append(by_tool(check, said.value, is_error=said.is_error))
    if not all(check["passed"] for check in stored["checks"]):
        return EvaluationResult(passed=False, stored=stored)
    if task.only_checks and task.checks:
        return EvaluationResult(passed=True, stored=stored)
    return await _judge_by_model(run, job, task, outputs, stored, key=key)


def _apply_rules(
    task: TaskContent, outputs: Sequence[Judged], grounds: Grounds, *, advises: bool
) -> dict[str, Any]:
    """Return what rules say. A run with hard rules records no `advice`, as it never did."""
    found = faults_of(outputs, grounds, only_prose=advises)
    faults = [one.to_stored() for one in found if not (advises and one.rule in ADVICE)]
    checks = [by_rule(check, outputs) for check in task.checks if check.kind != "tool"]
    ruled = {"faults": faults, "checks": [] if faults else checks}
    if advises:
        ruled["advice"] = [one.to_stored() for one in found if one.rule in ADVICE]
    return ruled


async def _judge_by_model(
    run: Run, job: TaskJob, task: TaskContent, outputs: Sequence[Judged], stored: dict[str, Any], *, key: str
) -> EvaluationResult:
    from artelier.missions.definition import AdvisedVerdict, Verdict

    advice: list[dict[str, Any]] = stored.get("advice", [])
    form = AdvisedVerdict if advice else Verdict

    def read(reply: ModelReply) -> Verdict:
        return read_as(form, reply)

    asked = await ask(
        run,
        _prompt(job, task, outputs, advice),
        key=key,
        model=job.model,
        read=read,
        repair="repair-verdict-1",
        form=form,
        max_output_tokens=min(job.max_output_tokens, VERDICT_TOKENS_MAX),
    )
    if asked.value is None:
        return EvaluationResult(passed=False, stored={**stored, "summary": asked.mistakes}, void="invalid")
    verdict: Verdict = asked.value
    stored = {**stored, **verdict.model_dump(mode="json", exclude={"findings"})}
    if advice:
        stored["advice"] = _answer_findings(advice, verdict)
    void = _passed_over(stored) or void_of(verdict, task.success_criteria, outputs)
    met = all(one.met for one in verdict.criteria)
    met = met and not any(one["is_fault"] for one in stored.get("advice", []))
    return EvaluationResult(passed=met and not void, stored=stored, void=void)


def _answer_findings(advice: Sequence[dict[str, Any]], verdict: Verdict) -> list[dict[str, Any]]:
    """Findings with what the evaluator says of each; of several answers a fault counts."""
    from artelier.missions.definition import AdvisedVerdict

    said = verdict.findings if isinstance(verdict, AdvisedVerdict) else []
    found: list[dict[str, Any]] = []
    for number, one in enumerate(advice, start=1):
        own = sorted((answer for answer in said if answer.number == number), key=_is_no_fault)
        told = {"is_fault": own[0].is_fault, "why": own[0].why} if own else {}
        found.append({**one, **told})
    return found


def _is_no_fault(answer: Answer) -> bool:
    return not answer.is_fault


def _passed_over(stored: dict[str, Any]) -> str:
    """The rule of the first finding of which the evaluator says nothing; empty if there is none."""
    return next((one["rule"] for one in stored.get("advice", []) if one["is_fault"] is None), "")


def _prompt(
    job: TaskJob, task: TaskContent, outputs: Sequence[Judged], advice: Sequence[dict[str, Any]]
) -> Prompt:
    contract = "evaluation-2" if advice else "evaluation-1"
    sections = [
        Section(tag="contract", text=template(contract), sources=(contract,), pinned=True),
        Section(
            tag="criteria", role="user", text=f"## Success criteria\n\n{task.success_criteria}", pinned=True
        ),
        Section(tag="outputs", role="user", text="## Outputs", joined=True, pinned=True),
    ]
    for output in outputs:
        sections.append(
            Section(
                tag=f"output:{output.ref}"[:120],
                role="user",
                joined=True,
                is_fenced=True,
                text=fence(output.text, source=output.ref),
                trust="untrusted",
                truncation="middle",
                sources=(output.ref,),
            )
        )
    if advice:
        lines = "\n".join(
            f"{number}. {one['rule']} in {one['ref']}: {'; '.join(one['found'])}"
            for number, one in enumerate(advice, start=1)
        )
        sections.append(
            Section(
                tag="findings",
                role="user",
                joined=True,
                pinned=True,
                trust="untrusted",
                text=f"## Findings\n\n{fence(lines, source='rules')}",
                is_fenced=True,
            )
        )
    return assemble(sections, budget_tokens=job.prompt_tokens_max)
