"""The requirements of a chat turn on the process that drives it: the tools of its operations."""

from __future__ import annotations

from typing import Any

from artelier.chat.turn.turn_config import TurnJob
from artelier.errors import ArtelierError, InvalidRequest, NotFound
from artelier.kernel import run_row
from artelier.kernel.queries.content import blob_json


async def tools_missing(desk: Any, run_id: str) -> tuple[str, ...]:
    """Tools that a turn has seen, will still call, and that this process does not have, by name.

    Driven here, their operations would fail for good: a person's approval would be spent on nothing.
    Empty for a run that never began, since it has seen no tools.
    """
    services, tenant = desk.services, desk.id
    try:
        row = await run_row(services.store, tenant, run_id)
    except NotFound:
        return ()
    listed: list[dict[str, Any]] = await blob_json(services, tenant, row.tools) or []
    gone = {str(item["name"]) for item in listed} - set(services.tools)
    job = TurnJob.from_stored(await blob_json(services, tenant, row.settings))
    if not gone or not job.profile:
        return ()
    ahead = await _to_call(desk, run_id, job)
    return tuple(sorted(gone if ahead is None else gone & ahead))


async def check_tools(desk: Any, run_id: str) -> None:
    """Errors: `InvalidRequest` if the turn needs tools that only its own program has."""
    if missing := await tools_missing(desk, run_id):
        raise InvalidRequest(
            f"the tools of run {run_id!r} come from code that is not loaded here",
            got=", ".join(missing)[:300],
            hint="Go on with the chat in the program that has them: session.resume().",
        )


async def _to_call(desk: Any, run_id: str, job: TurnJob) -> set[str] | None:
    """Tools of operations that have not ended; of a run without a plan, of all that are enabled.

    None if the profile cannot be read.
    """
    from artelier.chat.session.run_report import show_run
    from artelier.operations.profile.profile_reader import load_profile

    shown = await show_run(desk, run_id)
    ended = {(one["operation_id"], one["hook"]) for one in shown["operations"] if one["status"] != "running"}
    ahead = {
        one["operation_id"]
        for one in shown["plan"]
        if not one.get("skipped") and (one["operation_id"], one["hook"]) not in ended
    }
    try:
        profile, _ = await load_profile(desk, job.profile, by=job.principal)
    except ArtelierError:
        return None
    return {
        one.params.name
        for one in profile.operations
        if one.kind == "tool" and one.enabled and (one.operation_id in ahead or not shown["plan"])
    }
