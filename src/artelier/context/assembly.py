"""The assembly of sections into a prompt: pure, deterministic, and honest about what was left out or cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import msgspec

from artelier.errors import ContextTooLong, InvalidRequest
from artelier.kernel import DroppedRecord, FixedPart, Prompt, RangePart, message_tokens
from artelier.kernel.prompt.manifest import balance_fences, fence
from artelier.ports.model import ChatMessage, Role
from artelier.tokens import estimate_tokens
from artelier.tokens.estimate import cut

# --------------------------------------------------------------------------- section
# A section: one tagged part of a prompt before anybody decided whether it fits.


Stability = Literal["fixed", "slow", "append_only", "volatile"]
Truncation = Literal["start", "end", "middle", "drop"]
STABILITIES: tuple[str, ...] = get_args(Stability)
TRUNCATIONS: tuple[str, ...] = get_args(Truncation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a section, and the reason why it may be there."""

    ref: str
    """An artifact with its version (`handbook@3`), or a name such as `agent`, `tools`, `memory`."""
    why: str = ""
    """Such as `subscribed`, `recalled`, `loaded`."""
    grant: str = ""
    """The grant by which it was read, where one was needed."""

    def __str__(self) -> str:
        notes = "; ".join(note for note in (self.why, self.grant and f"grant {self.grant}") if note)
        return f"{self.ref} ({notes})" if notes else self.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Text, messages, or a range of a conversation, with all that a manifest says of it."""

    tag: str
    text: str = ""
    role: Role = "system"
    """Of the message that `text` becomes."""
    messages: tuple[ChatMessage, ...] = ()
    range: RangePart | None = None
    joined: bool = False
    """`text` joins the message before it, after a blank line, if that has the same role; else it stands
    alone."""
    stability: Stability = "fixed"
    """`volatile` sections stand at the very end: they are added to the last user or tool message."""
    priority: int = 50
    """Over budget, the lowest is cut or left out first."""
    max_tokens: int | None = None
    """By estimate. None: no limit of its own."""
    truncation: Truncation = "end"
    """Where text is cut, over its own limit or the prompt's; `drop` leaves all of it out. Of messages the
    oldest go first, and with `drop` all of them may."""
    pinned: bool = False
    """Never cut, never left out."""
    sources: tuple[Source | str, ...] = ()
    trust: str = "trusted"
    """A label; text of any other than `trusted` is fenced as data."""
    is_fenced: bool = False
    """Its maker has fenced what is not trusted in it; the words around that are its own."""
    label: str = ""
    """The trust label in the manifest, where it is worse than the way in which the text is shown."""
    cut: str = ""
    """How its maker has shortened it already: `start`, `end` or `middle`."""
    dropped: str = ""
    """Why its maker left it out (`denied`, `no_funds`, `missing`, ...); the manifest says so."""

    def __post_init__(self) -> None:
        """Errors: `InvalidRequest` that names what is no section's."""
        for name, allowed in (("stability", STABILITIES), ("truncation", TRUNCATIONS)):
            if getattr(self, name) not in allowed:
                raise InvalidRequest(
                    f"{name} of section {self.tag!r}",
                    expected=" or ".join(allowed),
                    got=repr(getattr(self, name))[:80],
                )
        for name in ("tag", "text"):
            value: object = getattr(self, name)
            if not isinstance(value, str) or (name == "tag" and not 0 < len(value) <= 120):
                raise InvalidRequest(
                    f"{name} of a section",
                    expected="text" if name == "text" else "1-120 characters",
                    got=repr(value)[:80],
                )

    @property
    def is_empty(self) -> bool:
        return not self.text and not self.messages and self.range is None


# --------------------------------------------------------------------------- assembly


MARKS_TOKENS = 16
"""What the marks around a fenced text may take."""

NAMED_MAX = 3
"""Number of sections that an error names."""
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
    return _shorten(fitted, section.max_tokens)


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
        shorter = _shorten(fitted, fitted.tokens - over)
        slots[index] = shorter
        over -= fitted.tokens - (shorter.tokens if shorter is not None else 0)
        if shorter is None:
            why = DroppedRecord(tag=fitted.section.tag, why="over_budget", tokens=fitted.tokens)
            dropped.append(why)
    if over > 0:
        pinned = [fitted for fitted in kept if fitted.section.pinned]
        longest = sorted(pinned, key=lambda fitted: -fitted.tokens)[:NAMED_MAX]
        named = ", ".join(f"{one.section.tag} with about {one.tokens:,}" for one in longest)
        raise ContextTooLong(
            "the parts of the prompt that are never cut do not fit",
            expected=f"at most {budget_tokens:,} tokens",
            got=f"about {budget_tokens + over:,} tokens; the longest: {named}",
            hint=f"Shorten {longest[0].section.tag}, or take a model with a larger context.",
        )
    return [fitted for fitted in slots if fitted is not None]


def _shorten(fitted: _FittedSection, tokens: int) -> _FittedSection | None:
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
            parts.append(_fixed_part(fitted, text=_text(section), joined=True))
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
    return _fixed_part(fitted, messages=messages)


def _tail_part(fitted: _FittedSection, *, attach: bool) -> FixedPart:
    section = fitted.section
    text = _text(section) or "\n\n".join(message.text for message in section.messages)
    if attach:
        return _fixed_part(fitted, text=text)
    return _fixed_part(fitted, messages=(ChatMessage(role="user", content=text),))


def _text(section: Section) -> str:
    """The section's text; between marks if nobody vouches for it."""
    if not section.text or section.trust == "trusted" or section.is_fenced:
        return section.text
    source = str(section.sources[0]) if section.sources else section.tag
    return fence(section.text, source=source, trust=section.trust)


def _fixed_part(
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
