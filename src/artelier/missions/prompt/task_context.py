"""The view of a task in one iteration: journaled readings of tools, inputs, artifacts, memory, steering.

A reading is recorded only when it has changed; a replay gives what was seen then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, cast

from artelier.kernel import Run
from artelier.missions.prompt import context_sources
from artelier.missions.task.loop_state import TaskState, id_of
from artelier.missions.task.task_config import TaskJob

Items = list[dict[str, Any]]


class TaskSight:
    """The readings of the iteration at hand."""

    def __init__(self, run: Run, job: TaskJob, *, desk: Any) -> None:
        self._run = run
        self._job = job
        self._desk = desk
        self._now: dict[str, tuple[Any, str]] = {}
        self._before: dict[str, Items] = {}
        """What the decision of this iteration showed, once the rest is shown something newer."""

    async def steering(self, state: TaskState) -> Any:
        """Return what steering says now; an iteration begins with it."""
        self._now, self._before = {}, {}
        return await self._steering(state, "steering")

    async def steering_again(self, state: TaskState) -> Any:
        """Return what it says after the decision, before that is carried out."""
        return await self._steering(state, "steering-again")

    async def _steering(self, state: TaskState, place: str) -> Any:
        await self._read(
            state.replace(reads=self.reads(state)),
            "steering",
            lambda: context_sources.steering_now(self._desk, self._job),
            key=f"c{state.iteration + 1}/{place}",
        )
        return self._now["steering"][0]

    async def look(self, state: TaskState) -> bool:
        """Read all that the prompts show. Whether others have made something since the last look."""
        desk = self._desk
        before = state.reads.get("artifacts", "")
        await self._read(state, "tools", self._tools_now)
        await self._look_at_others(state, "read")
        scopes = self._run.core.scopes
        await self._read(state, "budget", lambda: context_sources.budget_now(desk, scopes))
        is_changed = self._now["artifacts"][1] != before
        return is_changed and state.action != "create_artifact"

    async def look_again(self, state: TaskState) -> None:
        """Read anew what others have made: a right that was taken since the decision is gone."""
        self._before = {name: self.items(name) for name in ("inputs", "artifacts")}
        await self._look_at_others(state.replace(reads=self.reads(state)), "read-again")

    async def _look_at_others(self, state: TaskState, place: str) -> None:
        job, desk, at = self._job, self._desk, f"c{state.iteration + 1}/{place}"
        if state.inputs:
            await self._read(
                state,
                "inputs",
                lambda: context_sources.inputs_now(desk, job, state.inputs),
                key=f"{at}/inputs",
            )
        await self._read(
            state,
            "artifacts",
            lambda: context_sources.artifacts_now(desk, job, state.refs),
            key=f"{at}/artifacts",
        )
        if job.memory:
            await self._read(
                state, "memory", lambda: context_sources.memory_now(desk, job), key=f"{at}/memory"
            )

    async def _tools_now(self) -> Items:
        """The tools that are on, as they are told to the model."""
        core = self._run.core
        return [
            {
                "name": schema.name,
                "description": schema.description,
                "schema": schema.parameters,
                "trust": core.tools[schema.name].trust,
            }
            for schema in core.offered_tools()[: context_sources.TOOLS_MAX]
        ]

    async def _read(
        self, state: TaskState, name: str, read: Callable[[], Awaitable[Any]], *, key: str = ""
    ) -> None:
        place = key or f"c{state.iteration + 1}/read/{name}"
        last = state.reads.get(name, "")
        self._now[name] = await self._run.reading(read, key=place, last=last)

    def reads(self, state: TaskState) -> dict[str, Any]:
        """References of the newest readings, for the state."""
        now = {name: ref for name, (_, ref) in self._now.items()}
        merged = {**state.reads, **now}
        return {name: ref for name, ref in merged.items() if ref}

    # What was seen

    def items(self, name: str) -> Items:
        """A reading that is a list; empty if there is none."""
        return cast("Items", self._now.get(name, (None, ""))[0] or [])

    @property
    def memory(self) -> Items | None:
        """None if nobody has attached one."""
        return cast("Items | None", self._now.get("memory", (None, ""))[0])

    def trust_of(self, tool: str | None) -> str:
        """Return the trust in what a tool says; a tool that was not listed is not trusted."""
        found = next((one for one in self.items("tools") if one["name"] == tool), None)
        return "untrusted" if found is None else str(found["trust"])

    def shown_refs(self) -> tuple[str, ...]:
        """Refs of artifacts whose content stood in the prompts of this iteration."""
        items = [*self._before.get("inputs", ()), *self.items("inputs")]
        return tuple(dict.fromkeys(str(one["ref"]) for one in items if not one.get("gone")))

    def derived_from(self) -> list[str]:
        """Refs of all artifacts of which something stood in them."""
        items = [*self._before.get("artifacts", ()), *self.items("artifacts")]
        return list(dict.fromkeys([*self.shown_refs(), *(str(one["ref"]) for one in items)]))

    def texts(self, *, own: Collection[str], made: Collection[str]) -> list[str]:
        """All that was shown of inputs and artifacts, but of those (by id) that the task, or one that it
        handed a part to, has made."""
        inputs = [str(one.get("text", "")) for one in self.items("inputs") if _id(one) not in made]
        return inputs + [
            str(one["first"])
            for one in self.items("artifacts")
            if _id(one) not in own and _id(one) not in made
        ]

    def inputs_at(self, refs: Collection[str]) -> list[str]:
        """Return what was shown of some inputs."""
        return [str(one.get("text", "")) for one in self.items("inputs") if one["ref"] in refs]


def _id(item: Mapping[str, Any]) -> str:
    return id_of(str(item["ref"]))
