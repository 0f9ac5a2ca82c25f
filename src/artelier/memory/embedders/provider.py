"""Embedders behind the `/embeddings` route of OpenAI and of the servers that speak its protocol."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from artelier.errors import (
    InvalidConfig,
    InvalidRequest,
    MissingKey,
    ModelRefusedCall,
    ModelReplyBroken,
    ModelTimeout,
    ProviderUnavailable,
    RateLimited,
)
from artelier.ports.memory import payer
from artelier.tokens import estimate_tokens

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAIError

    from artelier.errors import ArtelierError
    from artelier.ports.memory import Vector

KEY_NAME = "OPENAI_API_KEY"
URL_NAME = "OPENAI_BASE_URL"
NO_KEY = "none"
"""Sent to a server of one's own that asks for no key."""
BATCH = 256
"""Texts in one request; OpenAI takes 2,048, smaller servers less."""
TEXT_CHARS_MAX = 30_000
"""About the 8,192 tokens that OpenAI takes; longer texts are cut."""
TIMEOUT_S = 60.0
RETRIES = 2


class ProviderEmbedder:
    """Embeds over the network; one request for up to 256 texts.

    In a step of a run it is that run's call: allowed, timed, paid for and tried again as any other.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`api_key`: else that of the environment; a server under `base_url` may do without one."""
        self.name = f"openai:{model}"
        self.dims = 0
        self._model = model
        self._base_url = base_url
        self._api_key = api_key
        self._timeout_s = timeout_s

    async def embed(self, texts: Sequence[str], /) -> list[Vector]:
        """Vectors for texts, scaled to length 1.

        Errors: `MissingKey`; `InvalidRequest` for an empty text; `RateLimited`, `ProviderUnavailable` and
                `ModelTimeout` (a retry may help); `ModelRefusedCall`; `ModelReplyBroken` for an answer
                that is not one vector of the known length for each text; those of who pays.
        """
        for text in texts:
            if not text.strip():
                raise InvalidRequest("an empty text has no vector", got=repr(text[:20]))
        vectors: list[Vector] = []
        who = payer()
        for start in range(0, len(texts), BATCH):
            batch = [text[:TEXT_CHARS_MAX] for text in texts[start : start + BATCH]]
            if who is None:
                rows, _ = await self._request(batch, retries=RETRIES)
            else:
                rows = await who.vectors(self.name, batch, self._request)
            vectors += [self._check_vector(row) for row in rows]
        return vectors

    async def _request(self, texts: Sequence[str], *, retries: int = 0) -> tuple[list[list[float]], int]:
        """One request: what the server sent for each text, and the tokens that it counted."""
        import openai

        try:
            # One client for each: its connections belong to the event loop that opened them.
            async with self._client(retries) as client:
                answer = await client.embeddings.create(
                    model=self._model, input=list(texts), encoding_format="float"
                )
            rows = {item.index: item.embedding for item in answer.data}
            tokens = _tokens(answer, texts)
        except openai.OpenAIError as error:
            raise _failure(error, self.name) from error
        # What a server sends has the shape of the protocol or any other.
        except (AttributeError, TypeError, ValueError) as error:
            raise self._broken(type(error).__name__) from error
        if sorted(rows) != list(range(len(texts))):
            raise self._broken(f"{len(rows)} vectors for {len(texts)} texts")
        found = [rows[place] for place in range(len(texts))]
        for row in found:
            self._check_vector(row)  # before anybody records or pays for it
        return found, tokens

    def _check_vector(self, numbers: Sequence[float]) -> Vector:
        import numpy as np

        try:
            vector = np.asarray(numbers, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise self._broken("what is no number") from error
        length = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
        if not np.isfinite(length) or length == 0.0:
            raise self._broken("a vector without a direction")
        if self.dims not in (0, vector.size):
            raise self._broken(f"{vector.size} numbers")
        self.dims = vector.size
        return vector / np.float32(length)

    def _broken(self, got: str) -> ModelReplyBroken:
        expected = f"one vector{f' of {self.dims} numbers' if self.dims else ''} for each text"
        return ModelReplyBroken(f"{self.name} did not answer with vectors", expected=expected, got=got)

    def _client(self, retries: int) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI
        except ImportError as error:
            raise InvalidConfig(
                f"the embedder {self.name} needs a package that is not installed",
                got=error.name,
                hint="Install it: pip install 'artelier[openai]'.",
            ) from error
        key = (self._api_key or os.environ.get(KEY_NAME, "")).strip()
        base_url = self._base_url or os.environ.get(URL_NAME, "").strip() or None
        if not key and base_url is None:
            raise MissingKey(
                f"{self.name}: needs a key",
                expected=f"the environment variable {KEY_NAME}",
                got="nothing",
                hint="Set it, or use the embedder hashing, which needs none.",
            )
        return AsyncOpenAI(
            api_key=key or NO_KEY, base_url=base_url, timeout=self._timeout_s, max_retries=retries
        )


def _tokens(answer: object, texts: Sequence[str]) -> int:
    """Return what a server has counted; of one that counts nothing, an estimate."""
    told = getattr(getattr(answer, "usage", None), "prompt_tokens", None)
    if isinstance(told, int) and not isinstance(told, bool):
        return told
    return sum(estimate_tokens(text.encode()) for text in texts)


def _failure(error: OpenAIError, name: str) -> ArtelierError:
    import openai

    match error:
        case openai.APITimeoutError():
            return ModelTimeout(f"{name} did not answer in time")
        case openai.RateLimitError():
            return RateLimited(f"{name} is rate limited: {error.message:.200}")
        case openai.APIStatusError() if error.status_code >= 500:
            return ProviderUnavailable(f"{name} failed", got=f"status {error.status_code}")
        case openai.APIStatusError():
            return ModelRefusedCall(
                f"{name} refused the request: {error.message:.200}", got=f"status {error.status_code}"
            )
        case openai.APIConnectionError():
            return ProviderUnavailable(f"{name} cannot be reached")
        case _:
            return ModelReplyBroken(f"{name} did not answer with vectors", got=type(error).__name__)
