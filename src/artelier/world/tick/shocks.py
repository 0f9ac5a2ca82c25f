"""Shocks: changes to a world from outside, at a tick that its settings name."""

from __future__ import annotations

from artelier.artifacts import account_of
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.events import EventInjected, ShockApplied
from artelier.world.tick.tick_context import Scene

SOURCE = "source:world"
"""The account that issues what worlds begin with; what it owes is what it has issued."""


async def strike(scene: Scene) -> None:
    """Apply the shocks of this tick, before anybody acts."""
    for shock in scene.config.shocks:
        if shock.tick != scene.tick:
            continue
        agents = [agent for agent in dict.fromkeys(shock.to or scene.agents) if agent in scene.agents]
        postings: list[Posting] = []
        for agent in agents if shock.pay else ():
            account = account_of(agent)
            if shock.pay > 0:
                postings.append(Posting(SOURCE, account, SCRIP, shock.pay))
            elif taken := min(-shock.pay, scene.balance(agent)):
                postings.append(Posting(account, SOURCE, SCRIP, taken))
        if postings:
            await scene.working.apply(ShockApplied(name=shock.name, postings=tuple(postings)), actor="world")
        if shock.message:
            ref, blob = scene.keep(shock.message)
            news = EventInjected(text=ref, to=tuple(shock.to))
            await scene.working.apply(news, actor="world", blobs=(blob,))
