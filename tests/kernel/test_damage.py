"""A damaged row is named as damage, wherever it is read: not as a fault of whoever asks."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Run, ToolContext, tool
from artelier.app import TenantKernel
from artelier.errors import CorruptStore
from tests.kernel.stage import ask, drive, open_kernel, play

Asks = Callable[[TenantKernel], Awaitable[Any]]

LOST = f"b:{'A' * 43}"


@tool(side_effect=True)
async def send(ctx: ToolContext) -> None:
    """Send."""
    raise ConnectionError("lost")


async def _asking(run: Run) -> Any:
    return await run.approve("ok?")


async def _sending(run: Run) -> Any:
    return await run.step_tool("send")


async def _done(run: Run) -> Any:
    return {"n": await run.step("one", lambda: 1)}


async def _again(runs: TenantKernel) -> None:
    async with runs.run("done") as run:
        await _done(run)


@pytest.mark.corrupts
@pytest.mark.parametrize(
    ("statement", "asks"),
    [
        ("UPDATE runs SET result = 'nonsense' WHERE run = 'done'", lambda k: k.show("done")),
        (f"UPDATE runs SET result = '{LOST}' WHERE run = 'done'", lambda k: k.show("done")),
        ("UPDATE blobs SET content = x'7b', size = 1, codec = 0", lambda k: k.show("done")),
        ("UPDATE blobs SET content = x'ff', size = 1, codec = 0", lambda k: k.approvals()),
        ("UPDATE approvals SET question = 'b:'", lambda k: k.approvals()),
        ("UPDATE approvals SET question = 'b:'", lambda k: k.show("asking")),
        ("UPDATE tenants SET grants = '[1]'", _again),
        ("UPDATE tenants SET grants = '{'", _again),
        (
            "UPDATE events SET data = '[' WHERE kind = 'tool.requested'",
            lambda k: k.reconcile("sending", "1", probe=True),
        ),
        ("UPDATE blobs SET content = x'7b', size = 1, codec = 0", _again),
        ("DELETE FROM blobs", _again),
        ("DELETE FROM blobs", lambda k: k.render("asked", "1")),
        ("UPDATE events SET data = '[' WHERE kind = 'context.assembled'", lambda k: k.render("asked", "1")),
        ("UPDATE events SET data = '[' WHERE kind = 'model.completed'", lambda k: k.cost("asked")),
        ("DROP TABLE approvals", lambda k: k.show("done")),
        ("ALTER TABLE runs DROP COLUMN result", lambda k: k.show("done")),
    ],
)
def test_a_damaged_row_is_a_corrupt_store_with_a_hint(tmp_path: Path, statement: str, asks: Asks) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[send]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _done, "done") == "completed"
            assert await drive(runs, _asking, "asking", on_wait="suspend") == "waiting_approval"
            assert await drive(runs, lambda run: ask(run, "hi"), "asked") == "completed"
            assert await drive(runs, _sending, "sending") == "unknown_outcome"
        db = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        assert db.execute(statement).rowcount != 0
        db.close()
        with open_kernel(tmp_path, tools=[send]) as kernel:
            with pytest.raises(CorruptStore) as damage:
                await asks(kernel.for_tenant())
            assert "artelier verify" in str(damage.value.hint)
            assert kernel.verify().findings

    play(scenario())
