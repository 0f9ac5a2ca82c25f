"""Media that tools return beside data, such as images, in the message that shows them to a model.

A result names its media; a model sees them in a message of their own behind all results of a cycle, which
every provider takes. What its model does not take is left out, with the reason in words: no run ends of a
picture. Read next: `kernel/tool_calls/tool_outcome.py`, which stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from artelier.context.builder import shipped_text
from artelier.kernel import Run
from artelier.kernel.prompt.conversation import Conversation
from artelier.kernel.run.status import ToolResult
from artelier.kernel.steps.call_media import why_not_shown
from artelier.ports.media import Medium, media_in, media_line

WHY_CHARS_MAX = 300


async def media_pieces(
    run: Run,
    results: Sequence[tuple[str, ToolResult]],
    *,
    model: str,
    conversation: Conversation,
    shown_from: int = 1,
    shown: Iterable[Medium] = (),
    key: str,
) -> list[dict[str, Any]]:
    """Return the pieces of a message that show what tools have returned; none if they showed nothing.

    `results` stand with the name that each tool was called by. `shown_from`: the first message of the
    conversation that prompts hold, and `shown` what they hold beside it: all of it counts towards the most
    that a call takes. The choice is journaled under `key`.
    """
    media = [(name, medium) for name, result in results for medium in result.media]
    if not media:
        return []
    last = len(conversation)
    there = [*shown, *media_in(conversation.messages(shown_from, last))]

    def choose() -> list[str]:
        found = why_not_shown(run.core, [one for _, one in media], model=model, shown=there)
        return [why[:WHY_CHARS_MAX] for why in found]

    reasons = await run.step("media", choose, key=key)
    lines = [shipped_text("artelier.loops", "tool-media-1"), ""]
    for number, ((name, medium), why) in enumerate(zip(media, reasons, strict=True), 1):
        left_out = f": left out, since {why}" if why else ""
        lines.append(f"{number}. {name[:80]} {media_line(medium)}{left_out}")
    pieces: list[dict[str, Any]] = [{"type": "text", "text": "\n".join(lines)}]
    pieces += [
        msgspec.to_builtins(medium.part) for (_, medium), why in zip(media, reasons, strict=True) if not why
    ]
    return pieces
