"""`Compare the turnover of Oslo and Lima` as a question a side, so that every figure has its own query."""

from __future__ import annotations

import re

SIDE_WORDS_MAX = 6
"""More words than that are no name of a side."""

_OPENS = re.compile(
    r"^(?:please\s+|then\s+)*(?:(?:i|we)\s+(?:want|need|would like)\s+(?:you\s+)?to\s+|"
    r"(?:can|could|would)\s+you\s+(?:please\s+)?|(?:that|which)\s+)?"
    r"compar(?:e|es|ing)\s+(?:the\s+)?",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"(?:[,;]|\s+and|\s+then)+\s+(?:say|tell|show|find out|decide|see|explain)\b[^.?!]*$", re.IGNORECASE
)
"""`… and say which is larger`: both figures say it."""

_AND = r"\s+(?:and|with|to|versus|vs\.?|against)\s+"
_SIDES = rf"(?P<first>[^,.;?]{{1,60}}?){_AND}(?P<second>[^,.;?]{{1,80}}?)"
_BETWEEN = re.compile(rf"(?P<measure>[\w -]{{2,80}}?)\s+between\s+{_SIDES}\s*[.?!]?\s*$", re.IGNORECASE)
_ANY = re.compile(
    rf"(?P<measure>[\w -]{{2,60}}?)\s+(?P<link>of|for|in)\s+{_SIDES}\s*[.?!]?\s*$", re.IGNORECASE
)
_SHARED = re.compile(
    r"\s+(?:by|per|over|during|since|within|in|of|for)\s+.+$|\s+(?:19|20)\d\d$", re.IGNORECASE
)
"""What stands behind the second side counts for both: `Oslo and Lima by month`, `March and April 2024`."""

_LEADS = re.compile(r"^(?:the|that of|of|for|in)\s+", re.IGNORECASE)
_COUNTED = re.compile(r"^how (?:many|much)\b", re.IGNORECASE)
_CHANGES = frozenset("how change changed changes grew grown developed what which who why".split())
_AGGREGATES = frozenset(
    "total average median count list number sum minimum maximum highest lowest largest smallest best"
    " worst".split()
)


def sides_of(text: str) -> list[str]:
    """The two questions that a comparison asks, without marks at their ends; none for anything else."""
    opens = _OPENS.match(text.lstrip())
    if opens is None:
        return []
    rest = _ENDS.sub("", text.lstrip()[opens.end() :].rstrip(" .?!"))
    match = _BETWEEN.match(rest) or _ANY.match(rest)
    if match is None:
        return []
    measure = match["measure"].strip()
    link = match.groupdict().get("link") or ("in" if " of " in measure else "of")
    first, second, shared = _parted(measure, match["first"], match["second"])
    words = set(measure.lower().split())
    counted = _COUNTED.match(measure) is not None
    if max(len(first.split()), len(second.split())) > SIDE_WORDS_MAX:
        return []
    if words & _CHANGES and not counted:
        return []
    asks = measure if counted else f"What is the {'' if words & _AGGREGATES else 'total '}{measure}"
    return [f"{asks} {link} {side}{shared}" for side in (first, second)]


def _parted(measure: str, first: str, second: str) -> tuple[str, str, str]:
    """Both sides without what leads to them, and what counts for both."""
    bare = re.compile(rf"^(?:the\s+)?{re.escape(measure)}\s+", re.IGNORECASE)
    first, second = (_LEADS.sub("", bare.sub("", one.strip())) for one in (first, second))
    tail = _SHARED.search(second)
    if tail is None or _SHARED.search(first):
        return first, second, ""
    return first, second[: tail.start()], tail[0]
