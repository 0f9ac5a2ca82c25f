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
from artelier.artifacts import Artifacts
from artelier.errors import Conflict, CorruptStore, NotFound, SequenceConflict, VersionConflict
from artelier.ids import MAIN_SPACE
from artelier.kernel import Services
from artelier.log import Batch, Store, decode_stored, stored_blob
from artelier.memory.memory_handle import short
from artelier.tools.skills.view import Pin, pins_of

PAGE = 1_000

KIN = "(agent = ? OR substr(agent, 1, ?) = ?)"
"""In SQL: an agent or one of its sub-agents. Parameters: `kin_of`."""


def kin_of(agent: str) -> tuple[str, int, str]:
    """The parameters of `KIN`."""
    return agent, len(agent) + 1, f"{agent}/"


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
    rows = await store.query(
        f"SELECT id, artifact, agent FROM memory_stores WHERE tenant = ? AND space = ? AND {KIN} AND id <= ?",
        (tenant, MAIN_SPACE, *kin_of(agent), position),
    )
    for row_id, artifact, name in rows:
        wanted.add(artifact)
        wanted |= await _find_block_ids(store, row_id, position)
        folder = f"{memory_folder(name)}/core/"
        own = await store.query(
            "SELECT id FROM artifacts WHERE tenant = ? AND space = ? AND substr(id, 1, ?) = ?",
            (tenant, MAIN_SPACE, len(folder), folder),
        )
        wanted.update(id_ for (id_,) in own)
    found: list[str] = []
    for id_ in sorted(wanted):
        there = await store.query(
            "SELECT 1 FROM artifacts WHERE tenant = ? AND space = ? AND id = ? AND position <= ?",
            (tenant, MAIN_SPACE, id_, position),
        )
        found += [id_] if there else []
    return found


class _BlockRow(msgspec.Struct, frozen=True):
    artifact: str
    before: str | None = None


async def _find_block_ids(store: Store, row_id: int, position: int) -> set[str]:
    """Artifacts that were ever blocks of a memory."""
    found: set[str] = set()
    seq = 0
    while True:
        rows: list[Any] = await store.query(
            "SELECT c.seq, e.data FROM memory_changes c"
            " JOIN events e ON e.stream = c.stream AND e.seq = c.seq"
            " WHERE c.store = ? AND c.seq > ? AND c.kind LIKE 'block.%' AND e.position <= ?"
            " ORDER BY c.seq LIMIT ?",
            (row_id, seq, position, PAGE),
        )
        blocks = [decode_stored(data, type=_BlockRow) for _, data in rows]
        found.update(id_ for one in blocks for id_ in (one.artifact, one.before) if id_)
        if len(rows) < PAGE:
            return found
        seq = rows[-1][0]


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
    rows = await services.store.query(
        "SELECT settings, tools FROM runs WHERE tenant = ? AND agent = ? AND loop = ?"
        " AND settings IS NOT NULL ORDER BY id DESC LIMIT 1",
        (tenant, agent, LOOP),
    )
    if not rows:
        return None, []
    settings, tools = rows[0]
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
    rows = await store.query(
        "SELECT m.id, (SELECT e.embedder FROM memory_entries e WHERE e.store = m.id AND e.gone = ''"
        " ORDER BY e.position LIMIT 1) FROM memory_stores m"
        " WHERE m.tenant = ? AND m.space = ? AND m.artifact = ?",
        (tenant, MAIN_SPACE, memory_id(agent)),
    )
    if not rows:
        return {}
    row_id, embedder = rows[0]
    folder = f"{memory_folder(agent)}/core/"
    own = await store.query(
        "SELECT id, version FROM artifacts WHERE tenant = ? AND space = ?"
        " AND substr(id, 1, ?) = ? AND deleted = 0 ORDER BY id",
        (tenant, MAIN_SPACE, len(folder), folder),
    )
    blocks = {id_.removeprefix(folder): f"{id_}@{version}" for id_, version in own}
    for label, artifact, version in await store.query(
        "SELECT b.label, b.artifact, a.version FROM memory_blocks b LEFT JOIN artifacts a"
        " ON a.tenant = ? AND a.space = ? AND a.id = b.artifact WHERE b.store = ?",
        (tenant, MAIN_SPACE, row_id),
    ):
        blocks[label] = artifact if version is None else f"{artifact}@{version}"
    return {"store": memory_id(agent), "embedder": embedder, "blocks": blocks}


# Skills


async def _skills(services: Services, tenant: str, agent: str) -> tuple[SkillOnCard, ...]:
    """The skills of its newest run. What was written of a definition before holds on."""
    rows = await services.store.query(
        "SELECT e.data FROM steps s JOIN runs r ON r.id = s.run"
        " JOIN events e ON e.stream = s.run AND e.seq = s.completed"
        f" WHERE r.tenant = ? AND r.agent = ? AND s.key LIKE '{SKILLS_STEP}'"
        " ORDER BY r.id DESC, s.completed DESC LIMIT 1",
        (tenant, agent),
    )
    if not rows:
        return ()
    ref = decode_stored(rows[0][0], type=_Completed).result
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
