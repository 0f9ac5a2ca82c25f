"""Groups: what one principal does with the members of a `membrane` artifact, and with what is shared there.

A group is named `membrane:<id>` in `allow` lists, and stands there for whoever is a member at that moment.
Who may write the group's artifact may change its members; who may read it may see them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from artelier.artifacts.access import check_principal
from artelier.artifacts.contracts import permit
from artelier.artifacts.events import ArtifactWritten, GroupJoined, GroupLeft, artifact_stream
from artelier.artifacts.groups.queries import (
    GROUP_KIND,
    already_in,
    count_shared,
    group_ids,
    has_member,
    members_of,
    not_in,
)
from artelier.artifacts.queries import Standing, load_shared
from artelier.artifacts.ref import Ref, check_new_id, safe_repr
from artelier.artifacts.space_session import ATTEMPTS_MAX, Door, too_busy
from artelier.errors import CorruptStore, InvalidRequest, NotFound, SequenceConflict
from artelier.ids import MAIN_SPACE
from artelier.log import Batch, Draft, StreamAppend, Tx

TITLE_CHARS_MAX = 200

Change = type[GroupJoined] | type[GroupLeft]


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group."""

    principal: str
    joined_us: int


class SharedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact that the members of a group may read."""

    id: str
    kind: str
    version: int
    owner: str
    title: str | None = None
    """`title` of its metadata, cut."""


class SharedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what a group shares, as far as the asker may read it."""

    items: tuple[SharedItem, ...]
    count: int
    """All that the group shares, whoever asks."""
    next: str | None
    """Ask on with it as `after`; None: that was all."""


class PlannedAppend(NamedTuple):
    """An append, and what it rests on beside the head that it expects."""

    append: StreamAppend
    guard: Callable[[Tx], None] | None


class Groups:
    """The groups of a door's space, as its principal."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def change(self, change: Change, group: str, principal: str) -> None:
        """Append a change. Errors: those of `plan`; `VersionConflict` if the group never stands still."""
        for _ in range(ATTEMPTS_MAX):
            append, guard = await self.plan(change, group, (principal,))
            try:
                await self._door.store.append(Batch(appends=(append,), guard=guard))
                return
            except SequenceConflict:
                continue
        raise too_busy(group)

    async def plan(
        self,
        change: Change,
        group: str,
        principals: tuple[str, ...],
        *,
        actor: str | None = None,
        cause: str | None = None,
        after: StreamAppend | None = None,
    ) -> PlannedAppend:
        """The append of a change. `after` is the group's own write in the same batch, which it replaces.

        Errors: `NotFound`, `AccessDenied`, `InvalidRequest`, `Conflict`; `LimitReached` when appended.
        """
        door = self._door
        stream = artifact_stream(door.tenant, door.space, self._check_group_id(group))
        if not principals or len(set(principals)) != len(principals):
            raise InvalidRequest("members of a group", expected="each principal once")
        for principal in principals:
            check_principal(principal)
        drafts = tuple(
            Draft(change(group=group, principal=principal), door.clock.now_us(), actor or door.actor, cause)
            for principal in principals
        )
        if after is not None:
            written = after.events[0].data if isinstance(after.events[0], Draft) else None
            if after.stream != stream or not isinstance(written, ArtifactWritten):
                raise InvalidRequest("`after` is no write of this group", got=after.stream.local)
            _check_kind(group, written.kind)
            if written.version == 1:  # who makes it owns it, and it has no members yet
                return PlannedAppend(_with(after, drafts), None)
        # The head before the rows: whatever comes between makes the append fail, never pass unseen.
        seq, _hash = await door.store.head(stream)
        stage = door.stage()
        verdict = await permit(stage, door.gate(stage), Ref(group), "write", door.principal)
        _check_kind(group, verdict.granted().kind)
        for principal in principals:
            is_member = await self._has(group, principal)
            if is_member != (change is GroupLeft):
                raise (already_in if is_member else not_in)(group, principal)
        append = _with(after, drafts) if after else StreamAppend(stream, drafts, seq)
        return PlannedAppend(append, stage.guard_beyond_one())

    async def members(self, group: str, *, limit: int, after: str | None) -> list[GroupMember]:
        """Members in the order of their names. Errors: `NotFound`, `AccessDenied`, `InvalidRequest`."""
        door, _ = self._door, await self._readable(group)
        rows = await members_of(door.store, door.tenant, door.space, group, after=after or "", limit=limit)
        return [GroupMember(principal=name, joined_us=joined_us) for name, joined_us in rows]

    async def list_shared(self, group: str, *, limit: int, after: str | None) -> SharedPage:
        """Return what members may read by being members, in the order of ids, as far as the asker may too.

        That they may read the group itself is not among it.
        A page may hold fewer than `limit` although more follow. Errors: those of `members`.
        """
        door, _ = self._door, await self._readable(group)
        here = (door.tenant, door.space, group)
        total = await count_shared(door.store, *here)
        found = await load_shared(door.store, *here, after=after or "", limit=limit)
        stage = door.stage()
        gate = door.gate(stage)
        items = [
            await self._item(one) for one in found if (await gate.decide("read", door.principal, one)).allowed
        ]
        following = found[-1].id if len(found) == limit else None
        return SharedPage(items=tuple(items), count=total, next=following)

    async def of(self, principal: str | None) -> tuple[str, ...]:
        """Ids of the groups that a principal is in, sorted: all of one's own, of others what one may read."""
        door = self._door
        if door.space != MAIN_SPACE:
            return ()
        if principal is None or principal == door.principal:
            return await group_ids(door.store, door.tenant, door.principal)
        ids = await group_ids(door.store, door.tenant, check_principal(principal))
        readable = await door.may("read", ids)
        return tuple(id_ for id_ in ids if id_ in readable)

    # -- inside

    def _check_group_id(self, group: str) -> str:
        if self._door.space != MAIN_SPACE:
            raise InvalidRequest("a world has no groups", expected="the main space", got=safe_repr(group))
        return check_new_id(group)

    async def _readable(self, group: str) -> Standing:
        standing = await self._door.permit_action(self._check_group_id(group), "read")
        _check_kind(group, standing.kind)
        return standing

    async def _has(self, group: str, principal: str) -> bool:
        door = self._door
        return await has_member(door.store, door.tenant, door.space, group, principal)

    async def _item(self, standing: Standing) -> SharedItem:
        title: object = None
        try:
            about: Any = await self._door.extra(standing.at.metadata if standing.at else None)
        except (NotFound, CorruptStore):
            about = None  # erased or damaged; `verify` is who names it
        if isinstance(about, Mapping):
            title = cast("Mapping[str, Any]", about).get("title")
        return SharedItem(
            id=standing.id,
            kind=standing.kind,
            version=standing.version,
            owner=standing.owner,
            title=title[:TITLE_CHARS_MAX] if isinstance(title, str) else None,
        )


def _check_kind(group: str, kind: str) -> None:
    if kind != GROUP_KIND:
        raise InvalidRequest(f"{group} is no group", expected=f"an artifact of kind {GROUP_KIND}", got=kind)


def _with(append: StreamAppend, drafts: tuple[Draft, ...]) -> StreamAppend:
    return StreamAppend(append.stream, (*append.events, *drafts), append.expected_seq)
