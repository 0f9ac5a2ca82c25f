"""The card of an agent: what it is, as an artifact, so that everything about it has a name.

It says what its newest run was started with and where its memory stands. Nothing in it depends on the store
or the time: the card of an imported agent is the one that was exported. The definitions of its skills are
beside it, in an artifact of their own.

The parts of one agent: itself, its sub-agents, and the artifacts of its memory and its card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from artelier.agents.run_config import Job
from artelier.artifacts import Artifact, Artifacts, Provenance
from artelier.artifacts.queries import ids_below, newest_version, versions_below
from artelier.artifacts.space_session import TakeRoom
from artelier.errors import (
    Conflict,
    CorruptStore,
    InvalidRequest,
    NotFound,
    SequenceConflict,
    VersionConflict,
)
from artelier.ids import MAIN_SPACE, OPERATOR
from artelier.kernel.history.fork_effects import effects_of
from artelier.kernel.history.fork_lineage import lineage
from artelier.kernel.queries.tenants import newest_outcome_like, newest_settings
from artelier.kernel.run.services import Services
from artelier.log import Batch, Store, decode_stored, stored_blob
from artelier.memory.memory_handle import short
from artelier.memory.queries import attached_blocks, changed_blocks, embedder_of, find_memory, kin_memories
from artelier.tools.skills.view import Pin, pins_of

PAGE = 1_000


def is_kin(agent: str, other: str) -> bool:
    return other == agent or other.startswith(f"{agent}/")


def card_id(agent: str) -> str:
    """Return where an agent's card is kept."""
    return f"agents/{short(agent)}"


def skills_id(agent: str) -> str:
    """Return where the definitions of its skills are kept: not below `agents/`, which is for cards."""
    return f"skillsets/{short(agent)}"


def memory_id(agent: str) -> str:
    """The artifact in whose stream its long-term memory stands."""
    return f"{memory_folder(agent)}:entries"


def memory_folder(agent: str) -> str:
    return f"memory/{short(agent)}"


async def memory_artifacts(store: Store, tenant: str, agent: str, *, position: int) -> list[str]:
    """Ids of the artifacts that hold the memories of an agent and its sub-agents, up to a position.

    A block that was attached once belongs to it as well: its history can be undone.
    """
    wanted: set[str] = set()
    for row_id, artifact, name in await kin_memories(store, tenant, agent, upto=position):
        wanted.add(artifact)
        wanted |= await _find_block_ids(store, row_id, position)
        wanted.update(await ids_below(store, tenant, MAIN_SPACE, f"{memory_folder(name)}/core/"))
    found: list[str] = []
    for id_ in sorted(wanted):
        newest = await newest_version(store, tenant, MAIN_SPACE, id_)
        found += [id_] if newest is not None and newest.position <= position else []
    return found


class _RecordedBlock(msgspec.Struct, frozen=True):
    artifact: str
    before: str | None = None


async def _find_block_ids(store: Store, row_id: int, position: int) -> set[str]:
    """Artifacts that were ever blocks of a memory."""
    found: set[str] = set()
    seq = 0
    while True:
        changes = await changed_blocks(store, row_id, after=seq, upto=position, limit=PAGE)
        blocks = [one.read(_RecordedBlock) for one in changes]
        found.update(id_ for one in blocks for id_ in (one.artifact, one.before) if id_)
        if len(changes) < PAGE:
            return found
        seq = changes[-1].seq


ATTEMPTS_MAX = 20
LOOP = "agent"
SKILLS_STEP = "c%/read/skills"
"""Keys of the steps in which the loop records which skills there are."""


class SkillOnCard(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that the agent's newest run was shown."""

    skill: str
    """As models call it."""
    hash: str
    source: str = ""
    """Empty, with all that follows, if the tenant has no such definition any more."""
    name: str = ""
    origin: str = ""
    definition: str = ""
    """Its canonical JSON, of which `hash` is the SHA-256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCard:
    """The description of an agent."""

    agent_id: str
    content: dict[str, Any]
    """Of the artifact `agents/<agent id>`."""
    skills: tuple[SkillOnCard, ...]
    memory_file: str
    """The file in which its newest run kept its memory; empty for the kernel's own log, or none."""


async def card_of(services: Services, tenant: str, agent: str, *, memory: Store | None) -> AgentCard:
    """The card of an agent as it is now. `memory`: the store of its memory, None to leave it out."""
    job, tools = await _newest_job(services, tenant, agent)
    skills = await _skills(services, tenant, agent)
    remembered = {} if memory is None else await _memory(memory, tenant, agent)
    content = {
        "agent_id": agent,
        **({"prompts": {}} if job is None else _settings_of(job)),
        "tools": tools,
        "memory": remembered,
        "longterm_memory_artifact_id": remembered.get("store"),
        "skills": [
            {"skill": one.skill, "hash": one.hash, "source": one.source, "origin": one.origin}
            for one in skills
        ],
        "skill_definitions": skills_id(agent) if skills else None,
    }
    kept: Mapping[str, Any] = {} if job is None else job.context.get("memory") or {}
    return AgentCard(agent_id=agent, content=content, skills=skills, memory_file=str(kept.get("sqlite", "")))


async def _newest_job(services: Services, tenant: str, agent: str) -> tuple[Job | None, list[str]]:
    """Return what its newest run of the built-in loop was started with, and the names of that run's tools."""
    newest = await newest_settings(services.store, tenant, agent, LOOP)
    if newest is None:
        return None, []
    settings, tools = newest
    job = Job.from_stored(await _load_as(services, tenant, settings, dict[str, Any]))
    if not isinstance(job.context, dict) or not isinstance(job.compaction, dict):
        raise CorruptStore(f"the settings of the newest run of agent {agent} are none of a loop")
    listed = [] if tools is None else await _load_as(services, tenant, tools, list[_NamedRow])
    return job, sorted({tool.name for tool in listed})


class _NamedRow(msgspec.Struct, frozen=True):
    name: str


T = TypeVar("T")


async def _load_as(services: Services, tenant: str, ref: str, type: type[T]) -> T:
    """JSON content of this type. A run may have come from a file: nothing about it is believed."""
    return decode_stored(await stored_blob(services.store, tenant, ref), type=type)


def _settings_of(job: Job) -> dict[str, Any]:
    """Return what the newest run was started with, without its task and the paths of its machine."""
    context = dict(job.context)
    prompts = {name: context.pop(name, None) for name in ("identity", "personality", "rules")}
    context.pop("memory", None)
    return {
        "prompts": {name: value for name, value in prompts.items() if value},
        "context": context,
        "model": job.model,
        "compaction": dict(job.compaction),
        "acceptance": list(job.acceptance),
        "max_iterations": job.max_iterations,
    }


async def _memory(store: Store, tenant: str, agent: str) -> dict[str, Any]:
    """Refs of an agent's memory; empty if it has none."""
    row_id = await find_memory(store, tenant, memory_id(agent))
    if row_id is None:
        return {}
    embedder = await embedder_of(store, row_id)
    folder = f"{memory_folder(agent)}/core/"
    own = await versions_below(store, tenant, MAIN_SPACE, folder)
    blocks = {id_.removeprefix(folder): f"{id_}@{version}" for id_, version in own.items()}
    for label, artifact, _ in await attached_blocks(store, row_id):
        newest = await newest_version(store, tenant, MAIN_SPACE, artifact)
        blocks[label] = artifact if newest is None else f"{artifact}@{newest.version}"
    return {"store": memory_id(agent), "embedder": embedder, "blocks": blocks}


# Skills


async def _skills(services: Services, tenant: str, agent: str) -> tuple[SkillOnCard, ...]:
    """The skills of its newest run. What was written of a definition before holds on."""
    outcome = await newest_outcome_like(services.store, tenant, agent, SKILLS_STEP)
    if outcome is None:
        return ()
    ref = outcome.read(_Completed).result
    if ref is None or await stored_blob(services.store, tenant, ref) == b"null":
        return ()
    listing = await _load_as(services, tenant, ref, _SkillListing)
    known = {(one.skill, one.hash): one for one in await _read_definitions(services, tenant, agent)}
    pins = await pins_of(services.store, tenant)
    found = [
        known.get((line.name, line.hash)) or await _skill_of(services, tenant, line, pins)
        for line in listing.skills
    ]
    return tuple(sorted(found, key=lambda one: one.skill))


class _Completed(msgspec.Struct, frozen=True):
    result: str | None = None


class _SkillRow(msgspec.Struct, frozen=True):
    name: str
    hash: str


class _SkillListing(msgspec.Struct, frozen=True):
    skills: tuple[_SkillRow, ...] = ()


async def _skill_of(services: Services, tenant: str, line: _SkillRow, pins: Sequence[Pin]) -> SkillOnCard:
    """A skill with its definition, as far as the tenant still has it."""
    for pin in pins:
        refs = {pin.active_hash: pin.active_definition, pin.hash: pin.definition}
        if pin.skill == line.name and (ref := refs.get(line.hash)):
            definition = (await stored_blob(services.store, tenant, ref)).decode()
            return SkillOnCard(
                skill=line.name,
                hash=line.hash,
                source=pin.source,
                name=pin.name,
                origin=pin.origin,
                definition=definition,
            )
    return SkillOnCard(skill=line.name, hash=line.hash)


async def _read_definitions(services: Services, tenant: str, agent: str) -> list[SkillOnCard]:
    """The definitions that were written beside the card last."""
    try:
        artifact = await _artifacts(services, tenant, agent).read(skills_id(agent))
    except NotFound:
        return []
    return msgspec.convert(artifact.content, SkillSet).skills


class SkillSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of the artifact with the definitions."""

    agent_id: str
    skills: list[SkillOnCard]


# Writing


async def write_card(services: Services, tenant: str, card: AgentCard, *, by: str) -> str:
    """Write the card and the definitions if they say something new; the card's ref.

    Errors: `AccessDenied`, `InvalidArtifact`, `NotFound` if its id is somebody else's, or was deleted.
    """
    agent = card.agent_id
    if card.skills:
        skills = msgspec.to_builtins(SkillSet(agent_id=agent, skills=list(card.skills)))
        await _write(services, tenant, agent, skills_id(agent), "document", skills, by)
    return await _write(services, tenant, agent, card_id(agent), "agent", card.content, by)


async def _write(
    services: Services, tenant: str, agent: str, id_: str, kind: str, content: Any, by: str
) -> str:
    """The ref of the version that says it. Private: what an agent thinks with is not for sale unasked."""
    artifacts = _artifacts(services, tenant, agent)
    for _ in range(ATTEMPTS_MAX):
        version = 0
        with_access: dict[str, Any] = {"access": "private"}
        try:
            standing = await artifacts.read(id_)
        except NotFound:
            pass
        else:
            version, with_access = standing.version, {}
            if standing.kind == kind and standing.content == content:
                return f"{id_}@{version}"
        try:
            append, blobs, artifact = await artifacts.plan_write(
                id_, kind=kind, content=content, expected_version=version, actor=by, **with_access
            )
            await services.store.append(Batch(appends=[append], blobs=blobs))
        except (VersionConflict, SequenceConflict):
            continue
        return f"{id_}@{artifact.version}"
    raise Conflict(f"{id_} is written by others all the time", hint="Try again.")


def _artifacts(services: Services, tenant: str, agent: str) -> Artifacts:
    return Artifacts(services.store, services.clock, tenant, MAIN_SPACE, f"agent:{agent}")


async def adopt(
    services: Services,
    tenant: str,
    artifacts: Artifacts,
    ref: str,
    *,
    to: str | None = None,
    room: TakeRoom | None = None,
) -> Artifact:
    """Write an artifact of a fork as the newest version of `to`, else of the id without the fork's folder;
    of a forked mission, of that id below its origin, if the origin has written it.

    The version names the fork's as what it was derived from; the fork's own stays. It is read as
    the operator: the fork need not have let the agent read it in whose name it is written. Its content takes
    `room` first.
    Errors: `InvalidRequest` for what no fork has written; those of reading and of writing.
    """
    reader = Artifacts(services.store, services.clock, tenant, MAIN_SPACE, OPERATOR).within(room)
    kept = await reader.read(ref)
    home = to or await _home(services, tenant, kept)
    wish: dict[str, Any] = {
        "content": kept.content,
        "metadata": kept.metadata,
        "provenance": Provenance(derived_from=(f"{kept.id}@{kept.version}",)),
    }
    try:
        stands = await artifacts.read(home, bytes_max=0)
    except NotFound:
        return await artifacts.write(home, kind=kept.kind, **wish)
    return await artifacts.write(home, expected_version=stands.version, **wish)


async def _home(services: Services, tenant: str, kept: Artifact) -> str:
    """Return the id that the origin would have used. Errors: `InvalidRequest`."""
    run_id = kept.provenance.run_id
    fork = await effects_of(services, tenant, run_id) if run_id else None
    if fork is None or not fork.folder or not kept.id.startswith(f"{fork.folder}/"):
        raise InvalidRequest(
            f"no fork has written {kept.id!r}",
            expected="an artifact whose id begins with forks/",
            hint="`artelier artifacts list` shows them.",
        )
    home = kept.id.removeprefix(f"{fork.folder}/")
    origin = (await lineage(services, tenant, fork.run_id))[-1].run_id
    for id_ in (home, f"{origin}/{home}"):  # a mission's outputs are below its id
        if await newest_version(services.store, tenant, MAIN_SPACE, id_) is not None:
            return id_
    return home
