"""Turns of a chat that go on beside one that waits for a person: what each is told of the other.

A turn that waits keeps its own conversation. The turns after it begin with what was said before its
unfinished call, are told what it waits for, and later what came of it. Which turns wait is recorded with
each turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from artelier.agents.shipped_texts import template
from artelier.errors import Conflict
from artelier.kernel import run_row
from artelier.kernel.prompt.delimiters import fence
from artelier.kernel.prompt.manifest import canonical
from artelier.kernel.queries.content import blob_json, shown_json
from artelier.kernel.queries.reports import approvals
from artelier.kernel.queries.runs import RunRow
from artelier.kernel.run.context import is_final
from artelier.kernel.run.services import Services

WAITS = frozenset(("waiting_approval", "unknown_outcome", "waiting"))
"""Statuses of a turn that somebody else has to bring on: the conversation need not wait for that."""

WAITING_MAX = 16
"""Turns of one chat that may wait at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTurns:
    """The notice to a new turn about turns that wait, or have waited, when it begins."""

    runs: tuple[str, ...] = ()
    """Those that still wait."""
    news: tuple[str, ...] = ()
    """Texts that stand in its conversation before what the person says."""


NONE_WAITING = WaitingTurns()


async def waiting_turns_after(services: Services, tenant: str, last: RunRow) -> WaitingTurns:
    """Return what a turn after `last`, the newest of its chat, is told. Errors: `Conflict` if too many
    wait."""
    settings: dict[str, Any] = await blob_json(services, tenant, last.settings) or {}
    still: list[str] = []
    news: list[str] = []
    for run_id in cast(list[str], settings.get("waiting_turns") or []):
        row = await run_row(services.store, tenant, run_id)
        if is_final(row.status):
            news.append(await _describe_end(services, tenant, row))
        else:
            still.append(run_id)
    if not is_final(last.status):
        still.append(last.run)
        news.append(await _waiting(services, tenant, last))
    if len(still) > WAITING_MAX:
        raise Conflict(
            "too many turns of this chat wait for somebody",
            expected=f"at most {WAITING_MAX}",
            got=len(still),
            hint=f"Answer what {still[0]!r} asks.",
        )
    return WaitingTurns(runs=tuple(still), news=tuple(news))


async def _waiting(services: Services, tenant: str, row: RunRow) -> str:
    """Return what a model is told of a turn that waits."""
    asked = await approvals(services, tenant, run_id=row.run)
    facts: list[dict[str, Any]] = [
        {"question": one.get("question"), "details": one.get("details")} for one in asked
    ]
    said = facts or [{"status": row.status, "reason": row.reason}]
    return f"{template('waiting-1')}\n\n{_data(said, row.run)}"


async def _describe_end(services: Services, tenant: str, row: RunRow) -> str:
    """Return what a model is told of a turn that has waited and is over."""
    settings: Any = await shown_json(services, tenant, row.settings)
    result: Any = await shown_json(services, tenant, row.result)
    prompt = cast(dict[str, Any], settings).get("prompt") if isinstance(settings, dict) else settings
    reply = cast(dict[str, Any], result).get("text") if isinstance(result, dict) else result
    facts = {"request": prompt, "status": row.status, "answer": reply}
    if row.status == "failed":
        facts["answer"] = row.reason
    return f"{template('settled-1')}\n\n{_data(facts, row.run)}"


def _data(value: Any, run_id: str) -> str:
    """Return JSON between marks: what tools and models said is in it."""
    return fence(canonical(value).decode(), source=run_id)
