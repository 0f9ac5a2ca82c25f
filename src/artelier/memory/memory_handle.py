"""The scope of a memory: one agent of one tenant, the ids of its artifacts, and the one way to change it.

The scope is the tenant and the agent, never the run. A sub-agent is called `parent/name`, so it is another
agent with a memory of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from artelier.artifacts import (
    Access,
    AccessPrices,
    Artifacts,
    artifact_stream,
    check_principal,
    static_decision,
)
from artelier.artifacts.queries import content_of
from artelier.artifacts.space_session import Door
from artelier.clock import Clock
from artelier.errors import AccessDenied, Conflict, InvalidRequest, NotFound, SequenceConflict
from artelier.ids import MAIN_SPACE, check_tenant
from artelier.kernel.erasure import writing_key
from artelier.log import (
    Batch,
    Blob,
    BlobRef,
    DataKey,
    Draft,
    EventData,
    Receipt,
    Store,
    Stream,
    StreamAppend,
    Tx,
    blob_name,
    prepared_blob,
)
from artelier.log.blobs import IMPORTED, name_blob
from artelier.log.queries import keys_of_blobs
from artelier.memory import events as ev
from artelier.memory import queries
from artelier.memory.queries import MemoryRow

ATTEMPTS_MAX = 200
"""How often a change is decided anew because somebody else was faster: one writer wins each round."""

AGENT_CHARS_MAX = 500
"""So that `agent:<id>` is a principal."""

_AGENT = re.compile(rf"[A-Za-z0-9._:/-]{{1,{AGENT_CHARS_MAX}}}")
_LITERAL_CHARS_MAX = 72
_KEY = re.compile(r"(?!b:)[A-Za-z0-9._:/~#+-]{1,160}")


Sight = int
"""Of which subject's memories something is seen, beside those that are about nobody: a row of `keys`."""
NOBODYS: Sight = 0
EVERYBODYS: Sight = -1
"""All of them, as people see them."""


class _GovernedMemory(NamedTuple):
    id: str
    owner: str
    access: Access | None
    prices: AccessPrices


class MemoryScope:
    """One agent's place in a store."""

    def __init__(self, store: Store, clock: Clock, tenant: str, agent: str, config: bytes) -> None:
        """`config` is the content that its artifact begins with, as JSON."""
        self.store = store
        self.clock = clock
        self.tenant = check_tenant(tenant)
        self.agent = check_agent(agent)
        self.principal = check_principal(f"agent:{agent}")
        self.folder = f"memory/{short(agent)}"
        self.artifact = f"{self.folder}:entries"
        """Id of the `memory_store` artifact."""
        self.stream: Stream = artifact_stream(self.tenant, MAIN_SPACE, self.artifact)
        self.artifacts = Artifacts(
            store, clock, self.tenant, MAIN_SPACE, self.principal, key_of_run=self.key_of_run
        )
        self.door = Door(store, clock, self.tenant, MAIN_SPACE, self.principal)
        self._config = config
        self._row_id = 0
        self._key: DataKey | None = None

    def block_id(self, label: str) -> str:
        """Return where a block of this agent's own is kept. No label holds a `/` or `:`, so no two ids
        meet.
        """
        return f"{self.folder}/core/{label}"

    async def row_id(self) -> int:
        """Its number in the view; 0 if nothing was ever changed in it. Asks for no permission."""
        if not self._row_id:
            self._row_id = await queries.find_memory(self.store, self.tenant, self.artifact) or 0
        return self._row_id

    async def read_opened(
        self, action: str, *, key: str | None = None, mark: int | None = None
    ) -> MemoryRow | None:
        """The memory as it stands; None if nothing was ever changed in it.

        Errors: `AccessDenied` if its agent may not do `action`, `NotFound` if it was deleted.
        """
        found = await queries.memory_row(self.store, self.tenant, self.artifact, key=key, mark=mark)
        if found is None:
            return None
        if found.deleted:
            raise NotFound(
                f"the memory of agent {self.agent} was deleted",
                hint="Its entries are gone with it; use another agent id.",
            )
        # The owner is asked too: a broken policy denies everybody.
        governed = _GovernedMemory(self.artifact, found.owner, Access.read(found.access), AccessPrices())
        decision = await static_decision(self.door.stage(), action, self.principal, governed)
        if not decision.allowed:
            raise AccessDenied(
                f"{self.principal} may not {action} the memory {self.artifact}: {decision.reason}",
                artifact=self.artifact,
            )
        self._row_id = found.id
        return found

    async def key_of_run(self, run_id: str | None) -> DataKey | None:
        """The key of the subject of a run that changes this memory; None if it has none.

        Errors: `Erased` if that key is gone.
        """
        return None if run_id is None else await writing_key(self.store, self.tenant, run_id)

    async def sight_of(self, run_id: str) -> Sight:
        """Return what a run may see. Errors: `Erased`."""
        key = await self.key_of_run(run_id)
        return NOBODYS if key is None or key.key_id is None else key.key_id

    async def subjects_of(self, names: Sequence[bytes]) -> dict[bytes, Sight]:
        """Return which of some contents (at most 500) are about a subject, with the row of its key."""
        return dict(await keys_of_blobs(self.store, self.tenant, names, but=IMPORTED))

    async def keep(self, content: bytes, blobs: list[Blob], *, under: DataKey | None = None) -> BlobRef:
        key = under or await self.store.data_key(self.tenant)
        ref, blob = await prepared_blob(self.tenant, key, content)
        blobs.append(blob)
        return ref

    async def key(self) -> DataKey:
        """The key of its marks: the one that its artifact's first content is named with.

        So a memory that came from another store goes on under the key that it came with.
        """
        if self._key is not None:
            return self._key
        content = await content_of(self.store, self.tenant, MAIN_SPACE, self.artifact, 1)
        found = None if content is None else await self.store.key_of(self.tenant, blob_name(content))
        if found is None:
            return await self.store.data_key(self.tenant)
        self._key = found
        return found

    async def mark(self, what: bytes, *, under: DataKey | None = None) -> int:
        """A keyed number below 2**56: it tells nothing of the text once the key is gone.

        `under` is the key of the writer's subject; so what is said of two subjects is never one entry.
        """
        key = under or await self.key()
        return int.from_bytes(name_blob(key, what)[:7], "big")

    async def hash_request(self, *what: object, under: DataKey | None = None) -> str:
        """A short keyed hash of a request. Errors: `InvalidRequest` for text that cannot be stored."""
        key = under or await self.key()
        try:
            return name_blob(key, msgspec.json.encode(what))[:6].hex()
        except UnicodeEncodeError:
            raise InvalidRequest("this text is no Unicode", expected="text without lone surrogates") from None

    async def find_applied(self, key: str, asked: str) -> tuple[int, EventData] | None:
        """Seq and event of the change that a key made; None if it was not applied.

        Errors: `Conflict` if the key was used for another request.
        """
        seq = await queries.change_under(self.store, await self.row_id(), key)
        if seq is None:
            return None
        data = (await self.store.read(self.stream, after=seq - 1, limit=1))[0].decode()
        if not isinstance(data, ev.Keyed) or data.asked != asked:
            raise Conflict(
                "this key was used for another change of this memory",
                expected="a new key for each change",
                got=key,
            )
        return seq, data

    async def record(
        self,
        changes: Sequence[EventData],
        *,
        appends: Sequence[StreamAppend] = (),
        blobs: Sequence[Blob] = (),
        by: str | None = None,
        at_us: int | None = None,
        guard: Callable[[Tx], None] | None = None,
    ) -> Receipt:
        """Append events to the memory's stream, opening it if need be, with what belongs to them.

        The head of its stream is the first of the receipt. Errors: those of the views.
        """
        now_us = self.clock.now_us() if at_us is None else at_us
        drafts = [Draft(data, now_us, by or self.principal) for data in changes]
        for _ in range(ATTEMPTS_MAX):
            own, more = StreamAppend(self.stream, drafts), list(blobs)
            if not self._row_id:
                own, opening = await self._opening(drafts)
                more += opening
            batch = Batch(appends=(own, *appends), blobs=more, guard=guard)
            try:
                return await self.store.append(batch)
            except SequenceConflict as conflict:
                if conflict.facts.get("stream") != self.stream.local:
                    raise
        raise too_busy(self.artifact)

    async def _opening(self, drafts: list[Draft]) -> tuple[StreamAppend, list[Blob]]:
        """The append that opens the memory as well, unless somebody was faster."""
        # The head before the rows: whatever comes between makes the append fail, never pass unseen.
        seq, _hash = await self.store.head(self.stream)
        standing = await self.door.find(self.artifact)
        if standing is not None:
            await self.door.permit_action(self.artifact, "write")
        if await self.row_id():
            return StreamAppend(self.stream, drafts), []
        opened = Draft(
            ev.MemoryOpened(store=self.artifact, agent=self.agent), self.clock.now_us(), self.principal
        )
        if standing is not None:  # written by hand, with a config of its own
            return StreamAppend(self.stream, [opened, *drafts], seq), []
        append, blobs, _ = await self.artifacts.plan_write(
            self.artifact, kind="memory_store", content=msgspec.json.decode(self._config)
        )
        return StreamAppend(self.stream, [*append.events, opened, *drafts], seq), blobs


def too_busy(id_: str) -> Conflict:
    return Conflict(f"{id_} changes faster than this can be decided", got=f"{ATTEMPTS_MAX} attempts")


def check_agent(agent: object) -> str:
    """Errors: `InvalidRequest`."""
    if not isinstance(agent, str) or not _AGENT.fullmatch(agent):
        raise InvalidRequest(
            "invalid agent id",
            expected=f"1-{AGENT_CHARS_MAX} characters of A-Z a-z 0-9 . _ : / -",
            got=repr(agent)[:120],
        )
    return agent


def short(agent: str) -> str:
    """The agent's name in ids of artifacts: itself, or its beginning and a hash.

    A cut name is always longer than any that is not, so no two agents share one.
    """
    if len(agent) <= _LITERAL_CHARS_MAX:
        return agent
    return f"{agent[:56]}.{sha256(agent.encode()).hexdigest()[:20]}"


def checked_key(key: object) -> str:
    """A caller's key as it is stored: itself where it looks like an id, else its hash.

    Errors: `InvalidRequest` for what is no text or empty.
    """
    if not isinstance(key, str) or not key:
        raise InvalidRequest(
            "a change of a memory needs a key",
            expected="text that is the same when the same change is asked for again",
            got=repr(key)[:80],
        )
    if _KEY.fullmatch(key):
        return key
    return "sha256:" + sha256(key.encode(errors="surrogatepass")).hexdigest()
