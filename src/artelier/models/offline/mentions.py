"""The names in a text that are needed to find anything again: identifiers, paths, numbers with units."""

from __future__ import annotations

import re
from collections.abc import Iterable

CHARS_MAX = 80
"""Of one mention; longer runs without a space are no names."""

_TOKEN = re.compile(r"[^\s\"'`,;(){}\[\]<>|=*…]+")
_NUMBER = re.compile(r"[-+$€£~]?\d[\d.,:]*(%|[a-zA-Z°µ]{1,4})?")
_UNIT = re.compile(r"[A-Za-z°µ€$%][A-Za-z°µ/²³]{0,11}")
_NO_UNIT = frozenset(
    "and or of the to in on at by for from is are was were as not but with that than then which a an if"
    " it i we you be has have had rows row".split()
)


def mentions(text: str) -> Iterable[tuple[int, str]]:
    """Each mention with its rank, the most important first: 0 identifiers and paths, 1 numbers with a
    unit, 2 other numbers of more than one digit. Cost: linear.
    """
    number = ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if len(token) > CHARS_MAX:
            number = ""
            continue
        if number:
            is_near = text[match.start() - 1 : match.start()] == " "
            if is_near and _UNIT.fullmatch(token.rstrip(".:?!")) and token.lower() not in _NO_UNIT:
                yield 1, f"{number} {token.rstrip('.:?!')}"
            elif len(number) > 1:
                yield 2, number
        number = ""
        bare = token.strip(".:-!?")
        if match_number := _NUMBER.fullmatch(bare):
            if match_number[1]:
                yield 1, bare
            elif token[-1] in ".:!?":
                if len(bare) > 1:
                    yield 2, bare
            else:
                number = bare
        elif _is_name(bare):
            yield 0, bare
    if len(number) > 1:
        yield 2, number


def _is_name(token: str) -> bool:
    if len(token) < 3 or not any(one.isalnum() for one in token):
        return False
    if "/" in token[:-1] or "@" in token or "_" in token:
        return any(one.isalpha() or one.isdigit() for one in token)
    has_digit = any(one.isdigit() for one in token)
    has_letter = any(one.isalpha() for one in token)
    if has_digit and has_letter:
        return True
    stem, dot, ending = token.rpartition(".")
    return bool(dot and stem and ending.isalpha() and len(ending) <= 5 and len(stem) > 1)
