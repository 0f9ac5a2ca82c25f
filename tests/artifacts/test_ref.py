"""Refs: what they name, and what is none."""

from __future__ import annotations

import pytest

from artelier.artifacts import Ref
from artelier.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("report", Ref("report")),
        ("report@7", Ref("report", 7)),
        ("library#ideate_base", Ref("library", None, "ideate_base")),
        ("library@3#ideate_base", Ref("library", 3, "ideate_base")),
        ("a/b:c.d-e_f", Ref("a/b:c.d-e_f")),
    ],
)
def test_a_ref_reads_and_prints_alike(text: str, ref: Ref) -> None:
    assert Ref.parse(text) == ref
    assert str(ref) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@1",
        "#x",
        "a@",
        "a@0",
        "a@01",
        "a@-1",
        "a@1.5",
        "a@x",
        "a@1@2",
        "a#",
        "a#b#c",
        "a b",
        "a#b@1",
        "é",
        "a" * 129,
        "a\n",
        "a@" + "9" * 16,
        "a@١",
        None,
        7,
        b"a",
    ],
)
def test_what_is_no_ref_is_refused(text: object) -> None:
    with pytest.raises(InvalidRequest):
        Ref.parse(text)  # pyright: ignore[reportArgumentType]


def test_main_is_refused_where_it_is_not_allowed() -> None:
    with pytest.raises(InvalidRequest, match="crosses a space"):
        Ref.parse("main:handbook@2")

    assert Ref.parse("main:handbook@2", main_allowed=True) == Ref("handbook", 2, None, "main")
    assert str(Ref("handbook", 2, None, "main")) == "main:handbook@2"


def test_main_cannot_be_doubled() -> None:
    with pytest.raises(InvalidRequest, match="reserved"):
        Ref.parse("main:main:x", main_allowed=True)
