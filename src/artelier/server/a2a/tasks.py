"""Tasks of A2A as the log has them: a task is a run of the agent `a2a`, a context is a conversation of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec
from a2a import types as a2a
from a2a.utils import errors as fault

from artelier.app import TenantKernel
from artelier.errors import NotFound
from artelier.kernel.queries.content import MEDIA_BYTES_MAX, ShownMedium, media_of_request, media_of_tools
from artelier.kernel.queries.reports import RunDetail
from artelier.kernel.queries.run_pages import Place, runs_by_status_time
from artelier.kernel.run.status import RunStatus
from artelier.server.deps import artifacts_of
from artelier.server.security.held_bodies import no_room

AGENT = "a2a"
PREFIX = "a2a."
REPLY = "reply"
"""Id of the artifact that holds what a task came to."""
RESULT = "result"
"""Id of the artifact that holds it as data."""
PAGE_MAX = 100
PAGE_DEFAULT = 50

_TASK = re.compile(r"a2a\.[A-Za-z0-9._:-]{1,100}/[0-9]{6}")
_TOKEN = re.compile(r"([0-9]{1,17})-([0-9]{1,17})")
"""Of a page: the place of its last task."""

STATES: dict[RunStatus, int] = {
    RunStatus.PENDING: a2a.TaskState.TASK_STATE_SUBMITTED,
    RunStatus.RUNNING: a2a.TaskState.TASK_STATE_WORKING,
    RunStatus.WAITING: a2a.TaskState.TASK_STATE_WORKING,
    RunStatus.PAUSED: a2a.TaskState.TASK_STATE_INPUT_REQUIRED,
    RunStatus.WAITING_APPROVAL: a2a.TaskState.TASK_STATE_INPUT_REQUIRED,
    RunStatus.UNKNOWN_OUTCOME: a2a.TaskState.TASK_STATE_INPUT_REQUIRED,
    RunStatus.BUDGET_EXHAUSTED: a2a.TaskState.TASK_STATE_INPUT_REQUIRED,
    RunStatus.COMPLETED: a2a.TaskState.TASK_STATE_COMPLETED,
    RunStatus.FAILED: a2a.TaskState.TASK_STATE_FAILED,
    RunStatus.CANCELLED: a2a.TaskState.TASK_STATE_CANCELED,
}
"""The state of a task, by the status of its run. `INPUT_REQUIRED`: nothing goes on until somebody acts."""

ENDS = frozenset(STATES[one] for one in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED))
"""States that a task does not leave."""


def context_of(task_id: str) -> str:
    """Return the context of a task."""
    return task_id.rpartition("/")[0].removeprefix(PREFIX)


def task_name(task_id: str) -> str:
    """Return the run that a task is. Errors: `NotFound` for what names none."""
    if not _TASK.fullmatch(task_id):
        raise NotFound("there is no such task", expected="an id as SendMessage gave it")
    return task_id


async def find_task(desk: TenantKernel, task_id: str) -> RunDetail:
    """Return the run of a task. Errors: `NotFound`, also for a run that is none, or another tenant's."""
    name = task_name(task_id)
    try:
        found = await desk.show(name)
    except NotFound:
        raise NotFound("there is no such task", hint="ListTasks lists yours.") from None
    if found["agent"] != AGENT:
        raise NotFound("there is no such task", hint="ListTasks lists yours.")
    return found


def history_of(asked: a2a.SendMessageConfiguration | a2a.GetTaskRequest | a2a.ListTasksRequest) -> int | None:
    """Return how many messages a request wants; None for all. Errors: `InvalidParamsError`."""
    if asked.history_length < 0:
        raise fault.InvalidParamsError(f"historyLength: expected 0 or more, got {asked.history_length}")
    return asked.history_length if asked.HasField("history_length") else None


def task_of(
    run: RunDetail,
    *,
    history: int | None = None,
    has_artifacts: bool = True,
    media: Sequence[ShownMedium] = (),
    attached: Sequence[ShownMedium] = (),
) -> a2a.Task:
    """Return a run as a task. `history`: messages that are wanted, None for all. `media`: what its tools have
    shown. `attached`: what its message has.
    """
    id = run["id"]
    task = a2a.Task(
        id=id,
        context_id=context_of(id),
        status=status_of(run),
        artifacts=[*_outcome_of(run), *map(media_artifact, media)] if has_artifacts else [],
    )
    words = run["goal"]
    if history != 0 and isinstance(words, str) and words:
        task.history.append(
            a2a.Message(
                message_id=f"{id}#asked",
                context_id=task.context_id,
                task_id=id,
                role=a2a.Role.ROLE_USER,
                parts=[a2a.Part(text=words), *map(_file_part, attached)],
            )
        )
    task.metadata.update(
        {
            "artelier": {
                "status": run["status"],
                "reason": run["reason"],
                "cost_microusd": run["total_cost_microusd"],
                "questions": [{"step": one["step"], "question": one["question"]} for one in run["approvals"]],
            }
        }
    )
    return task


def status_of(run: RunDetail) -> a2a.TaskStatus:
    """Return the state of a task, with words where somebody has to know why."""
    status = RunStatus(run["status"])
    found = a2a.TaskStatus(state=a2a.TaskState.Name(STATES[status]))
    found.timestamp.FromMicroseconds(run["status_us"])
    if words := _words(run, status):
        found.message.CopyFrom(
            a2a.Message(
                message_id=f"{run['id']}#{status.value}",
                context_id=context_of(run["id"]),
                task_id=run["id"],
                role=a2a.Role.ROLE_AGENT,
                parts=[a2a.Part(text=words)],
            )
        )
    return found


def _words(run: RunDetail, status: RunStatus) -> str:
    if status is RunStatus.FAILED:
        said = run["message"]
        return said if isinstance(said, str) and said else run["reason"]
    if STATES[status] != a2a.TaskState.TASK_STATE_INPUT_REQUIRED:
        return ""
    asked = [str(one["question"]) for one in run["approvals"]]
    return "\n".join(asked) or f"The run is {status.value.replace('_', ' ')}: somebody has to act."


def _outcome_of(run: RunDetail) -> list[a2a.Artifact]:
    """Return what a task came to: its last words, and its data if it has some."""
    found: list[a2a.Artifact] = []
    if text := text_of(run):
        found.append(reply_artifact(text))
    output = _result_of(run).get("output")
    if output is not None and not isinstance(output, str):
        part = a2a.Part(text=msgspec.json.encode(output).decode(), media_type="application/json")
        found.append(a2a.Artifact(artifact_id=RESULT, name="Result", parts=[part]))
    return found


def reply_artifact(text: str) -> a2a.Artifact:
    """Return the last words of a task, or a piece of them."""
    return a2a.Artifact(artifact_id=REPLY, name="Reply", parts=[a2a.Part(text=text, media_type="text/plain")])


def media_artifact(medium: ShownMedium) -> a2a.Artifact:
    """Return what a tool has shown, as a file; where it is too large or not wanted, words about it."""
    part = _file_part(medium)
    name = medium.ref.partition("@")[0].rpartition("/")[2]
    if part.raw:
        part.filename = name
    artifact = a2a.Artifact(artifact_id=medium.ref, name=name, parts=[part])
    artifact.metadata.update({"artelier": msgspec.to_builtins(medium.facts)})
    return artifact


def _file_part(medium: ShownMedium) -> a2a.Part:
    if medium.content is None:
        said = f"({medium.media_type}, {medium.size_bytes:,} bytes: left out)"
        return a2a.Part(text=said, media_type="text/plain")
    return a2a.Part(raw=medium.content, media_type=medium.media_type)


def text_of(run: RunDetail) -> str:
    """Return the last words of a run that has ended with some."""
    return str(_result_of(run).get("text") or "")


def _result_of(run: RunDetail) -> dict[str, Any]:
    """Return what a run has come to; empty before its end, and where it was erased."""
    result: Any = run["result"]
    return cast("dict[str, Any]", result) if isinstance(result, dict) else {}


def _is_taken(media_type: str, modes: Sequence[str]) -> bool:
    kind = media_type.partition("/")[0]
    return not modes or any(one in (media_type, f"{kind}/*", "*/*") for one in modes)


@dataclass(slots=True)
class MediaRoom:
    """The bytes that one answer has left for media."""

    left: int = MEDIA_BYTES_MAX

    def take(self, media: list[ShownMedium]) -> list[ShownMedium]:
        self.left -= sum(len(one.content or b"") for one in media)
        return media


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReader:
    """One tenant's tasks, as answers show them: through whichever method, a task looks the same."""

    desk: TenantKernel
    by: str

    async def show(
        self,
        run: RunDetail,
        *,
        history: int | None = None,
        modes: Sequence[str] = (),
        has_artifacts: bool = True,
        room: MediaRoom | None = None,
    ) -> a2a.Task:
        """Return a run as a task, with what its tools have shown and its message has, while there is room.

        `modes`: kinds of output that the client takes; none for all.
        """
        room = room or MediaRoom()
        media = room.take(await self._media(run["id"], modes, room)) if has_artifacts else []
        attached: list[ShownMedium] = []
        if history != 0:
            services = self.desk.services
            attached = await media_of_request(services, self.desk.id, run["id"], bytes_max=room.left)
        return task_of(
            run, history=history, has_artifacts=has_artifacts, media=media, attached=room.take(attached)
        )

    async def new_media(
        self, run_id: str, known: Collection[str], modes: Sequence[str] = ()
    ) -> list[a2a.Artifact]:
        """Return what the tools of a task have shown beside the artifacts that a client has already."""
        media = await self._media(run_id, modes, MediaRoom())
        return [media_artifact(one) for one in media if one.ref not in known]

    async def _media(self, run_id: str, modes: Sequence[str], room: MediaRoom) -> list[ShownMedium]:
        """Return what the tools of a task have shown; without content what its client does not take."""
        # In a stream that goes on they would keep their room; `room` bounds what is read of them.
        space = artifacts_of(self.desk, self.by, room=no_room)
        services, tenant = self.desk.services, self.desk.id
        found = await media_of_tools(services, tenant, run_id, space, bytes_max=room.left)
        return [one if _is_taken(one.media_type, modes) else replace(one, content=None) for one in found]

    async def page(self, asked: a2a.ListTasksRequest) -> a2a.ListTasksResponse:
        """Return a page of tasks, those first whose status changed last. Errors: `InvalidParamsError`."""
        size = asked.page_size if asked.HasField("page_size") else PAGE_DEFAULT
        if not 1 <= size <= PAGE_MAX:
            raise fault.InvalidParamsError(f"pageSize: expected 1 to {PAGE_MAX}, got {size}")
        token = _TOKEN.fullmatch(asked.page_token)
        if asked.page_token and token is None:
            raise fault.InvalidParamsError("pageToken: expected one as ListTasks gave it")
        since_us = None
        if asked.HasField("status_timestamp_after"):  # in the protocol's words: that time or a later one
            since_us = -(-asked.status_timestamp_after.ToNanoseconds() // 1000)
        history = history_of(asked) or 0
        wanted = [status.value for status, state in STATES.items() if asked.status in (0, state)]
        if not wanted:  # a state that no task of this server has
            return a2a.ListTasksResponse(page_size=size, total_size=0)
        page = await runs_by_status_time(
            self.desk.services.store,
            self.desk.id,
            agent=AGENT,
            prefix=PREFIX,
            conversation=f"{PREFIX}{asked.context_id}" if asked.context_id else None,
            statuses=wanted,
            since_us=since_us,
            behind=Place(*map(int, token.groups())) if token else None,
            limit=size,
        )
        room = MediaRoom()  # of the whole page: the first come first
        tasks = [
            await self.show(
                await self.desk.show(row.run),
                history=history,
                has_artifacts=asked.include_artifacts,
                room=room,
            )
            for row in page.rows
        ]
        return a2a.ListTasksResponse(
            tasks=tasks,
            page_size=size,
            total_size=page.total,
            next_page_token="" if page.next is None else f"{page.next.status_us}-{page.next.id}",
        )
