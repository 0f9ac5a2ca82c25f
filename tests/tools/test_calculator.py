"""Exact arithmetic, and nothing but arithmetic."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import ToolFailed
from artelier.tools.built_in import calculate

from .conftest import Call


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.1 + 0.2", "0.3"),
        ("100 * 1.1", "110"),
        ("1.10 + 2.20", "3.3"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("7.5 // 2", "3"),
        ("2 ** 100", "1267650600228229401496703205376"),
        ("2 ** -2", "0.25"),
        ("(-8) ** 3", "-512"),
        ("1 / 3", "0.3333333333333333333333333333333333"),
        ("2 / 3 * 3", "2"),
        ("1 / 8", "0.125"),
        ("sqrt(16)", "4"),
        ("sqrt(2)", "1.414213562373095048801688724209698"),
        ("sqrt(2) ** 2", "2"),
        ("2 ** 0.5", "1.414213562373095048801688724209698"),
        ("sqrt(0.0625)", "0.25"),
        ("round(2.675, 2)", "2.68"),
        ("round(2.5)", "2"),
        ("round(1234.5, -2)", "1200"),
        ("min(3, 1.5, 2)", "1.5"),
        ("max([1, 2.50])", "2.5"),
        ("sum(1, 2, 3.5)", "6.5"),
        ("sum([0.1] )", "0.1"),
        ("abs(-3)", "3"),
        ("1_000 * 2", "2000"),
        ("1e3", "1000"),
        ("1e-3", "0.001"),
        ("12345678901234567890.123456789 * 1", "12345678901234567890.123456789"),
        ("  (1)  ", "1"),
        ("1" + "+1" * 900, "901"),
        ("-0.0", "0"),
    ],
)
def test_value_is_exact(expression: str, value: str):
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "x",
        "1 +",
        "1; 2",
        "1, 2",
        "'a' * 9",
        "b'a'",
        "True + 1",
        "None",
        "...",
        "1j",
        "[1]",
        "{1: 2}",
        "f'{1}'",
        "1 if 2 else 3",
        "1 < 2",
        "1 and 2",
        "not 1",
        "~1",
        "1 << 3",
        "1 & 2",
        "1 | 2",
        "1 ^ 2",
        "1 @ 2",
        "lambda: 1",
        "(x := 1)",
        "[i for i in (1,)]",
        "(1).__class__",
        "().__class__.__bases__",
        "__import__('os')",
        "open('/etc/passwd')",
        "eval('1')",
        "exec('1')",
        "getattr(1, 'real')",
        "abs.__self__",
        "min.__call__(1, 2)",
        "sum(start=1)",
        "min(*[1, 2])",
        "min()",
        "abs(1, 2)",
        "sqrt(-1)",
        "round(1, 0.5)",
        "round(1, 10 ** 9)",
        "pow(2, 3)",
        "1 / 0",
        "1 // 0",
        "1 % 0",
        "0 ** -1",
        "(-8) ** 0.5",
        "2 ** 0.3",
        "inf",
        "nan",
        "1e999999999",
        "1e-999999999",
        "10 ** 10 ** 10",
        "9 ** 9 ** 9",
        "9 ** 99999",
        "(9 ** 4000) ** 4000",
        "2 ** 15000 * 2 ** 15000",
        "9 ** 4000",
        "9" * 5_000,
        "9" * 1_999,
        "(" * 900 + "1" + ")" * 900,
        "-" * 1_500 + "1",
        "2**" * 600 + "1",
        "abs(" * 100 + "1" + ")" * 100,
        "1" * 3_000,
        "\0",
        "1\n+ 2",
        "é",
    ],
)
def test_what_is_no_arithmetic_or_grows_too_large_is_refused(expression: str):
    started = time.process_time()

    with pytest.raises(ToolFailed) as caught:
        calculate(expression)

    assert len(str(caught.value)) < 300
    assert time.process_time() - started < 8, "of work"


def test_tool_returns_text(call: Call):
    assert call("calculator", expression="0.1 + 0.2") == {"value": "0.3"}


@given(st.decimals(-(10**9), 10**9, places=4), st.decimals(-(10**9), 10**9, places=4))
def test_sums_and_products_of_decimals_are_exact(a: Decimal, b: Decimal):
    assert Decimal(calculate(f"({a}) + ({b})")) == a + b
    assert Decimal(calculate(f"({a}) * ({b})")) == a * b


@given(st.text(alphabet="0123456789.+-*/%() ,abminrounsqtlex_", max_size=40))
def test_any_text_ends_with_a_number_or_a_clear_error(expression: str):
    try:
        Decimal(calculate(expression))
    except ToolFailed as error:
        assert error.message
