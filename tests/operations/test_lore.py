"""Lorebooks of a chat: what enters a prompt, where, why; each variant has the lore of its own past."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Session
from artelier.artifacts.content import check_json
from artelier.chat.turn import lorebooks
from artelier.chat.turn.main_call import STEP
from artelier.chat.turn.turn_config import TurnJob
from artelier.chat.turn.turn_loop import replay_turn
from artelier.errors import InvalidArtifact, InvalidRequest, NotFound
from artelier.operations.lore import Lorebook, schemas, with_names
from artelier.operations.lore.character_import import cast_character, cast_persona, keep_lorebook
from artelier.testing import ManualClock
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World
from tests.operations.chats import kernel_of, opened, play
from tests.operations.writing.files import png, text_chunk, world_info

BOOK = "books/north"


def entry(id: str, content: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "content": content, **more}


def lore_test(scenario: Callable[[Session], Awaitable[None]], *entries: dict[str, Any], **book: Any):
    """A test that is a scenario in a chat with one lorebook."""

    def test(tmp_path: Path) -> None:
        async def run() -> None:
            with opened(tmp_path) as kernel:
                await store(kernel, BOOK, *entries, **book)
                await scenario(await Session.open(kernel, "c", model="m", lorebooks=[BOOK]))

        play(run())

    return test


async def store(kernel: Kernel, id: str, *entries: dict[str, Any], **book: Any) -> str:
    artifacts = kernel.for_tenant().as_principal("operator").artifacts
    content = {"entries": list(entries), **book}
    artifact = await artifacts.write(id, kind="lorebook", content=content)
    return f"{artifact.id}@{artifact.version}"


async def prompt(session: Session, run_id: str) -> list[tuple[str, str]]:
    request = await kernel_of(session).render(run_id, STEP)
    return [(message.role, message.text) for message in request.messages]


async def why(session: Session, run_id: str) -> list[str]:
    """Sources of the lore in the prompt of a run."""
    shown = await session.show(run_id)
    return [part["src"][0] for part in shown["prompt"] if part["tag"] == "lore"]


async def said(session: Session, text: str) -> list[str]:
    """Entries that a new turn brings in, with the reason."""
    result = await session.generate(text)
    assert result.status == "completed", result.failed
    return [_short(source) for source in await why(session, result.run_id)]


def _short(source: str) -> str:
    """`books/north@1 (entry a, key “x”, before the character)` as `a: key “x”`."""
    return ": ".join(source.partition("(entry ")[2].split(", ")[:2])


async def _places(session: Session) -> None:
    await session.change(char={"name": "Mira", "description": "A smith."}, user="Kim")
    await session.generate("one")
    result = await session.generate("a dragon")

    assert await prompt(session, result.run_id) == [
        (
            "system",
            "You are Mira, in a conversation with Kim.\n\nMira fears them.\n\n"
            "# Mira\nA smith.\n\nKim does not.",
        ),
        ("user", "one"),
        ("user", "I saw one."),
        ("assistant", "re: one"),
        ("user", "a dragon"),
        ("system", "Dragons are near."),
    ]
    assert await why(session, result.run_id) == [
        "books/north@1 (entry b, key “dragon”, before the character)",
        "books/north@1 (entry a, constant, after the character)",
        "books/north@1 (entry d, recursion, key “Mira”, depth(2))",
        "books/north@1 (entry t, key “dragon”, depth(0))",
    ]


test_entries_stand_where_they_say_and_the_manifest_says_why = lore_test(
    _places,
    entry("b", "{{char}} fears them.", keys=["dragon"], place="before"),
    entry("a", "{{user}} does not.", constant=True, place="after"),
    entry("d", "I saw one.", keys=["Mira"], place="depth", depth=2, role="user", scan_depth=0),
    entry("t", "Dragons are near.", keys=["dragon"], place="depth", depth=0),
    scan_depth=1,
    recursive=True,
)


async def _own_past(session: Session) -> None:
    assert await said(session, "a dragon") == ["a: key “dragon”"]
    assert await said(session, "nothing") == ["a: sticky"]
    assert await said(session, "nothing") == []
    assert await said(session, "a dragon") == []  # it rests
    again = await session.regenerate()
    assert await why(session, again.run_id) == []

    branch = await session.branch("early", at_turn=1)
    assert await said(branch, "nothing") == ["a: sticky"]
    await session.rewind(1)
    assert await said(session, "nothing") == ["a: sticky"]
    await session.rewind(0)
    assert await said(session, "nothing") == []  # no dragon in this past
    assert await said(session, "nothing") == []
    assert await said(session, "a dragon") == ["a: key “dragon”"]


test_what_stays_or_rests_follows_the_conversation = lore_test(
    _own_past, entry("a", "Fire.", keys=["dragon"], sticky=1, cooldown=5), scan_depth=1
)


async def _selected(session: Session) -> None:
    await said(session, "x")
    for _ in range(30):
        result = await session.regenerate()
        if await why(session, result.run_id):
            break
    else:
        raise AssertionError("a roll of one half never came out")
    with_lore = (await session.turn()).selected
    assert await said(session, "y") == ["a: sticky"]
    without = [v.number for v in (await session.turn(1)).variants if v.number < with_lore]
    for number in without:
        result = next(v for v in (await session.turn(1)).variants if v.number == number)
        if await why(session, result.run_id):
            continue
        await session.select_variant(1, number)
        await session.rewind(1)
        assert "a: sticky" not in await said(session, "y")
        return


test_another_variant_rolls_anew_and_has_its_own_state = lore_test(
    _selected, entry("a", "Luck.", constant=True, probability=50, sticky=3), scan_depth=1
)


async def _left_out(session: Session) -> None:
    result = await session.generate("a dragon")
    shown = await session.show(result.run_id)

    assert [_short(source) for source in await why(session, result.run_id)] == ["a: key “dragon”"]
    assert {(one["tag"], one["why"]) for one in shown["dropped"]} == {
        ("lore books/north@1: big", "budget"),
        ("lore books/north@1: late", "delay"),
    }


test_what_is_left_out_is_named_with_the_reason = lore_test(
    _left_out,
    entry("a", "Fire.", keys=["dragon"], priority=1),
    entry("big", "word " * 400, keys=["dragon"]),
    entry("late", "Later.", keys=["dragon"], delay=9),
    budget_tokens=100,
)


async def _gone(session: Session) -> None:
    artifacts = session.desk.as_principal("operator").artifacts
    first = await session.generate("a dragon")
    await artifacts.delete(BOOK)
    second = await session.generate("a dragon")

    assert len(await why(session, first.run_id)) == 1
    assert second.status == "completed"
    assert await why(session, second.run_id) == []
    dropped = (await session.show(second.run_id))["dropped"]
    assert ("lore books/north", "not_found") in [(one["tag"], one["why"]) for one in dropped]
    assert "Fire." in str(await prompt(session, first.run_id))


test_a_book_that_is_gone_brings_nothing_and_old_prompts_stay = lore_test(
    _gone, entry("a", "Fire.", keys=["dragon"])
)


async def _hostile(session: Session) -> None:
    await session.change(char="{{user}}", user="{% raw %}")
    result = await session.generate("go")

    text = str(await prompt(session, result.run_id))
    assert "{{ art.x.value }} {% include 'x' %} {{user}} {% raw %}" in text


async def _ruled(session: Session) -> None:
    await session.change(char={"name": "Mira", "scenario": "A forge.", "tags": ["smith"]})

    assert await said(session, "hello") == ["tagged: constant", "place: key “forge”"]
    again = await session.regenerate()
    assert "swiped" in str(await why(session, again.run_id))


test_rules_of_entries_see_the_character_its_texts_and_the_trigger = lore_test(
    _ruled,
    entry("tagged", "x", constant=True, characters={"tags": ["smith"]}, order=1),
    entry("other", "x", constant=True, characters={"names": ["Osric"]}, order=2),
    entry("place", "x", keys=["forge"], also_scans=["scenario"], order=3),
    entry("swiped", "x", constant=True, triggers=["swipe"], order=4),
)


async def _grouped(session: Session) -> None:
    result = await session.generate("an omen")

    (source,) = await why(session, result.run_id)
    assert "entry b" in source
    dropped = [(one["tag"], one["why"]) for one in (await session.show(result.run_id))["dropped"]]
    assert ("lore books/north@1: a", "group") in dropped


test_the_manifest_names_entries_that_lost_in_their_group = lore_test(
    _grouped,
    entry("a", "Two crows.", keys=["omen"], groups=["omen"]),
    entry("b", "Three crows.", keys=["omen"], groups=["omen"], group_first=True),
)

test_lore_is_text_and_names_stand_in_it_once = lore_test(
    _hostile, entry("a", "{{ art.x.value }} {% include 'x' %} {{char}} {{user}}", constant=True)
)


@pytest.mark.parametrize(
    ("books", "error"),
    [
        (["gone"], NotFound),
        (["books/wrong"], InvalidArtifact),
        (["a b"], InvalidRequest),
        ("books/north", InvalidRequest),
        ([3], InvalidRequest),
        ([f"b{n}" for n in range(17)], InvalidRequest),
    ],
)
def test_a_chat_takes_no_lorebook_that_is_none(tmp_path: Path, books: Any, error: type[Exception]) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            artifacts = kernel.for_tenant().as_principal("operator").artifacts
            await artifacts.write("books/wrong", kind="document", content={"entries": 3})
            session = await Session.open(kernel, "c", model="m")
            with pytest.raises(error):
                await session.change(lorebooks=books)
            assert (await session.settings()).lorebooks == ()

    play(scenario())


def test_lore_travels_with_the_chat_and_its_prompts_render_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            ref = await store(kernel, BOOK, entry("a", "Fire.", keys=["dragon"], sticky=1))
            session = await Session.open(kernel, "c", model="m", lorebooks=[ref])
            first = await session.generate("a dragon")
            before = await prompt(session, first.run_id)
            await kernel.for_tenant().export_chat("c", tmp_path / "c.artelier")
        with opened(tmp_path, name="other") as kernel:
            await kernel.for_tenant().import_chat(tmp_path / "c.artelier")
            session = await Session.open(kernel, "c")
            assert await prompt(session, first.run_id) == before
            assert await said(session, "nothing") == ["a: sticky"]

    play(scenario())


async def _replayed(session: Session) -> None:
    result = await session.generate("a dragon")
    artifacts = session.desk.as_principal("operator").artifacts
    await artifacts.write(BOOK, content={"entries": [entry("a", "Ice.", constant=True)]})
    settings = TurnJob(chat="c", branch="main", text="a dragon", model="m", principal="operator")

    replayed = await kernel_of(session).replay(
        result.run_id, lambda run: replay_turn(run, settings.settings())
    )

    assert (replayed.status, replayed.model_calls) == ("completed", 0)
    assert await said(session, "nothing") == ["a: constant"]  # a ref without a version is the newest


test_a_replay_has_the_lore_that_was_recorded = lore_test(_replayed, entry("a", "Fire.", keys=["dragon"]))


def test_a_large_lorebook_is_read_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[threading.Thread] = []

    def noted(content: object) -> None:
        readers.append(threading.current_thread())
        check_json(content)

    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            await store(kernel, BOOK, *(entry(f"e{n}", "Fire.", keys=[f"key{n}x"]) for n in range(1_000)))
            monkeypatch.setattr(schemas, "check_json", noted)
            session = await Session.open(kernel, "c", model="m", lorebooks=[BOOK])
            assert await said(session, "of key7x") == ["e7: key “key7x”"]
            assert b"key999x" in (await session.export_file("lorebook", name=BOOK)).content

    play(scenario())

    assert len(readers) == 3  # at opening, in the turn, and for the file
    assert threading.main_thread() not in readers


def test_a_turn_that_dies_goes_on_with_the_lore_that_it_had_decided_on(tmp_path: Path) -> None:
    """Copies of the store at every instant at which a process may die; then the book is another."""

    async def change(kernel: Kernel, content: str) -> None:
        book = {"entries": [entry("a", content, keys=["dragon"])]}
        artifacts = kernel.for_tenant().as_principal("operator").artifacts
        await artifacts.write(BOOK, kind="lorebook", content=book)

    async def scenario() -> None:
        deaths = Deaths(tmp_path / "state.db", World())
        with opened(tmp_path, fault=deaths, clock=ManualClock()) as kernel:
            await change(kernel, "Fire.")
            session = await Session.open(kernel, "c", model="m", lorebooks=[BOOK])
            await session.generate("a dragon")
        seen: set[tuple[bool, str]] = set()
        for death in deaths.found:
            clock = ManualClock()
            clock.advance(3600)  # the dead process's lease has expired
            with opened(tmp_path, name=death.path.stem, clock=clock) as kernel:
                rows = await kernel.store.query("SELECT kind FROM events", ())
                kinds = {kind for (kind,) in rows}
                if "turn.asked" not in kinds:
                    continue
                await change(kernel, "Ice.")
                session = await Session.open(kernel, "c")
                result = await session.resume()
                assert (result.status, result.text) == ("completed", "re: a dragon")
                system = (await prompt(session, result.run_id))[0][1]
                seen.add(("lore.activated" in kinds, "Fire." if "Fire." in system else "Ice."))
        assert seen == {(True, "Fire."), (False, "Ice.")}

    play(scenario())


# What writers bring

CARD = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        "name": "Mira",
        "description": "{{char}} is a smith.",
        "personality": "",
        "scenario": "",
        "first_mes": "Hello {{user}}.",
        "mes_example": "",
        "alternate_greetings": ["Go."],
        "system_prompt": "",
        "post_history_instructions": "Be brief, {{char}}.",
        "character_book": {
            "entries": [
                {
                    "keys": ["anvil"],
                    "content": "It hums.",
                    "extensions": {},
                    "enabled": True,
                    "insertion_order": 1,
                }
            ]
        },
    },
}


@pytest.mark.parametrize(
    ("content", "keys"),
    [("<user>" * 30_000, ["x"]), ("c", [f"{n}" + "<user>" * 80 for n in range(256)])],
    ids=["content", "keys"],
)
def test_a_book_that_names_make_too_long_brings_nothing_and_the_manifest_says_so(
    tmp_path: Path, content: str, keys: list[str]
) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            await store(kernel, "books/long", *(entry(f"{n}", content, keys=keys) for n in range(3)))
            await store(kernel, BOOK, entry("a", "{{user}} is here.", constant=True))
            books = ["books/long", BOOK]
            session = await Session.open(kernel, "c", model="m", user="U" * 200, lorebooks=books)
            result = await session.generate("one")

            assert result.status == "completed", result.failed
            dropped = (await session.show(result.run_id))["dropped"]
            assert ("lore books/long", "invalid_artifact") in [(one["tag"], one["why"]) for one in dropped]
            assert await why(session, result.run_id) == [
                "books/north@1 (entry a, constant, before the character)"
            ]

    play(scenario())


def test_names_are_put_into_a_book_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def watched(book: Lorebook, **names: str) -> Lorebook:
        threads.append(threading.get_ident())
        return with_names(book, **names)

    monkeypatch.setattr(lorebooks, "with_names", watched)

    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            await store(kernel, BOOK, entry("a", "{{user}} is here.", constant=True))
            session = await Session.open(kernel, "c", model="m", lorebooks=[BOOK])
            await session.generate("one")

            assert len(threads) == 1 and threading.get_ident() not in threads

    play(scenario())


def test_all_greetings_of_a_card_together_become_only_so_long(tmp_path: Path) -> None:
    greetings = ["<user>" * 2_000] * 20
    card = json.dumps({**CARD, "data": {**CARD["data"], "alternate_greetings": greetings}}).encode()

    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            cast = await cast_character(kernel.for_tenant(), card, by="user:kim", user="K" * 200)

            assert 1_000_000 < sum(map(len, cast.greetings)) < 2 * len(card) + 1_000_000
            assert cast.warnings[-1].startswith("greetings: they would become too long")

    play(scenario())


@pytest.mark.parametrize(
    "card", [json.dumps(CARD).encode(), png(text_chunk("chara", CARD))], ids=["json", "png"]
)
def test_a_card_becomes_artifacts_and_a_chat(tmp_path: Path, card: bytes) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            desk = kernel.for_tenant()
            cast = await cast_character(desk, card, by="user:kim", user="Kim")
            again = await cast_character(desk, card, by="user:kim", user="Kim")
            session = await Session.open(
                kernel,
                "c",
                model="m",
                char=cast.char,
                greetings=cast.greetings,
                user="Kim",
                principal="user:kim",
            )
            result = await session.generate("the anvil")

            assert (
                again.refs
                == cast.refs
                == ("characters/user:kim/Mira@1", "characters/user:kim/Mira/lorebook@1")
            )
            kept = await desk.as_principal("user:kim").artifacts.read(cast.refs[0])
            assert (kept.kind, kept.owner) == ("character", "user:kim")
            assert [v.text for v in (await session.turn(0)).variants] == ["Hello Kim.", "Go."]
            assert await prompt(session, result.run_id) == [
                (
                    "system",
                    "You are Mira, in a conversation with Kim.\n\n# Mira\nMira is a smith.\n\nIt hums.",
                ),
                ("assistant", "Hello Kim."),
                ("user", "the anvil"),
                ("system", "Be brief, Mira."),
            ]

    play(scenario())


def test_personas_and_world_info_become_artifacts(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel:
            desk = kernel.for_tenant()
            persona = await cast_persona(desk, b'{"name": "Kim", "description": "A guest."}', by="user:kim")
            book = world_info(a={"key": ["forge"], "content": "It is hot."})
            ref, _ = await keep_lorebook(desk, book, by="user:kim", name="Löwen/town")

            assert persona["ref"] == "personas/user:kim/Kim@1"
            session = await Session.open(
                kernel, "c", model="m", user=persona, lorebooks=[ref], principal="user:kim"
            )
            result = await session.generate("the forge")
            system = (await prompt(session, result.run_id))[0][1]
            assert "# Kim\nA guest." in system and "It is hot." in system

    play(scenario())
