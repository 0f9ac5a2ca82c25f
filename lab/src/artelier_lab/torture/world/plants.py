"""Planted bugs of worlds, each breaking one promise: torture must find every one of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import msgspec

import artelier.world.tick.tick
from artelier.artifacts.access import Access, AccessDecision
from artelier.artifacts.working_state import Licence
from artelier.ledger import Posting
from artelier.log import Batch
from artelier.world.actions import Accept
from artelier.world.actions.effects import DECIDE
from artelier.world.mind.billed_reads import BilledReader
from artelier.world.tick.tick_context import Scene
from artelier.world.tick.world_state import WorldStage


@contextmanager
def _replaced(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Generator[None]:
    before = owner.__dict__[name]  # as it stands there: a static method stays one
    setattr(owner, name, wrap(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def _double_sale() -> Generator[None]:
    """The seller gets the price twice, the second time out of nothing."""
    before = DECIDE[Accept]

    async def accept_twice(step: Any, action: Any) -> None:
        await before(step, action)
        last = step.working.changes[-1]
        if last.data.postings:
            paid = last.data.postings[0]
            more = Posting("source:world", paid.target, paid.asset, paid.amount)
            await step.working.move((more,))
            data = msgspec.structs.replace(last.data, postings=(*last.data.postings, more))
            step.working.changes[-1] = last._replace(data=data)

    DECIDE[Accept] = accept_twice
    try:
        yield
    finally:
        DECIDE[Accept] = before


def _uncounted_licence() -> AbstractContextManager[None]:
    """A licence for one use is used for ever."""

    def wrap(licence: Any) -> Any:
        async def uncounted(stage: Any, id: str, principal: str, **more: Any) -> Licence | None:
            found = await licence(stage, id, principal, **more)
            return found and found._replace(is_counted=False)

        return uncounted

    return _replaced(WorldStage, "licence", wrap)


def _open_secrets() -> AbstractContextManager[None]:
    """A private artifact is readable for everybody."""

    def wrap(check: Any) -> Any:
        def check_others(action: str, principal: str, target: Any) -> AccessDecision:
            decision = check.__func__(action, principal, target)
            is_private = target.access is not None and target.access.policy == "private"
            if action == "read" and is_private and not decision.allowed:
                return AccessDecision(True, "planted")
            return decision

        return staticmethod(check_others)

    return _replaced(Access, "check", wrap)


def _torn_tick() -> AbstractContextManager[None]:
    """A tick is appended in two halves."""

    def wrap(append: Any) -> Any:
        async def append_halves(scene: Any, store: Any, head: int) -> int:
            return await append(scene, _Tearing(store), head)

        return append_halves

    return _replaced(artelier.world.tick.tick, "_append", wrap)


class _Tearing:
    """A store that appends the first half of a batch before the rest of it."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def append(self, batch: Batch) -> Any:
        (whole,) = batch.appends
        half = len(whole.events) // 2
        first = replace(whole, events=whole.events[:half])
        receipt = await self._store.append(Batch(appends=(first,), blobs=batch.blobs))
        rest = replace(whole, events=whole.events[half:], expected_seq=receipt.seqs[0])
        return await self._store.append(Batch(appends=(rest,)))


def _forgotten_pay() -> AbstractContextManager[None]:
    """Pay of one tick can be spent again in the next."""

    def wrap(advance: Any) -> Any:
        def advance_half(stage: Any, done: Any, *, at_us: int) -> None:
            moved, kept = done.deltas, {key: n for key, n in done.deltas.items() if n > 0}
            moved.clear()
            moved.update(kept)
            advance(stage, done, at_us=at_us)

        return advance_half

    return _replaced(WorldStage, "advance", wrap)


def _raised_price() -> AbstractContextManager[None]:
    """A price that is raised after somebody has decided to buy is paid all the same."""

    def wrap(seen: Any) -> Any:
        async def seen_now(scene: Any, id: str) -> Any:
            return await scene.working.standing(id)

        return seen_now

    return _replaced(Scene, "standing_seen", wrap)


def _unasked_consent() -> AbstractContextManager[None]:
    """A prompt shows whatever it names, at any price."""

    def wrap(agrees: Any) -> Any:
        def agrees_to_all(reader: Any, id: str, wanted: Any) -> bool:
            return True

        return agrees_to_all

    return _replaced(BilledReader, "agrees", wrap)


WORLD_PLANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "double-sale": _double_sale,
    "uncounted-licence": _uncounted_licence,
    "open-secrets": _open_secrets,
    "torn-tick": _torn_tick,
    "forgotten-pay": _forgotten_pay,
    "raised-price": _raised_price,
    "unasked-consent": _unasked_consent,
}
