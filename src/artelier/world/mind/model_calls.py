"""Asking models for agents: each request durable with its price, each reply an action or a rejection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from artelier.artifacts.events import ArtifactCharged
from artelier.errors import (
    AccessDenied,
    ArtelierError,
    ContextTooLong,
    Flow,
    InvalidConfig,
    InvalidRequest,
    MissingKey,
    NotFound,
    ProviderUnavailable,
    Refused,
    RunEnded,
    UnknownModel,
)
from artelier.kernel import Prompt, Run, run_row
from artelier.kernel.events import ModelCompleted
from artelier.log import Batch, Draft, StreamAppend, decode_stored
from artelier.operations.graph.failures import OperationStepFailed
from artelier.world.actions import Action, Rejected, parse_action
from artelier.world.events import agent_stream, reader_of
from artelier.world.kernel_adapter import Runs
from artelier.world.mind import prompt_sections
from artelier.world.mind.billed_reads import stamp_charges
from artelier.world.mind.prompt_builder import ModelRequestDraft
from artelier.world.mind_artifacts import built_in
from artelier.world.queries.worlds import completed_calls
from artelier.world.tick.tick_context import Scene, Thought

if TYPE_CHECKING:
    from artelier.chat.turn.agent_turn_hooks import AgentStep, AgentTurnHooks

T = TypeVar("T")
R = TypeVar("R")

# --------------------------------------------------------------------------- operation hooks
# Operations around the model step of an agent of a world: the profile that its artifact names.
# They run in the agent's own run, with the facts of the tick in scope; so a tick that broke off finds
# what they came to. What they keep is in the session of that run, beside the world. Time is the tick and
# chance the seed of the world: the same seed and the same answers give the same again.


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

    async def _within(self, work: Callable[[Run], Awaitable[R]]) -> R:
        """Work in the agent's run. Whatever came of it is durable before the tick is: no tick stands in the
        log whose operations are not there. Errors: `_HookFailed`."""

        async def durable(run: Run) -> R:
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
            stored = await completed_calls(
                services.store,
                row.id,
                first=prefix,
                before=f"t{self._scene.tick}0",
                beside=f"{prefix}transition",
                kind=ModelCompleted.KIND,
            )
            ended = [decode_stored(data, type=ModelCompleted) for data in stored]
            return sum(one.input_tokens + one.output_tokens for one in ended)

        return await self._runs.within(self._wanted.agent, count)


# --------------------------------------------------------------------------- model calls


AT_ONCE = 64
"""Agents that think at the same time; limits of providers hold below that."""

FILL = 0.9
"""Of the room in a window, for what the estimate of tokens may be wrong by."""

REASON_CHARS_MAX = 400

CHARGES_MAX = 200
"""Newest charges of an agent among which those of this tick are: a prompt has far fewer parts."""


async def answer(scene: Scene, runs: Runs, wanted: ModelRequestDraft) -> Thought:
    """Ask an agent's model, and read an action from the reply.

    A call that fails for good is a rejection with the code `model_failed`, for the agent's next prompt.
    Errors: `Flow` when the host has to do something: give money, resume the run.
    """
    key = f"t{scene.tick}/model"
    try:
        text, tokens = await _ask_with_operations(scene, runs, wanted, key=key)
    except OperationsFailed as error:
        tokens = int(error.facts.get("tokens", 0))
        return _failed_thought(wanted, key, error, said="the operations around it failed", tokens=tokens)
    except (Refused, RunEnded, UnknownModel, MissingKey, ContextTooLong) as error:
        return _failed_thought(wanted, key, error)  # not even asked: nothing is recorded or paid
    except Flow:
        raise
    except Exception as error:
        # What the log has as the end of this step is the agent's lot, whatever class a provider raised;
        # else one broken reply would stop its world for ever. Anything else is a fault of ours.
        if not await runs.has_failed(wanted.agent, key):
            raise
        return _failed_thought(wanted, key, error)
    action = parse_action(text, allowed=scene.config.actions)
    return thought_of(wanted, action, key=key, tokens=tokens)


async def _ask_with_operations(
    scene: Scene, runs: Runs, wanted: ModelRequestDraft, *, key: str
) -> tuple[str, int]:
    async def ask(shown: ModelRequestDraft) -> tuple[str, int]:
        return await ask_within(scene, runs, shown.agent, shown.model, shown.prompt, key=key)

    if not wanted.profile:
        return await ask(wanted)
    return await run_with_operations(scene, runs, wanted, ask)


async def ask_within(
    scene: Scene,
    runs: Runs,
    agent: str,
    model: str,
    prompt_of: Callable[[int], tuple[Prompt, list[ArtifactCharged]]],
    *,
    key: str,
) -> tuple[str, int]:
    """Ask with the prompt that fits, and pay its parts. Return the reply's text, and the tokens of the call.

    `prompt_of` returns the prompt of at most so many tokens, and the charges for what is in it.
    """
    settings = scene.config
    window = runs.window_of(model)
    room = int((window.context_tokens - settings.max_output_tokens) * FILL)
    prompt, charges = prompt_of(max(1, room))
    result = await runs.ask(
        agent,
        prompt,
        key=key,
        model=model,
        aside=await charged_aside(scene, agent, charges, key=key),
        params={"max_output_tokens": settings.max_output_tokens},
    )
    return result.text, result.usage.input_tokens + result.usage.output_tokens


async def charged_aside(
    scene: Scene, agent: str, charges: Sequence[ArtifactCharged], *, key: str
) -> list[StreamAppend]:
    """Charges for the batch of a request of the step `key`, without those that are recorded for it already.

    A request that was cancelled is made anew, and what it was to show is paid for.
    """
    if not charges:
        return []
    stream = agent_stream(scene.tenant, scene.world, agent)
    head, _hash = await scene.stage.store.head(stream)
    paid: set[tuple[str, str, str]] = set()
    for event in await scene.stage.store.read(stream, after=max(0, head - CHARGES_MAX)):
        data = event.decode()
        if event.at_us == scene.tick and isinstance(data, ArtifactCharged):
            paid.add((data.step, data.id, data.action))
    due = [one for one in stamp_charges(charges, key) if (key, one.id, one.action) not in paid]
    if not due:
        return []
    return [StreamAppend(stream, [Draft(one, scene.tick, agent) for one in due])]


async def pay_alone(scene: Scene, charges: Mapping[str, Sequence[ArtifactCharged]], *, key: str) -> None:
    """Pay what agents have read for which no request follows, in a batch of its own; once in a tick.

    Among the events of the tick it could not stand: what others do before could have spent the money.
    """
    appends: list[StreamAppend] = []
    for agent, due in charges.items():
        appends += await charged_aside(scene, agent, due, key=key)
    if appends:
        await scene.stage.store.append(Batch(appends=appends))


def _failed_thought(
    wanted: ModelRequestDraft,
    key: str,
    error: Exception,
    *,
    said: str = "the model gave no answer",
    tokens: int = 0,
) -> Thought:
    why = " ".join(str(error).split())[:REASON_CHARS_MAX]
    code = error.code if isinstance(error, OperationsFailed) else "model_failed"
    return thought_of(wanted, Rejected(f"{said}: {why}"), key=key, code=code, tokens=tokens)


def thought_of(
    wanted: ModelRequestDraft, action: Action | Rejected, *, source: str = "model", **more: Any
) -> Thought:
    """Return the thought that an agent's wish came to."""
    return Thought(
        agent=wanted.agent,
        action=action,
        source=source,
        notes=wanted.notes,
        wall=wanted.wall,
        workflow=wanted.workflow,
        state=wanted.state,
        facts=wanted.facts,
        computed=wanted.computed,
        **more,
    )


async def all_of(work: Callable[[T], Awaitable[R]], items: Iterable[T], *, at_once: int = AT_ONCE) -> list[R]:
    """`work(item)` for each, a bounded number at a time; results in the order of the items.

    After an error no more are begun, but those at work come to their end: they are paid for. The first
    error in the order of the items is raised. Work that says it was cancelled, though nobody did that, is
    `ProviderUnavailable`: it can be tried again, and nothing of it is recorded as an end.
    """
    waiting = enumerate(items)
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}

    async def worker() -> None:
        for number, item in waiting:
            try:
                results[number] = await work(item)
            except asyncio.CancelledError as cancelled:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                error = ProviderUnavailable("a call was cancelled from within, by nobody here")
                error.__cause__ = cancelled
                errors[number] = error
            except (Exception, Flow) as error:
                errors[number] = error
            if errors:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in sorted(results)]
