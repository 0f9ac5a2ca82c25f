"""Media that tools return beside data, such as images, in the message that shows them to a model.

A result names its media; a model sees them in a message of their own behind all results of a cycle, which
every provider takes. Whoever judges the work is shown them in the same form. What a model does not take is
left out, with the reason in words: no run ends of a picture.
Read next: `kernel/tool_calls/tool_outcome.py`, which stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from artelier.context.assembly import Section
from artelier.context.builder import shipped_text
from artelier.kernel import Run
from artelier.kernel.prompt.conversation import Conversation
from artelier.kernel.run.status import ToolResult
from artelier.kernel.steps.call_media import why_not_shown
from artelier.ports.media import Medium, media_in, media_line
from artelier.ports.model import ChatMessage, Part

WHY_CHARS_MAX = 300


def media_sections(pieces: Sequence[Mapping[str, Any]]) -> list[Section]:
    """Return what `media_pieces` gave as a part of a prompt that has it in no conversation."""
    if not pieces:
        return []
    message = ChatMessage(role="user", content=tuple(msgspec.convert(one, Part) for one in pieces))
    return [
        Section(tag="tool_media", messages=(message,), trust="untrusted", priority=40, sources=("tools",))
    ]


def media_of_results(results: Iterable[tuple[str, ToolResult]]) -> list[tuple[str, Medium]]:
    """Return what tools have shown, with the name that each was called by."""
    return [(name, medium) for name, result in results for medium in result.media]


def media_before(conversation: Conversation, *, first: int = 1) -> Iterator[Medium]:
    """Yield the media of a conversation, from the first message on that prompts hold."""
    yield from media_in(conversation.messages(first, len(conversation)))


async def media_pieces(
    run: Run, media: Sequence[tuple[str, Medium]], *, model: str, shown: Iterable[Medium] = (), key: str
) -> list[dict[str, Any]]:
    """Return the pieces of a message that show what tools have returned; none if they showed nothing.

    `media` stand with the name that each tool was called by. `shown`: what the prompt holds beside them,
    which counts towards the most that a call takes; read only if there are some. The choice is journaled
    under `key`.
    """
    if not media:
        return []
    there = list(shown)

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
