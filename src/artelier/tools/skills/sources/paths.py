"""Paths that a skill names, and paths that it has: which of them are suspicious."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote

from artelier.tools.skills.approval.injection_heuristics import suspicions

_LINK = re.compile(r"\]\(\s{0,20}<?([^)>\s]+)|^\[[^\]\n]{1,200}\]:[ \t]{0,20}<?(\S+)", re.MULTILINE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9 ._()+,@=/-]{1,240}")
LINKS_MAX = 5


def links_out(text: str) -> list[str]:
    """Reasons for Markdown links that lead out of a skill's folder on this machine."""
    found: list[str] = []
    for match in _LINK.finditer(text):
        target = unquote(match[1] or match[2] or "").split("#")[0]
        if _leads_out(target):
            found.append(f"a link leads out of its folder: {target[:80]!r}")
    return found[:LINKS_MAX]


def _leads_out(target: str) -> bool:
    if not target:
        return False
    scheme = _SCHEME.match(target)
    if scheme is not None:
        return scheme[0].lower() not in ("http:", "https:", "mailto:")
    if target.startswith(("/", "~", "\\")) or "\\" in target:
        return True
    return posixpath.normpath(target).split("/")[0] == ".."


def strange_path(path: str) -> list[str]:
    """Reasons for a file whose name alone would say something to a model."""
    if not _PLAIN.fullmatch(path):
        return [f"a file with a strange name: {path[:80]!r}"]
    words = re.sub(r"[-_./]+", " ", path)
    return [f"the name of a file: {reason}" for reason in suspicions(words)]
