"""The decision to compact a long conversation, what a summary may replace, and the summary itself.

The decision and the choice are pure. Every call is a journaled step of the run. When no model gives a
summary, a deterministic extract takes its place: a run never ends because its summariser failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import msgspec

from artelier.context.builder import template
from artelier.errors import Conflict, CorruptStore, Flow, InvalidRequest, StoreUnavailable
from artelier.kernel import FixedPart, Prompt, RangePart, Run
from artelier.kernel.events import ContextCompacted
from artelier.kernel.prompt.manifest import Quote, fence, lines
from artelier.kernel.steps.failures import code_of
from artelier.log import Blob, BlobRef
from artelier.ports.model import ChatMessage
from artelier.tokens import estimate_tokens
from artelier.tokens.estimate import cut

DEFAULT_SUMMARY_TOKENS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStrategy:
    """The settings of compaction: what triggers it, what it keeps, and who writes the summary."""

    trigger_at_messages: int | None = 40
    """Messages of a whole prompt; None: no such trigger."""
    trigger_at_fraction: float | None = 0.8
    """Of the model's window, by estimated tokens of the whole prompt, tools included; None: when full."""
    summarize_with_model: str | None = None
    """None: the run's own model. Empty: no model, a deterministic extract."""
    keep_recent_messages: int = 10
    """Stay verbatim; a call and its results are never parted, so it may be some more."""
    summary_tokens_max: int = DEFAULT_SUMMARY_TOKENS

    def __post_init__(self) -> None:
        """Errors: `InvalidRequest` for a strategy that could never make room."""
        _check_count("keep_recent_messages", self.keep_recent_messages, low=1)
        _check_count("summary_tokens_max", self.summary_tokens_max, low=50)
        if self.trigger_at_messages is not None:
            low = self.keep_recent_messages + 2
            _check_count("trigger_at_messages", self.trigger_at_messages, low=low)
        fraction = cast(object, self.trigger_at_fraction)
        is_number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
        if fraction is not None and not (is_number and 0.05 <= cast(float, fraction) <= 1):
            raise InvalidRequest(
                "trigger_at_fraction", expected="a number from 0.05 to 1, or None", got=fraction
            )

    def settings(self) -> dict[str, Any]:
        """JSON data from which `restored` makes the same strategy."""
        settings = asdict(self)
        fraction = settings.pop("trigger_at_fraction")
        # Stored numbers are whole: millionths.
        settings["trigger_at_ppm"] = None if fraction is None else round(fraction * 1_000_000)
        return settings

    @classmethod
    def from_stored(cls, settings: Mapping[str, Any]) -> CompactionStrategy:
        """Errors: `InvalidRequest` for settings that are no strategy's."""
        fields = dict(settings)
        ppm = fields.pop("trigger_at_ppm", None)
        try:
            if ppm is not None:
                fields["trigger_at_fraction"] = ppm / 1_000_000
            elif "trigger_at_ppm" in settings:
                fields["trigger_at_fraction"] = None
            return cls(**fields)
        except TypeError as error:
            raise InvalidRequest(f"not a compaction strategy: {error}") from None

    def trigger_of(self, *, messages: int, tokens: int, window_tokens: int) -> str:
        """Return why a prompt of this size wants a compaction (`messages` or `fraction`); empty if it does
        not.
        """
        if self.trigger_at_messages is not None and messages >= self.trigger_at_messages:
            return "messages"
        fraction = self.trigger_at_fraction
        if fraction is not None and tokens >= int(window_tokens * fraction):
            return "fraction"
        return ""


def _check_count(name: str, value: object, *, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise InvalidRequest(name, expected=f"a whole number from {low}", got=repr(value)[:80])


def kept_from(messages: Sequence[ChatMessage], sizes: Sequence[int], *, keep: int, room_tokens: int) -> int:
    """Index of the first message that stays verbatim; 0 if nothing can be summarised.

    At least `keep` messages stay if they fit into `room_tokens`, else as many exchanges as fit, and always
    the last one. No tool result is parted from its call.
    """
    starts = [index for index, message in enumerate(messages) if message.role != "tool"]
    if not starts:
        return 0
    wanted = max(0, len(messages) - keep)
    first = max((start for start in starts if start <= wanted), default=starts[0])
    left = sum(sizes[first:])
    for start in starts:
        if start < first:
            continue
        left -= sum(sizes[first:start])
        first = start
        if left <= room_tokens:
            break
    return first


# --------------------------------------------------------------------------- loss
# The losses of one text against another: identifiers, numbers, paths, decisions and open questions.


FACTS_MAX = 400
"""Facts of one kind that a report holds; a block with more is counted, not listed."""

FACT_CHARS_MAX = 200

# Every repetition is bounded, so that no text takes more than linear time.
_PATTERNS: dict[str, re.Pattern[str]] = {
    "paths": re.compile(
        r"https?://[^\s<>\"')\]]{3,300}"
        r"|(?<![\w.@+-])(?:~|\.{1,2})?(?:/[\w.@+-]{1,100}){1,30}"
        r"|(?<![\w.@+-])[\w+-]{1,100}(?:/[\w.+-]{1,100}){1,30}\b"
        r"|(?<![\w-])[\w-]{1,100}\.(?:py|ts|js|md|csv|json|ya?ml|toml|sql|txt|html|parquet|log|db)\b"
    ),
    "identifiers": re.compile(
        r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}"
        r"|(?<![\w-])(?=[\w-]{0,80}\d)(?=[\w-]{0,80}[A-Za-z])[A-Za-z0-9]{1,80}(?:[-_][A-Za-z0-9]{1,80}){0,12}\b"
        r"|\b[A-Za-z][a-z0-9]{0,60}(?:_[A-Za-z0-9]{1,60}){1,12}\b"
        r"|\b[A-Za-z][a-z0-9]{0,60}(?:[A-Z][a-z0-9]{1,60}){1,12}\b"
        r"|\b[A-Z]{2,40}(?:-[A-Z0-9]{1,40}){1,12}\b"
    ),
    # Begins with a set of characters, which the engine looks for ten times faster than for a lookbehind.
    "numbers": re.compile(
        r"[-\d](?<![\w.].)(?:(?<=-)\d{1,3}|(?<!-)\d{0,2})(?:[ ,]\d{3}){1,6}(?:\.\d{1,20})?%?(?!\w)"
        r"|[-\d](?<![\w.].)(?:(?<=-)\d{1,40}|(?<!-)\d{0,39})(?:\.\d{1,20})?%?(?!\w)"
    ),
}
_SENTENCE = re.compile(r"[^.!?\n]{8,400}[.!?\n]?")
_DECISION = re.compile(
    r"\b(?:decided|decision|agreed|we will|i will|must not|must|chose|chosen|approved|rejected"
    r"|prefers?|deadline|always|never)\b",
    re.IGNORECASE,
)
_NUMBER_SIGNIFICANT = 2
"""Digits that a number needs to be a fact of its own: single digits occur everywhere."""


def facts_of(text: str) -> dict[str, list[str]]:
    """`{identifiers, numbers, paths, decisions, questions}` of a text, each once, in order.

    Cost: O(n).
    """
    found: dict[str, list[str]] = {}
    marked = _without_plain_words(text)
    for kind, pattern in _PATTERNS.items():
        where = text if kind == "numbers" else marked
        found[kind] = _unique(match.group().rstrip(".,;:!?") for match in pattern.finditer(where))
    found["numbers"] = [
        number for number in found["numbers"] if sum(char.isdigit() for char in number) >= _NUMBER_SIGNIFICANT
    ]
    sentences = [match.group().strip() for match in _SENTENCE.finditer(text)]
    found["decisions"] = _unique(said for said in sentences if _DECISION.search(said))
    found["questions"] = _unique(said for said in sentences if said.endswith("?"))
    return found


def _without_plain_words(text: str) -> str:
    """The text without its words of small letters: no path and no identifier is one or has a blank in it."""
    return "\n".join(word for word in text.split() if not _is_plain(word.strip(".,;:!?()\"'")))


def _is_plain(word: str) -> bool:
    return word.isalpha() and word.islower()


def find_lost(text: str, *, kept: Iterable[str]) -> dict[str, list[str]]:
    """The facts of `text` that occur in none of the kept texts; kinds without any are left out.

    A sentence counts as kept if most of its words stand together in what was kept.
    """
    joined = "\n".join(kept)
    folded = joined.casefold()
    words = frozenset(re.findall(r"\w+", folded))
    missing: dict[str, list[str]] = {}
    for kind, facts in facts_of(text).items():
        if kind in ("decisions", "questions"):
            gone = [fact for fact in facts if not _is_told(fact, words)]
        else:
            gone = [fact for fact in facts if fact.casefold() not in folded]
        if gone:
            missing[kind] = gone[:FACTS_MAX]
    return missing


def count(report: dict[str, list[str]]) -> int:
    return sum(len(facts) for facts in report.values())


def _is_told(sentence: str, words: frozenset[str]) -> bool:
    said = [word for word in re.findall(r"\w+", sentence.casefold()) if len(word) > 3]
    return sum(word in words for word in said) * 10 >= len(said) * 7


def _unique(found: Iterable[str]) -> list[str]:
    seen: dict[str, None] = {}
    for fact in found:
        if len(seen) >= FACTS_MAX:
            break
        seen.setdefault(fact.strip()[:FACT_CHARS_MAX], None)
    return [fact for fact in seen if fact]


# --------------------------------------------------------------------------- extractive summary
# A summary without a model: the sentences that carry facts, in order, within a size. Deterministic.


LINE_TOKENS = 60
"""Of one message in an extract, at most, beside its facts."""

FACTS_SHARE = 3
"""Of three tokens, one is for the list of facts."""


def extract(texts: Sequence[str], *, tokens: int, previous: str = "") -> str:
    """The texts (one a message) within `tokens`: an earlier summary, the newest lines, the facts of all.

    Cost: O(n).
    """
    parts: list[str] = []
    room = tokens
    if previous:
        earlier = cut(previous, tokens=tokens // 3, where="middle")
        parts.append(earlier)
        room -= estimate_tokens(earlier)
    facts = _facts(texts, tokens=room // FACTS_SHARE)
    if facts:
        room -= estimate_tokens(facts)
    kept: list[str] = []
    for text in reversed(texts):
        line = _line(text)
        size = estimate_tokens(line) + 1
        if size > room:
            break
        kept.append(line)
        room -= size
    left_out = len(texts) - len(kept)
    if left_out:
        parts.append(f"({left_out} earlier messages are only in the log.)")
    parts.extend(reversed(kept))
    if facts:
        parts.append(facts)
    return "\n".join(parts)


def _line(text: str) -> str:
    flat = re.sub(r"\s+", " ", text).strip()
    return cut(flat, tokens=LINE_TOKENS, where="middle").replace("\n", " ")


def _facts(texts: Sequence[str], *, tokens: int) -> str:
    """`Seen: a, b, c`, the newest facts first in line for the room there is."""
    found: dict[str, None] = {}
    room = tokens
    for text in reversed(texts):
        facts = facts_of(text)
        for fact in (*facts["identifiers"], *facts["paths"], *facts["numbers"]):
            size = estimate_tokens(fact) + 1
            if fact in found:
                continue
            if size > room:
                return _format_seen(found)
            found[fact] = None
            room -= size
    return _format_seen(found)


def _format_seen(found: dict[str, None]) -> str:
    return f"Seen: {', '.join(found)}" if found else ""


# --------------------------------------------------------------------------- estimator
# The estimate of the tokens that a run's next prompt will be billed as, learned from the last prompts.
# The numbers live in the loop's state, not in the process: a replay and a resume decide as the first run
# did.


PPM = 1_000_000
RATIO_MIN, RATIO_MAX = PPM // 5, PPM * 5
"""Billed tokens per estimated one that can be true, in millionths."""

STEP_TOKENS_MIN = 40
"""A prompt that grew by less teaches nothing: rounding would drown it."""


class Estimator(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The last prompt's estimate and bill, and what one more estimated token costs."""

    raw: int = 0
    """Estimate of the last prompt whose bill is known; 0 before the first reply."""
    billed: int = 0
    ratio: int = PPM
    """Billed tokens per estimated one, for text that was added."""
    steps: int = 0
    """Prompts that grew and so taught the ratio; counted up to two."""
    low_raw: int = 0
    """Estimate of the prompt after which they grew: the first, or the first after a compaction."""
    low_billed: int = 0
    """Its bill."""

    def tokens(self, raw: int) -> int:
        """Return what a prompt of `raw` estimated tokens will be billed as."""
        if not self.raw:
            return raw
        ratio = self._ratio_below if raw < self.raw else self.ratio
        told = self.billed + (raw - self.raw) * ratio // PPM
        # A prompt that shrank to little still costs something.
        return max(told, raw * RATIO_MIN // PPM)

    def raw_budget(self, tokens: int) -> int:
        """Return how many estimated tokens may be sent so that at most `tokens` are billed."""
        if not self.raw:
            return tokens
        ratio = self._ratio_below if tokens < self.billed else self.ratio
        return max(0, self.raw + (tokens - self.billed) * PPM // ratio)

    @property
    def _ratio_below(self) -> int:
        """The billed saving per token removed: old text goes, at the average cost of all text since then."""
        grown = self.raw - self.low_raw
        if not self.low_raw or grown < STEP_TOKENS_MIN:
            return self.ratio
        return min(max((self.billed - self.low_billed) * PPM // grown, RATIO_MIN), RATIO_MAX)

    def learn_from_bill(self, *, raw: int, billed: int) -> Estimator:
        """After a reply: `raw` was the estimate, `billed` is the provider's count. Nonsense is ignored."""
        if raw <= 0 or not RATIO_MIN <= billed * PPM // raw <= RATIO_MAX:
            return self
        if not self.raw:
            # What a first bill is above the estimate is half framing, half text: a guess until it grows.
            ratio = (PPM + billed * PPM // raw) // 2
            return Estimator(raw=raw, billed=billed, ratio=ratio, low_raw=raw, low_billed=billed)
        told = msgspec.structs.replace(self, raw=raw, billed=billed)
        if raw < self.raw or not self.low_raw:
            return msgspec.structs.replace(told, low_raw=raw, low_billed=billed)
        ratio, steps = self.ratio, self.steps
        if raw - self.raw >= STEP_TOKENS_MIN:
            seen = (billed - self.billed) * PPM // (raw - self.raw)
            seen = min(max(seen, RATIO_MIN), RATIO_MAX)
            ratio = seen if steps == 0 else (ratio * 2 + seen) // 3
            steps = min(2, steps + 1)
        return msgspec.structs.replace(told, ratio=ratio, steps=steps)


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
"""Failures that no other summary could help against."""


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
    report = find_lost(_text_of_block(block, texts), kept=[summary, *wish.kept])
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
        lost=count(report),
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
