"""The effects of actions: on what an agent thinks with, on artifacts and on money."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec

from artelier.artifacts import Act, Bill, InvocationFailed, Ref, Working, account_of, principal_of
from artelier.artifacts.content import decode_content
from artelier.artifacts.contracts import part_of, permit, version_at
from artelier.artifacts.events import ArtifactDeleted, ArtifactInvoked, ArtifactWritten
from artelier.artifacts.kinds import runnable_code
from artelier.artifacts.queries import Standing
from artelier.artifacts.ref import ACTORS
from artelier.artifacts.space_session import replace_once
from artelier.artifacts.write_decision import WriteRequest, asked_right, decide_write
from artelier.errors import AccessDenied, ArtelierError, Flow, InvalidArguments, InvalidArtifact, NotFound
from artelier.ledger import MoneyTransferred, Posting
from artelier.log import BlobRef
from artelier.money import SCRIP
from artelier.world import actions, mint, trades
from artelier.world.actions import (
    Action,
    Configure,
    Delete,
    Edit,
    Invoke,
    Message,
    Noop,
    Read,
    Rejected,
    Search,
    SubscribeArtifact,
    Transfer,
    UnsubscribeArtifact,
    Write,
)
from artelier.world.agent import AGREED, WORKFLOW, agreed_prices, id_of, is_agents_own, read_agent, step_ids
from artelier.world.deciders import check_named
from artelier.world.events import ActionRejected, ActionTaken, MessageSent, world_stream
from artelier.world.mind_artifacts import subscribe as added
from artelier.world.mind_artifacts import unsubscribe as removed
from artelier.world.services import find
from artelier.world.stores.entries import whole
from artelier.world.tick.agent_facts import check_storage
from artelier.world.tick.tick_context import ActionStep, Scene, Thought
from artelier.world.tick.world_state import WorldStage


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
    await _write_mind(step, changed, action.artifact_id)


async def unsubscribe(step: ActionStep, action: UnsubscribeArtifact) -> None:
    """Errors: `InvalidArguments` for what is not on the list."""
    content = await own_content(step)
    kept = removed(read_agent(content).subscribed, action.artifact_id)
    if kept.refused:
        raise InvalidArguments(kept.refused)
    changed: dict[str, Any] = {**content, "subscribed_artifacts": list(kept.ids)}
    agreed = {id_: n for id_, n in read_agent(content).agreed.items() if id_ != action.artifact_id}
    changed.pop(AGREED, None)
    await _write_mind(step, changed | ({AGREED: agreed} if agreed else {}), action.artifact_id)


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
    await _write_mind(step, kept, ", ".join(sorted(changes)))


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
        await _write_mind(step, after)


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


async def _write_mind(step: ActionStep, content: Mapping[str, Any], about: str | None = None) -> None:
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


# --------------------------------------------------------------------------- artifacts and money


# --------------------------------------------------------------------------- artifacts
# Actions on artifacts: read, write, edit, delete, invoke, search.


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
    await step.apply(msgspec.structs.replace(event, act=act), blobs=blobs)


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
    await step.apply(ActionTaken(act=step.act(result=step.keep(msgspec.to_builtins(found)))))


# --------------------------------------------------------------------------- money
# Actions about money and words: noop, transfer, message.


async def noop(step: ActionStep, action: Noop) -> None:
    await step.apply(ActionTaken(act=step.act()))


async def transfer(step: ActionStep, action: Transfer) -> None:
    """Give scrip to an agent, a service, whoever owns something, or the account of a program."""
    if action.to == step.agent:
        raise InvalidArguments("a transfer needs two principals")
    posting = Posting(account_of(step.agent), account_of(action.to), SCRIP, action.amount)
    await step.apply(ActionTaken(act=step.act(ref=action.to), postings=(posting,)))
    await check_recipient(step.scene, step.working, action.to)


async def check_recipient(scene: Scene, working: Working, to: str) -> None:
    """Check that an account is somebody's, lest scrip is lost by a wrong letter.

    Errors: `NotFound` for a name that is neither a principal of this world nor a program's account.
    """
    is_known = to in scene.agents or bool(scene.changed.owned_ids(to))
    await check_account(working, scene.stage, to, is_known=is_known)


async def check_account(working: Working, stage: WorldStage, to: str, *, is_known: bool) -> None:
    """Check that an account is a program's, or of a known principal or one that has acted here.

    Errors: `NotFound`.
    """
    if to.startswith(ACTORS):
        if await _is_program(working, to.removeprefix(ACTORS)):
            return
        raise NotFound(f"{to[:200]} is the account of no program in this world")
    if is_known or await stage.has_acted(to):
        return
    raise NotFound(
        f"there is no principal {to[:200]} in this world",
        expected=f"an agent, a service, an owner of artifacts, or {ACTORS}ID for the account of a program",
    )


async def _is_program(working: Working, id: str) -> bool:
    standing = await working.standing(id)
    if standing is None or standing.deleted or standing.at is None:
        return False
    content = await working.blob(standing.at.content)
    return runnable_code(standing.kind, decode_content(standing.at.media, content)) is not None


async def check_payments(scene: Scene, working: Working) -> None:
    """Check whom programs have paid. Errors: `NotFound`."""
    for data, _ in working.changes:
        if isinstance(data, MoneyTransferred):
            for posting in data.postings:
                to = posting.target.removeprefix(account_of(""))
                await check_recipient(scene, working, to)


async def message(step: ActionStep, action: Message) -> None:
    """Errors: `NotFound` for whom nobody knows, or who is out of sight: the same answer."""
    scene = step.scene
    if action.to not in scene.agents or not scene.sees(action.to, step.agent):
        raise NotFound(f"there is no agent {action.to}")
    text = step.keep(action.text)
    await step.apply(MessageSent(act=step.act(ref=action.to), to=action.to, text=text))


# --------------------------------------------------------------------------- dispatch


Decide = Callable[[ActionStep, Any], Awaitable[None]]

DECIDE: dict[type[Action], Decide] = {
    actions.Noop: noop,
    actions.Read: read,
    actions.Write: write,
    actions.Edit: edit,
    actions.Delete: delete,
    actions.Invoke: invoke,
    actions.Search: search,
    actions.Transfer: transfer,
    actions.Message: message,
    actions.SubscribeArtifact: subscribe,
    actions.UnsubscribeArtifact: unsubscribe,
    actions.Configure: configure,
    actions.Offer: trades.offer,
    actions.Accept: trades.accept,
    actions.CancelOffer: trades.cancel,
    actions.Bid: mint.bid,
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
        await check_payments(scene, step.working)
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
