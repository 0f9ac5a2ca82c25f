"""SQL names the tables of its own package; other packages call its `queries`, or read views it publishes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.repository.sources import ROOT, Source, imports, sources

CREATED = re.compile(r"\bCREATE\s+(?:VIRTUAL\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?([a-z_]+)")
PUBLISHED = re.compile(r"\bCREATE\s+TEMP\s+VIEW\s+IF\s+NOT\s+EXISTS\s+([a-z_]+)")
NAMED = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+([a-z_]+)\b")
VIEW_STATEMENTS_MAX = 40
"""Statements that join published views of other packages to their own rows."""

LEFT = {"cli": 4}
"""Statements on another package's tables that are left, by package: it shrinks, and never grows."""

UNCHECKED = frozenset({"testing"})
"""What looks into the tables on purpose, to find what the owners got wrong."""


def package_of(source: Source) -> str:
    """The import package below `artelier`."""
    parts = source.path.parts
    return parts[1] if len(parts) > 2 else "."


def texts(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield each text of a file that is no docstring, an f-string as one."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node) if part is not node}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def owners(root: Path, pattern: re.Pattern[str]) -> dict[str, set[str]]:
    """Return the packages that make a table, or publish a view, by its name."""
    found: dict[str, set[str]] = {}
    for source in sources(root):
        if package_of(source) not in UNCHECKED and "CREATE" in source.text:
            for _, text in texts(source.tree):
                for name in pattern.findall(text):
                    found.setdefault(name, set()).add(package_of(source))
    return found


def check_sql_owners(root: Path, *, of: re.Pattern[str] = CREATED) -> list[tuple[str, str]]:
    """`(package, sentence)` of each statement that names what another package made."""
    made, found = owners(root, of), list[tuple[str, str]]()
    for source in sources(root):
        package = package_of(source)
        if package in UNCHECKED or source.path.parts[0] != "artelier" or not NAMED.search(source.text):
            continue
        for node, text in texts(source.tree):
            foreign = {name for name in NAMED.findall(text) if package not in made.get(name, {package})}
            if foreign:
                found.append((package, f"{source.where(node)} names {', '.join(sorted(foreign))}"))
    return found


def test_sql_names_tables_of_its_own_package() -> None:
    found = check_sql_owners(ROOT / "src")
    counted = Counter(package for package, _ in found)
    told = "\n".join(sentence for package, sentence in found if counted[package] > LEFT.get(package, 0))
    assert not told, f"{told}\nCall a function of the owner's `queries`, or read a view that it publishes."
    assert dict(counted) == LEFT, "fewer are left: say so in LEFT"


def test_published_views_are_read_by_few_statements() -> None:
    assert len(check_sql_owners(ROOT / "src", of=PUBLISHED)) <= VIEW_STATEMENTS_MAX


def test_a_planted_statement_on_another_packages_table_is_found(tmp_path: Path) -> None:
    for name, text in {
        "artelier/kernel/view.py": 'MADE = "CREATE TABLE runs(id INTEGER)"\nREAD = "SELECT id FROM runs"\n',
        "artelier/chat/list.py": 'def find():\n    """Read FROM runs."""\n    return "SELECT id FROM runs"\n',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert check_sql_owners(tmp_path) == [("chat", "artelier/chat/list.py:3 names runs")]


HOME = re.compile(r"(^|/)(queries|view|views|rows|schema|sqlite|postgres)(\.py|/)")
"""Where statements stand inside the package that owns the table."""


def check_sql_homes(root: Path) -> list[str]:
    """Return the statements on a package's own tables that stand among its algorithms."""
    made, found = owners(root, CREATED), list[str]()
    for source in sources(root):
        package = package_of(source)
        if source.path.parts[0] != "artelier" or HOME.search(str(source.path)):
            continue
        for node, text in texts(source.tree):
            if own := {name for name in NAMED.findall(text) if package in made.get(name, ())}:
                found.append(f"{source.where(node)} names {', '.join(sorted(own))}")
    return found


def test_sql_stands_in_queries_views_and_rows() -> None:
    assert check_sql_homes(ROOT / "src") == []


def test_a_planted_statement_in_an_algorithm_is_found(tmp_path: Path) -> None:
    for name in ("view.py", "runner.py"):
        path = tmp_path / "artelier" / "kernel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('MADE = "CREATE TABLE runs(id INTEGER)"\nREAD = "SELECT id FROM runs"\n')

    assert check_sql_homes(tmp_path) == ["artelier/kernel/runner.py:2 names runs"]


ENGINE = re.compile(r"\b(?:sqlite3|lastrowid|SqliteStore|artelier\.log\.sqlite)\b")
KNOWS_THE_ENGINE = {
    "artelier/cli/completion.py": "reads names without the 100 ms of opening a kernel",
    "artelier/cli/doctor.py": "says which SQLite is here",
    "artelier/memory/sqlite.py": "is a file of memories, by name",
    "artelier/tools/worker/tables.py": "reads SQLite files of people",
}
"""Modules outside of `log` that may name the engine of the store, with why."""


def check_engine(root: Path) -> list[str]:
    """Modules whose code names SQLite as the engine of a store; docstrings may."""
    found: list[str] = []
    for source in sources(root):
        if package_of(source) in {"log", "testing"} or not ENGINE.search(source.text):
            continue
        names = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {node.module or "", *(alias.name for alias in node.names)}
        if any(ENGINE.search(name) for name in names):
            found.append(str(source.path))
    return found


def test_only_the_log_knows_its_engine() -> None:
    found = check_engine(ROOT / "src")

    assert sorted(found) == sorted(KNOWS_THE_ENGINE)


ENGINES = {"sqlite": "sqlite3", "postgres": "psycopg"}
"""Folders of `log`, and the driver that nobody else in there imports."""


def check_drivers(root: Path) -> list[str]:
    """Modules of the log that import the driver of an engine and do not stand in its folder."""
    return [
        f"{source.path} imports {item.module}"
        for source in sources(root)
        if package_of(source) == "log"
        for item in imports(source)
        for folder, driver in ENGINES.items()
        if item.module.partition(".")[0] == driver and folder not in source.path.parts
    ]


def test_half_of_the_log_knows_no_engine() -> None:
    assert check_drivers(ROOT / "src") == []


def test_a_driver_in_the_neutral_half_is_found(tmp_path: Path) -> None:
    package = tmp_path / "artelier" / "log"
    (package / "sqlite").mkdir(parents=True)
    (package / "sqlite" / "own.py").write_text("import sqlite3\n")
    (package / "writer.py").write_text("import sqlite3\nfrom psycopg.rows import tuple_row\n")

    assert check_drivers(tmp_path) == [
        "artelier/log/writer.py imports sqlite3",
        "artelier/log/writer.py imports psycopg.rows",
    ]


def test_a_module_that_names_the_engine_is_found(tmp_path: Path) -> None:
    package = tmp_path / "artelier" / "kernel"
    package.mkdir(parents=True)
    (package / "plain.py").write_text('"""Not sqlite3."""\n')
    (package / "typed.py").write_text("from artelier.log import SqliteStore\n")
    (package / "raw.py").write_text("def make(db):\n    return db.execute('...').lastrowid\n")

    assert check_engine(tmp_path) == ["artelier/kernel/raw.py", "artelier/kernel/typed.py"]
