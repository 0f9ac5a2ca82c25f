"""Routes of sweeps: a world passed with all combinations of parameters and seeds, and a table of that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from fastapi.responses import FileResponse

from artelier.server.background_tasks import errands_of
from artelier.server.deps import Actor, Desk, Setup, file_response
from artelier.server.routes import resource
from artelier.server.routes.worlds import File, spec_of
from artelier.server.sweeps import LIMITS, SweepFacts, Sweeps
from artelier.server.wire import worlds as wire
from artelier.server.wire.base import After, Limit, Nothing
from artelier.threads import run_in_content_thread


async def _sweeps(request: Request, desk: Desk, settings: Setup) -> Sweeps:
    return Sweeps(settings.sweeps_folder, desk, errands_of(request.app))


OfTenant = Annotated[Sweeps, Depends(_sweeps)]
"""The sweeps of the request's tenant."""

router = resource("sweeps")


def _shown(found: SweepFacts) -> wire.SweepShown:
    return wire.SweepShown.model_validate(_facts(found))


def _facts(found: SweepFacts) -> dict[str, Any]:
    names = SweepFacts.__dataclass_fields__
    return {**{name: getattr(found, name) for name in names}, "limits": LIMITS}


@router.get("", operation_id="sweeps_list")
async def list_(sweeps: OfTenant, after: After = None, limit: Limit = 100) -> wire.SweepsPage:
    """Sweeps of the tenant, the newest first, and what limits there are."""
    found = await sweeps.list_all()
    ids = [one.id for one in found]
    rest = found[ids.index(after) + 1 :] if after in ids else found if after is None else []
    following = rest[limit - 1].id if len(rest) > limit else None
    items = [_facts(one) for one in rest[:limit]]
    return wire.SweepsPage.model_validate({"items": items, "next": following, "limits": LIMITS})


@router.post("", status_code=202, operation_id="sweeps_begin")
async def begin(request: Request, sweeps: OfTenant, actor: Actor, body: wire.SweepNew) -> wire.SweepShown:
    """Pass a world once for each combination of the parameters and each seed, in processes of their own."""
    size_bytes = len(await request.body())
    world = await run_in_content_thread(size_bytes, lambda: spec_of(body))
    found = await sweeps.begin(
        world,
        body.params,
        size_bytes=size_bytes,
        seeds=body.seeds,
        ticks=body.ticks,
        processes=body.processes,
        by=actor,
    )
    return _shown(found)


@router.get("/{id}", operation_id="sweeps_show")
async def show(sweeps: OfTenant, id: str) -> wire.SweepShown:
    """A sweep, its progress, and an estimate of the time that is left."""
    return _shown(await sweeps.show(id))


@router.post("/{id}/stop", operation_id="sweeps_stop")
async def stop(sweeps: OfTenant, id: str, body: Nothing) -> wire.SweepShown:
    """End its processes; runs that are done stay, and the rest can be resumed."""
    return _shown(await sweeps.stop(id))


@router.post("/{id}/resume", status_code=202, operation_id="sweeps_resume")
async def resume(sweeps: OfTenant, actor: Actor, id: str, body: Nothing) -> wire.SweepShown:
    """Go on with the runs that are not done, after a stop, a failure or an end of the server."""
    return _shown(await sweeps.resume(id, by=actor))


@router.delete("/{id}", status_code=204, operation_id="sweeps_remove")
async def remove(sweeps: OfTenant, id: str) -> None:
    """Remove a sweep that is not at work, with its table."""
    await sweeps.remove(id)


@router.get("/{id}/table", response_model=None, operation_id="sweeps_table", responses=File)
async def table(sweeps: OfTenant, id: str, format: Literal["csv", "parquet"] = "csv") -> FileResponse:
    """A row for each run that is done: that of `artelier world sweep`, with the same columns."""

    async def write(file: Path) -> None:
        await sweeps.write(id, file)

    return await file_response(f"sweep.{format}", write)
