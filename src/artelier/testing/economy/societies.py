"""Four societies, each with agents that work and agents that try to live without: the same for the same seed.

Whoever works writes, sells and uses what others have made, mostly out of what it has earned. The others raise
prices under those who have decided to buy, take ids that others wait for, farm the mint, or do nothing.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from artelier.ports.model import FREE, ModelReply, ModelRequest, Price, Usage

START = 100
"""Scrip of each agent."""

ROUND = 10
"""Ticks of a round of the mint."""

PRICE = 2
"""What workers ask for being read or invoked."""

GREED = 50
"""What raisers and squatters ask."""

Facts = Mapping[str, Any]
Act = dict[str, Any] | None

CODE = {"code": "def run(n=0):\n    return n + 1\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Society:
    """A world before its first tick, and by which strategy each of its agents lives."""

    name: str
    spec: Mapping[str, Any]
    """For `found`."""
    strategies: Mapping[str, str]
    """By agent; `work` is the only one that works."""
    policies: Mapping[str, Callable[[dict[str, Any]], Any]]
    caps: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """What its agents have said that they pay at most, by agent and tick."""


def _write(id_: str, content: Any, price: int, *, kind: str = "document") -> Act:
    prices = {"read": price, "invoke": price, "inclusion": 0}
    return {
        "action": "write",
        "artifact_id": id_,
        "kind": kind,
        "content": content,
        "access": "owner_writes",
        "prices": prices,
    }


def _read(id_: str) -> dict[str, Any]:
    return {"action": "read", "ref": id_}


def _bid(id_: str, amount: int) -> Act:
    return {"action": "bid", "artifact_id": id_, "amount": amount}


# Those who live without work


def _idle(facts: Facts) -> Act:
    return None


def _raise(facts: Facts) -> Act:
    """Free when it is looked at, dear when it is used, every second tick."""
    me, is_odd = facts["agent_id"], facts["tick"] % 2
    return _write(f"bait_{me}", f"Bait of {me}.", 0 if is_odd else GREED)


def _squat(facts: Facts) -> Act:
    """Be there first under the name that others ask for in this tick."""
    return _write(f"bulletin_{facts['tick']}", f"By {facts['agent_id']}.", GREED)


def _farm(facts: Facts) -> Act:
    """Outbid all others with what nobody uses."""
    me, at = facts["agent_id"], facts["tick"] % ROUND
    if at == 1:
        return _write(f"junk_{me}", f"Junk of {me}.", 0)
    return _bid(f"junk_{me}", 6) if at == ROUND - 1 and facts["balance"] >= 6 else None


def _ring(facts: Facts) -> Act:
    """Use each other's junk, fresh in every round, and have the mint pay for it."""
    me, tick = facts["agent_id"], facts["tick"]
    number, at, stem = tick // ROUND, tick % ROUND, me.rstrip("0123456789")
    others = [f"{stem}{n}" for n in range(3) if f"{stem}{n}" != me]
    if at == 1:
        return _write(f"junk_{me}_{number}", f"Junk {number} of {me}.", 0)
    if at in (3, 4):
        return _read(f"junk_{others[at - 3]}_{number}")
    return _bid(f"junk_{me}_{number}", 3) if at == ROUND - 1 and facts["balance"] >= 3 else None


LAZY: Mapping[str, Callable[[Facts], Act]] = {
    "idle": _idle,
    "raise": _raise,
    "squat": _squat,
    "farm": _farm,
    "ring": _ring,
}
"""By name; members of a `ring` are three and know each other by their ids."""


# Those who work


def _may_spend(facts: Facts, rng: random.Random) -> bool:
    """Mostly what was earned: thrift is what keeps the poor from paying for the luck of the rich."""
    return facts["balance"] >= START - 10 or (facts["balance"] > PRICE and rng.random() < 0.1)


def _tempt(rng: random.Random, tick: int, raisers: list[str]) -> Act:
    """Return what adversaries wait for: a free thing whose price is raised, a name that nobody has taken
    yet.
    """
    if raisers and tick % 2 == 0 and rng.random() < 0.5:
        return _read(f"bait_{rng.choice(raisers)}")
    return _read(f"bulletin_{tick}")


def _worker(workers: list[str], raisers: list[str]) -> Callable[[Facts], Act]:
    def work(facts: Facts) -> Act:
        me, tick = facts["agent_id"], facts["tick"]
        rng = random.Random(facts["seed"])
        if tick % ROUND == ROUND - 1:
            return _bid(f"doc_{me}", 1 + rng.randrange(4)) if facts["balance"] > 4 else None
        if rng.random() < 0.2:
            return _tempt(rng, tick, raisers)
        if not _may_spend(facts, rng):
            return None
        other = rng.choice([one for one in workers if one != me])
        if rng.random() < 0.2:
            return {"action": "invoke", "artifact_id": f"tool_{other}", "args": {"n": tick}}
        capped = {"price_max": PRICE + 1} if rng.random() < 0.2 else {}
        return {**_read(f"doc_{other}"), **capped}

    return work


def _dealer(workers: list[str], raisers: list[str]) -> Callable[[Facts], Act]:
    """Sell licences, use them, and deal in stones, which are only worth what others give."""

    def deal(facts: Facts) -> Act:
        me, tick = facts["agent_id"], facts["tick"]
        rng = random.Random(facts["seed"])
        if tick == 1:
            return {
                "action": "offer",
                "artifact_id": f"doc_{me}",
                "price": PRICE,
                "sells": "licence",
                "uses": 1,
            }
        if tick % ROUND == ROUND - 1:
            return _bid(f"doc_{me}", 1 + rng.randrange(4)) if facts["balance"] > 4 else None
        stones = [id_ for id_ in facts["my_artifacts"] if id_.startswith("stone_")]
        if stones and rng.random() < 0.5:
            return {"action": "offer", "artifact_id": rng.choice(stones), "price": PRICE}
        if rng.random() < 0.1:
            return _tempt(rng, tick, raisers)
        wanted = [
            one
            for one in facts["offers"]
            if one["price"] <= PRICE and one["seller"] != me and one["to"] in ("", me)
        ]
        if wanted and _may_spend(facts, rng):
            return {"action": "accept", "offer_id": rng.choice(wanted)["offer"]}
        return _read(f"doc_{rng.choice(workers)}")

    return deal


# Societies


def _people(work: int, **lazy: int) -> dict[str, str]:
    found = {f"w{n}": "work" for n in range(work)}
    for strategy, count in lazy.items():
        found |= {f"{strategy}{n}": strategy for n in range(count)}
    return found


def _belongings(people: Mapping[str, str], *, access: str = "owner_writes") -> list[dict[str, Any]]:
    """Workers have a document, a tool and a stone; raisers what others are lured by."""
    found: list[dict[str, Any]] = []
    for agent, strategy in people.items():
        if strategy == "work":
            asked = {"read": PRICE, "invoke": PRICE} if access != "private" else None
            found += [
                {
                    "id": f"doc_{agent}",
                    "kind": "document",
                    "owner": agent,
                    "prices": asked,
                    "access": access,
                    "content": f"What {agent} knows.",
                },
                {
                    "id": f"tool_{agent}",
                    "kind": "tool",
                    "owner": agent,
                    "prices": asked,
                    "content": CODE | {"description": agent},
                },
                {
                    "id": f"stone_{agent}",
                    "kind": "document",
                    "owner": agent,
                    "access": "private",
                    "content": f"The stone of {agent}.",
                },
            ]
        if strategy == "raise":
            found.append(
                {
                    "id": f"bait_{agent}",
                    "kind": "document",
                    "owner": agent,
                    "access": "owner_writes",
                    "content": f"Bait of {agent}.",
                }
            )
    return found


def _make_society(
    name: str,
    people: dict[str, str],
    work: Callable[[Facts], Act],
    *,
    seed: int,
    world: Mapping[str, Any],
    belongings: list[dict[str, Any]],
    entries: Mapping[str, Mapping[str, Any]] | None = None,
) -> Society:
    settings = {"seed": seed, "start_balance": START, "mint": {"every": ROUND}, **world}
    agents = [
        {"id": agent, **(entries or {}).get(agent, {"policy": strategy})}
        for agent, strategy in people.items()
    ]
    caps: dict[tuple[str, int], int] = {}

    def noting(rule: Callable[[Facts], Act]) -> Callable[[dict[str, Any]], Any]:
        def decide(facts: dict[str, Any]) -> object:
            act = rule(facts)
            if act is not None and "price_max" in act:
                caps[facts["agent_id"], facts["tick"]] = act["price_max"]
            return act

        return decide

    rules = {**LAZY, "work": work}
    return Society(
        name=name,
        strategies=people,
        caps=caps,
        spec={"world": settings, "agents": agents, "artifacts": belongings},
        policies={strategy: noting(rule) for strategy, rule in rules.items()},
    )


def _agents_of(people: Mapping[str, str], strategy: str) -> list[str]:
    return [agent for agent, one in people.items() if one == strategy]


def rule_agents(seed: int, world: Mapping[str, Any]) -> Society:
    """Rule agents that read and invoke what others have made."""
    people = _people(16, idle=2, **{"raise": 2}, squat=1, farm=1, ring=3)
    work = _worker(_agents_of(people, "work"), _agents_of(people, "raise"))
    return _make_society("rules", people, work, seed=seed, world=world, belongings=_belongings(people))


def market(seed: int, world: Mapping[str, Any]) -> Society:
    """Dealers in licences and stones."""
    people = _people(14, idle=2, **{"raise": 2}, squat=1, farm=1, ring=3)
    work = _dealer(_agents_of(people, "work"), _agents_of(people, "raise"))
    things = _belongings(people, access="private")
    return _make_society("market", people, work, seed=seed, world=world, belongings=things)


def siege(seed: int, world: Mapping[str, Any]) -> Society:
    """Nearly as many who do not work as who do."""
    people = _people(12, **{"raise": 3}, squat=2, farm=2, ring=3)
    work = _worker(_agents_of(people, "work"), _agents_of(people, "raise"))
    return _make_society("siege", people, work, seed=seed, world=world, belongings=_belongings(people))


def remembering(seed: int, world: Mapping[str, Any]) -> Society:
    """Agents with all that a new agent is given, a long-term memory above all, who ask a model.

    Each takes the paper of its neighbour at a scrip a prompt, waits for news that nobody writes yet, and is
    lured by a paper that is free until it is subscribed to.
    """
    people = _people(8, idle=1, **{"raise": 1}, squat=1, farm=1, ring=3)
    workers = _agents_of(people, "work")
    things = _belongings(people)
    entries: dict[str, Mapping[str, Any]] = {}
    for n, agent in enumerate(workers):
        things.append(
            {
                "id": f"paper_{agent}",
                "kind": "document",
                "owner": agent,
                "prices": {"inclusion": 1},
                "access": "owner_writes",
                "content": f"News of {agent}.",
            }
        )
        named = ["handbook", f"paper_w{(n + 1) % len(workers)}", "bait_raise0", "bulletin_7"]
        entries[agent] = {"model": "townsfolk", "subscribed_artifacts": named}
    return _make_society(
        "memory",
        people,
        _idle,
        seed=seed,
        world={"model": "townsfolk", **world},
        belongings=things,
        entries=entries,
    )


SOCIETIES: Mapping[str, Callable[[int, Mapping[str, Any]], Society]] = {
    "rules": rule_agents,
    "memory": remembering,
    "market": market,
    "siege": siege,
}
"""Name to `(seed, settings of the world) -> Society`."""


class Townsfolk:
    """A model that acts for the workers of `remembering`: it remembers, reads, and bids for what it wrote."""

    price: Price | None = FREE

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        text = "\n".join(message.text for message in request.messages)
        named = re.search(r"^You are (\w+)\.$", text, re.MULTILINE)
        tick, balance = (re.search(r"^Tick: (\d+)$", text, re.M), re.search(r"^Balance: (\d+)", text, re.M))
        act: dict[str, Any] = {"action": "noop"}
        if named and tick and balance:
            act = _decide_reply(named[1], int(tick[1]), int(balance[1]))
        return ModelReply(text=json.dumps(act), usage=Usage(input_tokens=10, output_tokens=10))


def _decide_reply(me: str, tick: int, balance: int) -> dict[str, Any]:
    rng = random.Random(f"{me} {tick}")
    if tick % ROUND == ROUND - 1:
        return {"action": "bid", "artifact_id": f"doc_{me}", "amount": 1 + rng.randrange(4)}
    if rng.random() < 0.4:
        args = {"memory_artifact_id": f"{me}_longterm_memory", "text": f"day {tick}: success, trading"}
        return {"action": "invoke", "artifact_id": "genesis_memory_add", "args": args}
    if balance >= START - 10 or rng.random() < 0.1:
        return _read(f"doc_w{rng.choice([n for n in range(8) if f'w{n}' != me])}")
    if tick % 2 == 0 and rng.random() < 0.3:
        return _read("bait_raise0")
    return {"action": "noop"}
