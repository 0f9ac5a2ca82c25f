"""A history to open the page on: goals with many agents, all worked on to their end by a scripted model."""

from __future__ import annotations

import re
from typing import Any

from artelier import Kernel
from artelier.agents import Worker
from artelier.models.scripted import ScriptedModel
from artelier.ports.model import ModelRequest

AGENTS = 10
"""Of one goal; each has one task."""
DRAFTS = 2
"""Versions that a task writes; the last is good enough."""

_ABOUT = re.compile(r"The (?:goal|criteria) of ([a-z0-9]+)\.")
_ITERATION = re.compile(r"Iteration (\d+) of \d+")
_OUTPUT = re.compile(r'<data source="([^"]+)" trust="untrusted">\n(.*?)\n</data>', re.DOTALL)
_SENTENCE = "Oslo sold more than every other city in the quarter."


def goal_model() -> ScriptedModel:
    """Return planner, agents and evaluator in one: it decides by the question alone."""
    return ScriptedModel(_answer)


async def work_on_goals(kernel: Kernel, *, goals: int) -> None:
    """Plan so many goals, launch them, and drive all of their tasks to their end."""
    desk, worker = kernel.for_tenant(), Worker(kernel, kernel.services)
    for number in range(goals):
        await desk.plan(
            f"Find out which city sold most, number {number}.",
            mission_id=f"goal-{number}",
            model="scripted",
            auto_launch=True,
        )
    while await worker.once():
        pass


def _answer(request: ModelRequest) -> Any:
    what = str((request.output_schema or {}).get("title", "content"))
    text = "\n".join(message.text for message in request.messages)
    if what == "Plan":
        return _plan()
    if what == "Verdict":
        return _verdict(request)
    about = _ABOUT.search(text)
    slug = about[1] if about is not None else "t0"
    numbers = _ITERATION.findall(text)
    iteration = int(numbers[-1]) if numbers else 1
    if what == "content":
        return f"# About {slug}\n\nDraft {iteration}.\n\n{_SENTENCE}"
    return _decision(slug, iteration)


def _plan() -> dict[str, Any]:
    slugs = [f"t{number}" for number in range(AGENTS)]
    return {
        "agents": [{"slug": f"by-{slug}", "name": f"Agent {slug}"} for slug in slugs],
        "tasks": [
            {
                "slug": slug,
                "goal": f"The goal of {slug}.",
                "agent": f"by-{slug}",
                "success_criteria": f"The criteria of {slug}.",
                "depends_on": [slugs[n - 3]] if n >= 3 else [],
            }
            for n, slug in enumerate(slugs)
        ],
    }


def _decision(slug: str, iteration: int) -> dict[str, Any]:
    return {
        "action": "create_artifact",
        "artifact_type": "markdown",
        "target": f"On {slug}",
        "reason": f"Draft {iteration} of {slug}: it needs the figures of one more city.",
    }


def _verdict(request: ModelRequest) -> dict[str, Any]:
    outputs = _OUTPUT.findall(request.messages[-1].text)
    is_met = all(int(ref.rpartition("@")[2]) >= DRAFTS for ref, _ in outputs)
    evidence = [{"ref": ref, "quote": text.splitlines()[-1]} for ref, text in outputs] if is_met else []
    criterion = {
        "criterion": "It is good.",
        "met": is_met,
        "evidence": evidence,
        "missing": "" if is_met else "It says too little.",
    }
    return {"criteria": [criterion], "summary": "It says so." if is_met else "It says too little."}
