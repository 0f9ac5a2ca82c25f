"""What others say at length is searched in a helper process, never on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, Session, Tenant
from artelier.kernel import Policy, Run
from artelier.log import decode_stored
from artelier.log.database_store import DatabaseStore
from artelier.pii import scrubber
from artelier.pii.hidden_values import places
from artelier.pii.search_processes import INLINE_CHARS_MAX
from artelier.pii.vault import VaultCipher
from artelier.testing import ScriptedModel
from tests.server.test_personal import KEY

LONG = "Write to ana.lopez@example.org. " + "There is nothing in here. " * 3_000


@pytest.fixture
def on_loop(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of long texts that were searched on the event loop."""
    found: list[int] = []

    def spy(detectors: Any, text: str, **more: Any) -> Any:
        if len(text) > INLINE_CHARS_MAX and threading.current_thread() is threading.main_thread():
            found.append(len(text))
        return places(detectors, text, **more)

    monkeypatch.setattr(scrubber, "places", spy)
    return found


async def as_list(run: Run) -> None:
    await run.step_model(
        model="m",
        messages=[
            {"role": "system", "content": f"{LONG} One."},
            {"role": "user", "content": f"{LONG} Two."},
            {"role": "assistant", "content": f"{LONG} Three."},
            {"role": "user", "content": [{"type": "text", "text": f"{LONG} Four."}]},
        ],
    )


async def as_streamed_list(run: Run) -> None:
    async for _ in run.stream_model(model="m", messages=[{"role": "user", "content": LONG}]):
        pass


async def as_conversation(run: Run) -> None:
    conversation = run.conversation()
    await conversation.add({"role": "user", "content": LONG})
    await run.step_model(model="m", messages=conversation)


async def as_typed_placeholder(run: Run) -> None:
    await run.step_model(model="m", messages=[{"role": "user", "content": f"<EMAIL_ABCDEF> {LONG}"}])


async def as_schema(run: Run) -> None:
    schema = {"type": "object", "description": LONG, "properties": {}}
    await run.step_model(model="json", messages=[{"role": "user", "content": "Go."}], output=schema)


async def as_arguments(run: Run) -> None:
    arguments = {f"note{number}": "Nothing is in here." for number in range(3_000)}
    call = {"id": "c1", "name": "keep", "arguments": {**arguments, "text": LONG}}
    await run.step_model(
        model="m",
        messages=[
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "kept"},
        ],
    )


SAID = [as_list, as_streamed_list, as_conversation, as_typed_placeholder, as_schema, as_arguments]


@pytest.mark.parametrize("say", SAID)
def test_a_run_is_told_at_length(
    tmp_path: Path, on_loop: list[int], say: Callable[[Run], Awaitable[None]]
) -> None:
    seen: list[str] = []

    async def scenario() -> None:
        def answer(request: Any) -> str:
            seen.append(repr(request))
            return "done"

        models = {"m": ScriptedModel(answer), "json": ScriptedModel(lambda request: {})}
        with Kernel.open(tmp_path / "s.db", models=models, policy=Policy(pii=True), environ=KEY) as kernel:
            for _ in range(2):  # the second time it is replayed
                async with kernel.run("r") as run:
                    await say(run)

    asyncio.run(scenario())

    assert on_loop == []
    assert len(seen) <= 1 and "ana.lopez" not in "".join(seen)


def test_an_agent_is_told_at_length(tmp_path: Path, on_loop: list[int]) -> None:
    async def scenario() -> None:
        models = {"m": ScriptedModel(lambda request: "done")}
        with Kernel.open(tmp_path / "s.db", models=models, policy=Policy(pii=True), environ=KEY) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            ended = await agent.run(run_id="a", model="m", prompt=LONG)
            assert ended.status == "completed"
            turn = await agent.chat("c", model="m").send(LONG)
            assert turn.status == "completed"

    asyncio.run(scenario())

    assert on_loop == []


def test_others_have_turns_while_much_that_is_small_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chat comes in with many texts that are each searched where they are."""
    texts = [f"{number} {'4111 1111 1111 1112 ' * 300}" for number in range(50)]
    turns, searched = 0, Counter[int]()

    def spy(detectors: Any, text: str, **more: Any) -> Any:
        searched[turns] += len(text) > len(texts[0]) // 2
        return places(detectors, text, **more)

    monkeypatch.setattr(scrubber, "places", spy)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        models = {"m": ScriptedModel(lambda request: "done")}
        with Kernel.open(tmp_path / "s.db", models=models, policy=Policy(pii=True), environ=KEY) as kernel:
            session = await Session.open(kernel.for_tenant(), "c", model="m")
            others = asyncio.create_task(count())
            await session.import_turns([{"user": text, "variants": []} for text in texts])
            others.cancel()

    asyncio.run(scenario())

    assert searched.total() >= len(texts)
    assert max(searched.values()) <= 2


MANY = 3_000
ADDRESSES = " ".join(f"anna{number}@example.org" for number in range(MANY))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Statements about values that were run on the event loop."""
    found: list[str] = []
    look = DatabaseStore.look

    def spy(store: DatabaseStore, sql: str, parameters: Sequence[object] = ()) -> Any:
        if "vault" in sql or "received" in sql:
            found.append(sql)
        return look(store, sql, parameters)

    monkeypatch.setattr(DatabaseStore, "look", spy)
    return found


def test_the_store_is_not_asked_for_each_of_many_values(tmp_path: Path, looks: list[str]) -> None:
    counts: list[int] = []

    async def scenario() -> None:
        models = {"m": ScriptedModel(lambda request: "done")}
        with Kernel.open(tmp_path / "s.db", models=models, policy=Policy(pii=True), environ=KEY) as kernel:
            agent = AutonomousAgent(kernel=kernel)
            for work in (
                lambda: agent.run(run_id="a", model="m", prompt=ADDRESSES),
                lambda: agent.chat("c", model="m").send(ADDRESSES),
            ):
                looks.clear()
                assert (await work()).status == "completed"
                counts.append(len(looks))

    asyncio.run(scenario())

    assert max(counts) < MANY // 10


def test_whoever_may_see_many_values_holds_nobody_up(
    tmp_path: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document of 40,000 people held a server's loop for a second."""
    passes, opened = 0, Counter[int]()
    unseal = VaultCipher.unseal

    def spy(cipher: VaultCipher, *given: Any) -> Any:
        opened[passes] += 1
        return unseal(cipher, *given)

    monkeypatch.setattr(VaultCipher, "unseal", spy)

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", policy=Policy(pii=True), environ=KEY) as kernel:
            desk = kernel.for_tenant(Tenant("acme", grants={"*"}))
            artifacts = desk.as_principal("user:kim").artifacts
            await artifacts.write("people", content=ADDRESSES, kind="document")
            stored = (await artifacts.read("people")).content
            assert "@" not in stored
            counting = asyncio.create_task(count())
            await asyncio.sleep(0)
            looks.clear()
            opened.clear()
            assert await desk.restored({"text": stored}) == {"text": ADDRESSES}
            counting.cancel()

    asyncio.run(scenario())

    assert len(looks) <= MANY // scrubber.SLICE
    assert opened.total() == MANY
    assert max(opened.values()) <= scrubber.SLICE


def test_a_text_that_names_many_people_is_noted_a_thousand_at_a_time(tmp_path: Path) -> None:
    """One event of 60,000 names held a server's loop for a third of a second."""
    people = [f"a{number}@example.org" for number in range(2_500)]
    model = ScriptedModel(lambda request: "Read.")

    async def code(run: Run) -> str:
        said = [{"role": "user", "content": " ".join(people)}, {"role": "user", "content": "Who is first?"}]
        return (await run.step_model(model="m", messages=said)).text

    async def scenario() -> None:
        with Kernel.open(
            tmp_path / "s.db", models={"m": model}, policy=Policy(pii=True), environ=KEY
        ) as kernel:
            async with kernel.run("r") as run:
                run.finish(await code(run))
            noted = [
                len(decode_stored(event.data)["placeholders"])
                async for event in kernel.events()
                if event.kind == "personal.received"
            ]
            assert noted == [1_000, 1_000, 500]
            assert (await kernel.for_tenant().replay("r", code)).status == "completed"
            assert kernel.verify().ok

    asyncio.run(scenario())

    shown = model.requests[0].messages[0].text
    assert len(set(shown.split())) == 2_500 and "@" not in shown


def test_many_texts_are_searched_once_each_and_not_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 messages of 30 KB held a server's loop for seven seconds: each was small, all were not."""
    searched: list[str] = []

    def spy(detectors: Any, text: str, **more: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            searched.append(text)
        return places(detectors, text, **more)

    monkeypatch.setattr(scrubber, "places", spy)
    model = ScriptedModel(lambda request: "Read.")
    medium = [f"{n} is anna{n}@example.org. " + "Nothing is in here. " * 100 for n in range(200)]
    short = [f"{n}: <EMAIL_ABCDEF> and bert{n}@example.org" for n in range(1_200)]
    said = [{"role": "user", "content": text} for text in (*medium, *short)]
    arguments = [{"note": f"{n}: anna{n}@example.org", "text": "Nothing. " * 200} for n in range(100)]
    said += [
        message
        for n, given in enumerate(arguments)
        for message in (
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"c{n}", "name": "t", "arguments": given}],
            },
            {"role": "tool", "tool_call_id": f"c{n}", "content": "kept"},
        )
    ]

    async def code(run: Run) -> str:
        return (await run.step_model(model="m", messages=said)).text

    async def scenario() -> None:
        with Kernel.open(
            tmp_path / "s.db", models={"m": model}, policy=Policy(pii=True), environ=KEY
        ) as kernel:
            async with kernel.run("r") as run:
                run.finish(await code(run))
            assert (await kernel.for_tenant().replay("r", code)).status == "completed"
            assert kernel.verify().ok

    asyncio.run(scenario())

    shown = model.requests[0].canonical().decode()
    assert "example.org" not in shown and "<EMAIL_ABCDEF>" not in shown
    assert not [text for text in searched if "Nothing is in here. Nothing" in text]
