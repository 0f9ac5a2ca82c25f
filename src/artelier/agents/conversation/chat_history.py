"""The history before a run of a chat: the messages that its predecessor showed last, and its reply."""

from __future__ import annotations

import re
from typing import Any, cast

from artelier.agents.run_config import Earlier
from artelier.errors import NotFound
from artelier.kernel import Renderer, Run, run_row
from artelier.kernel.events import ContextAssembled
from artelier.kernel.prompt.manifest import message_of_reply
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import RunRow
from artelier.kernel.run.services import Services
from artelier.ports.model import ChatMessage

_OWN = re.compile(r"c\d+/model(/again)?")
"""Keys of the loop's own model steps."""
_NEVER = 1 << 62
CARRIED_MAX = 200
"""Messages at the end of a run among which a call without its results is looked for."""


async def messages_before(run: Run, earlier: Earlier) -> tuple[list[ChatMessage], bool]:
    """Return the messages with which a run begins, and whether they are from its own record; else they are
    from its predecessor's."""
    if earlier.count <= 0:
        return [], False
    services = run.core.services
    own = await Renderer.open(services, run.tenant_id, run.id)
    rows = await services.store.query(
        "SELECT count(*) FROM messages m JOIN runs r ON r.id = m.run WHERE r.tenant = ? AND r.run = ?"
        " AND m.conversation = 'main' AND m.n <= ?",
        (run.tenant_id, run.id, earlier.count),
    )
    if rows[0][0] == earlier.count:
        return await own.messages("main", 1, earlier.count), True
    before = await Renderer.open(services, run.tenant_id, earlier.run_id)
    messages: list[ChatMessage] = []
    if earlier.end >= earlier.start:
        messages += await before.messages(earlier.conversation, earlier.start, earlier.end)
    if earlier.reply:
        messages.append(message_of_reply(await before.reply(earlier.reply)))
    return messages, False


async def earlier_of(services: Services, tenant: str, run_id: str) -> Earlier:
    """Return what a run that follows `run_id` begins with: all that was recorded of it. Errors:
    `NotFound`.
    """
    row = await run_row(services.store, tenant, run_id)
    event = await _last_prompt(services, tenant, row)
    if event is None:  # it ended before it asked anything: what was said before it still was
        settings: dict[str, Any] = await blob_json(services, tenant, row.settings) or {}
        if before := settings.get("earlier"):
            return Earlier(**before)
        return Earlier(run_id=run_id, conversation="main", start=1, end=0)
    shown = next((part for part in event.parts if part.tag == "conversation"), None)
    result: Any = await blob_json(services, tenant, row.result)
    replied = row.status == "completed" and isinstance(result, dict)
    summary, trust = await _summary(services, tenant, run_id, event.key)
    if shown is None or shown.conversation is None:
        start, end, conversation = 1, 0, "main"
    else:
        start, conversation = shown.start, shown.conversation
        end = await _last_whole(services, tenant, run_id, conversation, start, shown.end)
    return Earlier(
        run_id=run_id,
        conversation=conversation,
        start=start,
        end=end,
        reply=event.key if replied else "",
        summary=summary,
        trust=trust,
    )


async def _last_prompt(services: Services, tenant: str, row: RunRow) -> ContextAssembled | None:
    """The newest prompt of the loop itself: operations and compactions ask models too."""
    before = _NEVER
    while True:
        rows = await services.store.query(
            "SELECT key, requested FROM steps WHERE run = ? AND kind = 'model' AND requested < ?"
            " ORDER BY requested DESC LIMIT 500",
            (row.id, before),
        )
        for key, _ in rows:
            if _OWN.fullmatch(key):
                renderer = await Renderer.open(services, tenant, row.run)
                return await renderer.event(key)
        if not rows:
            return None
        before = rows[-1][1]


async def _last_whole(
    services: Services, tenant: str, run_id: str, conversation: str, start: int, shown: int
) -> int:
    """Number of the last recorded message, without calls whose results are missing.

    The last cycle of a run that ended without a reply is in no prompt, and yet its tools were called.
    """
    rows = await services.store.query(
        "SELECT max(m.n) FROM messages m JOIN runs r ON r.id = m.run"
        " WHERE r.tenant = ? AND r.run = ? AND m.conversation = ?",
        (tenant, run_id, conversation),
    )
    end = max(shown, rows[0][0] or 0)
    renderer = await Renderer.open(services, tenant, run_id)
    tail = await renderer.messages(conversation, max(start, end - CARRIED_MAX), end)
    missing: set[str | None] = set()
    for message in tail:
        if message.role == "tool":
            missing.discard(message.tool_call_id)
        else:
            missing = {call.id for call in message.tool_calls}
    while tail and missing:
        left_out = tail.pop()
        end -= 1
        if left_out.role == "assistant":
            break
    return end


async def _summary(services: Services, tenant: str, run_id: str, key: str) -> tuple[str, str]:
    """Text and trust of the summary that stood in a prompt."""
    renderer = await Renderer.open(services, tenant, run_id)
    manifest = await renderer.manifest(key)
    for part in manifest.parts:
        if part.tag == "summary":
            content = await renderer.content(part)
            text = content if isinstance(content, str) else content[0].text
            return _unfence(text), part.trust
    return "", "trusted"


def _unfence(text: str) -> str:
    """The summary itself, without the mark and the fence it was shown in."""
    inside = text.partition("\n")[2].rpartition("\n")[0]
    return inside or text


async def last_turn(services: Services, tenant: str, session: str) -> RunRow | None:
    """The row of the newest run of a session; None if it has none."""
    return await _turn_where(services, tenant, session, "1 ORDER BY run DESC")


async def oldest_open_turn(services: Services, tenant: str, session: str) -> RunRow | None:
    """Return the row of the first run of a session that has not ended; None if all have."""
    has_no_end = "status NOT IN ('completed', 'failed', 'cancelled')"
    return await _turn_where(services, tenant, session, f"{has_no_end} ORDER BY run")


async def _turn_where(services: Services, tenant: str, session: str, which: str) -> RunRow | None:
    rows = await services.store.query(
        "SELECT run FROM runs WHERE tenant = ? AND run > ? AND run < ? AND loop = 'agent'"
        f" AND run GLOB ? AND {which} LIMIT 1",
        (tenant, f"{session}/", f"{session}0", f"{session}/{'[0-9]' * 6}"),
    )
    if not rows:
        return None
    try:
        return await run_row(services.store, tenant, cast(str, rows[0][0]))
    except NotFound:
        return None
