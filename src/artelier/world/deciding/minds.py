"""Actions on one's own mind: subscribe, unsubscribe, configure. Each writes the agent artifact anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from artelier.actions import Configure, SubscribeArtifact, UnsubscribeArtifact
from artelier.agents.minds import subscribe as added
from artelier.agents.minds import unsubscribe as removed
from artelier.artifacts import Bill, Ref
from artelier.artifacts.content import decode_content
from artelier.artifacts.plan import Wish, asked_right, decide_write
from artelier.errors import InvalidArguments, InvalidArtifact
from artelier.world.agent import AGREED, read_agent
from artelier.world.scene import Step


async def subscribe(step: Step, action: SubscribeArtifact) -> None:
    """An id that is not there is accepted and dangles; one that is there must be readable now.

    Errors: `AccessDenied`; `InvalidArguments` for the one beyond `max_count`, or twice the same.
    """
    verdict = await step.judge(Ref(action.artifact_id), "subscribe")
    if verdict.refusal == "denied":
        verdict.granted()
    content = await _content(step)
    kept = added(
        read_agent(content).subscribed, action.artifact_id, limits=step.scene.config.limits
    )
    if kept.refused:
        raise InvalidArguments(kept.refused)
    agreed = await _agreed(step, content, [action.artifact_id])
    changed = {**content, "subscribed_artifacts": list(kept.ids), **agreed}
    await _write(step, changed, action.artifact_id)


async def unsubscribe(step: Step, action: UnsubscribeArtifact) -> None:
    """Errors: `InvalidArguments` for what is not on the list."""
    content = await _content(step)
    kept = removed(read_agent(content).subscribed, action.artifact_id)
    if kept.refused:
        raise InvalidArguments(kept.refused)
    changed: dict[str, Any] = {**content, "subscribed_artifacts": list(kept.ids)}
    agreed = {id_: n for id_, n in read_agent(content).agreed.items() if id_ != action.artifact_id}
    changed.pop(AGREED, None)
    await _write(step, changed | ({AGREED: agreed} if agreed else {}), action.artifact_id)


async def configure(step: Step, action: Configure) -> None:
    """References are soft: what they name may come later. It holds from the next tick on.

    What somebody else owns is adopted as it is now, `id@version`: its owner could else put other words into
    the agent's mind.
    """
    content = await _content(step)
    changes = action.changes
    kept = {name: value for name, value in content.items() if name not in changes}
    named = {
        name: await _pinned(step, name, Ref.parse(value, main_allowed=True))
        for name, value in changes.items()
        if value is not None
    }
    kept |= {name: str(ref) for name, ref in named.items()}
    ids = [ref.id for ref in named.values() if ref.space is None]
    kept |= await _agreed(step, content, ids)
    await _write(step, kept, ", ".join(sorted(changes)))


INSTRUCTING = (
    "personality_prompt_artifact_id",
    "workflow_artifact_id",
    "reflex_artifact_id",
    "steering_artifact_id",
)
"""References whose content tells the agent what to do; memories are data and stay current."""


async def _pinned(step: Step, field: str, ref: Ref) -> Ref:
    if field not in INSTRUCTING or ref.version is not None or ref.space is not None:
        return ref
    standing = await step.working.standing(ref.id)
    if standing is None or standing.owner == step.agent:
        return ref
    return ref._replace(version=standing.version)


async def _agreed(
    step: Step, content: Mapping[str, Any], ids: Sequence[str]
) -> dict[str, dict[str, int]]:
    """What showing these artifacts costs now is what the agent agrees to: a price that is raised later is
    not paid. What is not there yet, or the agent's own, costs nothing now."""
    agreed = dict(read_agent(content).agreed)
    for id_ in ids:
        standing = await step.working.standing(id_)
        agreed.pop(id_, None)
        if standing is not None and standing.owner != step.agent:
            agreed[id_] = Bill.posted("read", standing) + Bill.posted("include", standing)
    return {AGREED: agreed} if agreed else {}


async def _content(step: Step) -> Mapping[str, Any]:
    """The agent's own artifact. Errors: `InvalidArtifact` if it is gone or no object."""
    standing = await step.working.standing(step.agent)
    if standing is None or standing.deleted or standing.at is None:
        raise InvalidArtifact(f"agent {step.agent} has no artifact of that id to change")
    content = decode_content(standing.at.media, await step.working.blob(standing.at.content))
    if not isinstance(content, dict):
        raise InvalidArtifact(f"the artifact of agent {step.agent} is no object")
    return content  # pyright: ignore[reportUnknownVariableType] - JSON


async def _write(step: Step, content: Mapping[str, Any], about: str) -> None:
    standing = await step.working.standing(step.agent)
    assert standing is not None
    wish = Wish(id=step.agent, content=dict(content), expected_version=standing.version)
    decision = await step.gate.decide(asked_right(wish), step.agent, standing)
    event, blobs = decide_write(
        wish, standing, decision,
        tenant=step.scene.tenant, principal=step.agent, key=step.scene.key,
    )  # fmt: skip
    await step.apply(msgspec.structs.replace(event, act=step.act(ref=about)), blobs=blobs)
