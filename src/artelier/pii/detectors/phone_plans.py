"""Which digits are a number of which country, by the plans of the library `phonenumbers`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phonenumbers import PhoneMetadata, PhoneNumber

REGIONS = tuple(
    "US GB DE FR IN ES IT BR NL PL RU CN JP AU MX TR CH AT"
    " BE SE PT NO DK FI IE CZ UA KR ZA IL AR SG NZ GR HU RO".split()
)  # fmt: skip
"""Whose national forms are known; of several that fit, the first decides. The order is a guess."""

_NATIONAL_DIGITS_MIN = 5

_ZERO_OPTIONAL = ("IN", "CN", "TR", "KR", "IL", "BR", "AR", "UA")
"""Where people leave the zero of a national call away, at least before the number of a mobile."""

_BRITISH_EXAMPLES = "07700900"
"""Kept for examples and films (Ofcom): assigned to nobody, and in many texts."""


@lru_cache(maxsize=512)
def _plan(code: int) -> tuple[re.Pattern[str], str] | None:
    """What numbers of a calling code look like, and the prefix that people wrongly leave before them."""
    from phonenumbers import PhoneMetadata, region_code_for_country_code

    region = region_code_for_country_code(code)
    metadata = PhoneMetadata.metadata_for_region_or_calling_code(code, region)
    return _form(metadata)


@lru_cache(maxsize=64)
def _regional(region: str) -> tuple[re.Pattern[str], str] | None:
    from phonenumbers import PhoneMetadata

    return _form(PhoneMetadata.metadata_for_region(region, None))


def _form(metadata: PhoneMetadata | None) -> tuple[re.Pattern[str], str] | None:
    if metadata is None or metadata.general_desc is None:
        return None
    pattern = metadata.general_desc.national_number_pattern
    return None if pattern is None else (re.compile(pattern), metadata.national_prefix or "")


def international(digits: str, *, strictly: bool = False) -> str | None:
    """E.164 of the digits behind a plus, or None if no country has such numbers.

    Without `strictly` it is enough that the number fits the country's plan as a whole, assigned or not:
    examples in texts seldom are.
    """
    if digits.startswith("0"):
        return None
    for size in (1, 2, 3):
        plan = _plan(int(digits[:size]))
        if plan is None:
            continue
        pattern, prefix = plan
        number = digits[size:]
        if prefix and not pattern.fullmatch(number) and number.startswith(prefix):
            number = number[len(prefix) :]
        if len(number) < _NATIONAL_DIGITS_MIN or not pattern.fullmatch(number):
            return None
        normal = f"+{digits[:size]}{number}"
        return normal if not strictly or _is_valid(normal) else None
    return None


def _is_valid(normal: str) -> bool:
    from phonenumbers import is_valid_number

    number = _parsed(normal, None)
    return number is not None and is_valid_number(number)


def _parsed(digits: str, region: str | None) -> PhoneNumber | None:
    from phonenumbers import NumberParseException, parse

    try:
        return parse(digits, region)
    except NumberParseException:
        return None


def _valid_in(digits: str) -> Iterator[PhoneNumber]:
    from phonenumbers import is_valid_number

    for region in REGIONS:
        plan = _regional(region)
        if plan is None:
            continue
        pattern, prefix = plan
        led = bool(prefix) and digits.startswith(prefix)
        if prefix == "0" and not led and (len(digits) < 10 or region not in _ZERO_OPTIONAL):
            continue
        if not (pattern.fullmatch(digits) or (led and pattern.fullmatch(digits[len(prefix) :]))):
            continue
        number = _parsed(digits, region)
        if number is not None and is_valid_number(number):
            yield number


def national(digits: str, groups: Sequence[str]) -> str | None:
    """E.164 of digits that some country's people would dial, or None.

    Of several countries the one that groups them so is right, else the first of `REGIONS`.
    """
    from phonenumbers import PhoneNumberFormat, format_number

    if digits.startswith(_BRITISH_EXAMPLES) and len(digits) == 11:
        return "+44" + digits[1:]
    numbers = list(_valid_in(digits))
    if len(groups) > 1:
        numbers.sort(key=lambda number: _usual_groups(number) != list(groups))
    if numbers:
        return format_number(numbers[0], PhoneNumberFormat.E164)
    plan = _plan(1)
    american = digits[1:] if len(digits) == 11 and digits[0] == "1" else digits
    if plan is not None and len(american) == 10 and plan[0].fullmatch(american):
        return "+1" + american
    return None


def _usual_groups(number: PhoneNumber) -> list[str]:
    from phonenumbers import PhoneNumberFormat, format_number

    return re.findall("[0-9]+", format_number(number, PhoneNumberFormat.NATIONAL))


def written_nationally(digits: str, groups: Sequence[str], *, loose: bool) -> str | None:
    """E.164 of digits with the zero of a national call, grouped as the country groups them; or None.

    `loose`: spaces and strokes part the groups as people like; other signs stand in figures and articles too.
    """
    from phonenumbers import PhoneNumberFormat, PhoneNumberType, format_number, number_type

    if not digits.startswith("0"):
        return None
    personal = (
        PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE, PhoneNumberType.FIXED_LINE_OR_MOBILE,
        PhoneNumberType.TOLL_FREE,
    )  # fmt: skip
    for number in _valid_in(digits):
        if number_type(number) not in personal:
            continue
        if loose or _usual_groups(number) == list(groups):
            return format_number(number, PhoneNumberFormat.E164)
    return None
