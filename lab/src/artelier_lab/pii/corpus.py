"""A made-up corpus of personal data: values in sentences, JSON and tables, and look-alikes in their places.

The same seed gives the same corpus. Nothing in it belongs to anybody.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from artelier.ports.pii import DetectedValue, Detector
from artelier_lab.pii import ids as pii_ids
from artelier_lab.pii import values as pii_values
from artelier_lab.pii.lookalikes import clean, lookalike

KINDS = ("EMAIL", "PHONE", "CARD", "IBAN", "NATIONAL_ID", "IP", "SECRET")

Search = Callable[[Sequence[Detector], str], list[DetectedValue]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One text, and the value in it if there is one."""

    text: str
    kind: str
    """Of the value; of the kind that a look-alike resembles; `CLEAN` for a text without either."""

    start: int = 0
    end: int = 0
    """Where the value stands; 0 and 0 if the text holds none."""


_CARRIERS = (
    "{}",
    "Please use {} from now on.",
    "We got {}, as agreed.",
    "({})",
    "Note: {}; nothing else.",
    "From: {}\nBest",
    "1. {}\n2. done",
    "see {}",
    "| north | {} | ok |",
    "2024-11-05 10:30:00 INFO user={} done",
    "She wrote '{}' twice.",
    "<td>{}</td>",
    "north,{},12",
    "12;{};7,50",
    "a\t{}\tb",
    '"x","{}",3',
    "Is it {}?",
    "- {}",
    "wurde {} geändert",
    "{}\n",
)
_CARRIERS_JSON = (
    '{{"id": 7, "value": "{}"}}',
    '{{"rows": [["a", "{}", 3]]}}',
    '["{}"]',
    '{{"note":"use {} now"}}',
)

_PHONE_WORDS = (
    "Tel {}",
    "tel: {}",
    "Phone: {}",
    '{{"phone": "{}"}}',
    "call me at {}",
    "my mobile number is {}",
    "fax={}",
    "Mobil {}",
    "cell {}",
    "WhatsApp {}",
    "phone,{}",
    "reach me by phone: {}.",
)
_PASSWORD_NAMES = (
    "password={}",
    '{{"password": "{}"}}',
    "pwd: {}",
    "Password: {}",
    "the password is {}.",
    "DB_PASSWORD={}\n",
    "postgres://app:{}@db.example.com:5432/shop",
    "password: '{}'",
    "user=app;password={};",
    "<password>{}</password>",
    "mysql --password {} shop",
    "login=bob&password={}&x=1",
    'passwd = "{}"',
    "Passwort: {}",
)
_SECRET_NAMES = (
    "aws_secret_access_key = {}",
    '{{"client_secret": "{}"}}',
    "API_KEY={}",
    "x-api-key: {}",
    "Authorization: Bearer {}",
    "auth_token: '{}'",
    'SECRET_KEY="{}"',
)


def values(kind: str, *, seed: int = 1, count: int = 500) -> list[Sample]:
    """Texts that each hold one value of a kind."""
    random = Random(f"{seed} values {kind}")
    return [_sample(kind, *_value(kind, random)) for _ in range(count)]


def lookalikes(kind: str, *, seed: int = 1, count: int = 500) -> list[Sample]:
    """Texts that hold nothing, though something in them resembles this kind."""
    random = Random(f"{seed} lookalikes {kind}")
    samples: list[Sample] = []
    for _ in range(count):
        carrier, thing = _plain_carrier(random), lookalike(kind, random)
        samples.append(Sample(text=_filled(carrier, thing)[0], kind=kind))
    return samples


def cleans(*, seed: int = 1, count: int = 500) -> list[Sample]:
    """Texts without anything that resembles a value: prose and tables of figures."""
    random = Random(f"{seed} clean")
    return [Sample(text=clean(random), kind="CLEAN") for _ in range(count)]


def _sample(kind: str, carrier: str, value: str) -> Sample:
    text, start, end = _filled(carrier, value)
    return Sample(text=text, kind=kind, start=start, end=end)


def _filled(carrier: str, value: str) -> tuple[str, int, int]:
    """The carrier with the value in its place, escaped where the carrier is JSON."""
    if carrier.startswith(("{{", "[")):
        value = json.dumps(value, ensure_ascii=False)[1:-1]
    before, after = (part.replace("{{", "{").replace("}}", "}") for part in carrier.split("{}"))
    return before + value + after, len(before), len(before) + len(value)


def _plain_carrier(random: Random) -> str:
    return random.choice(_CARRIERS_JSON if random.random() < 0.2 else _CARRIERS)


def _value(kind: str, random: Random) -> tuple[str, str]:
    """A carrier and what it carries."""
    makers: dict[str, Callable[[Random], tuple[str, str]]] = {
        "PHONE": _phone,
        "NATIONAL_ID": _national,
        "SECRET": _secret,
    }
    if kind in makers:
        return makers[kind](random)
    plain = {"EMAIL": pii_values.email, "CARD": pii_values.card, "IBAN": pii_values.iban, "IP": pii_values.ip}
    return _plain_carrier(random), plain[kind](random)


def _phone(random: Random) -> tuple[str, str]:
    if random.random() < 0.3:
        return random.choice(_PHONE_WORDS), pii_values.spoken_phone(random)
    return _plain_carrier(random), pii_values.phone(random)


def _national(random: Random) -> tuple[str, str]:
    if random.random() < 0.3:
        make, names = random.choice(pii_ids.NAMED)
        form = random.choice(("{}: {{}}", "my {} is {{}}", "{} {{}}", '"{}": "{{}}"'))
        return form.format(random.choice(names)), make(random)
    return _plain_carrier(random), random.choice(pii_ids.FREE)(random)


def _secret(random: Random) -> tuple[str, str]:
    way = random.random()
    if way < 0.25:
        carrier, value = random.choice(_PASSWORD_NAMES), pii_values.password(random)
        return carrier, value.replace("#", "") if "://" in carrier else value
    if way < 0.4:
        return random.choice(_SECRET_NAMES), pii_values.machine_secret(random)
    return _plain_carrier(random), pii_values.token(random)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The scores of detectors on a corpus."""

    recall: Mapping[str, float]
    """Of the values of each kind, the part that was found whole and under its kind."""

    recall_total: float
    false_alarms: Mapping[str, float]
    """Of 1,000 look-alikes of each kind, how many texts had anything marked; `CLEAN`: of clean texts."""

    false_alarms_total: float
    missed: tuple[Sample, ...]
    alarmed: tuple[tuple[Sample, tuple[DetectedValue, ...]], ...]


def judge(find_all: Search, detectors: Sequence[Detector], *, seed: int = 1, count: int = 500) -> Marks:
    """Search the whole corpus: `count` values and look-alikes of each kind, and clean texts."""
    recall: dict[str, float] = {}
    alarms: dict[str, float] = {}
    missed: list[Sample] = []
    alarmed: list[tuple[Sample, tuple[DetectedValue, ...]]] = []
    for kind in KINDS:
        here = [
            one
            for one in values(kind, seed=seed, count=count)
            if not _is_found(one, find_all(detectors, one.text))
        ]
        recall[kind] = 1 - len(here) / count
        missed += here
    for kind, samples in _harmless(seed, count):
        wrong = [(one, tuple(found)) for one in samples if (found := find_all(detectors, one.text))]
        alarms[kind] = 1_000 * len(wrong) / count
        alarmed += wrong
    return Marks(
        recall=recall,
        recall_total=sum(recall.values()) / len(recall),
        false_alarms=alarms,
        false_alarms_total=sum(alarms.values()) / len(alarms),
        missed=tuple(missed),
        alarmed=tuple(alarmed),
    )


def _harmless(seed: int, count: int) -> Iterator[tuple[str, list[Sample]]]:
    for kind in KINDS:
        yield kind, lookalikes(kind, seed=seed, count=count)
    yield "CLEAN", cleans(seed=seed, count=count)


def _is_found(sample: Sample, found: Sequence[DetectedValue]) -> bool:
    return any((one.start, one.end, one.kind) == (sample.start, sample.end, sample.kind) for one in found)
