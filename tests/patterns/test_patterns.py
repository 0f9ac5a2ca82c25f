"""Patterns of others: what they match is what `re` and `regex` say, and what they cost has a bound."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from typing import Any

import pytest
import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from artelier.errors import InvalidRequest, PatternTimeout
from artelier.patterns import Allowance, check_pattern, compile_pattern

ATOMS = [
    "a",
    "b",
    ".",
    r"\w",
    r"\d",
    r"\s",
    r"\W",
    r"\D",
    r"\S",
    "[ab]",
    "[^a]",
    "[a-c]",
    "é",
    "ß",
    r"\n",
    r"[\s\S]",
    "İ",
    "k",
    "K",
    "ſ",
    "1",
    r"\.",
    "_",
    r"[^\W\d]",
    "\\x41",
    "-",
]
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
COUNTS = ["*", "+", "?", "{2}", "{0,2}", "{1,}", "{,3}", "*?", "+?", "??", "{2,3}?"]
TEXTS = st.text("abcABK1 \n\n_é ßẞİıſ²٣.-\x85\u2028\u00a0\ud800", max_size=8)


def _patterns() -> st.SearchStrategy[str]:
    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.lists(inner, min_size=2, max_size=4).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
            st.tuples(inner, st.sampled_from(COUNTS)).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
            inner.map(lambda one: f"({one}|)"),
            st.tuples(st.sampled_from(["i", "s", "m", "-i", "is"]), inner).map(
                lambda pair: f"(?{pair[0]}:{pair[1]})"
            ),
        )

    return st.recursive(st.sampled_from([*ATOMS, *PLACES]), extend, max_leaves=12)


@settings(max_examples=400, deadline=None)
@given(_patterns(), st.sampled_from(["", "i", "m", "s", "im", "a"]), st.lists(TEXTS, min_size=1))
def test_any_pattern_matches_what_re_says(pattern: str, flags: str, texts: list[str]) -> None:
    if flags:
        pattern = f"(?{flags}){pattern}"
    try:
        expected = re.compile(pattern)
    except re.error:
        assume(False)
    compiled = compile_pattern(pattern)
    assume(compiled.is_linear)

    for text in texts:
        if not text and r"\B" in pattern:
            continue  # versions of Python disagree; it is left to them, in the helper process
        assert compiled.search(text) == (expected.search(text) is not None), text
        assert compiled.fullmatch(text) == (expected.fullmatch(text) is not None), text


WRITTEN = [
    r"^[A-Z]{3}-\d{4}$",
    r"^\w+([.-]\w+)*@\w+(\.\w+)+$",
    r"\b(dragon|wyrm)s?\b",
    r"^$",
    "",
    "^(?i:yes|no)$",
    r"^\s*#+ .+$",
    r"(\d+,)*\d+",
    r"^https?://[^\s/$.?#].[^\s]*$",
    r"[^\x00-\x7F]",
    r"\$\{[^}]*\}",
    r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$",
    r"(?=.*\d)(?=.*[a-z]).{4,}",
    r"(a)\1",
    r"(?<!x)y",
    r"a{2,3}b",
    r"[\]\-a]",
    r"\Aab\Z",
    "^a|b$",
    r"x*+y",
    "(?P<n>a)(?(n)b|c)",
    r"[Α-Ω]+",
    "straße",
    "…",
]
SAMPLES = [
    "",
    "ABC-1234",
    "abc-1234\n",
    "me.too@a-b.example.org",
    "two Dragons\nand a wyrm",
    "YES",
    "# Head\ntext",
    "1,22,3",
    "https://example.org/a?b",
    "naïve",
    "${HOME}",
    "127.0.0.1",
    "passw0rd",
    "aa",
    "xy",
    "y",
    "aaab",
    "]",
    "ab",
    "b\n",
    "xxy",
    "ac",
    "ΣΩ",
    "STRASSE straße",
    "…",
    "\n",
    "a\nb",
]


@pytest.mark.parametrize("flags", ["", "i", "m", "s"])
@pytest.mark.parametrize("pattern", WRITTEN)
def test_patterns_as_people_write_them_match_as_ever(pattern: str, flags: str) -> None:
    chosen = {"": 0, "i": re.I, "m": re.M, "s": re.S}[flags]
    same: dict[str, Any] = {"re": re.compile(pattern, chosen)}
    same["regex"] = regex.compile(pattern, {0: 0, re.I: regex.I, re.M: regex.M, re.S: regex.S}[chosen])

    for dialect, expected in same.items():
        compiled = compile_pattern(pattern, dialect=dialect, flags=flags)
        found = [text for text in SAMPLES if compiled.search(text)]
        assert found == [text for text in SAMPLES if expected.search(text)], dialect


ONLY_REGEX = [
    (r"\p{Lu}\p{Ll}+", "Mira", "mira"),
    (r"(?:dragon){e<=1}", "a drogon", "a dog"),
    (r"[[:alpha:]]{3}", "abc", "12"),
    (r"(?<=a+)b", "aab", "b"),
    (r"\bfoo\X\b", "fooe\u0301", "foo"),
]


@pytest.mark.parametrize(("pattern", "fits", "does_not"), ONLY_REGEX)
def test_what_only_the_other_engine_reads_is_matched_by_it(pattern: str, fits: str, does_not: str) -> None:
    compiled = compile_pattern(pattern, dialect="regex")

    assert compiled.search(fits)
    assert not compiled.search(does_not)


ENDLESS = [
    "(a+)+b",
    "^(a|a)*$",
    "a*a*a*a*a*a*b",
    "(a|aa)+$",
    "(.*)*x",
    "(?:a?){40}a{40}b",
    "(x+x+)+y",
    "((a{1000}){100}){100}b",
]


@pytest.mark.parametrize("pattern", ENDLESS[:-1])
def test_a_pattern_with_repeats_in_repeats_takes_linear_time(pattern: str) -> None:
    compiled = compile_pattern(pattern)

    assert compiled.is_linear
    assert not compiled.search("a" * 100_000 + "!")


def test_a_search_that_does_not_end_is_given_up() -> None:
    compiled = compile_pattern("^(?=(a+)+$)")

    with pytest.raises(PatternTimeout, match="was given up over 41 characters"):
        compiled.search("a" * 40 + "!")
    assert compile_pattern("^(?=a+$)").search("a" * 40)  # the next one finds a process that answers


def test_searches_that_share_an_allowance_end_together() -> None:
    compiled, allowance = compile_pattern("^(?=(a+)+$)"), Allowance(0.2)

    for _ in range(3):
        with pytest.raises(PatternTimeout):
            compiled.search("a" * 40 + "!", allowance=allowance)
    assert allowance.left_s <= 0


def test_a_pattern_that_would_take_gigabytes_is_refused_before_it_is_compiled() -> None:
    with pytest.raises(InvalidRequest, match="at most 200000 parts") as caught:
        check_pattern("((a{1000}){100}){100}", dialect="regex")

    assert caught.value.got == 10_010_100
    assert caught.value.hint is not None


@pytest.mark.parametrize("pattern", ["[", "(", "a**", "(?<=a+)b", "(" * 900, "a{2,1}", "x" * 3_000])
def test_what_is_no_pattern_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be used; expected"):
        compile_pattern(pattern)


def test_reading_a_hostile_pattern_compiles_nothing() -> None:
    """Each of its sets would be gone through one character at a time, if it were compiled."""
    pattern = "(?i)" + "".join(f"[\\x00-\\U0010ff{n:02x}]" for n in range(64))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_pattern(pattern)
    assert not compile_pattern(pattern).is_linear


def test_without_the_linear_engine_a_helper_process_answers() -> None:
    code = (
        "import sys; sys.modules['re2'] = None\n"
        "from artelier.patterns import compile_pattern\n"
        "p = compile_pattern('^a+b$')\n"
        "print(p.is_linear, p.search('aab'), p.search('aac'), p.is_quick('a'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "True", "False", "False"]
