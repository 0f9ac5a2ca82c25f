"""The assembly of sections into a prompt: pure, deterministic, and honest about what was left out or cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from artelier.context.section import Section
from artelier.errors import ContextTooLong
from artelier.kernel import DroppedRecord, FixedPart, Prompt, RangePart, message_tokens
from artelier.kernel.prompt.delimiters import balance_fences, fenced
from artelier.ports.model import ChatMessage
from artelier.tokens import estimate_tokens
from artelier.tokens.estimate import cut

MARKS_TOKENS = 16
"""What the marks around a fenced text may take."""

CUT_TOKENS_MIN = 32
"""A remainder below this tells nothing: such a section is left out instead."""


@dataclass(frozen=True, slots=True)
class _FittedSection:
    """A section with its size, and how it was shortened."""

    section: Section
    tokens: int
    cut: str = ""


def assemble(sections: Sequence[Section], *, budget_tokens: int | None = None) -> Prompt:
    """The prompt of some sections, in their order; over budget the lowest priority gives way first.

    Units:  `budget_tokens` by estimate; None is no limit.
    Errors: `ContextTooLong` if the pinned sections alone do not fit.
    Cost:   O(size of the sections); no I/O.
    """
    dropped: list[DroppedRecord] = []
    kept: list[_FittedSection] = []
    for section in sections:
        if section.is_empty:
            dropped.append(DroppedRecord(tag=section.tag, why=section.dropped or "empty"))
            continue
        fitted = _within_own_limit(_FittedSection(section, section_tokens(section)))
        if fitted is None:
            why = DroppedRecord(tag=section.tag, why="over_limit", tokens=section_tokens(section))
            dropped.append(why)
        else:
            kept.append(fitted)
    if budget_tokens is not None:
        kept = _within_budget(kept, budget_tokens, dropped)
    return Prompt(parts=tuple(_parts(kept)), dropped=tuple(dropped))


def section_tokens(section: Section) -> int:
    """About how many tokens a section has."""
    if section.range is not None:
        return section.range.tokens or sum(map(message_tokens, section.range.messages))
    if section.messages:
        return sum(map(message_tokens, section.messages))
    marks = 0 if section.trust == "trusted" or section.is_fenced else MARKS_TOKENS
    return estimate_tokens(section.text) + marks


def prompt_tokens(prompt: Prompt) -> int:
    """About how many tokens a prompt has, tools and output schema apart."""
    return sum(part.tokens for part in prompt.parts)


def _within_own_limit(fitted: _FittedSection) -> _FittedSection | None:
    section = fitted.section
    if section.pinned or section.max_tokens is None or fitted.tokens <= section.max_tokens:
        return fitted
    return _shortened(fitted, section.max_tokens)


def _within_budget(
    kept: list[_FittedSection], budget_tokens: int, dropped: list[DroppedRecord]
) -> list[_FittedSection]:
    over = sum(fitted.tokens for fitted in kept) - budget_tokens
    order = sorted(range(len(kept)), key=lambda index: (kept[index].section.priority, -index))
    slots: list[_FittedSection | None] = list(kept)
    for index in order:
        fitted = kept[index]
        if over <= 0:
            break
        if fitted.section.pinned:
            continue
        shorter = _shortened(fitted, fitted.tokens - over)
        slots[index] = shorter
        over -= fitted.tokens - (shorter.tokens if shorter is not None else 0)
        if shorter is None:
            why = DroppedRecord(tag=fitted.section.tag, why="over_budget", tokens=fitted.tokens)
            dropped.append(why)
    if over > 0:
        raise ContextTooLong(
            "the pinned sections do not fit",
            expected=f"at most {budget_tokens} tokens",
            got=f"about {budget_tokens + over} tokens",
            hint="Shorten what is pinned, or take a model with a larger window.",
        )
    return [fitted for fitted in slots if fitted is not None]


def _shortened(fitted: _FittedSection, tokens: int) -> _FittedSection | None:
    """The section within `tokens`; None if nothing useful of it would be left."""
    section = fitted.section
    if section.range is not None:
        return _later_messages(fitted, section.range, tokens)
    if tokens < CUT_TOKENS_MIN or section.truncation == "drop" or section.messages:
        return None
    marks = 0 if section.trust == "trusted" and not section.is_fenced else MARKS_TOKENS
    text = cut(section.text, tokens=tokens - marks, where=section.truncation)
    if section.is_fenced and text:
        text = balance_fences(text)
    if not text:
        return None
    shorter = replace(section, text=text)
    return _FittedSection(shorter, section_tokens(shorter), section.truncation)


def _later_messages(fitted: _FittedSection, part: RangePart, tokens: int) -> _FittedSection | None:
    """The newest messages that fit, beginning with none that answers a call left out.

    The newest exchange always stays, unless the section says `drop`: then it stands in another one.
    """
    sizes = [message_tokens(message) for message in part.messages]
    first, left = len(sizes), tokens
    while first > 0 and sizes[first - 1] <= left:
        first -= 1
        left -= sizes[first]
    while first < len(sizes) and part.messages[first].role == "tool":
        first += 1
    if first >= len(sizes) and fitted.section.truncation == "drop":
        return None
    if first >= len(sizes):  # without the newest exchange nothing is asked
        first = max(i for i, m in enumerate(part.messages) if m.role != "tool" or i == 0)
    messages = part.messages[first:]
    shorter = msgspec.structs.replace(
        part,
        start=part.start + first,
        messages=messages,
        tokens=sum(sizes[first:]),
        cut="start" if first else "",
    )
    return _FittedSection(replace(fitted.section, range=shorter), shorter.tokens, "start")


def _parts(kept: Iterable[_FittedSection]) -> list[FixedPart | RangePart]:
    """Parts in order; what is volatile comes last, as text for the last message where that takes it."""
    parts: list[FixedPart | RangePart] = []
    tail: list[_FittedSection] = []
    last: ChatMessage | None = None
    for fitted in kept:
        section = fitted.section
        if section.stability == "volatile":
            tail.append(fitted)
            continue
        if section.joined and _takes(parts, last, section):
            parts.append(_fixed(fitted, text=_text(section), joined=True))
            continue
        part = _part(fitted)
        parts.append(part)
        last = part.messages[-1]
    attach = last is not None and last.role in ("user", "tool")
    for fitted in tail:
        parts.append(_tail_part(fitted, attach=attach))
        # Whatever follows a message of its own can stand on that.
        attach = True
    return parts


def _takes(parts: Sequence[FixedPart | RangePart], last: ChatMessage | None, section: Section) -> bool:
    """Return True if a section's text can join the message before it. A conversation is shown as it is."""
    if last is None or isinstance(parts[-1], RangePart):
        return False
    return last.role == section.role and section.range is None and not section.messages


def _part(fitted: _FittedSection) -> FixedPart | RangePart:
    section = fitted.section
    if section.range is not None:
        return msgspec.structs.replace(section.range, tokens=fitted.tokens)
    messages = section.messages or (ChatMessage(role=section.role, content=_text(section)),)
    return _fixed(fitted, messages=messages)


def _tail_part(fitted: _FittedSection, *, attach: bool) -> FixedPart:
    section = fitted.section
    text = _text(section) or "\n\n".join(message.text for message in section.messages)
    if attach:
        return _fixed(fitted, text=text)
    return _fixed(fitted, messages=(ChatMessage(role="user", content=text),))


def _text(section: Section) -> str:
    """The section's text; between marks if nobody vouches for it."""
    if not section.text or section.trust == "trusted" or section.is_fenced:
        return section.text
    source = str(section.sources[0]) if section.sources else section.tag
    return fenced(section.text, source=source, trust=section.trust)


def _fixed(
    fitted: _FittedSection, *, messages: tuple[ChatMessage, ...] = (), text: str = "", joined: bool = False
) -> FixedPart:
    section = fitted.section
    return FixedPart(
        tag=section.tag,
        messages=messages,
        text=text,
        attach=bool(text) and not joined,
        joined=joined,
        stability=section.stability,
        src=tuple(map(str, section.sources)),
        tokens=fitted.tokens,
        trust=section.label or section.trust,
        cut=fitted.cut or section.cut,
    )
