"""Questions about the workspace itself: `What is in here?`, `Which columns does the table have?`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from artelier.errors import OfflineCannot
from artelier.models.offline.conversation import Desk
from artelier.models.offline.figures import code
from artelier.models.offline.parts import Grid, Part
from artelier.models.offline.phrases import listed
from artelier.models.offline.question import Clause
from artelier.models.offline.schema import Skipped, Table
from artelier.models.offline.text import list_ask, text_files
from artelier.models.offline.words import stem

_THINGS = r"(?:data|data ?sets?|tables?|files?|contents?|workspace|folder|directory|columns?|schema)"
_HERE = r"(?:in )?(?:here|there|it|this|inside|available|the (?:workspace|folder|directory|data))"
_ASKED = re.compile(
    rf"(?:what(?:'s| is| are|s)?|which) (?:all )?(?:the )?(?:{_THINGS} )?(?:is |are |do (?:i|we|you) )?"
    rf"(?:{_HERE}|have|there (?:is|are))(?: {_HERE})*"
    rf"|(?:describe |list |show )?(?:all )?(?:the |this |my |our )?(?:available )?{_THINGS}"
    rf"(?: and {_THINGS})?(?: {_HERE})?"
    rf"|what (?:is|are) (?:in )?(?:the |this |my |our )?{_THINGS}"
)
_COLUMNS = re.compile(
    r"(?:what|which) (?:are the )?columns (?:does|do|are in|are there in|of|in|has|is in) .+"
    r"|(?:the )?columns (?:of|in) .+|describe (?:the )?(?:table \S+|\S+ table)"
)


def is_overview(clause: Clause) -> bool:
    """Return True if a clause asks what the workspace holds."""
    text = _plain(clause)
    return bool(_ASKED.fullmatch(text) or _COLUMNS.fullmatch(text)) and "missing" not in text


def _plain(clause: Clause) -> str:
    return " ".join(clause.text.lower().rstrip("?.! ").split())


def overview_part(clause: Clause, tables: Sequence[Table], skipped: Sequence[Skipped], desk: Desk) -> Part:
    """The tables with their rows and columns, and the text files.

    Errors: `Wanted` until the files are listed; `OfflineCannot` for columns of a table that is not there.
    """
    texts = text_files(desk.ask(list_ask())[0]) if desk.has("list_dir") else []
    named = _named(clause, tables)
    if not _ASKED.fullmatch(_plain(clause)):
        if not named:
            names = listed([code(table.name) for table in tables[:20]]) or "none"
            raise OfflineCannot(
                f'"{clause.text}" names no table that is here', hint=f"The tables are: {names}."
            )
        tables, texts, skipped = named, [], ()
    shown = [
        (table.name, table.source, table.rows, column.name, column.kind_name)
        for table in tables
        for column in table.columns
    ]
    sentences = [
        f"{code(table.name)} has {table.rows} rows and {len(table.columns)} columns:"
        f" {listed([code(column.name) for column in table.columns[:20]])}."
        for table in tables
    ]
    if not tables:
        sentences.append(f"There are 0 tables here, so no figures can be looked up. {_works(texts)}")
    if texts:
        sentences.append(f"Text files: {listed([code(path) for path in texts[:20]])}.")
    headings = ("table", "source", "rows", "column", "holds")
    return Part(
        title="What is here",
        sentences=tuple(sentences),
        grids=(Grid(headings=headings, rows=tuple(shown)),) if shown else (),
        notes=tuple(skipped_notes(skipped)),
        # That a folder holds nothing is known from its listing alone.
        sources=tuple(dict.fromkeys([*(table.source for table in tables), *texts])) or ("list_dir",),
        scalars=(("tables", len(tables)),),
    )


def _works(texts: Sequence[str]) -> str:
    """Return what can be asked where no table is, in a sentence."""
    table = "put a CSV or Parquet file here, and `How many rows are there?` has an answer."
    if not texts:
        return f"To ask for some, {table}"
    return f"Ask `What does {texts[0]} say about TOPIC?`, or {table}"


def _named(clause: Clause, tables: Sequence[Table]) -> list[Table]:
    said = {stem(word.lower) for word in clause.words}
    return [table for table in tables if table.stems and set(table.stems) <= said]


def skipped_notes(skipped: Sequence[Skipped]) -> list[str]:
    """Files that look like tables but could not be read as such, with the reason."""
    return [f"Not read: {code(one.source)}, {one.reason.rstrip('.')}." for one in skipped[:5]]
