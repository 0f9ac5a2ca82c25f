"""Actions about money and words: noop, transfer, message."""

from __future__ import annotations

from artelier.actions import Message, Noop, Transfer
from artelier.artifacts import account_of
from artelier.errors import InvalidArguments, NotFound
from artelier.ledger import Posting
from artelier.money import SCRIP
from artelier.world.events import ActionTaken, MessageSent
from artelier.world.scene import Step


async def noop(step: Step, action: Noop) -> None:
    await step.apply(ActionTaken(act=step.act()))


async def transfer(step: Step, action: Transfer) -> None:
    """To anybody: an agent, a service, the account of a program."""
    if action.to == step.agent:
        raise InvalidArguments("a transfer needs two principals")
    posting = Posting(account_of(step.agent), account_of(action.to), SCRIP, action.amount)
    await step.apply(ActionTaken(act=step.act(ref=action.to), postings=(posting,)))


async def message(step: Step, action: Message) -> None:
    """Errors: `NotFound` for whom nobody knows, or who is out of sight: the same answer."""
    scene = step.scene
    if action.to not in scene.agents or not scene.sees(action.to, step.agent):
        raise NotFound(f"there is no agent {action.to}")
    text = step.keep(action.text)
    await step.apply(MessageSent(act=step.act(ref=action.to), to=action.to, text=text))
