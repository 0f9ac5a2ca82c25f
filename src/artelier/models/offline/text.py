"""Questions about texts: the best passages of the workspace's text files, word for word.

Nothing is summed up or rephrased. A passage is a paragraph, a list item or a heading with what follows; it
is good if it holds many of the question's words, rare ones first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from artelier.errors import OfflineCannot
from artelier.models.offline import figures, lexicon
from artelier.models.offline.conversation import Ask, Desk
from artelier.models.offline.parts import Part
from artelier.models.offline.question import Clause
from artelier.models.offline.words import name_words, stem, tokens

FILES_MAX = 8
PAGE_CHARS = 20_000
PAGES_MAX = 10
"""Pages read of one file; what lies behind is named in the report."""
QUOTES_MAX = 3
QUOTE_CHARS_MAX = 1_200
ENDINGS = (".md", ".markdown", ".txt", ".text", ".rst")

_SPEECH = frozenset(
    "say says said saying mention mentions mentioned written writes explain explains explained according"
    " describe describes described quote quotes".split()
)
_TELLS = frozenset(("about", "on", "regarding", "concerning"))
_COUNTING = frozenset("many most least total average sum highest lowest top fewest mean".split())
_TEXT_NOUNS = frozenset(
    stem(word) for word in "note notes file document text readme page doc docs memo".split()
)
_EMPTY = lexicon.FUNCTION_WORDS | lexicon.FILLERS | _SPEECH | _TELLS | frozenset(("according", "there"))


class _Entry(msgspec.Struct):
    path: str
    type: str


class _Listing(msgspec.Struct):
    entries: list[_Entry]
    truncated: bool = False


class _Page(msgspec.Struct):
    text: str
    next_offset: int | None = None


class _Hit(msgspec.Struct):
    path: str


class _Hits(msgspec.Struct):
    hits: list[_Hit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    path: str
    line: int
    """Of its first line, counted from 1."""
    text: str
    heading: str


def is_about_text(clause: Clause) -> bool:
    """Return True if a clause asks what a text says: `what does the note say about ...`."""
    words = [word.lower for word in clause.words]
    if "according" in words:
        return True
    if set(words) & _COUNTING:
        return False
    return bool(set(words) & _SPEECH) or any(word.endswith(ENDINGS) for word in clause.text.split())


def text_part(clause: Clause, desk: Desk) -> Part:
    """The passages that answer a clause.

    Errors: `Wanted` until the files are read; `OfflineCannot` if there is no text, no topic, or no passage
    that holds at least half of the topic's words.
    """
    files = text_files(desk.ask(list_ask())[0])
    if not files:
        raise OfflineCannot(
            "the workspace holds no text file", expected=f"a file that ends in {', '.join(ENDINGS)}"
        )
    named = _named(files, clause)
    terms = _terms(clause, named)
    if not terms:
        raise OfflineCannot(
            f'"{clause.text}" names no topic to look for', hint="Ask `what does ... say about ...`."
        )
    chosen = _narrowed(named or files, terms, desk)
    passages, cut = _passages(chosen, desk)
    best = _best(passages, set(terms))
    if not best:
        raise OfflineCannot(
            f"no passage in {', '.join(chosen[:FILES_MAX]) or 'the text files'} holds the words"
            f" {', '.join(terms.values())}",
            hint="Passages are found by their words; ask with words that the text uses.",
        )
    return _part(terms, best, chosen, cut)


def text_files(answer: Any) -> list[str]:
    """The text files in a `list_dir` result."""
    listing: _Listing = _shaped(answer, _Listing, "list_dir")
    return [
        entry.path
        for entry in listing.entries
        if entry.type == "file" and entry.path.lower().endswith(ENDINGS)
    ]


def list_ask() -> Ask:
    return Ask(tool="list_dir", arguments={"path": ".", "recursive": True})


def _shaped(answer: Any, shape: type[Any], tool: str) -> Any:
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise OfflineCannot(f"the result of {tool} has another shape than expected: {error}") from None


def _file_words(path: str) -> set[str]:
    name = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return {stem(word) for word in name_words(name)}


def _named(files: Sequence[str], clause: Clause) -> list[str]:
    """The files whose name the clause says."""
    said = {stem(word.lower) for word in clause.words}
    lower = clause.text.lower()
    exact = [path for path in files if path.lower().rsplit("/", 1)[-1] in lower]
    if exact:
        return exact
    scored = [(len(_file_words(path) & said), path) for path in files]
    most = max(score for score, _ in scored)
    return [path for score, path in scored if score == most and most > 0]


def _terms(clause: Clause, named: Sequence[str]) -> dict[str, str]:
    """Stems of the topic's words, with each word as asked."""
    files = {word for path in named for word in _file_words(path)}
    about = [at for at, word in enumerate(clause.words) if word.lower in _TELLS]
    first = about[0] + 1 if about else 0
    found: dict[str, str] = {}
    for at, word in enumerate(clause.words):
        if word.kind == "mark":
            continue
        for token in tokens(word.text) if word.kind == "quoted" else (word,):
            base = stem(token.lower)
            skipped = token.lower in _EMPTY or base in _TEXT_NOUNS or len(token.lower) < 2
            if skipped or (base in files and at < max(first, 1)) or token.lower in _ENDINGS_BARE:
                continue
            if base in files and at < first:
                continue
            found.setdefault(base, token.lower)
    if about:
        later = {base: text for base, text in found.items() if _is_after(clause, text, first)}
        return later or found
    return {base: text for base, text in found.items() if base not in files}


_ENDINGS_BARE = frozenset(ending.removeprefix(".") for ending in ENDINGS)


def _is_after(clause: Clause, text: str, first: int) -> bool:
    return any(text in word.lower for word in clause.words[first:])


def _narrowed(files: Sequence[str], terms: dict[str, str], desk: Desk) -> list[str]:
    """At most a handful of files: those in which most of the words occur."""
    if len(files) <= FILES_MAX:
        return list(files)
    asks = [Ask(tool="search_text", arguments={"query": term, "max_hits": 200}) for term in list(terms)[:6]]
    counts: dict[str, int] = {}
    for answer in desk.ask(*asks):
        hits: _Hits = _shaped(answer, _Hits, "search_text")
        for path in {hit.path for hit in hits.hits} & set(files):
            counts[path] = counts.get(path, 0) + 1
    return sorted(counts, key=lambda path: (-counts[path], path))[:FILES_MAX]


def _passages(files: Sequence[str], desk: Desk) -> tuple[list[Passage], list[str]]:
    """All passages of the files, page by page, and the files that are longer than what is read."""
    texts = dict.fromkeys(files, "")
    offsets = dict.fromkeys(files, 0)
    cut: list[str] = []
    for _ in range(PAGES_MAX):
        if not offsets:
            break
        asks = [
            Ask(tool="read_file", arguments={"path": path, "offset": offset, "limit": PAGE_CHARS})
            for path, offset in offsets.items()
        ]
        pages = [_shaped(answer, _Page, "read_file") for answer in desk.ask(*asks)]
        following: dict[str, int] = {}
        for path, page in zip(list(offsets), pages, strict=True):
            texts[path] += page.text
            if page.next_offset is not None and page.next_offset > offsets[path]:
                following[path] = page.next_offset
        offsets = following
    cut = list(offsets)
    return [passage for path, text in texts.items() for passage in split(path, text)], cut


_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")


def split(path: str, text: str) -> list[Passage]:
    """Paragraphs and list items with the line they start on and the heading above them."""
    found: list[Passage] = []
    heading = ""
    lines: list[str] = []
    start = 1

    def close() -> None:
        if lines:
            body = "\n".join(lines)
            found.append(Passage(path=path, line=start, text=body, heading=heading))
            lines.clear()

    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#") or _ITEM.match(line):
            close()
        if line.startswith("#"):
            heading = line.lstrip("# ").strip()
        elif line.strip():
            start = start if lines else number
            lines.append(line.rstrip())
    close()
    return found


def _best(passages: Sequence[Passage], terms: set[str]) -> list[Passage]:
    """The passages that hold most of the words, in the order of the files."""
    bodies = [_stems(passage.text) & terms for passage in passages]
    heads = [_stems(passage.heading) & terms for passage in passages]
    counts = {term: sum(term in body for body in bodies) for term in terms}
    weights = {term: math.log(1 + len(passages) / (1 + count)) + 1 for term, count in counts.items()}

    def score(at: int) -> float:
        inside = sum(weights[term] for term in sorted(bodies[at]))
        return inside + 0.5 * sum(weights[term] for term in sorted(heads[at] - bodies[at]))

    ranked = sorted(
        (at for at in range(len(passages)) if 2 * len(bodies[at] | heads[at]) >= len(terms)),
        key=lambda at: (-score(at), at),
    )
    if not ranked or score(ranked[0]) == 0:
        return []
    limit = 0.6 * score(ranked[0])
    kept = [at for at in ranked[:QUOTES_MAX] if score(at) >= limit]
    return [passages[at] for at in sorted(kept)]


def _stems(text: str) -> set[str]:
    return {word.stem for word in tokens(text) if word.kind in ("word", "number")} | {
        stem(part) for word in tokens(text) if word.kind == "quoted" for part in name_words(word.text)
    }


def _part(terms: dict[str, str], best: Sequence[Passage], files: Sequence[str], cut: Sequence[str]) -> Part:
    topic = " ".join(terms.values())
    quotes = [
        f"{figures.code(passage.path)}, line {passage.line}:\n\n{figures.block(_short(passage.text), 'text')}"
        for passage in best
    ]
    paths = list(dict.fromkeys(passage.path for passage in best))
    count = f"{len(best)} passages" if len(best) > 1 else "One passage"
    verb = "fit" if len(best) > 1 else "fits"
    where = ", ".join(figures.code(path) for path in paths)
    sentence = f"{count} from {where} {verb} best, quoted word for word."
    notes = [f"Looked for passages with the words {', '.join(terms.values())}."]
    notes += [f"{figures.code(path)} is longer than what was read." for path in cut]
    return Part(
        title=f"On {topic}",
        sentences=(sentence,),
        quotes=tuple(quotes),
        notes=tuple(notes),
        sources=tuple(files),
        passages=tuple(passage.text for passage in best),
    )


def _short(text: str) -> str:
    plain = "".join(one if one.isprintable() or one == "\n" else " " for one in text)
    if len(plain) <= QUOTE_CHARS_MAX:
        return plain
    return plain[: QUOTE_CHARS_MAX - 2] + " …"
