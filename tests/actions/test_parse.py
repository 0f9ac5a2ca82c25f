"""A model's words become one action, or a reason that it can act on. Nothing is repaired or guessed."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.world.actions import (
    ACTIONS,
    Action,
    Configure,
    Noop,
    Rejected,
    Transfer,
    Write,
    action_from,
    parse_action,
)

EXAMPLES = {
    "noop": {},
    "read": {"ref": "library@2#part"},
    "write": {"artifact_id": "x", "content": {"a": [1, None]}, "kind": "document"},
    "edit": {"artifact_id": "x", "old": "a", "new": ""},
    "delete": {"artifact_id": "x"},
    "invoke": {"artifact_id": "x", "args": {"n": 1}, "price_max": 3},
    "transfer": {"to": "bob", "amount": 1},
    "subscribe_artifact": {"artifact_id": "handbook"},
    "unsubscribe_artifact": {"artifact_id": "handbook"},
    "configure": {"workflow_artifact_id": None, "reflex_artifact_id": "r"},
    "search": {"text": "escrow", "kind": "document", "owner": "bob", "limit": 3},
    "offer": {"artifact_id": "x", "price": 0, "sells": "licence", "uses": 3},
    "accept": {"offer_id": "offer-1", "price_max": 5},
    "cancel_offer": {"offer_id": "offer-1"},
    "bid": {"artifact_id": "x", "amount": 2},
    "message": {"to": "bob", "text": "hello"},
}


def said(name: str, **fields: object) -> str:
    return json.dumps({"action": name, "reasoning": "because", **fields})


def parsed(text: str) -> Action:
    action = parse_action(text)
    assert isinstance(action, Action), action
    return action


def reason(text: str) -> str:
    answer = parse_action(text)
    assert isinstance(answer, Rejected), answer
    return answer.reason


def test_every_action_has_an_example_here() -> None:
    assert list(EXAMPLES) == list(ACTIONS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_action_is_read_and_goes_back_to_json(name: str) -> None:
    action = parsed(said(name, **EXAMPLES[name]))

    assert action.name == name
    assert action.reasoning == "because"
    assert action_from(msgspec.to_builtins(action)) == action


def test_configure_tells_none_from_unsaid() -> None:
    action = parsed(said("configure", **EXAMPLES["configure"]))

    assert isinstance(action, Configure)
    assert action.changes == {"workflow_artifact_id": None, "reflex_artifact_id": "r"}


def test_a_ref_may_lead_out_of_the_world_which_its_grant_decides() -> None:
    assert parsed(said("read", ref="main:handbook@2")).name == "read"
    assert parsed(said("configure", workflow_artifact_id="main:flow")).name == "configure"


@pytest.mark.parametrize(
    "text",
    [
        '{"action": "noop"}',
        '\ufeff\n {"action": "noop"} \n',
        '```json\n{"action": "noop"}\n```',
        '```\n{"action": "noop"}\n```',
        'I am {agent_id}, so I wait.\n\n{"action": "noop"}\n\nThat is all.',
        'Here: {"action": "noop"}, as said.',
        'I weigh {x: {y}} first.\n~~~\n{\n\t"action" : "noop" }\n~~~',
    ],
)
def test_an_object_may_be_plain_fenced_or_in_prose(text: str) -> None:
    assert parsed(text) == Noop()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON object"),
        ("I do nothing.", "no JSON object"),
        ("{'action': 'noop'}", "no JSON object"),
        ('"{\\"action\\": \\"noop\\"}"', "no JSON object"),
        ('{action: {"action": "noop"}}', "braces that are no JSON"),
        ('{{"action": "noop"}}', "braces that are no JSON"),
        ('{{"action": "read"}} {"action": "noop"}', "braces that are no JSON"),
        ('{"action": "invoke", "args": {"action": "noop"}', "not valid JSON"),
        ('{"action": "transfer", "to": "bob", "amount": 5', "not valid JSON"),
        ('{"action": "noop",}', "not valid JSON"),
        ('{"action": "noop" {"action": "noop"}', "not valid JSON"),
        ('{ and then {"action": "noop"}', "never closes"),
        ('{"action": "noop"}\n{"action": "noop"}', "more than one"),
        ('{"a": 1} is an example.\n```json\n{"action": "noop"}\n```', "more than one"),
        ('[{"action": "noop"}]', "inside a list"),
        ('[1, {"action": "noop"}]', "inside a list"),
        ('{"action": "noop"}}', "inside a list or another"),
        ('{"action": "noop", "action": "delete"}', "'action' twice"),
        ('{"action": "noop", "reasoning": NaN}', "NaN"),
        ('{"action": "bid", "artifact_id": "x", "amount": 1e999}', "number"),
        ('{"action": "bid", "artifact_id": "x", "amount": ' + "9" * 5_000 + "}", "limit"),
        ('{"action": "noop", "reasoning": "\\ud800"}', "no Unicode"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("x" * 600_000, "characters"),
    ],
)
def test_what_is_not_exactly_one_object_is_rejected(text: str, why: str) -> None:
    assert why in reason(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "must be one of noop, read"),
        ('{"action": 7}', "a value of type int"),
        ('{"action": ["noop"]}', "a value of type list"),
        ('{"action": "read_artifact"}', "'read_artifact'"),
        (said("noop", extra=1), "unknown field `extra`"),
        (said("read"), "missing required field `ref`"),
        (said("read", ref="a#b@2"), "a ref such as `id`"),
        (said("read", ref="a\n"), "invalid artifact id"),
        (said("delete", artifact_id="main:x"), "reserved"),
        (said("delete", artifact_id="x" * 129), "an id (1-128 characters"),
        (said("accept", offer_id="x\n"), "invalid artifact id"),
        (said("search", kind="prompt\n"), "invalid kind"),
        (said("transfer", to="bob", amount=-1), ">= 1"),
        (said("transfer", to="bob", amount=0), ">= 1"),
        (said("transfer", to="bob", amount=1.5), "got `float`"),
        (said("transfer", to="bob", amount="5"), "got `str`"),
        (said("transfer", to="bob", amount=True), "got `bool`"),
        (said("transfer", to="bob", amount=10**13), "<= 1000000000000"),
        (said("transfer", to="main:bob", amount=1), "invalid principal"),
        (said("write", artifact_id="x", content=1, access="everybody"), "invalid access policy"),
        (said("write", artifact_id="x", content=1, prices={"read": -1}), ">= 0"),
        (said("write", artifact_id="x", content="x" * 300_000), "too large"),
        (said("edit", artifact_id="x", old="", new="y"), "length >= 1"),
        (said("configure"), "configure changes nothing"),
        (said("configure", workflow_artifact_id="b:x"), "reserved"),
        (said("configure", system_prompt="x"), "unknown field"),
        (said("offer", artifact_id="x", price=1, sells="licence"), "`uses` or `ticks`"),
        (said("offer", artifact_id="x", price=1, uses=3), "`uses` or `ticks`"),
        (said("offer", artifact_id="x", price=1, royalty_percent=5), "only a copy"),
        (said("offer", artifact_id="x", price=1, sells="soul"), "soul"),
        (said("message", to="bob", text=""), "length >= 1"),
        (said("message", to="bob", text="x" * 4_001), "length <= 4000"),
        (said("noop", reasoning="x" * 4_001), "length <= 4000"),
    ],
)
def test_bad_fields_are_rejected_with_a_readable_reason(text: str, why: str) -> None:
    told = parse_action(text)

    assert isinstance(told, Rejected)
    assert why in told.reason


def test_money_and_content_arrive_exactly() -> None:
    transfer = parsed(said("transfer", to="bob", amount=10**12))
    write = parsed(said("write", artifact_id="x", content="{agent_id} \u2603", prices={"read": 3}))

    assert isinstance(transfer, Transfer) and transfer.amount == 10**12
    assert isinstance(write, Write) and write.content == "{agent_id} \u2603"
    assert write.prices is not None and write.prices.read == 3


def test_an_action_that_is_not_allowed_here_is_rejected() -> None:
    answer = parse_action(said("delete", artifact_id="x"), allowed=("noop", "read"))

    assert answer == Rejected("`action` must be one of noop, read; got 'delete'")


@pytest.mark.parametrize("value", [None, 7, "noop", ["noop"], [{"action": "noop"}], 1.5])
def test_only_an_object_is_an_action(value: object) -> None:
    assert isinstance(action_from(value), Rejected)


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("steal", {}, "must be one of"),
        ("message", {"to": "bob", "text": "\ud800"}, "no Unicode"),
        ("bid", {"artifact_id": "x", "amount": float("nan")}, "no such number"),
        ("write", {"artifact_id": "x", "content": {1: 2}}, "no text"),
        ("write", {"artifact_id": "x", "content": b"bytes"}, "neither text"),
    ],
)
def test_data_that_is_no_action_is_rejected(name: str, arguments: dict[str, object], why: str) -> None:
    answer = action_from({"action": name, **arguments})

    assert isinstance(answer, Rejected)
    assert why in answer.reason


words = st.text(max_size=60) | st.sampled_from(
    ['{"action": "noop"}', "{", "}", "[", "]", '"', "```json\n", "```", '{"a": ', "\\", "{x}"]
)


@given(st.lists(words, max_size=8).map("".join))
def test_any_text_gives_an_action_or_a_bounded_reason(text: str) -> None:
    answer = parse_action(text)

    if isinstance(answer, Rejected):
        assert 0 < len(answer.reason) <= 400
        answer.reason.encode()
    else:
        assert answer == Noop()
        assert len(re.findall(r'\{\s*"action"\s*:\s*"noop"', text)) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
fields = st.dictionaries(
    st.sampled_from(["artifact_id", "ref", "content", "to", "amount", "price", "args", "old"]), json_values
)


@given(st.sampled_from(sorted(ACTIONS)), fields)
def test_any_fields_give_an_action_or_a_bounded_reason(name: str, given_fields: dict) -> None:
    answer = action_from({"action": name, **given_fields})

    if isinstance(answer, Rejected):
        assert 0 < len(answer.reason) <= 400
    else:
        assert answer.name == name


@given(st.sampled_from(sorted(EXAMPLES)), st.integers(min_value=1))
def test_a_cut_reply_is_never_read_as_something_shorter(name: str, gone: int) -> None:
    text = said(name, **EXAMPLES[name])

    assert isinstance(parse_action(text[: -(1 + gone % (len(text) - 1))]), Rejected)
