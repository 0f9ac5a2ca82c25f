"""The words that say what a number is: a bare number without one of them before it is of no kind."""

from __future__ import annotations

import re
from functools import lru_cache

from artelier.pii.detectors.national.forms import stems
from artelier.pii.detectors.preceding_words import words

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
