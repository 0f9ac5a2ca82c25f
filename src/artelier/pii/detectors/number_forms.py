"""Tables of the numbers that states give to people, and the words that say what a number is.

A row says how a number is written, what proves it and which words name it. A bare number without such a word
near before it is of no kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

# --------------------------------------------------------------------------- preceding words
# The check for a word that says what follows and stands near before a number.


NEAR_CHARS_MAX = 40
"""How far before a value a word may end. A guess: four words and a colon."""

# What names a figure: behind such a word the number is not what the word before it promised.
_NAMES_OF_FIGURES = (
    r"(?<![a-z])(?:revenue|sales|sold|total|sum|units?|amount|qty|quantity|price|cost|orders?|invoice|count"
    r"|sku|ean|gtin|upc|isbn|barcode|volume|budget|stock|usd|eur|gbp|transactions?|timestamp|version"
    r"|umsatz|menge|betrag|rechnung|bestellung)(?![a-z])"
)
_FIGURES = re.compile(_NAMES_OF_FIGURES)
_FIGURE_ADJOINS = re.compile(_NAMES_OF_FIGURES + r"(?:[ _-]?(?:no|nr|id|number))?[^a-z0-9\n]{0,4}\Z")
_DIGITS = re.compile("[0-9]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LETTER = re.compile(r"[^\W\d_]")


def words(*stems: str) -> re.Pattern[str]:
    """A pattern of lower case for `words_before`: any of these stems at the start of a word."""
    return re.compile("(?<![a-z])(?:" + "|".join(stems) + ")")


def words_before(text: str, start: int) -> str:
    """Return what is said right before a place: of its line, in lower case, from the last name of a figure
    on.

    Empty if no letter is in it; a number in it is `0`. Names such as `homePhone` are there twice, the second
    time taken apart.
    """
    before = text[max(0, start - NEAR_CHARS_MAX) : start]
    before = before[before.rfind("\n") + 1 :]
    if _LETTER.search(before) is None:
        return ""
    return _phrase_of(_DIGITS.sub("0", before))


@lru_cache(maxsize=4_096)
def _phrase_of(before: str) -> str:
    """Rows of a table say the same again and again, but for their figures."""
    plain, split = before.lower(), _CAMEL.sub("_", before).lower()
    return _behind_figures(plain) if plain == split else f"{_behind_figures(plain)}\n{_behind_figures(split)}"


def _behind_figures(before: str) -> str:
    last = 0
    for figure in _FIGURES.finditer(before):
        last = figure.end()
    return before[last:]


def is_figure(text: str, start: int) -> bool:
    """Return True if the name of a figure stands right before a place."""
    return _FIGURE_ADJOINS.search(text[max(0, start - NEAR_CHARS_MAX) : start].lower()) is not None


def adjoins(text: str, start: int, pattern: re.Pattern[str]) -> bool:
    """Return True if one of the words stands right before `start`: only its own end and signs are between."""
    before = words_before(text, start)
    return any(
        re.fullmatch(
            r"(?i)[a-z]{0,10}(?:[ _.]?(?:no|nr|num|number|nummer))?[^a-z0-9]{0,6}", before[match.end() :]
        )
        for match in pattern.finditer(before)
    )


# --------------------------------------------------------------------------- forms


_GENERAL = (
    "national id",
    "national_id",
    "national number",
    "id number",
    "id no",
    "tax id",
    "tax_id",
    "tin(?![a-z])",
    "personal id",
    "identity number",
    "identity card",
)


def _never(written: str) -> bool:
    return False


@lru_cache(maxsize=128)
def _name_pattern(names: str) -> re.Pattern[str]:
    """The words of a form; compiled on first use, for most of the forty are never asked for."""
    return words(*names.split("|"), *_GENERAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberForm:
    """One way of writing one country's number."""

    check: str
    """A module of `stdnum`, or the name of a check in this module that begins with `own:`."""

    names: str
    word_needed: bool
    doubtful: Callable[[str], bool] = _never
    """Of this one writing: whether it needs a word although its shape does not."""

    @property
    def words(self) -> re.Pattern[str]:
        """The pattern of words that name the number, for `Reading.says`."""
        return _name_pattern(self.names)


def _lower(written: str) -> bool:
    return written != written.upper()


def _is_dated(written: str) -> bool:
    """Eight digits that are a day, before a letter: a batch rather than a Spanish identity."""
    return _lower(written) or re.match(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])[0-3][0-9]", written) is not None


def _yearly(written: str) -> bool:
    """Groups of four that are all years or round: a row of figures."""
    groups = re.findall("[0-9]{4}", written)
    return all(1900 <= int(group) <= 2100 or group.endswith("00") for group in groups)


_TABLE: tuple[tuple[str, str, str, str, Callable[[str], bool]], ...] = (
    # check, words, shapes that suffice, shapes that need a word, doubt
    ("own:ssn", "ssn|social.?sec|social_sec", "000-00-0000", "000 00 0000|000000000", _never),
    ("us.itin", "itin", "", "000-00-0000|000000000", _never),
    (
        "own:nino",
        "nino(?![a-z])|national.?insurance|ni (?:no|number)|ni_",
        "aa000000a|aa 00 00 00 a|aa 000000 a|aa-00-00-00-a",
        "",
        _lower,
    ),
    ("gb.nhs", "nhs", "", "000 000 0000|000-000-0000|0000000000", _never),
    (
        "de.idnr",
        "steuer|idnr|identifikationsn|id-nr",
        "",
        "00000000000|00 000 000 000|00 000000000|00000 00000 0|000 000 000 00|00/000/000/000",
        _never,
    ),
    (
        "fr.nir",
        "nir(?![a-z])|insee|s[ée]cu|social.?sec|social_sec|carte vitale|vitale",
        "0 00 00 00 000 000 00|0-00-00-00-000-000-00|0 00 00 0a 000 000 00|0000000000000 00",
        "000000000000000|00000a000000000",
        _never,
    ),
    (
        "es.dni",
        "dni(?![a-z])|nif(?![a-z])|documento",
        "00000000a|00000000-a|00.000.000-a",
        "00000000 a",
        _is_dated,
    ),
    ("es.nie", "nie(?![a-z])|nif(?![a-z])|extranjer", "a0000000a|a-0000000-a|a0000000-a", "", _lower),
    (
        "it.codicefiscale",
        "codice|fiscale|c\\.?f\\.?(?![a-z])",
        "aaaaaa00a00a000a|aaa aaa 00a00 a000a|aaaaaa 00a00 a000a",
        "",
        _never,
    ),
    (
        "nl.bsn",
        "bsn|burgerservice|sofi",
        "",
        "000000000|0000.00.000|0000 00 000|000 000 000|000.000.000",
        _never,
    ),
    ("pl.pesel", "pesel", "", "00000000000|000000 00000|000000-00000", _never),
    (
        "se.personnummer",
        "person(?:al )?n(?:umme|)r|pers\\.?nr|samordning",
        "000000-0000|00000000-0000",
        "0000000000|000000000000",
        _never,
    ),
    (
        "fi.hetu",
        "hetu|henkil|personbeteckning",
        "000000-000a|000000-0000|000000a000a|000000a0000",
        "",
        _lower,
    ),
    ("dk.cpr", "cpr|personnummer", "", "000000-0000|0000000000|000000 0000", _never),
    ("no.fodselsnummer", "f[øo]dsel|personnummer|fnr", "", "00000000000|000000 00000", _never),
    ("is_.kennitala", "kennit|kt(?![a-z])", "", "000000-0000|0000000000", _never),
    ("own:snils", "snils|снилс", "000-000-000 00|000-000-000-00", "00000000000|000 000 000 00", _never),
    ("br.cpf", "cpf", "000.000.000-00", "00000000000|000000000-00", _never),
    (
        "in_.aadhaar",
        "aadha+r|uidai|uid(?![a-z])|आधार",
        "0000 0000 0000|0000-0000-0000",
        "000000000000",
        _yearly,
    ),
    ("in_.pan", "pan(?![a-z])|permanent account", "", "aaaaa0000a", _never),
    (
        "be.nn",
        "rijksregister|registre national|nn(?![a-z])|nrn|insz|niss",
        "00.00.00-000.00",
        "00000000000|00.00.00.000.00|000000-000-00",
        _never,
    ),
    ("ch.ssn", "ahv|avs|sozialvers", "000.0000.0000.00", "0000000000000", _never),
    ("at.vnr", "sv.?nr|sozialvers|versicherungsn|vsnr", "", "0000 000000|0000000000", _never),
    ("cz.rc", "rodn[ée]|r\\.?[čc]\\.?(?![a-z])", "000000/0000", "0000000000|000000000|000000/000", _never),
    ("cn.ric", "身份证|resident id", "000000000000000000|00000000000000000a", "", _never),
    ("kr.rrn", "주민|rrn|resident reg", "000000-0000000", "0000000000000", _never),
    ("tr.tckimlik", "t\\.?c\\.?(?![a-z])|kimlik", "", "00000000000", _never),
    ("il.idnr", "teudat|zehut|ת", "", "000000000|00000000-0", _never),
    (
        "za.idnr",
        "south african id|sa id|rsa id",
        "",
        "0000000000000|000000 0000 000|000000 0000 00 0",
        _never,
    ),
    ("mx.curp", "curp", "aaaa000000aaaaaa00|aaaa000000aaaaaaa0", "", _never),
    ("au.tfn", "tfn|tax file", "", "000 000 000|000000000|000-000-000", _never),
    ("ca.sin", "sin(?![a-z])|social ins|nas(?![a-z])", "", "000 000 000|000-000-000|000000000", _never),
    ("ie.pps", "pps", "", "0000000a|0000000aa", _never),
    ("ro.cnp", "cnp|cod numeric", "", "0000000000000", _never),
    ("bg.egn", "egn|егн", "", "0000000000", _never),
    ("ee.ik", "isikukood", "", "00000000000", _never),
    ("lt.asmens", "asmens", "", "00000000000", _never),
    ("hr.oib", "oib", "", "00000000000", _never),
    ("gr.amka", "amka|αμκα", "", "00000000000", _never),
    ("pt.nif", "nif(?![a-z])|contribuinte", "", "000000000|000 000 000", _never),
    ("th.pin", "thai id|บัตร", "0-0000-00000-00-0", "0000000000000", _never),
    (
        "cl.rut",
        "rut(?![a-z])|rol único|rol unico",
        "",
        "00.000.000-0|00.000.000-a|00000000-0|00000000-a",
        _never,
    ),
    ("ar.dni", "dni(?![a-z])|documento", "", "00.000.000|00000000", _never),
    ("pk.cnic", "cnic", "", "00000-0000000-0", _never),
    ("id.nik", "nik(?![a-z])|ktp", "", "0000000000000000", _never),
    ("my.nric", "nric|mykad|kad pengenalan", "000000-00-0000", "000000000000", _never),
    ("own:nric", "nric|fin(?![a-z])|singapore", "", "a0000000a", _never),
    ("own:taiwan", "身分證|national id|taiwan", "", "a000000000", _never),
)


def stems() -> tuple[str, ...]:
    """The words of all forms, for one search of any of them."""
    named = (name for _, names, *_ in _TABLE for name in names.split("|"))
    return (*dict.fromkeys(named), *_GENERAL)


def _by_shape() -> dict[bytes, list[NumberForm]]:
    table: dict[bytes, list[NumberForm]] = {}
    for check, names, enough, with_word, doubtful in _TABLE:
        for shapes, needed in ((enough, False), (with_word, True)):
            for shape in filter(None, shapes.split("|")):
                form = NumberForm(check=check, names=names, word_needed=needed, doubtful=doubtful)
                table.setdefault(shape.encode(), []).append(form)
    return table


BY_SHAPE = _by_shape()
FREE_SHAPES = frozenset(
    shape for shape, forms in BY_SHAPE.items() if not all(form.word_needed for form in forms)
)
"""Shapes that some form takes without a word."""


def _sizes() -> dict[int, tuple[int, ...]]:
    sizes: dict[int, set[int]] = {}
    for shape in BY_SHAPE:
        groups = [len(group) for group in re.findall("0+", shape.decode())]
        if b"a" not in shape:
            sizes.setdefault(groups[0], set()).add(len(groups))
    return {first: tuple(sorted(counts, reverse=True)) for first, counts in sizes.items()}


SIZES_BY_FIRST = _sizes()
"""By the length of the first group of digits: of how many groups a shape has, the most first."""


def _words_of(shape: bytes) -> bytes:
    return re.sub(rb"[^a0]", b" ", shape)


def _by_words(shapes: Iterable[bytes]) -> dict[bytes, tuple[bytes, ...]]:
    table: dict[bytes, tuple[bytes, ...]] = {}
    for shape in shapes:
        table[_words_of(shape)] = (*table.get(_words_of(shape), ()), shape)
    return table


_LETTERED = [shape for shape in BY_SHAPE if b"a" in shape]
ONE_WORD = _by_words(shape for shape in _LETTERED if b" " not in _words_of(shape))
"""Shapes of letters and digits in one word, by that word in `Reading.parts`."""

_SEVERAL = {b" " + words + b" ": shapes for words, shapes in _by_words(_LETTERED).items() if b" " in words}
_SIGNS_OF_SEVERAL = (b"00 a ", b"0a")
SEVERAL_WORDS = {
    sign: {words: shapes for words, shapes in _SEVERAL.items() if sign in words} for sign in _SIGNS_OF_SEVERAL
}
"""Shapes of several words with letters, by a sign that most texts do not hold, and by their words."""

assert all(any(sign in words for sign in _SIGNS_OF_SEVERAL) for words in _SEVERAL)


def is_valid(check: str, compact: str, written: str) -> bool:
    """Return True if the check of a form accepts the number."""
    if check.startswith("own:"):
        return _OWN[check](compact)
    # The Nordic signs between date and number tell the century.
    number = written if check in ("fi.hetu", "se.personnummer") else compact
    try:
        return _check(check)(number)
    except (LookupError, ValueError):
        return False  # stdnum 2 raises KeyError for Chinese regions that its table has without a county


@lru_cache(maxsize=64)
def _check(name: str) -> Callable[[str], bool]:
    from importlib import import_module

    return import_module(f"stdnum.{name}").is_valid


def _ssn(compact: str) -> bool:
    """Areas, groups and serials that were ever given out (SSA, since 2011)."""
    area, group, serial = compact[:3], compact[3:5], compact[5:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


_NINO = re.compile(r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z][0-9]{6}[A-D]")
"""HMRC, National Insurance Manual NIM39110."""


def _nino(compact: str) -> bool:
    return _NINO.fullmatch(compact) is not None


def _snils(compact: str) -> bool:
    total = sum(int(digit) * weight for digit, weight in zip(compact, range(9, 0, -1), strict=False))
    return int(compact[9:]) == total % 101 % 100


def _nric(compact: str) -> bool:
    weighed = sum(
        int(digit) * weight for digit, weight in zip(compact[1:8], (2, 7, 6, 5, 4, 3, 2), strict=True)
    )
    if compact[0] in "ST":
        return "JZIHGFEDCBA"[(weighed + 4 * (compact[0] == "T")) % 11] == compact[8]
    if compact[0] in "FG":
        return "XWUTRQPNMLK"[(weighed + 4 * (compact[0] == "G")) % 11] == compact[8]
    return compact[0] == "M" and "KLJNPQRTUWX"[10 - (weighed + 3) % 11] == compact[8]


def _taiwan(compact: str) -> bool:
    first = 10 + "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(compact[0])
    values = (first // 10, first % 10, *map(int, compact[1:]))
    return (
        sum(value * weight for value, weight in zip(values, (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1), strict=True))
        % 10
        == 0
    )


_OWN: dict[str, Callable[[str], bool]] = {
    "own:ssn": _ssn,
    "own:nino": _nino,
    "own:snils": _snils,
    "own:nric": _nric,
    "own:taiwan": _taiwan,
}


# --------------------------------------------------------------------------- context words
# The words that say what a number is: a bare number without one of them before it is of no kind.


_PHONE = (
    "t[eé]l(?![a-z])",
    "tlf",
    "gsm(?![a-z])",
    "telefon",
    "(?:home|work|office|cell|contact)phone",
    "telephone",
    "teléfono",
    "téléphone",
    "phone(?! calls)",
    "fone",
    "mobile?(?![a-z])",
    "mobil(?:e|nummer|telefon|funk)?(?![a-z])",
    "celular",
    "móvil",
    "movil",
    "fax",
    "handy",
    "whatsapp",
    "sms(?![a-z])",
    "ph(?![a-z])",
    "mob(?![a-z])",
    "msisdn",
    "hotline",
    "anruf",
    "rufnummer",
    "ruf(?:en|e|t)? (?:mich|uns)",
    "komórk",
    "тел",
    "моб",
    "電話",
    "电话",
    "手机",
    "携帯",
    "my (?:[a-z]+ )?number is",
    "meine (?:[a-z]+ )?nummer",
    "mon num[ée]ro",
    "mi n[úu]mero",
)
_CALL = (
    "cell(?:phone|ular)?(?![a-z]|_(?!ph|nu|no|nr))",
    "call(?:s|ed|ing|back)?(?![a-z_(])",
    "signal(?![a-z_(])",
    "dial(?![a-z_(])",
    "ring(?![a-z_(])",
)
_CARD = (
    "credit",
    "debit",
    "kredit",
    "card",
    "karte",
    "carte",
    "tarjeta",
    "visa",
    "master",
    "amex",
    "american express",
    "diners",
    "maestro",
    "pan(?![a-z])",
    "cc(?![a-z])",
    "kartennummer",
)

PHONE = words(*_PHONE, *_CALL)
PHONE_SURELY = words(*_PHONE)
"""Without the words that logs and programs use before a time or a count, too."""

CARD = words(*_CARD)


@lru_cache(maxsize=1)
def _any() -> re.Pattern[str]:
    return words(*_PHONE, *_CALL, *_CARD, *stems())


@lru_cache(maxsize=4_096)
def names_a_number(said: str) -> bool:
    """Return True if any detector takes a bare number for a value behind these words (`words_before`)."""
    return bool(said) and _any().search(said) is not None
