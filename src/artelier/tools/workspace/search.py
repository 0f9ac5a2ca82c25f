"""Lines of text in the workspace: `search_text`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Any

import msgspec

from artelier.child import Child, ChildStopped, HelperFailure
from artelier.errors import ToolFailed
from artelier.tools.function import Tool, tool
from artelier.tools.worker.answers import LineHits
from artelier.tools.worker.tables import excerpts
from artelier.tools.workspace.files import WorkspaceFolder, read_noted_text, refuse_placeholders, walk

QUERY_CHARS_MAX = 1_000
FILE_BYTES_MAX = 8 * 1024 * 1024
TOTAL_BYTES_MAX = 64 * 1024 * 1024
SKIPPED_MAX = 20
"""Files that are no text, as far as they are named."""
PATTERN_S = 5.0
"""For all files of one search with a pattern."""

Hits = list[tuple[int, str, int]]
"""Number of the line, an excerpt of it, and the column at which that begins; both counted from 1."""
Matcher = Callable[[str, int], Hits]
"""The first lines of a text that match, at most so many."""


class LineHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line that matches."""

    path: str
    line: int
    """Counted from 1, as are columns."""
    text: str
    """The line, or an excerpt of it."""
    column: int = 1
    """The column at which the text begins; left out for 1."""


class SkippedFile(msgspec.Struct, frozen=True):
    """A file that was not searched as it is."""

    path: str
    reason: str


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a search, by path and line."""

    hits: list[LineHit]
    truncated: bool
    """True if there may be more."""
    skipped: list[SkippedFile] | msgspec.UnsetType = msgspec.UNSET
    """Left out if there are none, or if there are more hits than were asked for."""


def search(
    folder: WorkspaceFolder, query: str, path: str, *, hits_max: int, matcher: Matcher
) -> SearchAnswer:
    """Return the lines that match.

    Errors: `ToolFailed` for an empty query, or a path that can't be used.
    """
    if not query or len(query) > QUERY_CHARS_MAX:
        raise ToolFailed("not a query", expected=f"1 to {QUERY_CHARS_MAX} characters")
    hits: list[LineHit] = []
    paths, truncated = _files(folder, path)
    skipped: list[SkippedFile] = []
    for name, text, note in _texts(folder, paths):
        if note:
            skipped.append(SkippedFile(name, note))
        if text is None:
            truncated = True
            continue
        for line, shown, column in matcher(text, hits_max + 1 - len(hits)):
            hits.append(LineHit(path=name, line=line, text=shown, column=column))
        if len(hits) > hits_max:
            return SearchAnswer(hits=hits[:hits_max], truncated=True)
    return SearchAnswer(hits=hits, truncated=truncated, skipped=skipped[:SKIPPED_MAX] or msgspec.UNSET)


def _files(folder: WorkspaceFolder, path: str) -> tuple[list[str], bool]:
    try:
        entries, cut = walk(folder, path, recursive=True)
    except ToolFailed:
        with folder.file(path) as (_, state):
            return [state.path], False
    return [entry.path for entry in entries if entry.type == "file"], cut


def _texts(folder: WorkspaceFolder, paths: list[str]) -> Iterator[tuple[str, str | None, str]]:
    """Each text file and what is to say of it; no text where a bound leaves it out, an empty one for a file
    that is none.
    """
    total = 0
    for path in paths:
        try:
            with folder.file(path) as (_, state):
                size = state.size_bytes
            if size > FILE_BYTES_MAX or total + size > TOTAL_BYTES_MAX:
                yield path, None, ""
                continue
            text, _, note = read_noted_text(folder, path, bytes_max=FILE_BYTES_MAX)
        except ToolFailed as failure:
            yield path, "", "" if "is binary" in failure.message else failure.message
            continue
        total += size
        yield path, text, note


def plain_matcher(query: str) -> Matcher:
    """Lines that hold the text, upper and lower case alike."""
    wanted = query.casefold()

    def match(text: str, hits_max: int) -> Hits:
        if wanted not in text.casefold():
            return []
        lines = enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
        found = ((number, *excerpt) for number, line in lines for excerpt in excerpts(line, places(line)))
        return list(islice(found, hits_max))

    def places(line: str) -> Iterator[int]:
        folded = line.casefold()
        at = folded.find(wanted)
        while at >= 0:
            yield at
            at = folded.find(wanted, at + len(wanted))

    return match


class PatternMatcher:
    """Lines that a regular expression matches, found in a helper process that can be stopped."""

    def __init__(self, pattern: str, *, time_s: float = PATTERN_S) -> None:
        """Units: `time_s` is for all texts together. Errors: `ToolFailed` without a helper process."""
        self._pattern = pattern
        self._time_s = time_s
        self._child = Child()
        self._deadline = time.monotonic() + time_s

    def __call__(self, text: str, hits_max: int) -> Hits:
        message = {"ask": "match", "pattern": self._pattern, "text": text, "hits_max": hits_max}
        try:
            left_s = max(0.0, self._deadline - time.monotonic())
            answer = self._child.ask(message, answer=LineHits, timeout_s=left_s)
        except ChildStopped as stopped:
            if stopped.timed_out:
                raise ToolFailed(
                    f"the pattern took longer than {self._time_s:g} s",
                    hint="Avoid nested repetition such as (a+)+, or search for plain text.",
                ) from None
            raise ToolFailed("the pattern needs too much memory") from None
        if isinstance(answer, HelperFailure):
            raise ToolFailed(answer.message, hint=answer.hint)
        return answer.hits

    def close(self) -> None:
        self._child.close()


def search_tool(folder: WorkspaceFolder) -> Tool[..., object]:
    from pydantic import Field

    @tool(side_effect=False, timeout_s=60)
    def search_text(
        query: str,
        path: str = ".",
        regex: bool = False,
        max_hits: Annotated[int, Field(ge=1, le=1_000, description="Lines at most.")] = 50,
    ) -> dict[str, Any]:
        """Find lines in the text files of the workspace, below a folder or in one file. Plain text ignores
        case; with `regex` the query is a Python regular expression over single lines. Of a line above 500
        characters, the text around each place is shown; `column` says where that begins."""
        refuse_placeholders(query)
        if not regex:
            found = search(folder, query, path, hits_max=max_hits, matcher=plain_matcher(query))
            return msgspec.to_builtins(found)
        matcher = PatternMatcher(query)
        try:
            return msgspec.to_builtins(search(folder, query, path, hits_max=max_hits, matcher=matcher))
        finally:
            matcher.close()

    return search_text
