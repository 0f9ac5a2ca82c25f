"""A made-up corpus of values that hide, each in several carriers, and of texts that only look alike.

The same seed gives the same corpus. Nothing in it belongs to anybody.
"""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from random import Random

from artelier_lab.pii import values as pii_values
from artelier_lab.pii.corpus import Sample

VALUES: dict[str, Callable[[Random], str]] = {
    "EMAIL": pii_values.email,
    "CARD": pii_values.card,
    "IBAN": pii_values.iban,
}
"""Values whose form alone proves them."""

_CARRIERS = (
    "{}",
    "The header says {} today.",
    "x={}&page=2",
    '{{"note": "{}", "n": 3}}',
    "- {}\n- done",
    "see ({}), please",
    "token: {}\nnext line",
)


def _nested(value: str, levels: int) -> str:
    for _ in range(levels):
        value = json.dumps({"v": value})
    return value


def _simple_email(random: Random) -> str:
    names = ("ana.lopez", "k.mueller", "jo_smith7", "mia+news", "li.wei88", "o.brien", "petra", "samir")
    hosts = ("example.org", "mail.example.com", "firma.de", "uni.example.ch", "studio.io", "shop.co.uk")
    return f"{random.choice(names)}@{random.choice(hosts)}"


def _spaced(random: Random) -> str:
    local, host = _simple_email(random).split("@")
    sign = random.choice((" @ ", "@ ", " @", " (at) ", "(at)", " [at] "))
    dot = random.choice((".", " . ", " (dot) ", "[dot]"))
    return local + sign + host.replace(".", dot)


def _split(random: Random) -> str:
    value, end = _simple_email(random), random.choice(("\n", "\r\n", "=\n", "\n  ", "\n> "))
    at = random.choice((value.index("@"), value.index("@") + 1, value.rindex("."), value.index("@") + 3))
    return value[:at] + end + value[at:]


def _split_groups(random: Random) -> str:
    value = random.choice(
        (
            "4111 1111 1111 1111",
            "5500 0055 5555 5559",
            "DE89 3704 0044 0532 0130 00",
            "GB82 WEST 1234 5698 7654 32",
            "4012 8888 8888 1881",
        )
    )
    groups = value.split(" ")
    at = random.randrange(2, len(groups) - 1)
    return " ".join(groups[:at]) + "\n" + " ".join(groups[at:])


def _dotted(value: str, sign: str) -> str:
    return sign.join(value)


HIDINGS: dict[str, Callable[[Random, str], str]] = {
    "base64": lambda _, value: b64encode(value.encode()).decode(),
    "base64 in a sentence": lambda _, value: b64encode(f"please write to {value} now".encode()).decode(),
    "base64 for links": lambda _, value: urlsafe_b64encode(f"to={value}".encode()).decode().rstrip("="),
    "base64 in lines": lambda _, value: "\n".join(
        text[at : at + 76]
        for text in (b64encode(f"Dear {value}, {'we write to you. ' * 8}".encode()).decode(),)
        for at in range(0, len(text), 76)
    ),
    "base64 twice": lambda _, value: b64encode(b64encode(value.encode())).decode(),
    "hex": lambda _, value: value.encode().hex(),
    "hex in bytes": lambda _, value: value.encode().hex(" "),
    "percent": lambda _, value: "".join(f"%{code:02X}" for code in value.encode()),
    "json four deep": lambda _, value: _nested(value.replace("@", "\\u0040"), 4)[1:-1],
    "json seven deep": lambda _, value: _nested(value.replace("@", "\\u0040"), 7)[1:-1],
    "variation selectors": lambda _, value: _dotted(value, "\U000e0101"),
    "zero width": lambda _, value: _dotted(value, "\u200b"),
    "fillers": lambda _, value: _dotted(value, "\u3164"),
}
"""Ways of hiding by what they make of a value."""

MADE: dict[str, Callable[[Random], str]] = {
    "spaces and words": _spaced,
    "parted address": _split,
    "parted groups": _split_groups,
}
"""Ways that make their own value."""


def hidden_values(hiding: str, *, seed: int = 1, count: int = 200) -> list[Sample]:
    """Texts that each hide one value in one way."""
    random, samples = Random(f"{seed} hidden {hiding}"), list[Sample]()
    for _ in range(count):
        if hiding in MADE:
            kind, written = "EMAIL", MADE[hiding](random)
        else:
            kind = random.choice(list(VALUES))
            written = HIDINGS[hiding](random, VALUES[kind](random))
        before, after = random.choice(_CARRIERS).replace("{{", "{").replace("}}", "}").split("{}")
        samples.append(
            Sample(text=before + written + after, kind=kind, start=len(before), end=len(before + written))
        )
    return samples


def benign(*, seed: int = 1, count: int = 300) -> Iterator[tuple[str, str]]:
    """Kinds of texts without values, with texts of each: hashes, ids, code, pictures, numbers, links."""
    random = Random(f"{seed} benign")
    makers: dict[str, Callable[[], str]] = {
        "hashes": lambda: f"sha256:{random.randbytes(32).hex()} md5 {random.randbytes(16).hex()}",
        "ids": lambda: (
            f"id {urlsafe_b64encode(random.randbytes(random.randrange(9, 40))).decode()} and"
            f" {b64encode(random.randbytes(random.randrange(9, 60))).decode()}"
        ),
        "pictures": lambda: (
            "data:image/png;base64," + b64encode(random.randbytes(random.randrange(200, 900))).decode()
        ),
        "mail": lambda: "\n".join(
            b64encode(random.randbytes(57)).decode() for _ in range(random.randrange(2, 9))
        ),
        "bytes": lambda: random.randbytes(random.randrange(8, 64)).hex(" "),
        "words in base64": lambda: b64encode(b"the ship sails at dawn, and nobody waits").decode(),
        "code": lambda: random.choice(
            (
                "y = q @ k.T\nz = a @ b.mean(axis=1)\n",
                "x = W @ self.weight\n@app.route('/a')\ndef a(): ...",
                "@pytest.mark.slow\ndef test_it():\n    assert x @ y.shape",
                "result\n@functools.cache\ndef f(): ...",
                "from a.b import c\n@click.group()\n",
                "getUserAccountByIdentifier(AbstractSingletonProxyFactoryBean)",
                "npm install @types/node @babel/core\n",
                "git@\ngithub",
                "if a[at] and b(at): pass",
            )
        ),
        "numbers": lambda: "\n".join(
            " ".join(str(random.randrange(1000, 9999)) for _ in range(random.randrange(1, 5)))
            for _ in range(12)
        ),
        "columns": lambda: "\n".join(str(random.randrange(10**7, 10**8)) for _ in range(20)),
        "links": lambda: (
            f"https://example.org/a%20b/{random.randbytes(9).hex()}?q=%E4%BD%A0%2Fx&s={random.random()}"
        ),
        "prose": lambda: random.choice(
            (
                "Find us @ example.com and stay.",
                "We meet @ noon.\nThen home.",
                "Follow me @\nthe usual place.",
                "It was at dot com prices.\nThe end. Nobody knew.",
                "Reach the\n@everyone channel.",
                "Lunch @ Café Central. Bring cash.",
                "The ratio was 3 @ 5.5 per cent.",
                "Rate: 12 @ 4.50 each\n",
            )
        ),
        "json": lambda: _nested('a line\n"of words", 12', 5),
    }
    for name, make in makers.items():
        for _ in range(count):
            yield name, make()
