"""Worlds to measure: made in few commits, with agents that do what an honest economy consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from artelier import Kernel
from artelier.artifacts import account_of
from artelier.artifacts.write_decision import WriteRequest, decide_write
from artelier.ledger import Posting
from artelier.log import Batch, Blob, Draft, StreamAppend
from artelier.money import SCRIP
from artelier.world import World
from artelier.world.events import AgentJoined, world_stream
from artelier.world.tick.tick import SOURCE

Item = TypeVar("Item")

START_SCRIP = 10_000
"""Of each agent: nobody runs out of it while it is measured."""

COMMIT_EVENTS = 5_000
"""Events per commit while a world is filled."""

TEXT = "What is known about the harvest of this year, the prices in the south and the state of the roads. "

REFLEX = """def reflex(context):
    seed = context["seed"]
    others = OTHERS
    to = "a" + str(seed % others)
    if to == context["agent_id"]:
        to = "a" + str((seed + 1) % others)
    amount = 1 + seed % 3
    if context["balance"] < amount:
        return {"action": "noop"}
    return {"action": "transfer", "to": to, "amount": amount}
"""
"""Ten lines that look at facts and decide."""


def economy(agents: int, artifacts: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A rule: six of ten actions pay somebody, two buy a reading, one writes, one waits."""

    def decide(facts: dict[str, Any]) -> dict[str, Any]:
        draw, me = facts["seed"], int(facts["agent_id"][1:])
        other, dice = (me + 1 + draw % (agents - 1)) % agents, draw // 1_000_003 % 10
        if dice < 6:
            return {"action": "transfer", "to": f"a{other}", "amount": 1 + draw % 3}
        if dice < 8:
            return {"action": "read", "ref": f"d{draw % artifacts}", "price_max": 2}
        if dice == 8:
            own = me % artifacts
            text = f"{TEXT}{me} {facts['tick']}"
            return {"action": "write", "artifact_id": f"d{own}", "content": text}
        return {"action": "noop"}

    return decide


def giving(agents: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A rule that always pays somebody."""

    def decide(facts: dict[str, Any]) -> dict[str, Any]:
        draw, me = facts["seed"], int(facts["agent_id"][1:])
        other = (me + 1 + draw % (agents - 1)) % agents
        return {"action": "transfer", "to": f"a{other}", "amount": 1 + draw % 3}

    return decide


async def world_of(
    path: Path, *, agents: int, artifacts: int, content: Mapping[str, Any], rule: Any = None
) -> tuple[Kernel, World]:
    """A kernel and its world `w`: agents `a0`, ... of that content; documents `d0`, ... spread over them.

    Each document costs others a scrip to read.
    """
    kernel = Kernel.open(path)
    world = await World.new(kernel, "w", {"seed": 7}, policies={"rule": rule} if rule else None)
    if "reflex_artifact_id" in content:
        code = REFLEX.replace("OTHERS", str(agents))
        await fill(
            world,
            [("a0", WriteRequest(id="reflex", kind="reflex", access="owner_writes", content={"code": code}))],
        )
    await fill(world, _agents(agents, content))
    await fill(world, _documents(agents, artifacts))
    await join(world, (f"a{n}" for n in range(agents)))
    return kernel, world


def _agents(count: int, content: Mapping[str, Any]) -> Iterator[tuple[str, WriteRequest]]:
    for n in range(count):
        yield f"a{n}", WriteRequest(id=f"a{n}", kind="agent", content=dict(content))


def _documents(agents: int, count: int) -> Iterator[tuple[str, WriteRequest]]:
    for n in range(count):
        yield (
            f"a{n % agents}",
            WriteRequest(id=f"d{n}", kind="document", content=f"{TEXT}{n}", prices={"read": 1}),
        )


def _parts(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while part := list(islice(rest, COMMIT_EVENTS)):
        yield part


async def fill(world: World, wishes: Iterable[tuple[str, WriteRequest]]) -> None:
    """Write new artifacts, each by its owner, many in a commit."""
    host = world.host
    key = (await host.state()).key
    stream = world_stream(host.id, world.id)
    for some in _parts(wishes):
        drafts: list[Draft] = []
        blobs: list[Blob] = []
        for owner, wish in some:
            event, more = decide_write(wish, None, None, tenant=host.id, principal=owner, key=key)
            drafts.append(Draft(event, 0, owner))
            blobs += more
        batch = Batch(appends=(StreamAppend(stream, drafts, None),), blobs=tuple(blobs))
        await host.services.store.append(batch)


async def join(world: World, agents: Iterable[str]) -> None:
    """Let agents act, each with its first scrip, many in a commit."""
    stream = world_stream(world.host.id, world.id)
    for some in _parts(agents):
        drafts = [
            Draft(
                AgentJoined(agent=agent, postings=(Posting(SOURCE, account_of(agent), SCRIP, START_SCRIP),)),
                0,
                "operator",
            )
            for agent in some
        ]
        await world.host.services.store.append(Batch(appends=(StreamAppend(stream, drafts, None),)))
