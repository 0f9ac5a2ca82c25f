"""A conversation over many runs goes on from an earlier run's: nothing is written again, all renders."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artelier import Kernel, Run
from artelier.app import TenantKernel
from artelier.errors import CorruptStore, InvalidExport, InvalidRequest, ModelRefusedCall, NotFound
from artelier.kernel import Renderer, run_row
from artelier.kernel import events as ev
from artelier.log import BlobRef, Store
from artelier.log.event import encode_data
from artelier.memory.message_history import Transcript
from artelier.ports.model import ChatMessage
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.crashes import Deaths
from tests.kernel.files import fields_of, forged
from tests.kernel.stage import Code, World, drive, echo, open_kernel, play, result_of, user

CHAT = "chat"


def turn(texts: Sequence[str], *, base: tuple[str, int] | None = None, keep: int = 4) -> Code:
    """Code of a turn: say all texts, ask after each, and record the replies too; how long the chat is."""

    async def code(run: Run) -> int:
        chat = run.conversation(CHAT)
        if base is not None:
            chat = await run.continue_conversation(CHAT, base[0], CHAT, base[1], keep_last=keep)
        for text in texts:
            chat.append(user(text))
            shown = chat.tail(min(5, len(chat) - chat.first + 1))
            chat.append(await run.step_model(model="m", messages=shown))
        run.complete_cycle(1, {"messages": len(chat)})
        return len(chat)

    return code


async def chain(runs: TenantKernel, turns: Sequence[Sequence[str]], *, keep: int = 4) -> int:
    """Runs `t1`, `t2`, ... of which each goes on where the one before ended; how long the chat is."""
    count = 0
    for number, texts in enumerate(turns, 1):
        base = (f"t{number - 1}", count) if number > 1 else None
        assert await drive(runs, turn(texts, base=base, keep=keep), f"t{number}") == "completed"
        count = await result_of(runs, f"t{number}")
    return count


async def shown(runs: TenantKernel, run_id: str, start: int, end: int, name: str = CHAT) -> Any:
    renderer = await Renderer.open(runs.services, runs.id, run_id)
    return await renderer.messages(name, start, end)


def texts_of(messages: Sequence[ChatMessage]) -> list[str]:
    return [message.text for message in messages]


async def asked_for(runs: TenantKernel, run_id: str) -> list[bytes]:
    """Every prompt of a run as it renders."""
    keys = [step["key"] for step in await runs.steps(run_id) if step["kind"] == "model"]
    return [(await runs.render(run_id, key)).canonical() for key in keys]


WORDS = st.sampled_from(["a", "b", "same", "ünï 😀", "x" * 300])


@settings(max_examples=20)
@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=3), min_size=2, max_size=6), st.integers(4, 12), st.data()
)
def test_a_chain_of_runs_renders_the_same_as_one_conversation(
    turns: list[list[str]], keep: int, data: st.DataObject
) -> None:
    async def scenario(folder: Path) -> None:
        scripted = echo()
        with open_kernel(folder, scripted) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, turn([text for texts in turns for text in texts]), "one")
            expected = [request.canonical() for request in scripted.requests]
            scripted.requests.clear()
            count = await chain(runs, turns, keep=keep)

            assert [request.canonical() for request in scripted.requests] == expected
            names = [f"t{number}" for number in range(1, len(turns) + 1)]
            assert [body for name in names for body in await asked_for(runs, name)] == expected
            start = data.draw(st.integers(1, count))
            end = data.draw(st.integers(start, count))
            assert await shown(runs, names[-1], start, end) == await shown(runs, "one", start, end)
            stored = await kernel.store.query("SELECT count(*) FROM messages WHERE form <> 'b'")
            assert stored == [(2 * count,)]

    with tempfile.TemporaryDirectory() as folder:
        play(scenario(Path(folder)))


def test_what_a_turn_stores_does_not_grow_with_the_chat(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await chain(runs, [[f"question {number:03d}"] for number in range(40)])
            sizes = await kernel.store.query(
                "SELECT sum(length(e.data)) FROM events e JOIN runs r ON r.id = e.stream"
                " GROUP BY r.id ORDER BY r.id"
            )
            bases = await kernel.store.query(
                "SELECT r.run, m.n, m.ref, m.call FROM messages m JOIN runs r ON r.id = m.run"
                " WHERE form = 'b' ORDER BY m.n"
            )

            assert max(sizes[20:])[0] - min(sizes[20:])[0] < 10
            assert bases[-1] == ("t40", 78, "t39", CHAT)
            assert await kernel.store.query("SELECT count(*) FROM messages") == [(40 * 2 + 39,)]

    play(scenario())


class Counting:
    """A store that counts what it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.queries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def query(self, *args: Any) -> Any:
        self.queries += 1
        return await self._store.query(*args)


@pytest.mark.slow
def test_a_chain_of_300_runs_is_read_carried_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "chain.artelier"

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            count = await chain(runs, [[f"q{number}"] for number in range(300)])
            expected = [text for n in range(300) for text in (f"q{n}", f"re: q{n}")]
            assert texts_of(await shown(runs, "t300", 1, count)) == expected

            counting = Counting(kernel.store)
            services = replace(runs.services, store=cast(Store, counting))
            renderer = await Renderer.open(services, runs.id, "t300")
            counting.queries = 0
            assert texts_of(await renderer.messages(CHAT, 1, 2)) == ["q0", "re: q0"]
            assert counting.queries <= 2 * 300 + 4
            counting.queries = 0
            await renderer.messages(CHAT, count - 7, count)
            assert counting.queries <= 2 * 5 + 3 * 8

            done = await runs.export("t300", path)
            assert len(done.runs) == 300
            sent = await asked_for(runs, "t300")
        (tmp_path / "here").mkdir()
        with open_kernel(tmp_path / "here") as kernel:
            runs = kernel.for_tenant()
            await runs.import_(path)
            assert await asked_for(runs, "t300") == sent
            assert texts_of(await shown(runs, "t300", 1, count)) == expected

    play(scenario(), within_s=120)
    replayed = play(Kernel.replay_file(path, turn(["q299"], base=("t299", 598))), within_s=60)
    assert replayed.result == 600


def test_the_history_can_be_shown_in_several_ranges_with_something_between(tmp_path: Path) -> None:
    async def code(run: Run) -> int:
        chat = await run.continue_conversation(CHAT, "t3", CHAT, 6, keep_last=5)
        chat.append(user("now"))
        parts = [chat.range(2, 3), user("an aside"), chat.range(4, 4), chat.range(5, len(chat))]
        await run.step_model(model="m", messages=parts)
        return len(chat)

    async def scenario() -> None:
        scripted = echo()
        with open_kernel(tmp_path, scripted) as kernel:
            runs = kernel.for_tenant()
            await chain(runs, [["a"], ["b"], ["c"]])
            assert await drive(runs, code) == "completed"

            assert await asked_for(runs, "r") == [scripted.requests[-1].canonical()]
            told = texts_of(scripted.requests[-1].messages)
            assert told == ["re: a", "b", "an aside", "re: b", "c", "re: c", "now"]
            manifest = await runs.manifest("r", "1")
            ranges = [(p.start, p.end) for p in manifest.parts if p.conversation == CHAT]
            assert ranges == [(2, 3), (4, 4), (5, 7)]

    play(scenario())


def test_a_prompt_may_show_the_base_alone(tmp_path: Path) -> None:
    async def code(run: Run) -> None:
        chat = await run.continue_conversation(CHAT, "t1", CHAT, 1, keep_last=9)
        await run.step_model(model="m", messages=chat)

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await chain(runs, [["a"]])
            assert await drive(runs, code) == "completed"
            assert await asked_for(runs, "r") == (await asked_for(runs, "t1"))
            # A turn that begins at the same place names the run that has the message.
            await drive(runs, turn(["b"], base=("r", 1)), "again")
            rows = await kernel.store.query(
                "SELECT m.ref FROM messages m JOIN runs r ON r.id = m.run"
                " WHERE r.run = 'again' AND form = 'b'"
            )
            assert rows == [("t1",)]
            assert texts_of(await shown(runs, "again", 1, 3)) == ["a", "b", "re: b"]
            # Who searches a run's words finds its own, each once.
            row = await run_row(runs.services.store, runs.id, "again")
            found = Transcript(kernel.store, runs.id).messages(row.id, CHAT)
            own = [(n, message.text if message else "") async for n, message in found]
            assert own == [(2, "b"), (3, "re: b")]

    play(scenario())


async def two_questions(run: Run) -> list[str]:
    chat = await run.continue_conversation(CHAT, "t2", CHAT, 4, keep_last=2)
    replies: list[str] = []
    for text in ("c", "d"):
        chat.append(user(text))
        said = await run.step_model(model="m", messages=chat.range(chat.first, len(chat)))
        replies.append(said.text)
        chat.append(said)
    return [*replies, chat.digest]


def test_a_turn_that_dies_at_any_instant_ends_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        deaths = Deaths(tmp_path / "s.db", World())
        scripted = echo()
        with open_kernel(tmp_path, scripted, clock=ManualClock()) as kernel:
            await chain(kernel.for_tenant(), [["a"], ["b"]])
        with open_kernel(tmp_path, scripted, clock=ManualClock(), fault=deaths) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, two_questions) == "completed"
            expected = await result_of(runs)
            prompts = await asked_for(runs, "r")
        assert len(deaths.found) > 4
        for death in deaths.found:
            clock = ManualClock()
            clock.advance(3600)
            with Kernel.open(death.path, models=echo(), clock=clock) as kernel:
                runs = kernel.for_tenant()
                known = await kernel.store.query("SELECT status FROM runs WHERE run = 'r'")
                if known != [("completed",)]:
                    assert await drive(runs, two_questions) == "completed", death
                assert await result_of(runs) == expected, death
                assert await asked_for(runs, "r") == prompts, death
                rows = await kernel.store.query(
                    "SELECT n, form, conversation FROM messages m JOIN runs r ON r.id = m.run"
                    " WHERE r.run = 'r' ORDER BY n"
                )
                assert rows == [(4, "b", CHAT), (5, "m", CHAT), (6, "r", CHAT), (7, "m", CHAT)]

    play(scenario(), within_s=60)


def test_other_words_after_a_broken_request_go_on_from_the_same_base(tmp_path: Path) -> None:
    """What was recorded keeps its numbers; the new words stand under a new name, the base is not copied."""
    answers = iter([ModelRefusedCall("no"), "fine"])

    def answer(_: Any) -> str:
        found = next(answers)
        if isinstance(found, ModelRefusedCall):
            raise found
        return found

    def code(text: str) -> Callable[[Run], Any]:
        async def ask(run: Run) -> str:
            chat = await run.continue_conversation(CHAT, "t1", CHAT, 2, keep_last=2)
            chat.append(user(text))
            return (await run.step_model(model="m", messages=chat)).text

        return ask

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            await chain(kernel.for_tenant(), [["a"]])
        with open_kernel(tmp_path, ScriptedModel(answer)) as kernel:
            runs = kernel.for_tenant()
            first = await drive(runs, code("b"))
            assert first.startswith("failed")
            await runs.retry("r")
            assert await drive(runs, code("c")) == "completed"
            rows = await kernel.store.query(
                "SELECT conversation, n, form, ref FROM messages m JOIN runs r ON r.id = m.run"
                " WHERE r.run = 'r' ORDER BY conversation, n"
            )
            assert [(name, n, form) for name, n, form, _ in rows] == [
                (CHAT, 2, "b"),
                (CHAT, 3, "m"),
                (f"{CHAT}~2", 2, "b"),
                (f"{CHAT}~2", 3, "m"),
            ]
            assert texts_of(await shown(runs, "r", 1, 3, f"{CHAT}~2")) == ["a", "re: a", "c"]
            assert texts_of((await runs.render("r", "1")).messages) == ["a", "re: a", "c"]

    play(scenario())


REFUSED: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception]]] = [
    (("nobody", CHAT, 1), {}, NotFound),
    (("t1", "other", 1), {}, NotFound),
    (("t1", CHAT, 3), {}, NotFound),
    (("t1", CHAT, 1 << 60), {}, InvalidRequest),
    (("t1", CHAT, 0), {}, InvalidRequest),
    (("t1", CHAT, -1), {}, InvalidRequest),
    (("t1", CHAT, True), {}, InvalidRequest),
    (("t1", CHAT, "1"), {}, InvalidRequest),
    (("t1", CHAT, 1), {"keep_last": -1}, InvalidRequest),
    (("t1", CHAT, 1), {"keep_last": 1.5}, InvalidRequest),
    (("t1", "\ud800", 1), {}, InvalidRequest),
    (("t1", ["chat"], 1), {}, InvalidRequest),
    (("t1 OR 1=1", CHAT, 1), {}, InvalidRequest),
    ((None, CHAT, 1), {}, InvalidRequest),
    (("r", CHAT, 1), {}, InvalidRequest),
]


def test_what_a_conversation_cannot_go_on_from_is_refused(tmp_path: Path) -> None:
    async def code(run: Run) -> str:
        for base, more, error in REFUSED:
            with pytest.raises(error):
                await run.continue_conversation(CHAT, *base, **{"keep_last": 2, **more})
        for name in ("", "a~b"):
            with pytest.raises(InvalidRequest):
                await run.continue_conversation(name, "t1", CHAT, 1, keep_last=2)
        run.conversation("begun").append(user("a"))
        await run.continue_conversation(CHAT, "t1", CHAT, 2, keep_last=0)
        for name in ("begun", CHAT):
            with pytest.raises(InvalidRequest):
                await run.continue_conversation(name, "t1", CHAT, 1, keep_last=2)
        return "done"

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            await chain(kernel.for_tenant(), [["a"]])
            assert await drive(kernel.for_tenant(), code) == "completed"

    play(scenario())


def test_a_run_of_another_tenant_is_no_base(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            theirs, ours = kernel.for_tenant("them"), kernel.for_tenant("us")
            await chain(theirs, [["secret"]])
            told = await drive(ours, turn(["a"], base=("t1", 2)), "r")
            assert told == "failed: not_found"
            # The same name in both tenants: each has its own words.
            await chain(ours, [["public"], ["more"]])
            assert texts_of(await shown(ours, "t2", 1, 3)) == ["public", "re: public", "more"]

    play(scenario())


def test_forks_go_on_from_a_base_and_may_be_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await chain(runs, [["a"], ["b"]])
            await drive(runs, two_questions)
            steps = {step["key"]: step for step in await runs.steps("r")}
            for at in (1, 2, steps["2"]["requested_seq"] - 2, None):
                fork = await runs.fork("r", at=at)
                assert await drive(runs, two_questions, fork) == "completed"
                assert await result_of(runs, fork) == await result_of(runs)
                for key in steps:
                    assert await runs.render(fork, key) == await runs.render("r", key)
                assert (await runs.diff("r", fork))["first_divergence"] is None
                # The fork has only some of its messages in a stream of its own.
                count = 7
                await drive(runs, turn(["e"], base=(fork, count)), f"{fork}.next")
                told = texts_of(await shown(runs, f"{fork}.next", 1, count + 2))
                assert told == ["a", "re: a", "b", "re: b", "c", "re: c", "d", "e", "re: e"]
                await runs.export(f"{fork}.next", tmp_path / "next.artelier")
                with Kernel.open(":memory:") as elsewhere:
                    there = elsewhere.for_tenant()
                    await there.import_(tmp_path / "next.artelier")
                    assert texts_of(await shown(there, f"{fork}.next", 1, count + 2)) == told
                    assert await asked_for(there, f"{fork}.next") == (await asked_for(runs, f"{fork}.next"))

    play(scenario())


def test_a_file_takes_along_what_a_base_had_then_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant("acme")
            await drive(runs, turn(["a", "b", "c"]), "t1")
            base = turn(["other"], base=("t1", 3))  # the third message is the second question
            await drive(runs, base, "r")
            done = await runs.export("r", path)
            sent = await asked_for(runs, "r")
        assert done.runs == ("r", "t1")
        texts = [e["seq"] for e in fields_of(path)["events"] if e["stream"] == "run:t1"]
        assert texts[-1] < 8  # not the third question
        (tmp_path / "here").mkdir()
        with open_kernel(tmp_path / "here") as kernel:
            here = kernel.for_tenant("us")
            await here.import_(path)
            assert await asked_for(here, "r") == sent
            assert texts_of(await shown(here, "r", 1, 5)) == ["a", "re: a", "b", "other", "re: other"]
            await here.export("r", tmp_path / "again.artelier")
            # An imported run is a base like any other.
            await drive(here, turn(["more"], base=("r", 5)), "next")
            assert texts_of(await shown(here, "next", 2, 6))[-2:] == ["re: other", "more"]
        assert fields_of(tmp_path / "again.artelier") == fields_of(path)
        replayed = await Kernel.replay_file(path, base)
        assert replayed.result == 5

    play(scenario())


def _said(conversation: str, start: int, *entries: tuple[str, str, str]) -> ev.CycleCompleted:
    added = ev.Added(conversation, start, tuple(ev.MessageEntry(*entry) for entry in entries))
    return ev.CycleCompleted(cycle=start, added=(added,))


OWN = ("t", "1", "")
"""A message whose content nobody looks at here."""


@pytest.mark.parametrize(
    ("events", "runs"),
    [
        # A base that is not in the file, although the tenant has a run of that name.
        ([("r", _said(CHAT, 2, ("b", "t1", CHAT)))], ("r",)),
        # One that comes later, one that has not said as much, one that has no such conversation.
        ([("r", _said(CHAT, 1, ("b", "b", CHAT))), ("b", _said(CHAT, 1, OWN))], ("r", "b")),
        ([("b", _said(CHAT, 1, OWN)), ("r", _said(CHAT, 2, ("b", "b", CHAT)))], ("r", "b")),
        ([("b", _said("x", 1, OWN)), ("r", _said(CHAT, 1, ("b", "b", CHAT)))], ("r", "b")),
        # Itself, in a circle, from nothing, with a number that is none.
        ([("r", _said(CHAT, 1, ("b", "r", CHAT)))], ("r",)),
        ([("r", _said(CHAT, 1, ("b", "b", CHAT))), ("b", _said(CHAT, 1, ("b", "r", CHAT)))], ("r", "b")),
        ([("r", _said(CHAT, 0, ("b", "r", CHAT), OWN))], ("r",)),
        ([("r", _said(CHAT, -(1 << 70), ("b", "r", CHAT)))], ("r",)),
        ([("r", _said(CHAT, 0, OWN))], ("r",)),
        ([("r", _said(CHAT, 1 << 70, OWN))], ("r",)),
        # When it has begun: in the same event, in a later one, and a second time.
        ([("b", _said(CHAT, 1, OWN, OWN)), ("r", _said(CHAT, 1, OWN, ("b", "b", CHAT)))], ("r", "b")),
        (
            [
                ("b", _said(CHAT, 1, OWN, OWN)),
                ("r", _said(CHAT, 1, OWN)),
                ("r", _said(CHAT, 2, ("b", "b", CHAT))),
            ],
            ("r", "b"),
        ),
        (
            [
                ("b", _said(CHAT, 1, OWN, OWN)),
                ("r", _said(CHAT, 1, ("b", "b", CHAT))),
                ("r", _said(CHAT, 2, ("b", "b", CHAT))),
            ],
            ("r", "b"),
        ),
        # The base of the base stands in its place, and has only what is its own.
        (
            [
                ("b", _said(CHAT, 1, OWN)),
                ("c", _said(CHAT, 1, ("b", "b", CHAT), OWN)),
                ("r", _said(CHAT, 1, ("b", "c", CHAT))),
            ],
            ("r", "b", "c"),
        ),
    ],
)
def test_a_forged_base_is_refused_whole(
    tmp_path: Path, events: list[tuple[str, Any]], runs: tuple[str, ...]
) -> None:
    path = tmp_path / "forged.artelier"
    started = [(f"run:{run}", ev.RunStarted(loop="", model="")) for run in runs]
    forged(path, [*started, *((f"run:{run}", data) for run, data in events)], runs=runs)

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            here = kernel.for_tenant()
            await chain(here, [["a"]])
            root = await kernel.store.root()
            with pytest.raises(InvalidExport):
                await here.import_(path)
            assert await kernel.store.root() == root

    play(scenario())


@pytest.mark.corrupts
@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("UPDATE messages SET ref = 't3' WHERE form = 'b' AND n = 2", CorruptStore),
        ("UPDATE messages SET ref = 'nobody' WHERE form = 'b' AND n = 2", NotFound),
        ("UPDATE messages SET call = 'none' WHERE form = 'b' AND n = 2", CorruptStore),
        ("UPDATE messages SET ref = 'theirs' WHERE form = 'b' AND n = 2", NotFound),
        ("DELETE FROM messages WHERE form = 'b'", CorruptStore),
        ("DELETE FROM messages WHERE n = 1", CorruptStore),
    ],
)
def test_a_base_that_somebody_damaged_is_no_endless_way(
    tmp_path: Path, statement: str, error: type[Exception]
) -> None:
    import sqlite3

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            await drive(kernel.for_tenant("them"), turn(["secret"]), "theirs")
            await chain(kernel.for_tenant(), [["a"], ["b"], ["c"]])
        with sqlite3.connect(tmp_path / "s.db") as db:
            assert db.execute(statement).rowcount
        db.close()
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(error):
                await shown(runs, "t3", 1, 5)
            assert await drive(runs, turn(["d"], base=("t3", 6), keep=9), "t4") != "completed"
            if error is not NotFound:
                return
            with pytest.raises((CorruptStore, NotFound)):
                await runs.export("t3", tmp_path / "run.artelier")

    play(scenario())


def test_events_without_a_base_are_written_as_ever() -> None:
    entries = (ev.MessageEntry("m", BlobRef("b:x")), ev.MessageEntry("t", "1", "c1"))
    cycle = ev.CycleCompleted(cycle=1, added=(ev.Added(CHAT, 1, entries),))
    part = ev.PartRecord(tag="a", blob=BlobRef("b:x"), attach=True)
    prompt = ev.ContextAssembled(key="1", head=BlobRef("b:h"), request="h:x", parts=(part,))

    assert encode_data(cycle) == (b'{"added":[["chat",1,[["m","b:x",""],["t","1","c1"]]]],"cycle":1}')
    assert encode_data(prompt) == (
        b'{"head":"b:h","key":"1","parts":[{"attach":true,"blob":"b:x","tag":"a"}],"request":"h:x"}'
    )


def test_a_conversation_may_go_on_from_another_one_of_its_run(tmp_path: Path) -> None:
    async def code(run: Run) -> list[str]:
        main = run.conversation()
        main.append(user("a"))
        main.append(await run.step_model(model="m", messages=main))
        main.append(user("b"))
        await run.step_model(model="m", messages=main)
        side = await run.continue_conversation("side", run.id, "main", 2, keep_last=9)
        side.append(user("aside"))
        return [(await run.step_model(model="m", messages=side)).text]

    path = tmp_path / "run.artelier"

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            assert texts_of(await shown(runs, "r", 1, 3, "side")) == ["a", "re: a", "aside"]
            sent = await asked_for(runs, "r")
            await runs.export("r", path)
        (tmp_path / "here").mkdir()
        with open_kernel(tmp_path / "here") as kernel:
            await kernel.for_tenant().import_(path)
            assert await asked_for(kernel.for_tenant(), "r") == sent

    play(scenario())


@pytest.mark.parametrize("numbers", [(1, 5), (5, 1)])
def test_a_base_of_two_conversations_comes_as_far_as_the_longer_needs(
    tmp_path: Path, numbers: tuple[int, int]
) -> None:
    async def code(run: Run) -> None:
        for name, upto in zip(("one", "two"), numbers, strict=True):
            chat = await run.continue_conversation(name, "t1", CHAT, upto, keep_last=9)
            await run.step_model(model="m", messages=chat)

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, turn(["a", "b", "c"]), "t1")
            assert await drive(runs, code) == "completed"
            await runs.export("r", tmp_path / "r.artelier")
            sent = await asked_for(runs, "r")
        with Kernel.open(":memory:") as elsewhere:
            await elsewhere.for_tenant().import_(tmp_path / "r.artelier")
            assert await asked_for(elsewhere.for_tenant(), "r") == sent

    play(scenario())
