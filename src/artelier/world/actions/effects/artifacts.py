"""Actions on artifacts: read, write, edit, delete, invoke, search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import msgspec

from artelier.artifacts import Bill, Ref, Working, account_of, principal_of
from artelier.artifacts.access.decision import part_of, version_at
from artelier.artifacts.content import decode_content
from artelier.artifacts.events import ArtifactDeleted
from artelier.artifacts.write.space_session import replace_once
from artelier.artifacts.write.write_decision import WriteRequest, asked_right, decide_write
from artelier.errors import InvalidArtifact, NotFound
from artelier.log import BlobRef
from artelier.world.actions import Delete, Edit, Invoke, Read, Search, Write
from artelier.world.actions.effects.minds import agree, agree_to_steps, own_content
from artelier.world.agent import is_agents_own
from artelier.world.events import ActionTaken
from artelier.world.stores.entries import whole
from artelier.world.tick.search import find
from artelier.world.tick.tick_context import ActionStep


async def read(step: ActionStep, action: Read) -> None:
    """The content is the result; its price goes to the owner."""
    ref = Ref.parse(action.ref, main_allowed=True)
    if ref.space is not None:
        await _read_main(step, ref)
        return
    verdict = await step.judge(ref, "read", price_max=action.price_max)
    standing = verdict.granted()
    at = version_at(standing, ref)
    if at.media == "bytes":
        raise InvalidArtifact(f"artifact {ref.id} holds bytes, which no prompt can show")
    result = BlobRef(at.content)
    if ref.part is not None or standing.kind == "memory_store":
        content = decode_content(at.media, await step.working.blob(at.content))
        content = await whole(step.working, standing, content, part=ref.part, has_vectors=False)
        result = step.keep(part_of(standing, content, ref.part))
    charge = verdict.charge()
    if charge is not None and charge.licence:
        await step.apply(charge)
        charge = None
    postings = charge.postings if charge is not None else ()
    await step.apply(ActionTaken(act=step.act(ref=str(ref), result=result), postings=postings))


async def _read_main(step: ActionStep, ref: Ref) -> None:
    """Read what the tenant's main space gives this world for free; scrip there does not belong to the agents.

    Errors: `NotFound`, `AccessDenied`.
    """
    main = step.scene.main
    if main is None:
        raise NotFound(f"this world has no grant to read {ref}")
    found = await main.read(str(ref._replace(space=None)), price_max=0)
    if isinstance(found.content, bytes):
        raise InvalidArtifact(f"artifact {ref} holds bytes, which no prompt can show")
    at = f"main:{found.id}@{found.version}" + (f"#{ref.part}" if ref.part else "")
    await step.apply(ActionTaken(act=step.act(ref=at, result=step.keep(found.content))))


async def write(step: ActionStep, action: Write) -> None:
    """The first version makes the agent creator and owner."""
    prices: Any = None
    if action.prices is not None:
        prices = {
            "read": action.prices.read,
            "invoke": action.prices.invoke,
            "inclusion": action.prices.inclusion,
        }
    wish = WriteRequest(
        id=action.artifact_id,
        content=action.content,
        kind=action.kind,
        access=action.access,
        prices=prices,
        expected_version=action.expected_version,
        metadata=action.metadata,
        interface=action.interface,
    )
    await _write(step, wish)


async def edit(step: ActionStep, action: Edit) -> None:
    """Replace a string that occurs exactly once; it reads, pays for that, and writes."""
    ref = Ref(action.artifact_id)
    verdict = await step.judge(ref, "read")
    standing = verdict.granted()
    at = version_at(standing, ref)
    content = decode_content(at.media, await step.working.blob(at.content))
    changed = replace_once(standing.id, content, action.old, action.new)
    charge = verdict.charge()
    if charge is not None:
        await step.apply(charge)
    await _write(step, WriteRequest(id=standing.id, content=changed, expected_version=standing.version))


async def _write(step: ActionStep, wish: WriteRequest) -> None:
    standing = await step.working.standing(wish.id)
    if step.scene.config.asks_consent and isinstance(wish.content, dict):
        content = cast("dict[str, Any]", wish.content)  # pyright: ignore[reportUnknownMemberType] - JSON
        if wish.id == step.agent and is_agents_own(standing, step.agent):
            wish = replace(wish, content=await agree(step, await own_content(step), content))
        elif standing is not None and standing.owner == step.agent:
            await agree_to_steps(step, standing, content)
    decision = None
    if standing is not None:
        decision = await step.gate.decide(asked_right(wish), step.agent, standing)
    event, blobs = decide_write(
        wish, standing, decision, tenant=step.scene.tenant, principal=step.agent, key=step.scene.key
    )
    act = step.act(ref=f"{event.id}@{event.version}")
    await step.apply(_with_act(event, act), blobs=blobs)


def _with_act(event: Any, act: Any) -> Any:
    return msgspec.structs.replace(event, act=act)


async def delete(step: ActionStep, action: Delete) -> None:
    """A tombstone. The scrip of a program goes to its owner."""
    verdict = await step.judge(Ref(action.artifact_id), "delete")
    standing = verdict.granted()
    actor = principal_of(standing.id)
    left = await step.working.balance(account_of(actor))
    await step.apply(
        ArtifactDeleted(
            id=standing.id, act=step.act(ref=standing.id), postings=Bill.movement(actor, standing.owner, left)
        )
    )


async def invoke(step: ActionStep, action: Invoke) -> None:
    """Run a program or a service; its result is the agent's next result.

    Errors: those of `Tree.act`, and nothing of what it did is left.
    """
    tree = step.tree()
    inner = Working(step.working)
    call = step.call(action.artifact_id, action.args, price_max=action.price_max)
    result = await tree.act(inner, call)
    # Its last event tells about the invocation: that one carries the act.
    done = inner.changes.pop()
    step.working.absorb(inner)
    data: Any = done.data
    arguments = step.keep(dict(action.args)) if action.args else None
    kept = None if result is None else step.keep(result)
    data = msgspec.structs.replace(
        data,
        arguments=arguments,
        result=kept,
        calls=tree.calls,
        wall=dict(tree.decisions.wall),
        act=step.act(ref=action.artifact_id, result=kept),
    )
    step.working.append(data, actor=step.agent)


async def search(step: ActionStep, action: Search) -> None:
    """Find artifacts that the agent may read, newest first; the list is its next result."""
    found = await find(step, text=action.text, kind=action.kind, owner=action.owner, limit=action.limit)
    await step.apply(ActionTaken(act=step.act(result=step.keep(found))))
