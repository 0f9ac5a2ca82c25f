"""The places of stores, by the names that people give them: a path, `sqlite:///path` or `postgresql://...`.

This is the one module that chooses an engine. PostgreSQL's is imported for an address alone: its driver is an
extra. An address may hold a password: what is shown of one is `label_of`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from artelier.errors import InvalidConfig, InvalidRequest

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import ModuleType

    from artelier.log.blobs import Sealer
    from artelier.log.contract import FaultHook, Report, Store, View
    from artelier.log.database import Database
    from artelier.log.postgres.store import ServerFacts

ADDRESSES = ("postgresql://", "postgres://")
"""The beginnings of a name that is an address of PostgreSQL."""

BESIDE = ".artelier/postgresql"
"""Files that stand beside a database have this name before their ending, where that is no file itself."""

_SECRETS = re.compile(r"(?<=//)[^/?#]*@|(?<=[?&])(?:password|sslpassword|user)=[^&#]*&?")
"""A user with a password before a host, and parameters that say them."""


def is_address(place: str | Path) -> bool:
    """Return True for an address of a server, False for a file."""
    return str(place).startswith(ADDRESSES)


def file_of(place: str | Path) -> str:
    """Return the path of a place that is a file. Errors: `InvalidRequest`."""
    text = str(place)
    file = text.removeprefix("sqlite:///")
    if is_address(text):
        raise InvalidRequest(
            "this works on a database in a file", expected="a path or sqlite:///path", got=label_of(text)
        )
    if "://" in file:
        raise InvalidRequest(
            "a store is a file of SQLite or a database of PostgreSQL",
            expected="a path, sqlite:///path or postgresql://USER@HOST/DATABASE",
            got=text.partition("://")[0] + "://...",
        )
    return file


def file_beside(place: str | Path) -> str:
    """Return the path that files beside a store are named after: keys of sessions, tokens."""
    return BESIDE if is_address(place) else file_of(place)


def label_of(place: str | Path) -> str:
    """Return the name of a place as people may read it: an address loses its user and password."""
    text = str(place)
    return _SECRETS.sub("", text).rstrip("?&") if "://" in text else text


def exists(place: str | Path) -> bool:
    """Return True if there is a store, or at least a file. Errors: those of connecting to a server."""
    if is_address(place):
        return _postgres().has_store(str(place))
    return Path(file_of(place)).exists()


def open_store(
    place: str | Path, views: Sequence[View], *, fault: FaultHook | None = None, sealer: Sealer | None = None
) -> Store:
    """Open a store, creating and migrating it.

    Errors: those of the engine's store; `InvalidConfig` for an address without the extra `postgres`.
    """
    if is_address(place):
        return _postgres().PostgresStore(str(place), views, fault=fault, sealer=sealer)
    from artelier.log.sqlite.store import SqliteStore

    return SqliteStore(file_of(place), views, fault=fault, sealer=sealer)


def verify_place(
    place: str | Path, views: Sequence[View], *, head: str | None = None, sealer: Sealer | None = None
) -> Report:
    """Check a store that need not be open. `head` is a root printed earlier by `artelier head`.

    Errors: `NotFound` if there is none; `CorruptStore` or `NewerSchema` if it cannot be read as a store.
    """
    if is_address(place):
        return _postgres().verify_database(str(place), views, head=head, sealer=sealer)
    from artelier.log.sqlite.verify import verify_store

    return verify_store(file_of(place), views, head=head, sealer=sealer)


def read_server_facts(address: str) -> ServerFacts:
    """Return what the server at an address says of itself. Errors: those of connecting."""
    return _postgres().read_server_facts(address)


def snapshot_place(place: str | Path) -> AbstractContextManager[Database]:
    """Give one state of a store to read; nothing is migrated. Errors: `NotFound`, and the engine's."""
    if is_address(place):
        return _postgres().open_snapshot(str(place))
    from artelier.log.sqlite.store import open_snapshot

    return open_snapshot(file_of(place))


def connect_place(place: str | Path) -> AbstractContextManager[Database]:
    """Give a connection to the tables of a store that no store has open. Errors: the engine's."""
    if is_address(place):
        return _postgres().open_connection(str(place))
    from artelier.log.sqlite.store import open_connection

    return open_connection(file_of(place))


def _postgres() -> ModuleType:
    try:
        import artelier.log.postgres.store as postgres
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("psycopg"):
            raise
        raise InvalidConfig(
            "the driver of PostgreSQL is not installed",
            expected="the extra postgres",
            hint="pip install 'artelier[postgres]'",
        ) from None
    return postgres
