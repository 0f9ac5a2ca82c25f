"""The end of a run of the loop: its result, and the artifact that its text becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from artelier.agents.run_config import Job
from artelier.artifacts import Artifacts, Provenance
from artelier.artifacts.queries import ref_written_by
from artelier.errors import Conflict, InvalidRequest, NotFound, Refused
from artelier.ids import MAIN_SPACE
from artelier.kernel import AgentResult, ModelResult, Run, run_row
from artelier.kernel.privacy.erasure import ERASED, LOCKED
from artelier.kernel.queries.content import shown_json
from artelier.kernel.queries.runs import totals
from artelier.kernel.run.services import Services
from artelier.ports.model import Usage


async def finish(run: Run, job: Job, result: ModelResult) -> None:
    """Set the result; the text becomes an artifact in the same batch as the end of the run."""
    output = result.output
    if hasattr(output, "model_dump"):
        output = output.model_dump(mode="json")
    outcome: dict[str, Any] = {"text": result.text, "output": output, "artifact": ""}
    core = run.core
    if job.artifact and core.actor is not None:
        id_ = job.artifact if core.effects is None else core.effects.own_id(job.artifact)
        space = Artifacts(core.store, core.clock, core.tenant.id, MAIN_SPACE, core.actor.name)
        try:
            append, blobs, artifact = await space.plan_write(
                id_,
                kind="document",
                content=result.text,
                provenance=Provenance(run_id=run.id, step=result.key),
                key=core.key,
            )
        except (Conflict, InvalidRequest, NotFound, Refused):
            pass  # the id is somebody else's: the result stands without an artifact
        else:
            core.actor.note_aside(append, blobs)
            outcome["artifact"] = f"{artifact.id}@{artifact.version}"
    elif job.artifact:
        outcome["artifact"] = await _written_artifact(run, result.key)
    run.finish(outcome)


async def _written_artifact(run: Run, step: str) -> str:
    """Return, on replay, the artifact that the recorded run wrote at this step."""
    return await ref_written_by(run.core.store, run.tenant_id, MAIN_SPACE, run.id, step)


async def agent_result(
    services: Services, tenant: str, run_id: str, *, message: str = "", output: Any = None
) -> AgentResult:
    """Return how a run of this loop stands, from the log; `output` is the type that was asked for.

    Cost and usage are those of the run with all its children.
    Errors: `NotFound`.
    """
    row = await run_row(services.store, tenant, run_id)
    result: Any = await shown_json(services, tenant, row.result)
    failure = await shown_json(services, tenant, row.message)
    fields = cast(dict[str, Any], result) if isinstance(result, dict) else {}
    text = (
        fields.get("text")
        or (result if result in (ERASED, LOCKED) else "")
        or (failure if isinstance(failure, str) else "")
        or message
    )
    value = fields.get("output")
    sums = (await totals(services.store, tenant, [run_id]))[run_id]
    return AgentResult(
        status=row.status,
        reason=row.reason,
        output=_convert(value, output),
        text=text,
        run_id=run_id,
        cost_microusd=sums.total_cost_microusd,
        artifact=fields.get("artifact") or "",
        usage=Usage(**sums.total_usage._asdict()),
    )


def _convert(value: Any, output: Any) -> Any:
    """The recorded output as the type that the caller asked for; it was checked when it came."""
    if value is None or output is None or isinstance(output, Mapping):
        return value
    try:
        if hasattr(output, "model_validate"):
            return output.model_validate(value)
        return msgspec.convert(value, output)
    except ValueError:  # another type than the run was asked for: its data is still true
        return value
    return value
