"""The chats of a tenant, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artelier.cli import display, exit_codes

if TYPE_CHECKING:
    from artelier.cli.call import CliCall

CHATS_MAX = 10_000
"""Looked at; of more, those after it in the alphabet are not listed, which is said."""


async def list_chats(call: CliCall) -> int:
    """Chats with their branches and newest turn, the one that changed last first. Errors: `NotFound`."""
    from artelier.chat.queries.chats import newest_turn

    items: list[dict[str, Any]] = []
    async with call.kernel() as kernel:
        desk = kernel.for_tenant(call.tenant)
        after: str | None = ""
        while after is not None and len(items) < CHATS_MAX:
            page = await desk.chats(after=after or None, limit=1_000)
            after = page["next"]
            for one in page["items"]:
                items.append({**one, "turn": await newest_turn(desk.services.store, desk.id, one["chat_id"])})
    items.sort(key=lambda one: (-one["changed_us"], one["chat_id"]))
    if call.as_json:
        call.screen.json({"items": items, "next": after})
        return exit_codes.COMPLETED
    rows = [
        (
            one["chat_id"],
            display.line(one["title"], chars_max=40) + (" (archived)" if one["archived"] else ""),
            one["branches"],
            one["turn"],
            display.moment(one["changed_us"]),
        )
        for one in items
    ]
    call.screen.table(("chat", "title", ">branches", ">turn", "changed"), rows, empty="no chats")
    if after is not None:
        call.screen.note(f"only the first {CHATS_MAX:,} by name")
    return exit_codes.COMPLETED
