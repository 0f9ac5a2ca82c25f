"""The plans of the library `phonenumbers`, to find which digits are a number of which country."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phonenumbers import PhoneMetadata, PhoneNumberDesc

REGIONS = tuple(
    "US GB DE FR IN ES IT BR NL PL RU CN JP AU MX TR CH AT"
    " BE SE PT NO DK FI IE CZ UA KR ZA IL AR SG NZ GR HU RO".split()
)
"""Whose national forms are known; of several that fit, the first decides. The order is a guess."""

_NATIONAL_DIGITS_MIN = 5

_ZERO_OPTIONAL = ("IN", "CN", "TR", "KR", "IL", "BR", "AR", "UA")
"""Where people leave the zero of a national call away, at least before the number of a mobile."""

_BRITISH_EXAMPLES = "07700900"
"""Kept for examples and films (Ofcom): assigned to nobody, and in many texts."""


_GROUPINGS_MAX = 5
"""Countries whose way of grouping is compared. Each costs as much as all the plans of numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberPlan:
    """The shape of a country's numbers, without its code and the prefix of national calls."""

    code: int
    general: re.Pattern[str]
    """Any number that may be given out some day."""

    assigned: re.Pattern[str]
    """Numbers of some type: of a landline, a mobile, a service."""

    personal: re.Pattern[str]
    """Landlines, mobiles, and those that cost the caller nothing."""

    prefix: str
    """Dialled before the number within the country; empty where there is none."""


def _union(descriptions: Iterable[PhoneNumberDesc | None]) -> re.Pattern[str]:
    patterns = {one.national_number_pattern for one in descriptions if one is not None}
    known = sorted(pattern for pattern in patterns if pattern is not None)
    return re.compile("|".join(f"(?:{pattern})" for pattern in known) or r"(?!)")


def _plan_of(code: int, regions: Sequence[PhoneMetadata]) -> _NumberPlan:
    usual = [one for region in regions for one in (region.fixed_line, region.mobile, region.toll_free)]
    others = [
        one
        for region in regions
        for one in (
            region.premium_rate,
            region.shared_cost,
            region.voip,
            region.personal_number,
            region.pager,
            region.uan,
            region.voicemail,
        )
    ]
    return _NumberPlan(
        code=code,
        general=_union(region.general_desc for region in regions),
        assigned=_union(usual + others),
        personal=_union(usual),
        prefix=regions[0].national_prefix or "",
    )


@lru_cache(maxsize=512)
def _plan(code: int) -> _NumberPlan | None:
    """The plan of all countries that share a calling code."""
    from phonenumbers import PhoneMetadata, region_codes_for_country_code

    regions = [
        PhoneMetadata.metadata_for_region_or_calling_code(code, region)
        for region in region_codes_for_country_code(code)
    ]
    known = [region for region in regions if region is not None]
    return _plan_of(code, known) if known else None


@lru_cache(maxsize=64)
def _regional(region: str) -> _NumberPlan:
    from phonenumbers import PhoneMetadata

    metadata = PhoneMetadata.metadata_for_region(region, None)
    assert metadata is not None and metadata.country_code is not None
    return _plan_of(metadata.country_code, [metadata])


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
        number = digits[size:]
        if plan.prefix and not plan.general.fullmatch(number):
            number = number.removeprefix(plan.prefix)
        fits = plan.assigned if strictly else plan.general
        enough = len(number) >= _NATIONAL_DIGITS_MIN
        return f"+{plan.code}{number}" if enough and fits.fullmatch(number) else None
    return None


def _find_dialled(digits: str, *, personally: bool = False) -> Iterator[str]:
    """E.164 in each of `REGIONS` where these digits reach somebody."""
    for region in REGIONS:
        plan = _regional(region)
        led = bool(plan.prefix) and digits.startswith(plan.prefix)
        if plan.prefix == "0" and not led and (len(digits) < 10 or region not in _ZERO_OPTIONAL):
            continue
        pattern = plan.personal if personally else plan.assigned
        for number in (digits[len(plan.prefix) :], digits) if led else (digits,):
            if pattern.fullmatch(number):
                yield f"+{plan.code}{number}"
                break


def national(digits: str, groups: Sequence[str]) -> str | None:
    """E.164 of digits that some country's people would dial, or None.

    Of several countries the one that groups them so is right, else the first of `REGIONS`.
    """
    if digits.startswith(_BRITISH_EXAMPLES) and len(digits) == 11:
        return "+44" + digits[1:]
    numbers = list(_find_dialled(digits))
    if numbers:
        grouped = _grouped_so(numbers, groups) if len(groups) > 1 else None
        return grouped or numbers[0]
    american = digits[1:] if len(digits) == 11 and digits[0] == "1" else digits
    plan = _plan(1)
    fits = plan is not None and len(american) == 10 and plan.general.fullmatch(american)
    return "+1" + american if fits else None


def written_nationally(digits: str, groups: Sequence[str], *, loose: bool) -> str | None:
    """E.164 of digits with the zero of a national call, grouped as the country groups them; or None.

    `loose`: spaces and strokes part the groups as people like; other signs stand in figures and articles too.
    """
    if not digits.startswith("0"):
        return None
    numbers = list(_find_dialled(digits, personally=True))
    grouped = _grouped_so(numbers, groups)
    return numbers[0] if grouped is None and loose and numbers else grouped


def _grouped_so(numbers: Sequence[str], groups: Sequence[str]) -> str | None:
    """The first of the numbers that its country writes in these groups."""
    from phonenumbers import NumberParseException, PhoneNumberFormat, format_number, parse

    for number in numbers[:_GROUPINGS_MAX]:
        try:
            written = format_number(parse(number), PhoneNumberFormat.NATIONAL)
        except NumberParseException:
            continue
        if re.findall("[0-9]+", written) == list(groups):
            return number
    return None
