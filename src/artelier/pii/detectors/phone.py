"""Phone numbers: international ones anywhere, national ones where their form or a word before says so.

A bare run of digits without such a word is never a phone number: tables are full of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from artelier.pii.detectors.number_forms import PHONE, PHONE_SURELY, adjoins, is_figure
from artelier.pii.detectors.text_view import DigitRun, Shipped, TextReading, joins
from artelier.ports.pii import DetectedValue

if TYPE_CHECKING:
    from phonenumbers import PhoneMetadata, PhoneNumberDesc


# --------------------------------------------------------------------------- phone plans
# The plans of the library `phonenumbers`, to find which digits are a number of which country.


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


# --------------------------------------------------------------------------- phone


_DIGITS_MAX = 15
"""Of E.164."""

_GROUPS_MAX = 8

_TIME = re.compile("1[0-9]{9}(?:[0-9]{3}){0,2}|(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])[0-3][0-9]")
"""Seconds, milliseconds or microseconds since 1970; or a day."""

_BYTE_BEFORE = re.compile(r"(?:(?<![0-9A-Za-z])[0-9A-Fa-f]{2}|Buffer) \Z")
_BYTE_BEHIND = re.compile(" [0-9A-Fa-f]{2}(?![0-9A-Za-z])")


class Phones(Shipped):
    """`PHONE`; normal: E.164, or the digits alone if the number is of no known country."""

    def __init__(self) -> None:
        super().__init__("PHONE")

    def read(self, reading: TextReading) -> Iterator[DetectedValue]:
        for run in reading.runs:
            said = reading.says(run.starts[0], PHONE)
            if len(run.groups) == 1 and not (said or _is_led(reading, run)):
                continue
            at = 0
            while at < len(run.groups):
                size, normal = _phone(reading, run, at, said=said)
                if size:
                    start, end = _span(reading, run, at, size)
                    yield reading.make_found(start, end, self.kind, normal)
                at += size or 1


def _is_led(reading: TextReading, run: DigitRun) -> bool:
    """Return True if a plus or two zeros begin the run: without them or a word a bare number is none."""
    start = run.starts[0]
    return run.groups[0].startswith("00") or "+" in reading.text[max(0, start - 3) : start]


def _phone(reading: TextReading, run: DigitRun, at: int, *, said: bool) -> tuple[int, str]:
    """Return how many groups from `at` on are a phone number, and its normal form; (0, "") for none.

    `said`: a word before the run says that it holds one. No word stands within a run.
    """
    group, start = run.groups[at], run.starts[at]
    if at == 0 and "+" in reading.text[max(0, start - 3) : start]:
        lead = reading.text[max(0, start - 3) : start]
        if not lead.rstrip(" (").endswith("+") or (
            lead.endswith(" + ") and not said and run.gaps in ((), (".",))  # a sum
        ):
            return 0, ""
        return _with_plus(reading, run, at)
    zeros = group.startswith("00")
    american = len(group) == 3 or group == "1"
    first = at == 0 and (group[0] == "0" or reading.before(start) == "(")
    if not (said or zeros or american or first) or not _begins(reading, run, at):
        return 0, ""
    if zeros and group[2:3] != "0":
        return _with_zeros(reading, run, at, said=said)
    return _nationally(reading, run, at, said=said)


def _begins(reading: TextReading, run: DigitRun, at: int) -> bool:
    """Return True if a number may begin with this group: none goes on from what stands before."""
    start = run.starts[at]
    if at:
        return " " in run.gaps[at - 1]
    before = reading.before(start)
    if before and before in "-./$€£¥" and start > 1:
        return before == "." and not reading.text[start - 2].isdigit()
    return not joins(before)


def _digits(run: DigitRun, at: int, size: int) -> str:
    return "".join(run.groups[at : at + size])


def _sizes(run: DigitRun, at: int, low: int) -> Iterator[int]:
    """Numbers of groups that could be one phone number, the most first."""
    total = 0
    sizes: list[int] = []
    for size in range(1, min(_GROUPS_MAX, len(run.groups) - at) + 1):
        total += len(run.groups[at + size - 1])
        if total > _DIGITS_MAX + 2:
            break
        if total >= low:
            sizes.append(size)
    return reversed(sizes)


def _ends(reading: TextReading, run: DigitRun, at: int, size: int) -> bool:
    """Return True if nothing goes on behind the last group: no letter, no decimal, no percent sign."""
    end = run.ends_at(at + size - 1)
    after = reading.after(end)
    if joins(after) and not reading.text[end : end + 4].lower().startswith(("x", "ext")):
        return False
    return not (after and after in ".,-%" and joins(reading.text[end + 1 : end + 2]) and after != ",")


def _with_plus(reading: TextReading, run: DigitRun, at: int) -> tuple[int, str]:
    for size in _sizes(run, at, 8):
        if _ends(reading, run, at, size):
            digits = _without_trunk(run, at, size)
            normal = international(digits)
            if normal is not None:
                return size, normal
    return 0, ""


def _without_trunk(run: DigitRun, at: int, size: int) -> str:
    """All digits, without the zero in brackets of `+49 (0) 30 123`."""
    kept = [run.groups[at]]
    for index in range(at + 1, at + size):
        before = run.gaps[index - 1]
        after = run.gaps[index] if index < len(run.gaps) else ""
        if not (run.groups[index] == "0" and "(" in before and ")" in after):
            kept.append(run.groups[index])
    return "".join(kept)


def _with_zeros(reading: TextReading, run: DigitRun, at: int, *, said: bool) -> tuple[int, str]:
    for size in _sizes(run, at, 10):
        if not _ends(reading, run, at, size):
            continue
        digits = _without_trunk(run, at, size)[2:]
        if not said and (
            _is_row(reading, run, at, size)
            if size > 1
            else not 10 <= len(digits) <= 13 or _is_article(run.groups[at])
        ):
            continue
        normal = international(digits, strictly=True)
        if normal is not None:
            return size, normal
    return 0, ""


def _is_article(digits: str) -> bool:
    """Return True if it is a padded article number (GTIN-13 or -14) by its check digit."""
    values = [int(digit) for digit in reversed(digits)]
    return len(digits) in (13, 14) and (sum(values[0::2]) + 3 * sum(values[1::2])) % 10 == 0


def _nationally(reading: TextReading, run: DigitRun, at: int, *, said: bool) -> tuple[int, str]:
    american = _american(reading, run, at, said=said)
    if american[0]:
        return american
    start = run.starts[at]
    bracketed = reading.before(start) == "(" and at < len(run.gaps) and ")" in run.gaps[at]
    if not (said or bracketed or run.groups[at].startswith("0")):
        return 0, ""
    if said and len(run.groups) == 1 and _is_of_a_program(reading, run):
        return 0, ""
    alone = not said and (bracketed or not _goes_on(reading, run, at))
    for size in _sizes(run, at, 7 if said else 8):
        if not _ends(reading, run, at, size):
            continue
        digits = _digits(run, at, size)
        if said and (normal := national(digits, run.groups[at : at + size])):
            return size, normal
        if (
            alone
            and size > 1
            and not _is_row(reading, run, at, size)
            and (normal := _by_form(run, at, size, bracketed=bracketed))
        ):
            return size, normal
        if said and (size > 1 or adjoins(reading.text, start, PHONE)) and _like_a_phone(run, at, size):
            return size, digits
    return 0, ""


def _is_of_a_program(reading: TextReading, run: DigitRun) -> bool:
    """Return True if a bare number is a colour, or the time of a call: `call 1763816263 took 3 s`."""
    start, digits = run.starts[0], run.groups[0]
    if reading.before(start) == "#" and len(digits) == 8:
        return True
    return _TIME.fullmatch(digits) is not None and not reading.says(start, PHONE_SURELY)


def _is_row(reading: TextReading, run: DigitRun, at: int, size: int) -> bool:
    """Return True if the groups are some of a row of bytes, characters or figures: more of the same go on
    behind.
    """
    groups, behind = run.groups[at : at + size], at + size
    if behind < len(run.groups) and len(run.groups[behind]) == len(groups[-1]):
        if run.gaps[behind - 1] == run.gaps[behind - 2]:
            return True
    lengths = {len(group) for group in groups}
    if len(lengths) > 1:
        return False
    start, end = run.starts[at], run.ends_at(behind - 1)
    if lengths == {2}:
        return (
            _BYTE_BEFORE.search(reading.text, max(0, start - 8), start) is not None
            or _BYTE_BEHIND.match(reading.text, end) is not None
        )
    return all(group.startswith("0") for group in groups)


def _goes_on(reading: TextReading, run: DigitRun, at: int) -> bool:
    """Return True if something longer begins before: digits a space away, an account, the name of a
    figure.
    """
    start = run.starts[at]
    parted = start > 1 and reading.text[start - 1] == " " and reading.text[start - 2].isdigit()
    return at > 0 or parted or reading.in_account(start) or is_figure(reading.text, start)


def _like_a_phone(run: DigitRun, at: int, size: int) -> bool:
    """Return True if it may be a number of nobody's plan, where a word has said that a number follows."""
    gaps = run.gaps[at : at + size - 1]
    return (
        7 <= len(_digits(run, at, size)) <= _DIGITS_MAX
        and size <= 5
        and gaps != (".",)
        and all(len(gap) == 1 or "(" in gap or ")" in gap for gap in gaps)
    )


def _by_form(run: DigitRun, at: int, size: int, *, bracketed: bool) -> str | None:
    """A number with separators and without a word before: only in a form that its country uses."""
    digits = _digits(run, at, size)
    groups = run.groups[at : at + size]
    gaps = run.gaps[at : at + size - 1]
    if bracketed:
        return national(digits, groups) if 8 <= len(digits) <= 11 else None
    if not 9 <= len(digits) <= 12 or digits.startswith("00") or len(groups[0]) > 6:
        return None
    loose = all(gap in (" ", "/", " / ", "/ ", " /", " - ") for gap in gaps)
    return written_nationally(digits, groups, loose=loose)


def _american(reading: TextReading, run: DigitRun, at: int, *, said: bool) -> tuple[int, str]:
    """Three, three and four digits: the form of North America, which nothing else has."""
    lead = int(run.groups[at] == "1")
    groups = run.groups[at + lead : at + lead + 3]
    if tuple(map(len, groups)) != (3, 3, 4) or groups[0][0] in "01":
        return 0, ""
    first = run.starts[at + lead]
    gaps = run.gaps[at + lead : at + lead + 2]
    bracketed = ")" in gaps[0] and "(" in reading.text[max(0, first - 1) : first]
    regular = all(gap in ("-", ".", " ", " - ") for gap in gaps) and gaps[0] == gaps[1]
    mixed = gaps[0] in (" ", "-", ".") and gaps[1] in ("-", ".")
    if not (bracketed or regular or mixed) or not _ends(reading, run, at, lead + 3):
        return 0, ""
    if at + lead + 3 < len(run.groups) and run.gaps[at + lead + 2] in ("-", "."):
        return 0, ""
    assigned = groups[1][0] not in "01" or groups[0] == "555"
    if not (bracketed or said) and is_figure(reading.text, run.starts[at]):
        return 0, ""
    alone = gaps[1] != " " or (at == 0 and lead + 3 == len(run.groups))
    if bracketed or (assigned and alone) or said:
        return lead + 3, "+1" + "".join(groups)
    return 0, ""


def _span(reading: TextReading, run: DigitRun, at: int, size: int) -> tuple[int, int]:
    """Return the span from the plus or bracket before the first group to behind the last one."""
    start, end = run.starts[at], run.ends_at(at + size - 1)
    floor = run.ends_at(at - 1) if at else 0
    lead = start
    while lead > max(floor, start - 3) and reading.text[lead - 1] in "+( ":
        lead -= 1
    taken = reading.text[lead:start].lstrip(" ")
    bracketed = at < len(run.gaps) and run.gaps[at].startswith(")")
    if "+" in taken:
        plus = taken.index("+")
        taken = taken[plus - (bracketed and plus > 0) :]
    elif bracketed and "(" in taken:
        taken = taken[taken.rindex("(") :]
    else:
        taken = ""
    return start - len(taken), end
