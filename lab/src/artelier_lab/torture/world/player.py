"""A drawn world, passed to its end: in one life without faults, or in as many as its misfortunes leave it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from artelier import Kernel
from artelier.errors import ArtelierError, Conflict, Flow
from artelier.world import World
from artelier.world.genesis import settle
from artelier_lab.torture.engine import engine
from artelier_lab.torture.world.faults import FULL_MAX, WorldCrash, WorldFaults, breaking_writers
from artelier_lab.torture.world.scenario import DrawnModel, DrawnWorld

WORLD = "w"

LIVES_LAST = 20
"""Lives within which a world must have come to its end; the last of them are calm."""


LIFE_S_MAX = 60.0
"""Seconds of one life, far beyond what it takes: else something waits for what will not come."""


class Played(NamedTuple):
    """The outcome of a played world, without the database."""

    findings: list[str]
    seen: list[tuple[str, str]]
    """`(agent, token)` among facts and in prompts."""
    caps: Mapping[tuple[str, int], int] = {}
    """The `price_max` of actions, by agent and tick."""


def play(drawn: DrawnWorld, path: Path, faults: WorldFaults | None) -> Played:
    """Make the world and pass all its ticks; what is left is the database."""
    model = DrawnModel(len(drawn.agents))
    findings: list[str] = []
    asyncio.run(_made(drawn, path, model))
    quiet = faults or WorldFaults(drawn.seed)
    dead: set[str] = set()
    for _ in range(LIVES_LAST):
        if faults is not None:
            faults.begin()
        try:
            if asyncio.run(_life(drawn, path, model, quiet, dead, findings)):
                break
        except TimeoutError:
            findings.append(f"a life has not ended within {LIFE_S_MAX} s")
            break
        except (WorldCrash, BaseExceptionGroup):
            if not quiet.is_dead:
                raise
            if faults is None:
                break  # it has failed without any: the finding says how
    else:
        findings.append(f"the world has not come to its end in {LIVES_LAST} lives")
    rule: Any = drawn.policies["drawn"]
    return Played(findings, [*rule.seen, *model.seen], {**rule.caps, **model.caps})


def opened(path: Path, model: DrawnModel, faults: WorldFaults | None = None) -> Kernel:
    return Kernel.open(engine().open(path), models={"m": model}, environ={}, fault=faults)


async def _made(drawn: DrawnWorld, path: Path, model: DrawnModel) -> None:
    kernel = opened(path, model)
    try:
        world = await World.new(kernel, WORLD, drawn.config, policies=drawn.policies)
        await settle(world)
        for thing in drawn.things:
            await world.as_principal(thing.owner).artifacts.write(
                thing.id, kind=thing.kind, content=thing.content, access=thing.access, prices=thing.prices
            )
        await world.join(*drawn.agents)
        await world.close()
    finally:
        await kernel.aclose()


async def _life(
    drawn: DrawnWorld, path: Path, model: DrawnModel, faults: WorldFaults, dead: set[str], findings: list[str]
) -> bool:
    """Pass ticks as long as this life lasts; whether the world has come to its end. Errors: `WorldCrash`."""
    kernels: list[Kernel] = []
    with breaking_writers(faults):
        for _ in range(2 if faults.kind == "twin" else 1):
            kernels.append(opened(path, model, faults))
    policies = faults.thinking(drawn.policies)
    for kernel in kernels:
        kernel.services.is_dead = dead.__contains__
    worlds = [World.open(kernel, WORLD, policies=policies) for kernel in kernels]
    try:
        async with asyncio.timeout(LIFE_S_MAX):
            await _ticks(drawn, worlds, faults, findings)
        for world in worlds:
            await world.close()
        return await worlds[0].tick_now() >= drawn.ticks
    finally:
        await _bury(kernels, dead)


async def _bury(kernels: list[Kernel], dead: set[str]) -> None:
    """End what is at work; of a dead process nothing is written any more: its hook refuses it."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for kernel in kernels:
        dead.add(kernel.services.holder)
        with suppress(ArtelierError, Flow, WorldCrash):
            await kernel.aclose()
        kernel.close()


async def _ticks(drawn: DrawnWorld, worlds: list[World], faults: WorldFaults, findings: list[str]) -> None:
    refused = 0
    until = min(drawn.ticks, await worlds[0].tick_now() + faults.ticks)
    while (tick := await worlds[0].tick_now()) < until:
        if len(worlds) > 1 and not drawn.asks_models and tick + 2 <= drawn.ticks:
            await _race(worlds, faults, findings)
            continue
        if len(worlds) > 1:
            faults.counts["world: ticks of two processes"] += 1
        world = worlds[tick % len(worlds)]
        try:
            if len(worlds) > 1:
                await worlds[(tick + 1) % len(worlds)].close()  # its runs are the other's now
            await world.tick()
        except (Flow, ArtelierError) as error:
            if faults.is_dead:
                raise WorldCrash("refused") from error  # the last that a dead process hears
            refused += 1
            if faults.kind != "full" or refused > 2 * FULL_MAX:
                findings.append(f"tick {tick + 1} was refused: {type(error).__name__}: {error}")
                faults.die("of a refusal")
            if (now := await world.tick_now()) != tick:
                findings.append(f"tick {tick + 1} was refused for a full disk, and tick {now} passed")


async def _race(worlds: list[World], faults: WorldFaults, findings: list[str]) -> None:
    """Two processes pass a tick at the same time: one after the other, or one of them in vain."""
    faults.counts["world: races"] += 1
    before = await worlds[0].tick_now()
    results = await asyncio.gather(*(world.tick() for world in worlds), return_exceptions=True)
    for result in results:
        if faults.is_dead:
            raise WorldCrash("refused")
        if isinstance(result, BaseException) and not isinstance(result, Conflict):
            findings.append(f"a race ended with {type(result).__name__}: {result}")
            faults.die("of a refusal")
    won = sum(not isinstance(result, BaseException) for result in results)
    if await worlds[0].tick_now() != before + won:
        findings.append(f"{won} processes passed a tick after {before}, and the world has not")
