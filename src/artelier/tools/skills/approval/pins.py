"""Pins: which definition of a skill may be used, decided once per (tenant, source, name) and hash.

`judge` is the decision and pure; `settle` writes what is new. A batch is refused if another process has
decided about the same skill meanwhile, and is then decided anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from artelier.errors import Conflict
from artelier.kernel import Services, Tenants
from artelier.kernel.policy import is_granted
from artelier.kernel.queries.tenants import find_tenant
from artelier.log import (
    Batch,
    Blob,
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
from artelier.tools.skills.definition import definition_from
from artelier.tools.skills.events import SkillParked, SkillPinned
from artelier.tools.skills.sources.source import FoundSkill
from artelier.tools.skills.view import Pin, pins_of, read_hash_and_status

ATTEMPTS_MAX = 10
ACTOR = "skills"


class Candidate(NamedTuple):
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
    candidate: Candidate, pin: Pin | None, *, renamed_from: str = "", was_unreadable: bool = False
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
    services: Services, tenant: str, candidates: Sequence[Candidate], *, asked: Iterable[str]
) -> dict[Key, PinVerdict]:
    """Decide about all candidates and write what is new. `asked`: the sources that gave an answer.

    Errors: `Conflict` if others decide about the same skills all the time.
    """
    heard = frozenset(asked)
    for _ in range(ATTEMPTS_MAX):
        pins = {(pin.source, pin.name): pin for pin in await pins_of(services.store, tenant)}
        gone = _find_gone(pins, candidates, heard)
        verdicts: dict[Key, PinVerdict] = {}
        new: list[tuple[Candidate, PinVerdict, Pin | None]] = []
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


async def _was_unreadable(store: Store, tenant: str, one: Candidate, pin: Pin | None) -> bool:
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
    pins: Mapping[Key, Pin], candidates: Sequence[Candidate], heard: frozenset[str]
) -> dict[Key, str]:
    """Return, by source and shape, the tools that servers no longer have, for servers that answered."""
    here = {(one.source, one.found.definition.name) for one in candidates}
    return {
        (pin.source, pin.shape): pin.name
        for key, pin in pins.items()
        if pin.shape and pin.origin == "tool" and key not in here and pin.source in heard
    }


async def _append_verdicts(
    services: Services, tenant: str, new: Sequence[tuple[Candidate, PinVerdict, Pin | None]]
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
    tenant: str, key: DataKey, one: Candidate, verdict: PinVerdict, pin: Pin | None
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
