"""Laws of replacing: nothing stays, everything comes back, and replacing twice is replacing once."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from artelier.kernel.prompt.manifest import canonical
from artelier.log import DataKey
from artelier.pii.detectors import builtin_detectors
from artelier.pii.scrubber import Scrubber
from artelier.pii.vault import Vault, VaultCipher, placeholder, placeholders_in
from artelier_lab.pii.corpus import KINDS, values


def scrubber() -> Scrubber:
    """Of a tenant whose vault is in memory alone."""
    key = DataKey(1, b"k" * 32)
    return Scrubber(builtin_detectors(), Vault("acme", key, VaultCipher(b"v" * 32), lambda sql, given: []))


PLANTS = [
    (one.text[one.start : one.end], one.text)
    for kind in KINDS
    for one in values(kind, seed=3, count=40)
    if len(one.text) < 150 and not one.text.startswith(("{", "[", '"'))
]
"""Values, each in a sentence in which it is found."""

WORDS = st.text(alphabet=st.sampled_from("abc XYZ.,;:-_/\\\"'{}[]()\n\t0123é中<>&%"), max_size=20)
NAMES = st.sampled_from(("note", "a b", "id", "text", "rows", "x", "größe", "from"))


TREE = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.floats(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
CHOSEN = st.lists(st.sampled_from(PLANTS), min_size=1, max_size=4, unique_by=lambda one: one[0].lower())


def planted(data: Any, left: list[str]) -> Any:
    """The data with sentences in its texts, as far as it has some."""
    if isinstance(data, str) and left:
        return f"{data}\n\n\n{left.pop()}\n\n\n{data}"
    if isinstance(data, list):
        return [planted(item, left) for item in data]
    if isinstance(data, dict):
        return {name: planted(item, left) for name, item in data.items()}
    return data


def example_of(data: Any, chosen: list[tuple[str, str]]) -> Any:
    left = [sentence for _, sentence in chosen]
    return [planted(data, left), left]


@settings(max_examples=40, deadline=None)
@given(TREE, CHOSEN)
def test_what_was_replaced_is_nowhere_and_comes_back(tree: Any, chosen: list[tuple[str, str]]) -> None:
    data, mine = example_of(tree, chosen), scrubber()

    done = mine.value(data)

    stored = canonical(done).decode()
    for value, _ in chosen:
        assert canonical(value).decode()[1:-1] not in stored, value
    assert mine.restore(done) == data
    assert len(placeholders_in(stored)) >= len(chosen)


@settings(max_examples=40, deadline=None)
@given(TREE, CHOSEN)
def test_replacing_twice_is_replacing_once(tree: Any, chosen: list[tuple[str, str]]) -> None:
    data, mine = example_of(tree, chosen), scrubber()

    done = mine.value(data)
    content = mine.content(canonical(data))

    assert mine.value(done) == done
    assert mine.content(canonical(done)) == canonical(done)
    assert mine.content(content) == content
    assert scrubber().content(content) == content  # whatever is remembered


LOOKS = st.builds(
    lambda slashes, kind, code: f"<{slashes}{kind}_{code}>",
    st.sampled_from(("", "\\", "\\\\")),
    st.sampled_from(("EMAIL", "PHONE", "NAME_X")),
    st.sampled_from(("AAAAAA", "7Q2FKX", "ABCDEFGH")),
)
TYPED = st.lists(LOOKS | WORDS, max_size=5).map("".join)
TREES = st.recursive(
    TYPED, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TYPED, inner, max_size=3)
)


@settings(max_examples=40, deadline=None)
@given(TREES)
def test_what_only_looks_like_a_placeholder_is_shown_as_it_was_typed(data: Any) -> None:
    mine = scrubber()
    real = mine.text("ana.lopez@example.org")

    stored = mine.escape_lookalikes([data, real], lambda _: False)

    assert placeholders_in(canonical(stored).decode()) == []
    assert mine.restore(stored) == [data, real]
    kept = mine.escape_lookalikes([data, real], lambda one: one == real)
    assert mine.restore(kept) == [data, "ana.lopez@example.org"]


def test_a_placeholder_of_another_vault_stands_for_nothing() -> None:
    mine, other = scrubber(), placeholder("EMAIL", Random(1).randbytes(32))

    assert mine.restore({"to": other}) == {"to": other}


def test_two_spellings_of_one_value_stay_two_fields() -> None:
    mine = scrubber()
    sales = {"Anna@example.com": 1, "anna@example.com": 2, "rest": [{"deep": 3}]}

    for done in (mine.value(sales), json.loads(mine.content(canonical(sales)))):
        assert sorted(done.values(), key=str) == sorted(sales.values(), key=str)
        assert "example.com" not in str(done)


def test_thousands_of_spellings_of_one_value_cost_no_more_than_as_many_fields() -> None:
    letters = "annamarialopez"
    spellings = {
        "".join(sign.upper() if number >> place & 1 else sign for place, sign in enumerate(letters))
        + "@example.com": number
        for number in range(3_000)
    }
    done = scrubber().value(spellings)

    assert sorted(done.values()) == list(range(3_000))
    assert max(map(len, done)) < 40  # not one mark more for each spelling before


def test_no_depth_is_too_deep() -> None:
    deep: Any = "anna@example.com"
    for n in range(900):
        deep = [deep] if n % 2 else {"a": deep}
    mine = scrubber()

    done = mine.value(deep)

    assert b"example" not in canonical(done) and canonical(mine.restore(done)) == canonical(deep)
