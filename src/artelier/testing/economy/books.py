"""Another bookkeeping of prices, kept beside a world: what each thought saw, and what was paid after it.

It folds events by the rules as they are written down, and shares no code with what decides in a tick.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, cast

from artelier import Kernel
from artelier.artifacts.queries import contents_of_kind
from artelier.errors import CorruptStore, NotFound
from artelier.log import blob_name
from artelier.testing.economy.societies import SOCIETIES, Society, Townsfolk
from artelier.world import World
from artelier.world.figures.metrics import tick_metrics
from artelier.world.genesis import found
from artelier.world.history.history_fold import history_of

SERVICES = "genesis_"
ACCOUNT = "principal:"

NOBODY = frozenset(("world", "genesis_mint", "operator"))
PREFIXES = ("user:", "artifact:")
"""Whose events are those of no agent that takes a turn: the world's, a person's, a program's."""

Caps = Mapping[tuple[str, int], int]
"""What agents have said that they pay at most, by agent and tick."""


class Posted(NamedTuple):
    """An artifact as others saw it."""

    owner: str
    prices: Mapping[str, int]

    def price(self, agent: str, *names: str) -> int:
        return 0 if agent == self.owner else sum(self.prices.get(name, 0) for name in names)


@dataclass(slots=True, kw_only=True)
class ConsentBooks:
    """Prices after some events, and every payment above what was agreed to."""

    content: Callable[[str], str]
    """The text behind a reference."""
    activation: str = "simultaneous"
    stages: Sequence[Sequence[str]] = ()
    caps: Caps = field(default_factory=dict[tuple[str, int], int])
    findings: list[str] = field(default_factory=list[str])
    _posted: dict[str, Posted] = field(default_factory=dict[str, Posted])
    _stood: dict[str, Posted | None] = field(default_factory=dict[str, "Posted | None"])
    """What this wave has changed, as it stood before."""
    _offers: dict[str, int] = field(default_factory=dict[str, int])
    """Prices of offers that were made before this wave."""
    _fresh_offers: dict[str, int] = field(default_factory=dict[str, int])
    _agreed: dict[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    _shown: dict[tuple[str, int, str, str], int] = field(default_factory=dict[tuple[str, int, str, str], int])
    _wave: tuple[int, int] = (0, -1)
    _acts: int = 0

    def take(self, *, local: str, kind: str, actor: str, tick: int, data: dict[str, Any]) -> None:
        """Take up one event; they come in the order in which they were recorded."""
        if local.startswith("agent:"):
            self._show(local.removeprefix("agent:"), tick, data)
            return
        self._begin_wave(actor, tick)
        getattr(self, f"_{kind.replace('.', '_')}", _nothing)(actor, tick, data)
        if data.get("act"):
            self._acts += 1

    def _begin_wave(self, actor: str, tick: int) -> None:
        """Forget what stood before, if those who act now have thought about what stands now."""
        if (place := self._place(actor, tick)) <= self._wave[1] and tick == self._wave[0]:
            return
        self._wave = (tick, place)
        self._stood.clear()
        self._offers |= self._fresh_offers
        self._fresh_offers.clear()

    def _place(self, actor: str, tick: int) -> int:
        """Return the number of the wave in its tick; -1 before the first of its agents acts."""
        if actor in NOBODY or actor.startswith(PREFIXES):  # they act within the wave at hand
            return self._wave[1] if tick == self._wave[0] else -1
        if self.activation == "random":
            return self._acts
        if self.activation == "staged":
            named = [n for n, stage in enumerate(self.stages) if actor in stage]
            return named[0] if named else len(self.stages)
        return 0

    def _price_seen(self, id_: str, agent: str, *names: str) -> int:
        stood = self._stood[id_] if id_ in self._stood else self._posted.get(id_)
        return stood.price(agent, *names) if stood is not None else 0

    def _change(self, id_: str, now: Posted | None) -> None:
        self._stood.setdefault(id_, self._posted.get(id_))
        if now is None:
            self._posted.pop(id_, None)
        else:
            self._posted[id_] = now

    def _judge(self, agent: str, tick: int, paid: int, agreed: int, what: str) -> None:
        if paid > max(agreed, self.caps.get((agent, tick), 0)):
            self.findings.append(f"tick {tick}: {agent} pays {paid} for {what}, and saw {agreed}")

    # What changes prices

    def _artifact_written(self, actor: str, tick: int, data: dict[str, Any]) -> None:
        self._change(data["id"], Posted(data["owner"], data.get("prices") or {}))
        if data["kind"] == "agent":
            try:
                content: Any = json.loads(self.content(data["content"]))
            except ValueError:
                content = None
            agent = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
            agreed: Any = agent.get("agreed_prices")
            self._agreed[data["id"]] = agreed if isinstance(agreed, dict) else {}

    def _artifact_transferred(self, actor: str, tick: int, data: dict[str, Any]) -> None:
        before = self._posted[data["id"]]
        self._change(data["id"], Posted(data["to"], before.prices))

    def _artifact_deleted(self, actor: str, tick: int, data: dict[str, Any]) -> None:
        self._change(data["id"], None)

    def _offer_made(self, actor: str, tick: int, data: dict[str, Any]) -> None:
        self._fresh_offers[data["offer"]] = data["price"]

    # What is paid

    def _action_taken(self, actor: str, tick: int, data: dict[str, Any]) -> None:
        if data["act"]["action"] == "read" and (paid := _sum_paid(data, actor)):
            id_ = data["act"]["ref"].partition("@")[0].partition("#")[0]
            self._judge(actor, tick, paid, self._price_seen(id_, actor, "read"), f"reading {id_}")

    def _artifact_invoked(self, actor: str, tick: int, data: dict[str, Any]) -> None:
        id_, payer = data["id"], data.get("payer", "")
        # A service posts the price of one unit; a program agrees to what it finds while it runs.
        if data.get("act") and payer == actor and not id_.startswith(SERVICES):
            seen = self._price_seen(id_, actor, "invoke")
            self._judge(actor, tick, data.get("price", 0), seen, f"invoking {id_}")

    def _artifact_charged(self, actor: str, tick: int, data: dict[str, Any]) -> None:
        """An access along with an action: an edit, or a search in a memory."""
        if (paid := _sum_paid(data, actor)) and not data["id"].startswith(SERVICES):
            name = "inclusion" if data["action"] == "include" else str(data["action"])
            seen = self._price_seen(data["id"], actor, name)
            self._judge(actor, tick, paid, seen, f"{data['action']} of {data['id']}")

    def _offer_accepted(self, actor: str, tick: int, data: dict[str, Any]) -> None:
        seen = self._offers.get(data["offer"], 0)
        self._judge(actor, tick, _sum_paid(data, actor), seen, f"offer {data['offer']}")

    def _show(self, agent: str, tick: int, data: dict[str, Any]) -> None:
        """Judge what a prompt has cost, reading and inclusion together."""
        id_ = data["id"]
        paid = _sum_paid(data, agent)
        if not paid or id_.startswith(SERVICES):
            return
        key = (agent, tick, data.get("step", ""), id_)
        self._shown[key] = self._shown.get(key, 0) + paid
        agreed = self._agreed.get(agent, {}).get(id_, 0)
        if self._shown[key] > agreed:
            self.findings.append(
                f"tick {tick}: {agent} pays {self._shown[key]} for being shown {id_}, agreed is {agreed}"
            )


def _nothing(actor: str, tick: int, data: dict[str, Any]) -> None:
    """An event that neither changes a price nor pays one."""


def _sum_paid(data: Mapping[str, Any], agent: str) -> int:
    """Return what an event takes from an agent, all in all."""
    account, paid = f"{ACCOUNT}{agent}", 0
    for source, target, asset, amount in data.get("postings") or ():
        if asset == "scrip":
            paid += amount * (source == account) - amount * (target == account)
    return max(0, paid)


async def consent_findings(world: World, *, caps: Caps | None = None) -> list[str]:
    """Return every payment of an agent above the price that its thought saw, from the log of a world.

    `caps` are the `price_max` of actions that said one. Cost: every event of the world is read once.
    """
    config = await world.config()
    texts = await _texts(world)
    books = ConsentBooks(
        content=lambda ref: texts.get(ref, ""),
        activation=config.activation,
        stages=config.stages,
        caps=caps or {},
    )
    async for event in history_of(world.host, world.id, to_tick=await world.tick_now()):
        books.take(
            local=event.stream.local, kind=event.kind, actor=event.actor, tick=event.at_us, data=event.plain()
        )
    return books.findings


async def _texts(world: World) -> dict[str, str]:
    """Return the contents of all versions of agents' artifacts, by reference."""
    store, tenant = world.host.services.store, world.host.id
    found: dict[str, str] = {}
    for ref in await contents_of_kind(store, tenant, f"world:{world.id}", "agent"):
        try:
            found[ref] = (await store.blob(tenant, blob_name(ref))).decode(errors="replace")
        except (NotFound, CorruptStore):
            continue
    return found


# --------------------------------------------------------------------------- playing
# A society passed to its end, and what became of its money: figures, and the promises that were broken.


WORLD = "society"

IN_HANDS_MIN = 0.8
"""Of the money at the start: what agents have after every tick, services and mint apart."""

STEPS = 20
"""Parts in which a society is passed: after each, its progress is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EconomyReport:
    """The outcome of a society."""

    society: str
    ticks: int
    payments: int
    """Sales and uses that were paid for."""
    overpaid: tuple[str, ...]
    """Each payment above what was agreed to."""
    in_hands_least: float
    """The least part of the money at the start that agents have had after a tick."""
    median_gain: float
    """Of all agents, in scrip."""
    gains: Mapping[str, int]
    """By strategy, of the agent that has gained most by it."""

    @property
    def findings(self) -> list[str]:
        """The promises that were broken, in words; none if the economy conforms."""
        found = list(self.overpaid)
        if self.in_hands_least < IN_HANDS_MIN:
            found.append(f"agents had {self.in_hands_least:.0%} of the money at the start")
        found += [
            f"{strategy} has gained {gain}, the median is {self.median_gain:g}"
            for strategy, gain in self.gains.items()
            if strategy != "work" and gain > self.median_gain
        ]
        return found


async def play_society(
    name: str,
    folder: Path,
    *,
    ticks: int,
    seed: int = 0,
    world: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> EconomyReport:
    """Pass a society of `SOCIETIES` and judge it; its database is left in `folder`.

    `world` are settings of the world, such as `{"rules": 1}` for what older worlds do.
    """
    society = SOCIETIES[name](seed, world or {})
    kernel = Kernel.open(folder / f"{name}.db", models={"townsfolk": Townsfolk()}, environ={})
    try:
        living = await found(kernel, WORLD, society.spec, policies=society.policies)
        for part in range(STEPS):
            until = ticks * (part + 1) // STEPS
            await living.run(ticks=until - await living.tick_now())
            if progress is not None:
                progress(f"economy: {name}, tick {until} of {ticks}")
        report = await _report(society, living)
        await living.close()
        return report
    finally:
        await kernel.aclose()


async def _report(society: Society, world: World) -> EconomyReport:
    least, start, payments = 1.0, 0, 0
    first: Mapping[str, int] = {}
    last: Mapping[str, int] = {}
    async for one in tick_metrics(world, from_tick=0):
        if not one.tick:
            start, first = one.agents, dict(one.balances)
        least = min(least, one.agents / start)
        payments += one.trades
        last = one.balances
    gains = {agent: last[agent] - before for agent, before in first.items()}
    best: dict[str, int] = {}
    for agent, strategy in society.strategies.items():
        best[strategy] = max(best.get(strategy, gains[agent]), gains[agent])
    return EconomyReport(
        society=society.name,
        ticks=await world.tick_now(),
        payments=payments,
        overpaid=tuple(await consent_findings(world, caps=society.caps)),
        in_hands_least=least,
        median_gain=median(gains.values()),
        gains=best,
    )
