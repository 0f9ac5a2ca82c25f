"""Placeholders in text: escaped when typed, restored as they stand in plain text, Markdown and HTML."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.pii.vault import (
    PIECE_CHARS,
    count_placeholders,
    escape_lookalikes,
    placeholder,
    placeholders_in,
    restore_values,
)

ONE = "<EMAIL_7Q2FKX>"
VALUES = {ONE: "ana@example.org", "<NATIONAL_ID_ABCDEFGH>": "12 345"}

PIECES = st.sampled_from(["<", ">", "\\", "EMAIL_7Q2FKX", ONE, "<NATIONAL_ID_ABCDEFGH>", " a ", "é"])


@given(st.lists(PIECES, max_size=12).map("".join))
def test_escaping_is_undone_by_reading_and_leaves_no_placeholder(text: str) -> None:
    told = escape_lookalikes(text, lambda _: False)

    assert placeholders_in(told) == []
    assert restore_values(told, VALUES.get) == text


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_known_placeholder_stays_one(text: str) -> None:
    told = escape_lookalikes(text, lambda one: one == ONE)

    assert set(placeholders_in(told)) <= {ONE}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"to {ONE}.", "to ana@example.org."),
        (r"| \<EMAIL_7Q2FKX\> |", "| ana@example.org |"),
        ("<b>&lt;EMAIL_7Q2FKX&gt;</b>", "<b>ana@example.org</b>"),
        ("<EMAIL_AAAAAA>", "<EMAIL_AAAAAA>"),
        (r"<\EMAIL_7Q2FKX>", ONE),
        (r"<\\EMAIL_7Q2FKX>", r"<\EMAIL_7Q2FKX>"),
        ("<email_7q2fkx> <EMAIL_7Q2FK>", "<email_7q2fkx> <EMAIL_7Q2FK>"),
    ],
)
def test_a_person_reads_the_value_or_what_was_typed(text: str, shown: str) -> None:
    assert restore_values(text, VALUES.get) == shown


def test_what_is_made_is_found_and_counted_by_kind() -> None:
    made = placeholder("NATIONAL_ID", bytes(range(32)))

    assert placeholders_in(f"{made} and {ONE}, {ONE}") == [made, ONE, ONE]
    assert count_placeholders(f"{made} and {ONE}, {ONE}") == {"NATIONAL_ID": 1, "EMAIL": 2}
    large = f"{'< ' * PIECE_CHARS}{made} and {ONE}, {ONE}"
    assert count_placeholders(large) == {"NATIONAL_ID": 1, "EMAIL": 2}


@pytest.mark.parametrize("said", [ONE, r"<\EMAIL_7Q2FKX>"])
def test_a_reply_that_is_json_stays_json_with_look_alikes_in_it(said: str) -> None:
    reply = json.dumps({"action": "use_tool", "input": {"to": said}}, indent=1)

    told = escape_lookalikes(reply, lambda _: False)

    assert restore_values(told, VALUES.get) == reply
    to = json.loads(told)["input"]["to"]
    assert placeholders_in(to) == []
    assert restore_values(to, VALUES.get) == said
