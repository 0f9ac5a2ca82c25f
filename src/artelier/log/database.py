"""A connection to a store's tables, as the half of a store sees it that knows no engine.

The statements are in `log/rows/` and `log/views.py`; `log/writer.py`, `log/database_store.py`,
`log/erasure.py` and `log/verify.py` call those. SQLite's connection is in `log/sqlite/connection.py`,
PostgreSQL's in `log/postgres/connection.py`.

SQL is what both engines take: marks are `?`, what is made up by a row is asked for with RETURNING, flags are
integers, and an order that matters is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from artelier.errors import ArtelierError, NewerSchema
from artelier.log.contract import Row, Rows


class Database(Protocol):
    """A connection. Only one thread uses it at a time."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Execute a statement. One that writes may be sent later, with those behind it (see `flush`)."""
        ...

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object: ...

    def publish(self, statements: Iterable[str], /) -> None:
        """Have statements read what views publish, lower views first. Nothing is written."""
        ...

    def one(self, sql: str, parameters: Sequence[Any] = (), /) -> Row | None: ...

    def only(self, sql: str, parameters: Sequence[Any] = (), /) -> Row:
        """Return the row of a statement that always gives one."""
        ...

    def scan(self, sql: str, parameters: Sequence[Any] = (), /) -> Iterator[Row]:
        """Yield rows without having them all in memory. Only in a transaction, which stays open meanwhile."""
        ...

    def begin(self) -> None:
        """Begin to write: from here to the end of the transaction nobody else commits."""
        ...

    def flush(self) -> None:
        """Send what is queued, so that what it meets is raised here and nowhere else."""
        ...

    def commit(self, is_there: Callable[[], bool] | None = None) -> None:
        """End the transaction; what it wrote is durable when this returns.

        `is_there` looks for what it wrote: it decides where a server's answer to the commit never came.
        """
        ...

    def rollback(self) -> None: ...

    @property
    def in_transaction(self) -> bool: ...

    connections: int
    """Connections so far. Another one may be to a server that has lost commits."""

    def data_version(self) -> int:
        """Return a number that is another one once somebody else has committed. Cost: next to nothing."""
        ...

    def schema_version(self) -> int:
        """Return the version of the tables that are no views, as they are stored."""
        ...

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of every table, in their order."""
        ...

    def indexes(self) -> set[str]:
        """Return the names of all indexes."""
        ...

    def counters(self) -> dict[str, int]:
        """Return the last number that `keys` and `leases` gave to a row; such numbers never come back."""
        ...

    def set_counters(self, counters: Mapping[str, int], /) -> None:
        """Have tables number their rows from behind these numbers, and behind the rows that they have."""
        ...

    def is_read_only(self, error: BaseException, /) -> bool:
        """Return True if an error says that nothing can be written here."""
        ...

    def store_error(self, error: BaseException, /) -> ArtelierError | None:
        """Return the clear error behind one of the engine's; None for any other."""
        ...

    def batch_error(self, error: BaseException, /) -> ArtelierError | None:
        """Return the clear error of what one batch brought upon itself; its neighbours go on.

        None if the engine or its disk failed, and for errors of anybody else.
        """
        ...


def check_not_newer(version: int, known: int) -> None:
    """Errors: `NewerSchema` if tables have a version that this code does not know yet."""
    if version > known:
        raise NewerSchema(
            "this database was written by a newer Artelier; nothing was changed",
            expected=f"schema {known} or older",
            got=f"schema {version}",
            hint="Upgrade Artelier, or open another database.",
        )
