"""Chats that somebody has made long: what a request reads and holds of them, and who has a turn meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier.chat import Session
from artelier.chat.conversation_files import exported_lines
from artelier.chat.queries import tree
from artelier.chat.session.chat_reader import CHARS_AT_ONCE, TURNS_AT_ONCE
from artelier.server.live_hub import PAGE_BYTES
from tests.server.house import House, house

Scenario = Callable[[House, str], Awaitable[None]]


def chat_test(scenario: Scenario, *, turns: int, chars: int) -> Callable[[Path], None]:
    """A test with a chat of so many turns, each of two messages of so many characters."""

    def test(tmp_path: Path) -> None:
        async def run() -> None:
            async with house(tmp_path) as made:
                await scenario(made, await _take_chat(made, turns=turns, chars=chars))

        asyncio.run(run())

    test.__doc__ = scenario.__doc__
    return test


async def _take_chat(made: House, *, turns: int, chars: int) -> str:
    lines = [json.dumps({"user_name": "Ann", "character_name": "Mira"})]
    for number in range(2 * turns):
        text = f"word {number:05} ".ljust(chars, "x")
        name = ("Ann", "Mira")[number % 2]
        lines.append(json.dumps({"name": name, "is_user": number % 2 == 0, "mes": text}))
    answer = await made.client.post("/api/v1/sessions/files?name=a.jsonl", content="\n".join(lines))
    assert answer.status_code == 201, answer.text
    return answer.json()["chat_id"]


async def _watched(made: House, patch: pytest.MonkeyPatch, work: Awaitable[Any]) -> tuple[Any, int, int]:
    """What some work returns, how often others had a turn, and how often it read between two of them."""
    store, turns, most, reads = made.kernel.store, 0, 0, 0
    query, blob = store.query, store.blob

    async def asked(*given: Any) -> Any:
        nonlocal reads, most
        reads += 1
        most = max(most, reads)
        return await query(*given)

    async def read(*given: Any) -> Any:
        nonlocal reads, most
        reads += 1
        most = max(most, reads)
        return await blob(*given)

    patch.setattr(store, "query", asked)
    patch.setattr(store, "blob", read)
    task = asyncio.ensure_future(work)
    while not task.done():
        turns, reads = turns + 1, 0
        await asyncio.sleep(0)
    patch.undo()
    return await task, turns, most


async def _shown(made: House, chat: str) -> None:
    """A hundred and fifty messages of 199 KB were one answer of 30 MB, and eight at once 650 MB."""
    seen, before = list[int](), ""
    while True:
        answer = await made.client.get(f"/api/v1/sessions/{chat}?limit=200{before}")
        assert len(answer.content) < 4 * PAGE_BYTES
        page = answer.json()
        seen = [one["number"] for one in page["turns"]] + seen
        assert all(len(one["user"]) == len(one["variants"][0]["text"]) == 100_000 for one in page["turns"])
        if page["before"] is None:
            break
        assert page["before"] == page["turns"][0]["number"]
        before = f"&before={page['before']}"
    assert seen == list(range(1, 13))


test_a_page_of_a_chat_ends_at_so_many_bytes_and_the_next_goes_on = chat_test(_shown, turns=12, chars=100_000)


async def _paged(made: House, chat: str) -> None:
    pages = [
        (await made.client.get(f"/api/v1/sessions/{chat}{query}")).json()
        for query in ("?limit=3", "?limit=3&before=8", "?limit=3&before=4", "?limit=4&before=4", "?limit=10")
    ]
    assert [[one["number"] for one in page["turns"]] for page in pages] == [
        [8, 9, 10],
        [5, 6, 7],
        [1, 2, 3],
        [1, 2, 3],
        list(range(1, 11)),
    ]
    assert [page["before"] for page in pages] == [8, 5, None, None, None]


test_short_turns_come_in_pages_of_as_many_as_were_asked_for = chat_test(_paged, turns=10, chars=20)


async def _exported(made: House, chat: str) -> None:
    """It was one piece, and so was what it was made of."""
    pieces = [one async for one in await exported_lines(Session(made.desk, chat, branch="main"))]

    assert max(map(len, pieces)) < 2 * CHARS_AT_ONCE
    for path in ("export?format=jsonl", "files?kind=chat"):
        answer = await made.client.get(f"/api/v1/sessions/{chat}/{path}")
        assert answer.content == b"".join(pieces)
    lines = [json.loads(line) for line in b"".join(pieces).splitlines()]
    assert [line["mes"][:10] for line in lines[1:]] == [f"word {number:05}" for number in range(24)]


test_an_exported_chat_is_written_piece_by_piece = chat_test(_exported, turns=12, chars=100_000)


async def _searched(made: House, chat: str) -> None:
    """A page of two hundred turns was one turn of the event loop, and each walked up from the newest."""
    with pytest.MonkeyPatch.context() as patch:
        session = Session(made.desk, chat, branch="main")
        found, turns, reads = await _watched(made, patch, session.search("word 00003"))
    assert [(one.turn, one.role) for one in found] == [(2, "assistant")]
    assert turns > 1_000 / TURNS_AT_ONCE
    assert reads <= 6 * TURNS_AT_ONCE

    found = await made.client.get(f"/api/v1/sessions/{chat}/search?words=word&limit=5")
    assert [one["turn"] for one in found.json()["items"]] == [1000, 1000, 999, 999, 998]


test_others_have_a_turn_while_a_long_chat_is_searched = chat_test(_searched, turns=1_000, chars=20)


async def _plans(made: House, chat: int, head: int) -> list[str]:
    """How the database finds the rows of a page: never by reading the whole chat."""
    store, asked = made.kernel.store, list[tuple[str, Any]]()
    with pytest.MonkeyPatch.context() as patch:
        query = store.query

        async def note(sql: str, parameters: Any = ()) -> Any:
            asked.append((sql, parameters))
            return await query(sql, parameters)

        patch.setattr(store, "query", note)
        await tree.path(store, chat, head, limit=3)
    return [row[-1] for sql, given in asked for row in await store.query(f"EXPLAIN QUERY PLAN {sql}", given)]


async def _climbed(made: House, chat: str) -> None:
    """Forty requests for the oldest page of 24,500 turns held up everybody for more than a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "STEPS_MAX", 10)
        row = await Session(made.desk, chat, branch="main").row()
        head = (await Session(made.desk, chat, branch="main").branch_row()).head
        page = tree.path(made.kernel.store, row.id, head, before=3)
        found, turns, _ = await _watched(made, patch, page)
    assert [one.number for one in found] == [1, 2]
    assert turns > 95 / 10
    plans = await _plans(made, row.id, head)
    assert not [step for step in plans if step.startswith("SEARCH") and step.endswith("(chat=?)")], plans
    for after in (-1, 0, 1, 40):
        found = await tree.path(made.kernel.store, row.id, head, after=after, limit=2)
        assert [one.number for one in found] == [max(after, 0) + 1, max(after, 0) + 2]


test_others_have_a_turn_on_the_way_to_a_page_far_back = chat_test(_climbed, turns=100, chars=20)
