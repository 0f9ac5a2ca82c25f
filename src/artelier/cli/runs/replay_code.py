"""The code that a replay runs: the built-in loop that a run names, or a function that the person names."""

from __future__ import annotations

from typing import Any

from artelier.agents.loop_registry import replay_run
from artelier.errors import InvalidRequest
from artelier.kernel import Drive, Run, run_row
from artelier.kernel.queries.content import blob_json


def drive_with(code: str | None) -> Drive:
    """The drive of a replay. Errors: those of loading `code`."""
    if code is None:
        return _built_in
    from artelier.cli.work.run import load

    function = load(code)[1]

    async def drive(run: Run) -> None:
        result = await function(run)
        if result is not None:
            run.finish(result)

    return drive


async def _built_in(run: Run) -> Any:
    """Drive a run of the built-in loop. Errors: `InvalidRequest` for a run of somebody's own code."""
    services = run.core.services
    row = await run_row(services.store, run.tenant_id, run.id)
    if not row.loop:
        named = row.agent or "FILE:FUNCTION"
        raise InvalidRequest(f"run {run.id} is driven by code of its own", hint=f"Name it: --code {named}")
    return await replay_run(run, await blob_json(services, run.tenant_id, row.settings))
