"""Names are put in once; everything else stays text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.operations.lore import substitute_names


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("{{char}} greets {{user}}", "Ada greets Bob"),
        ("{{CHAR}} {{User}} {{ char }} {{\tuser }}", "Ada Bob Ada Bob"),
        ("<BOT> <bot> <User> < user > <CHAR>", "Ada Ada Bob Bob Ada"),
        ("{{random::a,b}} {{time}} {{char", "{{random::a,b}} {{time}} {{char"),
        ("{{charname}} {{ch ar}} {char} <b> <users>", "{{charname}} {{ch ar}} {char} <b> <users>"),
        ("{% if x %}{{ x | upper }}{% endif %}", "{% if x %}{{ x | upper }}{% endif %}"),
        ("{{{char}}} {{{{user}}}}", "{Ada} {{Bob}}"),
        ("{{u\u017fer}}", "{{u\u017fer}}"),
        ("", ""),
    ],
)
def test_only_the_two_names_are_put_in(text: str, becomes: str) -> None:
    assert substitute_names(text, user="Bob", char="Ada") == becomes


@pytest.mark.parametrize("name", ["{{user}}", "{{char}}{{user}}", "<BOT>", r"\1\g<0>", "{% raw %}", ""])
def test_a_name_is_data(name: str) -> None:
    assert substitute_names("a {{char}} b {{user}} c", user=name, char=name) == f"a {name} b {name} c"


@given(
    st.text(),
    st.text(),
    st.lists(st.sampled_from(["{{char}}", "x", "{{", "}}", "<user>", "{{ user }}", "<"])),
)
def test_one_pass_is_all_there_is(user: str, char: str, parts: list[str]) -> None:
    """Around each hole the text is as it was, so nothing that a name brought was looked at."""
    text = "|".join(parts)

    names = {"{{char}}": char, "<user>": user, "{{ user }}": user}
    assert substitute_names(text, user=user, char=char) == "|".join(names.get(part, part) for part in parts)


def test_long_hostile_text_takes_linear_time() -> None:
    for text in ("{{" * 300_000, "{{ " * 200_000, "<" * 600_000, "{{" + " " * 600_000):
        assert substitute_names(text, user="u", char="c") == text


def test_names_make_a_text_twice_as_long_at_most_and_a_million_more() -> None:
    written = "<user>" * 400_000

    filled = substitute_names(written, user="u" * 200, char="c")

    assert len(filled) <= 2 * len(written) + 1_000_000
    assert filled.startswith("u" * 200)
    assert filled.endswith("<user>")
