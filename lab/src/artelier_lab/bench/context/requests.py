"""Requests as a provider reads them: tools first, then the messages; and what two of them share."""

from __future__ import annotations

import msgspec

from artelier.kernel.prompt.manifest import canonical
from artelier.ports.model import ModelRequest
from artelier.tokens import estimate_tokens

CACHED_SHARE = 0.1
"""What a cached input token costs of a fresh one: a tenth at most providers of November 2026."""


def read_order(request: ModelRequest) -> bytes:
    """Canonical bytes of tools and messages in the order in which prefixes are cached."""
    # Pieces of a message are one text to a tokenizer, however many there are.
    told = (msgspec.structs.replace(message, content=message.text) for message in request.messages)
    messages = b"".join(message.canonical() for message in told)
    return canonical(request.tools) + messages


def shared(earlier: bytes, later: bytes) -> bytes:
    """The common prefix of two requests."""
    low, high = 0, min(len(earlier), len(later))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if earlier[:middle] == later[:middle] else (low, middle - 1)
    return earlier[:low]


def tokens_of(request: ModelRequest) -> int:
    """Estimate of the whole canonical request."""
    return estimate_tokens(request.canonical())


def cached_cost(requests: list[ModelRequest]) -> float:
    """Price of the input of requests in a row, in fresh tokens; the last one's prefix is cached."""
    cost, before = 0.0, b""
    for request in requests:
        body = read_order(request)
        cached = estimate_tokens(shared(before, body))
        cost += max(0, tokens_of(request) - cached) + CACHED_SHARE * cached
        before = body
    return cost
