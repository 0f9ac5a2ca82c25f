"""The `/embeddings` answer of the test server: vectors that depend on the text and nothing else."""

from __future__ import annotations

from typing import Any

from artelier.memory.embedders.registry import HashingEmbedder


def embeddings(body: dict[str, Any]) -> dict[str, Any]:
    """The whole answer to a request `body`."""
    texts: list[str] = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [HashingEmbedder().vector(text) for text in texts]
    return {
        "object": "list",
        "model": body.get("model", ""),
        "data": [
            # Twice the length of 1: a client must not rely on what a server scales.
            {"object": "embedding", "index": place, "embedding": (2 * vector).tolist()}
            for place, vector in enumerate(vectors)
        ],
        "usage": {
            "prompt_tokens": sum(len(text) // 4 + 1 for text in texts),
            "total_tokens": sum(len(text) // 4 + 1 for text in texts),
        },
    }
