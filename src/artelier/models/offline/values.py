"""Values: which cells of the text columns the words of a question name.

One query per group of columns asks for the distinct values that equal some run of words of the question;
nothing is compared by likeness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from artelier.models.offline import sql
from artelier.models.offline.schema import Column, Table
from artelier.models.offline.words import Word, folded, lemma

WORDS_MAX = 6
"""Longest value, in words, that is looked for."""

COLUMNS_PER_QUERY = 40
FOLDED = "lower(trim(regexp_replace({0}, '[\\s_-]+', ' ', 'g')))"
"""`words.folded` in SQL."""

EXACT, VARIANT = 25, 22
"""How strong a match is; see `columns.py` for the scale."""


@dataclass(frozen=True, slots=True)
class Values:
    """Found values by their folded form."""

    found: Mapping[str, tuple[tuple[Column, str], ...]]

    def of(self, form: str, column: Column) -> tuple[str, ...]:
        """The values of a column with this folded form."""
        return tuple(value for one, value in self.found.get(form, ()) if one == column)

    def at(self, words: Sequence[Word], text: str) -> tuple[int, dict[Column, tuple[str, ...]]] | None:
        """The strength and, per column, the values which these words name."""
        for strength, forms in ((EXACT, _exact(words, text)), (VARIANT, _variants(words, text))):
            columns: dict[Column, list[str]] = {}
            for form in forms:
                for column, value in self.found.get(form, ()):
                    columns.setdefault(column, [])
                    if value not in columns[column]:
                        columns[column].append(value)
            if columns:
                return strength, {column: tuple(found) for column, found in columns.items()}
        return None


def _exact(words: Sequence[Word], text: str) -> list[str]:
    if len(words) == 1:
        return [folded(words[0].text)]
    return [folded(text[words[0].start : words[-1].end])]


def _variants(words: Sequence[Word], text: str) -> list[str]:
    """Without a possessive, and with the last word in singular or plural."""
    exact = _exact(words, text)[0]
    last = words[-1].lower
    if words[-1].kind != "word" or len(last) < 3 or not exact.endswith(last):
        return []
    front = exact[: len(exact) - len(last)]
    bare = last.removesuffix("'s").removesuffix("'")
    one = lemma(bare)
    forms = (bare, one, bare.removesuffix("s"), bare + "s", one + "s", bare.removesuffix("es"))
    return [front + form for form in dict.fromkeys(forms) if form != last and len(form) > 1]


ALWAYS = ("yes", "no", "y", "n", "true", "false")
"""Asked for in any case: they show which text columns answer a question with yes or no."""


def candidates(words: Sequence[Word], text: str) -> list[str]:
    """Every form that a value could have, in the order of the question."""
    forms: dict[str, None] = {}
    for start in range(len(words)):
        for end in range(start + 1, min(start + WORDS_MAX, len(words)) + 1):
            run = words[start:end]
            if any(word.text == "?" for word in run) or run[0].kind == run[-1].kind == "mark":
                break
            forms.update(dict.fromkeys(_exact(run, text)))
            forms.update(dict.fromkeys(_variants(run, text)))
    forms.update(dict.fromkeys(ALWAYS))
    return [form for form in forms if form]


def probes(tables: Iterable[Table], forms: Sequence[str]) -> list[tuple[str, tuple[Column, ...]]]:
    """The queries to ask, each with the columns that its `place` numbers count."""
    texts = [
        column
        for table in tables
        for column in table.columns
        if column.type == "text" and not column.type_name.upper().startswith("UUID")
    ]
    groups = [
        tuple(texts[start : start + COLUMNS_PER_QUERY]) for start in range(0, len(texts), COLUMNS_PER_QUERY)
    ]
    return [(_probe(group, forms), group) for group in groups] if forms else []


def _probe(columns: Sequence[Column], forms: Sequence[str]) -> str:
    words = ", ".join(f"({sql.literal(form)})" for form in forms)
    parts = [
        f"SELECT {place} AS place, value, {FOLDED.format('value')} AS folded\n"
        f"  FROM (SELECT DISTINCT CAST({sql.identifier(column.name)} AS VARCHAR) AS value"
        f" FROM {sql.identifier(column.table)})"
        for place, column in enumerate(columns)
    ]
    union = "\n  UNION ALL ".join(parts)
    return (
        f"WITH words(word) AS (VALUES {words})\n"
        f"SELECT place, value, folded FROM (\n  {union}\n)\n"
        "WHERE folded IN (SELECT word FROM words) ORDER BY place, folded, value"
    )


def values_from(answers: Iterable[tuple[tuple[Column, ...], Sequence[Sequence[object]]]]) -> Values:
    """The values of answered probes: the columns of each with its rows."""
    found: dict[str, list[tuple[Column, str]]] = {}
    for columns, rows in answers:
        for place, value, form in rows:
            if isinstance(place, int) and isinstance(form, str) and 0 <= place < len(columns):
                found.setdefault(form, []).append((columns[place], str(value)))
    return Values(found={form: tuple(pairs) for form, pairs in found.items()})
