"""What steering asks of a decision, as far as rules can follow it: how far to look, how much to write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from artelier.models.offline.missions.prompt import Prompt

Length = Literal["terse", "plain", "thorough"]

_EXPLORES = re.compile(
    r"\b(?:exploratory|explor\w+|alternatives?|another (?:look|way|angle)|second (?:look|source)|cross-?check\w*|"
    r"look (?:further|wider|around)|widely|broad\w*)\b",
    re.IGNORECASE,
)
_FOCUSES = re.compile(
    r"\b(?:focus\w*|shortest|direct\w*|no alternatives?|fewest|nothing more than|straight)\b",
    re.IGNORECASE,
)
_LONG = re.compile(
    r"\b(?:thorough\w*|detail\w*|breakdowns?|at length|in depth|complete\w*)\b", re.I
)
_SHORT = re.compile(r"\b(?:terse\w*|brief\w*|concise\w*|short\w*|few words|compact\w*)\b", re.I)
_POINT = re.compile(
    r"\b{name}\s*(?:=|:|is)\s*(0(?:\.\d+)?|1(?:\.0+)?)\b".replace("{name}", "([xy])"), re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    looks: int = 0
    """How many looks at the data beside the question's own are wanted before anything is written."""
    length: Length = "plain"


def policy_of(prompt: Prompt) -> Policy:
    text = prompt.section("Policy")
    explores = bool(_EXPLORES.search(text)) and not _FOCUSES.search(text)
    long, short = bool(_LONG.search(text)), bool(_SHORT.search(text))
    length: Length = "plain" if long == short else ("thorough" if long else "terse")
    return Policy(looks=int(explores) + int(length == "thorough"), length=length)
