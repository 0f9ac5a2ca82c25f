"""JSON of a reply, as it is or in one Markdown fence."""

from __future__ import annotations

import time

import pytest

from artelier.models.params import parse_output


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('\n ```JSON-5_x \r\n\n  {"a": 1}  ```\n\n', {"a": 1}),
        ('```\n"```"\n```', "```"),
        ("```\n\n```", None),
        ("```json", None),
        ("```\n```", None),
        ("``` json\n[]\n```", None),
        ("```json []\n```", None),
        ("````\n[]\n````", None),
        ("```\n[]\n``` and more", None),
        ("so: ```\n[]\n```", None),
    ],
)
def test_one_fence_around_a_whole_text_is_taken_off(text: str, value: object) -> None:
    assert parse_output(text) == value


def test_spaces_in_a_fence_cost_as_much_as_they_are_long() -> None:
    began_s = time.process_time()

    assert parse_output("```\n" + " " * 40_000 + "x") is None
    assert time.process_time() - began_s < 0.2  # two seconds where each may begin the end of the fence
