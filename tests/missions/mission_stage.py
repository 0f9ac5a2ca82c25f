"""A stage for missions: a plan, and one model that plays planner, agents and evaluators by script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelRequest
from artelier.agents.loop_registry import replay_run, settings_of
from artelier.app import TenantKernel
from artelier.kernel import Replayed
from artelier.missions.definition import template
from artelier.missions.reports import MissionDetail
from artelier.testing import ScriptedModel
from tests.missions.task_stage import approve, decide, sales_of, text_of, title_of, write

GOAL = "Find out which city sold most, and write a letter about it."
MISSION = "m1"


def planned(*tasks: Mapping[str, Any], agents: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A plan in which each task has an agent of its own, unless it says otherwise."""
    found = [task_of(**task) for task in tasks]
    names = dict.fromkeys(task["agent"] for task in found)
    own = list(agents) or [{"slug": name, "name": name.capitalize()} for name in names]
    return {"agents": own, "tasks": found}


def task_of(slug: str, *, after: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    return {
        "slug": slug,
        "goal": f"The goal of {slug}.",
        "success_criteria": f"The criteria of {slug}.",
        "agent": f"by-{slug}",
        "depends_on": list(after),
        **more,
    }


LINE = planned({"slug": "figures"}, {"slug": "letter", "after": ["figures"]})
"""Two tasks, one after the other."""

FORK = planned({"slug": "a"}, {"slug": "b"}, {"slug": "end", "after": ["a", "b"]})
"""Two tasks side by side, and one that needs both."""

ASK = decide("use_tool", tool="ask_person", input={"question": "Which year?"})


ORDINALS = ("second", "third", "fourth", "fifth")


class Team:
    """Whoever is asked: `plans` are given in order; `scripts` hold decisions by task, the last repeated."""

    def __init__(
        self, *plans: Any, scripts: Mapping[str, Sequence[Any]] | None = None, judge: Any = approve
    ) -> None:
        self.plans = list(plans)
        self.scripts = {slug: list(script) for slug, script in (scripts or {}).items()}
        self.judge = judge
        self.asked: list[tuple[str, str]] = []
        """(what, task) of every request."""
        self.requests: list[ModelRequest] = []
        self.model = ScriptedModel(self._answer)

    def _answer(self, request: ModelRequest) -> Any:
        what, text = title_of(request), text_of(request)
        slug = next((one for one in self._slugs() if f" of {one}." in text), "")
        self.asked.append((what, "" if what == "Plan" else slug))
        self.requests.append(request)
        if what == "Plan":
            return self.plans.pop(0)
        if what == "Verdict":
            return self.judge(request)
        if what == "content":
            said = f"# The letter of {slug}\n\nOslo sold more than every other city."
            rejected = text.count(template("rejected-1"))
            return f"{said} Written anew: the {ORDINALS[rejected - 1]} draft." if rejected else said
        script = self.scripts.setdefault(slug, [write(f"Out {slug}")])
        step = script.pop(0) if len(script) > 1 else script[0]
        return step(request) if callable(step) else step

    def _slugs(self) -> list[str]:
        return ["figures", "letter", "a", "b", "end", "more", "own"]

    def count(self, what: str, slug: str | None = None) -> int:
        return sum(1 for one in self.asked if one[0] == what and slug in (None, one[1]))


def asking(*tasks: Mapping[str, Any]) -> Team:
    """A team whose task `a` asks a person before it writes."""
    return Team(planned(*tasks), scripts={"a": [ASK, write("Out a")]})


def opened(folder: Path, team: Team, **more: Any) -> Kernel:
    more.setdefault("tools", [sales_of])
    models = {"m": more.pop("model", team.model)}
    return Kernel.open(folder / "s.db", models=models, environ={}, **more)


async def ready(desk: TenantKernel) -> None:
    """Plan and launch a mission that nobody drives yet."""
    await desk.plan(GOAL, mission_id=MISSION, model="m")
    await desk.launch(MISSION)


async def launched(desk: TenantKernel, **more: Any) -> MissionDetail:
    """Plan, launch and drive a mission; what `mission` says of it."""
    more.setdefault("auto_launch", True)
    await desk.plan(GOAL, mission_id=MISSION, model="m", **more)
    return await desk.mission(MISSION)


def statuses(mission: Mapping[str, Any]) -> dict[str, str]:
    return {task["id"].partition("/")[2]: task["status"] for task in mission["tasks"]}


async def replayed(kernel: Kernel, tenant: str, run: str = MISSION) -> Replayed:
    settings = await settings_of(kernel, tenant, run)
    return await kernel.for_tenant(tenant).replay(run, lambda one: replay_run(one, settings))


async def kinds(kernel: Kernel, run: str = MISSION) -> list[str]:
    return [event.kind async for event in kernel.events() if event.stream.local == f"run:{run}"]
