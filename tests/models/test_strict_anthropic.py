"""The double of Anthropic refuses what the real API refuses, in its words."""

from __future__ import annotations

from typing import Any

import pytest

from artelier.testing.providers import CachedBlock, PromptCache, StrictAnthropic
from artelier.testing.providers.bills import sign

MARK = {"cache_control": {"type": "ephemeral"}}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "seen"}


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def talk(*contents: Any) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": content} for number, content in enumerate(contents)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"messages": talk([text(str(n), **MARK) for n in range(5)])}, "A maximum of 4 blocks"),
        ({"messages": talk("hi", [USE], "and now?")}, "without `tool_result` blocks"),
        ({"messages": talk("hi", "yes", [RESULT])}, "unexpected `tool_use_id`"),
        ({"messages": talk("hi", [USE], [text("first"), RESULT])}, "must come first"),
        ({"messages": talk("hi", [USE])}, "without `tool_result` blocks"),
        ({"messages": talk("  ")}, "non-whitespace"),
        (
            {"messages": talk("hi", [{"type": "thinking", "thinking": "b", "signature": sign("a")}], "go")},
            "Invalid `signature`",
        ),
        ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "greater than or equal to 1024"),
        ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "greater than `thinking.budget_tokens`"),
        ({"thinking": {"type": "adaptive"}, "temperature": 0.5}, "only be set to 1"),
        ({"max_tokens": 100_000}, "maximum allowed number of output tokens"),
        ({"messages": talk("word" * 220_000)}, "prompt is too long"),
        (
            {"messages": talk([{"type": "image", "source": {"type": "base64", "data": "A" * 7_100_000}}])},
            "exceeds 5 MB",
        ),
        ({"seed": 7}, "Extra inputs"),
    ],
)
def test_what_the_api_refuses_is_refused(fields: dict[str, Any], words: str):
    strict = StrictAnthropic(["hello"])

    strict({"model": "claude-sonnet-4-6", "max_tokens": 2048, "messages": talk("hi"), **fields})

    assert words in strict.refusals[0]
    assert strict.bills == []


def blocks(count: int, *marks: int) -> list[CachedBlock]:
    return [
        CachedBlock(content=str(n).encode(), tokens=100, lifetime_s=300 if n in marks else None)
        for n in range(count)
    ]


def test_a_mark_finds_what_ends_at_most_twenty_blocks_before_it():
    cache = PromptCache(lookback_blocks=20, prefix_tokens_min=1000, now_s=lambda: 0.0)
    cache.bill("m", blocks(20, 19))

    near, far = cache.bill("m", blocks(40, 39)), cache.bill("m", blocks(61, 60))

    assert (near.read_tokens, near.written_tokens) == (2000, 2000)
    assert (far.read_tokens, far.written_tokens) == (0, 6100)


def test_a_prefix_below_the_minimum_is_neither_written_nor_read():
    cache = PromptCache(lookback_blocks=20, prefix_tokens_min=1000, now_s=lambda: 0.0)

    bills = [cache.bill("m", blocks(9, 8)) for _ in range(2)]

    assert [(bill.read_tokens, bill.written_tokens) for bill in bills] == [(0, 0), (0, 0)]


def test_a_prefix_that_nobody_reads_for_its_lifetime_is_gone():
    now = [0.0]
    cache = PromptCache(lookback_blocks=20, prefix_tokens_min=1000, now_s=lambda: now[0])
    cache.bill("m", blocks(20, 19))
    reads: list[int] = []
    for moment in (299.0, 598.0, 898.5):
        now[0] = moment
        reads.append(cache.bill("m", blocks(20, 19)).read_tokens)

    assert reads == [2000, 2000, 0]
