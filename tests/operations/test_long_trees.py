"""A chat of thousands of turns: what is asked of its tree reads each node once, beside the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Session
from artelier.log.database_store import DatabaseStore
from artelier.testing import ScriptedModel

TURNS = 300


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sequence[object]]]:
    """Recursive statements, with their parameters."""
    found: list[tuple[str, Sequence[object]]] = []

    def note(name: str) -> None:
        ask = getattr(DatabaseStore, name)

        def spy(store: DatabaseStore, sql: str, parameters: Sequence[object] = ()) -> Any:
            if sql.startswith("WITH RECURSIVE"):
                found.append((sql, parameters))
            return ask(store, sql, parameters)

        monkeypatch.setattr(DatabaseStore, name, spy)

    for name in ("query", "survey", "look"):
        note(name)
    return found


def test_no_statement_reads_a_whole_chat_for_each_node(
    tmp_path: Path, asked: list[tuple[str, Sequence[object]]]
) -> None:
    """To select a variant above 40,000 turns stopped a server for minutes."""

    async def scenario() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": ScriptedModel(lambda request: "Yes.")}) as kernel:
            session = await Session.open(kernel.for_tenant(), "c", model="m")
            first = {"user": "Hello.", "variants": ["One.", "Two."]}
            await session.import_turns([first, *({"user": "?", "variants": ["!"]} for _ in range(TURNS))])
            await session.select_variant(1, 2)
            await session.select_variant(1, 1)
            assert (await session.turns(limit=1))[-1].number == TURNS + 1
            other = await session.branch("other", at_turn=2)
            await other.generate("And now?")
            await session.hide(turn=1, role="user")
            await session.delete_branch("other")
            await session.delete_turn(2)

    asyncio.run(scenario())

    steps = list[str]()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        for sql, parameters in dict(asked).items():
            plan = {
                id: (above, line)
                for id, above, _, line in db.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
            }
            steps += [
                line for above, line in plan.values() if plan.get(above, (0, ""))[1] == "RECURSIVE STEP"
            ]
    assert any("chat_nodes_below" in line for line in steps)
    assert [line for line in steps if line.startswith("SCAN n") or line.endswith("(chat=?)")] == []
