"""Large texts: searched in helper processes without keys, in turn among tenants, found as in one piece."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from artelier.app import Kernel, TenantKernel
from artelier.errors import PatternTimeout
from artelier.kernel import Policy
from artelier.kernel.events import RunSuspendedEvent
from artelier.log import Batch, Draft, StreamAppend, run_stream
from artelier.pii.detectors import builtin_detectors, pattern
from artelier.pii.detectors.text_view import ValuePlace
from artelier.pii.hidden_values import places, windows
from artelier.pii.scrubber import DECODED_BYTES
from artelier.pii.scrubber_registry import SLICE_EVENTS
from artelier.pii.search_processes import PiiSearch
from artelier.pii.vault import placeholders_in
from artelier.ports.pii import Detector
from artelier.threads import PlaceTurns
from artelier_lab.pii.corpus import KINDS, values
from tests.server.test_personal import KEY


def corpus(chars: int, seed: int) -> str:
    """Text with a value on every other line, some lines with escapes of JSON."""
    random, lines = Random(seed), list[str]()
    plants = [one.text for kind in KINDS for one in values(kind, count=20)]
    while sum(map(len, lines)) < chars:
        line = random.choice(plants)
        lines.append(line.replace("@", "\\u0040") if random.random() < 0.2 else line)
        lines.append("Nothing of a person stands here; " * random.randrange(12))
    return "\n".join(lines)


async def searched(detectors: list[Detector], text: str) -> tuple[list[ValuePlace], int]:
    search, found = PiiSearch(), list[ValuePlace]()
    async for some in search.places(detectors, text, tenant="acme"):
        found += some
    return found, search.windows


def test_a_large_text_gives_what_one_search_of_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["artelier.pii.detectors.search"]  # its name is a function's in the package
    monkeypatch.setattr(module, "SEARCH_TIME_S", 60.0)  # of the one search here; helpers keep theirs
    detectors = [*builtin_detectors(), pattern("CASE", "here; Noth[a-z]+")]
    text = corpus(700_000, 1)

    found, asked = asyncio.run(searched(detectors, text))

    assert asked == len(list(windows(text))) == 3
    assert found == places(detectors, text)
    assert len(found) > 1_000


@pytest.mark.parametrize("sign", ["4111111111111111 ", "x", "\\", "<", "[", "00 "])
def test_windows_cover_every_text_once(sign: str) -> None:
    text = sign * (40_000 // len(sign))
    parts = list(windows(text, size=4_000, margin=500))

    assert "".join(text[one.start : one.end] for one in parts) == text
    assert all(one.low <= one.start < one.end <= one.high for one in parts)
    assert all(one.high - one.low <= 6_000 for one in parts)


def test_a_match_of_a_pattern_that_is_longer_than_a_window_is_one_value() -> None:
    text = "a b " * 225_000

    found, _ = asyncio.run(searched([pattern("ALL", "[ab ]+")], text))

    assert [(one.start, one.end) for one in found] == [(0, 900_000)]


def test_a_pattern_that_does_not_end_stops_the_text_and_not_the_next_search() -> None:
    async def scenario() -> None:
        search = PiiSearch()
        evil = pattern("EVIL", r"(?:a|aa|aaa)+(?:b|c)+\1d|(a)e")
        with pytest.raises(PatternTimeout):
            async for _ in search.places([evil], ("a" * 900 + "\n") * 50, tenant="acme"):
                pass
        found = [
            one
            async for some in search.places(
                builtin_detectors(), "x " * 20_000 + "ana@example.org", tenant="b"
            )
            for one in some
        ]
        assert [one.normal for one in found] == ["ana@example.org"]

    asyncio.run(scenario())


def test_who_searches_much_waits_behind_others_after_each_window() -> None:
    async def scenario() -> list[str]:
        turns, order = PlaceTurns(1), list[str]()

        async def work(tenant: str) -> None:
            async with turns.turn(tenant):
                order.append(tenant)
                await asyncio.sleep(0)

        greedy = [asyncio.create_task(work("greedy")) for _ in range(6)]
        await asyncio.sleep(0)
        modest = [asyncio.create_task(work(name)) for name in ("modest", "other")]
        cancelled = asyncio.create_task(work("gone"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(*greedy, *modest, cancelled, return_exceptions=True)
        return order

    order = asyncio.run(scenario())
    assert order.index("modest") <= 3
    assert order.index("other") <= 4
    assert order.count("greedy") == 6
    assert "gone" not in order


def test_a_place_that_was_given_to_a_cancelled_task_is_free_again() -> None:
    async def scenario() -> None:
        turns, gate = PlaceTurns(1), asyncio.Event()

        async def hold() -> None:
            async with turns.turn("a"):
                await gate.wait()

        async def wait() -> None:
            async with turns.turn("b"):
                pass

        holder, waiter = asyncio.create_task(hold()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        gate.set()
        await holder  # its place is given to the waiter, which has not run yet
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        async with asyncio.timeout(30), turns.turn("c"):
            pass

    asyncio.run(scenario())


def test_thousands_of_values_are_stored_before_their_text_and_come_back(tmp_path: Path) -> None:
    given = "\n".join(f"user{n}@example.org" for n in range(5_000))

    async def scenario() -> None:
        kernel = Kernel.open(tmp_path / "state.db", policy=Policy(pii=True), environ=KEY)
        try:
            desk = kernel.for_tenant("acme")
            await desk.state()
            await kernel.tenants.update("acme", grants={"pii:restore"})
            written = await desk.as_principal("user:ada").artifacts.write(
                "a/list", kind="document", content=given
            )
            assert len(set(placeholders_in(written.content))) == 5_000
            assert "@" not in written.content
            assert await desk.restored(written.content) == given
            assert kernel.services.personal is not None
            assert kernel.services.personal("acme").vault.count_waiting() < 2_000
            again = await desk.as_principal("user:ada").artifacts.write("a/list", content=given)
            assert again.content == written.content
        finally:
            await kernel.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_file_of_many_pieces_is_read_in_its_encoding_across_their_edges(
    tmp_path: Path, encoding: str
) -> None:
    """Of signs of several bytes, an edge falls into one."""
    text = "x" + "é" * (DECODED_BYTES + 10) + "10 € for ana.lopez@example.org"

    async def scenario() -> bytes:
        async with acme(tmp_path) as desk:
            written = await desk.as_principal("user:ada").artifacts.write(
                "a/file", kind="document", content=text.encode(encoding)
            )
            return written.content

    stored = asyncio.run(scenario())

    assert "ana.lopez" not in stored.decode(encoding)
    assert stored.decode(encoding).startswith(text.removesuffix("ana.lopez@example.org"))


def test_a_file_that_breaks_its_encoding_in_a_late_piece_is_read_as_another_one(tmp_path: Path) -> None:
    content = b"x" * (2 * DECODED_BYTES) + "é ana.lopez@example.org".encode("latin-1")

    async def scenario() -> bytes:
        async with acme(tmp_path) as desk:
            written = await desk.as_principal("user:ada").artifacts.write(
                "a/file", kind="document", content=content
            )
            return written.content

    stored = asyncio.run(scenario())

    assert b"ana.lopez" not in stored
    assert stored.startswith(content[: 2 * DECODED_BYTES + 1])


def test_a_batch_of_many_events_is_looked_at_in_slices_with_turns_of_others_in_between(
    tmp_path: Path,
) -> None:
    events = [
        Draft(
            RunSuspendedEvent(status="waiting", reason=f"reason {n}"),
            1,
            "user:ana.lopez@example.org" if n % 2 else "user:kim",
        )
        for n in range(10 * SLICE_EVENTS)
    ]
    batch = Batch(appends=(StreamAppend(run_stream("acme", "r"), events, 0),))

    async def scenario() -> tuple[int, Batch, Batch]:
        async with acme(tmp_path) as desk:
            names = desk.services.store.names
            assert names is not None
            passes = 0

            async def count() -> None:
                nonlocal passes
                while True:
                    passes += 1
                    await asyncio.sleep(0)

            counting = asyncio.ensure_future(count())
            in_slices = await names.admit_large(batch)
            counting.cancel()
            return passes, in_slices, names.admit(batch)

    passes, in_slices, at_once = asyncio.run(scenario())

    assert passes >= len(events) // SLICE_EVENTS
    assert in_slices.appends == at_once.appends
    assert {draft.actor for draft in in_slices.appends[0].events} != {"user:kim"}
    assert "ana.lopez" not in str(in_slices)
    assert set(in_slices.vault) == set(at_once.vault)


@asynccontextmanager
async def acme(folder: Path) -> AsyncIterator[TenantKernel]:
    """A tenant whose personal data is replaced."""
    kernel = Kernel.open(folder / "state.db", policy=Policy(pii=True), environ=KEY)
    try:
        desk = kernel.for_tenant("acme")
        await desk.state()
        yield desk
    finally:
        await kernel.aclose()
