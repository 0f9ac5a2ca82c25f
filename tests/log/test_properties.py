"""The log against a plain model: whatever is appended, refused, reopened, it holds and verifies."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from artelier.errors import ArtelierError, InvalidArguments, SequenceConflict
from artelier.log import GENESIS, Batch, Event, Receipt, SqliteStore, StreamAppend, verify_store, writer
from artelier.testing.conformance.stage import noted_draft, settle_all, stream
from artelier.testing.conformance.view import TALLY

STREAMS = [
    stream("run:a"),
    stream("run:b"),
    stream("run:a", tenant="other"),
    stream("run:a", space="world:w"),
]

parts = st.tuples(
    st.integers(0, len(STREAMS) - 1),
    st.lists(st.integers(-3, 5), max_size=3),
    st.sampled_from(["any", "right", "stale", "ahead"]),
)
batches = st.lists(parts, min_size=1, max_size=3)


class LogMachine(RuleBasedStateMachine):
    """Two openers of one file take turns; the model knows each stream as a list of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "state.db"
        self.loop = asyncio.new_event_loop()
        self.stores = [self.open(), self.open()]
        self.model: list[list[int]] = [[] for _ in STREAMS]
        self.roots: list[str] = []

    def open(self) -> SqliteStore:
        return SqliteStore(self.path, (TALLY,))

    @rule(group=st.lists(batches, min_size=1, max_size=4), opener=st.integers(0, 1))
    def append(self, group: list[list[tuple[int, list[int], str]]], opener: int) -> None:
        """A group of batches, queued next to each other: each decided alone, in order."""
        planned, expected = [], []
        for parts_ in group:
            batch, refusal = self.plan(parts_)
            planned.append(batch)
            expected.append(refusal)

        async def submit() -> list[Receipt | ArtelierError]:
            return await settle_all(self.stores[opener].submit_all(planned))

        results = self.loop.run_until_complete(submit())
        for result, refusal in zip(results, expected, strict=True):
            assert isinstance(result, refusal or Receipt), result

    def plan(self, parts_: list[tuple[int, list[int], str]]) -> tuple[Batch, type[ArtelierError] | None]:
        """A batch and what must become of it; the model moves on if it must succeed."""
        after, appends = [list(numbers) for numbers in self.model], []
        refusal: type[ArtelierError] | None = None
        for index, numbers, expectation in parts_:
            head = len(after[index])
            seq = {"any": None, "right": head, "stale": head - 1, "ahead": head + 1}[expectation]
            appends.append(StreamAppend(STREAMS[index], tuple(map(noted_draft, numbers)), seq))
            if refusal is None and expectation in ("stale", "ahead"):
                refusal = SequenceConflict
            for number in numbers:
                # The view's key is tenant and local name: a world's stream shares it with main's.
                shared = (0, 3) if index in (0, 3) else (index,)
                if refusal is None and sum(sum(after[i]) for i in shared) + number < 0:
                    refusal = InvalidArguments
                after[index].append(number)
        if refusal is None:
            self.model = after
        return Batch(appends=appends), refusal

    @rule(opener=st.integers(0, 1))
    def reopen(self, opener: int) -> None:
        self.stores[opener].close()
        self.stores[opener] = self.open()

    @rule()
    def note_the_head(self) -> None:
        self.roots.append(self.loop.run_until_complete(self.stores[0].root())[1].hex())

    @invariant()
    def both_openers_read_what_the_model_holds(self) -> None:
        for store in self.stores:
            events = self.loop.run_until_complete(store.read_all(limit=10_000))
            assert [event.position for event in events] == list(range(1, len(events) + 1))
            for index, numbers in enumerate(self.model):
                history = [event for event in events if event.stream == STREAMS[index]]
                self.check_stream(history, numbers)
            self.check_pages(store, events)

    def check_pages(self, store: SqliteStore, events: list[Event]) -> None:
        """A tenant's pages, whatever of them is listed, are its events and no others."""
        for tenant in ("acme", "other", "nobody"):
            for after in (0, len(events) // 2):
                read = store.read_all(after=after, limit=7, tenant=tenant)
                own = [event for event in events if event.stream.tenant == tenant and event.position > after]
                assert self.loop.run_until_complete(read) == own[:7]

    def check_stream(self, history: list[Event], numbers: list[int]) -> None:
        assert [event.plain().get("number", 0) for event in history] == numbers
        assert [event.seq for event in history] == list(range(1, len(history) + 1))
        before = [GENESIS, *(event.hash for event in history)]
        assert [event.prev_hash for event in history] == before[: len(history)]

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self.loop.close()
        reports = [verify_store(self.path, (TALLY,), head=head) for head in [*self.roots[-2:], None]]
        self.folder.cleanup()
        assert all(report.findings == [] for report in reports), reports
        assert reports[-1].events == sum(map(len, self.model))


@pytest.fixture(autouse=True, scope="module")
def lists_early() -> Iterator[None]:
    """Logs of a few dozen events list whose they are, as stores do every few hundred."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "LIST_EVERY", 5)
        yield


TestLog = LogMachine.TestCase
TestLog.settings = settings(stateful_step_count=12)
