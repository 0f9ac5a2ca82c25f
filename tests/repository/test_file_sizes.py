"""Files end at 700 lines, unless the module's docstring says why; functions at 70, without exception."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.repository.sources import ROOT, sources

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
REASON = re.compile(r"\bLong because \w+")
"""How a docstring introduces its reason."""

CODE = [path for name in ("src", "lab", "tests", "examples") if (path := ROOT / name).is_dir()]


def check_file_sizes(root: Path) -> list[str]:
    return [
        f"{source.path} has {lines} lines"
        for source in sources(root)
        if (lines := source.text.count("\n")) > FILE_LINES_MAX
        and not REASON.search(ast.get_docstring(source.tree) or "")
    ]


def check_function_sizes(root: Path) -> list[str]:
    """Counted from `def` to the last line, the docstring included, decorators not."""
    return [
        f"{source.where(node)} {node.name} has {lines} lines"
        for source in sources(root)
        for node in functions(source.tree)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions of a file. None stands in an expression, so nine of ten nodes are not looked at."""
    rest: list[ast.AST] = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, ())
            rest.extend(inner if isinstance(inner, list) else ())


def test_files_fit() -> None:
    assert [line for root in CODE for line in check_file_sizes(root)] == []


def test_functions_fit() -> None:
    assert [line for root in CODE for line in check_function_sizes(root)] == []


def test_a_long_file_needs_a_reason(tmp_path: Path) -> None:
    (tmp_path / "fits.py").write_text("x = 1\n" * 700)
    (tmp_path / "long.py").write_text("x = 1\n" * 701)
    (tmp_path / "table.py").write_text('"""Prices. Long because one table is here."""\n' + "x = 1\n" * 900)

    assert check_file_sizes(tmp_path) == ["long.py has 701 lines"]


def test_a_long_function_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def fits():\n" + "    x = 1\n" * 69)
    (tmp_path / "b.py").write_text(
        "class C:\n    @property\n    async def far(self):\n" + " " * 8 + ("x = 1\n        " * 70)
    )

    assert check_function_sizes(tmp_path) == ["b.py:3 far has 71 lines"]
