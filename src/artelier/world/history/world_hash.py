"""The hash of a world: equal for equal histories, whatever the world is called and wherever it is kept.

It covers every event of the world's space, stream by stream in the order of their names, each by seq. Left
out is what belongs to the store: positions, commits, chains of hashes, and the runs in which agents asked
models. Replaced is what differs between equal worlds: content is named by its plain SHA-256 instead of a
tenant's key, the world's stream is called `world`, holds are numbered as they come, and whoever steers the
world from outside is `host`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from artelier.errors import CorruptStore, NotFound
from artelier.log import Event, Store, Stream, blob_name
from artelier.world.events import world_space
from artelier.world.history.streams import StreamReach, events_of, reaches, tick_of
from artelier.world.kernel_adapter import Host

FORM = b"artelier.world 1\n"
"""Stands before everything that is hashed; another form of the hash has another one."""

DIGESTS_MAX = 100_000
"""Contents whose hash is remembered; beyond it all are forgotten."""

_REF = re.compile(rb'(?<=[{\[:,])"(b:[A-Za-z0-9_-]{43})"(?!:)')
"""A reference in canonical JSON: a whole string, and no key. Within a string a quote follows a backslash."""

_encode = msgspec.json.Encoder(order="sorted").encode


class WorldHash(NamedTuple):
    """The hash of a world in hex, and the part of its history that it covers."""

    world: str
    tick: int
    """The last one that is covered, with what the host did until the next."""
    events: int
    sha256: str


async def hash_world(host: Host, world: str, *, at: int | None = None) -> WorldHash:
    """The hash of a world up to and including a tick, by default the newest.

    Cost: every event and content is read once; memory does not grow with the history.
    Errors: `NotFound`; `InvalidRequest` for a tick that has not passed; `CorruptStore` for content that was
    erased.
    """
    tick = await tick_of(host, world, at)
    store = host.services.store
    found = await reaches(store, host.id, world, tick=tick)
    own = world_space(world)
    digest, count = sha256(FORM), 0
    contents = Contents(store, host.id)
    for reach in sorted(found, key=lambda one: local_name(one.stream.local, own)):
        async for _event, normal in normal_events(store, reach, contents):
            digest.update(_encode(normal))
            digest.update(b"\n")
            count += 1
    return WorldHash(world, tick, count, digest.hexdigest())


class Normal(msgspec.Struct, frozen=True):
    """The parts of an event that are the same for equal events."""

    # Field order is the sorted order: it is the canonical form.
    actor: str
    at: int
    cause: str | None
    data: msgspec.Raw
    kind: str
    seq: int
    stream: str
    version: int


async def normal_events(
    store: Store, reach: StreamReach, contents: Contents
) -> AsyncIterator[tuple[Event, Normal]]:
    """Every event of a stream, as it stands and in its normal form."""
    form = NormalForm(reach.stream, contents)
    async for event in events_of(store, reach):
        yield event, await form.of(event)


class Contents:
    """SHA-256 of content, by reference."""

    def __init__(self, store: Store, tenant: str) -> None:
        self.store = store
        self.tenant = tenant
        self._known: dict[str, str] = {}

    async def digest(self, ref: str, *, event: Event | None = None) -> str:
        """Hex. Errors: `CorruptStore` if the content is gone, naming the event that needs it."""
        known = self._known.get(ref)
        if known is None:
            known = sha256(await self.of(ref, event=event)).hexdigest()
            if len(self._known) >= DIGESTS_MAX:
                self._known.clear()
            self._known[ref] = known
        return known

    async def of(self, ref: str, *, event: Event | None = None) -> bytes:
        """The content. Errors: `CorruptStore`."""
        try:
            return await self.store.blob(self.tenant, blob_name(ref))
        except NotFound:
            where = f"event {event.seq} of {event.stream.local}" if event else "this world"
            raise CorruptStore(
                f"content that {where} needs is gone",
                got=ref,
                hint="A world of which something was erased has no hash, and cannot be carried.",
            ) from None


class NormalForm:
    """Gives the events of one stream, in order, their normal form."""

    def __init__(self, stream: Stream, contents: Contents) -> None:
        self._own = stream.space
        self._local = local_name(stream.local, stream.space)
        self._contents = contents
        self._holds: dict[str, str] = {}
        self._held = 0

    async def of(self, event: Event) -> Normal:
        """The normal form of the next event."""
        names = {
            ref: b'"sha256:%s"' % (await self._contents.digest(ref.decode(), event=event)).encode()
            for ref in set(_REF.findall(event.data))
        }
        data = _REF.sub(lambda found: names[found[1]], event.data) if names else event.data
        if b'"hold":"' in data:
            plain: dict[str, Any] = msgspec.json.decode(data)
            if isinstance(plain.get("hold"), str):
                plain["hold"] = self._hold(plain["hold"], event.kind)
            data = _encode(plain)
        return Normal(
            actor="host" if is_host(event.actor) else event.actor,
            at=event.at_us,
            cause=local_name(event.cause, self._own) if event.cause else None,
            data=msgspec.Raw(data),
            kind=event.kind,
            seq=event.seq,
            stream=self._local,
            version=event.version,
        )

    def _hold(self, name: str, kind: str) -> str:
        """Holds have random names, each from the event that makes it to the one that ends it."""
        if name not in self._holds:
            self._held += 1
            self._holds[name] = f"hold {self._held}"
        return self._holds[name] if kind == "artifact.held" else self._holds.pop(name)


def local_name(local: str, space: str) -> str:
    """A stream of a world, or an event's cause, without the world's own name."""
    return local.replace(space, "world", 1) if local.startswith(space) else local


def is_host(actor: str) -> bool:
    """Return True if somebody steers the world from outside: the name of a person is no part of its
    history.
    """
    return actor == "operator" or actor.startswith("user:")
