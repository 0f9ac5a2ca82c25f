"""SQL binds its parameters by place, with plain question marks.

Python 3.12 warns of numbered ones (`?1`) that are given as a sequence, and 3.14 refuses them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.repository.sources import ROOT, sources

_NUMBERED = re.compile(r"\?\d")
_SQL = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE)\b")


def check_parameters(root: Path) -> list[str]:
    """Every text of SQL below a root that numbers its parameters."""
    return [
        f"{source.where(node)}: numbered parameters; use ? and say the value again"
        for source in sources(root)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if _NUMBERED.search(node.value) and _SQL.search(node.value)
    ]


def test_no_sql_numbers_its_parameters() -> None:
    assert check_parameters(ROOT / "src") == []


def test_a_planted_number_is_found(tmp_path: Path) -> None:
    path = tmp_path / "artelier" / "x.py"
    path.parent.mkdir()
    path.write_text("Q = 'SELECT a FROM t WHERE a = ?1'\nR = 'SELECT a FROM t WHERE a = ?'\n")

    assert len(check_parameters(tmp_path)) == 1
