"""Words that the model writes for the person: a draft, which is said only when the person says it.

The prompt is that of a turn, with its lore and state; operations do not run. It is a run of its own beside
the turns, billed and recorded, and nothing of the chat changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from artelier.chat.rows.nodes import draft_name, draft_range
from artelier.chat.session import settings as cs
from artelier.chat.session.chat_reader import ChatReader
from artelier.chat.turn.main_call import main_call
from artelier.chat.turn.speakers import names_of, own_words
from artelier.chat.turn.turn_config import CARD_RULES, IMPERSONATE, TurnJob
from artelier.chat.turn.turn_loop import TurnParts
from artelier.chat.turn.turn_runner import record_keys
from artelier.errors import External
from artelier.kernel import run_row
from artelier.kernel.queries.runs import count_between


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedWords:
    """What the model would have the person say."""

    text: str
    run_id: str
    cost_microusd: int


async def draft_words(session: ChatReader, *, params: Mapping[str, Any], deadline_ms: int) -> DraftedWords:
    """Have the model write the person's next message. Errors: `External` if it wrote none; those of a run."""
    desk, job = session.desk, await _job(session, params=params, deadline_ms=deadline_ms)
    number = await count_between(session.store, desk.id, *draft_range(job.chat)) + 1
    run_id = draft_name(job.chat, number)
    opened = desk.run(
        run_id,
        model=job.model,
        settings=job.settings(),
        principal=f"chat:{job.chat}",
        conversation=job.chat,
        by=session.actor or job.principal,
        on_wait="suspend",
        **await record_keys(desk, run_id, chat=job.chat),
    )
    async with opened as run:
        turn = await TurnParts.begin(run, job, desk=desk, sink=None)
        prompt = await turn.parts().assemble(turn.start)
        left_s = job.deadline_ms / 1_000 if job.deadline_ms else None
        call, _ = await main_call(run, prompt, model=job.model, params=job.params, left_s=left_s, sink=None)
        name = str(turn.people["user"]["name"])
        text = own_words(call.text, name, [str(turn.people["char"]["name"]), *turn.found.members]).strip()
        told: dict[str, Any] = {"text": text, "finish_reason": call.finish_reason}
        if call.is_ok and text:
            run.finish(told)
        else:
            run.fail(call.code or call.finish_reason, call.message or "the model wrote nothing", result=told)
    if not call.is_ok or not text:
        raise External(
            f"the model wrote nothing for the person: {call.message or call.finish_reason}",
            hint=f"See `artelier inspect {run_id}`.",
        )
    cost = (await run_row(session.store, desk.id, run_id)).cost
    return DraftedWords(text=text, run_id=run_id, cost_microusd=cost)


async def _job(session: ChatReader, *, params: Mapping[str, Any], deadline_ms: int) -> TurnJob:
    """Return a job that ends where the branch does, and asks for the person's words."""
    settings, branch = await session.settings(), await session.branch_row()
    profile, ref = await cs.profile_of(session.desk, settings)
    is_plain = profile is None or not profile.enabled
    return TurnJob(
        chat=session.chat_id,
        branch=branch.name,
        trigger=IMPERSONATE,
        card_rules=CARD_RULES,
        node=branch.head,
        profile="" if is_plain else ref,
        profile_id="" if is_plain or profile is None else profile.profile_id,
        session_id="" if is_plain else await session.session_id(profile),
        model=settings.model,
        params={**settings.params, **params},
        deadline_ms=deadline_ms or settings.deadline_ms,
        history_max=settings.history_max,
        principal=settings.principal,
        speaker=names_of(settings.group)[0] if settings.group else "",
    )
