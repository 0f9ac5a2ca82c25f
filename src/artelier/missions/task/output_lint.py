"""Faults of an output, found by rule: no model is asked.

Some are hard: no judge can overrule them. The others are about words, and words can be meant: these are
advice, of which the judge must say that it is none here. Runs from before this was so have hard rules only.
A rule gives the benefit of the doubt to what the task is about: words of its goal, its criteria and its
sources may be quoted. Where to read next: `evaluation.py` for who asks.

A figure counts as found if it is a source's, to as many places as it shows, or if a reader can work it out
from two found ones beside it: their sum, difference, product, share or change in percent.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import islice, permutations
from typing import NamedTuple

import msgspec

from artelier.missions.task.verdict import OutputFault

SMALL_MAX = 12
"""Whole numbers up to here count things, and number lists."""

FIGURES_MAX = 20_000
"""Of all sources; more are not looked at."""

BESIDE_MAX = 16
"""Found figures of one paragraph from which others are worked out; of more, only those of the same line."""

CHARS_MAX = 400_000
DIGITS_MAX = 40
"""Of a number; longer runs of digits are names."""

WORKED_OUT_MAX = 500
"""Figures of one text for which it is tried; a text with more of its own brings its own evidence."""

VALUES_MAX = 100_000
"""Worked out for one text; for what is beyond them, its evidence must stand in the sources."""

_SCALES = frozenset(
    Decimal(scale) for scale in (24, 52, 60, 100, 365, 366, 1_000, 3_600, 10_000, 1_000_000, 10**9)
)
"""To which units are converted."""

_NUMBER = re.compile(
    r"(?<![\w.,#@/-])[-+\u2212]?\$?(?P<digits>\d{1,3}(?:[,\u202f\u00a0' ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?P<exponent>[eE][-+]?\d{1,3})?"
    r"(?P<unit> ?(?:%|per ?cent\b|thousand\b|million\b|billion\b|[kKmM]n?\b|bn\b))?(?![\w@])"
)
"""A number that stands by itself: not within a name, a ref, a date or a version."""
_LOOSE = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
"""Any run of digits: sources are read with good will."""
_GROUPED = re.compile(r"\d{1,3}(?:[,\u202f\u00a0' ]\d{3})+(?:\.\d+)?")
_EUROPEAN = re.compile(
    r"\d{1,3}(?:\.\d{3})+(?:,\d+)?(?![\d.])|\d+,\d{1,2}(?=[\u00a0 ]?(?:€|%|eur|euros?\b))", re.I
)
"""A source's `41.000,00` is an answer's 41,000.00; a bare `3,14` is as often two numbers of a list."""
_DATE = re.compile(
    r"\b\d{4}-\d{2}(?:-\d{2})?(?:[T ]\d{2}:\d{2}(?::\d{2})?)?\b|\b\d{1,2}:\d{2}\b"
    r"|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"
)
_ITEM = re.compile(r"^[^\S\n]*(?:#+[^\S\n]*)?\d{1,3}[.)](?=\s)", re.MULTILINE)
"""Never past the end of its line: over blank lines that would cost their square."""
_UNITS = {"k": 1_000, "t": 1_000, "m": 1_000_000, "b": 1_000_000_000}


class Figure(NamedTuple):
    """A number of a text."""

    text: str
    value: Decimal
    """Without its sign: which way it goes is said in words as often."""
    places: int
    """Decimal places as it is shown; negative for `1.2 million`."""

    @property
    def is_percent(self) -> bool:
        return self.text.endswith(("%", "cent"))


class ToolStatement(NamedTuple):
    """The result of a tool, and its arguments."""

    text: str
    given: str
    """The arguments: what stands in them is no finding, though the tool says it again."""
    computes: bool = False
    """Whether it knows nothing but its arguments, as a calculator does."""


class SourceFigures:
    """The figures of all sources, ready to be looked up."""

    def __init__(self, texts: Iterable[str], told: Iterable[ToolStatement] = ()) -> None:
        """`told`: in the order of the calls; a figure of an earlier one may be used in a later one."""
        values: set[Decimal] = set()
        for text in texts:
            _add(values, text)
        for one in told:
            made_up = set(_loose(one.given[:CHARS_MAX])) - values
            if one.computes and not _are_known(made_up, sorted(values)):
                continue  # what is worked out from figures of nowhere is from nowhere
            _add(values, one.text, but=made_up)
        self._values = sorted(values)

    def has(self, figure: Figure) -> bool:
        """Return True if some source figure is this one, to the places that it shows."""
        half = Decimal(1).scaleb(-figure.places) / 2
        if _is_near(self._values, figure.value, half):
            return True
        # A share of 0.125 that is shown as 12.5 %.
        return figure.is_percent and _is_near(self._values, figure.value / 100, half / 100)


def _add(values: set[Decimal], text: str, *, but: Collection[Decimal] = ()) -> None:
    for value in _loose(text[:CHARS_MAX]):
        if value not in but:
            values.add(value)
        if len(values) >= FIGURES_MAX:
            break


def _are_known(figures: Collection[Decimal], values: Sequence[Decimal]) -> bool:
    """Return True if those of a calculation are of some sorted values, to their places, or count or scale."""
    for figure in figures:
        exponent = figure.as_tuple().exponent
        half = Decimal(1).scaleb(min(exponent, 0) if isinstance(exponent, int) else 0) / 2
        is_own = figure > SMALL_MAX and figure not in _SCALES
        if is_own and not _is_near(values, figure, half):
            return False
    return True


def _is_near(values: Sequence[Decimal], value: Decimal, half: Decimal) -> bool:
    """Return True if one of some sorted values is this one, give or take."""
    at = bisect_left(values, value - half)
    return at < len(values) and values[at] <= value + half


def find_unfounded(text: str, found: SourceFigures) -> list[str]:
    """The figures of a text that are in no source and cannot be worked out from those that are."""
    missing: list[str] = []
    derived = _Derived()
    text = _ITEM.sub(lambda match: " " * len(match[0]), text[:CHARS_MAX])
    for paragraph in re.split(r"\n\s*\n", text):
        dates = _DATE.findall(paragraph)
        missing += [date for date in dates if not all(map(found.has, _whole(date)))]
        lines = [list(_figures(_DATE.sub(" ", line))) for line in paragraph.splitlines()]
        good = [[_counts(one) or found.has(one) for one in line] for line in lines]
        known = [
            [one for one, is_good in zip(line, marks, strict=True) if is_good and not _counts(one)]
            for line, marks in zip(lines, good, strict=True)
        ]
        beside = [one for line in known for one in line]
        for line, marks, own in zip(lines, good, known, strict=True):
            near = tuple((beside if len(beside) <= BESIDE_MAX else own)[:BESIDE_MAX])
            missing += [
                one.text
                for one, is_good in zip(line, marks, strict=True)
                if not is_good and not derived.has(one, near)
            ]
    return list(dict.fromkeys(missing))


class _Derived:
    """The figures that a reader works out from figures beside each other, for one text."""

    def __init__(self) -> None:
        self._tries = WORKED_OUT_MAX
        self._left = VALUES_MAX
        self._near: tuple[Figure, ...] = ()
        self._values: list[Decimal] = []

    def has(self, figure: Figure, near: tuple[Figure, ...]) -> bool:
        """Return True if a reader gets this figure from all of those near it, or from two of them."""
        self._tries -= 1
        if self._tries < 0:
            return False
        if near != self._near:
            self._near = near
            self._values = sorted(islice(_worked_out(near), self._left))
            self._left -= len(self._values)
        half = Decimal(1).scaleb(-figure.places) / 2
        at = bisect_left(self._values, figure.value - half)
        return at < len(self._values) and self._values[at] <= figure.value + half


def _counts(figure: Figure) -> bool:
    whole = figure.places <= 0 and not figure.is_percent
    return whole and figure.value <= SMALL_MAX


def _worked_out(near: tuple[Figure, ...]) -> Iterator[Decimal]:
    """The sum of all, and what any two give; without signs, as figures are."""
    if len(near) > 2:
        yield sum((one.value for one in near), Decimal(0))
    for first, second in permutations(near, 2):
        a, b = first.value, second.value
        yield from (abs(a - b), a + b, a * b)
        if b:
            yield from (a / b, 100 * a / b, abs(100 * (a - b) / b))
        if a + b:
            yield 100 * a / (a + b)


def _figures(line: str) -> Iterator[Figure]:
    for match in _NUMBER.finditer(line):
        figure = _figure(match["digits"], match["exponent"] or "", (match["unit"] or "").strip())
        if figure is not None:
            yield figure._replace(text=match[0].strip())


def _figure(digits: str, exponent: str, unit: str) -> Figure | None:
    plain = re.sub(r"[,\u202f\u00a0' ]", "", digits)
    if len(plain) > DIGITS_MAX:
        return None
    places = len(plain.partition(".")[2])
    try:
        value = Decimal(plain + exponent)
    except InvalidOperation:
        return None
    if exponent:
        places -= int(exponent[1:])
    if unit and unit[0] not in "%p":
        factor = _UNITS[unit[0].lower()]
        value, places = value * factor, places - len(str(factor)) + 1
    return Figure(text=digits, value=value, places=places)


def _whole(date: str) -> list[Figure]:
    """The numbers of a date, one by one."""
    return [Figure(text=part, value=Decimal(part), places=0) for part in re.findall(r"\d+", date)]


def _loose(text: str) -> Iterator[Decimal]:
    for pattern in (_LOOSE, _GROUPED):
        for match in pattern.finditer(text):
            digits = re.sub(r"[,\u202f\u00a0' ]", "", match[0])
            if len(digits) <= DIGITS_MAX:
                yield Decimal(digits)
    for match in _EUROPEAN.finditer(text):
        if len(match[0]) <= DIGITS_MAX:
            yield Decimal(match[0].replace(".", "").replace(",", "."))
    for match in _DATE.finditer(text):  # the day and month of 03.02.2025 are no 3.02
        yield from (figure.value for figure in _whole(match[0]))


TEXT_CHARS_MAX = 400_000
SHOWN = 5
"""Instances of one fault that are named."""

UNFOUNDED_FIGURE = "unfounded_figure"

RULES = frozenset((UNFOUNDED_FIGURE, "unfounded_claim", "unknown_source"))
"""Those that more sources can satisfy."""

ADVICE = frozenset(("placeholder", "repeated", "unfounded_claim", "unknown_source"))
"""Rules about words."""

LINE_REPEATS_MAX = 3
WORD_SHARE_MAX = 0.4
WORDS_JUDGED = 12
"""A text below this many words repeats nothing by rule."""

SEARCHES_MAX = 200
"""Of one rule through all sources; a text with more words of its own brings its own evidence."""

SLASHES_MAX = 8
"""Parts of a path by which a source knows it."""

_PLACEHOLDERS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\blorem ipsum\b",
        r"\b(?:to-?do|tbd|tba|fixme|to be (?:determined|defined|added|completed|filled in|written))\b",
        r"\[\s*(?:insert|your|add|enter|fill|name|date|placeholder|company|amount|figure|value|number"
        r"|tbd|todo|xx+|\.\.\.)\b[^\]\n]{0,120}\]",
        r"\[\s*(?:\.\.\.|\u2026|_+|x+)\s*\]",
        r"\{\{[^{}\n]{0,200}\}\}|\{%[^%\n]{0,200}%\}|<%[^%\n]{0,200}%>|\$\{[^{}\n]{0,120}\}",
        r"<\s*(?:insert|your|placeholder|enter|name|date)[^<>\n]{0,120}>",
        r"\b(?:example|sample|dummy|mock(?:ed)?|fake|fictional|fictitious|made-?up|synthetic|simulated"
        r"|hypothetical|illustrative|placeholder) (?:data|numbers?|figures?|values?|results?|content|text"
        r"|report|output|entries|names?)\b",
        r"\bfor (?:illustration|illustrative purposes|demonstration)(?: only| purposes)?\b",
        r"\b(?:placeholder|coming soon|under construction|content goes here|text goes here)\b",
        r"\b(?:john|jane) doe\b|\bacme (?:corp|inc)\b|\bfoo\b.{0,40}\bbar\b",
        r"\bx{3,}\b|_{5,}|\bn/?a\b(?:\s*[|,;]\s*n/?a\b){2,}",
        r"\bas an ai\b|\bas a (?:large )?language model\b",
        r"\bi (?:cannot|can't|am unable to) (?:access|browse)\b",
    )
)

_SPOKEN_OF = re.compile(r"placeholder(?: (?:text|content|values?|names?|entries))?", re.IGNORECASE)
"""The thing itself: who leaves one writes something else, and who writes this speaks of it."""

_CLAIMS = re.compile(
    r"\b(?:studies|research|surveys?|experts?|analysts?|scientists?|industry (?:reports?|data)|reports?"
    r"|statistics|sources) (?:widely |clearly |consistently |have |has )*"
    r"(?:show|shows|shown|suggest|suggests|indicate|indicates|agree|confirm|confirms|say|prove|proves|found"
    r"|estimate)\b|\baccording to (?:experts|studies|research|analysts|industry|various|many|several"
    r"|recent)\b|\bit is (?:well|widely|generally) known\b",
    re.IGNORECASE,
)
"""Claims that lean on somebody who is not named."""

_CITED = re.compile(
    r"https?://[^\s<>()\[\]\"'`]{3,300}"
    r"|(?<![\w/@])[\w][\w./-]{0,120}\.(?:csv|tsv|xlsx?|parquet|json|sqlite|db|pdf|docx?|txt|log|html?)\b",
    re.IGNORECASE,
)
"""Files and pages that an output names as where something is from."""


_BETWEEN = re.compile(r"[\s<>()\[\]\"'`,;|]+")
"""What names of files and pages stand between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An output as it is judged."""

    ref: str
    media: str
    text: str


class Grounds:
    """The texts that outputs may rely on: the task's own words, and everything it was shown."""

    def __init__(
        self,
        *,
        asked: Iterable[str],
        shown: Iterable[str],
        told: Sequence[ToolStatement] = (),
        has_unsearched: bool = False,
    ) -> None:
        """`asked`: goal, criteria, notes; `shown`: inputs, artifacts; `told`: by tools, in their order;
        `has_unsearched`: an image, a sound or a scan was shown, too, which holds no text to search."""
        self.has_unsearched = has_unsearched
        texts = [*asked, *shown]
        self.found = SourceFigures(texts, told)
        self._known = "\n".join([*texts, *(one.text for one in told)]).casefold()

    def unknown(self, words: Iterable[str]) -> list[str]:
        """Return those words that occur nowhere in the grounds; no more than are shown.

        Cost: O(size of grounds), however many words there are.
        """
        found: list[str] = []
        searches = SEARCHES_MAX
        for word in dict.fromkeys(words):
            folded = word.casefold()
            if folded in self._names:
                continue
            searches -= 1
            if searches < 0 or folded not in self._known:
                found.append(word)
                if len(found) == SHOWN:
                    break
        return found

    @cached_property
    def _names(self) -> frozenset[str]:
        """Words of the grounds, and the last parts of paths, so that most are found without a search."""
        names: set[str] = set()
        for word in _BETWEEN.split(self._known):
            name = word.rstrip(".,;:")
            names.add(name)
            for _ in range(SLASHES_MAX):
                _, slash, name = name.partition("/")
                if not slash:
                    break
                names.add(name)
        return frozenset(names)


def faults_of(outputs: Sequence[Judged], grounds: Grounds, *, only_prose: bool = True) -> list[OutputFault]:
    """Return what is wrong with the outputs by rule. Cost: O(size of outputs and grounds).

    `only_prose`: hold rules about words and figures against prose alone, not against code.
    """
    if not outputs:
        return [OutputFault(rule="no_outputs", ref="")]
    found: list[OutputFault] = []
    for output in outputs:
        text = output.text[:TEXT_CHARS_MAX]
        if not any(char.isalnum() for char in text):
            found.append(OutputFault(rule="empty", ref=output.ref))
            continue
        prose = Prose(text, text)
        if only_prose and output.media != "json":
            prose = prose_of(text)
        placeholders = _placeholders(prose.words, grounds)
        if only_prose:
            placeholders = [word for word in placeholders if not _SPOKEN_OF.fullmatch(word)]
        for rule, words in (
            ("placeholder", placeholders),
            ("repeated", _find_repeated(output, prose.words)),
            ("wrong_type", _wrong_type(output)),
            (UNFOUNDED_FIGURE, find_unfounded(prose.text, grounds.found)),
            ("unfounded_claim", _claims(prose.words, grounds)),
            ("unknown_source", _find_unknown_citations(prose.text, grounds, outputs)),
        ):
            if words:
                cut = tuple(word[:120] for word in words[:SHOWN])
                found.append(OutputFault(rule=rule, ref=output.ref, found=cut))
    return found


def _placeholders(text: str, grounds: Grounds) -> list[str]:
    return grounds.unknown(match[0] for pattern in _PLACEHOLDERS for match in pattern.finditer(text))


def _find_repeated(output: Judged, text: str) -> list[str]:
    """Filler: the same line or the same word again and again."""
    if output.media == "json":
        return []
    lines = Counter(line for raw in text.splitlines() if len(line := raw.strip()) > 12 and "|" not in line)
    found = [line for line, count in lines.items() if count > LINE_REPEATS_MAX]
    sentences = Counter(part.strip() for part in re.split(r"[.!?]\s+", text) if len(part) > 20)
    found += [part for part, count in sentences.items() if count > LINE_REPEATS_MAX]
    words = Counter(re.findall(r"[^\W\d_]{2,}", text.casefold()))
    total = sum(words.values())
    if total >= WORDS_JUDGED:
        word, count = words.most_common(1)[0]
        if count > WORD_SHARE_MAX * total:
            found.append(word)
    return list(dict.fromkeys(found))


def _wrong_type(output: Judged) -> list[str]:
    """JSON where text was promised, and the reverse."""
    is_json = json_in(output.text) is not None
    if output.media == "json":
        return [] if is_json else [output.text[:80]]
    if is_json or json_in(_unfence(output.text)) is not None:
        return [output.text[:80]]
    return []


def json_in(text: str) -> object:
    """The object or array that a text is; None for anything else, numbers and quoted words among it."""
    try:
        value = msgspec.json.decode(text.strip().encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None  # pyright: ignore[reportUnknownVariableType] - JSON


def _unfence(text: str) -> str:
    """Return what a single fence around a whole text holds."""
    lines = text.strip().splitlines()
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return text


def _claims(text: str, grounds: Grounds) -> list[str]:
    return grounds.unknown(match[0] for match in _CLAIMS.finditer(text))


def _find_unknown_citations(text: str, grounds: Grounds, outputs: Sequence[Judged]) -> list[str]:
    """Names of files and pages that the task never saw."""
    own = {output.ref.partition("@")[0].casefold() for output in outputs}
    names = dict.fromkeys(match[0].rstrip(".,;:") for match in _CITED.finditer(text))
    return grounds.unknown(name for name in names if not any(name.casefold() in ref for ref in own))


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
