"""Prose that a model wrote to be slow to read: rules over outputs are linear, and say what they said."""

from __future__ import annotations

import random
import re

import pytest

from artelier.memory.index.near_duplicates import gist_of
from artelier.missions.task.output_lint import prose_of

BEFORE = re.compile(
    r"<(script|style)\b.*?</\1\s*>|</?[A-Za-z][^<>]{0,2000}>|<!--.{0,2000}?-->|<![A-Za-z][^<>]{0,400}>",
    re.IGNORECASE | re.DOTALL,
)
PIECES = [
    "<script",
    "<STYLE>",
    "</script",
    "</Style >",
    "<!--",
    "-->",
    "<a",
    "</b",
    ">",
    "<!D",
    " ",
    "x\n",
    "--",
]


@pytest.mark.parametrize(
    "text", ["<style" * 60_000, "<!--" * 100_000, "<!--" + "<a>" * 100_000, "<script>" + "</style" * 50_000]
)
def test_a_page_of_unclosed_tags_is_read_in_linear_time(text: str) -> None:
    """`<style` 60,000 times took minutes, in which nobody else was served."""
    assert "</" in prose_of("<p></p>" + text).text or "<" in prose_of("<p></p>" + text).text


def test_tags_scripts_and_comments_are_taken_out_as_before() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        page = "<p>Page</p>\n" + "".join(chance.choices(PIECES, k=chance.randint(0, 12))) + "."
        # Scripts first, then the rest, each in one pass.
        script, rest = BEFORE.pattern.split("|</?", 1)
        expected = re.sub(script, " ", page, flags=BEFORE.flags)
        expected = re.sub("</?" + rest, " ", expected, flags=re.DOTALL)
        assert prose_of(page).words == expected, page


def test_an_entry_of_dashes_is_compared_in_linear_time() -> None:
    assert gist_of("-" * 200_000 + " v1.2 a-b 3").numbers == ("v1.2", "3")
