"""Readings of the outside for a task, made with the rights of its agent as they are at that moment.

Each function gives JSON for a journaled reading; nothing here is asked on a replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from artelier.artifacts import Artifact, group_of
from artelier.context import cut
from artelier.errors import AccessDenied, ArtelierError, InvalidRequest, NotFound
from artelier.ids import MAIN_SPACE
from artelier.kernel.limits.scopes import counters_of
from artelier.missions.steering.document import Steering
from artelier.missions.steering.store import steering_at
from artelier.missions.task.task_config import TaskJob
from artelier.tokens import estimate_tokens

LISTED_MAX = 40
"""Artifacts in one prompt, the newest of all."""

SHARED_LOOKED_AT = 500
"""Artifacts of one membrane among which the newest are looked for."""

FIRST_CHARS = 160
TITLE_CHARS = 120
MEMORY_BLOCKS_MAX = 32
TOOLS_MAX = 200


async def found_inputs(desk: Any, job: TaskJob) -> tuple[list[str], str]:
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


async def outputs_of(desk: Any, task: str) -> list[str]:
    """Refs of what a task that is done has made; empty for any other."""
    rows = await desk.services.store.query(
        "SELECT outputs FROM tasks WHERE tenant = ? AND task = ? AND ended = 'done'", (desk.id, task)
    )
    return msgspec.json.decode(rows[0][0], type=list[str]) if rows else []


async def inputs_now(desk: Any, job: TaskJob, refs: Sequence[str]) -> list[dict[str, Any]]:
    """The inputs with their content, in full while they fit their share of the window, else head and tail."""
    artifacts = desk.as_principal(job.agent).artifacts
    found: list[dict[str, Any]] = []
    for ref in refs:
        try:
            artifact = await artifacts.read(ref)
        except (AccessDenied, NotFound, InvalidRequest):
            found.append({"ref": ref, "gone": True})
            continue
        text = text_of(artifact)
        found.append({**_facts(artifact, text), "text": text})
    _shorten(found, job.input_tokens_max)
    return found


def _shorten(items: list[dict[str, Any]], tokens_max: int) -> None:
    """Cut the longest first, so that all fit together and short ones stay whole."""
    texts = sorted((item for item in items if "text" in item), key=_tokens)
    left = tokens_max
    for index, item in enumerate(texts):
        share = max(16, left // (len(texts) - index))
        if _tokens(item) > share:
            item["text"] = cut(item["text"], tokens=share, where="middle")
            item["cut"] = True
        left = max(0, left - _tokens(item))


def _tokens(item: dict[str, Any]) -> int:
    return estimate_tokens(item["text"])


async def artifacts_now(desk: Any, job: TaskJob, own: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the agent's membranes share and what the task has made, newest first, with first words."""
    artifacts = desk.as_principal(job.agent).artifacts
    ids = dict.fromkeys(ref.partition("@")[0] for ref in own)
    for group in await artifacts.groups_of():
        try:
            page = await artifacts.shared(group, limit=SHARED_LOOKED_AT)
        except (AccessDenied, NotFound):
            continue
        ids.update(dict.fromkeys(one.id for one in page.items))
    newest = await _newest_first(desk, list(ids))
    found: list[dict[str, Any]] = []
    for id_ in newest[:LISTED_MAX]:
        try:
            artifact = await artifacts.read(id_, price_max=0)
        except ArtelierError:  # gone, no longer shared, or for sale
            continue
        text = text_of(artifact)
        first = " ".join(text[: 4 * FIRST_CHARS].split())[:FIRST_CHARS]
        found.append({**_facts(artifact, text), "first": first})
    return found


async def _newest_first(desk: Any, ids: Sequence[str]) -> list[str]:
    marks = ", ".join("?" * len(ids))
    rows = await desk.services.store.query(
        f"SELECT id FROM artifact_versions WHERE tenant = ? AND space = ? AND id IN ({marks})"
        " GROUP BY id ORDER BY max(written_us) DESC, id",
        (desk.id, MAIN_SPACE, *ids),
    )
    return [row[0] for row in rows]


def _facts(artifact: Artifact, text: str) -> dict[str, Any]:
    title = artifact.metadata.get("title")
    shown = title if isinstance(title, str) and title.strip() else artifact.id.rpartition("/")[2]
    return {
        "ref": f"{artifact.id}@{artifact.version}",
        "kind": artifact.kind,
        "title": " ".join(shown.split())[:TITLE_CHARS],
        "owner": artifact.owner,
        "bytes": len(text.encode("utf-8", "replace")),
    }


def text_of(artifact: Artifact) -> str:
    """An artifact as text: as it is, or its JSON."""
    content: Any = artifact.content
    if isinstance(content, str):
        return content
    if isinstance(content, bytes):
        return content.decode("utf-8", "replace")
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


async def steering_now(desk: Any, job: TaskJob) -> dict[str, Any]:
    """Steering of the agent and of its membranes: `{agent: [ref, content] | None, membranes: [...]}`.

    With `counters` where it has joined membranes since its run began that have limits: the pairs
    `[scope, unit]` in which it counts there.

    Errors: `InvalidRequest` for content that is no steering, `Conflict` for steering that was deleted:
    nobody works under rules that say nothing.
    """
    own = await _steering(desk, job.steering or f"{job.agent}/steering")
    groups = await desk.as_principal(job.agent).artifacts.groups_of()
    shared = [await _steering(desk, f"{group}/steering") for group in groups]
    found: dict[str, Any] = {"agent": own, "membranes": [one for one in shared if one is not None]}
    joined = [scope for scope in map(group_of, groups) if scope not in job.scopes]
    counters = await counters_of(desk.services, desk.id, joined)
    if counters:
        found["counters"] = [list(pair) for pair in counters]
    return found


async def _steering(desk: Any, id_: str) -> list[Any] | None:
    artifact = await steering_at(desk, id_)
    if artifact is None:
        return None
    Steering.parse(artifact.content)
    return [f"{artifact.id}@{artifact.version}", artifact.content]


async def budget_now(desk: Any, scopes: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return what is left under the caps of some scopes: `{unit, left}`, in micro-dollars; None without a
    cap.
    """
    marks = ", ".join("?" * len(scopes))
    rows = await desk.services.store.query(
        "SELECT unit, min(cap - used - reserved) FROM limits WHERE tenant = ? AND cap IS NOT NULL"
        f" AND unit IN ('usd', 'tokens', 'steps') AND scope IN ({marks}) GROUP BY unit ORDER BY unit",
        (desk.id, *scopes),
    )
    return [{"unit": unit, "left": max(0, left)} for unit, left in rows] or None


async def memory_now(desk: Any, job: TaskJob) -> list[dict[str, str]] | None:
    """Blocks of the memory that is attached to the agent: `{label, text}`; None without one."""
    if not job.memory:
        return None
    rows = await desk.services.store.query(
        "SELECT agent FROM memory_stores WHERE tenant = ? AND space = ? AND artifact = ?",
        (desk.id, MAIN_SPACE, job.memory.partition("@")[0]),
    )
    if rows:
        memory = await desk.memory.for_agent(desk.id, rows[0][0]).seen_in(job.task)
        blocks = await memory.blocks()
        return [{"label": one.label, "text": one.text} for one in blocks[:MEMORY_BLOCKS_MAX]]
    try:
        artifact = await desk.as_principal(job.agent).artifacts.read(job.memory)
    except (AccessDenied, NotFound):
        return []
    return [{"label": artifact.id, "text": text_of(artifact)}]
