"""Readings of the outside for a task, made with the rights of its agent as they are at that moment.

Each function gives JSON for a journaled reading; nothing here is asked on a replay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from artelier.artifacts import Artifact, group_of
from artelier.artifacts.queries import newest_first
from artelier.context import cut
from artelier.errors import AccessDenied, ArtelierError, InvalidRequest, NotFound
from artelier.ids import MAIN_SPACE
from artelier.kernel import Run
from artelier.kernel.history.fork_effects import FORKS, fork_folders
from artelier.kernel.run_limits import counters_of
from artelier.kernel.tenants.registry import TenantScope
from artelier.ledger.queries import scope_limits
from artelier.memory.queries import agent_of
from artelier.missions.queries import max_iterations_now, task_end
from artelier.missions.status import TaskStatus
from artelier.missions.steering_document import Steering, SteeringReading, SteeringVersion, steering_at
from artelier.missions.task.loop_state import TaskJob, TaskState, id_of
from artelier.missions.task.readings import AttachedMemory, SeenArtifact, SeenInput, SeenTool, UnitsLeft
from artelier.ports.tool import ToolSchema
from artelier.tokens import estimate_tokens

LISTED_MAX = 40
"""Artifacts in one prompt, the newest of all."""

SHARED_LOOKED_AT = 500
"""Artifacts of one membrane among which the newest are looked for."""

FIRST_CHARS = 160
TITLE_CHARS = 120
MEMORY_BLOCKS_MAX = 32
TOOLS_MAX = 200


async def found_inputs(desk: TenantScope, job: TaskJob) -> tuple[list[str], str]:
    """`(refs with versions, ref of the first that is missing or unreadable)`.

    The inputs of the task, and the outputs of all tasks that it depends on.
    """
    task = job.content()
    found: list[str] = []
    artifacts = desk.as_principal(job.agent).artifacts
    wanted = list(task.inputs)
    for before in task.depends_on:
        made = await outputs_of(desk, before)
        if not made:
            return found, before
        wanted += made
    for ref in dict.fromkeys(wanted):
        try:
            artifact = await artifacts.read(ref)
        except (AccessDenied, NotFound, InvalidRequest):
            return found, ref
        found.append(f"{artifact.id}@{artifact.version}")
    return list(dict.fromkeys(found)), ""


async def outputs_of(desk: TenantScope, task: str) -> list[str]:
    """Refs of what a task that is done has made; empty for any other."""
    end = await task_end(desk, task)
    return list(end.outputs) if end.ended == TaskStatus.DONE else []


async def inputs_now(desk: TenantScope, job: TaskJob, refs: Sequence[str]) -> list[SeenInput]:
    """The inputs with their content, in full while they fit their share of the window, else head and tail."""
    artifacts = desk.as_principal(job.agent).artifacts
    found: list[SeenInput] = []
    for ref in refs:
        try:
            artifact = await artifacts.read(ref)
        except (AccessDenied, NotFound, InvalidRequest):
            found.append(SeenInput(ref=ref, gone=True))
            continue
        text = text_of(artifact)
        found.append(
            SeenInput(
                ref=f"{artifact.id}@{artifact.version}",
                kind=artifact.kind,
                title=_title(artifact),
                owner=artifact.owner,
                bytes=_size(text),
                text=text,
            )
        )
    return _shorten(found, job.input_tokens_max)


def _shorten(items: list[SeenInput], tokens_max: int) -> list[SeenInput]:
    """Cut the longest first, so that all fit together and short ones stay whole."""
    texts = {place: item.text for place, item in enumerate(items) if item.text is not None}
    left, shown = tokens_max, list(items)
    for index, place in enumerate(sorted(texts, key=lambda place: estimate_tokens(texts[place]))):
        text, share = texts[place], max(16, left // (len(texts) - index))
        if estimate_tokens(text) > share:
            text = cut(text, tokens=share, where="middle")
            shown[place] = replace(items[place], text=text, cut=True)
        left = max(0, left - estimate_tokens(text))
    return shown


async def artifacts_now(
    desk: TenantScope, job: TaskJob, own: Sequence[str], *, run_id: str
) -> list[SeenArtifact]:
    """Return what the agent's membranes share and what the task has made, newest first, with first words.

    What forks have made is no fact for anybody but them: `run_id` is the run that reads.
    """
    artifacts = desk.as_principal(job.agent).artifacts
    ids = dict.fromkeys(ref.partition("@")[0] for ref in own)
    for group in await artifacts.groups_of():
        try:
            page = await artifacts.shared(group, limit=SHARED_LOOKED_AT)
        except (AccessDenied, NotFound):
            continue
        ids.update(dict.fromkeys(one.id for one in page.items))
    if foreign := [id_ for id_ in ids if id_.startswith(FORKS)]:
        folders = await fork_folders(desk.services, desk.id, run_id)
        for id_ in foreign:
            if not id_.startswith(tuple(f"{folder}/" for folder in folders)):
                del ids[id_]
    newest = await newest_first(desk.services.store, desk.id, MAIN_SPACE, list(ids))
    found: list[SeenArtifact] = []
    for id_ in newest[:LISTED_MAX]:
        try:
            artifact = await artifacts.read(id_, price_max=0)
        except ArtelierError:  # gone, no longer shared, or for sale
            continue
        text = text_of(artifact)
        first = " ".join(text[: 4 * FIRST_CHARS].split())[:FIRST_CHARS]
        found.append(
            SeenArtifact(
                ref=f"{artifact.id}@{artifact.version}",
                kind=artifact.kind,
                title=_title(artifact),
                owner=artifact.owner,
                bytes=_size(text),
                first=first,
            )
        )
    return found


def _title(artifact: Artifact) -> str:
    title = artifact.metadata.get("title")
    shown = title if isinstance(title, str) and title.strip() else artifact.id.rpartition("/")[2]
    return " ".join(shown.split())[:TITLE_CHARS]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def text_of(artifact: Artifact) -> str:
    """An artifact as text: as it is, or its JSON."""
    content: Any = artifact.content
    if isinstance(content, str):
        return content
    if isinstance(content, bytes):
        return content.decode("utf-8", "replace")
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


async def steering_now(desk: TenantScope, job: TaskJob) -> SteeringReading:
    """Return the steering of the agent and of its membranes, and where it counts for those.

    Errors: `InvalidRequest` for content that is no steering, `Conflict` for steering that was deleted:
    nobody works under rules that say nothing.
    """
    own = await _steering(desk, job.steering or f"{job.agent}/steering")
    groups = await desk.as_principal(job.agent).artifacts.groups_of()
    shared = [await _steering(desk, f"{group}/steering") for group in groups]
    joined = [scope for scope in map(group_of, groups) if scope not in job.scopes]
    counters = await counters_of(desk.services, desk.id, joined)
    return SteeringReading(
        agent=own,
        membranes=tuple(one for one in shared if one is not None),
        counters=tuple(counters) or msgspec.UNSET,
    )


async def _steering(desk: TenantScope, id_: str) -> SteeringVersion | None:
    artifact = await steering_at(desk, id_)
    if artifact is None:
        return None
    Steering.parse(artifact.content)
    return SteeringVersion(f"{artifact.id}@{artifact.version}", artifact.content)


async def budget_now(desk: TenantScope, scopes: Sequence[str]) -> list[UnitsLeft] | None:
    """Return what is left under the caps of some scopes; None without a cap."""
    left: dict[str, int] = {}
    for one in await scope_limits(desk.services.store, desk.id, *scopes):
        if one.cap is not None and one.unit in ("usd", "tokens", "steps"):
            free = one.cap - one.used - one.reserved
            left[one.unit] = min(free, left.get(one.unit, free))
    return [UnitsLeft(unit=unit, left=max(0, free)) for unit, free in sorted(left.items())] or None


async def memory_now(desk: Any, job: TaskJob) -> list[AttachedMemory] | None:
    """Blocks of the memory that is attached to the agent; None without one."""
    if not job.memory:
        return None
    agent = await agent_of(desk.services.store, desk.id, job.memory.partition("@")[0])
    if agent is not None:
        memory = await desk.memory.for_agent(desk.id, agent).seen_in(job.task)
        blocks = await memory.blocks()
        return [AttachedMemory(label=one.label, text=one.text) for one in blocks[:MEMORY_BLOCKS_MAX]]
    try:
        artifact = await desk.as_principal(job.agent).artifacts.read(job.memory)
    except (AccessDenied, NotFound):
        return []
    return [AttachedMemory(label=artifact.id, text=text_of(artifact))]


def seen_tool(schema: ToolSchema, trust: str) -> SeenTool:
    """Return a tool as it is told to the model."""
    return SeenTool(
        name=schema.name, description=schema.description, schema=dict(schema.parameters), trust=trust
    )


class TaskSight:
    """The readings of the iteration at hand."""

    def __init__(self, run: Run, job: TaskJob, *, desk: TenantScope) -> None:
        self._run = run
        self._job = job
        self._desk = desk
        self._now: dict[str, tuple[Any, str]] = {}
        self._before: tuple[list[SeenInput], list[SeenArtifact]] = ([], [])
        """What the decision of this iteration showed, once the rest is shown something newer."""

    async def steering(self, state: TaskState) -> SteeringReading:
        """Return what steering says now; an iteration begins with it."""
        self._now, self._before = {}, ([], [])
        return await self._steering(state, "steering")

    async def steering_again(self, state: TaskState) -> SteeringReading:
        """Return what it says after the decision, before that is carried out."""
        return await self._steering(state, "steering-again")

    async def _steering(self, state: TaskState, place: str) -> SteeringReading:
        await self._read(
            state.replace(reads=self.reads(state)),
            "steering",
            lambda: steering_now(self._desk, self._job),
            key=f"c{state.iteration + 1}/{place}",
        )
        return msgspec.convert(self._now["steering"][0] or {}, SteeringReading)

    async def max_iterations(self, state: TaskState, place: str) -> int | None:
        """Return the limit that the task's definition has now; None for the one that its run began with.

        `place`: of the step that reads it; empty for the limit as it was read last.
        """
        begun_with, last = self._job.content().max_iterations, state.reads.get("max_iterations")

        async def read() -> int | None:
            most = await max_iterations_now(self._desk, self._run.id)
            return None if most == begun_with and not last else most

        if not place:
            return await self._run.core.load_json(last or None)
        await self._read(state, "max_iterations", read, key=f"c{state.iteration + 1}/{place}")
        return cast("int | None", self._now["max_iterations"][0])

    async def look(self, state: TaskState) -> bool:
        """Read all that the prompts show. Whether others have made something since the last look."""
        desk = self._desk
        before = state.reads.get("artifacts", "")
        await self._read(state, "tools", self._tools_now)
        await self._look_at_others(state, "read")
        scopes = self._run.core.scopes
        await self._read(state, "budget", lambda: budget_now(desk, scopes))
        is_changed = self._now["artifacts"][1] != before
        return is_changed and state.action != "create_artifact"

    async def look_again(self, state: TaskState) -> None:
        """Read anew what others have made: a right that was taken since the decision is gone."""
        self._before = self.inputs, self.artifacts
        await self._look_at_others(state.replace(reads=self.reads(state)), "read-again")

    async def _look_at_others(self, state: TaskState, place: str) -> None:
        job, desk, at = self._job, self._desk, f"c{state.iteration + 1}/{place}"
        if state.inputs:
            await self._read(state, "inputs", lambda: inputs_now(desk, job, state.inputs), key=f"{at}/inputs")
        await self._read(
            state,
            "artifacts",
            lambda: artifacts_now(desk, job, state.refs, run_id=self._run.id),
            key=f"{at}/artifacts",
        )
        if job.memory:
            await self._read(state, "memory", lambda: memory_now(desk, job), key=f"{at}/memory")

    async def _tools_now(self) -> list[SeenTool]:
        """The tools that are on, as they are told to the model."""
        core = self._run.core
        return [seen_tool(one, core.tools[one.name].trust) for one in core.offered_tools()[:TOOLS_MAX]]

    async def _read(
        self, state: TaskState, name: str, read: Callable[[], Awaitable[Any]], *, key: str = ""
    ) -> None:
        place = key or f"c{state.iteration + 1}/read/{name}"
        last = state.reads.get(name, "")
        self._now[name] = await self._run.reading(read, key=place, last=last)

    def reads(self, state: TaskState) -> dict[str, str]:
        """References of the newest readings, for the state."""
        now = {name: ref for name, (_, ref) in self._now.items()}
        merged = {**state.reads, **now}
        return {name: ref for name, ref in merged.items() if ref}

    # What was seen

    def _seen(self, name: str) -> Any:
        return self._now.get(name, (None, ""))[0]

    @property
    def tools(self) -> list[SeenTool]:
        return msgspec.convert(self._seen("tools") or [], list[SeenTool])

    @property
    def inputs(self) -> list[SeenInput]:
        return msgspec.convert(self._seen("inputs") or [], list[SeenInput])

    @property
    def artifacts(self) -> list[SeenArtifact]:
        return msgspec.convert(self._seen("artifacts") or [], list[SeenArtifact])

    @property
    def budget(self) -> list[UnitsLeft]:
        return msgspec.convert(self._seen("budget") or [], list[UnitsLeft])

    @property
    def memory(self) -> list[AttachedMemory] | None:
        """None if nobody has attached one."""
        return msgspec.convert(self._seen("memory"), list[AttachedMemory] | None)

    def trust_of(self, tool: str | None) -> str:
        """Return the trust in what a tool says; a tool that was not listed is not trusted."""
        found = next((one for one in self.tools if one.name == tool), None)
        return "untrusted" if found is None else found.trust

    def shown_refs(self) -> tuple[str, ...]:
        """Refs of artifacts whose content stood in the prompts of this iteration."""
        items = [*self._before[0], *self.inputs]
        return tuple(dict.fromkeys(one.ref for one in items if not one.gone))

    def derived_from(self) -> list[str]:
        """Refs of all artifacts of which something stood in them."""
        items = [*self._before[1], *self.artifacts]
        return list(dict.fromkeys([*self.shown_refs(), *(one.ref for one in items)]))

    def texts(self, *, own: Collection[str], made: Collection[str]) -> list[str]:
        """All that was shown of inputs and artifacts, but of those (by id) that the task, or one that it
        handed a part to, has made."""
        others = [one.first for one in self.artifacts if id_of(one.ref) not in {*own, *made}]
        return [one.text or "" for one in self.inputs if id_of(one.ref) not in made] + others

    def inputs_at(self, refs: Collection[str]) -> list[str]:
        """Return what was shown of some inputs."""
        return [one.text or "" for one in self.inputs if one.ref in refs]
