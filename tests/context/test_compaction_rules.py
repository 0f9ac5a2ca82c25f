"""What triggers a compaction and which messages it may take: laws over drawn conversations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.context import CompactionStrategy, kept_from
from artelier.context.compaction import extract, facts_of, find_lost
from artelier.errors import InvalidRequest
from artelier.ports.model import ChatMessage, ToolCall
from artelier.tokens import estimate_tokens


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[ChatMessage], list[int]]:
    messages: list[ChatMessage] = []
    for turn in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["said", "called", "user"]))
        if kind == "user":
            messages.append(ChatMessage(role="user", content="note"))
            continue
        count = draw(st.integers(1, 6)) if kind == "called" else 0
        calls = tuple(ToolCall(id=f"{turn}.{n}", name="t") for n in range(count))
        messages.append(ChatMessage(role="assistant", content="hm", tool_calls=calls))
        messages += [ChatMessage(role="tool", content="r", tool_call_id=c.id) for c in calls]
    return messages, [draw(st.integers(1, 500)) for _ in messages]


@given(conversations(), st.integers(1, 20), st.integers(0, 5000))
def test_what_stays_begins_with_no_orphan_and_keeps_enough(
    drawn: tuple[list[ChatMessage], list[int]], keep: int, room: int
) -> None:
    messages, sizes = drawn

    first = kept_from(messages, sizes, keep=keep, room_tokens=room)

    kept = messages[first:]
    if not messages:
        assert first == 0
        return
    assert kept, "the newest exchange always stays"
    assert kept[0].role != "tool"
    calls = {call.id for message in kept for call in message.tool_calls}
    assert all(m.tool_call_id in calls for m in kept if m.role == "tool")
    if sum(sizes[max(0, len(messages) - keep) :]) <= room and len(messages) > keep:
        starts = [i for i, m in enumerate(messages) if m.role != "tool"]
        wanted = max((s for s in starts if s <= len(messages) - keep), default=0)
        if sum(sizes[wanted:]) <= room:
            assert len(kept) >= keep


def test_whichever_trigger_comes_first() -> None:
    strategy = CompactionStrategy(trigger_at_messages=40, trigger_at_fraction=0.8)

    def wanted(messages: int, tokens: int) -> str:
        return strategy.trigger_of(messages=messages, tokens=tokens, window_tokens=10_000)

    assert wanted(39, 7_999) == ""
    assert wanted(40, 10) == "messages"
    assert wanted(3, 8_000) == "fraction"


@pytest.mark.parametrize(
    "wrong",
    [
        {"trigger_at_messages": 10, "keep_recent_messages": 10},
        {"keep_recent_messages": 0},
        {"trigger_at_fraction": 1.5},
        {"trigger_at_fraction": True},
        {"trigger_at_messages": "40"},
        {"summary_tokens_max": 1},
    ],
)
def test_a_strategy_that_could_never_make_room_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        CompactionStrategy(**wrong)  # pyright: ignore[reportArgumentType] - wrong on purpose


@given(
    st.builds(
        CompactionStrategy,
        trigger_at_messages=st.none() | st.integers(30, 500),
        trigger_at_fraction=st.none() | st.floats(0.05, 1),
        summarize_with_model=st.none() | st.just("") | st.just("openai:gpt-4o-mini"),
        keep_recent_messages=st.integers(1, 28),
    )
)
def test_a_strategy_comes_back_from_its_settings(strategy: CompactionStrategy) -> None:
    again = CompactionStrategy.from_stored(strategy.settings())

    assert again.settings() == strategy.settings()


def test_settings_of_something_else_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="not a compaction strategy"):
        CompactionStrategy.from_stored({"keep": 3})


TEXT = (
    "We decided to move invoice INV-2041 to /srv/billing/2026/q3.csv. The total is 42,983.02 USD, "
    "rate 12.5%. Contact ada.l@example.org; class InvoiceMover calls move_invoice. "
    "Should we notify the customer before Friday? See https://example.org/a/b?x=1."
)


def test_facts_are_found_by_kind() -> None:
    facts = facts_of(TEXT)

    assert {"INV-2041", "InvoiceMover", "move_invoice", "ada.l@example.org"} <= set(facts["identifiers"])
    assert "/srv/billing/2026/q3.csv" in facts["paths"]
    assert {"42,983.02", "12.5%"} <= set(facts["numbers"])
    assert any("decided" in said for said in facts["decisions"])
    assert any(said.endswith("Friday?") for said in facts["questions"])


def test_the_loss_is_what_neither_summary_nor_memory_says() -> None:
    report = find_lost(TEXT, kept=["INV-2041 moved, total 42,983.02", "rate is 12.5% (memory)"])

    assert "INV-2041" not in report.get("identifiers", [])
    assert "42,983.02" not in report.get("numbers", [])
    assert "/srv/billing/2026/q3.csv" in report["paths"]
    assert find_lost(TEXT, kept=[TEXT]) == {}


@given(st.text(max_size=2000))
def test_facts_of_any_text_are_bounded_and_occur_in_it(text: str) -> None:
    for found in facts_of(text).values():
        assert len(found) <= 400
        assert all(fact in text for fact in found)


def test_facts_of_hostile_text_take_linear_time() -> None:
    for evil in ("a" * 200_000, "1," * 100_000, "a_" * 100_000, "/a" * 100_000, "?" * 200_000):
        assert sum(map(len, facts_of(evil).values())) < 2_000


@given(st.lists(st.text(max_size=300), max_size=30), st.integers(50, 1500))
def test_an_extract_is_within_its_size(texts: list[str], tokens: int) -> None:
    made = extract(texts, tokens=tokens, previous="earlier " * 50)

    assert estimate_tokens(made) <= tokens + 30
    assert extract(texts, tokens=tokens, previous="earlier " * 50) == made


def test_an_extract_keeps_the_newest_lines_and_the_facts_of_all() -> None:
    texts = [f"[{n}] tool: order ORD-{n:04d} shipped" for n in range(200)]

    made = extract(texts, tokens=600)

    assert "ORD-0199 shipped" in made
    assert "earlier messages are only in the log" in made
    assert "Seen: " in made
