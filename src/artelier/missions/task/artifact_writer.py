"""Writing an artifact: a second model step gives its content, a version in the batch of the receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from artelier.artifacts import Provenance
from artelier.artifacts.queries import SOURCES_MAX, find_kind
from artelier.errors import AccessDenied, InvalidArtifact, LimitReached, NotFound, ToolFailed
from artelier.ids import MAIN_SPACE
from artelier.kernel import ModelResult, Run, RunCore
from artelier.kernel.tenants.registry import TenantScope
from artelier.missions.definition import slug_of
from artelier.missions.membranes.membranes import Membranes
from artelier.missions.task.actions import InvalidDecision, json_of
from artelier.missions.task.loop_state import TaskOutput
from artelier.missions.task.task_config import TaskJob
from artelier.ports.model import ModelReply

NAMES_MAX = 100
"""Ids tried for an output whose name is somebody else's."""

FOLDER_CHARS_MAX = 76
"""Of what an output's id begins with: ids have 128 characters, slugs 40."""

KINDS = {"markdown": "report", "json": "document", "text": "document"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenContent:
    """Content that a model gave, and that fits."""

    text: str
    value: Any
    """What the artifact holds: the text, or JSON data."""
    result: ModelResult


def reader(media: str, *, bytes_max: int) -> Any:
    """`read(reply)` for `decision.ask`: the reply if it can be the content. Errors: `Mistake`."""

    def read(reply: ModelReply) -> ModelReply:
        if media == "json":
            json_of(reply, chars_max=bytes_max)
        elif reply.tool_calls:
            raise InvalidDecision("it calls a tool; the content is text")
        return reply

    return read


def check_content(result: ModelResult, media: str, *, bytes_max: int) -> WrittenContent:
    """Return what a reply becomes. Errors: `ToolFailed` and others that say why nothing is written."""
    text = result.text
    if not any(char.isprintable() and not char.isspace() for char in text):
        raise ToolFailed("the content is empty", expected="the whole artifact")
    if result.finish_reason == "length":
        raise LimitReached(
            "the content was cut at the limit of its tokens",
            expected=f"at most {bytes_max} bytes",
            hint="Write less.",
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArtifact("the content is no valid text", expected="UTF-8") from None
    if size > bytes_max:
        raise LimitReached(
            "the content is larger than steering allows",
            expected=f"at most {bytes_max} bytes",
            got=size,
            hint="Write less.",
        )
    value = msgspec.json.decode(text.encode()) if media == "json" else text
    return WrittenContent(text=text, value=value, result=result)


def folder_of(run: Run, job: TaskJob, *, is_fork: bool) -> str:
    """Return what ids of outputs begin with: a fork's never become versions of its origin's."""
    fork, folder = run.core.effects, job.mission or job.task
    if fork is not None and fork.folder:
        folder = fork.folder if folder == fork.run_id else fork.own_id(folder)
    elif is_fork:
        folder = run.id
    if len(folder) <= FOLDER_CHARS_MAX:
        return folder
    from hashlib import sha256

    return f"{folder[: FOLDER_CHARS_MAX - 17]}.{sha256(folder.encode()).hexdigest()[:16]}"


def place_of(outputs: Sequence[TaskOutput], title: str, folder: str) -> tuple[str, TaskOutput | None]:
    """`(slug, what the task has made under it)`, as far as it lies in the folder of this run."""
    slug = slug_of(title, fallback="output")
    own = next((one for one in outputs if one.slug == slug), None)
    return slug, own if own is not None and own.id.startswith(f"{folder}/") else None


async def plan_write(
    run: Run,
    desk: TenantScope,
    job: TaskJob,
    written: WrittenContent,
    *,
    slug: str,
    title: str,
    media: str,
    folder: str,
    own: TaskOutput | None,
    sources: Sequence[str],
) -> str:
    """Note the version, to be written in the batch of the next receipt; its ref.

    Errors: those of `Artifacts.plan_write`; `LimitReached` if every name is taken.
    """
    core = run.core
    artifacts = desk.as_principal(job.agent).artifacts
    access = await Membranes(desk).access_for(job.agent)
    wish: dict[str, Any] = {
        "content": written.value,
        "access": access,
        "metadata": {"title": title, "media": media},
        "provenance": Provenance(
            run_id=run.id, step=written.result.key, derived_from=tuple(sources)[:SOURCES_MAX]
        ),
    }
    id_ = own.id if own is not None else await _free(run, f"{folder}/{slug}")
    kind = KINDS[media] if own is None else None
    try:
        append, blobs, artifact = await artifacts.plan_write(id_, kind=kind, **wish)
    except (AccessDenied, NotFound):  # given away or deleted meanwhile: go on beside it
        id_ = await _free(run, f"{folder}/{slug}")
        append, blobs, artifact = await artifacts.plan_write(id_, kind=KINDS[media], **wish)
    core.writer.note_aside(append, blobs)
    return f"{artifact.id}@{artifact.version}"


async def _free(run: Run, wanted: str) -> str:
    """An id that nothing has or had, and that no other task of this process is about to take."""
    core = run.core
    for number in range(1, NAMES_MAX + 1):
        name = wanted if number == 1 else f"{wanted}-{number}"
        claim = (core.tenant.id, name)
        others = (
            names
            for other, names in _claimed.items()
            if other.store is core.store and other.run_id != core.run_id
        )
        if any(claim in names for names in others):
            continue
        # Claimed before we look: whoever looks meanwhile goes past it.
        _claimed.setdefault(core, set()).add(claim)
        if await find_kind(core.store, core.tenant.id, MAIN_SPACE, name) is None:
            return name
    raise LimitReached("every name for this output is taken", got=wanted)


_claimed: WeakKeyDictionary[RunCore, set[tuple[str, str]]] = WeakKeyDictionary()
"""Ids that runs at work have taken, which the store may not show yet."""
