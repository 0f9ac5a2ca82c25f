"""One compaction: a summary takes the place of a block of messages, and the receipt says what that cost.

Every call is a journaled step of the run. When no model gives a summary, a deterministic extract takes its
place: a run never ends because its summariser failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from artelier.context import compaction
from artelier.context.builder import template
from artelier.context.compaction import CompactionStrategy, extract
from artelier.errors import Conflict, CorruptStore, Flow, StoreUnavailable
from artelier.kernel import FixedPart, Prompt, RangePart, Run
from artelier.kernel.events import ContextCompacted
from artelier.kernel.prompt.manifest import Quote, fence, lines
from artelier.kernel.steps.failures import code_of
from artelier.log import Blob, BlobRef
from artelier.ports.model import ChatMessage
from artelier.tokens import estimate_tokens
from artelier.tokens.estimate import cut

# --------------------------------------------------------------------------- transcript
# The lines of a transcript in pieces that fit a summariser's window.


def pieces(texts: Iterable[str], *, tokens: int, count_max: int) -> list[range]:
    """Return which texts go together so that they are few and fit `tokens` each; at most `count_max` ranges.

    The oldest and the newest pieces are kept: a task's beginning and its present state.
    """
    found: list[range] = []
    start, size, index = 0, 0, -1
    for index, text in enumerate(texts):
        more = estimate_tokens(text) + 1
        if index > start and size + more > tokens:
            found.append(range(start, index))
            start, size = index, 0
        size += more
    if index >= start:
        found.append(range(start, index + 1))
    if len(found) <= count_max:
        return found
    return [found[0], *found[len(found) - count_max + 1 :]]


# --------------------------------------------------------------------------- summarise


PIECES_MAX = 12
"""Calls for one block at most; a block beyond that loses its middle to the extract of the receipt."""

INPUT_SHARE = 0.6
"""Of the summariser's window that its input may take; the rest is for the estimate's error."""

FATAL = (Flow, StoreUnavailable, CorruptStore, Conflict)
"""What no other summary could help against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBlock:
    """The messages that a summary shall stand for."""

    conversation: str
    start: int
    end: int
    messages: Sequence[ChatMessage]
    summary: str = ""
    """The summary that stands before them, which the new one takes in."""
    summary_ref: BlobRef | None = None
    tokens: int = 0
    trust: str = "trusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The request for a summary: its reason, and its settings."""

    why: str
    model: str
    """Of the run; the strategy may name another for the summary."""
    strategy: CompactionStrategy
    window_tokens: int
    tokens_before: int
    kept: Sequence[str] = ()
    """Texts that stay in the prompt anyway (core memory): what they say is not lost."""


async def compact(run: Run, block: MessageBlock, wish: Wish, *, key: str) -> ContextCompacted:
    """The receipt of a compaction; the recorded one on replay, when nothing is called.

    Errors: those of the store; `RunSuspended` if the budget does not allow the call.
    """

    async def make(full: str) -> tuple[ContextCompacted, list[Blob]]:
        return await _compact_block(run, block, wish, full)

    return await run.receipt(ContextCompacted, make, key=key)


async def _compact_block(
    run: Run, block: MessageBlock, wish: Wish, key: str
) -> tuple[ContextCompacted, list[Blob]]:
    core = run.core
    strategy = wish.strategy
    room = min(strategy.summary_tokens_max, max(50, wish.window_tokens // 8))
    model = strategy.summarize_with_model
    model = wish.model if model is None else model
    each = max(200, wish.window_tokens // 4)
    texts = lines(block.messages, first=block.start, tokens_each=each)
    summary, how, failure = "", "model", ""
    if model:
        try:
            quote = Quote(source=key.rpartition("/")[0], line_tokens_max=each)
            summary = await _summary(run, block, texts, quote, model=model, tokens=room, key=key)
        except FATAL:
            raise
        except Exception as error:
            # A port may raise what it likes. Its step has recorded that, and an extract stands in.
            failure = code_of(error)
        else:
            failure = "" if summary else "empty_summary"
    if not summary:
        fitting = min(room, max(50, (block.tokens + estimate_tokens(block.summary)) * 9 // 10))
        summary, how = extract(texts, tokens=fitting, previous=block.summary), "extract"
    report = compaction.find_lost(_text_of_block(block, texts), kept=[summary, *wish.kept])
    ref, blobs = core.keep_json(summary)
    policy, more = core.keep_json(strategy.settings())
    report_ref, rest = core.keep_json(report)
    saved = block.tokens + estimate_tokens(block.summary) - estimate_tokens(summary)
    event = ContextCompacted(
        key=key,
        conversation=block.conversation,
        start=block.start,
        end=block.end,
        summary=ref,
        previous=block.summary_ref,
        how=how,
        model=model,
        failure=failure,
        policy=policy,
        why=wish.why,
        tokens_before=wish.tokens_before,
        tokens_after=max(0, wish.tokens_before - saved),
        loss=report_ref if report else None,
        lost=compaction.count(report),
        trust=block.trust,
    )
    return event, [*blobs, *more, *(rest if report else [])]


def _text_of_block(block: MessageBlock, texts: Sequence[str]) -> str:
    """All that the block said; a message whose line was cut is there as a whole, too."""
    told = [block.summary]
    for message, text in zip(block.messages, texts, strict=True):
        told += [text] if message.text in text else [message.text, text]
    return "\n".join(told)


async def _summary(
    run: Run, block: MessageBlock, texts: Sequence[str], quote: Quote, *, model: str, tokens: int, key: str
) -> str:
    """A model's summary: in one call if the block fits its window, else of pieces that are then merged."""
    window = run.core.services.window_of(model)
    input_tokens = max(500, int((window.context_tokens - tokens) * INPUT_SHARE))
    parts = pieces(texts, tokens=input_tokens, count_max=PIECES_MAX)
    told: list[str] = [block.summary] if block.summary else []
    for number, piece in enumerate(parts, start=1):
        if len(parts) == 1 and told:
            quote = msgspec.structs.replace(quote, told=told.pop())
        part = RangePart(
            tag="transcript",
            conversation=block.conversation,
            start=block.start + piece.start,
            end=block.start + piece.stop - 1,
            quote=quote,
            messages=tuple(block.messages[piece.start : piece.stop]),
            tokens=sum(estimate_tokens(texts[index]) for index in piece),
        )
        sub = f"{key}/{number}"
        told.append(await _ask_summary(run, "summarise-1", part, model=model, tokens=tokens, key=sub))
    while len(told) > 1:
        # Summaries are small: one merge nearly always takes them all.
        merged = cut("\n\n".join(told), tokens=input_tokens, where="middle")
        message = ChatMessage(role="user", content=fence(merged, source=quote.source))
        part = FixedPart(tag="summaries", messages=(message,), stability="append_only", trust="untrusted")
        sub = f"{key}/merge"
        told = [await _ask_summary(run, "merge-1", part, model=model, tokens=tokens, key=sub)]
    return cut(told[0], tokens=2 * tokens, where="end")


async def _ask_summary(
    run: Run, wording: str, part: FixedPart | RangePart, *, model: str, tokens: int, key: str
) -> str:
    told = ChatMessage(role="system", content=template(wording))
    prompt = Prompt(parts=(FixedPart(tag="summariser", messages=(told,)), part))
    result = await run.step_model(
        model=model, messages=prompt, tools=(), key=key, max_output_tokens=max(64, tokens)
    )
    return result.text.strip()
