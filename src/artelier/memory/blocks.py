"""Core memory: labelled blocks with a size limit, each an ordinary artifact with versions and access.

A change is a version-checked write, decided anew when somebody else was faster, in one batch with the event
that holds its key. So concurrent appends lose nothing, and a repeated step is applied once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from typing import NamedTuple

from artelier.artifacts import Artifact, Kind, register_kind
from artelier.artifacts.queries import Standing
from artelier.errors import (
    AccessDenied,
    Conflict,
    Erased,
    Exhausted,
    InvalidArtifact,
    InvalidRequest,
    NotFound,
    Refused,
    SequenceConflict,
    VersionConflict,
)
from artelier.log import EventData, blob_name
from artelier.memory import events as ev
from artelier.memory import queries
from artelier.memory.memory_handle import (
    ATTEMPTS_MAX,
    EVERYBODYS,
    NOBODYS,
    MemoryScope,
    Sight,
    checked_key,
    too_busy,
)
from artelier.memory.view import KeyApplied
from artelier.ports.memory import Block

BLOCK_KIND = "memory_block"
LIMIT_CHARS = 2_000
"""Of a block, unless said otherwise: about 500 tokens in every prompt (guess)."""
LIMIT_CHARS_MAX = 100_000
BLOCKS_MAX = 32
"""Blocks of one agent (guess: each stands in every prompt)."""
NOTES = "notes"
SCRATCHPAD = "scratchpad"
DEFAULT_BLOCKS: Mapping[str, int] = {NOTES: LIMIT_CHARS, SCRATCHPAD: LIMIT_CHARS}

_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,31}")

register_kind(Kind(name=BLOCK_KIND, media=frozenset(("text",)), default_access="private"))


class BlockFull(Exhausted):
    """A block would grow beyond its limit; nothing was changed."""

    code = "block_full"
    audience = "agent"


class BlockSlot(NamedTuple):
    """A label and the artifact that holds its text."""

    label: str
    artifact: str
    limit_chars: int
    is_own: bool


class Blocks:
    """The core memory of one agent."""

    def __init__(self, scope: MemoryScope, defaults: Mapping[str, int]) -> None:
        self._scope = scope
        self._defaults = defaults
        self._sight = EVERYBODYS

    def with_sight(self, sight: Sight) -> Blocks:
        """The same blocks; what is about other subjects cannot be read."""
        seen = copy(self)
        seen._sight = sight
        return seen

    async def slots(self) -> list[BlockSlot]:
        """Default blocks first, in their order, then attached ones in that of attaching."""
        found = {
            label: BlockSlot(label, self._scope.block_id(label), limit_chars, True)
            for label, limit_chars in self._defaults.items()
        }
        if row_id := await self._scope.row_id():
            for label, artifact, limit_chars in await queries.attached_blocks(self._scope.store, row_id):
                is_own = artifact == self._scope.block_id(label)
                found[label] = BlockSlot(label, artifact, limit_chars, is_own)
        return list(found.values())

    async def blocks(self) -> tuple[Block, ...]:
        return tuple([await self.read(slot) for slot in await self.slots()])

    async def read(self, slot: BlockSlot) -> Block:
        """The block as it stands. One that cannot be read says why instead of raising."""
        try:
            artifact = await self._text_of(slot)
        except (NotFound, Refused, InvalidArtifact) as error:
            text = error.mark if isinstance(error, Erased) else ""
            return Block(
                label=slot.label,
                text=text,
                limit_chars=slot.limit_chars,
                version=0,
                ref=slot.artifact,
                missing=error.message,
            )
        return _block(slot, artifact)

    async def slot(self, label: str | None) -> BlockSlot:
        """Errors: `NotFound` naming the blocks there are."""
        slots = await self.slots()
        wanted = NOTES if label is None else label
        for slot in slots:
            if slot.label == wanted:
                return slot
        raise NotFound(
            f"no block {wanted!r:.60} in core memory",
            expected=" or ".join(slot.label for slot in slots),
            hint="Use one of these labels.",
        )

    async def _text_of(self, slot: BlockSlot) -> Artifact | None:
        """The artifact of a block; None if it is an own one that was never written.

        Errors: `NotFound`, `AccessDenied` (also for a price: a prompt never pays in silence).
        """
        standing = await self._scope.door.find(slot.artifact)
        if standing is None and slot.is_own:
            return None
        await self._check_seen(slot, standing)
        artifact = await self._scope.artifacts.read(slot.artifact, price_max=0)
        if not isinstance(artifact.content, str):
            raise InvalidArtifact(
                f"artifact {slot.artifact} is no text", expected="text", hint="Detach this block."
            )
        return artifact

    async def _check_seen(self, slot: BlockSlot, standing: Standing | None) -> None:
        """Errors: `AccessDenied` for a block that holds what is about another subject."""
        if self._sight == EVERYBODYS or standing is None or standing.at is None:
            return
        about = await self._scope.subjects_of([blob_name(standing.at.content)])
        if not {NOBODYS, self._sight}.issuperset(about.values()):
            raise AccessDenied(
                f"block {slot.label} is about another subject, and is kept from this run",
                hint="Use remember: entries are kept apart by subject.",
            )

    async def _stands(self, slot: BlockSlot) -> tuple[int, str]:
        """Version and text of a block, to change it; what was erased is empty. Errors: as `_text_of`."""
        try:
            artifact = await self._text_of(slot)
        except Erased:
            standing = await self._scope.door.permit_action(slot.artifact, "read")
            return standing.version, ""
        return (0, "") if artifact is None else (artifact.version, artifact.content)

    # -- changing

    async def change(
        self,
        label: str | None,
        how: str,
        asked: tuple[object, ...],
        edit: Callable[[str], str],
        *,
        key: str,
        by: str | None = None,
        run_id: str | None = None,
        undoes: int | None = None,
    ) -> Block:
        """Write what `edit` makes of a block's text, once per key.

        Errors: those of `edit`; `BlockFull`; `Conflict` for a key of another request; `AccessDenied`.
        """
        scope, key = self._scope, checked_key(key)
        slot = await self.slot(label)
        own = await scope.key_of_run(run_id)
        request = await scope.hash_request(how, slot.label, *asked, under=own)
        for _ in range(ATTEMPTS_MAX):
            if (done := await scope.find_applied(key, request)) is not None:
                return await self._read_recorded(slot, done[1])
            version, before = await self._stands(slot)
            text = _fitting(edit(before), slot)
            try:
                append, blobs, artifact = await scope.artifacts.plan_write(
                    slot.artifact,
                    content=text,
                    kind=None if version else BLOCK_KIND,
                    expected_version=version,
                    actor=by,
                    key=own,
                )
                event = ev.BlockWritten(
                    store=scope.artifact,
                    key=key,
                    asked=request,
                    run_id=run_id,
                    label=slot.label,
                    artifact=slot.artifact,
                    version=artifact.version,
                    how=how,
                    change=undoes,
                )
                await scope.record([event], appends=[append], blobs=blobs, by=by)
                return _block(slot, artifact)
            except (SequenceConflict, VersionConflict, KeyApplied):
                continue  # decide anew on what stands now
        raise too_busy(slot.artifact)

    async def _read_recorded(self, slot: BlockSlot, event: EventData) -> Block:
        """Return what a key led to when it was applied."""
        if not isinstance(event, ev.BlockWritten):
            raise Conflict("this key was used for another change of this memory")
        try:
            artifact = await self._scope.artifacts.read(f"{event.artifact}@{event.version}", price_max=0)
        except NotFound:  # pruned since
            return await self.read(slot)
        return _block(slot, artifact)

    async def attach(
        self,
        label: str,
        artifact: str | None = None,
        *,
        limit_chars: int = LIMIT_CHARS,
        key: str,
        by: str | None = None,
    ) -> Block:
        """Make an artifact a block: one that exists and may be read, or (None) one of the agent's own.

        Errors: `InvalidRequest`, `NotFound`, `AccessDenied`.
        """
        scope = self._scope
        _check_attach(label, limit_chars)
        target = artifact or scope.block_id(label)
        slot = BlockSlot(label, target, limit_chars, target == scope.block_id(label))
        await self._text_of(slot)
        slots = await self.slots()
        if len(slots) >= BLOCKS_MAX and label not in {known.label for known in slots}:
            raise Exhausted("too many blocks of one agent", expected=f"at most {BLOCKS_MAX}")
        before = await self._find_attached(label)
        event = ev.BlockAttached(
            store=scope.artifact,
            key=checked_key(key),
            label=label,
            artifact=target,
            asked=await scope.hash_request("attach", label, target, limit_chars),
            limit_chars=limit_chars,
            before=before[0] if before else None,
            before_chars=before[1] if before else 0,
        )
        await self._once(event, by)
        return await self.read(slot)

    async def detach(self, label: str, *, key: str, by: str | None = None) -> None:
        """Take an attached block out of core memory; its artifact stays as it is.

        Errors: `NotFound` if nothing is attached under this label.
        """
        scope, key = self._scope, checked_key(key)
        asked = await scope.hash_request("detach", label)
        if await scope.find_applied(key, asked) is not None:
            return
        if (attached := await self._find_attached(label)) is None:
            raise NotFound(f"no artifact is attached as {label!r:.60}", hint="Default blocks always stay.")
        event = ev.BlockDetached(
            store=scope.artifact,
            key=key,
            asked=asked,
            label=label,
            artifact=attached[0],
            limit_chars=attached[1],
        )
        await self._once(event, by)

    async def _once(self, event: ev.Keyed, by: str | None) -> None:
        assert event.key is not None
        if await self._scope.find_applied(event.key, event.asked) is not None:
            return
        try:
            await self._scope.record([event], by=by)
        except KeyApplied:
            await self._scope.find_applied(event.key, event.asked)

    async def _find_attached(self, label: str) -> tuple[str, int] | None:
        found = await queries.find_block(self._scope.store, await self._scope.row_id(), label)
        return None if found is None else (found.artifact, found.limit_chars)


# Edits


def append_line(text: str, content: str) -> str:
    """The text with a line more. Errors: `InvalidRequest` for nothing but space."""
    if not content.strip():
        raise InvalidRequest("there is nothing to append", expected="text")
    return content if not text else f"{text}{'' if text.endswith(chr(10)) else chr(10)}{content}"


def replace_once(text: str, old: str, new: str) -> str:
    """The text with its only `old` replaced. Errors: `InvalidRequest` unless it occurs exactly once."""
    first = text.find(old) if old else -1
    if first < 0:
        raise InvalidRequest(
            "the text to replace does not occur in this block",
            expected="text that occurs exactly once, as it is written there",
            got=f"{old!r:.120}",
            hint=f"The block now reads: {text[:300]!r}" if text else "The block is empty.",
        )
    if text.find(old, first + 1) >= 0:
        raise InvalidRequest(
            "the text to replace occurs more than once in this block",
            expected="text that occurs exactly once",
            got=f"{old!r:.120}",
            hint="Give more of the text around it.",
        )
    return text[:first] + new + text[first + len(old) :]


def taken_back(now: str, *, before: str, after: str) -> str:
    """A text without the change from `before` to `after`, whatever was changed elsewhere since.

    Errors: `Conflict` if what that change wrote has been changed itself.
    """
    if now == after:
        return before
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    written, gone = after[start : len(after) - end], before[start : len(before) - end]
    if not written or now.count(written) != 1:
        raise Conflict(
            "this change cannot be undone alone: what it touched was changed again",
            hint="Undo the later changes of this block first.",
        )
    return now.replace(written, gone)


def _fitting(text: str, slot: BlockSlot) -> str:
    """Errors: `BlockFull`."""
    if len(text) > slot.limit_chars:
        raise BlockFull(
            f"block {slot.label} would be too long; nothing was changed",
            expected=f"at most {slot.limit_chars} characters",
            got=f"{len(text)}",
            hint="Shorten it with core_memory_replace, or keep this in long-term memory with remember.",
        )
    return text


def _block(slot: BlockSlot, artifact: Artifact | None) -> Block:
    return Block(
        label=slot.label,
        text="" if artifact is None else artifact.content,
        limit_chars=slot.limit_chars,
        version=0 if artifact is None else artifact.version,
        ref=slot.artifact if artifact is None else f"{slot.artifact}@{artifact.version}",
    )


def _check_attach(label: object, limit_chars: int) -> None:
    check_label(label)
    if not 1 <= limit_chars <= LIMIT_CHARS_MAX:
        raise InvalidRequest(
            "limit of a block", expected=f"1 to {LIMIT_CHARS_MAX} characters", got=limit_chars
        )


def check_label(label: object) -> str:
    """Errors: `InvalidRequest`."""
    if not isinstance(label, str) or not _LABEL.fullmatch(label):
        raise InvalidRequest(
            "label of a block",
            expected="a-z 0-9 _ -, beginning with a letter, at most 32",
            got=repr(label)[:80],
        )
    return label
