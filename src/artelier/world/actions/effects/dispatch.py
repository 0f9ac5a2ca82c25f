"""The dispatch of actions: the function that decides each one, or a rejection with its reason."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from artelier.artifacts import Act, InvocationFailed, Working
from artelier.artifacts.events import ArtifactInvoked, ArtifactWritten
from artelier.errors import AccessDenied, ArtelierError, Flow, InvalidArguments
from artelier.world import actions
from artelier.world.actions import Action, Rejected
from artelier.world.actions.effects import artifacts, minds, money
from artelier.world.events import ActionRejected, world_stream
from artelier.world.market import bids, trades
from artelier.world.models import check_named
from artelier.world.tick.agent_decision import Thought
from artelier.world.tick.resource_limits import check_storage
from artelier.world.tick.tick_context import ActionStep, Scene

Decide = Callable[[ActionStep, Any], Awaitable[None]]

DECIDE: dict[type[Action], Decide] = {
    actions.Noop: money.noop,
    actions.Read: artifacts.read,
    actions.Write: artifacts.write,
    actions.Edit: artifacts.edit,
    actions.Delete: artifacts.delete,
    actions.Invoke: artifacts.invoke,
    actions.Search: artifacts.search,
    actions.Transfer: money.transfer,
    actions.Message: money.message,
    actions.SubscribeArtifact: minds.subscribe,
    actions.UnsubscribeArtifact: minds.unsubscribe,
    actions.Configure: minds.configure,
    actions.Offer: trades.offer,
    actions.Accept: trades.accept,
    actions.CancelOffer: trades.cancel,
    actions.Bid: bids.bid,
}
"""Every action of the schema; a test compares the two."""

GENESIS = "genesis"
"""What the ids of the world's own artifacts begin with."""

SHIPPED = (GENESIS, "handbook")
"""Beginnings of ids that read like those of the world's own documents, whatever the case and punctuation."""

_PUNCTUATION = re.compile(r"[^a-z0-9]")

REASON_CHARS_MAX = 500


async def perform(scene: Scene, thought: Thought, *, n: int) -> bool:
    """Do what one agent wants, whole or not at all; whether it was done. `n`: its place in the order.

    Errors: none of what agents can bring about: those are rejections in the log.
    """
    action = thought.action
    if isinstance(action, Rejected):
        await reject(scene, thought, thought.code, action.reason, n=n)
        return False
    step = ActionStep(scene, thought, action, n=n)
    try:
        allowed = scene.config.actions
        if allowed is not None and action.name not in allowed:
            raise InvalidArguments(f"{action.name} is no action of this world", expected=", ".join(allowed))
        await DECIDE[type(action)](step, action)
        check_ids(scene, step.working)
        await check_named(scene, step.working)
        await money.check_payments(scene, step.working)
        await check_storage(scene, step.working)
    except InvocationFailed as failed:
        await _record_failure(scene, thought, action, failed, n=n)
        return False
    except Flow:
        raise  # the host stops the world; that is nobody's mistake
    except ArtelierError as error:
        await reject(scene, thought, error.code, _sentence(error), n=n, wall=step.wall_in_all)
        return False
    await scene.absorb(step.working)
    return True


def check_ids(scene: Scene, working: Working) -> None:
    """Check that an action made no artifact that looks like one of the world's own, or whose id is a value.

    Programs are asked too: what they write is somebody's. Errors: `AccessDenied`; `InvalidRequest`.
    """
    if scene.names is not None:
        stream = world_stream(scene.tenant, scene.world)
        scene.names.check(stream, [change.data for change in working.changes])
    for data, _ in working.changes:
        if not isinstance(data, ArtifactWritten) or data.version != 1:
            continue
        read_as = _PUNCTUATION.sub("", data.id.casefold())
        is_shipped = scene.config.asks_consent and read_as.startswith(SHIPPED)
        if is_shipped or data.id.startswith(GENESIS):
            raise AccessDenied(
                f"artifact {data.id} cannot be made",
                expected=f"an id that does not begin with {' or '.join(SHIPPED)}: those are the world's own",
                artifact=data.id,
            )


async def reject(
    scene: Scene, thought: Thought, code: str, reason: str, *, n: int, wall: Mapping[str, str] | None = None
) -> None:
    """Write that nothing happened, and why: the agent sees it at its next step.

    `wall`: what ended by the wall clock in the action, if it began.
    """
    ref, blob = scene.keep(_shorten(reason))
    blobs, reasoning, name = [blob], None, ""
    if isinstance(thought.action, Action):
        name = thought.action.name
        if thought.action.reasoning:
            reasoning, said = scene.keep(thought.action.reasoning)
            blobs.append(said)
    act = Act(
        n=n,
        action=name,
        source=thought.source,
        step=thought.key,
        tokens=thought.tokens,
        reasoning=reasoning,
        wall=dict(thought.wall if wall is None else wall),
    )
    rejected = ActionRejected(act=act, code=code, reason=ref)
    await scene.working.apply(rejected, actor=thought.agent, blobs=blobs)


async def _record_failure(
    scene: Scene, thought: Thought, action: Action, failed: InvocationFailed, *, n: int
) -> None:
    """An artifact's code failed: nothing of what it did is left, its price was not paid."""
    step = ActionStep(scene, thought, action, n=n)
    said = step.keep(_shorten(failed.message))
    await step.apply(
        ArtifactInvoked(
            id=getattr(action, "artifact_id", ""),
            version=0,
            caller=thought.agent,
            outcome="failed",
            reason=failed.reason,
            wall=failed.wall,
            act=step.act(result=said),
        )
    )
    await scene.absorb(step.working)


def _sentence(error: ArtelierError) -> str:
    text = error.message
    if error.expected:
        text += f"; expected {error.expected}"
    if error.got:
        text += f", got {error.got}"
    return text


def _shorten(text: str) -> str:
    text = text.encode(errors="replace").decode()
    return text if len(text) <= REASON_CHARS_MAX else text[: REASON_CHARS_MAX - 1] + "…"
