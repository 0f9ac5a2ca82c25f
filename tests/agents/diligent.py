"""A model that works on and on: calls tools, writes summaries, and checks every prompt it is given."""

from __future__ import annotations

from typing import Any

from artelier import ModelReply, ModelRequest, Price, ToolCall, Usage, tool
from artelier.ports.model import FREE

TASK = "Visit all pages. TASK-42"
RULE = "RULE-7: never visit page zero."
SIZES = (200, 800, 2_000, 8_000, 60_000, 400_000)


@tool(side_effect=False)
def fetch(n: int) -> str:
    """Fetch a page."""
    size = SIZES[n % len(SIZES)]
    return (f"page {n} ID-{n:05d} " + f"lorem ipsum dolor sit amet, value={n}; " * (size // 30))[:size]


class Diligent:
    """Calls `fetch` for so many turns, sometimes five at once, then says that it is done."""

    price: Price | None = FREE

    def __init__(self, turns: int, *, window_tokens: int, chars_per_token: float = 3.6) -> None:
        self.turns = turns
        self.window_tokens = window_tokens
        self.chars_per_token = chars_per_token
        self.turn = 0
        self.summaries = 0
        self.biggest = 0
        self.received: list[bytes] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        body = request.canonical()
        self.received.append(body)
        tokens = int(len(body) / self.chars_per_token)
        self.biggest = max(self.biggest, tokens)
        assert tokens + request.params["max_output_tokens"] <= self.window_tokens
        usage = Usage(input_tokens=tokens, output_tokens=20)
        if "Task: summarise past events." in request.messages[0].text:
            self.summaries += 1
            said = " ".join(message.text for message in request.messages)
            assert TASK not in said and RULE not in said
            return ModelReply(text="Pages were visited one after the other.", usage=usage)
        self._check(request)
        self.turn += 1
        if self.turn > self.turns:
            return ModelReply(text="All pages were visited.", usage=usage)
        numbers = [self.turn]
        if self.turn % 11 == 0:
            numbers += [self.turn * 7 + more for more in range(5)]
        calls = tuple(
            ToolCall(id=f"t{self.turn}-{index}", name="fetch", arguments={"n": number})
            for index, number in enumerate(numbers)
        )
        return ModelReply(text=f"turn {self.turn}", tool_calls=calls, usage=usage)

    def _check(self, request: ModelRequest) -> None:
        asked: set[str] = set()
        open_calls: set[str] = set()
        for message in request.messages:
            if message.role == "tool":
                assert message.tool_call_id in open_calls, "an orphan tool message"
                open_calls.discard(str(message.tool_call_id))
                continue
            assert not open_calls, "a call without its result"
            open_calls = {call.id for call in message.tool_calls}
            asked |= open_calls
        assert not open_calls
        texts = [message.text for message in request.messages]
        assert TASK in texts and RULE in texts


def stream_text(item: Any) -> str:
    return getattr(item, "text", "")
