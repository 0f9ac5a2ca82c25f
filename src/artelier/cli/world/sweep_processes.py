"""A process of `artelier world sweep`: it opens the store of each run as a command does.

    python -m artelier.cli.world.sweep_processes

`artelier.world.figures.sweep_processes` says what it reads and answers.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from artelier.cli import exit_codes
from artelier.cli.call import CliCall
from artelier.cli.exit_codes import DEBUG
from artelier.errors import ArtelierError, Conflict, Flow, NotFound, RunSuspended
from artelier.money import format_usd, parse_usd
from artelier.world.figures.sweep_processes import DATABASE, JobEnd, OpenStore, SweepJob, serve_jobs

if TYPE_CHECKING:
    from artelier import Kernel

MODULE = "artelier.cli.world.sweep_processes"
"""This one, as Python starts it."""

MESSAGE_CHARS_MAX = 1_000


def main() -> None:
    """Answer jobs until there is no more input."""
    serve_jobs(_open_store, _failed_end)


@contextlib.asynccontextmanager
async def _open_store(job: SweepJob, database: Path) -> AsyncGenerator[OpenStore]:
    from artelier.cli.world.creation import policies_of

    call = _call_of(database, job.options["tenant"], job.options["config"])
    policies = job.options["policies"]
    async with call.kernel(create=True) as kernel:
        tenant = kernel.for_tenant(call.tenant)
        await tenant.state()
        yield OpenStore(
            host=tenant,
            policies=lambda: policies_of(None if policies is None else Path(policies)),
            committed=partial(_committed_of, kernel, call.tenant),
            allot=partial(_allot, kernel, call.tenant),
        )


def options_of(call: CliCall, policies: Path | None) -> dict[str, str | None]:
    """Return what a process is told of the command."""
    path = None if policies is None else str(policies)
    return {"tenant": call.tenant, "config": call.config, "policies": path}


def _call_of(database: Path, tenant: str | None, config: str | None) -> CliCall:
    return CliCall(db=str(database), tenant=tenant, config=config, as_json=True)


def _failed_end(job: SweepJob, error: Exception, committed: int) -> JobEnd:
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    if isinstance(error, Flow):
        database = Path(job.folder, job.planned.id, DATABASE)
        hint = f"See: artelier runs list --db {database}" if isinstance(error, RunSuspended) else None
        error = Conflict(str(error), hint=hint)
    if isinstance(error, ArtelierError):
        wire = error.to_wire()
    else:
        said = f"{type(error).__name__}: {error}"[:MESSAGE_CHARS_MAX]
        hint = f"If a rule agent raised it, mend it; else set {DEBUG}=1 to see where it comes from."
        wire = {"code": "unexpected", "message": said, "hint": hint}
    return JobEnd(ended="failed", committed=committed, error=wire, code=exit_codes.of_error(error))


async def committed_before(database: Path, *, tenant: str, config: str | None) -> int:
    """Return what an unfinished run has spent or holds."""
    call = _call_of(database, tenant, config)
    async with call.kernel() as kernel:
        return await _committed_of(kernel, call.tenant)


async def _allot(kernel: Kernel, tenant: str, allotted: int | None) -> None:
    if allotted is None:
        if (await kernel.tenants.show(tenant))["budget_usd"] is not None:
            await kernel.tenants.update(tenant, unlimited=True)
        return
    budget = await _committed_of(kernel, tenant) + allotted
    await kernel.tenants.update(tenant, budget_usd=format_usd(budget))


async def _committed_of(kernel: Kernel, tenant: str) -> int:
    try:
        shown = await kernel.tenants.show(tenant)
    except NotFound:
        return 0
    return parse_usd(shown["spent_usd"]) + parse_usd(shown["held_usd"])


if __name__ == "__main__":
    main()
