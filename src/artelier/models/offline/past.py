"""Compacted events: calls of tools, with their answers where these stand whole in a summary of the past.

The lines are those of a transcript: `[13] assistant: calls NAME({...}), NAME({...})`, `[14] tool: ...`. An
extract has a line for each call it kept; a long call is cut and ends in `#` and the key of what it was, and
a result names the key of its call: `[14] tool #1a2b3c4d: ...`. In lines without keys a result belongs to the
call that its number says. A line counts only while the numbers ascend, so that text with such lines in it,
which some tool returned, hardly passes for another tool's answer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

from artelier.models.offline.skills import USE, plain

LINES_MAX = 20_000
MADE = "Calls made:"
"""Begins the line of a summary that counts calls: `name#key x2, name#key x1`."""

ENTRY = re.compile(
    r"(?:- )?\[(\d{1,9})\] (system|user|assistant|tool)\b([^:\n]{0,120}?)(?::(?: |$)| (?=calls ))"
)
CALLS = re.compile(r"calls (?=[A-Za-z_][\w./-]{0,79}\()")
_CALL = re.compile(r"(?:, |\s)*([A-Za-z_][\w./-]{0,79})\(")
_COUNT = re.compile(r"([\w./-]{1,80})#([0-9a-f]{8}) x(\d{1,4})")
_CUT = re.compile(r"(.*?)… #([0-9a-f]{8})\)")
LABEL = re.compile(r" #([0-9a-f]{8})$")
"""Before the colon of a result: the key of its call."""
_LEFT_OUT = re.compile(r"\[\.\.\. |…")
PREFIX_CHARS_MIN = 24
"""Of the arguments of a cut call, by which it is known again."""
CALLS_MAX = 100
"""Read from one line."""


def key_of(tool: str, arguments: Any) -> str:
    """A short name of a call with these arguments, whatever their order."""
    return sha256(f"{plain(tool)}\0{_written(arguments)}".encode("utf-8", "replace")).hexdigest()[:8]


def _written(arguments: Any) -> str:
    try:
        return json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A call as a transcript tells it."""

    tool: str
    text: str
    """As told, without what separates it from the next."""
    key: str = ""
    """Empty if it is cut, and nothing says what it was."""
    prefix: str = ""
    """How the arguments of a cut call begin."""


def calls_in(text: str) -> list[Told]:
    """The calls of a line, `NAME({...}), NAME({...})`. Cost: linear."""
    found: list[Told] = []
    at = 0
    while len(found) < CALLS_MAX and (match := _CALL.match(text, at)):
        tool, start = match[1], match.start(1)
        if cut := _CUT.match(text, match.end(), match.end() + 1_000):
            found.append(Told(tool=tool, text=text[start : cut.end()], key=cut[2]))
            at = cut.end()
            continue
        try:
            arguments, end = json.JSONDecoder().raw_decode(text, match.end())
        except (ValueError, RecursionError):
            kept = _LEFT_OUT.split(text[match.end() : match.end() + 1_000])[0]
            found.append(Told(tool=tool, text=text[start:], prefix=_flat(kept)))
            break
        at = end + text[end : end + 1].count(")")
        found.append(_told(tool, arguments, text[start:at]))
    return found


def _told(tool: str, arguments: Any, text: str) -> Told:
    if tool == USE and isinstance(arguments, dict):
        fields = cast(dict[str, Any], arguments)
        if isinstance(fields.get("name"), str):
            tool, arguments = fields["name"], fields.get("arguments")
    return Told(tool=tool, text=text, key=key_of(tool, arguments))


def _flat(text: str) -> str:
    return " ".join(text.split())


def counts_in(line: str) -> list[tuple[str, str, int]]:
    """Name, key and number of the calls in a line that counts them."""
    return [(match[1], match[2], int(match[3])) for match in _COUNT.finditer(line)]


class Past:
    """The compacted calls of one task."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Cost: linear in the texts, which are summaries."""
        self.answers: dict[str, str] = {}
        """By key: the text of a result that stands whole in a summary."""
        self._counts: Counter[str] = Counter()
        self._prefixes: list[tuple[str, str]] = []
        for text in texts:
            self._read(text)

    def count(self, tool: str, arguments: Any) -> int:
        """Return how often a call was made, as far as the summaries tell."""
        counted = self._counts[key_of(tool, arguments)]
        if not self._prefixes:
            return counted
        written = _flat(_written(arguments))
        cut = [
            prefix
            for name, prefix in self._prefixes
            if name == plain(tool)
            and written.startswith(prefix)
            and len(prefix) >= min(PREFIX_CHARS_MIN, len(written))
        ]
        return counted + len(cut)

    def _read(self, text: str) -> None:
        seen: Counter[str] = Counter()
        told: Counter[str] = Counter()
        keys: list[str] = []
        last = called = 0
        is_extract = any(line.startswith(MADE) for line in text.splitlines()[-3:])
        for line in text.splitlines()[:LINES_MAX]:
            if line.startswith(MADE):
                for _, key, count in counts_in(line):
                    told[key] += count
                continue
            match = ENTRY.match(line)
            if match is None or int(match[1]) < last:
                continue
            last = int(match[1])
            calls = CALLS.match(line, match.end())
            if match[2] == "assistant" and calls:
                keys = keys if called == last else []
                called = last
                for call in calls_in(line[calls.end() :]):
                    keys.append(call.key)
                    seen[call.key] += bool(call.key)
                    if call.prefix:
                        self._prefixes.append((plain(call.tool), call.prefix))
            elif match[2] == "tool":
                label = LABEL.search(match[3])
                at = last - called - 1
                key = keys[at] if not is_extract and 0 <= at < len(keys) else ""
                key, rest = label[1] if label else key, line[match.end() :]
                if key and not _LEFT_OUT.search(rest[-3:]) and "[... " not in rest:
                    self.answers[key] = rest
        for key in {*seen, *told}:
            self._counts[key] += max(seen[key], told[key])
