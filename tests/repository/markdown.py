"""Markdown as the tests of the documentation read it: links, headings and code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)")
_LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)>?")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)

TESTED = "<!-- test -->"
"""On the line before a block: the block is executed by the test suite."""


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    line: int
    """Of its first line of code, counted from 1."""
    language: str
    code: str
    tested: bool


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines outside fenced blocks, inline code blanked."""
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _FENCE.match(line)
        if mark and (not fence or _closes(fence, mark, line)):
            fence = "" if fence else mark[1]
        elif not fence:
            yield number, _INLINE_CODE.sub("", line)


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    fence, language, start, before, tested = "", "", 0, "", False
    code: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence, language, start = mark[1], mark[2].lower(), number + 1
            tested, code = before.strip() == TESTED, []
        elif mark and _closes(fence, mark, line):
            yield Block(start, language, "\n".join(code) + "\n", tested)
            fence = ""
        elif fence:
            code.append(line)
        before = line if line.strip() else before


def _closes(fence: str, mark: re.Match[str], line: str) -> bool:
    return mark[1].startswith(fence) and line.strip() == mark[1]


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    found: set[str] = set()
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and (not fence or _closes(fence, mark, line)):
            fence = "" if fence else mark[1]
        elif not fence and (heading := _HEADING.match(line)):
            slug = re.sub(r"[^\w\- ]", "", heading[1].lower()).strip().replace(" ", "-")
            same = sum(1 for name in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", name))
            found.add(f"{slug}-{same}" if same else slug)
    return found


def links(text: str) -> Iterator[tuple[int, str]]:
    """Numbered targets of the links that stay in the repository."""
    for number, line in prose(text):
        found = [*_LINK.findall(line), *_DEFINITION.findall(line)]
        yield from ((number, target) for target in found if not _ELSEWHERE.match(target))


def check_links(root: Path, pages: list[Path]) -> list[str]:
    """Every link to a file or heading that is not there. `pages` are relative to `root`."""
    found: list[str] = []
    for page in pages:
        for number, target in links((root / page).read_text(encoding="utf-8")):
            name, _, anchor = target.partition("#")
            goal = (root / page).parent / unquote(name) if name else root / page
            if not goal.resolve().is_relative_to(root.resolve()):
                found.append(f"{page}:{number} {target} leaves the repository")
            elif not goal.exists():
                found.append(f"{page}:{number} {target} is not there")
            elif anchor and anchor not in anchors(goal.read_text(encoding="utf-8")):
                found.append(f"{page}:{number} {target} names no heading")
    return found
