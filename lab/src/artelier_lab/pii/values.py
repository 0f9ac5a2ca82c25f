"""Made-up values of each kind of personal data, with right check digits, in the spellings that people use.

The check digits are computed here and not by the detectors, so that one does not vouch for the other.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from random import Random

_NAMES = (
    "anna",
    "bjorn",
    "carlos",
    "dmitri",
    "eva",
    "farid",
    "grace",
    "hiro",
    "ines",
    "jack",
    "katya",
    "liam",
    "mia",
    "noor",
    "olga",
    "pavel",
    "quinn",
    "rosa",
    "sven",
    "tara",
    "umar",
    "vera",
    "wei",
    "xenia",
    "yusuf",
    "zoe",
)
_FAMILIES = (
    "smith",
    "garcia",
    "muller",
    "dubois",
    "rossi",
    "silva",
    "novak",
    "ivanov",
    "tanaka",
    "kumar",
    "o'neill",
    "andersen",
    "van-dijk",
    "kowalski",
    "yilmaz",
    "haddad",
    "nguyen",
    "kim",
    "chen",
    "okafor",
)
_HOSTS = (
    "example.com",
    "mail.example.org",
    "post.co.uk",
    "firma.de",
    "gmail.com",
    "outlook.com",
    "uni-ulm.de",
    "corp.example.net",
    "münchen.de",
    "почта.рф",
    "xn--mnchen-3ya.de",
    "startup.io",
    "health.museum",
    "a.b.c.example.fr",
)


def digits(random: Random, count: int) -> str:
    return "".join(random.choice(string.digits) for _ in range(count))


def luhn(body: str) -> str:
    """The digit that makes the sum of ISO/IEC 7812 a multiple of ten."""
    total = 0
    for index, digit in enumerate(reversed(body)):
        value = int(digit) * (2 if index % 2 == 0 else 1)
        total += value // 10 + value % 10
    return str(-total % 10)


def grouped(text: str, sizes: tuple[int, ...], sign: str) -> str:
    """The text cut into pieces of these sizes, the rest last."""
    pieces: list[str] = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return sign.join([*pieces, text] if text else pieces)


def email(random: Random) -> str:
    name, family, host = random.choice(_NAMES), random.choice(_FAMILIES), random.choice(_HOSTS)
    plain = family.replace("'", "")
    local = random.choice(
        (
            f"{name}.{family}",
            f"{name}_{digits(random, 2)}",
            f"{name}+{plain}",
            name,
            f"{name[0]}{family}",
            f"{name.title()}.{family.title()}",
            f'"{name} {family}"',
            f"{name}{digits(random, 4)}",
        )
    )
    if random.random() < 0.08 and '"' not in local and "'" not in local:
        return f"{local.replace('+', '%2B')}%40{host}"
    if random.random() < 0.08 and '"' not in local and "'" not in local and host.isascii():
        sign = random.choice((" (at) ", "(at)", " [at] ", "[AT]"))
        return f"{local}{sign}{host.replace('.', ' [dot] ') if ' [' in sign else host}"
    return f"{local}@{host}"


_PHONES = (
    "+1 (212) 736-####",
    "+1-415-55#-####",
    "+1 206 555 01##",
    "+1202555####",
    "(312) 664-####",
    "646-27#-####",
    "503.22#.####",
    "1-800-356-####",
    "+44 20 7946 0###",
    "+44 7700 9#####",
    "020 7946 0###",
    "+44 (0)161 496 0###",
    "+49 30 12345###",
    "+49 (0) 89 1234 ###",
    "0049 171 12#####",
    "030 / 1234###",
    "+4915112345###",
    "0171-12345##",
    "+33 1 42 68 ## ##",
    "01 42 68 ## ##",
    "+33 6 12 34 ## ##",
    "06.12.34.##.##",
    "+39 06 698#####",
    "+39 333 12#####",
    "+34 612 34# ###",
    "+34 91 411 ####",
    "+31 6 1234####",
    "+31 20 794 ####",
    "+48 512 34# ###",
    "+46 70 123 45 ##",
    "+47 412 34 ###",
    "+45 32 12 ## ##",
    "+358 40 123####",
    "+41 44 668 ## ##",
    "+43 1 53###",
    "+32 470 12 ## ##",
    "+351 912 34# ###",
    "+7 (495) 123-45-##",
    "+7 912 345-67-##",
    "+380 44 279 ####",
    "+90 532 123 ## ##",
    "+91 98765 4####",
    "+91-22-2778-####",
    "+86 138 1234 ####",
    "+81 3-1234-####",
    "+81 90 1234 ####",
    "03-1234-####",
    "+82 2-312-3456",
    "010-1234-####",
    "+61 2 9374 ####",
    "+61 412 345 ###",
    "+55 11 91234-####",
    "(11) 91234-####",
    "+52 55 1234 ####",
    "+27 82 123 ####",
    "+971 50 123 ####",
    "+65 6123 ####",
    "+972 54-123-####",
    "+234 803 123 ####",
)
_SPOKEN = (
    "07700 900###",
    "07911123###",
    "415555####",
    "2127361###",
    "0891234###",
    "0612345###",
    "612345###",
    "9876543###",
    "13812345###",
    "555-01##",
    "555-1##2",
)


def _filled(random: Random, template: str) -> str:
    return "".join(random.choice("23456789") if sign == "#" else sign for sign in template)


def phone(random: Random) -> str:
    """A number that needs no word before it."""
    return _filled(random, random.choice(_PHONES))


def spoken_phone(random: Random) -> str:
    """A number that is one only because a word says so."""
    return _filled(random, random.choice(_SPOKEN))


_CARDS = (
    ("4", 16),
    ("4", 16),
    ("4", 16),
    ("51", 16),
    ("53", 16),
    ("55", 16),
    ("2223", 16),
    ("2720", 16),
    ("34", 15),
    ("37", 15),
    ("6011", 16),
    ("65", 16),
    ("3530", 16),
    ("62", 16),
    ("305", 14),
    ("36", 14),
    ("2202", 16),
)


def card(random: Random) -> str:
    prefix, length = random.choice(_CARDS)
    body = prefix + digits(random, length - 1 - len(prefix))
    number = body + luhn(body)
    sizes = {14: (4, 6), 15: (4, 6)}.get(length, (4, 4, 4))
    # A card in a table has no gaps; one of 14 digits without gaps may be an article number too.
    sign = random.choice((" ", "-", "", " ", "-", "\u00a0"))
    return grouped(number, sizes, sign or (" " if length == 14 else ""))


_IBANS = {
    "DE": "d" * 18,
    "GB": "aaaa" + "d" * 14,
    "FR": "d" * 10 + "c" * 11 + "dd",
    "ES": "d" * 20,
    "IT": "a" + "d" * 10 + "c" * 12,
    "NL": "aaaa" + "d" * 10,
    "BE": "d" * 12,
    "CH": "d" * 5 + "c" * 12,
    "AT": "d" * 16,
    "PL": "d" * 24,
    "SE": "d" * 20,
    "NO": "d" * 11,
    "DK": "d" * 14,
    "FI": "d" * 14,
    "PT": "d" * 21,
    "IE": "aaaa" + "d" * 14,
    "CZ": "d" * 20,
    "GR": "d" * 7 + "c" * 16,
    "TR": "d" * 6 + "c" * 16,
    "AE": "d" * 19,
    "SA": "dd" + "c" * 18,
    "BR": "d" * 23 + "ac",
    "MT": "aaaa" + "d" * 5 + "c" * 18,
    "UA": "d" * 6 + "c" * 19,
}


def iban(random: Random) -> str:
    country, form = random.choice(tuple(_IBANS.items()))
    signs = {"d": string.digits, "a": string.ascii_uppercase, "c": string.digits + "ABCDEFGH"}
    body = "".join(random.choice(signs[sign]) for sign in form)
    number = country + iban_check(country, body) + body
    spelling = random.randrange(4)
    if spelling == 0:
        return number
    if spelling == 1:
        return number.lower()
    return grouped(number, (4,) * (len(number) // 4), " " if spelling == 2 else random.choice(" -\u202f"))


def iban_check(country: str, body: str) -> str:
    """The two check digits of ISO 13616."""
    value = int("".join(str(int(sign, 36)) for sign in f"{body}{country}00"))
    return f"{98 - value % 97:02d}"


def ip(random: Random) -> str:
    if random.random() < 0.7:
        first = random.choice((10, 172, 192, 203, 8, 81, 85, 93, 145, 212))
        return f"{first}.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}"
    groups = [f"{random.randrange(1, 65536):x}" for _ in range(6)]
    spelling = random.randrange(3)
    if spelling == 0:
        return ":".join(["2001", "db8", *groups])
    if spelling == 1:
        return f"2a02:{groups[0]}::{groups[1]}:{groups[2]}"
    return f"fe80::{groups[0]}:{groups[1]}:{groups[2].upper()}"


_SIGNS = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def _letters(random: Random, count: int, signs: str = _SIGNS) -> str:
    """Random signs, a digit always among them."""
    body = "".join(random.choice(signs) for _ in range(count - 1))
    place = random.randrange(count)
    return body[:place] + random.choice("23456789") + body[place:]


_URL_SIGNS = _SIGNS + "_-"
_TOKENS: tuple[Callable[[Random], str], ...] = (
    lambda r: "sk-" + _letters(r, 48),
    lambda r: "sk-proj-" + _letters(r, 90, _URL_SIGNS) + "A",
    lambda r: "sk-ant-api03-" + _letters(r, 80, _URL_SIGNS) + "AA",
    lambda r: r.choice(("AKIA", "ASIA")) + _letters(r, 16, string.ascii_uppercase + string.digits),
    lambda r: r.choice(("ghp_", "gho_", "ghs_")) + _letters(r, 36),
    lambda r: "github_pat_" + _letters(r, 22) + "_" + _letters(r, 59),
    lambda r: "glpat-" + _letters(r, 20),
    lambda r: f"xoxb-{digits(r, 12)}-{digits(r, 12)}-" + _letters(r, 24),
    lambda r: "AIza" + _letters(r, 35),
    lambda r: r.choice(("sk_live_", "rk_live_", "sk_test_")) + _letters(r, 24),
    lambda r: f"eyJ{_letters(r, 20)}.eyJ{_letters(r, 60)}.{_letters(r, 42, _URL_SIGNS)}x",
    lambda r: "hf_" + _letters(r, 34),
    lambda r: "npm_" + _letters(r, 36),
    lambda r: "SG." + _letters(r, 22) + "." + _letters(r, 43),
    lambda r: (
        "-----BEGIN RSA PRIVATE KEY-----\n"
        + "\n".join(_letters(r, 64) for _ in range(4))
        + "\n-----END RSA PRIVATE KEY-----"
    ),
)


def token(random: Random) -> str:
    """A key in the form of a well-known issuer."""
    return random.choice(_TOKENS)(random)


def password(random: Random) -> str:
    """Return what somebody chose: known as a secret only by the name before it."""
    return random.choice(
        (
            f"{random.choice(_NAMES)}{digits(random, 3)}",
            _letters(random, 14),
            f"{random.choice(_NAMES).title()}!{digits(random, 2)}",
            f"Tr0ub4dor-{digits(random, 2)}#{random.choice(_NAMES)}",
            random.choice(_NAMES) + random.choice(_NAMES) + "_" + digits(random, 1),
        )
    )


def machine_secret(random: Random) -> str:
    """Forty signs as a machine makes them, of no form that names its issuer."""
    return _letters(random, 40, _SIGNS + "/+")
