"""Operations around the steps of an agent: its profile, the session of its run, what its prompts include."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from artelier.agents.run_config import Job
from artelier.context import Section
from artelier.kernel import Run
from artelier.kernel.prompt.conversation import Conversation

if TYPE_CHECKING:
    from artelier.chat.turn.agent_turn_hooks import AgentStep, AgentTurnHooks
    from artelier.operations.profile.operation_profile import OperationProfile

SAID_MAX = 50
"""Messages that operations see of a conversation."""


class Steps:
    """The operations of one run, step by step."""

    def __init__(self, stepping: AgentTurnHooks) -> None:
        self._stepping = stepping
        self._step: AgentStep | None = None

    async def before(self, number: int, conversation: Conversation, *, text: str) -> None:
        """Errors: `StepFailed`, `InclusionFailed`; Flow."""
        last = len(conversation)
        first = max(conversation.first, last - SAID_MAX + 1)
        said = conversation.messages(first, last) if last >= first else []
        self._step = await self._stepping.before(number, said=said, text=text)

    def sections(self) -> list[Section]:
        """Return what artifacts and effects add to the prompt: all of it in the tail, where it does not break
        the prefix that providers cache.
        """
        if self._step is None:
            return []
        places = self._step.places
        found = [*places.system, *places.before_user, *places.after_user]
        found += [section for _, section in places.at_depth]
        found += [*places.tail, *places.left_out]
        return [replace(section, stability="volatile", joined=False) for section in found]

    async def after(self, reply: str) -> None:
        """Errors: `StepFailed`; Flow."""
        if self._step is not None:
            await self._stepping.after(self._step, reply=reply)


def steps_of(run: Run, job: Job, desk: Any, *, agent_id: str) -> Steps | None:
    """The operations of a run; None if it has no profile."""
    if not job.profile:
        return None
    from artelier.chat.turn.agent_turn_hooks import TURNS, AgentTurnHooks

    stepping = AgentTurnHooks(
        run,
        ref=job.profile,
        chat=job.session or run.id,
        model=job.model,
        principal=f"agent:{agent_id}",
        desk=desk,
        name=agent_id,
        refused=TURNS,
    )
    return Steps(stepping)


async def save_if_new(desk: Any, profile: OperationProfile | str | None) -> str:
    """The ref with its version of a profile that an agent was given, as a chat is given one; empty for none.

    Errors: `NotFound`, `InvalidProfile`, `AccessDenied`; `InvalidRequest` for anything else, and for
    one with effects that have no place around steps.
    """
    if profile is None:
        return ""
    from artelier.chat.session.settings import profile_given
    from artelier.chat.turn.agent_turn_hooks import TURNS, check_place

    _, ref = await profile_given(desk, profile, by="operator", check=lambda found: check_place(found, TURNS))
    return ref
