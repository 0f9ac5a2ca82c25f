"""`Summarize the notes.`: the sentences of a text file that matter most, word for word and in their order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.models.offline import figures
from artelier.models.offline.conversation import Ask, Desk
from artelier.models.offline.excerpt import excerpt_of
from artelier.models.offline.parts import Part
from artelier.models.offline.text import PAGE_CHARS, list_ask, text_files
from artelier.models.offline.words import name_words, stem

FILES_MAX = 3

_ASKED = re.compile(
    r"\W*(?:please\s+)?(?:summari[sz]e|sum up|condense|shorten|(?:give (?:me |us )?|write )?a summary of)\s+"
    r"(?:(?:the|all|our|these)\s+)*(?P<what>[^?!]{2,80}?)\s*[.!]?\s*$",
    re.IGNORECASE,
)
_TEXTS = re.compile(
    r"\b(?:notes?|files?|documents?|docs?|texts?|readme|memos?|[\w-]+\.(?:md|markdown|txt|text|rst))\b",
    re.IGNORECASE,
)
_WRAPPED = re.compile(r"(?<=[\w,;])\n(?=[a-z(])")
"""Within a sentence that goes on in the next line."""

_ALL = re.compile(r"(?:text )?(?:files?|documents?|docs?|texts?)(?: (?:here|in here))?", re.IGNORECASE)


def wanted(question: str) -> str:
    """Return what is to be summed up, if it is a text; or nothing."""
    match = _ASKED.match(question[:300])
    if match is None or len(match["what"].split()) > 5 or not _TEXTS.search(match["what"]):
        return ""
    return match["what"]


def summary_parts(what: str, desk: Desk) -> list[Part]:
    """A part for each file that is meant.

    Errors: `Wanted` until they are read; `OfflineCannot` if no file is meant or none has two sentences.
    """
    desk.require("list_dir", "read_file")
    files = text_files(desk.ask(list_ask())[0])
    said = {stem(word) for word in name_words(what)}
    named = [path for path in files if {stem(word) for word in name_words(_base(path))} & said] or (
        files if _ALL.fullmatch(what) else []
    )
    if not named or len(named) > FILES_MAX:
        raise OfflineCannot(
            f'"{what}" does not say which text is meant',
            expected=f"the name of at most {FILES_MAX} text files",
            got=", ".join(files[:20]) or "none",
        )
    asks = [
        Ask(tool="read_file", arguments={"path": path, "offset": 0, "limit": PAGE_CHARS}) for path in named
    ]
    parts: list[Part] = []
    for path, page in zip(named, desk.ask(*asks), strict=True):
        fields = cast("dict[str, Any]", page) if isinstance(page, dict) else {}
        text = _WRAPPED.sub(" ", str(fields.get("text", "")))
        found = excerpt_of(f"Summarize:\n{text}")
        if found is not None:
            parts.append(_part(path, found.sentences, is_cut=bool(fields.get("next_offset"))))
    if not parts:
        raise OfflineCannot("there is too little text to sum up", got=", ".join(named))
    return parts


def _part(path: str, sentences: Sequence[str], *, is_cut: bool) -> Part:
    text = "\n".join(sentences)
    name = figures.code(path)
    return Part(
        title=f"Summary of {path}",
        sentences=(f"What matters most in {name}, quoted word for word:",),
        quotes=(figures.block(text, "text"),),
        notes=("Only the beginning of the text was read.",) if is_cut else (),
        passages=(text,),
        sources=(path,),
    )


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
