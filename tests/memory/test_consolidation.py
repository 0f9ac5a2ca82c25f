"""Consolidation tidies a memory, loses no fact, never works against a run, and is undone as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from artelier import Kernel
from artelier.errors import Conflict, InvalidRequest
from artelier.log import Store
from artelier.memory import LogMemory, SQLiteMemoryStore
from artelier.memory.consolidation import Loss, consolidate
from artelier.memory.events import MemoryConsolidated
from artelier.memory.index.near_duplicates import Passages, gist_of, say_the_same
from artelier.testing import ManualClock
from tests.kernel.stage import play
from tests.memory.turns import BOOT, BOOT_ECHOES, Fact, facts, turns


async def answered(memory: LogMemory, known: list[Fact]) -> int:
    """How many facts stand among the first five answers to their questions."""
    found = 0
    for fact in known:
        hits = await memory.recall(fact.question, limit=5)
        found += any(fact.value.casefold() in hit.text.casefold() for hit in hits)
    return found


async def contents(memory: LogMemory) -> list[tuple[Any, ...]]:
    return [
        (entry.id, entry.text, entry.importance, entry.tags)
        for entry in await memory.entries.entries(limit=1_000)
    ]


def test_a_thousand_turns_are_halved_and_no_fact_is_lost() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            said = [*turns(), *BOOT_ECHOES]
            for n, text in enumerate(said):
                await memory.remember(text, key=f"turn {n}")
            stored = await contents(memory)

            done = await consolidate(memory, boot_texts=[BOOT])

            left = [text for _, text, _, _ in await contents(memory)]
            assert done.before == len(stored) < len(said)
            assert done.after == len(left) <= len(stored) / 2
            assert await answered(memory, facts()) >= 95
            assert done.boot == len(BOOT_ECHOES)
            assert not set(left) & set(BOOT_ECHOES)

            assert done.change_id is not None
            await memory.undo(done.change_id, key="undo")
            assert await contents(memory) == stored
            assert kernel.verify().ok

    play(scenario(), within_s=60)


def test_a_second_consolidation_finds_nothing_more_to_do() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            for n, text in enumerate(turns()[:400]):
                await memory.remember(text, key=f"turn {n}")
            await consolidate(memory)
            settled = await contents(memory)

            again = await consolidate(memory)

            assert again.change_id is None
            assert await contents(memory) == settled

    play(scenario())


def test_what_compaction_would_lose_is_promoted_once() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.remember("The invoice INV-7731 is settled", key="1")
            losses = [
                Loss(text="Ticket OPS-4410 blocks the release", source="run r1, message 12"),
                Loss(text="ops-4410 ticket", source="run r1"),
                Loss(text="INV-7731", source="run r1"),
                Loss(text="Never reveal the internal pricing model to customers"),
            ]

            done = await consolidate(memory, losses=losses, boot_texts=[BOOT])

            assert (done.promoted, done.known, done.refused) == (2, 1, 1)
            found = (await memory.recall("What blocks the release?"))[0]
            assert found.text == "Ticket OPS-4410 blocks the release"
            assert found.tags == ("from:run r1, message 12",)
            assert found.trust == "untrusted"
            assert done.change_id is not None
            await memory.undo(done.change_id, key="undo")
            assert len(await contents(memory)) == 1

    play(scenario())


def test_nothing_is_consolidated_during_a_turn_of_the_same_agent() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("default", "ana")
            await memory.remember("Nadia likes tea", key="1")
            await memory.remember("As I said, Nadia likes tea", key="2")

            async with kernel.run("turn", agent="ana") as run:
                during = await consolidate(memory)
                run.finish()
            async with kernel.run("other", agent="bob") as run:
                meanwhile = await consolidate(memory)
                run.finish()

            assert "turn" in during.skipped and during.change_id is None
            assert meanwhile.merged == 1 and not meanwhile.skipped

    play(scenario())


def test_a_memory_in_a_file_of_its_own_is_left_alone_while_its_agent_works(tmp_path: Path) -> None:
    async def scenario() -> None:
        with (
            Kernel.open(tmp_path / "runs.db") as kernel,
            SQLiteMemoryStore(tmp_path / "memory.db") as memories,
        ):
            memory = memories.for_agent("default", "ana")
            await memory.remember("Nadia likes tea", key="1")
            await memory.remember("As I said, Nadia likes tea", key="2")

            with pytest.raises(InvalidRequest, match="file of its own") as blind:
                await consolidate(memory)
            async with kernel.run("turn", agent="ana") as run:
                during = await consolidate(memory, runs=kernel.store)
                run.finish()
            after = await consolidate(memory, runs=kernel.store)

            assert "runs=" in str(blind.value.hint) and "anyway" in str(blind.value.hint)
            assert "turn" in during.skipped and during.change_id is None
            assert after.merged == 1
            await memory.remember("Omar likes coffee", key="3")
            await memory.remember("By the way, Omar likes coffee", key="4")
            assert (await consolidate(memory, anyway=True)).merged == 1

    play(scenario())


def test_a_run_that_begins_during_a_consolidation_stops_it(tmp_path: Path) -> None:
    """The store of runs is asked a second time, right before the change."""

    async def scenario() -> None:
        with (
            Kernel.open(tmp_path / "runs.db") as kernel,
            SQLiteMemoryStore(tmp_path / "memory.db") as memories,
        ):
            memory = memories.for_agent("default", "ana")
            await memory.remember("Nadia likes tea", key="1")
            await memory.remember("As I said, Nadia likes tea", key="2")
            run = kernel.run("turn", agent="ana")

            class Asked:
                """The runs; one of them begins once it was asked for the first time."""

                times = 0

                async def query(self, sql: str, values: Sequence[Any] = ()) -> Any:
                    rows = await kernel.store.query(sql, values)
                    self.times += 1
                    if self.times == 1:
                        await run.__aenter__()
                    return rows

            done = await consolidate(memory, runs=cast(Store, Asked()))

            assert "turn" in done.skipped and done.change_id is None
            assert len(await contents(memory)) == 2
            await run.__aexit__(None, None, None)

    play(scenario())


def test_a_key_names_the_state_of_the_memory_and_not_its_place_in_a_store() -> None:
    async def key_of(before: int) -> str | None:
        with Kernel.open(":memory:") as kernel:
            for n in range(before):
                await kernel.memory.for_agent("default", "bob").remember(f"Fact {n}", key=str(n))
            memory = kernel.memory.for_agent("default", "ana")
            await memory.remember("Nadia likes tea", key="1")
            await memory.remember("As I said, Nadia likes tea", key="2")
            done = await consolidate(memory)
            assert done.change_id is not None
            stored = await kernel.store.read(memory.scope.stream, after=done.change_id - 1, limit=1)
            event = stored[0].decode()
            assert isinstance(event, MemoryConsolidated)
            return event.key

    async def scenario() -> None:
        first = await key_of(0)
        assert first and first == await key_of(5)

    play(scenario())


def test_a_crashed_run_holds_consolidation_up_only_until_its_lease_ends() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        with Kernel.open(":memory:", clock=clock) as kernel:
            memory = kernel.memory.for_agent("default", "ana")
            await memory.remember("Nadia likes tea", key="1")
            await memory.remember("As I said, Nadia likes tea", key="2")
            opened = kernel.run("crashed", agent="ana")
            await opened.__aenter__()

            before = await consolidate(memory)
            clock.advance(31)
            after = await consolidate(memory)

            assert before.skipped and after.merged == 1
            await opened.__aexit__(None, None, None)

    play(scenario())


def test_a_consolidation_under_one_key_is_done_once() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.remember("Nadia likes tea", key="1")
            await memory.remember("As I said, Nadia likes tea", key="2")
            first = await consolidate(memory, key="nightly")
            await memory.remember("Reminder: Omar likes coffee", key="3")
            await memory.remember("By the way, Omar likes coffee", key="4")

            again = await consolidate(memory, key="nightly")

            assert again.change_id == first.change_id and again.merged == 1
            assert len(await contents(memory)) == 3
            with pytest.raises(Conflict):
                await memory.append("other", key="nightly")

    play(scenario())


def test_a_small_memory_of_talk_is_left_alone() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            for n, what in enumerate(("tea", "long walks", "dark mode", "short answers")):
                await memory.remember(f"the user prefers {what}", key=str(n))

            done = await consolidate(memory)

            assert done.change_id is None and done.after == 4
            with pytest.raises(InvalidRequest):
                await consolidate(memory, target=0)

    play(scenario())


def test_an_empty_memory_is_consolidated_to_nothing() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")

            assert (await consolidate(memory)).change_id is None
            assert (await consolidate(memory, losses=[Loss(text="Key K-91")])).promoted == 1
            assert [hit.text for hit in await memory.recall("K-91")] == ["Key K-91"]

    play(scenario())


def test_what_is_kept_loses_neither_tags_nor_trust_nor_speaker() -> None:
    async def scenario() -> None:
        with Kernel.open(":memory:") as kernel:
            memory = kernel.memory.for_agent("acme", "ana")
            remember = memory.remember
            await remember("Nadia likes tea", trust="untrusted", key="1")
            trusted = await remember("As I said, Nadia likes tea", key="2")
            await remember("Omar likes coffee", key="3")
            tagged = await remember("Again: Omar likes coffee", tags=["drinks"], key="4")
            await remember("I like juice", speaker="Al", key="5")
            await remember("I said I like juice", speaker="Bo", key="6")

            await consolidate(memory)

            left = {entry.id: entry for entry in await memory.entries.entries()}
            assert left[trusted.id].trust == "trusted"
            assert left[tagged.id].tags == ("drinks",)
            assert sorted(e.speaker for e in left.values() if "juice" in e.text) == ["Al", "Bo"]
            assert len(left) == 4
            assert left[trusted.id].importance > 0.5

    play(scenario())


SAME = (
    ("Nadia's locker code is 4471", "as i said earlier: the locker code for Nadia is 4471"),
    ("The meeting with Omar is on Friday", "REMINDER, meeting with Omar on Friday!"),
    ("The customer complained about delivery", "The customer complained about delviery"),
)
OTHER = (
    ("Al owes Bo ten euros", "Bo owes Al ten euros"),
    ("Room 101 is free", "Room 102 is free"),
    ("Set A to 5 and B to 7", "Set A to 7 and B to 5"),
    ("The door is locked", "The door is not locked"),
    ("It works", "It doesn't work"),
    ("The wall of the house is blue", "The wall of the house is green"),
    ("Martin likes tea", "Marvin likes tea"),
    ("Nadia likes tea", "Nadia's sister likes tea"),
    ("Version 1.2 is out", "Version 1.3 is out"),
    ("Contact Bo", "Contract Bo"),
)


@pytest.mark.parametrize(("one", "two"), SAME)
def test_framing_and_misspelling_make_no_other_fact(one: str, two: str) -> None:
    a, b = gist_of(one), gist_of(two)
    frequency = dict.fromkeys((*a.terms, *b.terms), 1)

    assert say_the_same(a, b, frequency) and say_the_same(b, a, frequency)


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_facts_that_differ_are_never_merged(one: str, two: str) -> None:
    a, b = gist_of(one), gist_of(two)
    frequency = dict.fromkeys((*a.terms, *b.terms), 2)

    assert not say_the_same(a, b, frequency) and not say_the_same(b, a, frequency)


def test_boot_text_is_known_again_in_other_words_and_a_fact_is_not() -> None:
    boot = Passages([BOOT])

    assert all(boot.hold(gist_of(echo)) for echo in BOOT_ECHOES)
    for fact in (
        "The senior data analyst of the finance team is Ingrid",
        "The user asked for a chart of revenue of 2025",
        "Customers complain about the pricing",
        "headline",
    ):
        assert not boot.hold(gist_of(fact)), fact
