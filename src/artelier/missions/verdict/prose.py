"""The prose of an output: its text without code, markup and boxes.

Rules about words are made for prose. In a script `${f}` is a variable, and a URL is an argument.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

CODE_SHARE_MIN = 0.6
"""Of the lines of a text without fences, from which on it is code (a guess; headings and comments count
against it)."""

_FENCE = re.compile(r"^[^\S\n]{0,3}(?P<mark>`{3,}|~{3,})[^\S\n]*(?P<language>[^\s`]*)[^\n]*$")
_PROSE_LANGUAGES = frozenset(("", "markdown", "md", "text", "txt"))
_SPAN = re.compile(r"(?<!`)(?P<mark>`{1,2})(?!`)[^`\n]{1,400}(?<!`)(?P=mark)(?!`)")
_BOX = re.compile(r"^([^\S\n]*(?:[-*+]|\d{1,3}[.)])[^\S\n]+)\[[ xX]\](?=\s)", re.MULTILINE)
_SCRIPT = re.compile(r"<(script|style)\b", re.IGNORECASE)
_SCRIPT_END = re.compile(r"</(script|style)\s*>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,2000}>|<!--|<![A-Za-z][^<>]{0,400}>")
_COMMENT_CHARS_MAX = 2_000
_PAIRED = re.compile(r"</[A-Za-z][\w:.-]{0,60}\s*>")

_CODE_LINE = re.compile(
    # How statements and blocks end; two braces are those of a template.
    r"(?:.*;|(?:.*[^{])?\{|(?:.*[^}])?\}|[)\]}]+,?|.*\):|.*\\)$"
    r"|(?:import|from|def|class|async|return|raise|try:|except|finally:|else:|elif|with|while|fi|done|esac"
    r"|do|then|echo|export|set|cd|mv|cp|rm|sudo|pip|npm|git|const|let|var|function|public|private|static"
    r"|package|use|fn|pub|SELECT|FROM|WHERE|INSERT|UPDATE|DELETE|CREATE|GROUP BY|ORDER BY)\b(?!.*[.!?]$)"
    r"|(?:if|for)\b.*(?:[:;{]|\bthen|\bdo)$"
    r"|(?://|/\*|\*/|#!|#include|--\s|@\w+(?:\(|$))"
    r"|[\w.\[\]\"'$]{1,80}\s*(?:[-+*/|&:]?=|:=|=>)\s*\S"
    r"|\$\s[a-z]|[\w.]{1,80}\([^()]*\)$"
)


class Prose(NamedTuple):
    """The prose of a text; what was taken out is white space."""

    text: str
    """With what stands in backticks within a line: names of files are mostly written so."""
    words: str
    """Without it."""


def prose_of(text: str) -> Prose:
    """Return the prose of an output. Pure. Cost: O(size)."""
    text = _without_fences(text)
    if _is_code(text):
        return Prose("", "")
    if text.lstrip().startswith("<") and _PAIRED.search(text):
        text = _without_tags(_without_scripts(text))
    text = _BOX.sub(r"\1   ", text)
    return Prose(text, _SPAN.sub(" ", text))


def _without_scripts(text: str) -> str:
    """A text whose scripts and styles are spaces. One pattern for both ends would look for each end anew."""
    ends: dict[str, list[re.Match[str]]] = {"script": [], "style": []}
    for end in _SCRIPT_END.finditer(text):
        ends[end[1].lower()].append(end)
    parts: list[str] = []
    at = 0
    for begin in _SCRIPT.finditer(text):
        if begin.start() < at:
            continue
        there = ends[begin[1].lower()]
        number = bisect_left(there, begin.end(), key=lambda end: end.start())
        if number < len(there):
            parts += [text[at : begin.start()], " "]
            at = there[number].end()
    return "".join([*parts, text[at:]])


def _without_tags(text: str) -> str:
    """A text whose tags and comments are spaces. A comment's end is looked for by itself, which is faster."""
    parts: list[str] = []
    at = 0
    for tag in _TAG.finditer(text):
        if tag.start() < at:
            continue
        end = tag.end()
        if tag[0] == "<!--":
            closing = text.find("-->", end, end + _COMMENT_CHARS_MAX + 3)
            if closing < 0:
                continue
            end = closing + 3
        parts += [text[at : tag.start()], " "]
        at = end
    return "".join([*parts, text[at:]])


def _without_fences(text: str) -> str:
    """A text whose fenced blocks are empty lines. A fence of no language around a whole text is no block."""
    lines = text.strip("\n").splitlines()
    first = _FENCE.match(lines[0]) if len(lines) > 1 else None
    is_whole = first is not None and first["language"].lower() in _PROSE_LANGUAGES
    if first is not None and is_whole and lines[-1].strip() == first["mark"]:
        lines = lines[1:-1]
    opened, kept = "", list[str]()
    for line in lines:
        bare = line.strip()
        if opened:
            if bare.startswith(opened) and not bare.strip(opened[0]):
                opened = ""
            kept.append("")
        elif (mark := _FENCE.match(line)) is not None:
            opened = mark["mark"]
            kept.append("")
        else:
            kept.append(line)
    return "\n".join(kept)


def _is_code(text: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return False
    if lines[0].startswith("#!"):
        return True
    code = sum(1 for line in lines if _CODE_LINE.match(line))
    return code >= CODE_SHARE_MIN * len(lines)
