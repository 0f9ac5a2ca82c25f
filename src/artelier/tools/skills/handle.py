"""The operations of a person on a tenant's skills: look, compare, approve, refuse. They need no source."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from artelier.artifacts.content import diff
from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.ids import check_tenant
from artelier.kernel import Services
from artelier.kernel.queries.steps import newest_answer_us
from artelier.log import Batch, Blob, BlobRef, Draft, StreamAppend, blob_name, make_blob, tenant_stream
from artelier.tools.skills.approval.injection_heuristics import visible
from artelier.tools.skills.approval.pins import guard_unchanged
from artelier.tools.skills.definition import Definition, definition_from, files_changed
from artelier.tools.skills.events import SkillApproved, SkillRefused
from artelier.tools.skills.sources.folder import place_of, text_of
from artelier.tools.skills.view import Pin, pins_of
from artelier.tools.workspace.folder import WorkspaceFolder

NOTE_CHARS_MAX = 10_000
RUNS_MAX = 50
LISTED_STEP = "c*/read/skills"
"""Keys of the steps in which agents record their list of skills."""


class Skills:
    """The decisions about the skills of one tenant."""

    def __init__(self, services: Services, tenant: str) -> None:
        self._services = services
        self._tenant = check_tenant(tenant)

    async def list(self) -> list[dict[str, Any]]:
        """`[{skill, source, name, origin, status, hash, active_hash, decided_by, changed_us}]`, by name."""
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

    async def show(self, name: str) -> dict[str, Any]:
        """A row of `list` with `reasons`, `note`, `definition` (text, hidden characters written out) and
        `usable`: whether it can be approved. Errors: `NotFound`, `InvalidRequest` if two have the name."""
        pin = await self._pin(name)
        definition = await self._definition(pin.definition)
        return {
            **_row(pin),
            "reasons": await self._json(pin.reasons) or [],
            "note": await self._json(pin.note),
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

    async def files_changed(self, name: str) -> list[dict[str, str]]:
        """`[{path, change}]` since the last usable definition: `changed`, `new` or `gone`.

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
    ) -> dict[str, Any]:
        """Let a parked or refused definition be used from the next listing on; its row.

        `hash`: the definition that was looked at, whole or its first 8 or more characters.
        Errors: `NotFound`; `Conflict` if it is another one by now, is usable already, or cannot be used.
        """
        return await self._decide(name, by=by, note=note, hash=hash, approve=True)

    async def refuse(
        self, name: str, *, by: str = "operator", note: str = "", hash: str | None = None
    ) -> dict[str, Any]:
        """Forbid a definition, also one in use: the next call is refused. Errors: as `approve`."""
        return await self._decide(name, by=by, note=note, hash=hash, approve=False)

    async def _decide(
        self, name: str, *, by: str, note: str, hash: str | None, approve: bool
    ) -> dict[str, Any]:
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

    async def _json(self, ref: str | None) -> Any:
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


def _row(pin: Pin) -> dict[str, Any]:
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
