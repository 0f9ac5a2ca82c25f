"""Actions on one's own mind: subscribe, unsubscribe, configure. Each writes the agent artifact anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from artelier.artifacts import Bill, Ref
from artelier.artifacts.content import decode_content
from artelier.artifacts.contracts import permit
from artelier.artifacts.queries import Standing
from artelier.artifacts.write_decision import WriteRequest, asked_right, decide_write
from artelier.errors import InvalidArguments, InvalidArtifact
from artelier.world.actions import Configure, SubscribeArtifact, UnsubscribeArtifact
from artelier.world.agent import AGREED, WORKFLOW, agreed_prices, id_of, is_agents_own, read_agent, step_ids
from artelier.world.mind_artifacts import subscribe as added
from artelier.world.mind_artifacts import unsubscribe as removed
from artelier.world.tick.tick_context import ActionStep


async def subscribe(step: ActionStep, action: SubscribeArtifact) -> None:
    """An id that is not there is accepted and dangles; one that is there must be readable now.

    Errors: `AccessDenied`; `InvalidArguments` for the one beyond `max_count`, or twice the same.
    """
    verdict = await step.judge(Ref(action.artifact_id), "subscribe")
    if verdict.refusal == "denied":
        verdict.granted()
    content = await own_content(step)
    kept = added(read_agent(content).subscribed, action.artifact_id, limits=step.scene.config.limits)
    if kept.refused:
        raise InvalidArguments(kept.refused)
    changed = {**content, "subscribed_artifacts": list(kept.ids)}
    changed = await _with_agreed(step, content, changed, [action.artifact_id])
    await _write(step, changed, action.artifact_id)


async def unsubscribe(step: ActionStep, action: UnsubscribeArtifact) -> None:
    """Errors: `InvalidArguments` for what is not on the list."""
    content = await own_content(step)
    kept = removed(read_agent(content).subscribed, action.artifact_id)
    if kept.refused:
        raise InvalidArguments(kept.refused)
    changed: dict[str, Any] = {**content, "subscribed_artifacts": list(kept.ids)}
    agreed = {id_: n for id_, n in read_agent(content).agreed.items() if id_ != action.artifact_id}
    changed.pop(AGREED, None)
    await _write(step, changed | ({AGREED: agreed} if agreed else {}), action.artifact_id)


async def configure(step: ActionStep, action: Configure) -> None:
    """References are soft: what they name may come later. It holds from the next tick on.

    What somebody else owns is adopted as the agent saw it, `id@version`: its owner could else put other words
    into the agent's mind.
    """
    content = await own_content(step)
    changes = action.changes
    kept = {name: value for name, value in content.items() if name not in changes}
    named = {
        name: await _pin_version(step, name, Ref.parse(value, main_allowed=True))
        for name, value in changes.items()
        if value is not None
    }
    kept |= {name: str(ref) for name, ref in named.items()}
    ids = [ref.id for ref in named.values() if ref.space is None]
    kept = await _with_agreed(step, content, kept, ids)
    await _write(step, kept, ", ".join(sorted(changes)))


INSTRUCTING = (
    "personality_prompt_artifact_id",
    "workflow_artifact_id",
    "reflex_artifact_id",
    "steering_artifact_id",
)
"""References whose content tells the agent what to do; memories are data and stay current."""


async def _pin_version(step: ActionStep, field: str, ref: Ref) -> Ref:
    if field not in INSTRUCTING or ref.version is not None or ref.space is not None:
        return ref
    standing = await step.working.standing(ref.id)
    if standing is None or standing.owner == step.agent:
        return ref
    seen = await step.scene.standing_seen(ref.id) if step.scene.config.asks_consent else None
    return ref._replace(version=(seen or standing).version)


async def agree(
    step: ActionStep, before: Mapping[str, Any], after: Mapping[str, Any], *, renewed: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what an agent writes of itself, with the prices that its thought saw of what it names anew."""
    scene = step.scene

    async def price_of(id_: str) -> int:
        return await scene.price_seen(step.agent, id_, "read", "include")

    async def content_of(ref: str) -> object:
        parsed = Ref.parse(ref, main_allowed=True)
        if parsed.space is not None:
            return None
        verdict = await permit(step.working, step.gate, parsed, "read", step.agent)
        at = verdict.standing.at if verdict.allowed and verdict.standing is not None else None
        return None if at is None else decode_content(at.media, await step.working.blob(at.content))

    return await agreed_prices(
        after, read_agent(before), price_of=price_of, content_of=content_of, renewed=renewed
    )


async def agree_to_steps(step: ActionStep, standing: Standing, content: Mapping[str, Any]) -> None:
    """Agree to the prices of prompts that the next version of an agent's own workflow names anew."""
    if not (named := step_ids(content)):
        return
    own = await step.working.standing(step.agent)
    if not is_agents_own(own, step.agent) or standing.at is None:
        return
    before = await own_content(step)
    if id_of(read_agent(before).ref(WORKFLOW)) != standing.id:
        return
    at = standing.at
    known = step_ids(decode_content(at.media, await step.working.blob(at.content)))
    after = await agree(step, before, before, renewed=sorted(set(named) - set(known)))
    if after != before:
        await _write(step, after)


async def _with_agreed(
    step: ActionStep, before: Mapping[str, Any], after: Mapping[str, Any], ids: Sequence[str]
) -> dict[str, Any]:
    if step.scene.config.asks_consent:
        return await agree(step, before, after, renewed=ids)
    return {**after, **await _agreed_now(step, before, ids)}


async def _agreed_now(
    step: ActionStep, content: Mapping[str, Any], ids: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Return what showing these artifacts costs now, as older worlds agree to it: what is not there yet, or
    is the agent's own, may cost anything later."""
    agreed = dict(read_agent(content).agreed)
    for id_ in ids:
        standing = await step.working.standing(id_)
        agreed.pop(id_, None)
        if standing is not None and standing.owner != step.agent:
            agreed[id_] = Bill.posted_price("read", standing) + Bill.posted_price("include", standing)
    return {AGREED: agreed} if agreed else {}


async def own_content(step: ActionStep) -> Mapping[str, Any]:
    """Return the agent's own artifact. Errors: `InvalidArtifact` if it is gone or no object."""
    standing = await step.working.standing(step.agent)
    if standing is None or standing.deleted or standing.at is None:
        raise InvalidArtifact(f"agent {step.agent} has no artifact of that id to change")
    content = decode_content(standing.at.media, await step.working.blob(standing.at.content))
    if not isinstance(content, dict):
        raise InvalidArtifact(f"the artifact of agent {step.agent} is no object")
    return content  # pyright: ignore[reportUnknownVariableType] - JSON


async def _write(step: ActionStep, content: Mapping[str, Any], about: str | None = None) -> None:
    """Write the agent's own artifact; `about` what its action is, None for what comes along with one."""
    standing = await step.working.standing(step.agent)
    assert standing is not None
    wish = WriteRequest(id=step.agent, content=dict(content), expected_version=standing.version)
    decision = await step.gate.decide(asked_right(wish), step.agent, standing)
    event, blobs = decide_write(
        wish, standing, decision, tenant=step.scene.tenant, principal=step.agent, key=step.scene.key
    )
    if about is not None:
        event = msgspec.structs.replace(event, act=step.act(ref=about))
    await step.apply(event, blobs=blobs)
