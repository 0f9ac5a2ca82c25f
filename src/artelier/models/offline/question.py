"""The question: where it stands in a request, and how it falls into clauses.

Requests about the form of the answer (`write a report`, `as a table`) are taken off here, since the answer
always is a report with tables. A clause is what one part of the answer will be about.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from artelier.errors import OfflineCannot
from artelier.models.offline import lexicon
from artelier.models.offline.words import Word, tokens

CHARS_MAX = 1_500
WORDS_MAX = 160
CLAUSES_MAX = 6

_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")
_TAGGED = re.compile(r"^\s*<([A-Za-z][\w.-]*)(?:\s[^<>\n]*)?>")
_ABBREVIATIONS = frozenset("st dr mr mrs ms no vs inc co approx jan feb mar apr jun jul aug sep".split())
_OPENERS = frozenset("what which how who whom when where list show give tell find compute".split())
_PREPOSITIONS = frozenset("in on at by for from during of to".split())
_POLITE = (
    "please",
    "kindly",
    "hi",
    "hello",
    "hey",
    "ok",
    "okay",
    "so",
    "now",
    "then",
    "also",
    "and",
    "could you",
    "can you",
    "would you",
    "will you",
    "could we",
    "can we",
    "tell me",
    "show me",
    "give me",
    "find me",
    "let me know",
    "i want to know",
    "i want to see",
    "i would like to know",
    "i need to know",
    "i need",
    "i want",
    "i would like to see",
    "i would like",
    "i wonder",
    "do you know",
    "tell us",
    "show us",
    "give us",
    "i am wondering",
    "we need to know",
    "we need",
    "find out",
    "work out",
    "figure out",
    "calculate",
    "compute",
    "determine",
    "find",
    "list",
    "show",
    "display",
    "name",
    "report",
    "give",
    "tell",
    "return",
    "get",
    "identify",
    "me",
    "us",
    "thanks",
    "analyse",
    "analyze",
    "look at",
    "check",
    "see",
    "say",
    "print",
    "output",
    "write down",
    "would like to know",
    "from the data",
    "based on the data",
    "using the data",
    "count up",
    "in the data",
    "provide",
    "summarise",
    "summarize",
    "state",
    "i'd like to know",
    "break down",
)
_FORM = re.compile(
    r"(?:^|[,;]?\s+(?:and\s+|then\s+|also\s+)*)(?:please\s+|and\s+|then\s+|also\s+|finally\s+)*"
    r"(?:(?:write|make|create|produce|prepare|draft|present|put|format|return|compile|generate|"
    r"give(?:\s+me|\s+us)?|show(?:\s+me|\s+us)?|provide|report|summari[sz]e|deliver|save|answer|"
    r"respond|reply|include|add|use|print|output)\s+)"
    r"(?:(?:it|that|this|them|the|a|an|your|me|us|all|up|down|out|short|brief|small|nice|clear|concise|"
    r"simple|full|one-page|one-paragraph|final|markdown|results?|answers?|findings?|numbers?|figures?|"
    r"data|as|in|into|to|with|of|for|on|well|too|also|form|format|style|based|these|those|the|questions?|"
    r"everything|both|and|summary|overview)\s+)*"
    r"(?:reports?|tables?|summar(?:y|ies)|markdown|overviews?|write-?ups?|memos?|notes?|files?|"
    r"lists?|results?|findings?|answers?)"
    r"(?:\s+(?:please|about|of|on|with|for|from|based)?\s*(?:it|that|this|them|the|these|those|your|"
    r"results?|findings?|answers?|numbers?|figures?|data|below|too|as well|in)*)*\s*$",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"[,;]?\s+(?:as|in|into|with|using)\s+(?:a|an|the|one)?\s*(?:short|brief|small|nice|clear|concise|"
    r"simple|markdown|single)?\s*(?:report|table|summary|list|overview|tabular form|table form|"
    r"markdown|report form|tables)\s*$",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"^(?:please\s+)?(?:write|make|create|produce|prepare|draft|give(?:\s+me|\s+us)?|compile|generate|"
    r"show(?:\s+me|\s+us)?|build|provide|present)\s+(?:me\s+|us\s+)?(?:a|an|the|one)\s+"
    r"(?:short|brief|small|nice|clear|concise|simple|full|markdown)?\s*"
    r"(?:report|table|summary|overview|list|listing|breakdown|memo)\s+"
    r"(?:of|on|about|with|showing|that shows|which shows|for|listing|that lists|containing|answering)\s+"
    r"(?=\S)",
    re.IGNORECASE,
)
_CANNOT_DRAW = re.compile(
    r"\b(charts?|plots?|graphs?|diagrams?|histograms?|visuali[sz]\w+|dashboards?)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One part of the question."""

    words: tuple[Word, ...]
    text: str
    """As asked."""
    first: int
    """Where its words start among the words of the whole question."""
    joined: bool
    """Whether it continues the sentence of the clause before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    text: str
    """Cleaned: one line, no control characters, no requests about form."""
    words: tuple[Word, ...]
    clauses: tuple[Clause, ...]


def question_from(raw: str) -> Question:
    """The question in a message.

    Errors: `OfflineCannot` if there is none, if it is too long, or if it asks for a picture.
    """
    text = clean(raw)
    if not text:
        raise OfflineCannot("there is no question", hint="Ask one about a table in the workspace.")
    if match := _CANNOT_DRAW.search(text):
        raise OfflineCannot(
            f'"{match.group()}": the offline model writes words and tables and draws nothing',
            hint="Ask for the numbers, for example `total ... by ...`.",
        )
    text = _without_form(text)
    words = tokens(text)
    if len(words) > WORDS_MAX:
        raise _too_long(f"{len(words)} words")
    clauses = _clauses(words, text)
    if not clauses:
        raise OfflineCannot("there is no question", hint="Ask one about a table in the workspace.")
    if len(clauses) > CLAUSES_MAX:
        raise _too_long(f"{len(clauses)} parts")
    return Question(text=text, words=words, clauses=tuple(clauses))


def _too_long(got: str) -> OfflineCannot:
    return OfflineCannot(
        "the question is too long for the offline model",
        expected=f"at most {CHARS_MAX} characters, {WORDS_MAX} words, {CLAUSES_MAX} parts",
        got=got,
        hint="Ask one or two plain sentences.",
    )


def clean(raw: str) -> str:
    """The text without tagged sections, fences and control characters, on one line.

    Errors: `OfflineCannot` if what is left is too long. Cost: linear.
    """
    lines: list[str] = []
    closing = ""
    size = 0
    for line in raw.splitlines():
        if closing:
            closing = "" if line.rstrip().endswith(closing) else closing
            continue
        if line.lstrip().startswith("```"):
            closing = "```"
            continue
        if match := _TAGGED.match(line[:200]):
            end = f"</{match[1]}>"
            closing = "" if line.rstrip().endswith(end) else end
            continue
        size += len(line)
        if size > CHARS_MAX * 4:
            raise _too_long(f"{len(raw)} characters")
        lines.append(line)
    joined = "".join(_plain(character) for character in " ".join(lines))
    text = " ".join(unicodedata.normalize("NFC", joined).split())
    if len(text) > CHARS_MAX:
        raise _too_long(f"{len(text)} characters")
    return text


def _plain(character: str) -> str:
    if character in "’‘ʼ`´":
        return "'" if character != "`" else "`"
    category = unicodedata.category(character)
    if category == "Cf":
        return ""  # invisible: a soft hyphen, a zero-width space
    return " " if category in ("Cc", "Zl", "Zp", "Cs", "Co") else character


def _sentences(text: str) -> list[str]:
    """Split at `.`, `?`, `!` and `;` before a space or the end, but not after an abbreviation."""
    found: list[str] = []
    start = 0
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    for match in re.finditer(r"[.?!;]+(?=\s|$)", text):
        if any(first < match.start() < last - 1 for first, last in quoted):
            continue
        before = re.search(r"([^\W\d_]+)$", text[start : match.start()])
        if match.group() == "." and before and match.end() < len(text):
            word = before.group()
            if word.lower() in _ABBREVIATIONS or len(word) == 1:
                continue
        found.append(text[start : match.end()])
        start = match.end()
    found.append(text[start:])
    return [sentence.strip() for sentence in found if sentence.strip(" .?!;")]


def _without_form(text: str) -> str:
    """The sentences without requests about the form of the answer."""
    kept: list[str] = []
    for sentence in _sentences(text):
        end = sentence[-1] if sentence[-1] in ".?!;" else ""
        body = sentence.rstrip(".?!; ")
        body = _LEAD.sub("", body)
        body = _FORM.sub("", body)
        body = _TAIL.sub("", body)
        if body.strip(" ,"):
            kept.append(body.strip(" ,") + (end or "."))
    return " ".join(kept) if kept else text


def _clauses(words: tuple[Word, ...], text: str) -> list[Clause]:
    clauses: list[Clause] = []
    start = 0
    for at in range(len(words) + 1):
        if at < len(words) and (not _breaks(words, at, text) or _is_adjunct(words, start, at)):
            continue
        joined = (start > 0 and words[start].text in (",",)) or words[start].lower == "and"
        clause = _clause(words, start, at, text, joined=joined and bool(clauses))
        if clause is not None:
            clauses.append(clause)
        start = at
    return clauses


_ADJUNCTS = frozenset(
    "in during for by since before after per from between among of at on within throughout until with"
    " across over".split()
)


def _is_adjunct(words: tuple[Word, ...], start: int, at: int) -> bool:
    """`In 2023, which ...`, `For each city, what ...`: what leads a question belongs to it."""
    if words[at - 1].kind == "mark" and words[at - 1].text in ".?!;":
        return False
    lead = [word for word in words[start:at] if word.kind != "mark"]
    if not lead or lead[0].lower not in _ADJUNCTS:
        return False
    return not any(word.lower in _OPENERS for word in lead)


def _breaks(words: tuple[Word, ...], at: int, text: str) -> bool:
    """Return True if a new clause starts at this word."""
    if at == 0:
        return False
    before = words[at - 1]
    if before.kind == "mark" and before.text in "?!;":
        return True
    if before.text == "." and text[before.end : before.end + 1] in (" ", ""):
        previous = words[at - 2] if at > 1 else None
        is_short = previous is not None and (
            previous.lower in _ABBREVIATIONS or (len(previous.text) == 1 and previous.kind == "word")
        )
        return not is_short
    if words[at].text == "," and _follows_source(words, at):
        return False
    if words[at].lower == "and" or words[at].text == ",":
        return _opens(words, at + 1) and _has_content(words, at)
    return False


def _follows_source(words: tuple[Word, ...], at: int) -> bool:
    """`According to the notes, how many ...` is one clause."""
    said = [word.lower for word in words[max(0, at - 8) : at]]
    return "according" in said and "?" not in said


def _opens(words: tuple[Word, ...], at: int) -> bool:
    """Return True if a question starts here: `what ...`, `in which ...`, `also show ...`."""
    while at < len(words) and words[at].lower in ("and", "also", "then", "please", "now", ","):
        at += 1
    if at + 1 < len(words) and words[at].lower in _PREPOSITIONS:
        return words[at + 1].lower in ("what", "which", "how", "whom")
    if at >= len(words) or words[at].lower not in _OPENERS:
        return False
    return words[at].kind == "word"


def _has_content(words: tuple[Word, ...], at: int) -> bool:
    """Return True if the words before this place, back to the clause's start, say anything."""
    return any(word.kind != "mark" and word.lower not in lexicon.FILLERS for word in words[:at])


def _clause(words: tuple[Word, ...], start: int, end: int, text: str, *, joined: bool) -> Clause | None:
    """The words of a clause without marks at its ends and without politeness."""
    while start < end:
        if words[start].kind == "mark" and words[start].text in ",.?!;:-–—)":
            start += 1
            continue
        taken = _polite(words, start, end)
        if not taken:
            break
        start += taken
    while end > start and (
        (words[end - 1].kind == "mark" and words[end - 1].text in ",.?!;:-–—(")
        or words[end - 1].lower in ("please", "thanks", "and")
    ):
        end -= 1
    if start == end:
        return None
    span = text[words[start].start : words[end - 1].end]
    return Clause(words=words[start:end], text=span, first=start, joined=joined)


def _polite(words: tuple[Word, ...], start: int, end: int) -> int:
    """Return how many words of politeness stand here."""
    for phrase in _POLITE_WORDS:
        if tuple(word.lower for word in words[start : start + len(phrase)]) == phrase:
            if start + len(phrase) <= end and not _is_noun_use(words, start, end, phrase):
                return len(phrase)
    return 0


def _is_noun_use(words: tuple[Word, ...], start: int, end: int, phrase: tuple[str, ...]) -> bool:
    """`name`, `report`, `state`, `count` at the start may be the name of a column: `state with most`."""
    if phrase[-1] not in ("name", "report", "state", "list", "check", "output", "return", "print"):
        return False
    following = words[start + len(phrase)].lower if start + len(phrase) < end else ""
    return following in ("", "with", "is", "of", "has", "by", "was", "are", "were", "per")


_POLITE_WORDS = tuple(sorted((tuple(phrase.split()) for phrase in _POLITE), key=lambda phrase: -len(phrase)))
YES_NO = frozenset("is are was were do does did has have had will should shall may might must am".split())
"""First words of a question that wants a yes or a no."""
