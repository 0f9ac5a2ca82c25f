"""One search with several detectors: where they disagree, the longer value counts, then the surer kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from artelier.errors import InvalidRequest, PatternTimeout
from artelier.pii.detectors.addresses import Emails, Ips
from artelier.pii.detectors.check_digits import Cards, Ibans, NationalIds
from artelier.pii.detectors.phone import Phones
from artelier.pii.detectors.text_view import Shipped, TextReading, joins
from artelier.ports.pii import DetectedValue, Detector

if TYPE_CHECKING:
    import regex

# Keys, tokens and passwords: by the known form of their issuer, or by the name that stands before them.

# --------------------------------------------------------------------------- secret forms
# The forms of keys and tokens of well-known services, and the words that name a secret of any form.


_END = r"(?![A-Za-z0-9_])"
_FORMS: tuple[tuple[str, str], ...] = (
    # what must stand in the text, the form from there on (its issuer's documentation, or keys as seen)
    ("sk-", r"sk-(?:proj-|svcacct-|admin-|None-|ant-[a-z0-9]{2,12}-|or-v1-|lf-)[A-Za-z0-9_-]{16,300}"),
    ("sk-", r"sk-[A-Za-z0-9]{20,200}" + _END),
    ("pk-lf-", r"pk-lf-[a-f0-9-]{36}"),
    ("AKIA", r"AKIA[A-Z0-9]{16}" + _END),
    ("ASIA", r"ASIA[A-Z0-9]{16}" + _END),
    ("ghp_", r"ghp_[A-Za-z0-9]{36,251}" + _END),
    ("gho_", r"gho_[A-Za-z0-9]{36,251}" + _END),
    ("ghu_", r"ghu_[A-Za-z0-9]{36,251}" + _END),
    ("ghs_", r"ghs_[A-Za-z0-9]{36,251}" + _END),
    ("ghr_", r"ghr_[A-Za-z0-9]{36,251}" + _END),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
    ("glpat-", r"glpat-[A-Za-z0-9_.-]{18,64}[A-Za-z0-9_-]"),
    ("glptt-", r"glptt-[A-Za-z0-9_-]{20,64}"),
    ("gldt-", r"gldt-[A-Za-z0-9_-]{20,64}"),
    ("glrt-", r"glrt-[A-Za-z0-9_-]{20,64}"),
    ("xox", r"xox[abeoprs]-(?:[0-9]-)?[A-Za-z0-9-]{10,250}"),
    ("xapp-", r"xapp-[0-9]-[A-Za-z0-9-]{10,250}"),
    ("hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/]{20,120}"),
    ("AIza", r"AIza[A-Za-z0-9_-]{30,45}(?![A-Za-z0-9_-])"),
    ("ya29.", r"ya29\.[A-Za-z0-9_-]{20,400}"),
    ("GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{20,40}"),
    ("k_live_", r"[srp]k_live_[A-Za-z0-9]{16,250}" + _END),
    ("k_test_", r"[srp]k_test_[A-Za-z0-9]{16,250}" + _END),
    ("whsec_", r"whsec_[A-Za-z0-9+/=]{24,100}"),
    ("npm_", r"npm_[A-Za-z0-9]{36}" + _END),
    ("pypi-", r"pypi-AgE[A-Za-z0-9_-]{40,400}"),
    ("hf_", r"hf_[A-Za-z0-9]{30,60}" + _END),
    ("SG.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,60}"),
    ("shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}" + _END),
    ("dop_v1_", r"dop_v1_[a-f0-9]{64}" + _END),
    ("gsk_", r"gsk_[A-Za-z0-9]{40,80}" + _END),
    ("xai-", r"xai-[A-Za-z0-9]{40,120}" + _END),
    ("pplx-", r"pplx-[A-Za-z0-9]{32,80}" + _END),
    ("tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,80}" + _END),
    ("r8_", r"r8_[A-Za-z0-9]{36,44}" + _END),
    ("dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{20,60}"),
    ("key-", r"key-[a-f0-9]{32}" + _END),
    ("sq0", r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,60}"),
    ("NRAK-", r"NRAK-[A-Z0-9]{27}" + _END),
    ("lin_api_", r"lin_api_[A-Za-z0-9]{32,60}" + _END),
    ("secret_", r"secret_[A-Za-z0-9]{40,60}" + _END),
    ("ntn_", r"ntn_[A-Za-z0-9]{40,60}" + _END),
    ("AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    ("hvs.", r"hvs\.[A-Za-z0-9_-]{20,250}"),
    (
        "eyJ",
        r"eyJ[A-Za-z0-9_-]{6,4000}\.[A-Za-z0-9_-]{6,20000}\.[A-Za-z0-9_-]{6,2000}"
        r"(?:\.[A-Za-z0-9_-]{6,4000}){0,2}",
    ),
    ("eyJ", r"eyJ[A-Za-z0-9_-]{6,4000}\.eyJ[A-Za-z0-9_-]{6,20000}\.?"),
    ("AA", r"(?<=[0-9]:)AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
)

FORMS: dict[str, tuple[re.Pattern[str], ...]] = {}
"""The forms by what must stand in the text."""
for _hint, _form in _FORMS:
    FORMS[_hint] = (*FORMS.get(_hint, ()), re.compile(_form))

HINT = re.compile("|".join(map(re.escape, sorted(FORMS, key=len, reverse=True))).encode())
"""Any of the hints."""

LEADS_OF_HINT = {"k_live_": 1, "k_test_": 1}
"""The characters before its hint at which a form begins, where that is not there."""

TOKEN_CHARS_MIN = 16
"""Every form has this many token characters in a row: a text without them is not looked at further."""

PLAIN_KEYS = tuple(
    (hint, re.compile(name))
    for hint, name in (
        (b"pass", rb"pass(?:word|wd|phrase|wort|code)(?![a-rt-z])"),
        (b"pwd", rb"(?<![a-z])pwd"),
        (b"pw", rb"(?<![a-z])pw(?![a-z])"),
        (b"kennwort", rb"kennwort"),
        (b"contrase", rb"contrase.a"),
        (b"senha", rb"(?<![a-z])senha"),
    )
)
"""Names of secrets that people choose: what to look for in text of lower case, and the name from there on."""

SHORT_KEYS = (
    (b"pass", re.compile(rb"(?<!com)(?<!by)(?<!sur)(?<!tres)(?<!over)(?<!under)(?<!im)pass(?![a-z])")),
)
"""A word that names a secret, and what a test does: what follows must look like a password, too."""

TOKEN_KEYS = tuple(
    (hint, re.compile(name))
    for hint, name in (
        (b"secret", rb"secret(?:[_ .-]?key)?"),
        (b"token", rb"token"),
        (b"credential", rb"credential"),
        (b"key", rb"key"),
    )
)
"""Names of secrets that machines make, in the same way."""

KEY_OF = re.compile(rb"(?:api|access|private|account|auth|signing|encryption)[_ .-]?\Z")
"""Words before `key` that make it a secret."""

NO_VALUE = re.compile(
    r"(?i)(?:none|null|nil|true|false|undefined|required|optional|string|str|text|pass|passed|password|passwort|secret|token"
    r"|hidden|masked|redacted|changed?|unknown|missing|empty|invalid|incorrect|wrong|expired|forgotten|reset|not|the"
    r"|an?|in|is|must|should|will|policy|set|protected|n/?a|int|bool|field|bytes?|your[-_ ].*|x+|:?[.*#:-]+"
    r"|user(?:name)?|value|val|auth|input|args?|options|function|split"
    r"|[a-z_.]*(?:password|passwd|pwd|secret|token)[a-z_.]*|[a-z_.]+\[.*|[0-9]{4}-[0-9]{2}-[0-9]{2}.*"
    r"|[\[\]{(<&].*|\$[A-Za-z_]+|\$[({].*|%[A-Za-z({].*|(?:os|process|env|config|self|settings|getenv)\b.*|.*\(.*)[.:!?)]*"
)
"""Texts in the place of a secret: the name of a type, a word of a sentence, a variable, a blank."""


# --------------------------------------------------------------------------- secret


_TOKEN_SIGNS = (
    bytes(ord("w") if chr(code).isalnum() or chr(code) in "_-./+=" else ord(" ") for code in range(128))
    + b" " * 128
)
_LONG = b"w" * TOKEN_CHARS_MIN
_TOKENS = re.compile(b"w{%d,}" % TOKEN_CHARS_MIN)

_HASHES = b"0123456789abcdef-"
"""Of hashes and of UUIDs: no issuer's key is made of these alone."""

_KEY_CHARS_MAX = 16_384
_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_FINISH = re.compile(r"-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_REST = re.compile(r"(?:[A-Za-z0-9+/=:, -]|\\?[nr]|\s)*[A-Za-z0-9+/=]")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{8}")
_HEADER = re.compile(
    r"(?i)(?<![a-z])(?:bearer|authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:basic|token|apikey|digest))"
    r"\s{1,3}([A-Za-z0-9._~+/=-]{16,4000})"
)
_USERINFO = re.compile(r"://([^\s/@:\"'<>]{0,100}):([^\s/@\"'<>]{1,200})@(?=[^\s/@])")
_SIGN = re.compile(
    r"[\"'`*\\]{0,3}(?:[ \t]{0,3}(?P<sign>:=|=>|==?|:)[ \t]{0,3}\*{0,2}[ \t]?"
    r"|(?P<tag>>)|(?P<word> (?:is|ist|lautet|es|est):? ))"
)
_OPTION = re.compile(r"[ =](?=[^\s-])")
_QUOTED = re.compile(r"\\?([\"'`])((?:(?!\\?\1)[^\r\n]){1,200})\\?\1")
_PLAIN = re.compile(r"(?:[^\s\"'`,;<>&\\]|&(?![A-Za-z_]{1,40}=)){1,200}")
_TOKEN = re.compile(r"[A-Za-z0-9+/=_.~:-]{12,4000}")
_IDENTIFIER = re.compile(r"[A-Za-z]+(?:[_.][A-Za-z]+)+")
"""Texts behind ` = ` in programs."""

_TYPE = re.compile(
    r"(?:[A-Za-z0-9]+\.)*(?:[A-Z][a-z]+[0-9]*)+(?:Key|Like|Type|Token|Secret|Str|String|Password|Source|Provider"
    r"|Config|Options?)[0-9]?(?:[\[|].*)?"
)
"""Texts behind a name and a colon in programs."""

_PASSWORD_CHARS_MIN = 4
_TOKEN_VALUE_CHARS_MIN = 12


class Secrets(Shipped):
    """`SECRET`; normal: the secret as it is."""

    def __init__(self) -> None:
        super().__init__("SECRET")

    def read(self, reading: TextReading) -> Iterator[DetectedValue]:
        for start, end in sorted(_spans(reading)):
            yield reading.make_found(start, end, self.kind, reading.text[start:end])


def _spans(reading: TextReading) -> Iterator[tuple[int, int]]:
    tokens = reading.bytes.translate(_TOKEN_SIGNS)
    if _LONG in tokens:
        yield from _find_issued(reading, tokens)
        if b"earer" in reading.lower or b"authorization" in reading.lower:
            for match in _HEADER.finditer(reading.text):
                if _is_random(match[1]):
                    yield match.span(1)
    if "-----BEGIN " in reading.text:
        yield from _blocks(reading.text)
    if "://" in reading.text and "@" in reading.text:
        for match in _USERINFO.finditer(reading.text):
            if not NO_VALUE.fullmatch(match[2]):
                yield match.span(2)
    yield from _find_named(reading)


def _find_issued(reading: TextReading, tokens: bytes) -> Iterator[tuple[int, int]]:
    """Keys in the form of a known issuer: only long words with a digit are looked at."""
    last = 0
    for token in _TOKENS.finditer(tokens):
        start, end = token.span()
        if b"0" not in reading.shape[start:end] or not reading.bytes[start:end].strip(_HASHES):
            continue
        for hint in HINT.finditer(reading.bytes, start, end):
            name = hint[0].decode()
            begin = hint.start() - LEADS_OF_HINT.get(name, 0)
            if begin < last:
                continue
            for form in FORMS[name]:
                match = form.match(reading.text, begin)
                if match is not None and _is_key(reading, match):
                    yield match.span()
                    last = match.end()
                    break


def _is_key(reading: TextReading, match: re.Match[str]) -> bool:
    before = reading.before(match.start())
    if joins(before) or (before == "-" and match.start() > 1 and joins(reading.text[match.start() - 2])):
        return False
    return any(sign.isdigit() for sign in match[0]) or "_" in match[0][:12]


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Private keys in PEM: to their last line, or to the end of what is left of them."""
    at = 0
    while begin := _BEGIN.search(text, at):
        finish = _FINISH.search(text, begin.end(), begin.end() + _KEY_CHARS_MAX)
        if finish is None:
            rest = _REST.match(text, begin.end(), begin.end() + _KEY_CHARS_MAX)
            at = rest.end() if rest else begin.end()
        else:
            at = finish.end()
            if _KEY_LINE.search(text, begin.end(), finish.start()) is None:
                continue  # names of the two lines, in a program
        yield begin.start(), at


def _is_random(value: str) -> bool:
    """Return True if no word of prose is written so: digits among letters."""
    return any(sign.isdigit() for sign in value) and any(sign.isalpha() for sign in value)


def _find_named(reading: TextReading) -> Iterator[tuple[int, int]]:
    """Values behind a name such as `password=` or `"api_key":`."""
    for names, is_value in (
        (PLAIN_KEYS, _is_password),
        (SHORT_KEYS, _is_mixed_password),
        (TOKEN_KEYS, _is_token),
    ):
        for hint, name in names:
            at = reading.lower.find(hint)
            while at >= 0:
                key = name.match(reading.lower, at)
                value = _value(reading, key, hint) if key else None
                if value is not None and is_value(reading.text, *value):
                    yield value[:2]
                at = reading.lower.find(hint, at + len(hint))


def _value(reading: TextReading, key: re.Match[bytes], hint: bytes) -> tuple[int, int, str] | None:
    """Return where the value behind a name stands, and what it stands behind: `=`, `:`, `is`, `"`."""
    text, (start, end) = reading.text, key.span()
    if hint == b"key" and KEY_OF.search(reading.lower, max(0, start - 12), start) is None:
        return None
    sign = _SIGN.match(text, end)
    how = "="
    if sign is not None:
        how = "is" if sign["word"] else sign["sign"] or "="
    elif text[max(0, start - 24) : start].rpartition(" ")[2].startswith("--"):
        sign = _OPTION.match(text, end)
    if sign is None:
        return None
    quoted = _QUOTED.match(text, sign.end())
    if quoted is not None:
        return *quoted.span(2), '"'
    plain = _PLAIN.match(text, sign.end())
    if plain is None:
        return None
    last = plain.end()
    while last > plain.start() and text[last - 1] in ".),]}*|":
        last -= 1
    if sign.re is _SIGN and sign["tag"] and not text.startswith("</", last):
        return None  # no element of XML but a comparison
    return (plain.start(), last, how) if last > plain.start() else None


def _is_password(text: str, start: int, end: int, how: str) -> bool:
    value = text[start:end]
    if len(value) < _PASSWORD_CHARS_MIN or NO_VALUE.fullmatch(value) or value.startswith(("/", "./", "~/")):
        return False
    if how != '"' and text[start - 2 : start] == "= " and _IDENTIFIER.fullmatch(value):
        return False
    if how == ":" and _TYPE.fullmatch(value):
        return False
    if any(not sign.isalpha() and not sign.isspace() for sign in value):
        return how != "is" or not value.replace("-", "").isalpha()
    if how == ":":
        # One word that ends its line or field; else it is the first word of a sentence.
        return text[end : end + 1] in ("", "\n", "\r", ",", ";", "|") or text[end : end + 2] in (".", ".\n")
    return how in ("=", "==", ":=", "=>", '"') and not any(sign.isspace() for sign in value)


def _is_mixed_password(text: str, start: int, end: int, how: str) -> bool:
    """A password that is no word, no sentence and no count."""
    value = text[start:end]
    return (
        _is_password(text, start, end, how)
        and value.isascii()
        and not any(sign.isspace() for sign in value)
        and any(sign.isalpha() for sign in value)
        and any(sign.isdigit() or sign in "!?$%&*#@+" for sign in value)
    )


def _is_token(text: str, start: int, end: int, how: str) -> bool:
    value = text[start:end]
    if len(value) < _TOKEN_VALUE_CHARS_MIN or NO_VALUE.fullmatch(value):
        return False
    if how != '"' and _TYPE.fullmatch(value):
        return False
    return _is_random(value) and _TOKEN.fullmatch(value) is not None


def builtin_detectors() -> tuple[Detector, ...]:
    """The detectors that come with Artelier, the most certain first."""
    return (Secrets(), Ibans(), Cards(), Emails(), NationalIds(), Ips(), Phones())


def find_all(detectors: Sequence[Detector], text: str) -> list[DetectedValue]:
    """Return what the detectors find in the text: ascending, no two overlap.

    Of two that overlap the longer is kept, of two as long that of the detector which stands first.
    Errors: what a detector raises; `InvalidRequest` if one answers with a place outside the text or another
    kind. Then the text was not searched whole and may not be sent on.
    Cost: about 30 µs for 1,000 characters of prose with the shipped ones, which read the text together.
    """
    reading = TextReading(text)
    ranked: list[tuple[int, int, DetectedValue]] = []
    for rank, detector in enumerate(detectors):
        if isinstance(detector, Shipped):
            ranked.extend((found.start - found.end, rank, found) for found in detector.read(reading))
        else:
            ranked.extend((found.start - found.end, rank, found) for found in _find_checked(detector, text))
    if len(ranked) < 2:
        return [found for _, _, found in ranked]
    ranked.sort()
    return sorted(_apart(ranked, len(text)))


def _apart(ranked: Sequence[tuple[int, int, DetectedValue]], length: int) -> Iterator[DetectedValue]:
    """Yield those that overlap none before them, the longest first. Cost: O(length + findings)."""
    taken = bytearray(length)
    for _, _, found in ranked:
        # None is longer than one that was taken before: where they overlap, one of its ends is in that.
        if not (taken[found.start] or taken[found.end - 1]):
            taken[found.start : found.end] = b"\1" * (found.end - found.start)
            yield found


def _find_checked(detector: Detector, text: str) -> Iterable[DetectedValue]:
    for found in detector.find(text):
        if not (0 <= found.start < found.end <= len(text)) or found.kind != detector.kind:
            raise InvalidRequest(
                f"the detector of {detector.kind} answers with what is not in the text",
                expected=f"{detector.kind} within 0 to {len(text)}",
                got=f"{found.kind} from {found.start} to {found.end}",
            )
        if not found.normal:
            raise InvalidRequest(f"the detector of {detector.kind} gives a value without a normal form")
        yield found


# --------------------------------------------------------------------------- pattern
# Patterns that a tenant brings: regular expressions of strangers, run with a limit of time.


EXPRESSION_CHARS_MAX = 2_000
SEARCH_TIME_S = 0.25
"""For one search of one text. Prose of 1 MB takes a sane expression a few hundredths of a second."""

_KIND = re.compile(r"[A-Z][A-Z0-9_]{1,23}")


def pattern(kind: str, expression: str) -> Detector:
    """A detector of whatever the expression matches, in the syntax of the library `regex`.

    Groups have no meaning: the whole match is the value, and its own normal form. A text over which the
    expression takes longer than `SEARCH_TIME_S` is refused with `PatternTimeout`; it may not be sent on.
    Errors: `InvalidRequest` for a kind that is no `[A-Z][A-Z0-9_]{1,23}`, for an expression that cannot be
    read, is longer than 2,000 characters, or matches the empty text.
    """
    if not _KIND.fullmatch(kind):
        raise InvalidRequest(
            "the kind of a pattern is not a name",
            expected="2 to 24 of A-Z, 0-9 and _, a letter first",
            got=repr(kind),
        )
    return TenantPattern(kind, expression, _compile(kind, expression))


def _compile(kind: str, expression: str) -> regex.Pattern[str]:
    import regex

    from artelier.patterns import check_pattern

    if len(expression) > EXPRESSION_CHARS_MAX:
        raise InvalidRequest(
            f"the pattern of {kind} is too long",
            expected=f"at most {EXPRESSION_CHARS_MAX} characters",
            got=len(expression),
        )
    check_pattern(expression, dialect="regex")
    try:
        compiled = regex.compile(expression, cache_pattern=False)
        empty = compiled.search("", timeout=SEARCH_TIME_S) is not None
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError, TimeoutError) as error:
        raise InvalidRequest(
            f"the pattern of {kind} cannot be used", got=repr(expression), hint=str(error)
        ) from error
    if empty:
        raise InvalidRequest(
            f"the pattern of {kind} matches the empty text",
            got=repr(expression),
            hint="Use `+` in place of `*`, or name what must stand there.",
        )
    return compiled


class TenantPattern:
    """A detector of what an expression matches; `pattern` makes one."""

    def __init__(self, kind: str, expression: str, compiled: regex.Pattern[str]) -> None:
        self.kind = kind
        self.expression = expression
        self._compiled = compiled

    def find(self, text: str, /) -> Iterator[DetectedValue]:
        try:
            for match in self._compiled.finditer(text, timeout=SEARCH_TIME_S, concurrent=True):
                start, end = match.span()
                if end > start:
                    yield DetectedValue(start, end, self.kind, match[0])
        except (TimeoutError, MemoryError) as error:
            raise PatternTimeout(
                f"the pattern of {self.kind} took too long over a text of {len(text)} characters",
                expected=f"at most {SEARCH_TIME_S} s",
                hint="Make the expression simpler: no repetition inside a repetition.",
                kind=self.kind,
            ) from error
