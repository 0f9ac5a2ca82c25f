"""From sections to a prompt: pure, deterministic, and honest about what was left out."""

from __future__ import annotations

from collections.abc import Sequence

from artelier.context.section import Section
from artelier.errors import ContextTooLong
from artelier.kernel import DroppedRecord, FixedPart, Prompt, RangePart
from artelier.ports.model import ChatMessage
from artelier.tokens import estimate_tokens


def assemble(sections: Sequence[Section], *, budget_tokens: int | None = None) -> Prompt:
    """The prompt of some sections, in their order; over budget the lowest priority goes first.

    Units:  `budget_tokens` by estimate; None is no limit.
    Errors: `ContextTooLong` if the pinned sections alone do not fit.
    Cost:   O(size of the sections); no I/O.
    """
    dropped: list[DroppedRecord] = []
    kept: list[tuple[Section, int]] = []
    for section in sections:
        if section.is_empty:
            dropped.append(DroppedRecord(tag=section.tag, why="empty"))
        else:
            kept.append((section, 0 if budget_tokens is None else _tokens(section)))
    if budget_tokens is not None:
        total = sum(tokens for _, tokens in kept)
        for section, tokens in sorted(
            (item for item in kept if not item[0].pinned), key=lambda item: item[0].priority
        ):
            if total <= budget_tokens:
                break
            kept.remove((section, tokens))
            total -= tokens
            dropped.append(DroppedRecord(tag=section.tag, why="over_budget", tokens=tokens))
        if total > budget_tokens:
            raise ContextTooLong(
                "the pinned sections do not fit",
                expected=f"at most {budget_tokens} tokens", got=f"about {total} tokens",
            )  # fmt: skip
    return Prompt(parts=tuple(_part(section) for section, _ in kept), dropped=tuple(dropped))


def _tokens(section: Section) -> int:
    if section.range is not None:
        return sum(estimate_tokens(message.canonical()) for message in section.range.messages)
    texts = [section.text, *(message.text for message in section.messages)]
    return sum(estimate_tokens(text) for text in texts)


def _part(section: Section) -> FixedPart | RangePart:
    if section.range is not None:
        return section.range
    messages = section.messages or (ChatMessage(role=section.role, content=section.text),)
    return FixedPart(
        tag=section.tag, messages=messages, stability=section.stability, src=section.src,
        trust=section.trust,
    )  # fmt: skip
