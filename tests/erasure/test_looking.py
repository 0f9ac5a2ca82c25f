"""Whoever looks at a database goes on when content was erased, or its key is not here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from artelier.cli import main

LOOKS = (
    "runs list",
    "runs show song",
    "runs tree song",
    "runs tail song",
    "runs compactions song",
    "runs show orders",
    "tasks list",
    "tasks show orders/answer",
    "artifacts list",
    "artifacts show orders/answer",
    "agents list",
    "memory list",
    "skills list",
    "chat --list",
    "profile list",
    "schedule list",
    "schedule show nightly",
    "tenants show",
    "tenants list",
    "manifest show song:c1/model",
    "manifest render song:c1/model",
    "diff song orders",
    "verify",
)


@pytest.fixture
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A folder with a run that failed, a mission, a chat with a profile and a schedule, all sealed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARTELIER_VAULT_KEY", "a vault key for tests")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders.csv").write_text("customer,orders\nkim,3\nbo,5\n")
    schedule = ["schedule", "add", "nightly", "--cron", "0 3 * * *", "--goal", "Count."]
    assert main(["do", "Sing a song.", "--workspace", "data", "--run-id", "song", "--solo"]) == 1
    assert (
        main(
            [
                "do",
                "Which customer has the highest total orders?",
                "--workspace",
                "data",
                "--run-id",
                "orders",
            ]
        )
        == 0
    )
    assert main(["chat", "tale", "--profile", "rp-basic", "--message", "We ride north."]) == 0
    assert main(schedule) == 0
    yield monkeypatch


@pytest.mark.parametrize("gone", ["content", "key"])
def test_every_look_goes_on_without_content(
    at_work: pytest.MonkeyPatch, gone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if gone == "content":
        assert main(["erase", "--tenant", "default", "--yes"]) == 0
    else:
        at_work.delenv("ARTELIER_VAULT_KEY")
    capsys.readouterr()

    codes = {look: main(look.split()) for look in LOOKS}

    assert {look for look, code in codes.items() if code} == set()
    mark, other = ("[erased]", "[locked]") if gone == "content" else ("[locked]", "[erased]")
    seen = capsys.readouterr().out
    assert mark in seen and other not in seen
    assert main(["runs", "show", "song"]) == 0
    assert f"goal         {mark}" in capsys.readouterr().out
    if gone == "content":
        assert main(["chat", "tale", "--message", "/turns"]) == 0
        assert "[erased]" in capsys.readouterr().out
