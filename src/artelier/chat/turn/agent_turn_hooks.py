"""A profile around the steps of an agent: each cycle of its run is a turn of a session of its own.

The same operations, barrier and commits as around a chat's main call; the step's model call, its tools and
its transition belong to whoever drives the cycle. The session is named after the run, or as its driver says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from artelier.chat.turn.turn_events import changes_of, reports, session_stream
from artelier.chat.turn.turn_inputs import TurnInputs, found_from
from artelier.errors import Conflict, InvalidRequest, RunEnded
from artelier.kernel import Run, run_row
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Blob, Draft, EventData, StreamAppend
from artelier.operations import events as ev
from artelier.operations.graph.artifact_inclusion import Places, inclusions, names_shown, place_sections
from artelier.operations.graph.effects import OperationOutcome, Turned, apply
from artelier.operations.graph.failures import OperationStepFailed
from artelier.operations.graph.orchestrator import Hooked, Surroundings, fault_of, not_done, passages_of
from artelier.operations.graph.plan import OperationPlan, plan, update_marks
from artelier.operations.graph.scope import Situation
from artelier.operations.profile.definition import AFTER, BEFORE, Hook, SystemUpdate
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.ports.media import Medium
from artelier.ports.model import ChatMessage
from artelier.tokens import estimate_tokens

TURNS = frozenset(
    ("turn.user_variant.upsert_and_select", "turn.assistant_variant.patch", "turn.assistant_blocks.update")
)
"""Effects on what people say in a chat: an agent's steps have no such words."""

TAKEN = "#steps"
"""Among the marks of operations: how many steps there were. No operation can be called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """One cycle between its operations before and after."""

    number: int
    found: TurnInputs
    plan: OperationPlan
    turned: Turned
    outcomes: tuple[OperationOutcome, ...]
    situation: Situation
    places: Places
    """What stands in the prompt of the step's model call."""


class AgentTurnHooks:
    """The operations around the steps of one run."""

    def __init__(
        self,
        run: Run,
        *,
        ref: str,
        chat: str,
        model: str,
        principal: str,
        desk: TenantScope | None,
        session_id: str = "",
        name: str = "",
        unit: str = "c",
        seed: str = "",
        refused: Collection[str] = (),
    ) -> None:
        """`ref`: the profile with its version. `chat`: names the session's stream. `desk`: the kernel bound
        to the tenant, None in a replay. `name`: what templates call the agent. `unit`: begins the keys of
        the steps, before their number. `seed`: of what operations draw by chance; the run's id by default.
        `refused`: kinds of operations, and types of effects, without a place where the agent lives."""
        self.run = run
        self._ref = ref
        self._chat = chat
        self._model = model
        self._principal = principal
        self._desk = desk
        self._session = session_id
        self._unit = unit
        self._seed = seed
        self._refused = refused
        self._at_us: int | None = None
        self._profile: OperationProfile | None = None
        self._people: dict[str, dict[str, Any]] = {
            "user": {"name": "User"},
            "char": {"name": name or "Agent"},
        }

    @property
    def profile(self) -> OperationProfile:
        """The profile as it was loaded, or recorded, when the first step began."""
        assert self._profile is not None, "a step reads its session first"
        return self._profile

    @property
    def _scope(self) -> str:
        return f"{self.profile.profile_id}/{self._session or self.profile.session_id}"

    async def before(
        self,
        number: int,
        *,
        said: Sequence[ChatMessage],
        text: str,
        trigger: str = "generate",
        attachments: tuple[Medium, ...] = (),
        more: Mapping[str, Any] | None = None,
        now_us: int | None = None,
    ) -> AgentStep:
        """Run the operations before step `number`, and commit their effects.

        `said`: the newest messages, oldest first. `text`: what the step is about. `attachments`: what its
        task came with. `more`: names in scope besides those of every profile. `now_us`: the time of the step,
        by default the clock's; operations see the run's start then.
        Errors: `StepFailed` if the barrier holds; `InclusionFailed`; `Conflict`; Flow.
        """
        prefix = f"{self._unit}{number}/"
        self._at_us = now_us
        found = await self._read_inputs(prefix)
        planned = plan(
            self.profile,
            trigger=trigger,
            turn=_count_steps(found.marks) + 1,
            tokens=found.tokens,
            marks=found.marks,
        )

        async def write_down(full: str) -> tuple[ev.PhaseChanged, list[Blob]]:
            return ev.PhaseChanged(key=full, phase="planning", plan=planned.to_planned()), []

        await self.run.receipt(ev.PhaseChanged, write_down, key=f"{prefix}planning")
        situation = Situation.of(
            said,
            people=self._people,
            chat=self._chat,
            branch="main",
            run=self.run.id,
            turn=number,
            trigger=trigger,
            text=text,
            attachments=attachments,
            more=more or {},
            now_us=self.run.core.started_us if now_us is None else now_us,
        )
        turned = Turned(state=found.state)
        outcomes = await self._hook(prefix, planned, BEFORE, turned, situation, {})
        if (failed := not_done(outcomes)) is not None:
            raise _failure("before_barrier", failed)
        turned = apply(turned, outcomes, at_us=situation.now_us)
        await self._commit(prefix, BEFORE, turned, {}, found.tokens)
        turned = replace(turned, applied=(), written=())
        return AgentStep(
            number=number,
            found=found,
            plan=planned,
            turned=turned,
            outcomes=tuple(outcomes),
            situation=situation,
            places=await self._places(turned, situation, trigger, prefix),
        )

    async def after(self, step: AgentStep, *, reply: str) -> Turned:
        """Run the operations after the step's model call, and commit their effects.

        A reply that an operation has changed is in the result: what becomes of it is the driver's.
        Errors: `StepFailed` if a required operation is not done, after the commit of the others; Flow.
        """
        prefix = f"{self._unit}{step.number}/"
        situation = replace(step.situation, reply=reply)
        rag = passages_of(step.outcomes)
        outcomes = await self._hook(prefix, step.plan, AFTER, step.turned, situation, rag)
        turned = apply(step.turned, outcomes, at_us=situation.now_us, reply=reply)
        found = step.found
        turn = _count_steps(found.marks) + 1
        done = [one.slot for one in (*step.outcomes, *outcomes) if one.status == "done"]
        marks = update_marks(step.plan, done, turn=turn, tokens=found.tokens, marks=found.marks)
        if any(one.activation is not None for one in self.profile.operations):
            marks[TAKEN] = (turn, found.tokens)
        tokens = found.tokens + estimate_tokens(reply)
        await self._commit(prefix, AFTER, turned, marks, tokens)
        if (failed := not_done(outcomes)) is not None:
            raise _failure("after_main_llm", failed)
        return turned

    async def _hook(
        self,
        prefix: str,
        planned: OperationPlan,
        hook: Hook,
        turned: Turned,
        situation: Situation,
        rag: dict[str, Any],
    ) -> list[OperationOutcome]:
        around = Surroundings(
            run=self.run,
            profile=self.profile,
            model=self._model,
            principal=self._principal,
            desk=self._desk,
            prefix=prefix,
            seed=self._seed,
        )
        slots = planned.at(hook)
        return await Hooked(around, slots, turned.state, situation, rag).run_all() if slots else []

    async def _places(self, turned: Turned, situation: Situation, trigger: str, prefix: str) -> Places:
        items = await inclusions(
            self.run,
            self.profile.inclusions,
            turned.state,
            names_shown(self.profile, turned.state, situation),
            trigger=trigger,
            model=self._model,
            prefix=prefix,
        )
        return place_sections((), turned, items, profile=self._ref)

    # The session

    async def _read_inputs(self, prefix: str) -> TurnInputs:
        async def make(full: str) -> tuple[ev.SessionRead, list[Blob]]:
            return await self._read(full)

        read = await self.run.receipt(ev.SessionRead, make, key=f"{prefix}session")
        found = await found_from(self.run, None, read)
        self._profile = found.profile
        return found

    async def _read(self, full: str) -> tuple[ev.SessionRead, list[Blob]]:
        if self._desk is None:
            raise RunEnded(f"run {self.run.id} ended before this step had read its session")
        from artelier.chat.queries.chats import branch_of, chat_row
        from artelier.chat.queries.tree import stand
        from artelier.operations.profile.profile_reader import load_profile

        if self._profile is None:
            self._profile, _ = await load_profile(self._desk, self._ref, by=self._principal)
            check_place(self._profile, self._refused)
        core, blobs = self.run.core, list[Blob]()
        await core.writer.commit()  # what the step before has changed is read back here
        store, tenant = core.store, self.run.tenant_id
        await self._check_no_fork()
        stream = session_stream(tenant, self._chat)
        profile, more = core.keep_json(self.profile.data())
        blobs.extend(more)
        if (await store.head(stream))[0] == 0:
            settings, more = core.keep_json(
                {"model": self._model, "profile": self._ref, "principal": self._principal}
            )
            opened = ev.ChatOpened(settings=settings)
            self._aside(opened, list(more))
            return ev.SessionRead(key=full, settings=settings, profile=profile, turn=1), blobs
        row = await chat_row(store, tenant, self._chat)
        self._check_own(await core.load_json(row.settings))
        branch = await branch_of(store, row, "main")
        stood = await stand(
            store,
            tenant,
            self._chat,
            node=branch.head,
            scope=self._scope,
            trigger="step",
            now_us=self._now_us(),
        )
        read = ev.SessionRead(
            key=full,
            settings=stood.settings,
            profile=profile,
            artifacts=stood.artifacts,
            marks=dict(stood.marks),
            turn=stood.turn,
            tokens=stood.tokens,
        )
        return read, blobs

    def _now_us(self) -> int:
        return self.run.core.clock.now_us() if self._at_us is None else self._at_us

    async def _check_no_fork(self) -> None:
        """Errors: `InvalidRequest`: what the steps before have changed stands in the origin's session."""
        row = await run_row(self.run.core.services.store, self.run.tenant_id, self.run.id)
        if row.origin is not None:
            raise InvalidRequest(
                f"run {self.run.id!r} is a fork, and its steps have operations: the artifacts that they"
                " keep are those of the run that it was forked from",
                hint="Begin a run of its own, or fork a run without a profile.",
            )

    def _check_own(self, settings: Any) -> None:
        """Errors: `Conflict` for the stream of a chat of people, or of another agent's session."""
        if settings.get("principal") != self._principal:
            raise Conflict(
                f"there is a chat {self._chat!r} that is not of the steps of this agent",
                expected=f"a session of {self._principal}",
                got=str(settings.get("principal"))[:120],
                hint="Give the run, or the session of the agent, another name.",
            )

    def _aside(self, data: EventData, blobs: list[Blob]) -> None:
        core = self.run.core
        draft = Draft(data, self._now_us(), core.writer.name)
        stream = session_stream(self.run.tenant_id, self._chat)
        core.writer.note_aside(StreamAppend(stream, [draft]), blobs)

    async def _commit(
        self, prefix: str, hook: Hook, turned: Turned, marks: dict[str, tuple[int, int]], tokens: int
    ) -> None:
        """The report in the run's stream and the changes in the session's, in one batch."""
        if not turned.applied and not marks:
            return
        core = self.run.core

        async def make(full: str) -> tuple[ev.CommitReported, list[Blob]]:
            listed, blobs = reports(core, turned.applied)
            changed: list[Blob] = []
            taken = ev.StepTaken(
                branch="main",
                run=self.run.id,
                profile=self._ref,
                scope=self._scope,
                changes=changes_of(core, turned, changed),
                marks=marks,
                tokens=tokens,
            )
            if taken.changes or taken.marks:
                self._aside(taken, changed)
            return ev.CommitReported(key=full, hook=hook, reports=listed), blobs

        await self.run.receipt(ev.CommitReported, make, key=f"{prefix}commit/{hook}")


def check_place(profile: OperationProfile, refused: Collection[str]) -> None:
    """Errors: `InvalidRequest` for a profile that asks for what would not be done, and be called done.

    `refused`: kinds of operations, and types of effects. No system prompt is there to be replaced.
    """
    for one in profile.operations if profile.enabled else ():
        asked = [one.kind, *(effect.type for effect in one.effects)] if one.enabled else []
        replaces = any(
            isinstance(effect, SystemUpdate) and effect.mode == "replace" for effect in one.effects
        )
        found = next((name for name in asked if name in refused), "")
        if found or (one.enabled and replaces):
            raise InvalidRequest(
                f"operation {one.operation_id!r} of profile {profile.profile_id!r} has no place around"
                " the steps of this agent",
                expected=f"none of {', '.join(sorted(refused))}; no system prompt that is replaced",
                got=found or "prompt.system_update with mode replace",
            )


def _count_steps(marks: Mapping[str, tuple[int, int]]) -> int:
    """Return how many steps of the session are behind it, over all runs; counted while anything depends on
    it.
    """
    return marks.get(TAKEN, (0, 0))[0]


def _failure(failed_type: str, outcome: OperationOutcome) -> OperationStepFailed:
    code, message = fault_of(outcome)
    return OperationStepFailed(
        message, failed_type=failed_type, operation=outcome.slot.id, operation_code=code
    )
