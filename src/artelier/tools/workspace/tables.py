"""Tables of the workspace: `describe_tables` and `query_sql` over the files of `KINDS`."""

from __future__ import annotations

import contextlib
import os
import posixpath
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from artelier.child import A, Child, ChildStopped, HelperFailure
from artelier.confinement import Needs
from artelier.errors import ToolFailed
from artelier.tools.function import Tool, tool
from artelier.tools.worker.answers import (
    LoadAnswer,
    QueryRows,
    SkippedSource,
    TablesAnswer,
    TablesFound,
    TableSource,
)
from artelier.tools.workspace.files import FileState, WorkspaceFolder, refuse_placeholders, walk

FILES_MAX = 100
FILE_BYTES_MAX = 200 * 1024 * 1024
TOTAL_BYTES_MAX = 500 * 1024 * 1024
"""Of all files together, so that they fit into the helper's memory."""
LOAD_S = 90.0
"""For all files together."""
FILE_S = 30.0
"""For one file: a slow one is left out, and the others are tables all the same."""
STOPPED_MAX = 3
"""Files that end the helper process; after so many, nothing is loaded."""
QUERY_S = 20.0
GRACE_S = 2.0
"""How long past its time a query may go on before the helper process is killed."""

NEEDS = Needs(
    preload=(
        "duckdb",
        "python_calamine",
        *(f"encodings.{codec}" for codec in ("utf_8_sig", "utf_16", "cp1252", "cp437")),  # ZIP: cp437
    ),
    # DuckDB asks how much memory there is, and ends its process where these exist and cannot be read.
    files=("/proc/self/cgroup", "/sys/fs/cgroup"),
    scratch_bytes=2 * 1024 * 1024 * 1024,
)
"""What the helper needs for tables. Rows that are no text of a file enter DuckDB by a file in memory."""

KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xlsx": "workbook",
    ".xlsm": "workbook",
    ".xls": "workbook",
    ".ods": "workbook",
    ".log": "log",
}


_open: weakref.WeakValueDictionary[str, WorkspaceTables] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def tables_of(folder: WorkspaceFolder) -> WorkspaceTables:
    """The tables of a folder; tools over the same folder share them while any of them lives."""
    with _opening:
        tables = _open.get(folder.identity)
        if tables is None:
            tables = _open[folder.identity] = WorkspaceTables(folder)
        return tables


class WorkspaceTables:
    """The tables of a workspace, loaded once per state of its files."""

    def __init__(self, folder: WorkspaceFolder, *, query_s: float = QUERY_S, file_s: float = FILE_S) -> None:
        self._folder = folder
        self._file_s = file_s
        self._query_s = query_s
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._state: tuple[FileState, ...] = ()
        self._found = TablesFound(tables=[], skipped=[])

    def describe(self) -> TablesFound:
        """Return what can be read, and what can't. Errors: `ToolFailed`."""
        with self._lock:
            self._load()
            return self._found

    def query(self, sql: str, *, rows_max: int) -> QueryRows:
        """The rows of a reading statement. Errors: `ToolFailed`."""
        with self._lock:
            child = self._load()
            message = {"ask": "query", "sql": sql, "rows_max": rows_max, "time_s": self._query_s}
            try:
                answer = child.ask(message, answer=QueryRows, timeout_s=self._query_s + GRACE_S)
            except ChildStopped as stopped:
                raise _stopped_error("the query", stopped, limit_s=self._query_s) from None
            return _result(answer)

    def _load(self) -> Child:
        """A helper that holds the files as they are now."""
        with contextlib.ExitStack() as opened:
            sources, states, skipped = self._sources(opened)
            if self._child is not None and self._child.alive and states == self._state:
                return self._child
            if self._child is not None:
                self._child.close()
            child, found = self._loaded(sources)
        left_out = sorted([*skipped, *found.skipped], key=lambda item: item.source)
        self._child, self._state = child, states
        self._found = TablesFound(tables=found.tables, skipped=left_out)
        return child

    def _loaded(self, sources: list[TableSource]) -> tuple[Child, TablesFound]:
        """Return a helper that holds every source but those that end it. Errors: `ToolFailed`."""
        stopped: list[SkippedSource] = []
        deadline = time.monotonic() + LOAD_S
        while True:
            needs = NEEDS._replace(files=(*NEEDS.files, *_beside(sources)))
            child = Child(descriptors=[source.descriptor for source in sources], needs=needs)
            skipped: list[SkippedSource] = []
            source: TableSource | None = None
            try:
                for source in sources:
                    left = deadline - time.monotonic()
                    message = {"ask": "load", "source": source}
                    time_s = max(0.1, min(left, self._file_s))
                    skipped += _result(child.ask(message, answer=LoadAnswer, timeout_s=time_s)).skipped
                source = None
                answer = _result(child.ask({"ask": "lock"}, answer=TablesAnswer, timeout_s=LOAD_S))
                return child, TablesFound(tables=answer.tables, skipped=[*skipped, *stopped])
            except ChildStopped as ended:
                error = _stopped_error("loading the tables", ended, limit_s=LOAD_S)
                if source is None or len(stopped) >= STOPPED_MAX or time.monotonic() >= deadline:
                    raise error from None
                reason = _stopped_error("reading it", ended, limit_s=self._file_s).message
                stopped.append(SkippedSource(source.source, reason))
                sources = [one for one in sources if one is not source]
            except ToolFailed:
                child.close()
                raise

    def _sources(
        self, opened: contextlib.ExitStack
    ) -> tuple[list[TableSource], tuple[FileState, ...], list[SkippedSource]]:
        """Open every table file: what the helper is told, the state, and what is left out."""
        sources: list[TableSource] = []
        states: list[FileState] = []
        skipped: list[SkippedSource] = []
        total = 0
        for path, kind in self._candidates():
            try:
                descriptor, state = opened.enter_context(self._folder.file(path))
            except ToolFailed as failure:
                skipped.append(SkippedSource(path, failure.message))
                continue
            reason = _over_bounds(state, count=len(sources), total=total)
            if reason is not None:
                skipped.append(SkippedSource(path, reason))
                continue
            total += state.size_bytes
            states += [state, *self._pending(path, kind)]
            stem = posixpath.splitext(posixpath.basename(path))[0]
            sources.append(TableSource(source=path, stem=stem, kind=kind, descriptor=descriptor))
        return sources, tuple(states), skipped

    def _pending(self, path: str, kind: str) -> list[FileState]:
        """Changes of an SQLite database may still stand in the file beside it."""
        if kind != "sqlite":
            return []
        try:
            with self._folder.file(f"{path}-wal") as (_, state):
                return [state]
        except ToolFailed:
            return []

    def _candidates(self) -> list[tuple[str, str]]:
        entries, _ = walk(self._folder, ".", recursive=True)
        found: list[tuple[str, str]] = []
        for entry in entries:
            kind = KINDS.get(posixpath.splitext(entry.path)[1].lower())
            if kind is not None and entry.type == "file":
                found.append((entry.path, kind))
        return found


def _beside(sources: list[TableSource]) -> Iterator[str]:
    """Yield the files in which SQLite keeps changes that are not in the database itself yet."""
    for source in sources:
        if source.kind == "sqlite":
            with contextlib.suppress(OSError):  # no such folder on this system
                path = os.readlink(f"/proc/self/fd/{source.descriptor}")
                yield from (f"{path}-wal", f"{path}-shm")


def _over_bounds(state: FileState, *, count: int, total: int) -> str | None:
    if count >= FILES_MAX:
        return f"more than {FILES_MAX} table files"
    if state.size_bytes > FILE_BYTES_MAX:
        return f"{state.size_bytes} bytes, more than {FILE_BYTES_MAX}"
    if total + state.size_bytes > TOTAL_BYTES_MAX:
        return f"the table files together have more than {TOTAL_BYTES_MAX} bytes"
    return None


def _stopped_error(what: str, stopped: ChildStopped, *, limit_s: float) -> ToolFailed:
    if stopped.timed_out:
        return ToolFailed(f"{what} took longer than {limit_s:g} s and was stopped")
    return ToolFailed(f"{what} ended the helper process, probably for its memory")


def _result(answer: A | HelperFailure) -> A:
    if isinstance(answer, HelperFailure):
        raise ToolFailed(answer.message, hint=answer.hint)
    return answer


def table_tools(folder: WorkspaceFolder) -> list[Tool[..., object]]:
    from pydantic import Field

    tables = tables_of(folder)

    @tool(side_effect=False, timeout_s=LOAD_S + 30)
    def describe_tables() -> dict[str, Any]:
        """List the tables that query_sql can read, with their columns, types and number of rows: every CSV,
        TSV, JSON, JSONL, Excel, Parquet and SQLite file of the workspace, and each log as its lines. A note
        says how values are written, or what could not be told. What could not be read is listed with the
        reason.
        """
        return msgspec.to_builtins(tables.describe())

    @tool(side_effect=False, timeout_s=LOAD_S + QUERY_S + 30)
    def query_sql(
        sql: str, max_rows: Annotated[int, Field(ge=1, le=10_000, description="Rows at most.")] = 200
    ) -> dict[str, Any]:
        """Run one read-only SQL query (DuckDB dialect) over the tables of describe_tables. Rows have no
        order without ORDER BY."""
        refuse_placeholders(sql)
        return msgspec.to_builtins(tables.query(sql, rows_max=max_rows))

    return [describe_tables, query_sql]
