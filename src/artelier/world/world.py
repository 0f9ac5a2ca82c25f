"""The public `World`: a society of agents in a space of its own, that passes tick by tick.

Read next: `tick/tick.py` for what a tick is, `actions/` for what each action does, `mind/` for how agents
think.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from artelier.artifacts import AccessDecision, Artifacts, Bill, Ref, Service, Space, Working, account_of
from artelier.artifacts.access import PRICE_MAX
from artelier.artifacts.content import canonical_json, decode_content
from artelier.artifacts.queries import Standing
from artelier.artifacts.write_decision import WriteRequest, decide_write
from artelier.errors import Conflict, InvalidRequest, NotFound, SequenceConflict
from artelier.ids import OPERATOR, check_world
from artelier.kernel.run_limits import set_cap, used_of
from artelier.ledger import Posting
from artelier.log import Batch, Blob, Draft, EventData, StreamAppend, Tx, make_blob
from artelier.log.queries import Look
from artelier.memory.embedders.registry import DeskPayer
from artelier.money import SCRIP, parse_usd
from artelier.operations.profile.profile_reader import register_profiles
from artelier.ports.memory import paid_by
from artelier.tokens.model_info import canonical_name
from artelier.world import events as ev
from artelier.world.actions.effects import check_account
from artelier.world.agent import AgentSpec, WorldAgentRow, agreed_prices, check_agent_id, is_agents_own
from artelier.world.config import WorldConfig, plain_config, read_config
from artelier.world.deciders import Cast, Policies, Policy, Specs, WorldPayer, check_askable
from artelier.world.events import reader_of, world_space
from artelier.world.history.fork import fork_world
from artelier.world.history.transfer import CarriedWorld, export_world, import_world
from artelier.world.history.world_diff import WorldSide, diff_worlds, hash_world
from artelier.world.kernel_adapter import Host, Runs, Unbound, host_of, scope_of
from artelier.world.mind_artifacts import register_minds
from artelier.world.queries.worlds import WorldRow, active_among, agent_rows, find_world, look_up_tick
from artelier.world.services import search_memory, shipped_services
from artelier.world.stores import register_stores
from artelier.world.tick.tick import SOURCE, Passed, pass_tick
from artelier.world.tick.tick_context import Scene
from artelier.world.tick.world_state import TickClock, WorldStage

# --------------------------------------------------------------------------- space handle
# A principal's access to a world between ticks: the same handle as outside, over the world's own stream.


def space_of(host: Host, look: Look, world: str, principal: str) -> Space:
    """The handle of one principal in a world. Its events are dated with the tick that passed last."""
    register_minds()
    register_profiles()
    register_stores()
    tenant, space = host.id, world_space(world)

    def tick() -> int:
        return look_up_tick(look, tenant, world)

    clock = TickClock(tick)
    artifacts = Artifacts(
        host.services.store,
        clock,
        tenant,
        space,
        principal,
        main=host.as_principal(reader_of(world)).artifacts,
        interpreter=host.sandbox,
        services=shipped_services(),
        search_memory=search_memory,
        stages=WorldStage,
    )

    async def check_recipient(to: str) -> None:
        stage = WorldStage(host.services.store, tenant=tenant, space=space, at_us=tick())
        await check_account(Working(stage), stage, to, is_known=await stage.is_owner(to))

    return Space(host.services.store, clock, tenant, space, principal, artifacts, check_recipient)


# --------------------------------------------------------------------------- world


class World:
    """One world of a tenant. `World.open` gives it; one process passes its ticks at a time."""

    def __init__(
        self,
        kernel: Host | Unbound,
        id: str,
        *,
        policies: Mapping[str, Policy] | None = None,
        services: Mapping[str, Service] | None = None,
    ) -> None:
        register_minds()
        register_profiles()
        register_stores()
        check_world(id)
        self.id = id
        self.host = host_of(kernel)
        self.policies = Policies(policies)
        self._services = services
        self._cast: Cast | None = None
        self._at_work = asyncio.Lock()
        self._stage: WorldStage | None = None
        self._head = -1
        self._config: tuple[str, WorldConfig] | None = None

    # Opening

    @classmethod
    def open(cls, kernel: Host | Unbound, id: str, *, policies: Mapping[str, Policy] | None = None) -> World:
        """A world that is there; the first call that reads it says if it is not. It may be awaited.

        `kernel`: a kernel, for its default tenant, or a tenant's handle. `policies`: rule agents by the
        name that agent artifacts give; the log records name and version (`policy.version`, 1 unless set).
        """
        return cls(kernel, id, policies=policies)

    @classmethod
    async def new(
        cls,
        kernel: Host | Unbound,
        id: str,
        config: WorldConfig | Mapping[str, Any] | None = None,
        *,
        policies: Mapping[str, Policy] | None = None,
        by: str = OPERATOR,
    ) -> World:
        """Make an empty world. `genesis.settle` fills it with services, libraries and handbooks.

        Errors: `InvalidConfig`; `Conflict` if there is one of this id.
        """
        world = cls(kernel, id, policies=policies)
        settings = read_config(config).with_rules()
        state = await world.host.state()
        content = canonical_json(plain_config(settings))
        ref, blob = make_blob(world.host.id, state.key, content)
        made = ev.WorldMade(seed=settings.seed, config=ref)
        try:
            await world._append([(made, by)], [blob], expected=0)
        except SequenceConflict:
            raise Conflict(f"there is a world {id} already") from None
        return world

    def __await__(self) -> Generator[object, None, World]:
        return self._await_row().__await__()

    async def _await_row(self) -> World:
        await self.row()
        return self

    # Reading

    async def row(self) -> WorldRow:
        """Return the world as it stands. Errors: `NotFound`."""
        row = await find_world(self.host.services.store, self.host.id, self.id)
        if row is None:
            raise NotFound(
                f"there is no world {self.id}",
                hint="`artelier world new` makes one, `artelier world list` shows those that are there.",
            )
        return row

    async def tick_now(self) -> int:
        """The tick that passed last; 0 before the first."""
        return (await self.row()).tick

    async def config(self) -> WorldConfig:
        """The settings that hold."""
        ref = (await self.row()).config
        if self._config is None or self._config[0] != ref:
            content = await self._stage_now().blob(ref)
            self._config = (ref, read_config(msgspec.json.decode(content)))
        return self._config[1]

    async def agents(self) -> dict[str, WorldAgentRow]:
        """Return the active agents, in the order in which they joined."""
        rows = await agent_rows(self.host.services.store, self.host.id, ev.world_space(self.id))
        return {row.id: row for row in rows}

    async def missing_policies(self) -> dict[str, list[str]]:
        """Rule agents that agent artifacts name and nobody registered here, with those agents."""
        scene = await self._scene()
        missing: dict[str, list[str]] = {}
        for agent in scene.agents:
            spec = await self._cast_now().specs.of(scene, agent)
            if spec.policy and spec.policy not in self.policies:
                missing.setdefault(spec.policy, []).append(agent)
        return missing

    def as_principal(self, principal: str) -> Space:
        """Return what one principal can do here with artifacts and money, outside of ticks."""
        return self.host.as_principal(principal, world=self.id)

    # Changing

    async def join(self, *agents: str, scrip: int | None = None, by: str = OPERATOR) -> None:
        """Let agents act from the next tick on; each gets `scrip`, by default the start balance.

        Errors: `NotFound` for an id without an agent artifact; `Conflict` for one that acts already;
        `InvalidRequest` for a name that is the world's own, an agent artifact that somebody else has made or
        owns, and scrip that is no amount.
        """
        if scrip is not None and not 0 <= scrip <= PRICE_MAX:
            raise InvalidRequest("no amount of scrip", expected=f"a number from 0 to {PRICE_MAX}", got=scrip)
        amount = (await self.config()).start_balance if scrip is None else scrip
        stage = self._stage_now()
        await stage.preload(agents)
        events: list[tuple[EventData, str]] = []
        blobs: list[Blob] = []
        for agent in dict.fromkeys(agents):
            check_agent_id(agent)
            standing = await stage.standing(agent)
            if standing is None or standing.deleted or standing.kind != "agent":
                raise NotFound(
                    f"there is no agent artifact {agent} in world {self.id}",
                    hint=f"Write it as {agent}; `artelier migrate agents DIR --world {self.id}` brings some.",
                )
            if not is_agents_own(standing, agent) or standing.creator != agent:
                raise InvalidRequest(
                    f"the agent artifact {agent} is somebody else's, who would act with the money of {agent}",
                    expected=f"made and owned by {agent}",
                    got=f"made by {standing.creator}, owned by {standing.owner}",
                    hint="Choose another id, and write the agent artifact as that principal.",
                )
            paid = (Posting(SOURCE, account_of(agent), SCRIP, amount),) if amount else ()
            if (agreeing := await self._agreeing(stage, standing)) is not None:
                written, made = agreeing
                events.append((written, agent))
                blobs += made
            events.append((ev.AgentJoined(agent=agent, postings=paid), by))
        joining = list(dict.fromkeys(agents))

        def is_new(tx: Tx) -> None:  # also where two are asked to join at once
            if there := active_among(tx, self.host.id, ev.world_space(self.id), joining):
                raise Conflict(f"{there[0]} is an agent of world {self.id} already")

        await self._append(events, blobs, guard=is_new)

    async def _agreeing(
        self, stage: WorldStage, standing: Standing
    ) -> tuple[EventData, Sequence[Blob]] | None:
        """Return the artifact of a joining agent with the prices that it agrees to now; None if it does."""
        if not (await self.config()).asks_consent or standing.at is None:
            return None
        stored = decode_content(standing.at.media, await stage.blob(standing.at.content))
        if not isinstance(stored, dict):
            return None
        agent, content = standing.id, cast("dict[str, Any]", stored)

        async def price_of(id_: str) -> int:
            found = await stage.standing(id_)
            if found is None or found.deleted or found.owner == agent:
                return 0
            return Bill.posted_price("read", found) + Bill.posted_price("include", found)

        async def content_of(ref: str) -> object:
            parsed = Ref.parse(ref, main_allowed=True)
            found = await stage.standing(parsed.id, version=parsed.version)
            at = found.at if found is not None and parsed.space is None else None
            return None if at is None else decode_content(at.media, await stage.blob(at.content))

        agreed = await agreed_prices(content, AgentSpec(), price_of=price_of, content_of=content_of)
        if agreed == content:
            return None
        wish = WriteRequest(id=agent, content=agreed, expected_version=standing.version)
        return decide_write(
            wish,
            standing,
            AccessDecision(True, "joins"),
            tenant=self.host.id,
            principal=agent,
            key=await stage.key(),
        )

    async def leave(self, agent: str, *, by: str = OPERATOR) -> None:
        """An agent acts no longer; what it owns stays. Errors: `NotFound`."""
        if agent not in await self.agents():
            raise NotFound(f"{agent} is no agent of world {self.id}")
        await self._append([(ev.AgentLeft(agent=agent), by)])

    async def pause(self, *, by: str = OPERATOR) -> None:
        """No tick begins until `resume`; one that is at work ends."""
        await self.row()
        await self._append([(ev.WorldPaused(), by)])

    async def resume(self, *, by: str = OPERATOR) -> None:
        await self.row()
        await self._append([(ev.WorldResumed(), by)])

    async def configure(self, config: WorldConfig | Mapping[str, Any], *, by: str = OPERATOR) -> None:
        """Set other settings from the next tick on; seed and rules stay. Errors: `InvalidConfig`."""
        row, before = await self.row(), await self.config()
        settings = msgspec.structs.replace(read_config(config), seed=row.seed, rules=before.rules)
        key = await self._stage_now().key()
        ref, blob = make_blob(self.host.id, key, canonical_json(plain_config(settings)))
        await self._append([(ev.WorldConfigured(config=ref), by)], [blob])

    async def inject(self, text: str, *, to: Sequence[str] = (), by: str = OPERATOR) -> None:
        """Tell all agents, or those named, of something that happened: they learn of it in the next tick."""
        await self.row()
        named = tuple(dict.fromkeys(to))
        known = await self.agents() if named else {}
        if unknown := [agent for agent in named if agent not in known]:
            raise NotFound(f"{unknown[0]} is no agent of world {self.id}")
        ref, blob = make_blob(self.host.id, await self._stage_now().key(), text.encode())
        await self._append([(ev.EventInjected(text=ref, to=named), by)], [blob])

    # Running

    async def tick(self) -> Passed:
        """Pass one tick.

        Errors: `Conflict` if the world is paused, or was changed meanwhile; `UnknownModel`, `MissingKey` and
        `NotGranted` for a model that the host has named and cannot ask: nothing was done; `RunSuspended` when
        a budget is used up: nothing of the tick is recorded but what models have answered.
        """
        async with self._at_work:
            return await self._tick()

    async def _tick(self) -> Passed:
        scene = await self._scene()
        cast = self._cast_now()
        await check_askable(scene, cast.specs, self.host)
        desk = DeskPayer(
            self.host, f"embedding:{self.id}/t{scene.tick}", asks_again=True, scope=scope_of(self.id)
        )
        payer = WorldPayer(scene.config, desk)
        try:
            with paid_by(payer):
                passed, head = await pass_tick(scene, cast, self.host.services.store, head=self._head)
        except BaseException:
            await cast.runs.close()  # opened anew, they know what was asked in the tick that failed
            raise
        self._head = head
        assert self._stage is not None
        self._stage.advance(scene.working, at_us=passed.tick)
        return passed

    async def run(self, *, ticks: int) -> list[Passed]:
        """Pass so many ticks. Errors: those of `tick`; the ticks before are there."""
        if ticks < 0:
            raise InvalidRequest("ticks", expected="a number from 0", got=ticks)
        return [await self.tick() for _ in range(ticks)]

    async def use_model(self, model: str, *, by: str = OPERATOR) -> None:
        """Let agents that name no model ask this one, from the next tick on.

        Errors: `UnknownModel`, `MissingKey` for one that cannot be asked here: nothing is changed.
        """
        name, _ = self.host.services.model(model)
        settings = await self.config()
        if name != canonical_name(settings.model):
            await self.configure(msgspec.structs.replace(settings, model=name), by=by)

    async def cap_spending(self, usd: str | None, *, by: str = OPERATOR) -> None:
        """Let the models of this world cost at most so many dollars from now on; None lifts the cap.

        It holds for the calls of all agents together, at their reservation: `tick` then raises
        `RunSuspended`. Errors: `InvalidRequest` for what is no amount.
        """
        services, scope = self.host.services, scope_of(self.id)
        amount = None if usd is None else parse_usd(usd)
        await self.row()
        state = await self.host.state()
        counted = (await used_of(services, state.id, scope))["usd"]
        if amount is None and counted["cap"] is None:
            return
        cap = None if amount is None else counted["used"] + counted["reserved"] + amount
        await set_cap(services, state.id, scope, unit="usd", cap=cap, by=by)
        await self.close()  # opened anew, the runs of the agents count in the scope

    # Time travel

    async def hash(self, *, at: int | None = None) -> str:
        """Hex; equal for equal histories up to a tick, whatever the world is called and wherever it is.

        `at` is a tick that has passed, by default the newest; what the host did until the next counts too.
        Errors: `NotFound`; `InvalidRequest`; `Erased`; `CorruptStore` for content that is gone.
        """
        return (await hash_world(self.host, self.id, at=at)).sha256

    async def diff(self, other: World) -> dict[str, Any]:
        """Return where two worlds part: `{a, b, tick_a, tick_b, compared_to, equal, first, first_tick,
        agents}`.

        `first` is the first event that differs, None if there is none up to the tick that both have passed:
        `{tick, between_ticks, kind, actor, a, b, differs}`. `first_tick` is the first one that is no deed of
        the host between ticks. `agents` holds what differs of each now: `balance`, `state`, `actions`,
        `owned`, `versions`. Errors: `NotFound`; `Erased`; `CorruptStore`.
        """
        found = await diff_worlds(WorldSide(self.host, self.id), WorldSide(other.host, other.id))
        return msgspec.to_builtins(found)

    async def fork(
        self,
        *,
        at: int | None = None,
        new_id: str | None = None,
        with_: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        by: str = OPERATOR,
    ) -> World:
        """Another world with the same history up to and including tick `at`, by default the newest.

        What the host did after that tick and before the next is part of it. `with_` gives artifacts another
        content right after it, written as their owners' (`{"alice_prompt": content}`; a text is the new
        template of a prompt); `config` changes some settings. Without `new_id` it is called `<id>.fork-<n>`.
        It has the same policies. Agents ask models in runs of its own.
        Errors: `NotFound`; `InvalidRequest`; `InvalidArtifact`; `Conflict` if a world has this id, and for
        agents whose operations have kept artifacts by then.
        """
        name = await fork_world(self.host, self.id, at=at, new_id=new_id, with_=with_, config=config, by=by)
        return self._like(name)

    async def export(self, path: str | Path) -> CarriedWorld:
        """Write the world into one verifiable file: all that it is after its last tick, and the runs with
        its prompts. The file is complete or not there, and only its owner may read it.

        Errors: `NotFound`; `Erased`; `CorruptStore` if what it needs is damaged; `StoreUnavailable`;
        `Conflict` for agents whose operations have kept artifacts: their sessions do not travel.
        """
        return await export_world(self.host, self.id, path)

    @classmethod
    async def import_(
        cls,
        kernel: Host | Unbound,
        path: str | Path,
        *,
        id: str | None = None,
        policies: Mapping[str, Policy] | None = None,
        by: str = OPERATOR,
    ) -> World:
        """A world out of a file, under its own id or another; it goes on here. Its runs are records.

        Errors: `InvalidExport` that names what is wrong; `Conflict` if there is a world of that id, or other
        runs under the ids of its runs; `NotFound`. Nothing is imported by a refusal.
        """
        host = host_of(kernel)
        done = await import_world(host, path, id=id, by=by)
        return cls(host, done.world, policies=policies)

    async def close(self) -> None:
        """Give back the runs of the agents. The world can be opened again, here or elsewhere."""
        if self._cast is not None:
            await self._cast.runs.close()

    async def __aenter__(self) -> World:
        return await self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Inside

    def _like(self, name: str) -> World:
        """Another world with the same policies and services."""
        other = World(self.host, name, services=self._services)
        other.policies = self.policies
        return other

    def _cast_now(self) -> Cast:
        if self._cast is None:
            self._cast = Cast(policies=self.policies, specs=Specs(), runs=Runs(self.host, self.id))
        return self._cast

    def _stage_now(self) -> WorldStage:
        """A stage that reads what is durable now."""
        return WorldStage(
            self.host.services.store, tenant=self.host.id, space=ev.world_space(self.id), at_us=0
        )

    async def _scene(self) -> Scene:
        """The next tick. Errors: `Conflict` if the world is paused."""
        store = self.host.services.store
        # The head before all else: whatever comes between makes the append fail, never pass unseen.
        head, _hash = await store.head(ev.world_stream(self.host.id, self.id))
        row = await self.row()
        row.status.follow(ev.WorldStatus.TICKING, world=self.id)
        tick = row.tick + 1
        if self._stage is None or head != self._head:
            self._stage = self._stage_now()
            await self._stage.load()
            self._head = head
        self._stage.at_us = tick
        return Scene(
            world=self.id,
            tick=tick,
            config=await self.config(),
            stage=self._stage,
            key=await self._stage.key(),
            agents=await self.agents(),
            interpreter=self.host.sandbox,
            services=self._services or shipped_services(),
            search_memory=search_memory,
            main=self.host.as_principal(ev.reader_of(self.id)).artifacts,
            names=store.names,
        )

    async def _append(
        self,
        events: Sequence[tuple[EventData, str]],
        blobs: Sequence[Blob] = (),
        *,
        expected: int | None = None,
        guard: Callable[[Tx], None] | None = None,
    ) -> None:
        """Write between ticks; such an event is dated with the tick that passed last."""
        tick = 0 if expected == 0 else await self.tick_now()
        drafts = [Draft(data, tick, by) for data, by in events]
        append = StreamAppend(ev.world_stream(self.host.id, self.id), drafts, expected)
        await self.host.services.store.append(Batch(appends=(append,), blobs=tuple(blobs), guard=guard))
