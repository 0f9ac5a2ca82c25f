"""A whole world in one batch: its settings, what it is settled with, its artifacts, its agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec

from artelier.artifacts import account_of
from artelier.artifacts.content import canonical_json
from artelier.errors import ArtelierError, Conflict, InvalidConfig, InvalidRequest, SequenceConflict
from artelier.ids import OPERATOR
from artelier.ledger import Posting
from artelier.log import make_blob
from artelier.memory.embedders.registry import embedder_named
from artelier.money import SCRIP
from artelier.world import events as ev
from artelier.world.agent import REFERENCES, AgentSpec, agreed_prices, check_agent_id, id_of
from artelier.world.config import WorldConfig, plain_config
from artelier.world.deciders import Policy
from artelier.world.genesis.file import INLINE, AgentEntry, WorldEntry, read_world
from artelier.world.genesis.seed_content import (
    HANDBOOK,
    Beginning,
    Made,
    append,
    decide,
    default_artifacts,
    make_owned,
    shipped_artifacts,
)
from artelier.world.kernel_adapter import Host, Unbound
from artelier.world.tick.tick import SOURCE
from artelier.world.world import World

AGREED_AT_ONCE = 50
"""Artifacts that are looked through before everybody else in the event loop has a turn."""

_FIELD: Mapping[str, str] = dict(zip(INLINE, REFERENCES, strict=False))
"""The field of an agent artifact that names what an entry holds inline: the first five, in order."""


async def found(
    kernel: Host | Unbound,
    id: str,
    spec: Mapping[str, Any] | WorldEntry,
    *,
    seed: int | None = None,
    by: str = OPERATOR,
    policies: Mapping[str, Policy] | None = None,
    made_max: int | None = None,
) -> World:
    """Make a world of a specification, such as `read_world_file` and `shipped` give. All of it, or nothing.

    Shapes: `spec` is `{world, settle, agents, artifacts}`, each of them optional; see
    `docs/guides/worlds.md`. `seed` stands instead of that of the settings. `made_max` bounds the artifacts of
    a specification that somebody else has written: a few words of it may ask for many agents.
    Errors: `InvalidConfig` that names the place; `Conflict` if there is a world of this id.
    Cost: one commit. What is large is made in a thread.
    """
    entry = spec if isinstance(spec, WorldEntry) else read_world(spec)
    config = entry.config.with_rules()
    if seed is not None:
        config = read_seed(config, seed)
    world = World(kernel, id, policies=policies)
    state = await world.host.state()
    content = canonical_json(plain_config(config))
    ref, blob = make_blob(world.host.id, state.key, content)
    _check_size(sum(one.count for one in entry.agents) + len(entry.artifacts), made_max)
    made, joins = await asyncio.to_thread(_made_of, entry, config)
    _check_size(len(made), made_max)
    if config.asks_consent:
        made = await _agreeing(made)
    _check_embedders(made)
    decided = await asyncio.to_thread(decide, made, tenant=world.host.id, key=state.key)
    beginning = Beginning(
        [(ev.WorldMade(seed=config.seed, config=ref), by), *decided.events, *((join, by) for join in joins)],
        [blob, *decided.blobs],
    )
    try:
        await append(world, beginning, tick=0, expected=0)
    except SequenceConflict:
        raise Conflict(f"there is a world {id} already") from None
    return world


def _check_size(count: int, most: int | None) -> None:
    """Errors: `InvalidConfig` for more artifacts than a caller takes."""
    if most is not None and count > most:
        raise InvalidConfig(
            "the world is too large to be made here",
            expected=f"at most {most:,} artifacts",
            got=f"{count:,}",
            hint="`artelier world new` makes larger ones.",
        )


def _made_of(entry: WorldEntry, config: WorldConfig) -> tuple[list[Made], list[ev.AgentJoined]]:
    """Return the artifacts that a world begins with, and the agents that join it. Errors: `InvalidConfig`."""
    made = shipped_artifacts(config) if entry.settle else []
    made += [
        Made(
            id=one.id,
            kind=one.kind,
            owner=one.owner,
            content=one.content,
            access=one.access,
            prices=one.prices,
            interface=one.interface,
            metadata=one.metadata,
            place=f"artifacts[{number}]",
        )
        for number, one in enumerate(entry.artifacts)
    ]
    joins: list[ev.AgentJoined] = []
    for number, agent in enumerate(entry.agents):
        for one in _each(agent, number):
            made += agent_artifacts(one, place=f"agents[{number}]", settled=entry.settle)
            scrip = config.start_balance if one.scrip is None else one.scrip
            joins.append(_join(one.id, scrip, model=one.model))
    return made, joins


async def _agreeing(made: list[Made]) -> list[Made]:
    """Return the artifacts of a world, its agents agreeing to the prices that the file states."""
    by_id = {one.id: one for one in made}

    async def content_of(ref: str) -> object:
        found = by_id.get(id_of(ref))
        return None if found is None else found.content

    async def agreeing(one: Made) -> Made:
        async def price_of(id_: str) -> int:
            priced = by_id.get(id_)
            if priced is None or priced.owner == one.owner or not priced.prices:
                return 0
            return priced.prices.get("read", 0) + priced.prices.get("inclusion", 0)

        content = await agreed_prices(one.content, AgentSpec(), price_of=price_of, content_of=content_of)
        return replace(one, content=content)

    agreed = list[Made]()
    for number, one in enumerate(made):
        if number % AGREED_AT_ONCE == 0:
            await asyncio.sleep(0)  # a society leaves others their turn
        is_agent = one.kind == "agent" and isinstance(one.content, dict)
        agreed.append(await agreeing(one) if is_agent else one)
    return agreed


def _check_embedders(made: Iterable[Made]) -> None:
    """Errors: `InvalidConfig` for a memory store whose embedder nobody knows."""
    for one in made:
        content: object = one.content
        if one.kind != "memory_store" or not isinstance(content, dict):
            continue
        config = cast("dict[str, Any]", content).get("config")
        name = cast("dict[str, Any]", config).get("embedder") if isinstance(config, dict) else None
        if isinstance(name, str) and name:
            try:
                embedder_named(name)
            except InvalidRequest as error:
                raise InvalidConfig(
                    f"{one.place}: {one.id} names no embedder that there is",
                    expected=error.expected,
                    got=name[:100],
                ) from None


def read_seed(config: WorldConfig, seed: int) -> WorldConfig:
    """Settings with another seed. Errors: `InvalidConfig`."""
    given = {**msgspec.to_builtins(config), "seed": seed}
    try:
        return msgspec.convert(given, WorldConfig)
    except msgspec.ValidationError:
        raise InvalidConfig("invalid seed", expected="a number from 0 to 2^53", got=seed) from None


def agent_artifacts(entry: AgentEntry, *, place: str, settled: bool = True) -> list[Made]:
    """Return what one agent owns when it begins, its own artifact last. Errors: `InvalidConfig`."""
    content: dict[str, Any] = {
        name: value
        for name in ("model", "policy", "system_prompt", "profile", *REFERENCES)
        if (value := getattr(entry, name))
    }
    inline = {name: value for name in INLINE if (value := getattr(entry, name)) is not None}
    for name in inline:
        if _FIELD[name] in content:
            raise InvalidConfig(f"{place}: `{name}` stands beside `{_FIELD[name]}`", expected="one of them")
    if entry.template and ("workflow" in inline or entry.workflow_artifact_id):
        raise InvalidConfig(f"{place}: `template` stands beside a workflow", expected="one of them")
    has_defaults = not entry.policy if entry.defaults is None else entry.defaults
    wanted = {_FIELD[name] for name in inline}
    if entry.template:
        wanted.add("workflow_artifact_id")
    without = set(content) if has_defaults else set(REFERENCES) - wanted
    reflex = inline.pop("reflex", None)
    try:
        made, fields = default_artifacts(
            entry.id, template=entry.template or None, without=frozenset(without), place=place, **inline
        )
    except ArtelierError as error:
        raise InvalidConfig(f"{place}: {error.message}", expected=error.expected, got=error.got) from None
    if reflex is not None:
        made.append(make_owned(entry.id, "reflex", "reflex", reflex, place=place))
        fields["reflex_artifact_id"] = f"{entry.id}_reflex"
    subscribed = entry.subscribed_artifacts
    if subscribed is None:
        subscribed = [HANDBOOK] if has_defaults and settled else []
    content |= {**fields, "subscribed_artifacts": list(subscribed)}
    made.append(
        Made(id=entry.id, kind="agent", owner=entry.id, content=content, metadata=entry.metadata, place=place)
    )
    return made


def _each(entry: AgentEntry, number: int) -> list[AgentEntry]:
    """The agents of an entry: `{n}` in ids and refs is the number of each."""
    if entry.count == 1 and "{n}" not in entry.id:
        return [entry]
    if "{n}" not in entry.id:
        raise InvalidConfig(
            f"agents[{number}]: {entry.count} agents would have the id {entry.id}",
            expected="an id with {n}, such as trader_{n}",
        )

    def number_entry(n: int) -> AgentEntry:
        refs = {name: getattr(entry, name).replace("{n}", str(n)) for name in ("id", *REFERENCES)}
        return msgspec.structs.replace(entry, count=1, **refs)

    return [number_entry(n) for n in range(1, entry.count + 1)]


def _join(agent: str, scrip: int, *, model: str) -> ev.AgentJoined:
    check_agent_id(agent)
    postings = (Posting(SOURCE, account_of(agent), SCRIP, scrip),) if scrip else ()
    return ev.AgentJoined(agent=agent, model=model, postings=postings)
