"""Made-up national numbers with right check digits, and the words before those that need one."""

from __future__ import annotations

import string
from collections.abc import Callable
from random import Random

from artelier_lab.pii.values import digits, grouped, luhn


def _ssn(random: Random) -> str:
    area = random.choice([number for number in range(1, 900) if number != 666])
    return f"{area:03d}-{random.randrange(1, 100):02d}-{random.randrange(1, 10000):04d}"


def _nino(random: Random) -> str:
    first, second = random.choice("ABCEHJ"), random.choice("ABCEGHJ")
    number = f"{first}{second}{digits(random, 6)}{random.choice('ABCD')}".replace("BG", "BA", 1)
    return random.choice((number, grouped(number, (2, 2, 2, 2), " ")))


def _nir(random: Random) -> str:
    department = random.choice([number for number in range(1, 95) if number != 20])
    body = (
        f"{random.choice('12')}{random.randrange(100):02d}{random.randrange(1, 13):02d}"
        f"{department:02d}{random.randrange(1, 990):03d}{random.randrange(1, 1000):03d}"
    )
    number = body + f"{97 - int(body) % 97:02d}"
    return grouped(number, (1, 2, 2, 2, 3, 3), " ")


_DNI = "TRWAGMYFPDXBNJZSQVHLCKE"


def _dni(random: Random) -> str:
    body = random.choice("34567") + digits(random, 7)
    return body + random.choice(("", "-")) + _DNI[int(body) % 23]


def _nie(random: Random) -> str:
    first, body = random.randrange(3), digits(random, 7)
    return f"{'XYZ'[first]}{body}{_DNI[int(str(first) + body) % 23]}"


_ODD = dict(
    zip(
        string.digits + string.ascii_uppercase,
        (
            1,
            0,
            5,
            7,
            9,
            13,
            15,
            17,
            19,
            21,
            1,
            0,
            5,
            7,
            9,
            13,
            15,
            17,
            19,
            21,
            2,
            4,
            18,
            20,
            11,
            3,
            6,
            8,
            12,
            14,
            16,
            10,
            22,
            25,
            24,
            23,
        ),
        strict=True,
    )
)


def _codice(random: Random) -> str:
    consonants = "BCDFGLMNPRSTVZ"
    body = (
        "".join(random.choice(consonants) for _ in range(6))
        + f"{random.randrange(100):02d}{random.choice('ABCDEHLMPRST')}{random.randrange(1, 29):02d}"
        + f"{random.choice('ABCDEFGH')}{random.randrange(100, 999)}"
    )
    total = sum(
        _ODD[sign] if index % 2 == 0 else int(sign) if sign.isdigit() else ord(sign) - 65
        for index, sign in enumerate(body)
    )
    return body + chr(65 + total % 26)


def _cpf(random: Random) -> str:
    body = digits(random, 8) + random.choice("123456789")
    for _ in range(2):
        weights = range(len(body) + 1, 1, -1)
        total = sum(int(digit) * weight for digit, weight in zip(body, weights, strict=True))
        body += str(-total % 11 % 10)
    return f"{body[:3]}.{body[3:6]}.{body[6:9]}-{body[9:]}"


def _snils(random: Random) -> str:
    body = random.choice("123456789") + digits(random, 8)
    total = sum(int(digit) * (9 - index) for index, digit in enumerate(body))
    return f"{body[:3]}-{body[3:6]}-{body[6:]} {total % 101 % 100:02d}"


def _personnummer(random: Random) -> str:
    body = f"{random.randrange(30, 99):02d}{random.randrange(1, 13):02d}{random.randrange(1, 29):02d}"
    serial = digits(random, 3)
    return f"{body}-{serial}{luhn(body + serial)}"


_TURN = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    (1, 2, 3, 4, 0, 6, 7, 8, 9, 5),
    (2, 3, 4, 0, 1, 7, 8, 9, 5, 6),
    (3, 4, 0, 1, 2, 8, 9, 5, 6, 7),
    (4, 0, 1, 2, 3, 9, 5, 6, 7, 8),
    (5, 9, 8, 7, 6, 0, 4, 3, 2, 1),
    (6, 5, 9, 8, 7, 1, 0, 4, 3, 2),
    (7, 6, 5, 9, 8, 2, 1, 0, 4, 3),
    (8, 7, 6, 5, 9, 3, 2, 1, 0, 4),
    (9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
)
_SWAP = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def verhoeff(body: str) -> str:
    """The check digit of J. Verhoeff (1969): products in the group of the pentagon."""
    state = 0
    for index, digit in enumerate(reversed(body), start=1):
        value = int(digit)
        for _ in range(index % 8):
            value = _SWAP[value]
        state = _TURN[state][value]
    return str(next(value for value in range(10) if _TURN[state][value] == 0))


def _aadhaar(random: Random) -> str:
    body = random.choice("3456789") + digits(random, 10)
    return grouped(body + verhoeff(body), (4, 4), " ")


def _hetu(random: Random) -> str:
    day = f"{random.randrange(1, 29):02d}{random.randrange(1, 13):02d}{random.randrange(30, 99):02d}"
    serial = f"{random.randrange(2, 900):03d}"
    return f"{day}-{serial}{'0123456789ABCDEFHJKLMNPRSTUVWXY'[int(day + serial) % 31]}"


def _ahv(random: Random) -> str:
    body = "756" + digits(random, 9)
    total = sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(body))
    number = body + str(-total % 10)
    return f"{number[:3]}.{number[3:7]}.{number[7:11]}.{number[11:]}"


def _pesel(random: Random) -> str:
    body = f"{random.randrange(30, 99):02d}{random.randrange(1, 13):02d}{random.randrange(1, 29):02d}"
    body += digits(random, 4)
    total = sum(
        int(digit) * weight for digit, weight in zip(body, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3), strict=True)
    )
    return body + str(-total % 10)


def _bsn(random: Random) -> str:
    while True:
        body = random.choice("12345") + digits(random, 7)
        rest = sum(int(digit) * (9 - index) for index, digit in enumerate(body)) % 11
        if rest < 10:
            return body + str(rest)


def _steuer(random: Random) -> str:
    order = random.sample(string.digits, 10)
    body = [random.choice(order[:9]) if index == 9 else order[index] for index in range(10)]
    if body[0] == "0":
        body[0], body[1] = body[1], body[0]
    if body[0] == "0":
        return _steuer(random)
    product = 10
    for digit in body:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    number = "".join(body) + str((11 - product) % 10)
    return random.choice((number, grouped(number, (2, 3, 3), " ")))


FREE: tuple[Callable[[Random], str], ...] = (
    _ssn,
    _ssn,
    _nino,
    _nir,
    _dni,
    _nie,
    _codice,
    _cpf,
    _snils,
    _personnummer,
    _aadhaar,
    _hetu,
    _ahv,
)
"""Numbers whose shape is enough."""

NAMED: tuple[tuple[Callable[[Random], str], tuple[str, ...]], ...] = (
    (_pesel, ("PESEL", "nr PESEL", "pesel")),
    (_bsn, ("BSN", "burgerservicenummer", "bsn")),
    (_steuer, ("Steuer-ID", "Steueridentifikationsnummer", "IdNr.", "steuer_id")),
    (lambda random: _ssn(random).replace("-", ""), ("SSN", "social security number", "ssn")),
    (lambda random: _aadhaar(random).replace(" ", ""), ("Aadhaar", "aadhaar_number")),
    (lambda random: _nir(random).replace(" ", ""), ("NIR", "numéro de sécu")),
    (lambda random: _cpf(random).replace(".", "").replace("-", ""), ("CPF", "cpf")),
)
"""Numbers that are bare digits, and what stands before them."""
