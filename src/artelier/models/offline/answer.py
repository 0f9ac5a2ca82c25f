"""The parts of a report on tables and texts: what each clause of a question needs, asked for at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from artelier.errors import OfflineCannot
from artelier.models.offline import analysis, datelike
from artelier.models.offline.columns import Names
from artelier.models.offline.conversation import Ask, Desk, Wanted, gather
from artelier.models.offline.overview import is_overview, overview_part, skipped_notes
from artelier.models.offline.parts import Part, part_of
from artelier.models.offline.plan import answer
from artelier.models.offline.question import Clause, Question, question_from
from artelier.models.offline.reader import Reader
from artelier.models.offline.reading import Reading
from artelier.models.offline.schema import Table, skipped_from, tables_from
from artelier.models.offline.text import is_about_text, list_ask, text_part
from artelier.models.offline.values import Values, candidates, probes, values_from
from artelier.pii.placeholder import placeholders_in


def parts_for(text: str, desk: Desk) -> list[Part]:
    """The parts of the report that answers a question.

    Errors: `Wanted` while answers of tools are missing; `OfflineCannot` with the reason.
    """
    question = question_from(text)
    if not analysis.is_wanted(text):
        return _parts(question, desk)
    desk.require("describe_tables", "query_sql")
    (described,) = desk.ask(Ask(tool="describe_tables", arguments={}))
    return _analysed(question, analysis.questions(question, tables_from(described)), desk)


def _analysed(question: Question, asked: Sequence[str], desk: Desk) -> list[Part]:
    """The answers to what the question itself says, and to the plain questions made of it."""
    parts: list[Part] = []
    wanted: list[Wanted] = []
    failure: OfflineCannot | None = None
    for one in (question, *(question_from(text) for text in asked)):
        try:
            parts += [part for part in _parts(one, desk) if part.title not in {p.title for p in parts}]
        except Wanted as more:
            wanted.append(more)
        except OfflineCannot as reason:
            failure = failure or reason
    if wanted:
        raise gather(wanted)
    if not parts:
        raise failure or OfflineCannot("there is nothing to analyse")
    return parts


def _parts(question: Question, desk: Desk) -> list[Part]:
    """The parts of the report, one per clause; whatever several of them need is asked for at once."""
    if any(is_overview(clause) for clause in question.clauses):
        return _overview(question, desk)
    texts = [clause for clause in question.clauses if is_about_text(clause)]
    others = [clause for clause in question.clauses if clause not in texts]
    if texts:
        desk.require("list_dir", "read_file")
    if others:
        desk.require("describe_tables", "query_sql")
    first = [list_ask()] if texts else []
    if others:
        first.insert(0, Ask(tool="describe_tables", arguments={}))
    desk.ask(*first)
    makers: list[tuple[int, Callable[[], Part]]] = []
    for clause in texts:
        makers.append((clause.first, lambda clause=clause: text_part(clause, desk)))
    wanted: list[Wanted] = []
    try:
        for clause, reading in _readings(question, others, desk):
            makers.append((clause.first, lambda reading=reading: part_of(answer(reading, desk))))
    except Wanted as more:
        wanted.append(more)
    except OfflineCannot as failure:
        return [_quoted(others[0], desk, _unseen(others, failure))]
    parts = _made([make for _, make in sorted(makers, key=lambda pair: pair[0])], wanted)
    if others:
        (described,) = desk.ask(Ask(tool="describe_tables", arguments={}))
        unread = skipped_notes(skipped_from(described))
        parts[-1] = replace(parts[-1], notes=(*parts[-1].notes, *unread))
    return parts


def _unseen(clauses: Sequence[Clause], failure: OfflineCannot) -> OfflineCannot:
    """The failure, or what it comes from: a clause names personal data."""
    hidden = dict.fromkeys(name for clause in clauses for name in placeholders_in(clause.text))
    if not hidden:
        return failure
    return OfflineCannot(
        f"{', '.join(hidden)[:200]} stands for personal data: what reads tables is not given the value, so no"
        " row can be chosen by it",
        hint="Ask for all of them, such as `orders per email`, and find it in the report.",
        **failure.facts,
    )


def _quoted(clause: Clause, desk: Desk, failure: OfflineCannot) -> Part:
    """Passages for `Who ...?` and the like, of which no word means anything in the tables.

    Errors: the failure of the tables if that does not hold, or no passage has the words.
    """
    asks = clause.words[0].lower in ("who", "when", "what", "where")
    readable = desk.has("list_dir") and desk.has("read_file")
    if not (asks and readable and failure.facts.get("elsewhere")):
        raise failure
    try:
        return text_part(clause, desk)
    except OfflineCannot:
        raise failure from None


def _overview(question: Question, desk: Desk) -> list[Part]:
    """Errors: `OfflineCannot` if other questions stand beside it."""
    others = [clause.text for clause in question.clauses if not is_overview(clause)]
    if others:
        raise OfflineCannot(
            f'"{others[0]}" stands beside a question about the workspace itself',
            hint="Ask the two one after the other.",
        )
    asks = [Ask(tool="describe_tables", arguments={})]
    asks += [list_ask()] if desk.has("list_dir") else []
    described = desk.ask(*asks)[0]
    tables, skipped = tables_from(described), skipped_from(described)
    return [overview_part(clause, tables, skipped, desk) for clause in question.clauses]


def _made(makers: Sequence[Callable[[], Part]], wanted: list[Wanted]) -> list[Part]:
    parts: list[Part] = []
    for make in makers:
        try:
            parts.append(make())
        except Wanted as more:
            wanted.append(more)
    if wanted:
        raise gather(wanted)
    return parts


def _readings(question: Question, clauses: Sequence[Clause], desk: Desk) -> list[tuple[Clause, Reading]]:
    if not clauses:
        return []
    (described,) = desk.ask(Ask(tool="describe_tables", arguments={}))
    tables = tables_from(described)
    unread = " ".join(skipped_notes(skipped_from(described)))
    if not tables:
        hint = "Put a CSV or Parquet file into the workspace, or ask `What is in this folder?`."
        raise OfflineCannot("the workspace holds no table", hint=f"{hint} {unread}".strip())
    dated, cells = _probed(question, tables, desk)
    reader = Reader(question, Names(dated, cells))
    found: list[tuple[Clause, Reading]] = []
    for clause in clauses:
        context = found[-1][1] if found else None
        try:
            found += [(clause, reading) for reading in reader.read(clause, context)]
        except OfflineCannot as failure:
            facts = dict(failure.facts)
            if len(question.clauses) == 1 and not reader.matches(clause):
                facts["elsewhere"] = failure.facts["elsewhere"] = True
            if not unread:
                raise
            hint = f"{failure.hint or ''} {unread}".strip()
            raise OfflineCannot(
                failure.message, expected=failure.expected, got=failure.got, hint=hint, **facts
            ) from None
    return found


def _probed(question: Question, tables: Sequence[Table], desk: Desk) -> tuple[tuple[Table, ...], Values]:
    """The tables with their dates in text found out, and the cells that the question names."""
    asked = probes(tables, candidates(question.words, question.text))
    datelike_columns = datelike.candidates(tables)
    statements = [statement for statement, _ in asked]
    if datelike_columns:
        statements.append(datelike.probe(datelike_columns))
    rows = desk.query(*statements)
    cells = values_from((columns, found.rows) for (_, columns), found in zip(asked, rows, strict=False))
    if not datelike_columns:
        return tuple(tables), cells
    return datelike.with_dates(tables, datelike_columns, rows[-1]), cells
