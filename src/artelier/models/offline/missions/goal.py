"""The questions of a goal, and the form in which the answer is wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from artelier.errors import OfflineCannot
from artelier.models.offline import lexicon
from artelier.models.offline.missions import summaries
from artelier.models.offline.missions.compared import sides_of
from artelier.models.offline.question import Clause, question_from
from artelier.models.offline.text import is_about_text
from artelier.models.offline.words import stem

Form = Literal["report", "letter", "email", "memo", "summary", "table", "json", "list", "findings"]

TITLE_CHARS_MAX = 60

_MAKES = r"(?:write|draft|compose|prepare|make|create|produce|give(?:\s+(?:me|us))?|send|put together)"
_KIND = (
    r"(?P<kind>letter|e-?mail|mail|memo|message|report|summary|note|table|list|overview|article|"
    r"briefing|document|result)"
)
_ABOUT = (
    r"(?:that (?:answers|says|tells|explains|shows)|which (?:answers|says|tells|explains|shows)|"
    r"about|on|of|saying|telling|explaining|answering|stating|with|covering|from|for)"
)
_WRITES = re.compile(
    rf"^\W*(?:please\s+|then\s+|and\s+|now\s+|finally\s+)*{_MAKES}\s+"
    rf"(?:(?:a|an|the|one|json|valid|short|brief|long|detailed|thorough|friendly|formal|polite|clear|concise|final|"
    rf"one-page|markdown|business|covering)\s+)*{_KIND}\b",
    re.IGNORECASE,
)
_TO = re.compile(
    rf"\s+(?:to|for)\s+(?P<whom>(?:(?!\b{_ABOUT}\b)[^.:?!,;]){{2,80}}?)"
    rf"(?=\s*(?:[.:?!,;]|$)|\s+{_ABOUT}\b)",
    re.IGNORECASE,
)
_PERSON = re.compile(r" for [A-Z][\w'-]{1,40}(?: [A-Z][\w'-]{1,40}){1,3}\W*$")
"""A report may be for somebody, which is no part of its question."""

_LINK = re.compile(rf"\s*(?:{_ABOUT}\b)?\s*:?\s*", re.IGNORECASE)
_ANSWERING = re.compile(r"\A\W*(?:that|which) (?:answers|says|tells|shows)\b\s*:?\s*", re.IGNORECASE)
_FORMED = re.compile(
    rf"(?:[,;.]\s*|\s+)(?:and\s+|then\s+)*(?:{_MAKES}|save|send|present)\s+[^.?!]{{0,60}}?{_KIND}\b",
    re.IGNORECASE,
)
_JSON = re.compile(r"\bJSON\b", re.IGNORECASE)
_AS_JSON = re.compile(
    rf"[,;]?\s*\b(?:and\s+)?(?:(?:{_MAKES}|return|answer|reply|output|save|format)\s+(?:(?:it|them|this|that|the|"
    r"an?|results?|answers?|figures?|data)\s+)*)?(?:as|in|to)\s+(?:an?\s+)?(?:valid\s+)?JSON"
    r"(?:\s+(?:object|file|document|format|data|artifact))?\b",
    re.IGNORECASE,
)
_TEXT_ABOUT = re.compile(
    r"\W*(?:the\s+)?(notes?|files?|documents?|docs?|readme|texts?|[\w-]+\.(?:md|txt|rst))\s+"
    r"(?:about|on|regarding)\s+([^?]{2,120}?)[.?!]?\s*$",
    re.IGNORECASE,
)
_REFERS = frozenset(
    "it its that this they them their these those he she his her there then same such".split()
)
_NEEDS_MORE = frozenset("and also then so but what's".split())
_OPENS = frozenset(
    "which how who whom where when what top total average median list count number sum minimum maximum"
    " highest lowest largest smallest best worst".split()
)
_ASKING = frozenset("which what how who whom where when whose".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question of a goal that can be answered for itself."""

    text: str
    of_text: bool
    """Whether it asks what a text says rather than what tables hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    text: str
    question: str
    """What is asked, without the form of the answer."""
    form: Form
    whom: str = ""
    """To whom a letter goes, in the goal's words."""
    writes: bool = False
    """Whether it begins with what is to be written."""


def goal_from(text: str) -> Goal:
    """A goal as a question and a form; the question is empty if it only names a form."""
    flat = " ".join(text.split())
    form: Form = "json" if _JSON.search(flat) else "findings"
    rest = _ANSWERING.sub("", _AS_JSON.sub("", flat))
    match = _WRITES.match(rest)
    if match is None:
        named = _FORMED.search(rest)
        if form != "json" and named is not None:
            form = _form(named["kind"])
        whom = _TO.match(rest, named.end()) if named is not None and _is_sent(form) else None
        for_whom = _PERSON.match(rest, named.end()) if named is not None else None
        if named is not None and (_is_sent(form) or for_whom):
            rest = rest[: named.start()].rstrip(" ,;") + "."
        return Goal(text=flat, question=rest, form=form, whom=whom["whom"].strip() if whom else "")
    form = "json" if form == "json" else _form(match["kind"])
    at, whom = match.end(), None
    if _is_sent(form) and (whom := _TO.match(rest, at)) is not None:
        at = whom.end()
    link = _LINK.match(rest, at)
    question = rest[link.end() if link else at :].strip()
    if form == "summary" and summaries.wanted(f"Summarize {question}"):
        question = f"Summarize {question}"
    return Goal(
        text=flat,
        question=question if question.strip(" .,;") else "",
        form=form,
        whom=whom["whom"].strip() if whom else "",
        writes=True,
    )


def _form(kind: str) -> Form:
    plain = kind.lower().replace("-", "")
    forms: dict[str, Form] = {
        "letter": "letter",
        "email": "email",
        "mail": "email",
        "message": "email",
        "memo": "memo",
        "note": "memo",
        "briefing": "memo",
        "summary": "summary",
        "table": "table",
        "list": "list",
    }
    return forms.get(plain, "report")


def _is_sent(form: Form) -> bool:
    return form in ("letter", "email", "memo")


def questions_in(goal: Goal) -> list[Asked]:
    """The questions of a goal, each of which stands for itself; what leans on another stays with it.

    Errors: `OfflineCannot` if it asks nothing that can be read.
    """
    if not goal.question:
        raise OfflineCannot(
            "the goal does not say what it is about",
            expected="a question about the workspace, such as `Which team scored most?`",
            got=goal.text[:200],
        )
    question = question_from(goal.question)
    if sides := sides_of(question.text):
        return [Asked(text=_closed(side), of_text=False) for side in sides]
    question = question_from(_asking(question.text))
    groups: list[list[Clause]] = []
    for clause in question.clauses:
        same = bool(groups) and is_about_text(clause) == is_about_text(groups[-1][-1])
        if groups and (_leans(clause) or (clause.joined and same)):
            groups[-1].append(clause)
        else:
            groups.append([clause])
    if len(groups) == 1:
        texts = all(map(is_about_text, groups[0])) or bool(summaries.wanted(question.text))
        return [Asked(text=_closed(question.text), of_text=texts)]
    found: list[Asked] = []
    for group in groups:
        start, end = group[0].words[0].start, group[-1].words[-1].end
        texts = all(is_about_text(clause) for clause in group)
        found.append(Asked(text=_closed(question.text[start:end]), of_text=texts))
    return found


def _asking(text: str) -> str:
    """`The notes about returns` as the question what they say."""
    match = _TEXT_ABOUT.match(text)
    return f"What do the {match[1]} say about {match[2]}?" if match else text


def _closed(text: str) -> str:
    """A question as a sentence of its own."""
    bare = text.strip().rstrip(" .;,?!")
    asks = bare.partition(" ")[0].lower() in _ASKING
    return f"{bare[:1].upper()}{bare[1:]}{'?' if asks or text.rstrip().endswith('?') else '.'}"


def _leans(clause: Clause) -> bool:
    """Return True if a clause can only be understood after the one before it."""
    words = [word.lower for word in clause.words]
    if words[0] in _NEEDS_MORE or set(words) & _REFERS:
        return True
    changed = any(stem(word) == stem("changed") for word in words)
    named = [word for word in words if word not in lexicon.FUNCTION_WORDS | lexicon.FILLERS]
    return (changed and len(named) <= 3) or not (set(words) & _OPENS or is_about_text(clause))


def short(text: str, *, chars_max: int = TITLE_CHARS_MAX) -> str:
    """A text as a title: on one line, cut between words."""
    flat = " ".join(text.split()).rstrip(" .?!")
    if len(flat) <= chars_max:
        return flat
    return flat[:chars_max].rsplit(" ", 1)[0].rstrip(" ,;:") + " …"
