"""The models of a world: which of them its agents may name, and whether the host can ask them at all.

A model that the host named and cannot ask stops the world before the tick. A model that an agent names and
the world does not allow is that agent's rejection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from artelier.artifacts import Working
from artelier.artifacts.content import decode_content
from artelier.artifacts.events import ArtifactWritten
from artelier.errors import ArtelierError, MissingKey, NotGranted, UnknownModel
from artelier.kernel.policy import check_models, is_granted, may_use_model
from artelier.memory.embedders.registry import REGISTERED
from artelier.models.vendors import VENDORS
from artelier.ports.memory import Ask, Payer
from artelier.tokens.model_info import canonical_name
from artelier.world.agent import AgentSpec, is_agents_own, read_agent
from artelier.world.config import WorldConfig
from artelier.world.events import AgentJoined, world_stream
from artelier.world.kernel_adapter import Host
from artelier.world.tick.deciders import Specs
from artelier.world.tick.tick_context import Scene

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
