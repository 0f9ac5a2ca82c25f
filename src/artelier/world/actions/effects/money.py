"""Actions about money and words: noop, transfer, message."""

from __future__ import annotations

from artelier.artifacts import Working, account_of
from artelier.artifacts.content import decode_content
from artelier.artifacts.kinds import runnable_code
from artelier.artifacts.ref import ACTORS
from artelier.errors import InvalidArguments, NotFound
from artelier.ledger import MoneyTransferred, Posting
from artelier.money import SCRIP
from artelier.world.actions import Message, Noop, Transfer
from artelier.world.events import ActionTaken, MessageSent
from artelier.world.tick.tick_context import ActionStep, Scene
from artelier.world.tick.world_state import WorldStage


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
