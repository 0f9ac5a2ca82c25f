"""Carrying an agent: all that it is in one verifiable file, and from there into another store.

The file is an export of runs (`kernel/export/transfer.py`) that also holds the artifacts of the agent's
memory, its card and the definitions of its skills. There its runs are records; its memory is alive and its
skills are parked. See docs/decisions/0007-exports.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec

from artelier.agents.card import card_id, card_of, memory_artifacts, skills_id, write_card
from artelier.agents.export_validator import Baggage
from artelier.artifacts import ArtifactWritten, artifact_stream
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.ids import MAIN_SPACE
from artelier.kernel import Services
from artelier.kernel.export.archive import FORMAT, SIZE_BYTES_MAX, VERSION, Header
from artelier.kernel.export.transfer import KeyStore, StorePart, import_file, write_file
from artelier.kernel.export.writer import streams_of
from artelier.kernel.queries.tenants import kin_run, kin_runs
from artelier.log import Store, Stream
from artelier.memory.memory_handle import check_agent
from artelier.memory.queries import kin_entries, kin_memory
from artelier.memory.sqlite import keep_beside

RUNS_MAX = 10_000
"""Of one file: an import holds all their events in memory (guess: 1 GB)."""


class KeepsMemory(Protocol):
    """A memory store over a log: `LogMemoryStore`, `SQLiteMemoryStore`."""

    @property
    def store(self) -> Store: ...


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an agent's file."""

    agent_id: str
    card: str
    """Ref of the artifact that says what the agent is."""
    runs: tuple[str, ...]
    """Its own, their children, the origins of their forks."""
    entries: int
    """Living ones in long-term memory, sub-agents included."""
    skills: tuple[str, ...] = ()
    """Of an import: those that wait for a person's approval."""
    events: int
    blobs: int
    sha256: str
    """Of the file without its seal."""


async def export_agent(
    services: Services,
    tenant: str,
    agent: str,
    path: str | Path,
    *,
    memory: KeepsMemory | None = None,
    without_memory: bool = False,
    by: str = "operator",
) -> Carried:
    """Write the file, whole or not at all. Errors: see `AgentsHandle.export_agent`."""
    check_agent(agent)
    keep_beside(services, memory)
    store = services.store if memory is None else memory.store
    await _check_known(services, tenant, agent, store)
    card = await card_of(services, tenant, agent, memory=None if without_memory else store)
    if card.memory_file and not card.content["memory"] and memory is None and not without_memory:
        raise InvalidRequest(
            f"agent {agent} keeps its memory in another file",
            got=card.memory_file[:300],
            hint="Take it along: --memory-db FILE, memory=store; or leave it: --without-memory.",
        )
    ref = await write_card(services, tenant, card, by=by)
    position, root = await services.store.root()
    kept = [card_id(agent), *([skills_id(agent)] if card.skills else [])]
    streams = await streams_of(
        services, tenant, await _runs(services, tenant, agent, position), position=position
    )
    streams.update((_stream(tenant, id_), position) for id_ in kept)
    parts = [StorePart(services, streams)]
    if not without_memory:
        await _add_memory(parts, tenant, agent, store)
    header = Header(
        format=FORMAT,
        version=VERSION,
        tenant=tenant,
        run="",
        agent=agent,
        code=services.code_version,
        position=position,
        head=root.hex(),
    )
    done = await write_file(path, header, parts, belongings=Baggage(agent))
    entries = 0 if without_memory else await kin_entries(store, tenant, agent)
    return Carried(
        agent_id=agent,
        card=ref,
        runs=done.runs,
        entries=entries,
        events=done.events,
        blobs=done.blobs,
        sha256=done.sha256,
    )


async def import_agent(
    services: Services,
    keys: KeyStore,
    tenant: str,
    path: str | Path,
    *,
    size_max_bytes: int = SIZE_BYTES_MAX,
    by: str = "operator",
) -> Carried:
    """Check the whole file, then append all of it as one batch. Errors: see `AgentsHandle.import_agent`."""
    found = await import_file(
        services,
        keys,
        tenant,
        path,
        size_max_bytes=size_max_bytes,
        by=by,
        belongings=lambda header: Baggage(header.agent),
    )
    agent, baggage = found.header.agent, found.belongings
    assert isinstance(baggage, Baggage)
    here = f"artifact:{card_id(agent)}"
    version = sum(local == here and draft.kind == ArtifactWritten.KIND for local, draft in found.drafts)
    return Carried(
        agent_id=agent,
        card=f"{card_id(agent)}@{version}",
        runs=tuple(sorted(found.runs)),
        entries=await kin_entries(services.store, tenant, agent),
        skills=baggage.parked,
        events=len(found.drafts),
        blobs=found.blobs,
        sha256=found.sha256,
    )


def _stream(tenant: str, id_: str) -> Stream:
    return artifact_stream(tenant, MAIN_SPACE, id_)


async def _check_known(services: Services, tenant: str, agent: str, memory: Store) -> None:
    """Errors: `NotFound` for an agent of which there is neither run nor memory."""
    if await kin_run(services.store, tenant, agent) or await kin_memory(memory, tenant, agent):
        return
    raise NotFound(
        f"no agent {agent!r:.80} in tenant {tenant}",
        hint="`artelier agents list` names those that have runs or a memory.",
    )


async def _runs(services: Services, tenant: str, agent: str, position: int) -> Sequence[str]:
    """Return the runs that had begun at a position, without those that were erased.

    Errors: `InvalidRequest` for more than one file takes.
    """
    found = await kin_runs(services.store, tenant, agent, upto=position)
    if len(found) > RUNS_MAX:
        raise InvalidRequest(
            f"agent {agent} has more runs than one file takes",
            expected=f"at most {RUNS_MAX}",
            hint="Export the runs that matter one by one.",
        )
    return found


async def _add_memory(parts: list[StorePart], tenant: str, agent: str, store: Store) -> None:
    """Memory in the kernel's own log is read with the runs; another store's follows them.

    No event of a memory needs one of a run before it, so the order between the stores does not matter.
    Errors: `Conflict` if both stores have an artifact of one name.
    """
    services, streams = parts[0]
    if store is not services.store:
        services, streams = replace(services, store=store), {}
        parts.append(StorePart(services, streams))
    position, _root = await store.root()
    for id_ in await memory_artifacts(store, tenant, agent, position=position):
        stream = _stream(tenant, id_)
        if streams is not parts[0].streams and stream in parts[0].streams:
            raise Conflict(
                f"artifact {id_} is in both stores, and one file can hold one of them",
                hint="Leave the memory out with --without-memory.",
            )
        streams[stream] = position
