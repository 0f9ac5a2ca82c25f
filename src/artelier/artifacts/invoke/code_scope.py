"""The scope of executable code. Every helper acts as the artifact, never as its caller.

The principal is bound when a run begins; nothing that code passes can change it. Values go through the
sandbox's wall in both directions. Of an error only its code passes and, if it addresses agents, its message.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from artelier.artifacts.access.bill import PRICE_MAX, account_of
from artelier.artifacts.access.decision import judge, part_of, version_at
from artelier.artifacts.access.rules import check_principal
from artelier.artifacts.content import decode_content
from artelier.artifacts.invoke.invocation_tree import (
    Call,
    InvocationFailed,
    Tree,
    check_price_max,
    principal_of,
)
from artelier.artifacts.ref import Ref, check_new_id
from artelier.artifacts.write.state import Working
from artelier.artifacts.write.write_decision import WriteRequest, asked_right, decide_write
from artelier.errors import InvalidArguments, InvalidArtifact, InvalidRequest
from artelier.ledger import MoneyTransferred, Posting
from artelier.money import SCRIP

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

    async def helper(*args: Any, **kwargs: Any) -> Any:
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

    async def read(self, ref: str, price_max: int | None = None) -> Any:
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
        content: Any = None,
        kind: str | None = None,
        access: Any = None,
        prices: Any = None,
        expected_version: int | None = None,
        metadata: Any = None,
        interface: Any = None,
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

    async def invoke(self, id: str, /, *, price_max: int | None = None, **args: Any) -> Any:
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

    async def search_memory(self, *args: Any, **kwargs: Any) -> Any:
        """Return what a higher layer finds for the artifact."""
        search = self._tree.search_memory
        if search is None:
            raise InvalidArguments("there is no memory to search here")
        return await search(self._working, self._principal, self._tree, *args, **kwargs)
