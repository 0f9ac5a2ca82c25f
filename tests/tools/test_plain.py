"""Results as JSON data."""

from __future__ import annotations

import asyncio
import collections
import datetime
import enum
import json
import pathlib
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from artelier.tools import ToolResultInvalid, tool
from artelier.tools.json_conversion import NotJson, plain_json

from .contexts import Recorder


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Item(BaseModel):
    name: str
    price: Decimal
    at: datetime.datetime


class Row(msgspec.Struct):
    n: int


@dataclass
class Pair:
    left: int
    right: Any


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ((1, 2.5, True, "ä"), [1, 2.5, True, "ä"]),
        (Decimal("1.10"), "1.10"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "2026-01-02T03:04:05+00:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.time(1, 2), "01:02:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({3, 1}), [1, 3]),
        ({1: "x"}, {"1": "x"}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (Pair(left=1, right=Pair(left=2, right=None)), {"left": 1, "right": {"left": 2, "right": None}}),
        (Row(n=4), {"n": 4}),
        (
            [Item(name="x", price=Decimal("2"), at=datetime.datetime(2026, 1, 1))],  # noqa: DTZ001
            [{"name": "x", "price": "2", "at": "2026-01-01T00:00:00"}],
        ),
    ],
)
def test_values_with_an_obvious_json_form_are_converted(value: Any, expected: Any):
    assert plain_json(value) == expected
    json.dumps(plain_json(value), allow_nan=False)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "nan"),
        ({"rows": [1, float("-inf")]}, r"rows\[1\] is -inf"),
        (Decimal("NaN"), "NaN"),
        (b"abc", "is bytes"),
        ({"a": {"b": bytearray(b"x")}}, r"a\.b is bytes"),
        (object(), "of type object"),
        (Item, "is of type"),
        (lambda: 1, "of type function"),
        ("\udcff", "surrogate"),
        ({"\udcff": 1}, "surrogate"),
        ({(1, 2): 3}, "key of type tuple"),
        ({None: 3}, "key of type NoneType"),
        ({1: "a", "1": "b"}, "twice"),
        (2**64, "beyond 64 bits"),
        (-(2**63) - 1, "beyond 64 bits"),
        (range(3), "of type range"),
        (1j, "of type complex"),
    ],
)
def test_values_without_a_json_form_are_refused_by_path(value: Any, problem: str):
    with pytest.raises(NotJson, match=problem):
        plain_json(value)


def test_cycles_and_unfolding_references_are_refused():
    cycle: list[Any] = []
    cycle.append(cycle)
    bomb: Any = "x"
    for _ in range(60):
        bomb = [bomb, bomb]

    with pytest.raises(NotJson, match="deeper"):
        plain_json(cycle)
    with pytest.raises(NotJson, match="more than"):
        plain_json(bomb)


def test_result_without_json_form_does_not_claim_that_nothing_happened():
    @tool
    def pay() -> object:
        return object()

    with pytest.raises(ToolResultInvalid, match="result of `pay` is not JSON data"):
        asyncio.run(pay.call({}, Recorder().context()))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_data_comes_back_unchanged(value: Any):
    assert plain_json(value) == value
    assert msgspec.json.decode(msgspec.json.encode(plain_json(value))) == value
