"""Whether an answer to one of the thirty goals holds what it must, and nothing that it must not."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_PLAIN = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0xA0: " ", 0x202F: " ", 0x2212: "-"}
_NO_NUMBER = re.compile(r"\d{4}-\d\d-\d\d(t[\d:.]+z?)?|\d{1,2}:\d\d(:\d\d)?|[^\W\d_]+-?\d[\w-]*")


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFC", text).casefold().translate(_PLAIN)
    return re.sub(r"\s+", " ", re.sub(r"[*_`]", "", plain)).strip()


def _place(text: str, item: str) -> int:
    wanted = _folded(item)
    before = r"(?<![^\W_])" if wanted[:1].isalnum() else ""
    after = r"(?![^\W_])" if wanted[-1:].isalnum() else ""
    found = re.search(before + re.escape(wanted) + after, _folded(text))
    return -1 if found is None else found.start()


def _numbers(text: str) -> set[float]:
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", _NO_NUMBER.sub(" ; ", _folded(text)))
    return {float(one.replace(",", "")) for one in found}


def holds(text: str, item: Any) -> bool:
    """Return True if a text has an item of an answer."""
    if isinstance(item, str):
        return _place(text, item) >= 0
    if "number" in item:
        return any(abs(one - item["number"]) <= item.get("tol", 0) + 1e-9 for one in _numbers(text))
    if "any_of" in item:
        return any(holds(text, one) for one in item["any_of"])
    if "all_of" in item:
        return all(holds(text, one) for one in item["all_of"])
    places = [_place(text, one) for one in item["in_order"]]
    return -1 not in places and places == sorted(set(places))


def forbids(text: str, item: str) -> bool:
    """Return True if a text has what it must not have."""
    is_number = re.fullmatch(r"-?\d+(\.\d+)?", item) is not None
    return float(item) in _numbers(text) if is_number else _place(text, item) >= 0
