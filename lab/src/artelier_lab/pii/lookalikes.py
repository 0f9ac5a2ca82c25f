"""Made-up texts that look like personal data and are none: wrong check digits, figures, names of things."""

from __future__ import annotations

import string
import uuid
from collections.abc import Callable, Sequence
from random import Random

from artelier_lab.pii.ids import FREE
from artelier_lab.pii.values import card, digits, iban, luhn

Maker = Callable[[Random], str]


def filled(template: str) -> Maker:
    """Random digits for `#`, hexadecimal for `~`, capitals for `^`."""
    signs = {"#": "123456789", "~": "0123456789abcdef", "^": string.ascii_uppercase}

    def make(random: Random) -> str:
        return "".join(random.choice(signs[sign]) if sign in signs else sign for sign in template)

    return make


def _one_of(templates: Sequence[str]) -> tuple[Maker, ...]:
    return tuple(filled(template) for template in templates)


def _spoiled(value: str) -> str:
    """The value with its last digit one higher, so that no check fits."""
    at = max(index for index, sign in enumerate(value) if sign.isdigit())
    return value[:at] + str((int(value[at]) + 1) % 10) + value[at + 1 :]


def _uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def _ref(random: Random) -> str:
    signs = string.ascii_letters + string.digits + "_-"
    return "b:" + "".join(random.choice(signs) for _ in range(43))


def _ean(random: Random) -> str:
    body = random.choice(("400", "590", "871", "978", "076")) + digits(random, 9)
    total = sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(body))
    return body + str(-total % 10)


def _milliseconds(random: Random) -> str:
    return f"{random.randrange(1_600_000_000, 1_900_000_000)}{digits(random, 3)}"


def _microseconds(random: Random) -> str:
    return _milliseconds(random) + digits(random, 3)


def _order_number(random: Random) -> str:
    """Sixteen digits as no scheme issues them."""
    body = random.choice(("10", "19", "70", "77", "90", "00")) + digits(random, 13)
    return body + luhn(body)


def _wrong_id(random: Random) -> str:
    """A number of a state with a letter or digit that its check refuses."""
    while True:
        value = random.choice(FREE[3:])(random)
        if value[-1].isdigit():
            return _spoiled(value)
        if value[-1] in string.ascii_uppercase:
            return value[:-1] + chr(65 + (ord(value[-1]) - 64) % 26)


def _sha(random: Random) -> str:
    return f"{random.getrandbits(256):064x}"


_THINGS: dict[str, tuple[Maker, ...]] = {
    "EMAIL": _one_of(
        (
            "@handle_##",
            "icon@2x.png",
            "react@1#.2.#",
            "git@github.com:owner/repo##.git",
            "scp app@web#.example.com:/srv/x##",
            "rsync -a db@host#.example.org:/dump",
            "ssh://git@code#.example.com/team/app.git",
            "aes##-gcm@openssh.com",
            "a## @ b##.T",
            "x@y.mean()",
            "(at) #",
            "meet at noon",
            "items[at].size ##",
            '@app.route("/x##")',
            "## @ 3.5#",
            "3@4.##",
            "@angular/core@17.0.#",
            "https://medium.com/@ann.lee/a-##",
            "name@",
            "@example.com",
            "root@localhost",
            "logo@3x.jpg",
            "a@b",
            "x @ y.com",
        )
    ),
    "PHONE": (
        *_one_of(
            (
                "1,234,567.8#",
                "2024-11-0#",
                "05.11.2024 10:3#",
                "2024-11-0# 10:30:4#",
                "INV-2024-000###",
                "RE 2024/00###",
                "##########",
                "#########",
                "###########",
                "12-3456-78#",
                "SKU-00#-##4#",
                "52.52000#, 13.40495#",
                "-122.419#, 37.774#",
                "978-3-16-14841#-0",
                "0-306-4061#-2",
                "2019-2024",
                "10 000 00#",
                "1.234.56#",
                "12345-678#",
                "1Z999AA1012345678#",
                "0001234#",
                "+12.#%",
                "+1,234,56#",
                "(2024)",
                "(1,234.5#)",
                "3-2-#",
                "PN 4500-123-45#",
                "1200 3400 560#",
                "DE12345678#",
                "4#.5#.6#",
                "1 234 567,8#",
                "9#-1#-2#",
                "$1 234 567 89#",
                "12:3#:45.123456",
                "0.000123456#",
                "1e10",
                "10-20-30-4#",
                "2024/25 100#",
                "Q3 2024 1234#",
                "<Buffer 0# 1# 2# 3# 4#>",
                "0a 0# 1# 2# 3# 4#",
                "039# 030# 030#; 0128",
                "arange(6) + 9817248#",
                "--cellToolbar:#8080805#",
                "call 17638162## took # s",
                "signal 17638162##### received",
                "phone calls: 2024110#",
                "0# 1# 2# 3# 4# 5# 6# 7#",
                "check_call(['truncate', '53687091##'])",
                "as is 0.5 + 14285714.28#",
            )
        ),
        _milliseconds,
        _ean,
    ),
    "CARD": (
        lambda random: _spoiled(card(random)),
        lambda random: _spoiled(card(random)),
        _order_number,
        _microseconds,
        _milliseconds,
        _ean,
        _uuid,
        _ref,
        _sha,
        *_one_of(
            (
                "0.4111111111111#11",
                "1234 5678 9012 345#",
                "4111 1111 1111",
                "2019 2020 2021 2022",
                "177#38162632847361#9",
                "-.544630705124901#",
                "[-.5#5,.4111111111111111]",
                "9007199254740991",
                "4111111111111111#######",
                "~~~~4111111111111111~~~~",
                "1000 2000 3000 400#",
            )
        ),
    ),
    "IBAN": (
        lambda random: _spoiled(iban(random).upper()),
        lambda random: _spoiled(iban(random).upper()),
        lambda random: _spoiled(iban(random).upper()) + "0",
        lambda random: iban(random).upper().replace(" ", "").replace("-", "")[:-2],
        _sha,
        _ref,
        *_one_of(
            (
                "DE12 3456 789#",
                "DE12345678#",
                "COBADEFFXXX",
                "AB12-CD34-EF5#",
                "GB12WEST",
                "XX00 1234 5678 9012",
            )
        ),
    ),
    "NATIONAL_ID": (
        _wrong_id,
        _wrong_id,
        _wrong_id,
        _wrong_id,
        _uuid,
        _ean,
        *_one_of(
            (
                "000-1#-234#",
                "666-1#-234#",
                "123-00-45##",
                "123-45-0000",
                "20241105A",
                "AB12345#E",
                "QQ12345#C",
                "###########",
                "#########",
                "2019 2020 2021",
                "12.345.678,#0",
                "A12345#",
                "4#.##.2024",
                "SKU 1234-#-56",
                "ABCD123#",
                "^^-####-^",
                "1234 5678 9#",
            )
        ),
    ),
    "IP": _one_of(
        (
            "v1.2.3.#",
            "version 10.2.0.#",
            "1.2.#",
            "256.1.2.#",
            "1.2.3.4.#",
            "10:30:4#",
            "00:1b:44:11:3a:~~",
            "std::vector<int>",
            "127.0.0.1",
            "0.0.0.0",
            "255.255.255.0",
            "::1",
            "2024.11.0#",
            "1:2:#",
            "#~~~~~",
            "1.3.6.1.4.1.311.#",
            "Foo::Bar",
            "release 4.1.2.#",
            "10.5",
            "1,2,3,#",
            "a::b",
            "firmware 2.0.1.#",
            "300.1.2.#",
            "upgrade V8 to 3.6.6.2#",
            "RFC 7540 8.1.2.#",
            "sections 2.3.3.#",
            "11.3.244.#-node.9",
            "m46 191.66.73.35 72.#8-48.2",
            "10.0.#.0/24",
            "8.8.8.8",
            "ffff:ffff:ffff::",
            "fe80::/10",
            'ObjectIdentifier("2.5.29.3#")',
            "lib==1.4.2.#",
            "12:00:0#.123",
            "§ 3.1.2.#",
            "1.234.567.89#",
        )
    ),
    "SECRET": (
        _sha,
        _uuid,
        _ref,
        lambda random: f"{random.getrandbits(160):040x}",
        *_one_of(
            (
                '"pass": "All ## elements have a label"',
                "tests pass: ##, fail: #",
                "compass:before{top:#px}",
                "password = username",
                "private_key: Ed25519PrivateKey",
                "password: BinaryLike#",
                "surpass=12###",
                '_BEGIN = "-----BEGIN PRIVATE KEY-----"; _END = "-----END PRIVATE KEY-----"',
                "Pass :meth:`peek` a value",
                "risk-assessment-for-the-second-quarter-202#",
                "task-1234567890123456789##",
                "password: required",
                '"password": {"type": "string"}',
                'password = os.environ["DB_PASSWORD"]',
                "token: 50##",
                "max_tokens=40##",
                "api_key=${API_KEY}",
                "password: ********",
                "Bearer of good news",
                "the secret of success is patience",
                '"token_count": 12345678901##',
                "https://example.com/path?page=#",
                "key: value",
                "AKIA1234",
                "ghp_short",
                "The password is case sensitive",
                "sk-learn",
                "desk-lamp-white-with-a-long-name-##",
                "Password reset link sent",
                '"password": "string"',
                "pass: no",
                "https://example.com:8080/x@y",
                "token expired",
                "api_key: null",
                "eyJ is how a token begins",
                "secret: true",
                "Passwords must have 12 characters",
                "password=<password>",
                "tokens: 123456",
                "the token is invalid",
                "--password-file secrets.txt",
                "sk-ant-",
                "xoxb-",
                "pwd=/home/me",
                "SKU key-~~~~",
                "credentials: see the handbook",
            )
        ),
    ),
}


def lookalike(kind: str, random: Random) -> str:
    """Something that a careless detector of this kind would take for a value."""
    return random.choice(_THINGS[kind])(random)


_PEOPLE = ("the buyer", "our team", "the auditor", "a visitor", "the committee", "the northern office")
_DID = ("reviewed", "signed off", "postponed", "compared", "presented", "questioned")
_WHAT = (
    "the budget for 2025",
    "twelve offers",
    "the second draft",
    "a plan of 18 months",
    "all 340 answers",
    "page 12 to 19",
)
_WHY = (
    "before lunch",
    "at 14:30",
    "in two steps",
    "because of the 3.5% rise",
    "on 5 November",
    "without a word",
)


def prose(random: Random) -> str:
    """Two sentences in which nobody can be recognised."""
    return " ".join(
        f"{random.choice(_PEOPLE).capitalize()} {random.choice(_DID)} {random.choice(_WHAT)}"
        f" {random.choice(_WHY)}."
        for _ in range(2)
    )


def sales_rows(random: Random, rows: int = 8) -> str:
    """A table of figures: order, day, amount, pieces, total, article."""
    sign = random.choice(",;\t")
    lines = [sign.join(("order_id", "day", "amount", "pieces", "total", "ean"))]
    for _ in range(rows):
        day = f"2024-{random.randrange(1, 13):02d}-{random.randrange(1, 29):02d}"
        fields = (
            str(random.randrange(10**9, 10**10)),
            day,
            f"{random.random() * 1e5:.2f}",
            str(random.randrange(1, 500)),
            f"{random.random() * 1e8:.2f}",
            _ean(random),
        )
        lines.append(sign.join(fields))
    return "\n".join(lines)


def clean(random: Random) -> str:
    """A text without anything personal: prose or a table."""
    return sales_rows(random) if random.random() < 0.5 else prose(random)
