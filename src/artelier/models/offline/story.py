"""The content of structured output: the findings, the request, and why the rest is not known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from artelier.models.offline.report import LABEL
from artelier.models.offline.structured import ANSWERS, LABELS, LISTS, REPORTS, TITLES, Facts, one_of

TOPIC_CHARS_MAX = 120
UNKNOWN = "Not determined."
NO_DATA = "No data was looked at: no tool that reads tables or files was offered, so there are no figures"

_REASONS = frozenset("reason error note comment caveat limitation warning gap remark status_message".split())
_VERB = re.compile(
    r"(?:please\s+|kindly\s+)?(?:analy[sz]e|examine|review|study|summari[sz]e|describe|explain|investigate|"
    r"(?:write|make|create|prepare|draft|give|produce)(?:\s+(?:me|us))?(?:\s+\w+){1,3}?\s+(?:about|on|of|for))"
    r"\s+(?:(?:the|our|this|these|my|a|an)\s+)?",
    re.IGNORECASE,
)
_CLOSE = re.compile(r"[,;]?\s+(?:and|then)\s+(?:write|make|create|give|prepare|draft)\b.*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The material of one structured reply."""

    prompt: str
    facts: Facts | None = None
    gap: str = ""
    """Why something is not known, in a sentence without its full stop; empty if all is."""
    missing: tuple[str, ...] = ()
    """Fields that hold a placeholder."""

    @property
    def note(self) -> str:
        """All that is not known, in sentences."""
        notes = [f"{self.gap}."] if self.gap else []
        if self.missing:
            names = ", ".join(self.missing[:20])
            notes.append(f"Not determined, and filled with placeholders: {names}.")
        return " ".join(notes)

    @property
    def topic(self) -> str:
        """The topic of the prompt, in its own words."""
        plain = " ".join(self.prompt[:2_000].split())
        first = re.split(r"(?<=[.?!])\s", plain)[0].rstrip(".?! ")
        bare = _VERB.sub("", _CLOSE.sub("", first), count=1) or first
        if len(bare) > TOPIC_CHARS_MAX:
            bare = bare[: TOPIC_CHARS_MAX - 1].rsplit(" ", 1)[0] + "…"
        return bare[:1].upper() + bare[1:]

    @property
    def sentences(self) -> list[str]:
        """The findings, one sentence each."""
        return self.facts.strings("sentences") if self.facts is not None else []

    @property
    def summary(self) -> str:
        asked = f"Asked was: {self.topic}." if not self.sentences and self.topic else ""
        return " ".join(part for part in (*self.sentences, self.note, asked) if part) or UNKNOWN

    def text_for(self, name: str) -> str | None:
        """The text of a field by what it is called; None if its name says nothing of that kind."""
        if one_of(name, TITLES):
            return self.topic or "Untitled"
        if one_of(name, LABELS):
            return LABEL.strip("*")
        if one_of(name, _REASONS):
            return self.note or "None."
        if one_of(name, REPORTS | ANSWERS):
            return self.summary
        return None

    def texts_for(self, name: str) -> Sequence[str] | None:
        """The texts of a list by what it is called; None if its name says nothing of that kind."""
        if one_of(name, _REASONS) or one_of(name, frozenset(("question",))):
            return [self.note] if self.note else []
        kind = next((LISTS[word] for word in LISTS if one_of(name, frozenset((word,)))), "")
        if kind in ("sentences", "notes") or one_of(name, ANSWERS):
            return [*self.sentences, *([self.note] if self.note else [])]
        return None

    def tells(self, name: str) -> bool:
        """Return True if a field's name lets expect sentences."""
        return one_of(name, REPORTS | ANSWERS | _REASONS) and not one_of(name, TITLES)

    def says_note(self, text: str) -> bool:
        return bool(self.note) and self.note in text
