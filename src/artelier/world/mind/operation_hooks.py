"""Operations around the model step of an agent of a world: the profile that its artifact names.

They run in the agent's own run, with the facts of the tick in scope; so a tick that broke off finds what they
came to. What they keep is in the session of that run, beside the world. Time is the tick and chance the seed
of the world: the same seed and the same answers give the same again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from artelier.errors import AccessDenied, ArtelierError, InvalidConfig, InvalidRequest, NotFound
from artelier.kernel import Run, run_row
from artelier.kernel.events import ModelCompleted
from artelier.log import decode_stored
from artelier.operations.graph.failures import OperationStepFailed
from artelier.world.events import reader_of
from artelier.world.kernel_adapter import Runs
from artelier.world.mind import prompt_sections
from artelier.world.mind.prompt_builder import ModelRequestDraft
from artelier.world.mind_artifacts import built_in
from artelier.world.tick.tick_context import Scene

if TYPE_CHECKING:
    from artelier.chat.turn.agent_turn_hooks import AgentStep, AgentTurnHooks

TICK_US = 1_000_000
"""A tick is a second to operations: `now` and ages of artifacts count in ticks."""

REFUSED = frozenset(("tool", "turn.user_variant.upsert_and_select", "turn.assistant_blocks.update"))
"""Without a place in a world: tools act outside of it, and an agent's tick has no words of people."""

_OWN = (OperationStepFailed, InvalidRequest, NotFound, AccessDenied, InvalidConfig)
"""What a profile, or what it needs, can be the cause of."""

Ask = Callable[[ModelRequestDraft], Awaitable[tuple[str, int]]]


class OperationsFailed(ArtelierError):
    """A required operation is not done, or the profile cannot be had: the agent does nothing this tick."""

    code = "operations_failed"


async def run_with_operations(
    scene: Scene, runs: Runs, wanted: ModelRequestDraft, ask: Ask
) -> tuple[str, int]:
    """The reply as the operations leave it, and the tokens of all that was asked.

    Errors: `OperationsFailed`, with `tokens`; those of `ask`.
    """
    operating = _Operating(scene, runs, wanted)
    try:
        shown = await operating.before()
        text, _ = await ask(shown)
        return await operating.after(text), await operating.tokens()
    except _HookFailed as failed:
        error = failed.error
        raise OperationsFailed(error.message, tokens=await operating.tokens()) from error


class _HookFailed(Exception):
    def __init__(self, error: ArtelierError) -> None:
        super().__init__(str(error))
        self.error = error


class _Operating:
    """One agent in one tick."""

    def __init__(self, scene: Scene, runs: Runs, wanted: ModelRequestDraft) -> None:
        self._scene = scene
        self._runs = runs
        self._wanted = wanted
        self._stepping: AgentTurnHooks | None = None
        self._step: AgentStep | None = None

    async def before(self) -> ModelRequestDraft:
        """Return what is to be asked, with what artifacts and effects add to its end."""
        await self._within(self._begin)
        assert self._step is not None
        places = self._step.places
        found = [*places.system, *places.before_user, *places.after_user]
        found += [section for _, section in places.at_depth]
        found += [*places.tail, *places.left_out]
        own = [replace(section, stability="volatile", joined=False) for section in found]
        return replace(self._wanted, sections=(*self._wanted.sections, *own))

    async def _begin(self, run: Run) -> None:
        from artelier.chat.turn.agent_turn_hooks import AgentTurnHooks

        scene, wanted = self._scene, self._wanted
        if "@" not in wanted.profile:
            raise InvalidRequest(
                "an agent of a world names its profile with its version",
                expected="id@version",
                got=wanted.profile[:200],
            )
        self._stepping = AgentTurnHooks(
            run,
            ref=wanted.profile,
            chat=run.id,
            model=wanted.model,
            principal=reader_of(scene.world),
            desk=self._runs.host,
            name=wanted.agent,
            unit="t",
            seed=f"{scene.config.seed}/{wanted.agent}",
            refused=REFUSED,
        )
        facts = self._facts()
        self._step = await self._stepping.before(
            scene.tick,
            said=(),
            text=str(facts[prompt_sections.RESULT]),
            more={"world": facts},
            now_us=scene.tick * TICK_US,
        )

    def _facts(self) -> dict[str, Any]:
        """Return what the world says of the agent, as prompts may show it: words of others are fenced as
        data.
        """
        facts = self._wanted.facts
        known = {name: value for name, value in built_in(facts).items() if name != prompt_sections.RESULT}
        shown = {name: known[name] for name in sorted(known) if name != prompt_sections.MEMORIES}
        return {**shown, prompt_sections.RESULT: prompt_sections.result_text(facts[prompt_sections.RESULT])}

    async def after(self, reply: str) -> str:
        async def end(run: Run) -> str:
            assert self._stepping is not None and self._step is not None
            turned = await self._stepping.after(self._step, reply=reply)
            return turned.reply.text if turned.reply is not None else reply

        return await self._within(end)

    async def _within(self, work: Callable[[Run], Awaitable[Any]]) -> Any:
        """Work in the agent's run. Whatever came of it is durable before the tick is: no tick stands in the
        log whose operations are not there. Errors: `_HookFailed`."""

        async def durable(run: Run) -> Any:
            try:
                found = await work(run)
            except _OWN as error:
                await run.core.writer.commit()
                raise _HookFailed(error) from error
            await run.core.writer.commit()
            return found

        return await self._runs.within(self._wanted.agent, durable)

    async def tokens(self) -> int:
        """Return the input and output tokens of all model calls of the tick so far. Cost: O(calls)."""
        prefix = f"t{self._scene.tick}/"

        async def count(run: Run) -> int:
            services = run.core.services
            row = await run_row(services.store, run.tenant_id, run.id)
            rows = await services.store.query(
                "SELECT e.data FROM steps s JOIN events e ON e.stream = s.run AND e.seq = s.completed"
                " WHERE s.run = ? AND s.key >= ? AND s.key < ? AND s.key <> ? AND s.kind = 'model'"
                " AND e.kind = ?",
                (row.id, prefix, f"t{self._scene.tick}0", f"{prefix}transition", ModelCompleted.KIND),
            )
            ended = [decode_stored(data, type=ModelCompleted) for (data,) in rows]
            return sum(one.input_tokens + one.output_tokens for one in ended)

        return await self._runs.within(self._wanted.agent, count)
