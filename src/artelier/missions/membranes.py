"""Membranes: shared pools of context. Members read what is shared there, nothing else of other agents.

A membrane is an artifact of kind `membrane`; its members are a group, and an artifact is shared in it when
its access policy lists that group. So what an agent may read is decided where every access is
(`artifacts/access.py`), and nothing here decides it a second time. `HeldStage` refuses the deletion of
an agent, task or membrane that unfinished work depends on, inside the transaction of the deletion: a task
that is assigned in the same instant is seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from artelier.artifacts import Access, Artifact, Artifacts, Provenance, StoreStage, group_of
from artelier.artifacts.queries import Standing, ids_between
from artelier.errors import AccessDenied, Conflict, InvalidArtifact, InvalidRequest, NotFound, VersionConflict
from artelier.ids import MAIN_SPACE, OPERATOR, check_artifact_id
from artelier.log import Batch, Blob, StreamAppend, Tx
from artelier.missions.queries import HELD_KINDS, open_task_of
from artelier.money import format_usd, parse_usd

if TYPE_CHECKING:
    from artelier.artifacts.groups.membership import SharedItem
    from artelier.kernel.tenants.registry import TenantScope


KIND = "membrane"

STEERING = "/steering"
"""What the id of a membrane's steering adds to its own."""

NAME_CHARS_MAX = 80
PAGE_MAX = 1_000
SHARED_SHOWN = 100
"""Artifacts in one `show`; `shared_next` is where `Artifacts.shared` goes on."""
ATTEMPTS_MAX = 20
"""How often sharing is decided anew because the artifact had a new version meanwhile."""

_BUDGET = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class MembraneView:
    """A membrane, as people may read it."""

    id: str
    name: str
    version: int
    members: list[str]
    """Principals, by name."""
    shared_count: int
    steering: str | None
    """Id of its steering artifact; None if it has none."""
    budget_usd: str | None
    """Of all members' work together; None for none."""
    used_microusd: int
    """What counts against its budget by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembraneDetail(MembraneView):
    """A membrane with the first artifacts, by id, that are shared in it."""

    shared: tuple[SharedItem, ...]
    shared_next: str | None
    """Where `Artifacts.shared` goes on; None if these are all."""


class Membranes:
    """The membranes of a tenant. `by` is who acts, as events say it; rights are those of `principal`."""

    def __init__(self, desk: TenantScope) -> None:
        self._desk = desk

    # -- what is there

    async def create(
        self,
        id: str,
        *,
        name: str,
        members: Iterable[str] = (),
        budget_usd: str | int | Decimal | None = None,
        by: str = OPERATOR,
    ) -> MembraneDetail:
        """Make a membrane with its members, as one batch; what `show` says of it. Its budget caps what the
        work of its members costs together, from then on.

        Errors: `InvalidRequest`; `VersionConflict` if the id is taken.
        """
        from artelier.kernel.run_limits import cap_changed, plan_cap

        services, tenant, scope = self._desk.services, self._desk.id, f"membrane:{id}"
        append, blobs = await self.plan_create(id, name=name, members=members, budget_usd=budget_usd, by=by)
        appends = [append]
        if (budget := checked_budget(budget_usd)) is not None:
            cap = parse_usd(budget)
            appends.append(await plan_cap(services, tenant, scope, unit="usd", cap=cap, by=by))
        await services.store.append(Batch(appends=appends, blobs=blobs))
        if budget is not None:
            cap_changed(services, tenant, scope)
        return await self.show(id)

    async def plan_create(
        self,
        id: str,
        *,
        name: str,
        members: Iterable[str] = (),
        budget_usd: str | int | Decimal | None = None,
        by: str = OPERATOR,
        provenance: Provenance | None = None,
    ) -> tuple[StreamAppend, list[Blob]]:
        """All of `create` but the append and the cap, for a caller with a batch of its own."""
        artifacts = self._as(OPERATOR, by)
        group = group_of(id)
        check_artifact_id(id + STEERING)  # there must be room for it
        append, blobs, _ = await artifacts.plan_write(
            id,
            kind=KIND,
            content={"name": checked_name(name), "budget_usd": checked_budget(budget_usd)},
            access={"allow": {"read": [group]}},
            expected_version=0,
            provenance=provenance,
        )
        if joining := tuple(members):
            append = await artifacts.plan_join(id, *joining, after=append)
        return append, blobs

    async def list(
        self, mission: str | None = None, *, limit: int = 100, after: str | None = None
    ) -> list[MembraneView]:
        """Membranes, of one mission by id or else all in the order of their making, beyond the id `after`."""
        artifacts = self._as(OPERATOR)
        if mission is None:
            page = await artifacts.list(kind=KIND, limit=limit, after=after)
            ids = [summary.id for summary in page]
        else:
            ids = await self._ids_of(check_artifact_id(mission), limit=limit, after=after)
        found: list[MembraneView] = []
        for id_ in ids:
            try:
                found.append(await self._view(artifacts, id_))
            except (AccessDenied, NotFound):
                continue  # somebody else's, or deleted right now
        return found

    async def show(self, id: str) -> MembraneDetail:
        """Return what `list` says of it, with what is shared in it.

        Errors: `NotFound`, `AccessDenied`, `InvalidRequest` for what is no membrane.
        """
        artifacts = self._as(OPERATOR)
        view = await self._view(artifacts, id)
        page = await artifacts.shared(id, limit=SHARED_SHOWN)
        view = replace(view, shared_count=page.count)
        return MembraneDetail(**asdict(view), shared=page.items, shared_next=page.next)

    # -- who is in it

    async def join(self, id: str, agent: str, by: str = OPERATOR, *, principal: str = OPERATOR) -> None:
        """Let an agent read what the membrane shares, from now on. Errors: see `Artifacts.join`."""
        await self._as(principal, by).join(id, agent)

    async def leave(self, id: str, agent: str, by: str = OPERATOR, *, principal: str = OPERATOR) -> None:
        """Take that right away, at once. Errors: see `Artifacts.leave`."""
        await self._as(principal, by).leave(id, agent)

    async def access_for(self, agent: str) -> dict[str, Any]:
        """The access policy of what an agent makes: people and all members of its membranes may read it."""
        groups = await self._desk.as_principal(agent).artifacts.groups_of()
        return {"allow": {"read": [OPERATOR, *map(group_of, groups)]}}

    # -- what is shared in it

    async def share(
        self, id: str, artifact_id: str, by: str = OPERATOR, *, principal: str = OPERATOR
    ) -> Artifact:
        """Let the members read an artifact: a new version of it, the same but for its policy.

        Errors: `NotFound`; `AccessDenied` unless `principal` owns it; `Conflict` if it is shared already;
        `InvalidRequest` for a policy that is neither `private` nor a list.
        """
        artifacts = self._as(principal, by)
        _check_kind(id, (await artifacts.access(id, "read")).granted().kind)
        group = group_of(id)

        def add_group(readers: list[str]) -> list[str]:
            if group in readers:
                raise Conflict(f"{artifact_id} is shared in {id} already")
            return [*readers, group]

        return await _govern(artifacts, artifact_id, add_group)

    async def unshare(
        self, id: str, artifact_id: str, by: str = OPERATOR, *, principal: str = OPERATOR
    ) -> Artifact:
        """Take the members' right to read an artifact away. Errors: those of `share`."""
        group = group_of(id)

        def remove_group(readers: list[str]) -> list[str]:
            if group not in readers:
                raise Conflict(f"{artifact_id} is not shared in {id}")
            return [reader for reader in readers if reader != group]

        return await _govern(self._as(principal, by), artifact_id, remove_group)

    # -- inside

    def _as(self, principal: str, by: str | None = None) -> Artifacts:
        artifacts = self._desk.as_principal(principal).artifacts
        return artifacts if by is None else artifacts.by(by)

    async def _ids_of(self, mission: str, *, limit: int, after: str | None) -> list[str]:
        if not 1 <= limit <= PAGE_MAX:
            raise InvalidRequest("invalid limit", expected=f"1 to {PAGE_MAX}", got=limit)
        first, behind = f"{mission}/", f"{mission}0"  # 0 is the character after /
        store, low = self._desk.services.store, max(after or "", first)
        return await ids_between(
            store, self._desk.id, MAIN_SPACE, kind=KIND, low=low, high=behind, limit=limit
        )

    async def _view(self, artifacts: Artifacts, id: str) -> MembraneView:
        from artelier.kernel.run_limits import used_of

        membrane = await artifacts.look(check_artifact_id(id), price_max=0)
        _check_kind(id, membrane.kind)
        members = await artifacts.members(id, limit=PAGE_MAX)
        used = await used_of(self._desk.services, self._desk.id, f"membrane:{id}")
        content: Any = membrane.content
        if not isinstance(content, dict):
            content = {"name": content}  # it was erased
        content = cast("dict[str, Any]", content)
        name, budget = content.get("name"), content.get("budget_usd")
        return MembraneView(
            id=id,
            name=name[:NAME_CHARS_MAX] if isinstance(name, str) and name else id,
            version=membrane.version,
            members=[member.principal for member in members],
            shared_count=(await artifacts.shared(id, limit=1)).count,
            steering=await _steering(artifacts, id),
            budget_usd=budget if isinstance(budget, str) else None,
            used_microusd=used["usd"]["used"],
        )


async def _steering(artifacts: Artifacts, id: str) -> str | None:
    try:
        verdict = await artifacts.access(id + STEERING, "read")
    except InvalidRequest:  # an id so long that none can be there
        return None
    return id + STEERING if verdict.allowed else None


async def _govern(artifacts: Artifacts, id: str, change: Callable[[list[str]], list[str]]) -> Artifact:
    """A new version of an artifact with the same content and other readers."""
    for _ in range(ATTEMPTS_MAX):
        _lists(id, (await artifacts.access(id, "govern")).granted().access)
        stands = await artifacts.read(id)
        lists = {right: list(names) for right, names in _lists(id, stands.access).items()}
        lists["read"] = change(lists.get("read", []))
        kept = Provenance(derived_from=stands.provenance.derived_from)
        try:
            return await artifacts.write(
                id,
                content=stands.content,
                access={"allow": lists},
                provenance=kept,
                expected_version=stands.version,
            )
        except VersionConflict:
            continue
    raise VersionConflict(f"artifact {id} changes faster than it can be shared", got=ATTEMPTS_MAX)


def _lists(id: str, access: Access | None) -> dict[str, tuple[str, ...]]:
    if access is not None and access.policy == "allow":
        return access.allow
    if access is not None and access.policy == "private":
        return {}
    policy = access.policy if access is not None else "broken"
    raise InvalidRequest(
        f"the policy of {id} has no list that a membrane can be added to",
        expected="private, or {allow: {right: [principal]}}",
        got=policy,
        hint="Its members may read it already."
        if policy in ("owner_writes", "public")
        else "Its owner can give it the policy `private` first.",
    )


def _check_kind(id: str, kind: str) -> None:
    if kind != KIND:
        raise InvalidRequest(f"{id} is no membrane", expected=f"an artifact of kind {KIND}", got=kind)


def checked_name(value: object) -> str:
    """Errors: `InvalidArtifact`."""
    name = value.strip() if isinstance(value, str) else ""
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        raise InvalidArtifact(
            "a membrane needs a name", expected=f"1-{NAME_CHARS_MAX} characters", got=repr(value)[:120]
        )
    return name


def checked_budget(value: object) -> str | None:
    """Dollars as they are stored. Errors: `InvalidArtifact`."""
    if value is None:
        return None
    text = str(value) if isinstance(value, str | int | Decimal) else ""
    if not _BUDGET.fullmatch(text):
        raise InvalidArtifact(
            "the budget of a membrane is no amount in USD",
            expected='text such as "1.50", or null',
            got=repr(value)[:120],
        )
    return format_usd(parse_usd(text))


class HeldStage(StoreStage):
    """Decisions over the main space of a tenant, where missions are."""

    def guard_for(self, action: str, standing: Standing) -> Callable[[Tx], None] | None:
        guard = super().guard_for(action, standing)
        if action != "delete" or standing.kind not in HELD_KINDS:
            return guard

        def guard_held(tx: Tx) -> None:
            if guard is not None:
                guard(tx)
            _check_unused(tx, self.tenant, standing.kind, standing.id)

        return guard_held


def _check_unused(tx: Tx, tenant: str, kind: str, id: str) -> None:
    """Errors: `Conflict` naming the task that stands on it."""
    found = open_task_of(tx, tenant, kind, id)
    if found is None:
        return
    task, agent = found
    if kind == "task":
        raise Conflict(
            f"task {id} cannot be deleted: it is not over",
            expected="a task that has ended",
            got="one that is pending or at work",
            hint=f"End it first: artelier tasks cancel {id}",
        )
    if kind == "agent":
        raise Conflict(
            f"agent {id} cannot be deleted: task {task} is assigned to it",
            expected="an agent without tasks that are not over",
            got=task,
            hint="Assign its tasks to another agent, or cancel them first.",
        )
    raise Conflict(
        f"membrane {id} cannot be deleted: its member {agent} works on task {task}",
        expected="a membrane of which no member is at work",
        got=agent,
        hint="Let its members leave first, or wait until their tasks are over.",
    )
