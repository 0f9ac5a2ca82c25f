"""Search over all messages of an agent's runs, those that compaction took out of its prompts included.

The words are kept in this process, bounded, and grow with what was recorded since the last search. The log
is the truth: nothing here is stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from artelier.errors import CorruptStore, InvalidRequest, NotFound
from artelier.kernel.prompt.manifest import decode_message, decode_reply, message_of_reply, message_of_result
from artelier.kernel.queries.content import conversation_names, messages_after
from artelier.kernel.queries.steps import find_outcome
from artelier.kernel.queries.tenants import origin_before, spoken_runs
from artelier.log import Store, blob_name
from artelier.memory.entries import check_query
from artelier.memory.index.tokenizer import terms
from artelier.memory.memory_handle import EVERYBODYS, Sight
from artelier.ports.model import ChatMessage

if TYPE_CHECKING:
    from artelier.memory.index.memory_index import MemoryIndex


# --------------------------------------------------------------------------- transcript
# The transcript of a run: messages from the log's rows, read from the store alone, with no run open.


PAGE = 1_000
CONVERSATIONS_MAX = 200
"""Of one run."""


class Transcript:
    """Reads the conversations of one tenant's runs, which are named by their row."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    async def conversations(self, row_id: int) -> list[str]:
        """Their names, each by one look into the index."""
        return await conversation_names(self._store, row_id, limit=CONVERSATIONS_MAX)

    async def messages(
        self, row_id: int, conversation: str, *, after: int = 0, upto: int = 1 << 62
    ) -> AsyncIterator[tuple[int, ChatMessage | None]]:
        """Messages with `after < n <= upto`, with their numbers; None for one whose content is gone."""
        while True:
            rows = await messages_after(self._store, row_id, conversation, after=after, upto=upto, limit=PAGE)
            for n, form, ref, call in rows:
                after = n
                yield n, await self._message(row_id, form, ref, call)
            if len(rows) < PAGE:
                return

    async def value(self, ref: str | None, role: Literal["user", "assistant"]) -> ChatMessage | None:
        """The task or the result of a run as a message."""
        if ref is None:
            return None
        try:
            value: object = msgspec.json.decode(await self._blob(ref))
        except (NotFound, msgspec.DecodeError):
            return None
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return ChatMessage(role=role, content=text)

    async def _message(self, row_id: int, form: str, ref: str, call: str) -> ChatMessage | None:
        """A message by its entry; None if its content was erased or its outcome was never recorded."""
        try:
            if form == "m":
                return decode_message(await self._blob(ref))
            content = await self._outcome(row_id, ref)
            if content is None:
                return None
            return (
                message_of_reply(decode_reply(content)) if form == "r" else message_of_result(content, call)
            )
        except (NotFound, CorruptStore):
            return None

    async def _outcome(self, row_id: int, key: str) -> bytes | None:
        """Recorded reply or result of a step; of the origin's, if this run was forked after it."""
        while True:
            if (outcome := await find_outcome(self._store, row_id, key, upto=1 << 62)) is not None:
                data = msgspec.json.decode(outcome.data)
                ref = data.get("reply") or data.get("result")
                return None if ref is None else await self._blob(ref)
            origin = await origin_before(self._store, row_id)
            if origin is None:
                return None
            row_id = origin

    async def _blob(self, ref: str) -> bytes:
        return await self._store.blob(self._tenant, blob_name(ref))


# --------------------------------------------------------------------------- message history


RUNS_MAX = 500
"""Newest runs of an agent that are searched."""
MESSAGES_MAX = 20_000
"""Newest messages held; the oldest make room."""
MESSAGE_CHARS_MAX = 20_000
"""Of one message, its head is searched (guess: a large tool result is an artifact anyway)."""
LIMIT_MAX = 100
SPARE = 4
"""Hits asked of the index for each that is wanted: some are neighbours only."""
GOAL = "(task)"
RESULT = "(result)"
"""Stand for a conversation: what a run was asked, and what it gave."""
ENDED = ("completed", "failed", "cancelled")
LOOKING = frozenset(("history_search", "recall", "core_memory_search"))
"""Tools whose calls and answers would only repeat the questions asked of memory."""
SHOWN_CHARS = 600
"""Of a message in a hit."""


class FoundMessage(NamedTuple):
    """A message that was found."""

    run_id: str
    conversation: str
    n: int
    """Its number in that conversation, from 1."""
    role: str
    text: str
    """The message, or the stretch of it that answers best."""
    score: float


class _HistoryRow(NamedTuple):
    run_id: str
    conversation: str
    n: int
    role: str
    text: str


class AgentHistory:
    """The messages in the runs of one agent."""

    def __init__(self, store: Store, tenant: str, agent: str, *, sight: Sight = EVERYBODYS) -> None:
        self.store = store
        self._sight = sight
        self._transcript = Transcript(store, tenant)
        self._tenant = tenant
        self._agent = agent
        self._erasures = store.erasures()
        self._begin()

    def _begin(self) -> None:
        from artelier.memory.index.memory_index import MemoryIndex

        self._index: MemoryIndex = MemoryIndex()
        self._messages: dict[str, _HistoryRow] = {}
        self._order: deque[str] = deque()
        self._read: dict[int, tuple[tuple[Any, ...], dict[str, int]]] = {}
        """By run: the state in which it was read, and the last number of each conversation."""
        self._lookups: set[str] = set()
        """Ids of calls that only looked something up: what they found is said elsewhere."""
        self._head = -1

    async def search(self, query: str, limit: int = 10) -> list[FoundMessage]:
        """The messages that answer best, best first.

        Errors: `InvalidRequest` for a limit beyond 100 or an empty query.
        Cost:   what was recorded since the last search, and one search of the index.
        """
        check_query(query)
        if not 1 <= limit <= LIMIT_MAX:
            raise InvalidRequest("limit", expected=f"1 to {LIMIT_MAX}", got=limit)
        await self._catch_up()
        found: list[FoundMessage] = []
        seen: set[tuple[str, str, str]] = set()
        for name, score in self._hits(query, limit):
            message = self._messages[name]
            if (message.run_id, message.role, message.text) in seen or len(found) == limit:
                continue  # a conversation that was numbered anew holds the same messages again
            seen.add((message.run_id, message.role, message.text))
            text = excerpt(message.text, query)
            found.append(
                FoundMessage(message.run_id, message.conversation, message.n, message.role, text, score)
            )
        return found

    def _hits(self, query: str, limit: int) -> list[tuple[str, float]]:
        """Messages that hold a word of the query themselves; if none do, those that hold it as it is."""
        wanted = set(terms(query))
        hits = [
            (hit.id, round(hit.score, 6))
            for hit in self._index.search(query, limit=SPARE * limit)
            if not wanted.isdisjoint(terms(self._messages[hit.id].text))
        ]
        if not hits:
            said = " ".join(query.casefold().split())
            newest = (name for name in reversed(self._order) if said in self._fold_text(name))
            hits = [(name, 0.0) for name, _ in zip(newest, range(SPARE * limit), strict=False)]
        return hits

    def _fold_text(self, name: str) -> str:
        return " ".join(self._messages[name].text.casefold().split())

    async def _catch_up(self) -> None:
        if self._erasures != (erasures := self.store.erasures()):
            self._erasures = erasures
            self._begin()
        head, _root = await self.store.root()
        if head == self._head:
            return
        subject = None if self._sight == EVERYBODYS else self._sight
        rows = await spoken_runs(self.store, self._tenant, self._agent, subject=subject, limit=RUNS_MAX)
        for row_id, run_id, goal, result, *state in reversed(rows):
            known, numbers = self._read.get(row_id, ((), {}))
            has_ended = state[0] in ENDED
            if known == tuple(state) and has_ended:
                continue  # one at work may have said more without a finished model step
            if not known:
                self._add(run_id, GOAL, 1, await self._transcript.value(goal, "user"))
            await self._read_run(row_id, run_id, numbers)
            if has_ended:
                self._add(run_id, RESULT, 1, await self._transcript.value(result, "assistant"))
            self._read[row_id] = (tuple(state), numbers)
        self._read = {row[0]: self._read[row[0]] for row in rows}
        self._head = head

    async def _read_run(self, row_id: int, run_id: str, numbers: dict[str, int]) -> None:
        for conversation in await self._transcript.conversations(row_id):
            after = numbers.get(conversation, 0)
            async for n, message in self._transcript.messages(row_id, conversation, after=after):
                if n > numbers.get(conversation, 0):  # else another task was faster
                    numbers[conversation] = n
                    self._add(run_id, conversation, n, message)

    def _add(self, run_id: str, conversation: str, n: int, message: ChatMessage | None) -> None:
        from artelier.memory.index.index_entry import Record

        if message is None or message.role == "system" or message.tool_call_id in self._lookups:
            return
        self._lookups.update(call.id for call in message.tool_calls if call.name in LOOKING)
        text = _words_of(message)[:MESSAGE_CHARS_MAX]
        if not text.strip():
            return
        name = f"{run_id}\n{conversation}\n{n}"
        if name in self._messages:
            return  # another task was faster
        self._index.add(Record(id=name, text=text, speaker=message.role))
        self._messages[name] = _HistoryRow(run_id, conversation, n, message.role, text)
        self._order.append(name)
        while len(self._order) > MESSAGES_MAX:
            oldest = self._order.popleft()
            self._index.remove(oldest)
            del self._messages[oldest]


def _words_of(message: ChatMessage) -> str:
    """Return what a message says, the arguments of its tool calls included."""
    calls = [
        f"{call.name} {msgspec.json.encode(call.arguments).decode()}"
        for call in message.tool_calls
        if call.name not in LOOKING
    ]
    return "\n".join(part for part in (message.text, *calls) if part)


def excerpt(text: str, query: str) -> str:
    """At most 600 characters of a text: from a little before the first word of the query that it holds."""
    if len(text) <= SHOWN_CHARS:
        return text
    lowered = text.lower()
    places = [
        place
        for word in query.lower().split()
        if len(word) > 2 and (place := lowered.find(word.strip(".,;:!?\"'()"))) >= 0
    ]
    start = max(0, min(places, default=0) - SHOWN_CHARS // 4)
    end = min(len(text), start + SHOWN_CHARS)
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"
