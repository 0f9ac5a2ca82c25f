"""A look into the texts of a workspace for a word of the question: the lines that have it, word for word."""

from __future__ import annotations

from typing import Any, cast

from artelier.models.offline import figures, lexicon
from artelier.models.offline.missions.evidence import Evidence, Next
from artelier.models.offline.parts import Part
from artelier.models.offline.text import ENDINGS
from artelier.models.offline.words import tokens

SEARCH = "search_text"
LINES_MAX = 3
LINE_CHARS_MAX = 300


def seen_in_texts(question: str, evidence: Evidence, calls: list[Next]) -> Part | None:
    """Return what the texts say on the question's first telling word; nothing if they do not have it.

    A search that was not made yet is added to the calls.
    """
    word = _word(question)
    given = {"query": word, "max_hits": 20}
    if not word:
        return None
    made = [one for one in evidence.calls if one.tool == SEARCH and one.arguments.get("query") == word]
    if not made:
        if evidence.has(SEARCH):
            calls.append(Next(tool=SEARCH, arguments=given, count=1))
        return None
    hits: Any = made[-1].fields.get("hits")
    lines = [line for line in map(_line, cast("list[Any]", hits)) if line] if isinstance(hits, list) else []
    if not lines:
        return None
    paths = dict.fromkeys(path for path, _ in lines[:LINES_MAX])
    text = "\n".join(line for _, line in lines[:LINES_MAX])
    return Part(
        title=f"What the texts say on {word}",
        sentences=(f"The texts have the word {figures.code(word)}, quoted word for word.",),
        quotes=(figures.block(text, "text"),),
        passages=(text,),
        sources=tuple(paths),
    )


def _line(hit: Any) -> tuple[str, str] | None:
    """Path and text of a hit in a text file; tables are read otherwise."""
    fields = cast("dict[str, Any]", hit) if isinstance(hit, dict) else {}
    path, text = fields.get("path"), fields.get("text", fields.get("line_text"))
    if not isinstance(path, str) or not isinstance(text, str) or not path.lower().endswith(ENDINGS):
        return None
    return path, " ".join(text.split())[:LINE_CHARS_MAX]


def _word(question: str) -> str:
    """The longest word that says something, the last of several."""
    words = [
        word.lower
        for word in tokens(question[:1_000])
        if word.kind == "word"
        and len(word.lower) > 3
        and word.lower.isalpha()
        and word.lower not in lexicon.FUNCTION_WORDS | lexicon.FILLERS
    ]
    return max(reversed(words), key=len, default="")
