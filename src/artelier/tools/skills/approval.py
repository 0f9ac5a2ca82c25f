"""The approval of skills: pins of what was decided, and the operations by which a person decides.

A pin says which definition of a skill may be used, once per (tenant, source, name) and hash. `judge` is the
decision and pure; `settle` writes what is new. A batch is refused if another process has decided about the
same skill meanwhile, and is then decided anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import msgspec

from artelier.artifacts.content import diff
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.ids import check_tenant
from artelier.kernel import Services, Tenants
from artelier.kernel.policy import is_granted
from artelier.kernel.queries.steps import newest_answer_us
from artelier.kernel.queries.tenants import find_tenant
from artelier.log import (
    Batch,
    Blob,
    BlobRef,
    DataKey,
    Draft,
    EventData,
    Store,
    StreamAppend,
    Tx,
    blob_name,
    make_blob,
    tenant_stream,
)
from artelier.ports.tool import ToolPort
from artelier.tools.skills.events import SkillApproved, SkillParked, SkillPinned, SkillRefused
from artelier.tools.skills.folder import place_of, text_of
from artelier.tools.skills.injection_heuristics import visible
from artelier.tools.skills.source import Definition, FoundSkill, definition_from, files_changed
from artelier.tools.skills.view import Pin, pins_of, read_hash_and_status
from artelier.tools.workspace.files import WorkspaceFolder

ATTEMPTS_MAX = 10
ACTOR = "skills"


class SkillCandidate(NamedTuple):
    """A definition that a source has now, under the name that models use."""

    source: str
    skill: str
    hash: str
    found: FoundSkill


class PinVerdict(NamedTuple):
    """The verdict on a candidate."""

    status: str
    reasons: tuple[str, ...] = ()
    is_new: bool = False
    """Whether an event is due."""


Key = tuple[str, str]


def judge(
    candidate: SkillCandidate, pin: Pin | None, *, renamed_from: str = "", was_unreadable: bool = False
) -> PinVerdict:
    """Return whether a definition may be used, given what was decided before.

    `was_unreadable`: all that was ever seen of it could not be read, and no person decided about it.
    """
    definition = candidate.found.definition
    if pin is not None and pin.hash == candidate.hash:
        return PinVerdict(pin.status)
    if definition.origin == "function":
        # The developer's own code: a change is his. Only a person's no outlives it.
        refused = pin is not None and pin.status == "refused"
        return PinVerdict("refused") if refused else PinVerdict("active", is_new=True)
    if pin is not None and pin.active_hash == candidate.hash:
        return PinVerdict("active", is_new=True)
    reasons = candidate.found.reasons
    if pin is not None and not was_unreadable:
        before = "was last usable" if pin.active_hash else "was looked at"
        reasons = (f"its definition has changed since it {before}", *reasons)
    elif renamed_from:
        reasons = (f"it looks like `{renamed_from}`, renamed: the same schema", *reasons)
    return PinVerdict("parked" if reasons else "active", reasons, is_new=True)


async def settle(
    services: Services, tenant: str, candidates: Sequence[SkillCandidate], *, asked: Iterable[str]
) -> dict[Key, PinVerdict]:
    """Decide about all candidates and write what is new. `asked`: the sources that gave an answer.

    Errors: `Conflict` if others decide about the same skills all the time.
    """
    heard = frozenset(asked)
    for _ in range(ATTEMPTS_MAX):
        pins = {(pin.source, pin.name): pin for pin in await pins_of(services.store, tenant)}
        gone = _find_gone(pins, candidates, heard)
        verdicts: dict[Key, PinVerdict] = {}
        new: list[tuple[SkillCandidate, PinVerdict, Pin | None]] = []
        for one in candidates:
            key = (one.source, one.found.definition.name)
            shape = one.found.definition.shape
            pin = pins.get(key)
            verdict = judge(
                one,
                pin,
                renamed_from=gone.get((one.source, shape), ""),
                was_unreadable=await _was_unreadable(services.store, tenant, one, pin),
            )
            verdicts[key] = verdict
            if verdict.is_new:
                new.append((one, verdict, pin))
        if not new or await _append_verdicts(services, tenant, new):
            return verdicts
    raise Conflict("the skills of this tenant are changed by others all the time", hint="Try again.")


async def _was_unreadable(store: Store, tenant: str, one: SkillCandidate, pin: Pin | None) -> bool:
    """Return True if nothing but broken definitions was seen before: then this is as good as a first sight.

    A skill that was usable or refused once has another reason too once it changes, which stays with it.
    """
    if pin is None or pin.status != "parked" or pin.active_hash or pin.hash == one.hash:
        return False
    before = definition_from(await store.blob(tenant, blob_name(pin.definition)))
    if not before.broken or pin.reasons is None:
        return False
    reasons = msgspec.json.decode(await store.blob(tenant, blob_name(pin.reasons)), type=tuple[str, ...])
    return reasons == (before.broken,)


def _find_gone(
    pins: Mapping[Key, Pin], candidates: Sequence[SkillCandidate], heard: frozenset[str]
) -> dict[Key, str]:
    """Return, by source and shape, the tools that servers no longer have, for servers that answered."""
    here = {(one.source, one.found.definition.name) for one in candidates}
    return {
        (pin.source, pin.shape): pin.name
        for key, pin in pins.items()
        if pin.shape and pin.origin == "tool" and key not in here and pin.source in heard
    }


async def _append_verdicts(
    services: Services, tenant: str, new: Sequence[tuple[SkillCandidate, PinVerdict, Pin | None]]
) -> bool:
    """Append the events of new verdicts; False if somebody else was faster."""
    await Tenants(services).open(tenant)
    key = await services.store.data_key(tenant)
    drafts: list[Draft] = []
    blobs: list[Blob] = []
    now_us = services.clock.now_us()
    for one, verdict, pin in new:
        data, made = _event(tenant, key, one, verdict, pin)
        drafts.append(Draft(data, now_us, ACTOR))
        blobs += made
    known = {
        (one.source, one.found.definition.name): (pin.hash, pin.status) if pin else None
        for one, _, pin in new
    }
    batch = Batch(
        appends=[StreamAppend(tenant_stream(tenant), drafts)],
        blobs=blobs,
        guard=guard_unchanged(tenant, known),
    )
    try:
        await services.store.append(batch)
    except Conflict:
        return False
    return True


def _event(
    tenant: str, key: DataKey, one: SkillCandidate, verdict: PinVerdict, pin: Pin | None
) -> tuple[EventData, list[Blob]]:
    definition = one.found.definition
    ref, blob = make_blob(tenant, key, definition.canonical())
    if verdict.status == "active":
        pinned = SkillPinned(
            source=one.source,
            name=definition.name,
            skill=one.skill,
            origin=definition.origin,
            hash=one.hash,
            shape=definition.shape,
            definition=ref,
            previous=pin.active_hash if pin else "",
        )
        return pinned, [blob]
    why, why_blob = make_blob(tenant, key, msgspec.json.encode(verdict.reasons))
    parked = SkillParked(
        source=one.source,
        name=definition.name,
        skill=one.skill,
        origin=definition.origin,
        hash=one.hash,
        shape=definition.shape,
        definition=ref,
        reasons=why,
        base=pin.active_hash if pin else "",
    )
    return parked, [blob, why_blob]


def guard_unchanged(tenant: str, known: Mapping[Key, tuple[str, str] | None]) -> Callable[[Tx], None]:
    """A guard: these skills still have the hash and status that a decision was made on."""

    def guard(tx: Tx) -> None:
        for (source, name), expected in known.items():
            if read_hash_and_status(tx, tenant, source, name) != expected:
                raise Conflict(f"skill {name} was changed meanwhile")

    return guard


# --------------------------------------------------------------------------- tool filter
# The tools that a tenant may use: `allowed-tools` is cut down to them.


async def usable_tools(store: Store, tenant: str, tools: Mapping[str, ToolPort]) -> frozenset[str]:
    """Names of tools that are there and that the tenant's grants cover; a run may have fewer."""
    row = await find_tenant(store, tenant)
    grants = msgspec.json.decode(row.grants, type=list[str]) if row is not None else []
    return frozenset(
        name for name, tool in tools.items() if is_granted(grants, tool.grant or f"tools:{name}")
    )


# --------------------------------------------------------------------------- decisions of people
# The operations of a person on a tenant's skills: look, compare, approve, refuse. They need no source.


NOTE_CHARS_MAX = 10_000
RUNS_MAX = 50
LISTED_STEP = "c*/read/skills"
"""Keys of the steps in which agents record their list of skills."""


class Skills:
    """The decisions about the skills of one tenant."""

    def __init__(self, services: Services, tenant: str) -> None:
        self._services = services
        self._tenant = check_tenant(tenant)

    async def list(self) -> list[SkillReport]:
        """Return the skills that were ever seen in the tenant, by name."""
        pins = await pins_of(self._services.store, self._tenant)
        return [_row(pin) for pin in sorted(pins, key=lambda pin: (pin.skill, pin.source))]

    async def listed_us(self) -> int | None:
        """Return when a run of this tenant last recorded another list of skills than before; None if none
        did.

        A catalogue is asked as a run begins or goes on. What a program lists outside of runs leaves no trace.
        Cost: the steps of the newest 50 runs.
        """
        return await newest_answer_us(
            self._services.store, self._tenant, key_pattern=LISTED_STEP, runs_max=RUNS_MAX
        )

    async def show(self, name: str) -> SkillDetail:
        """Return a skill with its newest definition.

        Errors: `NotFound`, `InvalidRequest` if two have the name.
        """
        pin = await self._pin(name)
        definition = await self._definition(pin.definition)
        reasons: Any = await self._json(pin.reasons)
        note: Any = await self._json(pin.note)
        return {
            **_row(pin),
            "reasons": reasons or [],
            "note": note,
            "usable": not definition.broken,
            "definition": visible(definition.readable()),
        }

    async def file(self, name: str, path: str) -> str:
        """The text of a file beside a SKILL.md as it is now, hidden characters written out.

        Errors: `NotFound` for an unknown skill, or if its folder is not here; `ToolFailed` for no such file,
                one of other content than the newest definition's, above 64 KB, or no text.
        """
        pin = await self._pin(name)
        files = {one.path: one for one in (await self._definition(pin.definition)).files}
        here = place_of(pin.source, pin.name)
        if here is None:
            raise NotFound(
                f"the files of skill {pin.skill} are not on this machine",
                got=pin.source[:200],
                hint="Only files of a folder can be shown, where the folder is.",
            )
        return visible(await asyncio.to_thread(text_of, WorkspaceFolder(here), path, files))

    async def files_changed(self, name: str) -> list[ChangedFile]:
        """Return the files that changed since the last usable definition.

        Only hashes of earlier files are kept, so a file can be shown as it is, not as it was.
        """
        before, after = await self._two(await self._pin(name))
        return [{"path": visible(path), "change": change} for path, change in files_changed(before, after)]

    async def diff(self, name: str) -> str:
        """Return what differs between the last usable definition and the one that waits; empty if nothing
        does.
        """
        pin = await self._pin(name)
        before, after = await self._two(pin)
        names = (pin.active_hash[:12] or "nothing", pin.hash[:12])
        old = visible(before.readable()) if before is not None else ""
        return diff(old, visible(after.readable()), names=names).text

    async def approve(
        self, name: str, *, by: str = "operator", note: str = "", hash: str | None = None
    ) -> SkillReport:
        """Let a parked or refused definition be used from the next listing on; its row.

        `hash`: the definition that was looked at, whole or its first 8 or more characters.
        Errors: `NotFound`; `Conflict` if it is another one by now, is usable already, or cannot be used.
        """
        return await self._decide(name, by=by, note=note, hash=hash, approve=True)

    async def refuse(
        self, name: str, *, by: str = "operator", note: str = "", hash: str | None = None
    ) -> SkillReport:
        """Forbid a definition, also one in use: the next call is refused. Errors: as `approve`."""
        return await self._decide(name, by=by, note=note, hash=hash, approve=False)

    async def _decide(self, name: str, *, by: str, note: str, hash: str | None, approve: bool) -> SkillReport:
        pin = await self._pin(name)
        _check_hash(pin, hash)
        if approve and (await self._definition(pin.definition)).broken:
            raise Conflict(
                f"skill {pin.skill} cannot be used as it is",
                hint=f"`artelier skills show {pin.skill}` says why. Mend it at its source: the next run of an"
                " agent with it looks again, and needs no approval if it was never readable before.",
            )
        status = "active" if approve else "refused"
        if pin.status == status:
            raise Conflict(f"skill {pin.skill} is {status} already")
        if len(note) > NOTE_CHARS_MAX:
            raise InvalidRequest("note too long", expected=f"at most {NOTE_CHARS_MAX} characters")
        services = self._services
        ref: BlobRef | None = None
        blobs: list[Blob] = []
        if note:
            key = await services.store.data_key(self._tenant)
            ref, blob = make_blob(self._tenant, key, msgspec.json.encode(note))
            blobs.append(blob)
        kind = SkillApproved if approve else SkillRefused
        data = kind(source=pin.source, name=pin.name, hash=pin.hash, note=ref)
        draft = Draft(data, services.clock.now_us(), by)
        known = {(pin.source, pin.name): (pin.hash, pin.status)}
        await services.store.append(
            Batch(
                appends=[StreamAppend(tenant_stream(self._tenant), [draft])],
                blobs=blobs,
                guard=guard_unchanged(self._tenant, known),
            )
        )
        return _row(await self._pin(f"{pin.source}/{pin.name}"))

    async def _pin(self, name: str) -> Pin:
        """Find a pin by the name that models use, or by `source/name`."""
        pins = await pins_of(self._services.store, self._tenant)
        exact = [pin for pin in pins if f"{pin.source}/{pin.name}" == name]
        found = exact or [pin for pin in pins if pin.skill == name]
        if not found:
            raise NotFound(
                f"no skill {name[:200]} in tenant {self._tenant}",
                hint="`artelier skills list` shows those that were ever seen.",
            )
        if len(found) > 1:
            raise InvalidRequest(
                f"several skills are called {name[:200]}",
                expected=" or ".join(f"{pin.source}/{pin.name}" for pin in found)[:500],
            )
        return found[0]

    async def _two(self, pin: Pin) -> tuple[Definition | None, Definition]:
        """The last usable definition, if any, and the newest."""
        after = await self._definition(pin.definition)
        old = pin.active_definition
        return (await self._definition(old) if old else None), after

    async def _definition(self, ref: str) -> Definition:
        return definition_from(await self._services.store.blob(self._tenant, blob_name(ref)))

    async def _json(self, ref: str | None) -> object:
        if ref is None:
            return None
        return msgspec.json.decode(await self._services.store.blob(self._tenant, blob_name(ref)))


def _check_hash(pin: Pin, hash: str | None) -> None:
    if hash is None or (len(hash) >= 8 and pin.hash.startswith(hash.lower())):
        return
    raise Conflict(
        f"skill {pin.skill} has another definition by now",
        expected=pin.hash[:16],
        got=hash[:64],
        hint="Look at it again, and decide anew.",
    )


class SkillReport(TypedDict):
    """A skill of a list. Reports are dictionaries, because callers index them."""

    skill: str
    """As models call it."""
    source: str
    name: str
    origin: str
    status: str
    """`active`, `parked` or `refused`."""
    hash: str
    """Of the newest definition."""
    active_hash: str | None
    """Of the one that could last be used; None for none."""
    decided_by: str
    changed_us: int


class SkillDetail(SkillReport):
    """A skill with its newest definition."""

    reasons: list[str]
    """Why it is parked."""
    note: str | None
    """Of the person who decided."""
    usable: bool
    """True if it can be approved."""
    definition: str
    """Its text; hidden characters are written out."""


class ChangedFile(TypedDict):
    """A file beside a skill that is other than it was."""

    path: str
    change: str
    """`changed`, `new` or `gone`."""


def _row(pin: Pin) -> SkillReport:
    return {
        "skill": pin.skill,
        "source": pin.source,
        "name": visible(pin.name),
        "origin": pin.origin,
        "status": pin.status,
        "hash": pin.hash,
        "active_hash": pin.active_hash or None,
        "decided_by": pin.decided_by,
        "changed_us": pin.changed_us,
    }
