"""The answer to a question: what the workspace holds, passages of its texts, or figures of its tables.

A question is answered whole, or refused in one sentence with another question that is answered here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier_offline.conversation import Desk
from artelier_offline.grammar import Plan, candidates, parse
from artelier_offline.query import Grid, Part, answer, check
from artelier_offline.tables import PROFILE_ROWS_MAX, Profile, Table, profile_from, profile_sql, tables_from
from artelier_offline.words import IRREGULAR, block, code, listed, name_words, stems_of

CLAUSES_MAX = 3
CHARS_MAX = 1_000
GROUPS_MIN, GROUPS_SHOWN_MAX = 2, 50
"""Values of a column that a proposed question ranks."""

_CLAUSE = re.compile(r"[?;]+\s*|\.\s+|,?\s+and\s+(?=(?:what|which|how)\b)|,\s*(?=(?:what|which|how)\b)", re.I)

ENDINGS = (".md", ".markdown", ".txt", ".text", ".rst")
FILES_MAX = 8
PAGE_CHARS = 20_000
PAGES_MAX = 5
"""Of one file; a longer one is not searched."""
QUOTES_MAX = 5
QUOTE_CHARS_MAX = 1_500

OVERVIEW = "What is in this folder?"

_GENERIC = frozenset("note notes file files document documents text texts readme doc docs".split())
_ASKED = re.compile(
    r"(?i)\W*what (?:do|does) (?:the |our |my )?(?P<file>\w[\w ./-]{0,80}?) (?:say|mention) (?:about|on)"
    r" (?P<topic>[^?.,;]{2,120})[?.]*\s*"
)
_THINGS = r"(?:data|tables?|files?|workspace|folder|directory)"
_HERE = rf"(?:in )?(?:here|there|this|(?:the|this|my|our) {_THINGS})"
_OVERVIEW = re.compile(
    rf"(?i)\W*(?:what(?:'s| is| are)? (?:in )?{_HERE}|(?:which|what) (?:data|tables|files) (?:is|are) {_HERE}"
    r"|(?:which|what) (?:tables|files|data) do (?:we|i|you) have"
    rf"|(?:describe|list|show) (?:the |this |all )?{_THINGS})[?.!]*\s*"
)
_SENTENCE_WORDS = frozenset("why how what when where who which exactly".split())


def clauses_of(text: str) -> list[str]:
    """Return the questions of a text, each of which is answered for itself or leans on the one before."""
    return [one.strip() for one in _CLAUSE.split(" ".join(text.split())) if one.strip(" .,!?")]


def answers_to(text: str, desk: Desk) -> list[Part]:
    """Return the parts of the answer, one for each question.

    Errors: `Wanted` while answers are missing; `OfflineCannot` with a question that is answered.
    """
    clauses = clauses_of(text)
    if not clauses or len(clauses) > CLAUSES_MAX or len(text) > CHARS_MAX:
        raise OfflineCannot(f"this is not one to {CLAUSES_MAX} short questions; try: {OVERVIEW}")
    if any(map(is_overview, clauses)):
        if len(clauses) > 1:
            raise OfflineCannot(f"a question about the workspace stands beside another one; try: {OVERVIEW}")
        return [overview(desk)]
    texts = [one for one in clauses if is_about_text(one)]
    profile = _profile(text, desk) if len(texts) < len(clauses) else None
    try:
        parts: dict[str, Part] = {}
        plans = _plans([one for one in clauses if one not in texts], profile) if profile is not None else {}
        for one in clauses:
            parts[one] = passages(one, desk) if one in texts else answer(plans[one], profile, desk)  # pyright: ignore[reportArgumentType] - there is a profile where there are plans
        return list(parts.values())
    except OfflineCannot as failure:
        proposed = proposal(profile) if profile is not None else OVERVIEW
        raise _refused(failure, proposed) from None


def _refused(failure: OfflineCannot, question: str) -> OfflineCannot:
    return OfflineCannot(f"{failure.message.rstrip('.')}; try: {question}")


def _plans(clauses: list[str], profile: Profile) -> dict[str, Plan]:
    plans: dict[str, Plan] = {}
    before: Plan | None = None
    for one in clauses:
        before = plans[one] = parse(one, profile, before)
        check(before, profile)
    return plans


def _profile(text: str, desk: Desk) -> Profile:
    """Errors: `Wanted` until it is asked for; `OfflineCannot` if there is no table."""
    desk.require("describe_tables", "query_sql")
    try:
        tables, skipped = tables_from(desk.ask("describe_tables"))
        if not tables:
            note = f" ({skipped[0].rstrip('.')})" if skipped else ""
            raise OfflineCannot(f"the workspace holds no table that can be read{note}")
        statement = profile_sql(tables, candidates(text))
        return profile_from(tables, skipped, desk.ask("query_sql", sql=statement, max_rows=PROFILE_ROWS_MAX))
    except OfflineCannot as failure:
        raise _refused(failure, OVERVIEW) from None


def proposal(profile: Profile) -> str:
    """Return the first of some questions over these tables that can be parsed and passes all checks."""
    for question in _proposals(profile):
        try:
            check(parse(question, profile), profile)
        except OfflineCannot:
            continue
        return question
    return OVERVIEW


def _proposals(profile: Profile) -> Iterator[str]:
    """Totals first, then averages, then what can always be asked."""
    for aggregate in ("total", "average"):
        for table in profile.tables:
            yield from _figures(profile, table, aggregate)
    for table in profile.tables:
        yield f"How many rows are in {table.name}?"


def _figures(profile: Profile, table: Table, aggregate: str) -> Iterator[str]:
    if profile.rows[table.name]:
        groups = [
            one
            for one in table.of_type("text")
            if GROUPS_MIN <= profile.facts[one].distinct <= GROUPS_SHOWN_MAX
            and not one.is_identifier
            and len(one.words) <= 3
        ]
        measures = [one for one in table.columns if one.is_measure and profile.facts[one].filled]
        for measure in measures:
            if aggregate == "total" and not measure.is_additive:
                continue
            figure = f"{aggregate} {measure.name.replace('_', ' ')}"
            for group in groups:
                yield f"Which {' '.join(group.words)} has the highest {figure}?"
            yield f"What is the {figure}?"


# Texts, and the workspace itself


def is_overview(question: str) -> bool:
    """Return True if a question asks what the workspace holds."""
    return _OVERVIEW.fullmatch(question[:200]) is not None


def is_about_text(question: str) -> bool:
    """Return True if a question asks what a text says."""
    return _ASKED.fullmatch(question[:300]) is not None


def overview(desk: Desk) -> Part:
    """Return what the workspace holds: tables with columns, and texts. Errors: `Wanted`, `OfflineCannot`."""
    tables, skipped = (), ()
    if desk.has("describe_tables"):
        tables, skipped = tables_from(desk.ask("describe_tables"))
    else:
        desk.require("list_dir")
    texts = text_files(desk) if desk.has("list_dir") else []
    sentences = [
        f"{code(one.name)} has {len(one.columns)} columns: {_codes([c.name for c in one.columns[:20]])}."
        for one in tables[:20]
    ]
    if not tables:
        try_ = f"Ask `What does {texts[0]} say about TOPIC?`, or put" if texts else "To ask for some, put"
        sentences.append(
            f"There are 0 tables here, so no figures can be looked up. {try_} a CSV, JSON or xlsx file here."
        )
    if texts:
        sentences.append(f"Text files: {listed([code(path) for path in texts[:20]])}.")
    kinds = {"number": "numbers", "date": "dates"}
    shown = [
        (one.name, one.source, column.name, kinds.get(column.type, column.type))
        for one in tables
        for column in one.columns
    ]
    return Part(
        title="What is here",
        sentences=tuple(sentences),
        grids=(Grid(headings=("table", "source", "column", "holds"), rows=tuple(shown)),) if shown else (),
        notes=skipped,
        sources=tuple(dict.fromkeys([*(one.source for one in tables), *texts])) or ("list_dir",),
        figures=(("tables", len(tables)),),
    )


def text_files(desk: Desk) -> list[str]:
    """Return the text files of the workspace. Errors: `Wanted`; `OfflineCannot`."""
    answer = desk.ask("list_dir", path=".", recursive=True)
    fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    entries: list[Any] = fields.get("entries") or []
    if fields.get("truncated"):
        raise OfflineCannot("the workspace has more files than one listing shows")
    return [
        str(one["path"])
        for one in entries
        if one.get("type") == "file" and str(one["path"]).lower().endswith(ENDINGS)
    ]


def passages(question: str, desk: Desk) -> Part:
    """Return the passages that hold every word of the topic, word for word.

    Errors: `Wanted` until the files are read; `OfflineCannot` if no file is named, or no passage fits.
    """
    match = _ASKED.fullmatch(question[:300])
    assert match is not None
    topic = stems_of(match["topic"], skipping=_SENTENCE_WORDS)
    if not topic:
        raise OfflineCannot("the question names no topic to look for")
    files = _named(match["file"], text_files(desk))
    # Text holds a stem as it is, but for irregular words: one search saves reading every file.
    plain = [one for one in topic if one[-1] != "i" and one not in ("sell", *IRREGULAR.values())]
    holding = files
    if plain and len(files) > 1 and desk.has("search_text"):
        hits = desk.ask("search_text", query=max(plain, key=len), max_hits=1_000)
        if not hits["truncated"] and "skipped" not in hits:
            holding = [one for one in files if any(hit["path"] == one for hit in hits["hits"])]
    found = [
        (path, text)
        for path in holding
        for above, text in _passages(_read(path, desk))
        if set(topic) <= set(stems_of(f"{above} {text}"))
    ]
    if not found:
        words = " ".join(match["topic"].split())
        raise OfflineCannot(f'no passage of {_codes(files, "or")} has all of the words of "{words}"')
    shown, paths = found[:QUOTES_MAX], [path for path, _ in found]
    count = f"{len(found)} passages" if len(found) > 1 else "One passage"
    more = (f"{len(found) - len(shown)} more passages have these words.",) if len(found) > len(shown) else ()
    return Part(
        title=f"What {match['file']} says about {match['topic']}",
        sentences=(f"{count} of {_codes(paths)} on this, word for word:",),
        quotes=tuple(block(text[:QUOTE_CHARS_MAX], "text") for _, text in shown),
        notes=more,
        sources=tuple(dict.fromkeys(paths[:QUOTES_MAX])),
    )


def _codes(names: Sequence[str], word: str = "and") -> str:
    return listed([code(one) for one in dict.fromkeys(names)], word)


def _named(said: str, files: Sequence[str]) -> list[str]:
    """Return the files that a question names. Errors: `OfflineCannot` if none or too many are meant."""
    words = set(name_words(said)) - {"file"}
    exact = [path for path in files if path.lower() == said.strip().lower()]
    named = exact or [path for path in files if words and words <= set(name_words(path))]
    if not named and set(said.lower().split()) <= _GENERIC:
        named = list(files)
    if not named or len(named) > FILES_MAX:
        raise OfflineCannot(
            f'"{said}" does not say which text file is meant', got=", ".join(files[:20]) or "none"
        )
    return named


def _read(path: str, desk: Desk) -> str:
    text, offset = "", 0
    for _ in range(PAGES_MAX):
        page = desk.ask("read_file", path=path, offset=offset, limit=PAGE_CHARS)
        fields = cast("dict[str, Any]", page) if isinstance(page, dict) else {}
        text += str(fields.get("text", ""))
        following = fields.get("next_offset")
        if not isinstance(following, int) or following <= offset:
            return text
        offset = following
    raise OfflineCannot(f"{code(path)} is longer than the {PAGES_MAX * PAGE_CHARS} characters that are read")


def _passages(text: str) -> list[tuple[str, str]]:
    """Return paragraphs and list items below their heading, each with the larger headings above it."""
    found: list[tuple[str, str]] = []
    headings: list[str] = []
    for part in re.split(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t])|\n(?=#)", text):
        lines = part.strip("\n")
        if lines.startswith("#"):
            heading, _, lines = lines.partition("\n")
            depth = len(heading) - len(heading.lstrip("#"))
            headings = [*headings[: depth - 1], heading]
        if lines.strip():
            found.append((" ".join(headings[:-1]), f"{headings[-1]}\n\n{lines}" if headings else lines))
    return found
