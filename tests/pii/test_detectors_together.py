"""Several detectors at once, patterns of tenants, and texts that mean harm."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artelier.errors import ArtelierError, InvalidRequest, PatternTimeout
from artelier.pii.detectors import builtin_detectors, find_all, pattern
from artelier.ports.pii import DetectedValue, Detector

DETECTORS = builtin_detectors()
PROCESS_TIME_S_MAX = 60
"""For one hostile text of 100,000 characters: some hundred times what it takes."""


class Fixed:
    """A detector that always gives the same answer."""

    def __init__(self, *found: DetectedValue, kind: str = "NAME") -> None:
        self.kind = kind
        self.found = found

    def find(self, text: str, /) -> Iterable[DetectedValue]:
        return self.found


def at(start: int, end: int, kind: str = "NAME") -> DetectedValue:
    return DetectedValue(start, end, kind, "x")


def test_values_ascend_and_do_not_overlap() -> None:
    text = "ann@example.com, 10.0.0.1 and +49 30 1234567"

    found = find_all(DETECTORS, text)

    assert [one.kind for one in found] == ["EMAIL", "IP", "PHONE"]
    assert all(first.end <= second.start for first, second in pairwise(found))


def test_of_two_that_overlap_the_longer_is_kept_then_the_first() -> None:
    first, second = Fixed(at(0, 4), at(6, 8)), Fixed(at(2, 7, "OTHER"), kind="OTHER")

    assert find_all([first, second], "0123456789") == [at(2, 7, "OTHER")]
    assert find_all([Fixed(at(0, 4)), Fixed(at(0, 4, "B2"), kind="B2")], "0123456789") == [at(0, 4)]


@pytest.mark.parametrize(
    "found", [at(0, 11), at(-1, 2), at(3, 3), at(0, 2, "OTHER"), DetectedValue(0, 2, "NAME", "")]
)
def test_a_detector_that_answers_nonsense_is_refused(found: DetectedValue) -> None:
    with pytest.raises(InvalidRequest, match="NAME"):
        find_all([Fixed(found)], "0123456789")


def test_a_pattern_of_a_tenant_is_found_among_the_shipped_kinds() -> None:
    detectors: list[Detector] = [*DETECTORS, pattern("EMPLOYEE", r"\bEMP-\d{6}\b")]
    text = "EMP-004711 is ann@example.com"

    found = find_all(detectors, text)

    assert [(one.kind, one.normal) for one in found] == [
        ("EMPLOYEE", "EMP-004711"),
        ("EMAIL", "ann@example.com"),
    ]


@pytest.mark.parametrize("kind", ["", "A", "employee", "1ST", "A B", "X" * 25, "NAME\n"])
def test_a_kind_that_is_no_name_is_refused(kind: str) -> None:
    with pytest.raises(InvalidRequest, match="kind of a pattern"):
        pattern(kind, "a+")


@pytest.mark.parametrize("expression", ["(", "a*", "", r"\p{Nope}", "(?:" * 3_000, "x" * 3_000, "a{2,1}"])
def test_an_expression_that_cannot_be_used_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRequest, match="BADGE"):
        pattern("BADGE", expression)


def test_a_place_without_length_is_no_value() -> None:
    assert find_all([pattern("EDGE", r"\b(?=x)|x+")], "a xx") == [DetectedValue(2, 4, "EDGE", "xx")]


def test_a_pattern_that_takes_too_long_lets_nothing_through() -> None:
    slow = pattern("SLOW", r"(?:a|aa|aaa)+(?:b|c)+\1d|(a)e")

    with pytest.raises(PatternTimeout, match="SLOW") as raised:
        find_all([slow], "a" * 5_000 + "bc" * 5_000)

    assert isinstance(raised.value, ArtelierError)
    assert raised.value.facts["kind"] == "SLOW"


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "@",
        "a@",
        "a.",
        "1.",
        "1-",
        "1 ",
        "1(1)",
        '"a',
        '"@',
        "a@b.",
        "AA00 ",
        "DE89370400440532013001 ",
        ":a",
        "1:",
        "1.1.1.1.",
        "sk-",
        "eyJ",
        "eyJ1",
        "-----BEGIN PRIVATE KEY-----\n",
        "password= ",
        'password="',
        "api_key=",
        "://a:b",
        "bearer ",
        "token='",
        "+1 2 3 4 5 6 7 8 ",
        "tel 030 1234567 ",
        "0012345678901 ",
        "id number 12345678901 ",
        "4111 1111 1111 1111 ",
        "1\u200b",
        "%40",
        "5551234567 555-123-4567 ",
        '\\"',
        "\ud800",
        "\x00",
        "١",
    ],
)
def test_no_text_makes_the_search_slow(piece: str) -> None:
    """A search that were quadratic would take hours."""
    text = (piece * 100_000)[:100_000]
    began = time.process_time()

    found = find_all(DETECTORS, text)

    assert time.process_time() - began < PROCESS_TIME_S_MAX
    assert all(0 <= one.start < one.end <= len(text) for one in found)


SIGNS = st.text(
    alphabet=st.sampled_from("0123456789aAbBzZ@.+-()/ :;,\"'\\=%<>_\n\t\u200b\u00a0１é中") | st.characters(),
    max_size=120,
)


@settings(max_examples=300, deadline=None)
@given(SIGNS)
def test_any_text_is_searched_to_its_end(text: str) -> None:
    found = find_all(DETECTORS, text)

    assert all(0 <= one.start < one.end <= len(text) and one.normal for one in found)
    assert found == find_all(DETECTORS, text)


@settings(max_examples=200, deadline=None)
@given(SIGNS, SIGNS)
def test_a_value_between_lines_of_anything_is_found(before: str, behind: str) -> None:
    card = "4111 1111 1111 1111"
    text = f"{before}\nmy card {card}\n{behind}"

    kinds = {one.kind for one in find_all(DETECTORS, text) if card in text[one.start : one.end]}

    assert kinds == {"CARD"}


def test_a_number_of_a_region_that_the_library_does_not_know_is_no_value_and_no_failure() -> None:
    assert find_all(DETECTORS, "resident id 110019199001010013") == []


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=40))
@settings(max_examples=200)
def test_of_values_that_overlap_the_longest_are_kept(spans: list[tuple[int, int]]) -> None:
    found = [DetectedValue(at, at + size, "NAME", f"{at}-{size}") for at, size in spans]
    kept: list[DetectedValue] = []
    for one in sorted(found, key=lambda one: (one.start - one.end, one)):
        if all(one.end <= other.start or other.end <= one.start for other in kept):
            kept.append(one)

    assert find_all([Fixed(*found)], "x" * 80) == sorted(kept)
