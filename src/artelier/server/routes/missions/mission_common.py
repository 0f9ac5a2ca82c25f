"""Shared parts of the routes of missions, tasks and agents: work after the answer, ids, folders."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from artelier.errors import AccessDenied, InvalidRequest, LeaseHeld, NotFound
from artelier.ids import fresh_secret
from artelier.kernel import run_row
from artelier.missions.definition import slug_of
from artelier.server.background_tasks import LET_GO_S, Errand, Errands, Key
from artelier.server.security.identity import Identity


def key_of(kind: str, desk: Any, id: str) -> Key:
    return (kind, desk.id, id)


async def send_work(
    errands: Errands, key: Key, work: Coroutine[Any, Any, Any], desk: Any, *, run_id: str
) -> Errand:
    """Let work go on beside the answer, and wait until its run has begun.

    Errors: what the work refused before that; `Conflict` if the same is on its way, `QueueFull`.
    """
    try:
        await let_go(errands, key, desk, run_id)
    except BaseException:
        work.close()
        raise
    errand = errands.start(key, work)
    loop, came = asyncio.get_running_loop(), asyncio.Event()

    def on_commit(position: int, abroad: bool) -> None:
        with suppress(RuntimeError):  # the loop was closed in between
            loop.call_soon_threadsafe(came.set)

    errand.task.add_done_callback(lambda _: came.set())
    unlisten = desk.services.store.listen(on_commit)
    try:
        while not errand.task.done() and not await has_begun(desk, run_id):
            await came.wait()
            came.clear()
    finally:
        unlisten()
    check(errands, key, errand)
    return errand


async def let_go(errands: Errands, key: Key, desk: Any, run_id: str) -> None:
    """Wait for the errand of a run that has stopped: its status is seen a moment before its drive ends."""
    going = errands.at_work(key)
    if going is not None and await has_begun(desk, run_id):
        row = await run_row(desk.services.store, desk.id, run_id)
        if row.status not in ("pending", "running"):
            await asyncio.wait({going.task}, timeout=LET_GO_S)


def check(errands: Errands, key: Key, errand: Errand) -> None:
    """Errors: that which an errand ended with, if it has, unless somebody else does the same work."""
    if not errand.task.done():
        return
    errand.task.result()
    failure = errands.failure(key)
    if failure is not None and not isinstance(failure, LeaseHeld):
        raise failure


async def has_begun(desk: Any, run_id: str) -> bool:
    try:
        await run_row(desk.services.store, desk.id, run_id)
    except NotFound:
        return False
    return True


def new_id(id: str | None, name: str, *, mission: str | None, folder: str) -> str:
    """The id of something new: as it was asked for, or made from its name."""
    if id is not None:
        return id
    place = mission or folder
    slug = f"{slug_of(name)[:34]}-{fresh_secret(2).hex()}"
    return f"{place}/{slug}" if place else slug


async def check_mission(desk: Any, mission: str | None) -> None:
    """Errors: `NotFound` for a mission that is not there."""
    if mission is not None:
        row = await run_row(desk.services.store, desk.id, mission)
        if row.loop != "mission":
            raise NotFound(f"no mission {mission!r:.140}")


def workspace_of(asked: str | None, *, desk: Any, who: Identity) -> str:
    """Return the folder that tools may work on: the tenant's own, or what is asked for in it.

    Errors: `AccessDenied` for any other; `NotFound`; `InvalidRequest`.
    """
    workspaces = desk.services.workspaces
    if not asked:
        return workspaces.root(desk.id)
    if not asked.isprintable():
        raise InvalidRequest("that is no name of a folder", expected="printable characters")
    if not who.is_local and not workspaces.is_confined:  # not their machine
        raise AccessDenied(
            "this server gives its users no folder",
            hint="Whoever starts the server names one with --workspace TENANT=DIR.",
        )
    return workspaces.check(desk.id, asked)


def with_shown_workspace(found: dict[str, Any], *, desk: Any, who: Identity) -> dict[str, Any]:
    """Return a record with its workspace as the person may see it: only on their own machine as a path."""
    if who.is_local or not found.get("workspace"):
        return found
    return {**found, "workspace": desk.services.workspaces.display_path(desk.id, found["workspace"])}
