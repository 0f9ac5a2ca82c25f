"""Which databases a test left behind, and whether they still are what was written."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from artelier.errors import ArtelierError
from artelier.log import View, verify_store

STORE_TABLES = {"streams", "events", "commits"}


def is_store(path: Path) -> bool:
    """Whether a file is a database with a log in it; other databases are none of our business."""
    return stored_views(path) is not None


def verify_folder(folder: Path, *, known: Iterable[View]) -> dict[str, list[str]]:
    """What is wrong with each store below a folder, by its path there; what is sound is left out."""
    by_name = {view.name: view for view in known}
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.db")):
        names = stored_views(path)
        if names is not None and (findings := _verify(path, names, by_name)):
            found[str(path.relative_to(folder))] = findings
    return found


def verify_database(path: Path, *, known: Iterable[View] | None = None) -> list[str]:
    """What is wrong with a store: chains, commits, blobs, and every view that somebody defines.

    Views are found by the names stored in the database: among `known`, else among the constants of all
    loaded modules of the package; of several with one name the last. One that is found nowhere is left out,
    as `artelier verify` would do.
    """
    names = stored_views(path)
    assert names is not None, f"{path} is no store"
    return _verify(path, names, {view.name: view for view in (shipped_views() if known is None else known)})


def _verify(path: Path, names: list[str], by_name: dict[str, View]) -> list[str]:
    try:
        return verify_store(path, [by_name[name] for name in names if name in by_name]).findings
    except ArtelierError as error:
        return [str(error)]


def stored_views(path: Path) -> list[str] | None:
    """Names of the views of a store, in the order in which they were installed; None if it is no store."""
    db = sqlite3.connect(path)
    try:
        if not {row[0] for row in db.execute("SELECT name FROM sqlite_master")} >= STORE_TABLES:
            return None
    except sqlite3.DatabaseError:
        return None
    else:
        return [row[0] for row in db.execute("SELECT name FROM view_versions ORDER BY rowid")]
    finally:
        db.close()


def shipped_views() -> list[View]:
    """The views of the loaded modules of the package; of several with one name the fullest is last.

    The ledger of a memory's own file knows no worlds.
    """
    modules = list(loaded())  # once: a thread of the server may still be loading others
    for module in modules:
        if module not in _SHIPPED:
            _SHIPPED[module] = tuple(views_of([module]))
    views = (view for module in modules for view in _SHIPPED[module])
    return sorted(views, key=lambda view: len(view.handlers))


_SHIPPED: dict[ModuleType, tuple[View, ...]] = {}
"""Constants of a shipped module stay as they are, so each is looked through once, not after each test."""


def loaded() -> Iterator[ModuleType]:
    return (module for name, module in list(sys.modules.items()) if name.startswith("artelier."))


def views_of(modules: Iterable[ModuleType]) -> Iterator[View]:
    """Every `View`, and every view in a tuple or list, that a module holds as a constant."""
    for module in modules:
        for value in list(vars(module).values()):
            members = value if isinstance(value, tuple | list) else (value,)
            yield from (member for member in members if isinstance(member, View))
