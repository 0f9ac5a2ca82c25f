"""Small talk and plain statements in a conversation: answered briefly, without claiming anything."""

from __future__ import annotations

import re

from artelier.models.offline.report import LABEL

_GREETING = re.compile(
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|greetings)(?: there| all| everybody)?",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"(?:thanks|thank you|thx|great|perfect|ok(?:ay)?|good|cool|nice)"
    r"(?: (?:a lot|very much|so much|job|work))?",
    re.IGNORECASE,
)
_BYE = re.compile(r"(?:bye|goodbye|see you|good night)(?: later| soon)?", re.IGNORECASE)
_WHO = re.compile(r"(?:who|what) are you|what can you do|what do you do|help", re.IGNORECASE)
_DECLARES = re.compile(
    r"(?:(?:actually|well|ok|okay|no|so|and|also|by the way)[,.]?\s+)*"
    r"(?:the|my|our|we|i|it|this|these|that|those|he|she|they|there|today|yesterday|fyi|turn|fact)"
    r"\b[^?]*"
    r"\b(?:is|are|was|were|am|has|have|had|will|do|did|care|like|love|prefer|want|need|work|live|use|moved|"
    r"decided|agreed|uses|costs|belongs|starts|ends|\w+ed)\b[^?]*",
    re.IGNORECASE,
)
CHARS_MAX = 4_000


def small_talk(text: str) -> str | None:
    """A brief answer to a greeting, thanks, or a question about the model; None for anything else."""
    plain = " ".join(text[:200].split()).strip(" .!?,")
    if len(text) > 200:
        return None
    if _GREETING.fullmatch(plain):
        return "Hello. Ask me about the data or the files that my tools can read."
    if _WHO.fullmatch(plain):
        said = LABEL.strip("*").removeprefix("Written by ").rstrip(".")
        return (
            f"I am {said}. I answer questions about tables and texts with the tools I am given, and I"
            " keep what you ask me to remember if a tool of memory is offered."
        )
    if _THANKS.fullmatch(plain) or _BYE.fullmatch(plain):
        return "You are welcome." if _THANKS.fullmatch(plain) else "Goodbye."
    return None


def is_statement(text: str) -> bool:
    """Return True if a message states something and asks for nothing."""
    plain = " ".join(text[:CHARS_MAX].split())
    return len(text) <= CHARS_MAX and "?" not in plain and _DECLARES.fullmatch(plain) is not None


def acknowledged() -> str:
    """Return what to say to a statement that nobody asked to remember."""
    return "Understood. I have not stored it; it stays in this conversation as far as that is kept."
