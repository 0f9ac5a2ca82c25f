"""An append-only conversation of a run: numbered messages, each stored once, however many prompts show it."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate
from typing import Any, Protocol

from artelier.errors import InvalidRequest, RunEnded
from artelier.kernel.events import Added, MessageEntry
from artelier.kernel.prompt.manifest import (
    RangePart,
    comparable,
    decode_message,
    encode_json,
    message_of_reply,
    message_of_result,
)
from artelier.kernel.prompt.request import MessageMeter
from artelier.kernel.run.status import ModelResult, ToolResult
from artelier.log import Blob, BlobRef
from artelier.ports.media import has_media, media_in
from artelier.ports.model import ChatMessage, message_from, reasoning_text
from artelier.tokens import estimate_tokens
from artelier.tokens.estimate import estimate_media_tokens

MESSAGE_TOKENS = 4
"""What a chat template adds to each message, about (OpenAI's cookbook counts 3 or 4)."""


def message_tokens(message: ChatMessage) -> int:
    """About how many tokens a message has in a prompt, its tool calls included."""
    tokens = MESSAGE_TOKENS + estimate_tokens(message.text) + estimate_tokens(reasoning_text(message.content))
    if has_media(message):
        tokens += sum(map(estimate_media_tokens, media_in((message,))))
    for call in message.tool_calls:
        tokens += MESSAGE_TOKENS + estimate_tokens(comparable(call.arguments)) + len(call.name) // 4
    return tokens


class Keep(Protocol):
    """Makes content into a blob that rides with the next batch; None if it is stored already."""

    def __call__(self, content: bytes, /) -> tuple[BlobRef, Blob | None]: ...


class Cleaner(Protocol):
    """Gives content as a run sees it; `foreign` content comes from outside."""

    def __call__(self, content: bytes, /, *, foreign: bool = False) -> bytes: ...


def _gone(name: str) -> RunEnded:
    return RunEnded(
        f"the run of conversation {name!r} is gone",
        expected="a run that is held, by `async with` or a variable, while its conversation grows",
    )


class Conversation:
    """Append messages and step results; hand it to `step_model` as `messages`.

    Cost: O(1) per message; a prompt costs what it shows (`tail(n)` shows the last n).
    """

    def __init__(
        self,
        name: str,
        *,
        keep: Keep,
        grown: Callable[[Conversation], None] = lambda _: None,
        clean: Cleaner | None = None,
        prepare: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> None:
        """`grown` is told of the first message since `take_new`; `clean` is asked about every message, and
        `prepare` before it by `add`.

        Errors: `InvalidRequest` for a name that `clean` would change: it stands in events.
        """
        if clean is not None and clean(encode_json(name)) != encode_json(name):
            raise InvalidRequest(
                "the name of a conversation holds personal data",
                expected="a name that tells nothing of a person",
            )
        self.name = name
        self.is_settled = False
        """Whether no request that was broken off before a resume has numbered other messages here."""
        self._keep = keep
        self._clean = clean
        self._prepare = prepare
        self._unfit: InvalidRequest | None = None
        """Why it cannot be part of a new request; recorded messages may hold NaN as null."""
        self._grown = grown
        self._first = 1
        """Number of the first message held in memory; earlier ones are only in the store."""
        self._messages: list[ChatMessage] = []
        self._tokens = array("q", (0,))
        """Estimate of the messages held up to each; the first entry stands for those before."""
        self._meter = MessageMeter()
        """Of the messages held, as far as they were shown."""
        self._new: list[tuple[MessageEntry, Blob | None]] = []
        self._taken: list[tuple[MessageEntry, Blob | None]] = []
        """What was new until it was taken last."""
        self._base: tuple[int, MessageEntry] | None = None
        """Number of the last message that another conversation has, and the entry that says so."""
        self._digest = sha256(name.encode())
        self._digested = 0

    def __len__(self) -> int:
        return self._first - 1 + len(self._messages)

    def append(
        self, item: ChatMessage | Mapping[str, Any] | ModelResult | ToolResult, *, is_recorded: bool = False
    ) -> None:
        """Add a message, a model's reply or a tool's result.

        `is_recorded`: the message stands in this run's log like that, and is not looked into for personal
        data once more. Errors: `InvalidRequest` for anything else; `RunEnded` if nobody holds the run.
        """
        try:
            self._append(item, is_recorded=is_recorded)
        except ReferenceError:
            raise _gone(self.name) from None

    def _append(
        self, item: ChatMessage | Mapping[str, Any] | ModelResult | ToolResult, *, is_recorded: bool
    ) -> None:
        if isinstance(item, ModelResult):
            if item.reply is None or not item.key:
                raise InvalidRequest("a result that no step produced cannot be appended")
            message, entry, blob = message_of_reply(item.reply), MessageEntry("r", item.key), None
        elif isinstance(item, ToolResult):
            call = item.call_id or item.key
            message = message_of_result(item.shown or item.content, call)
            if item.shown is None:
                entry, blob = MessageEntry("t", item.key, call), None
            else:
                ref, blob = self._keep(message.canonical())
                entry = MessageEntry("m", ref)
        else:
            message = message_from(item)
            content = comparable(message)
            if message.tool_calls:  # whose arguments alone can hold numbers
                self._check(message)
            if self._clean is not None and not is_recorded:
                content = self._clean(content, foreign=True)
                message = decode_message(content)
            ref, blob = self._keep(content)
            entry = MessageEntry("m", ref)
        self._hold(message)
        self._remember(entry, blob)

    async def add(self, item: ChatMessage | Mapping[str, Any], *, is_recorded: bool = False) -> None:
        """Add a message like `append`; a long one is searched for personal data off the event loop first.

        Errors: those of `append`, and of the search.
        """
        message = message_from(item)
        if self._prepare is not None and not is_recorded:
            try:
                await self._prepare(comparable(message))
            except ReferenceError:
                raise _gone(self.name) from None
        self.append(message, is_recorded=is_recorded)

    def _check(self, message: ChatMessage) -> None:
        try:
            encode_json(message)
        except InvalidRequest as error:
            self._unfit = error

    def check(self) -> None:
        """Errors: `InvalidRequest` if a message holds what JSON cannot, and so must not be recorded."""
        if self._unfit is not None:
            raise self._unfit

    def _hold(self, message: ChatMessage) -> None:
        self._messages.append(message)
        self._tokens.append(self._tokens[-1] + message_tokens(message))

    def _remember(self, entry: MessageEntry, blob: Blob | None) -> None:
        if not self._new:
            self._grown(self)
        self._new.append((entry, blob))

    def restore(self, first: int, messages: list[ChatMessage]) -> None:
        """Hold stored messages from number `first` on in memory (resume of a built-in loop)."""
        assert not self._new, "restore before the first append"
        self._first = first
        self._messages, self._tokens, self._meter = [], array("q", (0,)), MessageMeter()
        for message in messages:
            self._hold(message)

    def go_on(self, base: MessageEntry, upto: int, messages: list[ChatMessage]) -> None:
        """Begin after message `upto` of another conversation, of which the last `messages` are held.

        Errors: `InvalidRequest` if something stands here already.
        """
        if len(self) or self._new:
            raise InvalidRequest(
                f"conversation {self.name!r} has begun",
                got=f"{len(self)} messages",
                hint="What it goes on from is said before its first message.",
            )
        self.restore(upto - len(messages) + 1, messages)
        self._base = (upto, base)
        self._remember(base, None)

    def forget_before(self, first: int) -> None:
        """Let go of recorded messages below `first`; they stay in the store."""
        count = min(first, self.first_new) - self._first
        if count > 0:
            self._digested = max(0, self._digested - count)
            del self._messages[:count], self._tokens[:count]
            self._meter.drop(min(count, len(self._meter)))
            self._first += count

    def recall(self, messages: list[ChatMessage]) -> None:
        """Hold the stored messages just before the first one again."""
        self._digest, self._digested = sha256(self.name.encode()), 0
        self._messages[:0] = messages
        self._meter = MessageMeter()
        sums = array("q", accumulate(map(message_tokens, messages), initial=0))
        self._tokens = sums + array("q", [sums[-1] + tokens - self._tokens[0] for tokens in self._tokens[1:]])
        self._first -= len(messages)

    def tokens(self, start: int, end: int) -> int:
        """About how many tokens messages `start..end` have, those that are held."""
        first, stop = (
            min(max(0, n), len(self._messages)) for n in (start - self._first, end - self._first + 1)
        )
        return self._tokens[max(first, stop)] - self._tokens[first]

    @property
    def digest(self) -> str:
        """Running SHA-256 over the messages held in memory, hex; equal conversations have equal digests."""
        for message in self._messages[self._digested :]:
            self._digest.update(message.canonical())
        self._digested = len(self._messages)
        return self._digest.copy().hexdigest()

    def tail(self, count: int) -> RangePart:
        """The last `count` messages (all, if there are fewer), as a part of a prompt."""
        return self.range(max(1, len(self) - count + 1), len(self))

    def all(self) -> RangePart:
        return self.range(1, len(self))

    def range(self, start: int, end: int, *, tag: str = "conversation") -> RangePart:
        """Messages `start..end`, inclusive, from 1. Errors: `InvalidRequest` if they are not in memory."""
        if not self._first <= start <= end <= len(self):
            raise InvalidRequest(
                f"conversation {self.name!r} cannot show this range",
                expected=f"numbers within {self._first}..{len(self)}",
                got=f"{start}..{end}",
            )
        first, stop = start - self._first, end - self._first + 1
        self._meter.add(self._messages[len(self._meter) : stop])
        messages = tuple(self._messages[first:stop])
        return RangePart(
            tag=tag,
            conversation=self.name,
            start=start,
            end=end,
            messages=messages,
            tokens=self.tokens(start, end),
            measure=self._meter.measure(first, stop)._replace(messages=messages),
        )

    def align_range(self, start: int, end: int) -> RangePart:
        """Like `range`, beginning at or after `start` with a message that answers no earlier one.

        A tool's result without the call that it answers would be refused by providers.
        """
        start = max(start, self._first)
        while start < end and self._messages[start - self._first].role == "tool":
            start += 1
        return self.range(start, end)

    def messages(self, start: int, end: int) -> list[ChatMessage]:
        return self._messages[start - self._first : end - self._first + 1]

    def take_new(self) -> tuple[Added, list[Blob]] | None:
        """Return what was appended since the last request, to be recorded with the next one."""
        if not self._new:
            return None
        entries = tuple(entry for entry, _ in self._new)
        blobs = [blob for _, blob in self._new if blob is not None]
        self._taken, self._new = self._new, []
        return Added(self.name, len(self) - len(entries) + 1, entries), blobs

    def untake(self) -> None:
        """Mark what was taken last as new again, because it was not recorded."""
        self._new, self._taken = [*self._taken, *self._new], []

    def rebase(self) -> None:
        """Continue under a new name, because the record under this one differs from what stands here."""
        base, _, generation = self.name.partition("~")
        self.name = f"{base}~{int(generation or 1) + 1}"
        self.is_settled = False
        self._new = []
        own = self._messages
        if self._base is not None and self._first <= self._base[0] + 1:
            upto, base = self._base
            self._remember(base, None)
            own = own[upto + 1 - self._first :]
        for message in own:
            ref, blob = self._keep(message.canonical())
            self._remember(MessageEntry("m", ref), blob)

    @property
    def first(self) -> int:
        """Number of the first message held in memory."""
        return self._first

    @property
    def first_new(self) -> int:
        """Number of the first message that no request has recorded yet.

        What a conversation goes on from counts as its newest message there.
        """
        return len(self) - len(self._new) + 1

    def skip_recorded(self, entries: Sequence[MessageEntry]) -> bool:
        """Leave out new messages that are recorded already, from `first_new` on.

        False, and nothing left out, if `entries` are not what stands here.
        """
        if any(old != new for old, (new, _) in zip(entries, self._new, strict=False)):
            return False
        self._new = self._new[len(entries) :]
        return True


LISTS_MAX = 16
"""Plain lists that a run is known to be growing at once: agents that take turns, branches."""

STARTS_MAX = 64
"""Places tried for the start of a window whose first message occurs several times."""


class _KnownList:
    """A conversation that holds a plain list, and the list's messages as canonical JSON."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._known: list[bytes] = []
        self._places: dict[bytes, list[int]] = {}
        self._last = 0

    def start_of(self, contents: list[bytes]) -> int | None:
        """Return where a list begins that ends with all we know or goes on from there; None if it does
        not.
        """
        if not contents:
            return None
        places = self._places.get(contents[0], ())
        # A list that only grew begins where it did before, and a window moves on from there.
        later = [place for place in places if place >= self._last]
        earlier = [place for place in places if place < self._last]
        for start in (later + earlier)[:STARTS_MAX]:
            count = len(self._known) - start
            if count <= len(contents) and self._known[start:] == contents[:count]:
                self._last = start
                return start
        return None

    def grow(self, start: int, messages: tuple[ChatMessage, ...], contents: list[bytes]) -> RangePart:
        count = len(self._known) - start
        for message, content in zip(messages[count:], contents[count:], strict=True):
            self._places.setdefault(content, []).append(len(self._known))
            self._known.append(content)
            self.conversation.append(message)
        first = self.conversation.first + start
        return self.conversation.range(first, first + len(messages) - 1)


class PlainLists:
    """Messages handed over as plain lists: finds what is already stored, so that only news is written.

    Cost: O(n) per request in the length of the list; a conversation handle costs O(1).
    """

    def __init__(self, make: Callable[[str], Conversation]) -> None:
        self._make = make
        self._lists: list[_KnownList] = []
        """The one used last stands last."""

    @property
    def conversations(self) -> list[Conversation]:
        return [known.conversation for known in self._lists]

    def part(self, messages: tuple[ChatMessage, ...], *, step: str) -> RangePart:
        """The list as a range of a conversation that holds it; a new one is named after the step."""
        contents = [comparable(message) for message in messages]
        for index in range(len(self._lists) - 1, -1, -1):
            known = self._lists[index]
            start = known.start_of(contents)
            if start is not None:
                self._lists.append(self._lists.pop(index))
                return known.grow(start, messages, contents)
        known = _KnownList(self._make(step))
        self._lists = [*self._lists[1 - LISTS_MAX :], known]
        return known.grow(0, messages, contents)
