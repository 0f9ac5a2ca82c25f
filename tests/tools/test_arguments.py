"""What a model may send: strict types, no extra keys, errors it can act on and that stay short."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from artelier.errors import InvalidArguments
from artelier.tools import tool


@tool(side_effect=False)
def search(
    query: str,
    limit: int = 10,
    ratio: float = 1.0,
    exact: bool = False,
    price: Decimal | None = None,
    tags: list[str] = [],  # noqa: B006
    since: datetime.date | None = None,
) -> None:
    """Search."""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "query: expected a value (it is required), got nothing"),
        ({"query": 3}, "query: expected a valid string, got 3 (integer)"),
        ({"query": None}, "query: expected a valid string, got null"),
        ({"query": "q", "limit": "3"}, "limit: expected a valid integer, got '3' (string)"),
        ({"query": "q", "limit": 3.5}, "limit: expected a valid integer, got 3.5 (number)"),
        ({"query": "q", "limit": True}, "limit: expected a valid integer, got true (boolean)"),
        ({"query": "q", "ratio": "0.5"}, "ratio: expected a valid number, got '0.5' (string)"),
        ({"query": "q", "exact": 1}, "exact: expected a valid boolean, got 1 (integer)"),
        ({"query": "q", "exact": "yes"}, "exact: expected a valid boolean, got 'yes' (string)"),
        ({"query": "q", "price": True}, "price: "),
        ({"query": "q", "price": "cheap"}, "price: "),
        ({"query": "q", "tags": "a"}, "tags: expected a valid array, got 'a' (string)"),
        ({"query": "q", "tags": ["a", 1]}, "tags[1]: expected a valid string, got 1 (integer)"),
        ({"query": "q", "since": "soon"}, "since: "),
        ({"query": "q", "invented": 1}, "invented: expected no such key, got 1 (integer)"),
        ({"query": "q", "__class__": 1}, "__class__: expected no such key"),
        ({"query": "q", "arg_query": 1}, "arg_query: expected no such key"),
        ({"query": "q", "ctx": 1}, "ctx: expected no such key"),
    ],
)
def test_wrong_key_is_named_with_what_was_expected_and_what_came(arguments: Any, named: str):
    with pytest.raises(InvalidArguments) as caught:
        search.validate(arguments)

    assert named in str(caught.value)
    assert "Parameters: query, limit (optional)" in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        3,
        [],
        ["query"],
        "[]",
        "null",
        "not json",
        '{"query": "q"',
        '{"query": NaN}',
        '{"query": "q", "ratio": 1e999}',
        b"\xff\xfe",
        "[" * 100_000,
        '{"query": "q", "tags": ' + "[" * 5_000 + "]" * 5_000 + "}",
        {"query": "\ud800"},
        {"query": b"bytes"},
        {"query": "q", "ratio": float("nan")},
        {"query": "q", "ratio": float("inf")},
        {"query": "q", "limit": 10**400},
        {3.5: "q"},
        {"query": object()},
    ],
)
def test_what_is_no_json_object_is_refused(arguments: Any):
    with pytest.raises(InvalidArguments) as caught:
        search.validate(arguments)

    assert len(str(caught.value).encode()) <= 2_048


def test_self_referencing_arguments_are_refused():
    loop: dict[str, Any] = {"query": "q"}
    loop["tags"] = [loop, loop]

    with pytest.raises(InvalidArguments, match="nested deeper"):
        search.validate(loop)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": 3, "x" * 3_000_000: "y" * 3_000_000},
        {f"key{i}" * 30: "v" * 500 for i in range(5_000)},
        {"query": ["z" * 1_000_000] * 4},
        {"query": "q", "tags": [1] * 100_000},
        {"query": "x" * 9_000_000},
        '"' + "x" * 9_000_000,
    ],
)
def test_error_stays_short_whatever_came(arguments: Any):
    with pytest.raises(InvalidArguments) as caught:
        search.validate(arguments)

    assert len(str(caught.value).encode()) <= 2_048
    assert caught.value.code == "invalid_arguments"
    assert caught.value.audience == "agent"


@pytest.mark.parametrize("empty", ["", "  ", b"", "{}", {}])
def test_no_arguments_at_all_is_an_empty_object(empty: Any):
    @tool(side_effect=False)
    def now() -> None: ...

    assert now.validate(empty) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "q"},
        {"query": "", "limit": -5, "ratio": 2, "exact": True, "tags": ["ä", "𝄞"]},
        {"query": "q", "price": 3},
        {"query": "q", "price": "3.10", "since": "2026-01-31"},
    ],
)
def test_good_arguments_come_back_unchanged(arguments: dict[str, Any]):
    assert search.validate(arguments) == arguments
