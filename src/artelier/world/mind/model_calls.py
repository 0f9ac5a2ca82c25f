"""Asking models for agents: each request durable with its price, each reply an action or a rejection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from artelier.artifacts.events import ArtifactCharged
from artelier.errors import (
    ContextTooLong,
    Flow,
    MissingKey,
    ProviderUnavailable,
    Refused,
    RunEnded,
    UnknownModel,
)
from artelier.log import Batch, Draft, StreamAppend
from artelier.world.actions import Rejected, parse_action
from artelier.world.events import agent_stream
from artelier.world.kernel_adapter import Runs
from artelier.world.mind.billed_reads import stamp_charges
from artelier.world.mind.operation_hooks import OperationsFailed, run_with_operations
from artelier.world.mind.prompt_builder import ModelRequestDraft
from artelier.world.tick.agent_decision import Thought
from artelier.world.tick.tick_context import Scene

AT_ONCE = 64
"""Agents that think at the same time; limits of providers hold below that."""

FILL = 0.9
"""Of the room in a window, for what the estimate of tokens may be wrong by."""

REASON_CHARS_MAX = 400

CHARGES_MAX = 200
"""Newest charges of an agent among which those of this tick are: a prompt has far fewer parts."""

T = TypeVar("T")


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
        return await _reply(scene, runs, shown, key=key)

    if not wanted.profile:
        return await ask(wanted)
    return await run_with_operations(scene, runs, wanted, ask)


async def _reply(scene: Scene, runs: Runs, wanted: ModelRequestDraft, *, key: str) -> tuple[str, int]:
    settings = scene.config
    window = runs.window_of(wanted.model)
    room = int((window.context_tokens - settings.max_output_tokens) * FILL)
    prompt, charges = wanted.prompt(budget_tokens=max(1, room))
    result = await runs.ask(
        wanted.agent,
        prompt,
        key=key,
        model=wanted.model,
        aside=await charged_aside(scene, wanted.agent, charges, key=key),
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


def thought_of(wanted: ModelRequestDraft, action: Any, *, source: str = "model", **more: Any) -> Thought:
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


async def all_of(
    work: Callable[[T], Awaitable[Any]], items: Iterable[T], *, at_once: int = AT_ONCE
) -> list[Any]:
    """`work(item)` for each, a bounded number at a time; results in the order of the items.

    After an error no more are begun, but those at work come to their end: they are paid for. The first
    error in the order of the items is raised. Work that says it was cancelled, though nobody did that, is
    `ProviderUnavailable`: it can be tried again, and nothing of it is recorded as an end.
    """
    waiting = enumerate(items)
    results: dict[int, Any] = {}
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
