"""The permission function, alone: every policy, every action, and all that is broken."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.artifacts import Access, AccessPrices, Bill
from artelier.errors import ArtelierError, InvalidArtifact

ACTIONS = "read search subscribe include invoke write delete transfer govern".split()  # every action there is


class Target(NamedTuple):
    access: Access | None
    id: str = "x"
    owner: str = "alice"
    prices: AccessPrices = AccessPrices(read=2, invoke=3, inclusion=5)


def allowed(access: Access | None, principal: str) -> set[str]:
    target = Target(access)
    return {action for action in ACTIONS if Access.check(action, principal, target).allowed}


READS = {"read", "search", "subscribe", "include"}


@pytest.mark.parametrize(
    ("policy", "others"),
    [
        ("private", set()),
        ("owner_writes", READS | {"invoke"}),
        ("public", READS | {"invoke", "write"}),
        ({"allow": {"read": ["bob"]}}, READS),
        ({"allow": {"write": ["bob", "carol"]}}, {"write"}),
        ({"allow": {"invoke": ["*"], "delete": ["bob"]}}, {"invoke", "delete"}),
        ({"allow": {"read": ["bobby", "bo"]}}, set()),
        ({"allow": {}}, set()),
    ],
)
def test_a_static_policy_gives_others_this_and_the_owner_everything(policy: object, others: set[str]) -> None:
    access = Access.parse(policy)

    assert allowed(access, "bob") == others
    assert allowed(access, "alice") == set(ACTIONS)


@pytest.mark.parametrize(
    "access",
    [
        None,
        Access(policy=""),
        Access(policy="publik"),
        Access(policy="contract", contract="rules"),
        Access(policy="contract"),
        Access.read('{"policy": 7}'),
        Access.read("{}"),
        Access.read("not json"),
        Access.read('{"policy":"allow","allow":{"read":"bob"}}'),
    ],
)
def test_a_missing_broken_unknown_or_undecidable_policy_denies(access: Access | None) -> None:
    """I10. The owner may only replace the policy."""
    assert allowed(access, "bob") == set()
    assert allowed(access, "alice") == {"govern"}


def test_an_unknown_action_is_denied() -> None:
    assert not Access.check("reed", "alice", Target(Access.parse("public"))).allowed


def test_a_decision_names_price_and_payer() -> None:
    target = Target(Access.parse("owner_writes"))

    decision = Access.check("include", "bob", target)

    assert (decision.price, decision.payer) == (5, "bob")
    assert Access.check("include", "alice", target).price == 0
    assert Access.check("search", "bob", target).price == 0
    assert Access.check("write", "bob", target).price == 0


def test_a_bill_is_one_posting_from_payer_to_owner() -> None:
    target = Target(Access.parse("public"))

    (posting,) = Bill.postings("invoke", target, "bob")

    assert (posting.source, posting.target) == ("principal:bob", "principal:alice")
    assert (posting.asset, posting.amount) == ("scrip", 3)
    assert Bill.postings("invoke", target, "alice") == ()
    assert Bill.postings("write", target, "bob") == ()


def test_no_principal_can_name_a_source_of_money() -> None:
    (posting,) = Bill.postings("read", Target(Access.parse("public")), "source:bob")

    assert posting.source == "principal:source:bob"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Private",
        "broken",
        None,
        7,
        [],
        {},
        {"allow": {"reed": ["bob"]}},
        {"allow": ["bob"]},
        {"allow": {"read": "bob"}},
        {"allow": {"read": ["b b"]}},
        {"allow": {"govern": ["bob"]}},
        {"contract": None},
        {"contract": "a#b"},
        {"policy": "private", "allow": {"read": ["bob"]}},
        {"policy": "contract"},
        {"policy": "public", "contract": "x"},
        {"policy": "public", "x": 1},
        {"allow": {"read": ["bob"]}, "contract": "x"},
        {"allow": {"read": ["bob"] * 1001}},
    ],
)
def test_what_is_no_policy_is_refused_at_the_door(value: object) -> None:
    if value == {}:
        assert allowed(Access.parse(value), "bob") == set()  # an empty list of rights
        return
    with pytest.raises(ArtelierError):
        Access.parse(value)


def test_the_refusal_of_a_policy_says_what_is_expected() -> None:
    with pytest.raises(InvalidArtifact, match="owner_writes, public"):
        Access.parse("everyone")


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(stored=_JSON, action=st.sampled_from(ACTIONS))
def test_nothing_stored_opens_an_artifact_by_accident(stored: Any, action: str) -> None:
    import msgspec

    access = Access.read(msgspec.json.encode(stored).decode())

    assert not Access.check(action, "bob", Target(access)).allowed
