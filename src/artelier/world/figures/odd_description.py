"""A description of a world by the ODD protocol (overview, design concepts, details), as Markdown.

Every sentence is true of any world, or of this one because its settings, artifacts or events say so; nothing
is made up, and what nothing in a world says (its purpose) is said to be unknown. Names and texts of agents
are data: on one line, bounded, in a code span.
Source: Grimm et al. (2020), The ODD Protocol, JASSS 23(2) 7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from artelier.artifacts import ArtifactWritten
from artelier.artifacts.content import decode_content
from artelier.artifacts.queries import KindCount, count_kinds, load_many
from artelier.errors import CorruptStore, NotFound
from artelier.log import EventData
from artelier.world import events as ev
from artelier.world.agent import AgentSpec, read_agent
from artelier.world.config import WorldConfig, plain_config
from artelier.world.events import world_space
from artelier.world.history.history_fold import act_of, history_of
from artelier.world.queries.worlds import WorldRow, count_agents
from artelier.world.tick.world_state import WorldStage
from artelier.world.world import World

NAME_CHARS_MAX = 80
TEXT_CHARS_MAX = 300
LIST_MAX = 20
"""Rows of a table, names in a list; what is left out is counted."""

PAGE = 500

_HOSTILE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile(r"\s+")

ACTIVATION: Mapping[str, str] = {
    "simultaneous": "`simultaneous`: all agents decide on the state at the end of the tick before.",
    "random": "`random`: agents decide one after another, in an order drawn anew each tick; each sees"
    " what those before it did.",
    "staged": "`staged`: stage by stage, each seeing what the stages before did; within one stage,"
    " agents decide on the same state.",
}


@dataclass(slots=True)
class _DescriptionFacts:
    """The facts of a world that are read before the description is written."""

    row: WorldRow
    config: WorldConfig
    agents: Mapping[str, AgentSpec]
    left: int
    kinds: Sequence[KindCount]
    """Kind, artifacts, owners; now."""
    first_kinds: Counter[str] = field(default_factory=Counter[str])
    """Artifacts that were there before the first tick."""
    joined: dict[str, int] = field(default_factory=dict[str, int])
    """Agents before the first tick, with their scrip."""
    later: int = 0
    """Agents that joined afterwards."""
    steps: int = 0
    """Of agents, the rejected ones too."""
    done: Counter[str] = field(default_factory=Counter[str])
    """Actions that were carried out."""
    deciders: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Steps by source, and for rule agents by `name@version`."""
    happened: Counter[str] = field(default_factory=Counter[str])
    """Events by kind."""
    rewritten: int = 0
    """Further versions of artifacts that agents wrote in ticks."""


async def describe(world: World) -> str:
    """The description, as it stands after the last tick. Cost: reads every event once. Errors: `NotFound`."""
    facts = await _facts(world)
    parts = [
        f"# World {_code(world.id)}",
        f"Described by the ODD protocol, after tick {facts.row.tick}.",
        "## Overview",
        *_overview(facts),
        "## Design concepts",
        *_concepts(facts),
        "## Details",
        *_details(facts),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


# Reading


async def _facts(world: World) -> _DescriptionFacts:
    row, config = await world.row(), await world.config()
    store, scope = world.host.services.store, (world.host.id, world_space(world.id))
    facts = _DescriptionFacts(
        row=row,
        config=config,
        agents=await _agents(world),
        left=await count_agents(store, *scope, active=False),
        kinds=await count_kinds(store, *scope),
    )
    async for event in history_of(world.host, world.id, to_tick=row.tick):
        _take(facts, event.decode(), at=event.at_us)
        facts.happened[event.kind] += 1
    return facts


def _take(facts: _DescriptionFacts, data: EventData, *, at: int) -> None:
    if isinstance(data, ev.AgentJoined):
        if at:
            facts.later += 1
        else:
            facts.joined[data.agent] = sum(one.amount for one in data.postings)
    elif isinstance(data, ArtifactWritten) and not at and data.version == 1:
        facts.first_kinds[data.kind] += 1
    if (act := act_of(data)) is None:
        return
    facts.steps += 1
    if not isinstance(data, ev.ActionRejected) and getattr(data, "outcome", "done") == "done":
        facts.done[act.action] += 1
    facts.deciders[act.source, act.step if act.source == "policy" else ""] += 1
    facts.rewritten += isinstance(data, ArtifactWritten) and data.version > 1


async def _agents(world: World) -> dict[str, AgentSpec]:
    """Return what each agent that acts thinks with, in the order of their joining."""
    store, space = world.host.services.store, world_space(world.id)
    stage = WorldStage(store, tenant=world.host.id, space=space, at_us=0)
    found: dict[str, AgentSpec] = dict.fromkeys(await world.agents(), AgentSpec())
    ids = list(found)
    for start in range(0, len(ids), PAGE):
        some = ids[start : start + PAGE]
        standings = (await load_many(store, world.host.id, space, some)).values()
        newest = {one.id: one.at for one in standings if one.kind == "agent" and not one.deleted}
        await stage.preload_contents(at.content for at in newest.values() if at is not None)
        for agent, at in newest.items():
            if at is None:
                continue
            try:
                found[agent] = read_agent(decode_content(at.media, await stage.blob(at.content)))
            except (NotFound, CorruptStore):
                continue  # it was erased: such an agent has nothing to think with
        stage.forget_contents()
    return found


# Overview


def _overview(facts: _DescriptionFacts) -> list[str]:
    config = facts.config
    return [
        "### Purpose",
        "Nothing in a world says what it is for.",
        "### Entities, state variables and scales",
        f"{_count(len(facts.agents), 'agent')} act{_s(len(facts.agents))}"
        + (f"; {_count(facts.left, 'agent')} acted before" if facts.left else "")
        + ". An agent has scrip, artifacts that it owns, a state of its workflow if it has one, and what"
        " it did last.",
        _table(
            ("artifacts of kind", "number", "owners"),
            [(_code(kind), count, owners) for kind, count, owners in facts.kinds],
        ),
        f"Time passes in ticks; {_count(facts.row.tick, 'tick')} passed so far. " + _space(config),
        "### Process overview and scheduling",
        "In each tick:",
        _list(
            [
                "scheduled shocks of this tick strike" if config.shocks else "",
                "agents decide: a rule of the host, else a reflex, else a model",
                "their actions are carried out one after another, in an order drawn from the seed",
                "workflows move on to their next states",
                f"every {_count(config.mint.every, 'tick')} a round of the mint is closed"
                if config.mint.every
                else "",
                "all of it is recorded at once, or none of it",
            ],
            mark="1.",
        ),
        f"Activation is {ACTIVATION[config.activation]}",
        _list([_names(stage) for stage in config.stages], mark="1.") if config.activation == "staged" else "",
    ]


def _space(config: WorldConfig) -> str:
    network = config.network
    if network is None:
        return "There is no space: every agent sees every other."
    edges = sum(map(len, network.values()))
    return (
        f"A network says whom an agent sees: {_count(len(network), 'agent')} in it,"
        f" {_count(edges, 'directed edge')}."
    )


# Design concepts


def _concepts(facts: _DescriptionFacts) -> list[str]:
    config, happened = facts.config, facts.happened
    allowed = "all actions" if config.actions is None else _names(config.actions)
    return [
        _list(
            [
                "**Objectives**: the world prescribes none; scrip is what agents can earn and spend.",
                f"**Adaptation**: agents may change the artifacts that they think with. They have written"
                f" {_count(facts.rewritten, 'further version')} of artifacts and carried out"
                f" {_count(facts.done['configure'], 'configuration')}.",
                "**Sensing**: an agent knows its own artifacts and balance, offers and messages"
                + (" of those whom it sees" if config.network is not None else "")
                + ", and what it may read or subscribe to.",
                f"**Interaction**: {_count(happened['offer.accepted'], 'trade')},"
                f" {_count(happened['message.sent'], 'message')},"
                f" {_count(facts.done['transfer'], 'transfer')} and"
                f" {_count(facts.done['invoke'], 'invocation')} so far.",
                f"**Stochasticity**: orders and draws come from the seed {facts.row.seed}; what models"
                " answer is recorded.",
                f"**Observation**: {_describe_collected(config)}",
                f"**Actions**: {allowed} allowed. Rejected so far: {happened['action.rejected']}"
                f" of {facts.steps}.",
            ]
        )
    ]


def _describe_collected(config: WorldConfig) -> str:
    if not config.collect:
        return "no columns are collected per agent."
    pairs = [f"{_code(name)} = {_code(text)}" for name, text in config.collect.items()]
    return f"collected per tick and agent: {_some(pairs)}."


# Details


def _details(facts: _DescriptionFacts) -> list[str]:
    row = facts.row
    forked = f" It was forked off {_code(row.parent)} after tick {row.forked_at}." if row.parent else ""
    return [
        "### Initialisation",
        f"Seed {row.seed}. Before the first tick {_count(len(facts.joined), 'agent')} joined with"
        f" {sum(facts.joined.values())} scrip in all ({facts.config.start_balance} is the start balance);"
        f" {_count(facts.later, 'agent')} joined later.{forked}",
        _table(
            ("artifacts of kind at the beginning", "number"),
            [(_code(kind), count) for kind, count in sorted(facts.first_kinds.items())],
        ),
        "### Input data",
        _inputs(facts),
        _shocks(facts.config),
        "### Submodels",
        "#### Decisions",
        _table(("think with", "agents", "such as"), _thinking(facts)),
        _table(("decided by", "rule", "steps"), _decider_rows(facts)),
        "#### Mint",
        _mint(facts),
        "#### Settings",
        _table(("setting", "value"), _settings(facts.config)),
    ]


def _inputs(facts: _DescriptionFacts) -> str:
    done = facts.happened
    return (
        f"The host injected or scheduled {_count(done['event.injected'], 'piece')} of news and changed the"
        f" settings {_count(done['world.configured'], 'time')}. Shocks moved money"
        f" {_count(done['shock.applied'], 'time')}."
    )


def _shocks(config: WorldConfig) -> str:
    rows = [
        (
            one.tick,
            _code(one.name),
            one.pay,
            _names(one.to) if one.to else "all",
            _code(one.message, chars_max=TEXT_CHARS_MAX) if one.message else "",
        )
        for one in sorted(config.shocks, key=lambda one: one.tick)
    ]
    return _table(("shock at tick", "name", "scrip to each", "agents", "message"), rows)


def _thinking(facts: _DescriptionFacts) -> list[tuple[object, ...]]:
    groups: dict[str, list[str]] = {}
    for agent, spec in facts.agents.items():
        groups.setdefault(_mind(spec, facts.config), []).append(agent)
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return [(mind, len(some), _names(some, most=3)) for mind, some in ordered]


def _mind(spec: AgentSpec, config: WorldConfig) -> str:
    """Return what an agent decides by, in the order in which it is tried."""
    parts = [f"rule {_code(spec.policy)}"] if spec.policy else []
    inline = spec.content
    for name, kind in (("reflex", "reflex"), ("workflow", "workflow")):
        if spec.ref(f"{name}_artifact_id") or inline.get(name):
            parts.append(kind)
    if not spec.policy:
        parts.append(f"model {_code(spec.model or config.model)}")
    return ", ".join(parts)


def _decider_rows(facts: _DescriptionFacts) -> list[tuple[object, ...]]:
    """Return the deciders as the log records them; a rule comes with the version that decided."""
    ordered = sorted(facts.deciders.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(source, _code(step) if step else "", steps) for (source, step), steps in ordered]


def _mint(facts: _DescriptionFacts) -> str:
    mint = facts.config.mint
    if not mint.every:
        return "There is no mint."
    paid = "the score of 0 to 100, divided by 10 and rounded down, is minted"
    if facts.config.asks_consent:
        paid = (
            "its winner is paid a scrip for each agent that has used the artifact since it was last"
            " scored, out of the fees of services and else of new scrip"
        )
    cases = _some([f"{len(some)} for {_code(kind)}" for kind, some in sorted(mint.cases.items())])
    return (
        f"Every {_count(mint.every, 'tick')} a scoring slot is sold by a sealed second-price auction;"
        f" {paid}. Test cases: {cases or 'none'}."
        f" Rounds in which it moved money: {facts.happened['auction.closed']}."
    )


def _settings(config: WorldConfig) -> list[tuple[object, ...]]:
    told: dict[str, Any] = plain_config(config)
    usual: dict[str, Any] = msgspec.to_builtins(WorldConfig())
    return [
        (
            _code(name) + ("" if value == usual[name] else " (changed)"),
            _code(msgspec.json.encode(value).decode(), chars_max=TEXT_CHARS_MAX),
        )
        for name, value in told.items()
    ]


# Writing


def _code(text: str, *, chars_max: int = NAME_CHARS_MAX) -> str:
    """Data as a code span that no text can leave: one line, bounded, no backtick, no bar of a table."""
    flat = _BREAKS.sub(" ", str(text)[: chars_max * 4]).strip()
    flat = _HOSTILE.sub(lambda found: f"\\u{ord(found[0]):04x}", flat)
    flat = flat.replace("`", "'").replace("|", "¦")
    if len(flat) > chars_max:
        flat = flat[: chars_max - 1] + "…"
    return f"`{flat}`" if flat else "(empty)"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _s(number: int) -> str:
    return "s" if number == 1 else ""


def _names(names: Sequence[str], *, most: int = LIST_MAX) -> str:
    return _some([_code(name) for name in names], most=most)


def _some(parts: Sequence[str], *, most: int = LIST_MAX) -> str:
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {more} more" if more > 0 else "")


def _list(items: Iterable[str], *, mark: str = "-") -> str:
    return "\n".join(f"{mark} {item}" for item in items if item)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Cells are words of ours, numbers, or made by `_code`."""
    if not rows:
        return ""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows[:LIST_MAX]]
    more = len(rows) - LIST_MAX
    return "\n".join(lines) + (f"\n\n{more} more rows are left out." if more > 0 else "")
