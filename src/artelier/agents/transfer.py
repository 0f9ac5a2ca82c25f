"""Carrying an agent: all that it is in one verifiable file, and from there into another store.

The file is an export of runs (`kernel/export/transfer.py`) that also holds the artifacts of the agent's
memory, its card and the definitions of its skills. There its runs are records; its memory is alive and its
skills are parked. See docs/decisions/0007-exports.md.

What stands beside runs is trusted only after checks: views and prompts act on what memory events say. So each
must stand in the stream of its own memory, name blocks that came along, and hold what this version of the
memory could have written itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from artelier.agents.card import (
    SkillOnCard,
    SkillSet,
    card_id,
    card_of,
    is_kin,
    memory_artifacts,
    memory_folder,
    memory_id,
    skills_id,
    write_card,
)
from artelier.artifacts import ArtifactWritten, artifact_stream
from artelier.artifacts.queries import find_taken, find_taken_in
from artelier.errors import Conflict, InvalidExport, InvalidRequest, NotFound
from artelier.ids import MAIN_SPACE, check_artifact_id
from artelier.kernel import Services
from artelier.kernel.export.archive import SIZE_BYTES_MAX, Arrival, Belongings, Header
from artelier.kernel.export.transfer import KeyStore, StorePart, import_file, write_file
from artelier.kernel.export.writer import streams_of
from artelier.kernel.queries.tenants import kin_run, kin_run_in, kin_runs
from artelier.log import Blob, EventData, Store, Stream, Tx, blob_name, make_blob
from artelier.memory import events as ev
from artelier.memory.blocks import BLOCKS_MAX, LIMIT_CHARS_MAX, check_label
from artelier.memory.entries import TRUSTS, check_entry
from artelier.memory.index.index_entry import as_vector
from artelier.memory.memory_handle import check_agent
from artelier.memory.queries import kin_entries, kin_memory, kin_memory_in
from artelier.memory.sqlite import keep_beside
from artelier.tools.skills.approval import guard_unchanged
from artelier.tools.skills.events import SkillParked
from artelier.tools.skills.source import Definition, definition_from
from artelier.tools.skills.view import pins_of

T = TypeVar("T")

KINDS = frozenset(
    cls.KIND
    for cls in (
        ev.MemoryOpened,
        ev.MemoryAdded,
        ev.MemoryRemoved,
        ev.MemoryPruned,
        ev.MemoryConsolidated,
        ev.MemoryRestored,
        ev.BlockWritten,
        ev.BlockAttached,
        ev.BlockDetached,
    )
)
"""Of memories."""

IMPORTANCE_MAX = 1_000
"""Thousandths."""
INTEGER_MAX = 2**62
NAME_CHARS_MAX = 500
SKILLS_MAX = 2_000


@dataclass(slots=True)
class _Memory:
    """One memory of the file."""

    agent: str
    attached: set[str] = field(default_factory=set[str])
    blocks: dict[str, int] = field(default_factory=dict[str, int])
    """Artifacts that events call blocks, with the highest version that they name; 0 for any."""

    def holds(self, artifact: str, version: int = 0) -> None:
        """An event says so."""
        self.blocks[check_artifact_id(artifact)] = max(version, self.blocks.get(artifact, 0))


class _WrittenVersion(NamedTuple):
    """The newest version of an artifact of the file."""

    kind: str
    version: int
    content: bytes
    """Name of its content."""


class Baggage(Belongings):
    """The checks of one file. Every refusal is an `InvalidExport`, or becomes one."""

    def __init__(self, agent: str) -> None:
        self.agent = check_agent(agent)
        self.skills: tuple[SkillOnCard, ...] = ()
        self.parked: tuple[str, ...] = ()
        """Skills that wait for a person since the import, by the name that models use."""
        self._memories: dict[str, _Memory] = {}
        self._artifacts: dict[str, _WrittenVersion] = {}
        self._looks: dict[bytes, set[Callable[[bytes], None]]] = {}
        """The parts of a content that must be seen, by its name."""
        self._vectors: dict[bytes, set[tuple[str, str]]] = {}
        """Memories and embedders of content that must be a vector."""
        self._sizes: dict[tuple[str, str], int] = {}
        """Bytes of a vector, by memory and embedder."""
        self._all_events_seen = False

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of memory events."""
        return KINDS

    # Events

    def take(self, artifact: str, seq: int, data: EventData) -> None:
        """See `Belongings`."""
        if isinstance(data, ArtifactWritten):
            self._artifacts[artifact] = _WrittenVersion(data.kind, data.version, blob_name(data.content))
        elif data.KIND in KINDS:
            try:
                self._take_memory(artifact, data)
            except InvalidRequest as error:
                raise InvalidExport(f"event {seq} of artifact:{artifact}: {error}") from None

    def _take_memory(self, artifact: str, data: EventData) -> None:
        if getattr(data, "store", None) != artifact:
            raise InvalidExport(
                f"an event of artifact:{artifact} is about another memory",
                got=str(getattr(data, "store", ""))[:120],
            )
        if isinstance(data, ev.MemoryOpened):
            self._open(artifact, data)
            return
        memory = self._memories.get(artifact)
        if memory is None:
            raise InvalidExport(f"the memory {artifact} changes before it is opened")
        if isinstance(data, ev.Keyed) and len(data.key or "") > NAME_CHARS_MAX:
            raise InvalidRequest("key of a change", expected=f"at most {NAME_CHARS_MAX} characters")
        if isinstance(data, ev.MemoryAdded):
            self._add(artifact, data)
        elif isinstance(data, ev.MemoryConsolidated | ev.MemoryRestored):
            for raised in data.raised:
                _within(raised.before, IMPORTANCE_MAX, "importance")
                _within(raised.after, IMPORTANCE_MAX, "importance")
        elif isinstance(data, ev.BlockWritten | ev.BlockAttached | ev.BlockDetached):
            _take_block(memory, data)

    def _open(self, artifact: str, data: ev.MemoryOpened) -> None:
        agent = check_agent(data.agent)
        if not is_kin(self.agent, agent) or artifact != memory_id(agent):
            raise InvalidExport(
                f"artifact:{artifact} opens the memory of somebody else",
                got=agent[:120],
                expected=f"agent {self.agent} or one below it, in the artifact of its own memory",
            )
        if artifact in self._memories:
            raise InvalidExport(f"the memory {artifact} is opened twice")
        self._memories[artifact] = _Memory(agent)

    def _add(self, artifact: str, data: ev.MemoryAdded) -> None:
        _within(data.importance, IMPORTANCE_MAX, "importance")
        _within(data.mark, INTEGER_MAX, "mark")
        if data.trust not in TRUSTS:
            raise InvalidRequest("trust", expected=" or ".join(TRUSTS), got=data.trust[:40])
        for what in (data.id, data.embedder):
            if len(what) > NAME_CHARS_MAX:
                raise InvalidRequest("a name in a memory is too long", got=what[:60])
        self._looks.setdefault(blob_name(data.content), set()).add(_check_entry)
        if data.vector is not None:
            places = self._vectors.setdefault(blob_name(data.vector), set())
            places.add((artifact, data.embedder))

    # Content

    def wants(self, name: bytes) -> bool:
        """See `Belongings`."""
        if not self._all_events_seen:
            self._all_events_seen = True
            for id_, look in (
                (card_id(self.agent), self._check_card),
                (skills_id(self.agent), self._check_skills),
            ):
                if id_ in self._artifacts:
                    self._looks.setdefault(self._artifacts[id_].content, set()).add(look)
        return name in self._looks or name in self._vectors

    def content(self, name: bytes, content: bytes) -> None:
        """See `Belongings`."""
        try:
            for look in self._looks.get(name, ()):
                look(content)
            for place in self._vectors.get(name, ()):
                self._check_vector(place, content)
        except InvalidRequest as error:
            raise InvalidExport(f"a memory of this agent cannot be carried: {error}") from None

    def _check_vector(self, place: tuple[str, str], content: bytes) -> None:
        as_vector(content)
        if self._sizes.setdefault(place, len(content)) != len(content):
            raise InvalidExport(f"vectors of one embedder have one length in {place[0]}")

    def _check_card(self, content: bytes) -> None:
        card = _json(content, _CardSays, "the card of the agent")
        if card.agent_id != self.agent:
            raise InvalidExport("the card is another agent's", got=card.agent_id[:120])

    def _check_skills(self, content: bytes) -> None:
        found = _json(content, SkillSet, "the skills of the agent")
        if found.agent_id != self.agent or len(found.skills) > SKILLS_MAX:
            raise InvalidExport("the skills are another agent's, or too many")
        for one in found.skills:
            _check_skill(one)
        self.skills = tuple(found.skills)

    # The whole

    def owns(self, artifact: str) -> bool:
        """See `Belongings`."""
        if artifact in self._memories or artifact in (card_id(self.agent), skills_id(self.agent)):
            return True
        return any(
            artifact.startswith(f"{memory_folder(memory.agent)}/core/") or artifact in memory.blocks
            for memory in self._memories.values()
        )

    def end(self) -> None:
        """See `Belongings`."""
        card = self._artifacts.get(card_id(self.agent))
        if card is None or card.kind != "agent":
            raise InvalidExport(f"the card of agent {self.agent} is missing")
        for id_, memory in self._memories.items():
            if (standing := self._artifacts.get(id_)) is None or standing.kind != "memory_store":
                raise InvalidExport(f"{id_} is no memory")
            if len(memory.attached) > BLOCKS_MAX:
                raise InvalidExport(f"too many blocks in {id_}", expected=f"at most {BLOCKS_MAX}")
            own = f"{memory_folder(memory.agent)}/core/"
            for artifact, version in memory.blocks.items():
                there = self._artifacts.get(artifact)
                if there is None and not version and artifact.startswith(own):
                    continue  # one of its own that was never written
                if there is None or there.version < version:
                    raise InvalidExport(
                        f"a block of {id_} is missing", got=f"{artifact}@{version or 'any'}"[:200]
                    )

    async def arrival(self, services: Services, tenant: str, header: Header, sha256: str) -> Arrival:
        """See `Belongings`."""
        room = Room(services, tenant, self.agent, [one.agent for one in self._memories.values()])
        arrival, self.parked = await room.arrival(self.skills, header=header, sha256=sha256)
        return arrival


class _CardSays(msgspec.Struct, frozen=True):
    agent_id: str


class _ExportedEntry(msgspec.Struct, frozen=True):
    text: str
    tags: tuple[str, ...] = ()
    speaker: str = ""
    date: str = ""


def _take_block(memory: _Memory, data: ev.BlockWritten | ev.BlockAttached | ev.BlockDetached) -> None:
    """A label stands in prompts as it is, so it must be one."""
    label = check_label(data.label)
    if isinstance(data, ev.BlockWritten):
        memory.holds(data.artifact, _within(data.version, INTEGER_MAX, "version"))
        return
    _within(data.limit_chars, LIMIT_CHARS_MAX, "limit of a block")
    memory.holds(data.artifact)
    if isinstance(data, ev.BlockDetached):
        memory.attached.discard(label)
        return
    memory.attached.add(label)
    if data.before is not None:
        memory.holds(data.before)
        _within(data.before_chars, LIMIT_CHARS_MAX, "limit of a block")


def _check_entry(content: bytes) -> None:
    """The bounds of what an agent may remember. Errors: `InvalidRequest`, `InvalidExport`."""
    one = _json(content, _ExportedEntry, "an entry of the memory")
    check_entry(one.text, one.tags, 0.5, one.speaker, one.date, TRUSTS[0])


def _check_skill(one: SkillOnCard) -> None:
    """A definition is what its hash says, and is called what it says itself."""
    if any(len(text) > NAME_CHARS_MAX for text in (one.skill, one.source, one.name, one.hash)):
        raise InvalidExport("the name of a skill is too long", got=one.skill[:60])
    if not one.definition:
        return
    definition = definition_of(one)
    if definition.canonical() != one.definition.encode() or definition.hash != one.hash:
        raise InvalidExport("a skill is not what its hash says", got=one.skill[:60])
    if (definition.name, definition.origin) != (one.name, one.origin) or not one.source:
        raise InvalidExport("a skill is called otherwise in its definition", got=one.skill[:60])


def definition_of(one: SkillOnCard) -> Definition:
    """Errors: `InvalidExport`."""
    try:
        return definition_from(one.definition.encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidExport("the definition of a skill is none", got=one.skill[:60]) from None


def _within(value: int, most: int, what: str) -> int:
    if not 0 <= value <= most:
        raise InvalidRequest(what, expected=f"0 to {most}", got=str(value)[:40])
    return value


def _json(content: bytes, type: type[T], what: str) -> T:
    """Errors: `InvalidExport`."""
    try:
        return msgspec.json.decode(content, type=type)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidExport(f"{what} cannot be read") from None


OWN_CODE = "function"
"""Origin of skills that are the developer's own code: there is nothing of them to approve elsewhere."""


class Room:
    """One import into one tenant."""

    def __init__(self, services: Services, tenant: str, agent: str, remembering: Sequence[str]) -> None:
        """`remembering`: the agents whose memories come."""
        self._services = services
        self._tenant = tenant
        self._agent = agent
        self._folders = sorted(memory_folder(name) for name in {agent, *remembering})

    async def _taken(self) -> str | None:
        """Return a run, a memory or an artifact that stands where one is to come."""
        store, tenant = self._services.store, self._tenant
        if found := await kin_run(store, tenant, self._agent) or await kin_memory(store, tenant, self._agent):
            return found
        for folder in self._folders:
            ids = [f"{folder}:entries"]
            if found := await find_taken(store, tenant, MAIN_SPACE, ids, folder=f"{folder}/"):
                return found
        return await find_taken(store, tenant, MAIN_SPACE, [card_id(self._agent), skills_id(self._agent)])

    def _taken_in(self, tx: Tx) -> str | None:
        """Return the same as `_taken`, in a transaction."""
        tenant = self._tenant
        if found := kin_run_in(tx, tenant, self._agent) or kin_memory_in(tx, tenant, self._agent):
            return found
        for folder in self._folders:
            if found := find_taken_in(tx, tenant, MAIN_SPACE, [f"{folder}:entries"], folder=f"{folder}/"):
                return found
        return find_taken_in(tx, tenant, MAIN_SPACE, [card_id(self._agent), skills_id(self._agent)])

    async def arrival(
        self, skills: Sequence[SkillOnCard], *, header: Header, sha256: str
    ) -> tuple[Arrival, tuple[str, ...]]:
        """Return what the import adds, and the names of the skills that it parks. Errors: `Conflict`."""
        store = self._services.store
        if found := await self._taken():
            raise self._conflict(found)
        known = {(pin.source, pin.name) for pin in await pins_of(store, self._tenant)}
        key = await store.data_key(self._tenant)
        why = [
            f"it came with agent {self._agent} in an export of tenant {header.tenant}"
            f" (sha256 {sha256[:16]}); whoever approved it did so there"
        ]
        reasons, reasons_blob = make_blob(self._tenant, key, msgspec.json.encode(why))
        events: list[EventData] = []
        blobs: list[Blob] = [reasons_blob]
        parked: dict[tuple[str, str], str] = {}
        for one in skills:
            place = (one.source, one.name)
            # What was decided here about a skill of this source stands, whatever a file says of it.
            if not one.definition or one.origin == OWN_CODE or place in known or place in parked:
                continue
            definition = definition_from(one.definition.encode())
            ref, blob = make_blob(self._tenant, key, one.definition.encode())
            blobs.append(blob)
            parked[place] = one.skill
            events.append(
                SkillParked(
                    source=one.source,
                    name=one.name,
                    skill=one.skill,
                    origin=one.origin,
                    hash=one.hash,
                    shape=definition.shape,
                    definition=ref,
                    reasons=reasons,
                )
            )
        if not events:
            blobs = []
        guard = self._guard(guard_unchanged(self._tenant, dict.fromkeys(parked)))
        return Arrival(events, blobs, guard), tuple(sorted(parked.values()))

    def _guard(self, unchanged: Callable[[Tx], None]) -> Callable[[Tx], None]:
        """The room is still there when the batch is applied."""

        def check(tx: Tx) -> None:
            if found := self._taken_in(tx):
                raise self._conflict(found)
            unchanged(tx)

        return check

    def _conflict(self, by: str) -> Conflict:
        return Conflict(
            f"tenant {self._tenant} has an agent {self._agent} already; nothing was imported",
            got=f"its {by}"[:200],
            hint="Import it into another tenant or another database.",
        )


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
    header = Header.of_store(position, root, tenant=tenant, code=services.code_version, agent=agent)
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
