"""Prompt caches of providers: what each can keep, where requests are marked, what a call reads and writes.

A cache holds prefixes of prompts. Reading one costs a fraction of fresh input; with some providers writing
one costs more than fresh input and happens at marks alone. Adapters put the marks where `marked_messages`
says; so a forecast over the same requests tells what the provider will bill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

import msgspec

from artelier.ports.model import ChatMessage, ModelRequest, is_tail
from artelier.tokens.estimate import FRAMING_TOKENS, estimate_tokens
from artelier.tokens.model_info import canonical_name, longest_prefix, published_name

CONVERSATION_MARKS = 3
"""Marks in a conversation; the one that is left of four stands behind tools and system text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """The prompt cache of one model."""

    marks_max: int
    """How many marks a request may hold. 0: the provider caches by itself, and takes none."""
    lookback_blocks: int | None
    """How many blocks before a mark may end what is read. None: any number."""
    prefix_tokens_min: int
    """Shorter prefixes are neither written nor read."""
    lifetimes_s: tuple[int, ...]
    """How long a prefix lives after its last use, the default first."""
    step_tokens: int = 1
    """What is read is a multiple of this."""

    @property
    def is_marked(self) -> bool:
        """Return True if prefixes are kept where a request says, and nowhere else."""
        return self.marks_max > 0


# These rules were compared with the documentation of the providers on 2026-11-24.


def _anthropic(prefix_tokens_min: int) -> CacheRules:
    return CacheRules(
        marks_max=4, lookback_blocks=20, prefix_tokens_min=prefix_tokens_min, lifetimes_s=(300, 3600)
    )


_OPENAI_MARKED = CacheRules(
    marks_max=4, lookback_blocks=None, prefix_tokens_min=1024, lifetimes_s=(1800, 43_200)
)


def _automatic(prefix_tokens_min: int, *, step_tokens: int, lifetime_s: int) -> CacheRules:
    return CacheRules(
        marks_max=0,
        lookback_blocks=None,
        prefix_tokens_min=prefix_tokens_min,
        lifetimes_s=(lifetime_s,),
        step_tokens=step_tokens,
    )


# By the longest prefix of the name. A model that is newer than the table counts with the largest minimum of
# its family: a forecast then promises too little. Sources:
# platform.claude.com/docs/en/build-with-claude/prompt-caching, ai.google.dev/gemini-api/docs/caching,
# developers.openai.com/api/docs/guides/prompt-caching, api-docs.deepseek.com/guides/kv_cache.
_RULES: dict[str, CacheRules] = {
    "anthropic:claude": _anthropic(4096),
    "anthropic:claude-3-haiku": _anthropic(2048),
    "anthropic:claude-3-5-haiku": _anthropic(2048),
    "anthropic:claude-3-opus": _anthropic(1024),
    "anthropic:claude-3-5-sonnet": _anthropic(1024),
    "anthropic:claude-3-7-sonnet": _anthropic(1024),
    "anthropic:claude-opus-4-0": _anthropic(1024),
    "anthropic:claude-opus-4-1": _anthropic(1024),
    "anthropic:claude-opus-4-2": _anthropic(1024),  # claude-opus-4-20250514
    "anthropic:claude-sonnet-4": _anthropic(1024),
    "anthropic:claude-sonnet-4-6": _anthropic(2048),
    "openai:": _automatic(1024, step_tokens=128, lifetime_s=300),
    "openai:gpt-5.6": _OPENAI_MARKED,
    "openai:gpt-6": _OPENAI_MARKED,
    "google:gemini": _automatic(4096, step_tokens=1, lifetime_s=300),
    "google:gemini-2.5-flash": _automatic(1024, step_tokens=1, lifetime_s=300),
    "deepseek:": _automatic(64, step_tokens=64, lifetime_s=3600),
}


def cache_rules(model: str) -> CacheRules | None:
    """Return what is known of the cache of a model; None where nothing is."""
    prefix = longest_prefix(published_name(model), _RULES)
    return _RULES[prefix] if prefix is not None else None


def is_worth_marking(request: ModelRequest) -> bool:
    """Return True if a later request will likely begin with this one. Nobody else reads what it writes."""
    last = request.messages[-1] if request.messages else None
    return (
        bool(request.tools)
        or (last is not None and tail_of(last) is not None)
        or any(message.role in ("assistant", "tool") for message in request.messages)
    )


def marked_messages(request: ModelRequest) -> tuple[int, ...]:
    """Return the numbers (from 0) of the messages behind whose last stable piece a mark stands, ascending.

    They are the last of the messages that precede a reply, in the newest three rounds. So the end of the
    prompt before this one is always marked, however many blocks have come since.
    """
    if not is_worth_marking(request):
        return ()
    begins = leading_systems(request.messages)
    ends = [
        number
        for number, message in enumerate(request.messages)
        if number >= begins
        and message.role != "assistant"
        and (number + 1 == len(request.messages) or request.messages[number + 1].role == "assistant")
        and without_tail(message).text
    ]
    return tuple(ends[-CONVERSATION_MARKS:])


def leading_systems(messages: Sequence[ChatMessage]) -> int:
    """Return how many system messages stand before everything else."""
    return next(
        (number for number, message in enumerate(messages) if message.role != "system"), len(messages)
    )


def tail_of(message: ChatMessage) -> str | None:
    """Return the text of a message that no later prompt holds; None if there is none."""
    if isinstance(message.content, str) or not message.content or not is_tail(message.content[-1]):
        return None
    return message.content[-1].text or ""


def without_tail(message: ChatMessage) -> ChatMessage:
    """Return the message as later prompts hold it."""
    if tail_of(message) is None:
        return message
    return msgspec.structs.replace(message, content=message.content[:-1])


# --------------------------------------------------------------------------- forecast


class CacheUse(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a prompt by how they are billed."""

    read_tokens: int = 0
    written_tokens: int = 0
    fresh_tokens: int = 0


class Outline(NamedTuple):
    """A request as a cache sees it: blocks in order, and after how many of them a prefix is kept."""

    model: str
    blocks: tuple[bytes, ...]
    marks: tuple[int, ...]
    """Ascending, each the number of blocks before the mark; without marks the end of the prompt."""

    def prefixes(self) -> list[bytes]:
        """Return one digest for each number of leading blocks, from 0."""
        digests = [sha256(self.model.encode()).digest()]
        for block in self.blocks:
            digests.append(sha256(digests[-1] + block).digest())
        return digests

    def sizes(self) -> list[int]:
        """Return the tokens, by estimate, of each number of leading blocks, from 0."""
        return [0, *accumulate(map(estimate_tokens, self.blocks))]


def outline(request: ModelRequest, rules: CacheRules) -> Outline:
    """Return the blocks of a request and its marks. Cost: O(its size)."""
    blocks = [tool.canonical() for tool in request.tools]
    if request.output_schema is not None:
        blocks.append(msgspec.json.encode(request.output_schema, order="sorted"))
    begins = leading_systems(request.messages)
    if begins:
        blocks.append("\n\n".join(message.text for message in request.messages[:begins]).encode())
    marked = marked_messages(request) if rules.is_marked else ()
    marks = [len(blocks)] if marked and blocks else []
    for number, message in enumerate(request.messages[begins:], start=begins):
        blocks.extend(_blocks_of(without_tail(message)))
        if number in marked:
            marks.append(len(blocks))
        if tail := tail_of(message):
            blocks.append(tail.strip().encode())
    if not rules.is_marked:
        marks = [len(blocks)]
    return Outline(canonical_name(request.model), tuple(blocks), tuple(marks))


def _blocks_of(message: ChatMessage) -> Iterator[bytes]:
    if message.role == "tool":
        yield f"{message.tool_call_id} {message.text}".encode()
        return
    if not isinstance(message.content, str):
        yield from (part.canonical() if part.text is None else part.text.encode() for part in message.content)
    elif message.content:
        yield message.content.encode()
    for call in message.tool_calls:
        yield call.canonical()


class Scale(NamedTuple):
    """The tokens of a provider by our estimate: a factor, and what it adds to each prompt (of tools)."""

    factor: float = 1.0
    added_tokens: float = 0.0

    @classmethod
    def of(cls, counted: Sequence[tuple[int, int]]) -> Scale:
        """Return the scale that earlier calls have shown, each as `(estimate, tokens of the provider)`.

        Two prompts of different length tell both numbers; from one of them alone, what is more than the
        estimate counts as added, up to `FRAMING_TOKENS`.
        """
        if not counted:
            return cls()
        estimate, tokens = counted[0]
        for other, others in counted[1:]:
            if abs(estimate - other) >= _APART_TOKENS:
                factor = (tokens - others) / (estimate - other)
                if 0.25 <= factor <= 4:
                    return cls(factor, tokens - factor * estimate)
        added = min(max(0, tokens - estimate), FRAMING_TOKENS)
        return cls((tokens - added) / max(1, estimate), added)

    def tokens(self, estimate: int) -> int:
        return max(0, round(self.added_tokens + self.factor * estimate)) if estimate else 0


_APART_TOKENS = 200
"""How far apart two prompts must be to tell a factor."""


class EarlierCall(NamedTuple):
    """A call that may have left a prefix."""

    outline: Outline
    age_s: float
    """Between its request and the one at hand."""


def forecast(
    now: Outline, earlier: Sequence[EarlierCall], rules: CacheRules, *, scale: Scale | None = None
) -> CacheUse:
    """Return how a provider will bill the prompt of a call, by what was sent before it."""
    scale = scale or Scale()
    sizes = [scale.tokens(size) for size in now.sizes()]
    alive = [
        call.outline
        for call in earlier
        if call.outline.model == now.model and call.age_s < rules.lifetimes_s[0]
    ]
    total = sizes[-1]
    if not rules.is_marked:
        read = max((_shared_tokens(now, one, sizes, scale) for one in alive), default=0)
        read = read // rules.step_tokens * rules.step_tokens if read >= rules.prefix_tokens_min else 0
        return CacheUse(read_tokens=read, fresh_tokens=total - read)
    marks = [mark for mark in now.marks if sizes[mark] >= rules.prefix_tokens_min]
    if not marks:
        return CacheUse(fresh_tokens=total)
    kept = {prefixes[mark] for one in alive for prefixes in (one.prefixes(),) for mark in one.marks}
    digests = now.prefixes()
    read = max((sizes[end] for end in _ends_within_reach(marks, rules) if digests[end] in kept), default=0)
    if read < rules.prefix_tokens_min:
        read = 0
    written = max(0, sizes[marks[-1]] - read)
    return CacheUse(read_tokens=read, written_tokens=written, fresh_tokens=total - read - written)


def _ends_within_reach(marks: Sequence[int], rules: CacheRules) -> Iterator[int]:
    for mark in marks:
        first = 1 if rules.lookback_blocks is None else max(1, mark - rules.lookback_blocks)
        yield from range(first, mark + 1)


def _shared_tokens(now: Outline, before: Outline, sizes: Sequence[int], scale: Scale) -> int:
    for number, (mine, theirs) in enumerate(zip(now.blocks, before.blocks, strict=False)):
        if mine != theirs:
            same = next(
                (at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b),
                min(len(mine), len(theirs)),
            )
            return sizes[number] + int(estimate_tokens(mine[:same]) * scale.factor)
    return sizes[min(len(now.blocks), len(before.blocks))]
