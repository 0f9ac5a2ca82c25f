"""The deciders of a world: rule agents of the host, trusted functions all, and runs that ask models.

The shipped worlds name rule agents here. A model that the host named and cannot ask stops the world before
the tick; a model that an agent names and the world does not allow is that agent's rejection.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.artifacts import Working
from artelier.artifacts.content import decode_content
from artelier.artifacts.events import ArtifactWritten
from artelier.errors import (
    ArtelierError,
    CorruptStore,
    InvalidConfig,
    MissingKey,
    NotFound,
    NotGranted,
    UnknownModel,
)
from artelier.kernel.policy import check_models, is_granted, may_use_model
from artelier.memory.embedders.registry import REGISTERED
from artelier.models.vendors import VENDORS
from artelier.ports.memory import Ask, Payer
from artelier.tokens.model_info import canonical_name
from artelier.world.actions import Action, Noop, Rejected, action_from
from artelier.world.agent import AgentSpec, WorldAgentRow, is_agents_own, read_agent
from artelier.world.config import WorldConfig
from artelier.world.events import AgentJoined, world_stream
from artelier.world.kernel_adapter import Host, Runs
from artelier.world.tick.agent_facts import Sight
from artelier.world.tick.tick_context import Scene, Thought

Facts = dict[str, Any]

RESERVE = 40
"""Below it nobody in the market spends on the square."""

SQUARE = (
    "ada_stall",
    "ben_stall",
    "cleo_stall",
    "dan_stall",
    "lea_work",
    "max_work",
    "nina_work",
    "oskar_work",
    "petra_work",
    "quin_work",
)

TOOLS = {"rosa": "rosa_oven", "tomas": "tomas_loom"}
DEALERS = ("dora", "emil")


def toolmaker(facts: Facts) -> dict[str, Any]:
    """Offers licences for its tool; ten uses each, sold again and again."""
    tool = TOOLS[facts["agent_id"]]
    if not any(one["artifact"] == tool for one in facts["offers"]):
        return {"action": "offer", "artifact_id": tool, "price": 15, "sells": "licence", "uses": 10}
    return _live(facts)


def museum(facts: Facts) -> dict[str, Any]:
    """Buys poems from dealers and tells visitors how many there are."""
    last = facts["last_action"]
    if last["type"] == "accept" and last["success"]:
        count = sum(one.startswith("poem_") for one in facts["my_artifacts"])
        code = f"def run():\n    return 'poems to be seen: {count}'\n"
        return {"action": "write", "artifact_id": "museum", "content": {"code": code}}
    for one in facts["offers"]:
        is_poem = one["seller"] in DEALERS and one["sells"] == "ownership"
        if is_poem and facts["balance"] >= one["price"] + 10:
            return {"action": "accept", "offer_id": one["offer"], "price_max": 16}
    return _live(facts)


def _live(facts: Facts) -> dict[str, Any]:
    if facts["balance"] < RESERVE:
        return {"action": "noop"}
    return {"action": "invoke", "artifact_id": SQUARE[facts["seed"] % len(SQUARE)], "price_max": 6}


POLICIES: Mapping[str, Callable[[Facts], Any]] = {"market.toolmaker": toolmaker, "market.museum": museum}


# --------------------------------------------------------------------------- deciders


# --------------------------------------------------------------------------- agent spec cache
# Agent artifacts as they were read, by content: an agent that did not change is not read again.


SPECS_MAX = 200_000
"""Contents that are remembered."""


class Specs:
    """The specifications of the agents of a world."""

    def __init__(self) -> None:
        self._known: dict[str, AgentSpec] = {}

    async def preload(self, scene: Scene, agents: Iterable[WorldAgentRow]) -> None:
        await scene.stage.preload(row.id for row in agents)

    async def of(self, scene: Scene, agent: str, *, at_start: bool = False) -> AgentSpec:
        """An agent whose artifact is gone, unreadable or another's has nothing to think with.

        `at_start`: as it stood when the tick began; what an agent configures holds from the next one on.
        """
        standing = await (scene.stage if at_start else scene.working).standing(agent)
        if not is_agents_own(standing, agent) or standing.at is None:
            return AgentSpec()
        ref = standing.at.content
        known = self._known.get(ref)
        if known is not None:
            return known
        try:
            spec = read_agent(decode_content(standing.at.media, await scene.working.blob(ref)))
        except (NotFound, CorruptStore):
            spec = AgentSpec()
        if len(self._known) >= SPECS_MAX:
            self._known.clear()
        self._known[ref] = spec
        return spec


# --------------------------------------------------------------------------- deciders


Policy = Callable[[dict[str, Any]], Any]
"""From the facts of an agent to an action: an `Action`, its JSON object, or None for none."""


class PolicyFailed(ArtelierError):
    """A rule agent of the host raised; nothing of the tick is recorded."""

    code = "policy_failed"

    def __init__(self, name: str, agent: str, tick: int, error: Exception) -> None:
        at = traceback.extract_tb(error.__traceback__)[-1]
        super().__init__(
            f"rule agent {name} raised {type(error).__name__}: {error}"[:400],
            got=f"for {agent} in tick {tick}, in {at.filename}:{at.lineno}",
            hint="Mend the rule and pass the tick again; nothing of it was recorded.",
        )


class Policies:
    """Rule agents by the name that agent artifacts give: those of the shipped worlds, and the host's."""

    def __init__(self, given: Mapping[str, Policy] | None = None) -> None:
        """Errors: `InvalidConfig` for what cannot be called, or waits."""
        self._given = {**POLICIES, **(given or {})}
        self._names: dict[str, str] = {}
        for name, policy in self._given.items():
            if not callable(cast(object, policy)) or inspect.iscoroutinefunction(policy):
                raise InvalidConfig(
                    f"policy {name!r}", expected="a plain function of the facts", got=repr(policy)[:80]
                )
            version = getattr(policy, "version", 1)
            self._names[name] = f"{name}@{version}"

    def __contains__(self, name: str) -> bool:
        return name in self._given

    async def decide(self, name: str, row: WorldAgentRow, sight: Sight) -> Thought:
        """Return what the rule says; for a name that nobody registered a rejection, and no model is asked.

        Errors: `PolicyFailed` for a rule that raises: that is the host's mistake, and is not hidden.
        """
        policy = self._given.get(name)
        if policy is None:
            action = Rejected(f"this world has no rule agent {name[:80]!r} now")
            return Thought(agent=row.id, action=action, source="host", code="unknown_policy")
        facts = await sight.facts(row)
        try:
            action = _action(policy(facts))
        except Exception as error:
            raise PolicyFailed(name, row.id, sight.scene.tick, error) from error
        return Thought(agent=row.id, action=action, source="policy", key=self._names[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The deciders of a world: rule agents of the host, artifacts read once, runs for models."""

    policies: Policies
    specs: Specs
    runs: Runs


def _action(wanted: object) -> Action | Rejected:
    if isinstance(wanted, Action):
        return wanted
    if wanted is None:
        return Noop()
    return action_from(wanted)


# --------------------------------------------------------------------------- models
# The models of a world: which of them its agents may name, and whether the host can ask them at all.
#
# A model that the host named and cannot ask stops the world before the tick. A model that an agent names and
# the world does not allow is that agent's rejection.


NAMES_SHOWN = 5
LOOKED_AT_AT_ONCE = 100
"""Agents whose models are looked at before everybody else in the event loop has a turn."""


def allows(config: WorldConfig, model: str) -> bool:
    """Return whether the settings allow a model: the world's own, and what its list `models` matches.

    Without a list the settings allow every model; `check_named` then keeps agents to those in use.
    """
    name = canonical_name(model)
    if config.models is None or name == canonical_name(config.model):
        return True
    return is_granted(check_models(config.models), name)


def not_allowed(config: WorldConfig, model: str, in_use: Iterable[str] = ()) -> NotGranted:
    """Return the refusal of a model, for the agent that named it."""
    names = sorted({canonical_name(config.model), *(config.models or ()), *in_use})
    return NotGranted(
        f"model {model[:100]!r} is not one of this world's",
        expected=", ".join(names)[:300],
        got=repr(model)[:100],
    )


async def check_askable(scene: Scene, specs: Specs, host: Host) -> None:
    """Check, before anything of a tick is done, that the host can ask the models that it answers for.

    These are the world's own, those of its list, those of its file, and all that are named with a known
    provider: then a key or a package is missing. Any other that cannot be asked is its agent's rejection.
    Errors: `UnknownModel` (also for a package that is not installed), `MissingKey`; `NotGranted` if the
    policy or the tenant's grants forbid the world's own model. Cost: a read of each agent artifact that
    changed.
    """
    users: dict[str, list[str]] = {}
    rows = list(scene.agents.values())
    for number, agent in enumerate(scene.agents):
        if number % LOOKED_AT_AT_ONCE == 0:
            await asyncio.sleep(0)  # a society leaves others their turn
            await specs.preload(scene, rows[number : number + LOOKED_AT_AT_ONCE])
        if not is_agents_own(await scene.stage.standing(agent), agent):
            continue
        spec = await specs.of(scene, agent, at_start=True)
        model = spec.model or scene.config.model
        if not spec.policy and allows(scene.config, model):
            users.setdefault(model, []).append(agent)
    scene.models = frozenset(map(canonical_name, users))
    failed: list[tuple[str, ArtelierError]] = []
    for model, agents in users.items():
        try:
            if canonical_name(model) == canonical_name(scene.config.model):
                await _check_granted(host, model)
            host.services.model(model)
        except (UnknownModel, MissingKey, NotGranted) as error:
            if await _is_hosts(scene, model, agents):
                failed.append((model, error))
    if failed:
        (model, error), others = failed[0], [name for name, _ in failed[1:]]
        raise _stopped_error(scene, model, users[model], error, others)


async def _is_hosts(scene: Scene, model: str, agents: Sequence[str]) -> bool:
    """Return whether the host named a model that cannot be asked, or lacks what its provider needs."""
    name = canonical_name(model)
    provider, _, rest = model.strip().partition(":")
    if name == canonical_name(scene.config.model) or scene.config.models is not None:
        return True
    if provider.lower() in VENDORS and rest:
        return True  # a bare name may be a word that an agent made up
    for agent in agents:
        stream = world_stream(scene.tenant, scene.world)
        joined = await scene.stage.store.read(stream, after=scene.agents[agent].n - 1, limit=1)
        data = joined[0].decode() if joined else None
        if isinstance(data, AgentJoined) and data.model == model:
            return True
    return False


async def _check_granted(host: Host, model: str) -> None:
    """Check the world's own model. Errors: `NotGranted`."""
    name = canonical_name(model)
    if not host.services.policy.allows_model(name):
        expected = ", ".join(host.services.policy.models or ())
        raise NotGranted("the settings of this process forbid it", expected=expected or "no model at all")
    grants = (await host.state()).grants
    if not may_use_model(grants, name):
        raise NotGranted("the tenant has no grant for it", expected=", ".join(sorted(grants)))


def _stopped_error(
    scene: Scene, model: str, agents: Sequence[str], error: ArtelierError, others: Sequence[str]
) -> ArtelierError:
    """Return the error with the world, the tick and the agents that it keeps from thinking."""
    named = ", ".join(agents[:NAMES_SHOWN])
    if len(agents) > NAMES_SHOWN:
        named += f" and {len(agents) - NAMES_SHOWN} more"
    if canonical_name(model) == canonical_name(scene.config.model):
        other = "Or give the world another model: artelier world run WORLD --model NAME."
    else:
        other = (
            f"Or write another `model` into the agent artifact of {agents[0]}; or let `models` of [world]"
            " list others only, and such agents are rejected while the rest goes on."
        )
    own = "Set it. " if isinstance(error, MissingKey) else f"{error.hint} " if error.hint else ""
    more = f"; nor can {', '.join(others[:NAMES_SHOWN])}" if others else ""
    return type(error)(
        f"tick {scene.tick} of world {scene.world} did not begin: the model {model!r} of {named}"
        f" cannot be asked: {error.message}{more}",
        expected=error.expected,
        got=error.got,
        hint=f"{own}{other}",
    )


async def check_named(scene: Scene, working: Working) -> None:
    """Check that no agent artifact that an action wrote names a model that is not the world's.

    Without a list of its own a world has the models that it asks already: an agent brings in no other.
    Errors: `NotGranted`.
    """
    for data, _ in working.changes:
        if not isinstance(data, ArtifactWritten) or data.kind != "agent":
            continue
        named = _model_of(data, await working.blob(data.content))
        if not named:
            continue
        in_use = scene.models if scene.config.models is None else frozenset[str]()
        is_known = canonical_name(named) in {canonical_name(scene.config.model), *in_use}
        if not is_known and (scene.config.models is None or not allows(scene.config, named)):
            raise not_allowed(scene.config, named, in_use)


def _model_of(data: ArtifactWritten, content: bytes) -> str:
    spec: AgentSpec = read_agent(decode_content(data.media, content))
    return spec.model


class WorldPayer:
    """Pays for the embedders of a world's memory stores, of those that the world allows."""

    def __init__(self, config: WorldConfig, payer: Payer) -> None:
        self._config = config
        self._payer = payer

    async def vectors(self, model: str, texts: Sequence[str], ask: Ask) -> Sequence[Sequence[float]]:
        """See `Payer.vectors`. Errors: `NotGranted` for an embedder that costs and nobody allowed."""
        is_listed = self._config.models is not None and allows(self._config, model)
        if not is_listed and model not in REGISTERED:
            raise NotGranted(
                f"the embedder {model} is not one of this world's",
                expected="hashing, minilm, or one that `models` of [world] lists",
                got=model,
            )
        return await self._payer.vectors(model, texts, ask)
