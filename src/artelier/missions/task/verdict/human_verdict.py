"""Judging of outputs by people: an event with their name, which stands above any evaluator's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from artelier.artifacts.events import artifact_stream
from artelier.errors import Conflict, Erased, InvalidRequest, NotFound
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.kernel.privacy.erasure import writing_key
from artelier.kernel.prompt.manifest import encode_json
from artelier.kernel.run.results import FINAL
from artelier.kernel.tenants.scope import TenantScope
from artelier.log import Batch, Blob, Draft, StreamAppend, Tx, prepared_blob
from artelier.missions import events as ev
from artelier.missions.queries import TaskStanding, judgements_of, runs_of_task, standing_of
from artelier.missions.task.verdict.output_lint import OutputFault
from artelier.missions.view import REJECTED

NOTE_CHARS_MAX = 20_000
FOUND_CHARS_MAX = 400
"""Of a note, in the verdict on a copy of what it is about."""

_MACHINES = ("agent:", "model:", "run:", "system:", "tool:")


async def judge_output(
    desk: TenantScope, task: str, *, accepted: bool, output: str | None, note: str, by: str
) -> None:
    """Record that a person accepts or rejects an output of a task; None means its newest.

    Errors: `NotFound` for a task or an output that is not there; `Conflict` while somebody works on the task
    or its mission, for a cancelled task, and for one that has made nothing; `InvalidRequest` for a verdict
    that is no bool, and for a name that is no person's.
    """
    _check_verdict(accepted, by)
    standing = await standing_of(desk, task)
    ref = _choose_output(standing, output)
    event, blobs = ev.OutputJudged(task=task, ref=ref, accepted=accepted), list[Blob]()
    if note.strip():
        state = await desk.state()
        key = None
        if standing.mission:
            key = await writing_key(desk.services.store, desk.id, standing.mission)
        kept, blob = await prepared_blob(
            desk.id, key or state.key, encode_json(note.strip()[:NOTE_CHARS_MAX])
        )
        event, blobs = ev.OutputJudged(task=task, ref=ref, accepted=accepted, note=kept), [blob]
    draft = Draft(event, desk.services.clock.now_us(), by)
    append = StreamAppend(artifact_stream(desk.id, MAIN_SPACE, task), [draft])
    guard = _may_be_judged(desk.id, standing)
    await desk.services.store.append(Batch(appends=[append], blobs=blobs, guard=guard))


def _check_verdict(accepted: object, by: object) -> None:
    if not isinstance(accepted, bool):
        raise InvalidRequest(
            "accepted is neither yes nor no", expected="True or False", got=repr(accepted)[:80]
        )
    name = by.strip().lower() if isinstance(by, str) else ""
    if not name or name == "system" or name.startswith(_MACHINES):
        raise InvalidRequest(
            "an output is judged by a person",
            got=repr(by)[:80],
            expected='their name, such as "user:ana" or "operator"',
        )


def _choose_output(standing: TaskStanding, output: str | None) -> str:
    """The ref of the output that is judged. Errors: `NotFound`; `Conflict` for a task without any."""
    if not standing.outputs:
        raise Conflict(
            f"task {standing.task!r} has made no output to be judged",
            got=standing.status,
            hint="Bring what it lacks and retry it, or cancel it.",
        )
    if output is None:
        return standing.outputs[-1]
    for ref in standing.outputs:
        if output in (ref, ref.partition("@")[0]):
            return ref
    raise NotFound(
        f"task {standing.task!r} has no output {output[:200]!r}", expected=", ".join(standing.outputs)[:400]
    )


def _may_be_judged(tenant: str, standing: TaskStanding) -> Any:
    """Refuses the batch if the task is being worked on by now."""

    def guard(tx: Tx) -> None:
        status, mission = runs_of_task(tx, tenant, standing.task)
        if status == "cancelled":
            raise Conflict(f"task {standing.task!r} is cancelled", got=status)
        if status == "budget_exhausted":
            raise Conflict(
                f"task {standing.task!r} has not ended: its budget is used up",
                got=status,
                hint="Raise the limit and retry the task, or cancel it.",
            )
        if status not in FINAL:
            raise Conflict(
                f"somebody works on task {standing.task!r}",
                got=status or "pending",
                hint="Judge its output when it has ended.",
            )
        if mission is not None and mission not in FINAL:
            raise Conflict(
                f"mission {standing.mission!r} is at work and goes on by its own verdicts",
                got=mission,
                hint="Judge the outputs of its tasks when it has ended.",
            )

    return guard


async def rejected_in(desk: TenantScope, tasks: Sequence[str], refs: Sequence[str]) -> list[OutputFault]:
    """Return a fault for each output whose content equals what a person has rejected and not accepted since.

    `tasks` are a task and, of a fork, the task that it was forked from; `refs` are its outputs.
    """
    known = await judgements_of(desk, list(dict.fromkeys(tasks)))
    said = sorted((one for found in known.values() for one in found), key=_moment)
    if all(one["accepted"] for one in said):
        return []
    contents: dict[str, Any] = {}
    for ref in (*refs, *(one["output"] for one in said)):
        if ref not in contents:
            contents[ref] = await _content(desk, ref)
    faults: list[OutputFault] = []
    for ref in refs:
        equal = [one for one in said if contents[ref] and contents[one["output"]] == contents[ref]]
        if equal and not equal[-1]["accepted"]:
            last = equal[-1]
            id_, _, version = last["output"].rpartition("@")
            other = "" if ref.startswith(f"{id_}@") else f" of {id_}"
            note = last["note"][:FOUND_CHARS_MAX]
            words = f"equal to version {version}{other}, which {last['by']} rejected"
            faults.append(OutputFault(rule=REJECTED, ref=ref, found=(f"{words}: {note}" if note else words,)))
    return faults


def _moment(judged: dict[str, Any]) -> int:
    return judged["at_us"]


async def _content(desk: TenantScope, ref: str) -> Any:
    """Return what a version holds, without blanks around it; None if it cannot be read any more."""
    try:
        content = (await desk.as_principal(OPERATOR).artifacts.read(ref)).content
    except (NotFound, Erased):
        return None
    return content.strip() if isinstance(content, str) else content
