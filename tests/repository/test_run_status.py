"""The status of a run is set in one module, and recorded in one: nobody else writes it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.repository.sources import ROOT, sources

MACHINE = Path("artelier/kernel/run/status.py")
VIEW = Path("artelier/kernel/view.py")
RECORDED = re.compile(r"\b(?:UPDATE runs SET|INSERT INTO runs\b)")
HOLDERS = frozenset({"core", "_core", "lifecycle"})
"""The names under which the kernel and its users have a run at work."""


def check_status_writers(root: Path) -> list[str]:
    """Return the places that set a run's status outside its machine, or record it outside the view."""
    found: list[str] = []
    for source in sources(root):
        if source.path.parts[0] != "artelier":
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if source.path != VIEW and RECORDED.search(node.value) and "status" in node.value:
                    found.append(f"{source.where(node)} records the status of a run")
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and source.path != MACHINE:
                owner = node.value
                name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                if node.attr in ("status", "_status") and name in HOLDERS:
                    found.append(f"{source.where(node)} sets the status of a run")
    return found


def test_one_module_sets_the_status_of_a_run_and_one_records_it() -> None:
    assert check_status_writers(ROOT / "src") == []


@pytest.mark.parametrize(
    "line",
    [
        'core.status = "running"',
        "self.core.status = 1",
        "run._core.lifecycle._status = 1",
        "a, core.status = 1, 2",
        "tx.execute(\"UPDATE runs SET status = 'paused'\")",
    ],
)
def test_another_writer_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "artelier" / "agents").mkdir(parents=True)
    (tmp_path / "artelier" / "agents" / "a.py").write_text(line)

    (sentence,) = check_status_writers(tmp_path)

    assert sentence.startswith("artelier/agents/a.py:1 ")
