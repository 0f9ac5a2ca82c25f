"""One principal's access to one space: `space.artifacts` and `space.ledger`.

The principal is bound here and no method takes another. An id of another tenant or space is not there at
all. Prices are paid through the ledger's view, which must follow `events.MOVING`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, cast

from artelier.artifacts.access import Bill, account_of, check_principal
from artelier.artifacts.content import Content, Diff, LeftOut, decoded_content, diff, is_small
from artelier.artifacts.contracts import AccessVerdict, Decisions, Interpreter
from artelier.artifacts.events import (
    ArtifactDeleted,
    ArtifactPruned,
    ArtifactTransferred,
    GroupJoined,
    GroupLeft,
    artifact_stream,
    money_stream,
)
from artelier.artifacts.groups.membership import GroupMember, Groups, SharedPage
from artelier.artifacts.invocation_store import InvocationOutcome, Invoker
from artelier.artifacts.invocation_tree import (
    InvocationLimits,
    MemorySearch,
    Service,
    check_price_max,
    principal_of,
)
from artelier.artifacts.kinds import check_deletable
from artelier.artifacts.queries import (
    Artifact,
    Lineage,
    Provenance,
    Standing,
    Summary,
    VersionInfo,
    derived_from,
    sources_of,
    versions_after,
)
from artelier.artifacts.ref import Ref, check_new_id, substitute
from artelier.artifacts.space_session import (
    ATTEMPTS_MAX,
    AccessOutcome,
    Door,
    KeyOfRun,
    RetentionRules,
    Stages,
    TakeRoom,
    bounded_asks,
    find_text,
    first_kept,
    list_following,
    replace_once,
    too_busy,
)
from artelier.artifacts.working_state import StoreStage
from artelier.artifacts.write_decision import (
    KEPT,
    WriteRequest,
    artifact_of,
    asked_right,
    decide_write,
    prepare,
)
from artelier.clock import Clock
from artelier.errors import AccessDenied, Erased, InvalidRequest, NotFound, SequenceConflict, VersionConflict
from artelier.ids import MAIN_SPACE, check_space, check_tenant, is_person
from artelier.ledger import MoneyTransferred, Posting
from artelier.ledger.queries import account_balance
from artelier.log import Batch, Blob, DataKey, Draft, Store, StreamAppend, Tx, check_subject
from artelier.log.blobs import LARGE_BYTES
from artelier.pii.vault import escape_json

PAGE_MAX = 1000
"""Rows of one answer."""

Summaries = list[Summary]  # `list` is a method below
Members = list[GroupMember]
Appends = tuple[StreamAppend, list[Blob], Artifact]
_Guard = Callable[[Tx], None] | None


class Artifacts:
    """Artifacts of `space` in `tenant`, as `principal`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tenant: str,
        space: str,
        principal: str,
        *,
        main: Artifacts | None = None,
        interpreter: Interpreter | None = None,
        decisions: Decisions | None = None,
        limits: InvocationLimits | None = None,
        search_memory: MemorySearch | None = None,
        services: Mapping[str, Service] | None = None,
        stages: Stages = StoreStage,
        key_of_run: KeyOfRun | None = None,
    ) -> None:
        """`main` is a world's grant: the handle through which its `main:` refs are read.

        Without an `interpreter` contracts deny and nothing can be invoked. `decisions` are those of a step:
        within it, each contract is asked once. `limits` bound each invocation; `search_memory` is what
        executable code finds under that name; `services` are invoked like programs. `stages` makes what
        decisions are made over. `key_of_run` finds the subject of the run that a version comes from.
        """
        self._door = Door(
            store,
            clock,
            check_tenant(tenant),
            check_space(space),
            check_principal(principal),
            interpreter,
            decisions,
            stages,
            key_of_run=key_of_run,
        )
        self._main = main
        self._limits = limits
        self._search_memory = search_memory
        self._services = services

    def by(self, actor: str) -> Artifacts:
        """The same handle; events of what is done through it name `actor`, who acts for the principal.

        Rights and money stay the principal's. Errors: `InvalidRequest`.
        """
        signed = copy(self)
        signed._door = self._door._replace(by=check_principal(actor))
        return signed

    def about(self, subject: str) -> Artifacts:
        """The same handle; all that is written through it is about `subject`, and is erased with it.

        A version of a run that has a subject is about that without this, and a later version of one that is
        about somebody stays so. Errors: `InvalidRequest`; those of `write`, also `Conflict` where another
        subject's stands.
        """
        bound = copy(self)
        bound._door = self._door._replace(subject=check_subject(subject))
        return bound

    def within(self, room: TakeRoom | None) -> Artifacts:
        """The same handle; whatever content it reads takes `room` first, without one nothing."""
        bound = copy(self)
        bound._door = self._door._replace(room=room)
        bound._main = None if self._main is None else self._main.within(room)
        return bound

    # -- reading

    async def read(self, ref: str, *, price_max: int | None = None, bytes_max: int | None = None) -> Artifact:
        """One version with its content; the read price goes to the owner. `id#part` reads a named part.

        Units:  `price_max` is the scrip the caller agrees to; None is what is asked. Content that is stored
                in more than `bytes_max` is not read: `LeftOut` is in its place.
        Errors: `NotFound`, `AccessDenied`, `InsufficientFunds`, `InvalidRequest` for what is no ref.
        """
        door, parsed = self._place(ref)
        return await door.read(parsed, price_max=price_max, bytes_max=bytes_max)

    async def look(self, ref: str, *, price_max: int | None = None, bytes_max: int | None = None) -> Artifact:
        """Return what `read` gives, to show it: erased content is `[erased]` (`[locked]` without the vault
        key), without metadata and interface.

        Errors: as of `read`, but for `Erased`.
        """
        parsed = Ref.parse(ref, main_allowed=self._door.space != MAIN_SPACE)
        try:
            return await self.read(ref, price_max=price_max, bytes_max=bytes_max)
        except Erased as error:
            if parsed.space is not None:
                raise
            return await self._door.without_content(parsed, mark=error.mark, price_max=price_max)

    async def size(self, ref: str) -> int:
        """Return how many bytes a version is stored in. Errors: as of `read` with `price_max=0`."""
        door, parsed = self._place(ref)
        return await door.size(parsed)

    async def encoded(self, ref: str) -> tuple[str, bytes]:
        """Return media and bytes of what `read` gives with `price_max=0`. Errors: as there."""
        door, parsed = self._place(ref)
        return await door.encoded(parsed)

    async def search(
        self, text: str = "", *, kind: str | None = None, owner: str | None = None, limit: int = 50
    ) -> Summaries:
        """Readable artifacts in which every word occurs, newest first; see `search.py` for its bounds."""
        return await find_text(self._door, text=text, kind=kind, owner=owner, limit=_checked_limit(limit))

    async def list(
        self,
        *,
        kind: str | None = None,
        owner: str | None = None,
        limit: int = 50,
        after: str | None = None,
        chars_max: int | None = None,
    ) -> Summaries:
        """Readable artifacts in the order of their making, beyond the id `after`.

        They end with that with which the names in their policies have `chars_max` characters.
        Errors: `NotFound` if there never was an artifact `after`.
        """
        wanted, position = _checked_limit(limit), 0
        if after is not None:
            start = await self._door.find(check_new_id(after))
            if start is None:
                raise NotFound(f"no artifact {after}")
            position = start.position
        return await list_following(
            self._door, kind=kind, owner=owner, position=position, limit=wanted, chars_max=chars_max
        )

    async def history(self, id: str, *, after: int = 0, limit: int = PAGE_MAX) -> tuple[VersionInfo, ...]:
        """The versions of an artifact above `after`, oldest first, without content."""
        door, standing = self._door, await self._door.permit_action(check_new_id(id), "read")
        place = (door.store, door.tenant, door.space, id)
        found = await versions_after(
            *place, after=after, kept_from=standing.kept_from, limit=_checked_limit(limit)
        )
        return tuple(found)

    async def diff(self, id: str, a: int, b: int, *, price_max: int | None = None) -> Diff:
        """Return what changed from version `a` to version `b`. Both are read, and paid for if that has a
        price: `price_max` is as of `read`, for each.
        """
        names = (f"{check_new_id(id)}@{a}", f"{id}@{b}")
        before, after = [(await self.read(name, price_max=price_max)).content for name in names]
        return await asyncio.to_thread(diff, before, after, names=names)

    async def lineage(self, id: str) -> Lineage:
        """Return what an artifact came from, and what came from it as far as the caller may read that."""
        door = self._door
        await door.permit_action(check_new_id(id), "read")
        sources = await sources_of(door.store, door.tenant, door.space, id, limit=PAGE_MAX)
        rows = await derived_from(door.store, door.tenant, door.space, id, limit=PAGE_MAX)
        page = door._replace(decisions=bounded_asks(door))
        readable = await page.may("read", {row[0] for row in rows})
        return Lineage(
            id=id,
            sources=tuple(dict.fromkeys(sources)),
            derived=tuple(f"{heir}@{version}" for heir, version in rows if heir in readable),
        )

    # -- access as a value, and invocation

    async def access(self, ref: str, action: str, *, price_max: int | None = None) -> AccessVerdict:
        """Return whether `read`, `write`, `delete`, `transfer`, `invoke`, `include`, `subscribe` or `search`
        may be done, at which price and who pays. Nothing moves; a refusal is `missing`, `denied` or
        `no_funds`.
        """
        return await self._door.access(Ref.parse(ref), action, price_max=price_max)

    async def take(self, ref: str, action: str = "include", *, price_max: int | None = None) -> AccessOutcome:
        """Content for a prompt: `(verdict, artifact, charge)`, without raising what policy refuses.

        The `charge` belongs into the batch of the step that uses the content; nothing moves before.
        Errors: `InvalidRequest` for what is no ref.
        """
        return await self._door.take(Ref.parse(ref), action, price_max=price_max)

    async def invoke(self, id: str, /, *, price_max: int | None = None, **args: Any) -> InvocationOutcome:
        """Run an executable artifact in the sandbox; what it does is appended as one batch, or not at all.

        Units:  `price_max` is the scrip the caller agrees to; None is the price that the artifact posts.
        Errors: `NotFound`, `AccessDenied`, `InsufficientFunds`, `InvalidArtifact` for what is no program,
        `InvalidArguments`; `InvocationFailed` when the code failed: its price was given back;
        `VersionConflict` if what it looks at never stands still.
        """
        return await self._invoker().invoke(id, args, price_max=check_price_max(price_max))

    async def release_abandoned(self) -> int:
        """Take back what was held for invocations of a process that died; how many were found."""
        return await self._invoker().release_abandoned()

    def _invoker(self) -> Invoker:
        return Invoker(
            self._door, limits=self._limits, search_memory=self._search_memory, services=self._services
        )

    # -- changing

    async def write(
        self,
        id: str,
        *,
        content: Content,
        kind: str | None = None,
        access: object = None,
        prices: object = None,
        expected_version: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        interface: Mapping[str, Any] | None = None,
        provenance: Provenance | None = None,
    ) -> Artifact:
        """Write a new version; the first one makes the caller creator and owner, and needs a `kind`.

        What is None stays as it was. `access` is a policy's name, `{"allow": {right: [principal]}}` or
        `{"contract": id}`; `prices` is `{"read", "invoke", "inclusion"}` in scrip.
        Errors: `InvalidArtifact`, `AccessDenied`, `VersionConflict`, `NotFound` for a deleted id.
        """
        wish = WriteRequest(
            id=check_new_id(id),
            content=content,
            kind=kind,
            access=access,
            prices=prices,
            expected_version=expected_version,
            metadata=metadata,
            interface=interface,
            provenance=provenance,
        )
        return await self._write(wish)

    async def plan_write(
        self,
        id: str,
        *,
        content: Content,
        kind: str | None = None,
        access: object = None,
        prices: object = None,
        expected_version: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        interface: Mapping[str, Any] | None = None,
        provenance: Provenance | None = None,
        actor: str | None = None,
        cause: str | None = None,
        key: DataKey | None = None,
    ) -> Appends:
        """All of `write` but the append, for a caller with a batch of its own (a run).

        `actor` (the principal unless said) and `cause` go into the event. `key` is that of the caller's
        subject, if it knows it. The append builds on the artifact's stream as it is now: if that moves first,
        the batch fails with `SequenceConflict`. A right that rests on a contract or a group is that of this
        moment.
        """
        wish = WriteRequest(
            id=check_new_id(id),
            content=content,
            kind=kind,
            access=access,
            prices=prices,
            expected_version=expected_version,
            metadata=metadata,
            interface=interface,
            provenance=provenance,
        )
        return (await self._plan(wish, actor=actor, cause=cause, key=key))[0]

    async def amend(
        self,
        id: str,
        *,
        expected_version: int,
        access: object = None,
        prices: object = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Artifact:
        """Write a new version with the content of the one before, which is neither read nor stored again.

        The content of what this returns is `LeftOut`. For a handle that is about nobody: what another key
        is to erase has to be stored under that. Errors: those of `write`; `Erased`.
        """
        assert not self._door.subject, "content would stay under its key"
        return await self._write(
            WriteRequest(
                id=check_new_id(id),
                content=KEPT,
                access=access,
                prices=prices,
                expected_version=expected_version,
                metadata=metadata,
            )
        )

    async def edit(self, id: str, old: str, new: str) -> Artifact:
        """Replace a string that must occur exactly once. JSON is edited in its canonical text.

        It reads (and pays for reading) and writes, so it needs both rights.
        Errors: `InvalidArtifact` if `old` does not occur, or more than once; those of `read` and `write`.
        """
        for _ in range(ATTEMPTS_MAX):
            artifact = await self._door.read(Ref(check_new_id(id)), is_whole=False)
            content = replace_once(id, artifact.content, old, new)
            try:
                return await self._write(
                    WriteRequest(id=id, content=content, expected_version=artifact.version)
                )
            except VersionConflict:
                continue  # the string must occur once in what stands now, not in what stood
        raise too_busy(id)

    async def delete(self, id: str) -> None:
        """Leave a tombstone: no version is readable, and the id stays taken. Its scrip goes to its owner.

        Errors: `NotFound`, `AccessDenied`; `Conflict` for a kind of which none can be deleted, and for what
        work that is not over stands on.
        """
        door = self._door

        async def bury(standing: Standing) -> ArtifactDeleted:
            check_deletable(standing.id, standing.kind)
            actor = principal_of(standing.id)
            left = await door.stage().balance(account_of(actor))
            return ArtifactDeleted(id=standing.id, postings=Bill.movement(actor, standing.owner, left))

        await door.change(check_new_id(id), "delete", bury)

    async def transfer(self, id: str, to: str) -> None:
        """Give an artifact to another principal, without payment. Its policy and prices go with it."""
        check_principal(to)

        async def give(standing: Standing) -> ArtifactTransferred:
            if standing.owner == to:
                raise InvalidRequest(f"artifact {standing.id} belongs to {to} already")
            return ArtifactTransferred(id=standing.id, giver=standing.owner, to=to)

        await self._door.change(check_new_id(id), "transfer", give)

    async def prune(self, id: str, *, max_versions: int | None = None, ttl_s: int | None = None) -> int:
        """Apply retention: how many versions ceased to be readable. The newest always stays.

        `max_versions` counts the newest; `ttl_s` is the age in seconds from which older ones go. Without
        either, `retention {max_versions, ttl_s}` of the metadata holds. Needs the right to delete.
        """
        door, gone = self._door, [0]
        asked = RetentionRules.parse({"max_versions": max_versions, "ttl_s": ttl_s})

        async def retire(standing: Standing) -> ArtifactPruned | None:
            rules = asked
            if rules == RetentionRules() and standing.at is not None:
                metadata: dict[str, Any] = await door.extra(standing.at.metadata) or {}
                rules = RetentionRules.parse(metadata.get("retention", {}))
            kept = await first_kept(door, standing, rules)
            gone[0] = kept - standing.kept_from
            return ArtifactPruned(id=standing.id, kept_from=kept) if gone[0] else None

        await door.change(check_new_id(id), "delete", retire)
        return gone[0]

    # -- groups

    async def join(self, group_id: str, principal: str) -> None:
        """Make a principal a member of a group, an artifact of kind `membrane`; needs the right to write it.

        From then on `membrane:<group_id>` in an `allow` list means this principal too.
        Errors: `NotFound`, `AccessDenied`; `Conflict` for a member; `InvalidRequest`, also for a group as
        principal and in a world; `LimitReached`.
        """
        await Groups(self._door).change(GroupJoined, group_id, principal)

    async def leave(self, group_id: str, principal: str) -> None:
        """End a membership: what it alone allowed is denied at once. Errors: those of `join`."""
        await Groups(self._door).change(GroupLeft, group_id, principal)

    async def plan_join(
        self,
        group_id: str,
        *principals: str,
        actor: str | None = None,
        cause: str | None = None,
        after: StreamAppend | None = None,
    ) -> StreamAppend:
        """All of `join` but the append, as `plan_write` is of `write`, for any number of principals.

        `after` is the append of `plan_write` that writes the group in the same batch; the answer stands in
        its place.
        """
        plan = Groups(self._door).plan(
            GroupJoined, group_id, principals, actor=actor, cause=cause, after=after
        )
        return (await plan).append

    async def members(self, group_id: str, *, limit: int = 100, after: str | None = None) -> Members:
        """Members of a group by name, beyond the name `after`; needs the right to read the group."""
        return await Groups(self._door).members(group_id, limit=_checked_limit(limit), after=after)

    async def shared(self, group_id: str, *, limit: int = 100, after: str | None = None) -> SharedPage:
        """Artifacts whose newest policy lets the members read them, as far as the caller may read them too.

        `(items, count, next)`: `count` is that of all; ask on with `after=next`, None is the end. Needs the
        right to read the group.
        """
        return await Groups(self._door).list_shared(group_id, limit=_checked_limit(limit), after=after)

    async def groups_of(self, principal: str | None = None) -> tuple[str, ...]:
        """Ids of the groups that a principal (the caller unless said) is in now, sorted; of another's those
        that the caller may read."""
        return await Groups(self._door).of(principal)

    # -- inside

    def _place(self, ref: str) -> tuple[Door, Ref]:
        """Return where a ref is read, and as what. Errors: `AccessDenied`, `InvalidRequest`."""
        if self._door.space == MAIN_SPACE:
            ref = substitute(ref)
        parsed = Ref.parse(ref, main_allowed=self._door.space != MAIN_SPACE)
        if parsed.space is None:
            return self._door, parsed
        if self._main is None:
            raise AccessDenied(f"this world has no grant to read {parsed}")
        return self._main._place(str(parsed._replace(space=None)))

    async def _write(self, wish: WriteRequest) -> Artifact:
        if is_person(self._door.principal):
            key = await self._door.store.data_key(self._door.tenant)
            if key.scrub is not None:  # what a person types stands for nobody
                content = wish.content
                if is_small(content, bytes_max=LARGE_BYTES):
                    content = escape_json(content)
                else:
                    content = await asyncio.to_thread(escape_json, content)
                wish = replace(
                    wish,
                    content=content,
                    metadata=escape_json(wish.metadata),
                    interface=escape_json(wish.interface),
                )
        for _ in range(ATTEMPTS_MAX):
            (append, blobs, artifact), guard = await self._plan(wish)
            try:
                batch = Batch(appends=(append,), blobs=blobs, guard=guard)
                await self._door.store.append(batch)
                return artifact
            except (SequenceConflict, VersionConflict):
                continue  # the plan says whether that matters to this caller
        raise too_busy(wish.id)

    async def _plan(
        self,
        wish: WriteRequest,
        *,
        actor: str | None = None,
        cause: str | None = None,
        key: DataKey | None = None,
    ) -> tuple[Appends, _Guard]:
        door = self._door
        run_id = wish.provenance.run_id if wish.provenance is not None else None
        stream = artifact_stream(door.tenant, door.space, wish.id)
        # The head before the row: whatever comes between makes the append fail, never pass unseen.
        seq, _hash = await door.store.head(stream)
        standing = await door.find(wish.id)
        key = await door.key(standing, given=key, run_id=run_id)
        if wish.content is KEPT:
            await door.check_kept(standing)
        stage = door.stage()
        stage.seen[wish.id] = standing
        decision = None
        if standing is not None:
            gate = door.gate(stage)
            decision = await gate.decide(asked_right(wish), door.principal, standing)
        readable = await door.without_erased(standing)
        event, blobs = decide_write(
            wish,
            readable,
            decision,
            tenant=door.tenant,
            principal=door.principal,
            key=key,
            prepared=await prepare(wish, readable, tenant=door.tenant, key=key),
        )
        at_us = door.clock.now_us()
        draft = Draft(event, at_us, actor or door.actor, cause)
        content: object = LeftOut(media=event.media, size_bytes=event.size_bytes)
        if wish.content is not KEPT:
            content = await decoded_content(event.media, blobs[0].content)
        artifact = artifact_of(
            event,
            content=content,
            metadata=await self._metadata_of(wish.metadata, event.metadata),
            interface=await self._metadata_of(wish.interface, event.interface),
            created_us=standing.created_us if standing else at_us,
            written_us=at_us,
        )
        return (StreamAppend(stream, (draft,), seq), blobs, artifact), stage.guard_beyond_one()

    async def _metadata_of(self, wished: Mapping[str, Any] | None, ref: str | None) -> Any:
        return dict(wished) if wished is not None else await self._door.extra(ref)


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= PAGE_MAX:
        raise InvalidRequest("invalid limit", expected=f"1 to {PAGE_MAX}", got=limit)
    return limit


CheckRecipient = Callable[[str], Awaitable[None]]
"""Checks that a principal can be given money. Errors: `NotFound`."""


class Space:
    """The handle of a principal: `space.artifacts`, `space.ledger`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tenant: str,
        space: str,
        principal: str,
        artifacts: Artifacts,
        check_recipient: CheckRecipient | None = None,
    ) -> None:
        self.artifacts = artifacts
        self.ledger = Money(store, clock, tenant, space, principal, check_recipient)


class Money:
    """Balances and transfers of one principal."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tenant: str,
        space: str,
        principal: str,
        check_recipient: CheckRecipient | None = None,
    ) -> None:
        self._check_recipient = check_recipient
        self._store = store
        self._clock = clock
        self._tenant = tenant
        self._space = space
        self._principal = check_principal(principal)

    async def balance(self, asset: str = "scrip") -> int:
        """Return the balance in the asset's smallest unit."""
        account = account_of(self._principal)
        found = await account_balance(self._store, self._tenant, account, space=self._space, asset=asset)
        return found or 0

    async def transfer(self, *, to: str, amount: int, asset: str = "scrip") -> None:
        """Give money to another principal of the space.

        Errors: `InvalidRequest` for an amount that is no positive integer or a transfer to oneself;
        `InsufficientFunds`, and nothing moved; `NotFound` for a name that a world does not know.
        """
        target = account_of(check_principal(to))
        if isinstance(amount, bool) or not isinstance(cast(object, amount), int) or amount <= 0:
            raise InvalidRequest("amount", expected="a positive integer", got=repr(amount)[:80])
        if to == self._principal:
            raise InvalidRequest("a transfer needs two principals", got=to)
        if self._check_recipient is not None:
            await self._check_recipient(to)
        posting = Posting(account_of(self._principal), target, asset, amount)
        draft = Draft(MoneyTransferred(postings=(posting,)), self._clock.now_us(), self._principal)
        stream = money_stream(self._tenant, self._space)
        await self._store.append(Batch(appends=[StreamAppend(stream, [draft])]))
