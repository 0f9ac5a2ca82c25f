"""Invocations on the store: the price is held first, and everything the code did is appended as one batch.

A guard lets the batch through only if all that the code looked at still stands as it was seen; else the code
is run again, a few times at most. What a process that died had held is given back when its payer comes next.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from artelier.artifacts.access import PRICE_MAX, Bill, account_of, check_principal
from artelier.artifacts.content import canonical_json, decode_content
from artelier.artifacts.contracts import Decisions, judge, part_of, version_at
from artelier.artifacts.events import ArtifactHeld, ArtifactInvoked, artifact_stream, money_stream
from artelier.artifacts.invocation_tree import (
    Admitted,
    BudgetSpent,
    Call,
    Free,
    InvocationFailed,
    InvocationLimits,
    MemorySearch,
    Service,
    Tree,
    check_price_max,
    from_hold,
    principal_of,
    to_hold,
)
from artelier.artifacts.queries import abandoned_holds
from artelier.artifacts.ref import Ref, check_new_id
from artelier.artifacts.space_session import Door, too_busy
from artelier.artifacts.working_state import Decided, StoreStage, Working
from artelier.artifacts.write_decision import WriteRequest, asked_right, decide_write
from artelier.errors import Conflict, InsufficientFunds, InvalidArguments, InvalidArtifact, InvalidRequest
from artelier.ids import MAIN_SPACE, fresh_secret
from artelier.ledger import MoneyTransferred, Posting
from artelier.log import Batch, Blob, BlobRef, Draft, Stream, StreamAppend, make_blob
from artelier.money import SCRIP

# --------------------------------------------------------------------------- code scope
# The scope of executable code. Every helper acts as the artifact, never as its caller.
#
# The principal is bound when a run begins; nothing that code passes can change it. Values go through the
# sandbox's wall in both directions. Of an error only its code passes and, if it addresses agents, its
# message.

Helper = Callable[..., Awaitable[Any]]


def in_scope(tree: Tree, working: Working, call: Call) -> Mapping[str, Helper]:
    """The functions in scope of one invocation."""
    scope = _CodeScope(tree, working, call)
    return {
        name: _guard(tree, name, function)
        for name, function in (
            ("read", scope.read),
            ("write", scope.write),
            ("invoke", scope.invoke),
            ("pay", scope.pay),
            ("balance", scope.balance),
            ("search_memory", scope.search_memory),
        )
    }


def _guard(tree: Tree, name: str, function: Helper) -> Helper:
    """Count the call, and say in words for agents what is wrong with it."""

    async def helper(*args: Any, **kwargs: Any) -> object:
        tree.spend_call()
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(f"{name}(): {error}") from None
        try:
            return await function(*args, **kwargs)
        except InvalidRequest as error:
            if error.audience == "agent":
                raise
            raise InvalidArguments(f"{error.message}; expected {error.expected}") from None

    return helper


class _CodeScope:
    def __init__(self, tree: Tree, working: Working, call: Call) -> None:
        self._tree = tree
        self._working = working
        self._call = call
        self._principal = principal_of(call.id)
        self._nested = 0

    async def read(self, ref: str, price_max: int | None = None) -> object:
        """Content of a version or part, paid for by the artifact."""
        working, parsed = self._working, Ref.parse(ref)
        verdict = await judge(
            working,
            self._tree.gate(working),
            parsed,
            "read",
            self._principal,
            price_max=check_price_max(price_max),
        )
        standing = verdict.granted()
        at = version_at(standing, parsed)
        if at.media == "bytes" or at.size_bytes > self._tree.limits.crossing_bytes:
            raise InvalidArtifact(
                f"the content of {parsed.id} cannot enter the sandbox: it is "
                + ("bytes" if at.media == "bytes" else f"{at.size_bytes} bytes long")
            )
        content = decode_content(at.media, await working.blob(at.content))
        content = await working.whole(standing, content, part=parsed.part)
        content = part_of(standing, content, parsed.part)
        charge = verdict.charge()
        if charge is not None:
            await working.apply(charge, actor=self._principal)
        return content

    async def write(
        self,
        id: str,
        content: object = None,
        kind: str | None = None,
        access: object = None,
        prices: object = None,
        expected_version: int | None = None,
        metadata: Any = None,
        interface: object = None,
    ) -> dict[str, Any]:
        """A new version; the artifact becomes owner of what it makes."""
        working, tree = self._working, self._tree
        wish = WriteRequest(
            id=check_new_id(id),
            content=content,
            kind=kind,
            access=access,
            prices=prices,
            expected_version=expected_version,
            metadata=metadata,
            interface=interface,
        )
        standing = await working.standing(wish.id)
        decision = None
        if standing is not None:
            decision = await tree.gate(working).decide(asked_right(wish), self._principal, standing)
        event, blobs = decide_write(
            wish,
            standing,
            decision,
            tenant=working.tenant,
            principal=self._principal,
            key=await working.key(standing),
        )
        self._count_write(sum(len(blob.content) for blob in blobs))
        await working.apply(event, actor=self._principal, blobs=blobs)
        return {"id": event.id, "version": event.version}

    def _count_write(self, size_bytes: int) -> None:
        tree = self._tree
        tree.writes += 1
        tree.written_bytes += size_bytes
        if tree.writes > tree.limits.writes or tree.written_bytes > tree.limits.written_bytes:
            raise InvocationFailed(
                f"one invocation writes at most {tree.limits.writes} versions"
                f" and {tree.limits.written_bytes} bytes",
                reason="writes",
            )

    async def invoke(self, id: str, /, *, price_max: int | None = None, **args: Any) -> object:
        """The result of another executable artifact, whose caller is this one."""
        self._nested += 1
        nested = Call(
            caller=self._principal,
            id=check_new_id(id),
            args=args,
            price_max=check_price_max(price_max),
            depth=self._call.depth + 1,
            place=f"{self._call.place}.{self._nested}",
        )
        try:
            return await self._tree.perform(self._working, nested)
        except InvocationFailed as failure:
            self._tree.origin = failure.message
            raise

    async def pay(self, to: str, amount: int) -> None:
        """Give scrip of the artifact to a principal."""
        if type(amount) is not int or not 0 < amount <= PRICE_MAX:
            raise InvalidArguments("invalid amount", expected="scrip, a number from 1")
        if check_principal(to) == self._principal:
            raise InvalidArguments("a payment needs two principals")
        posting = Posting(account_of(self._principal), account_of(to), SCRIP, amount)
        await self._working.apply(MoneyTransferred(postings=(posting,)), actor=self._principal)

    async def balance(self) -> int:
        """Scrip of the artifact."""
        return await self._working.balance(account_of(self._principal))

    async def search_memory(self, *args: Any, **kwargs: Any) -> object:
        """Return what a higher layer finds for the artifact."""
        search = self._tree.search_memory
        if search is None:
            raise InvalidArguments("there is no memory to search here")
        return await search(self._working, self._principal, self._tree, *args, **kwargs)


ATTEMPTS_MAX = 3
"""How often an invocation is run anew because what it looked at was changed meanwhile."""

SERVICE_ATTEMPTS_MAX = 100
"""Of a service: it runs in microseconds, and fifty callers at once need fifty."""

HOLD_US = 120 * 1_000_000
"""How long a price stays held at most; far above what limits of time and waits for workers add up to."""

RELEASES_MAX = 10
"""Abandoned holds that one invocation gives back."""


class InvocationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A successful invocation."""

    result: Any
    """JSON data."""
    version: int
    price: int
    """Scrip that went to the owner."""
    payer: str
    calls: int
    """Calls of helpers over the whole tree."""
    wall: dict[str, str]
    """What ended by the wall clock within the tree, by place; give it to a replay as `recorded`."""


class HeldPrice(NamedTuple):
    """A price on its way."""

    id: str
    amount: int


class Invoker:
    """Invokes as the principal of a door."""

    def __init__(
        self,
        door: Door,
        *,
        limits: InvocationLimits | None = None,
        search_memory: MemorySearch | None = None,
        services: Mapping[str, Service] | None = None,
    ) -> None:
        self._door = door
        self._services = services
        self._limits = limits
        self._search_memory = search_memory

    async def invoke(
        self,
        id: str,
        args: Mapping[str, Any],
        *,
        price_max: int | None = None,
        recorded: Mapping[str, str] | None = None,
    ) -> InvocationOutcome:
        """Errors: `NotFound`, `AccessDenied`, `InsufficientFunds`, `InvalidArtifact`, `InvalidArguments`;
        `InvocationFailed`; `VersionConflict` if what the code looks at never stands still."""
        await self.release_abandoned()
        call = Call(caller=self._door.principal, id=id, args=args, price_max=price_max)
        is_service = id in (self._services or {})
        for _ in range(SERVICE_ATTEMPTS_MAX if is_service else ATTEMPTS_MAX):
            outcome = await self._attempt(call, recorded)
            if outcome is not None:
                return outcome
        raise too_busy(id, attempts=SERVICE_ATTEMPTS_MAX if is_service else ATTEMPTS_MAX)

    async def _attempt(self, call: Call, recorded: Mapping[str, str] | None) -> InvocationOutcome | None:
        """None if something was changed meanwhile; then nothing is left of the attempt."""
        stage, step = self._door.stage(), self._door.decisions
        limits = self._limits or InvocationLimits()
        decisions = Decisions(
            facts=step.facts if step else None,
            asks_max=limits.calls,
            time_ms=limits.time_ms,
            recorded=recorded,
        )
        tree = Tree(
            self._door.interpreter,
            in_scope,
            limits=limits,
            decisions=decisions,
            search_memory=self._search_memory,
            services=self._services,
            seed=call.id,
        )
        admitted = await tree.admit(stage, call)
        grounds = tuple(stage.seen)
        held = hold_of(admitted)
        working = Working(stage)
        is_decided = False
        try:
            await self._hold(admitted, held)
            result = await tree.run(working, admitted)
            if isinstance(result, Free):
                admitted = admitted._replace(verdict=admitted.verdict._replace(price=0))
                result = result.value
            is_decided = True
            await self._append(stage, tree, admitted, held, working=working, result=result, grounds=grounds)
        except (InvocationFailed, BudgetSpent) as error:
            failure = tree.failure(error, call)
            await self._fail(stage, tree, admitted, held, failure)
            raise failure from None
        except (Conflict, InsufficientFunds):
            if tree.started:
                await self._release(admitted, held, "conflict")
            if is_decided:
                return None
            raise  # what a service says is an answer, and would be the same again
        except BaseException:
            # The host cannot go on, or the caller was cancelled; its money must not stay behind.
            await self._release(admitted, held, "cancelled")
            raise
        verdict = admitted.verdict
        return InvocationOutcome(
            result=result,
            version=admitted.standing.version,
            price=verdict.price,
            payer=verdict.payer,
            calls=tree.calls,
            wall=dict(tree.decisions.wall),
        )

    def _hold_us(self) -> int:
        """Return how long a price stays held: in a world, whose time is the tick, until the tick after
        next.
        """
        return HOLD_US if self._door.space == MAIN_SPACE else 1

    async def _hold(self, admitted: Admitted, held: HeldPrice | None) -> None:
        """Errors: `InsufficientFunds`, and nothing moved."""
        if held is None:
            return
        verdict, call = admitted.verdict, admitted.call
        event = ArtifactHeld(
            id=call.id,
            hold=held.id,
            caller=call.caller,
            payer=verdict.payer,
            amount=held.amount,
            until_us=self._door.clock.now_us() + self._hold_us(),
            postings=(to_hold(verdict.payer, held.amount),),
        )
        await self._send([Decided(event, self._door.actor)])

    async def _fail(
        self,
        stage: StoreStage,
        tree: Tree,
        admitted: Admitted,
        held: HeldPrice | None,
        failure: InvocationFailed,
    ) -> None:
        try:
            await self._append(stage, tree, admitted, held, failure=failure)
        except BaseException:
            await self._release(admitted, held, "cancelled")
            raise

    async def _append(
        self,
        stage: StoreStage,
        tree: Tree,
        admitted: Admitted,
        held: HeldPrice | None,
        *,
        working: Working | None = None,
        result: object = None,
        failure: InvocationFailed | None = None,
        grounds: tuple[str, ...] = (),
    ) -> None:
        """Everything the code did and its end, as one batch; of a failure the end alone."""
        call, verdict = admitted.call, admitted.verdict
        blobs: list[Blob] = list(working.blobs) if working else []
        said = failure.message if failure else result
        key = await stage.key()

        def keep(value: object) -> BlobRef | None:
            if value is None or value == {}:
                return None
            ref, blob = make_blob(self._door.tenant, key, canonical_json(value))
            blobs.append(blob)
            return ref

        owner = admitted.standing.owner
        receiver = owner if verdict.price and not failure else verdict.payer
        postings: tuple[Posting, ...] = ()
        if held is not None:
            postings = (from_hold(verdict.payer, receiver, held.amount),)
        if not failure:
            postings += Bill.movement(verdict.payer, owner, verdict.price, verdict.royalty)[1:]
        event = ArtifactInvoked(
            id=call.id,
            version=admitted.standing.version,
            caller=call.caller,
            outcome="failed" if failure else "done",
            reason=failure.reason if failure else "",
            arguments=keep(admitted.args),
            result=keep(said),
            price=0 if failure else verdict.price,
            payer=verdict.payer if held else "",
            hold=held.id if held else "",
            calls=tree.calls,
            wall=dict(tree.decisions.wall),
            postings=postings,
        )
        changes = list(working.changes) if working else []
        if verdict.licence is not None and not failure and (used := verdict.charge()) is not None:
            changes.append(Decided(used, self._door.actor))
        # Without effects, it depends only on what let it begin.
        ids = stage.seen if changes else grounds
        await self._send(
            [*changes, Decided(event, self._door.actor)],
            blobs=blobs,
            stage=None if failure else stage,
            ids=ids,
        )

    async def _release(self, admitted: Admitted, held: HeldPrice | None, reason: str) -> None:
        """Batches are applied in order: a price that is not held was never held, or is settled."""
        if held is not None:
            call, payer = admitted.call, admitted.verdict.payer
            with suppress(Conflict, InsufficientFunds):
                await self._give_back(held, id=call.id, caller=call.caller, payer=payer, reason=reason)

    async def _give_back(self, held: HeldPrice, *, id: str, caller: str, payer: str, reason: str) -> None:
        event = ArtifactInvoked(
            id=id,
            version=0,
            caller=caller,
            outcome="failed",
            reason=reason,
            payer=payer,
            hold=held.id,
            postings=(from_hold(payer, payer, held.amount),),
        )
        await self._send([Decided(event, self._door.actor)])

    async def release_abandoned(self) -> int:
        """Give back what this principal has held for invocations that cannot be at work any more."""
        door = self._door
        now_us = door.clock.now_us()
        rows = await abandoned_holds(
            door.store, door.tenant, door.space, door.principal, before_us=now_us, limit=RELEASES_MAX
        )
        for hold, id_, caller, payer, amount in rows:
            try:
                await self._give_back(
                    HeldPrice(hold, amount), id=id_, caller=caller, payer=payer, reason="abandoned"
                )
            except (Conflict, InsufficientFunds):
                continue  # somebody else has just given it back
        return len(rows)

    async def _send(
        self,
        changes: list[Decided],
        *,
        blobs: list[Blob] | None = None,
        stage: StoreStage | None = None,
        ids: Iterable[str] = (),
    ) -> None:
        door, at_us = self._door, self._door.clock.now_us()
        appends: list[StreamAppend] = []
        for stream, drafts in _by_stream(changes, door.tenant, door.space, at_us):
            appends.append(StreamAppend(stream, drafts))
        guard = stage.guard_unchanged(ids) if stage is not None else None
        await door.store.append(Batch(appends=appends, blobs=blobs or (), guard=guard))


def hold_of(admitted: Admitted) -> HeldPrice | None:
    """Return what must be set aside before an invocation; None if it is free."""
    price = admitted.verdict.price
    return HeldPrice(fresh_secret(9).hex(), price) if price else None


def _by_stream(
    changes: list[Decided], tenant: str, space: str, at_us: int
) -> list[tuple[Stream, list[Draft]]]:
    """Each event in the stream of its artifact, payments in the tenant's; the order stays."""
    found: list[tuple[Stream, list[Draft]]] = []
    for change in changes:
        id_ = getattr(change.data, "id", None)
        if isinstance(id_, str):
            stream = artifact_stream(tenant, space, id_)
        else:
            stream = money_stream(tenant, space)
        if not found or found[-1][0] != stream:
            found.append((stream, []))
        found[-1][1].append(Draft(change.data, at_us, change.actor))
    return found
