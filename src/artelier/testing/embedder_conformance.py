"""The conformance suite of every `Embedder`: subclass it and say how an embedder is opened.

class TestMyEmbedder(EmbedderSuite):
    @contextmanager
    def embedder(self) -> Iterator[Embedder]:
        yield MyEmbedder()
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager

import numpy as np
import pytest

from artelier.errors import InvalidRequest
from artelier.memory.index.index_entry import as_list, from_blob, to_blob
from artelier.ports.memory import Embedder

NEAR = ("The dog sleeps in the garden.", "A dog is sleeping in our garden.")
FAR = "Quarterly revenue rose by nine percent."

ODD_TEXTS = (
    "?!",
    "the of and",
    "x",
    "1234567890",
    "\N{DOG FACE}",
    "東京都庁",
    "naïve café",
    "a\x00b",
    "word " * 3_000,
    "x" * 20_000,
    "line\nbreak\ttab",
    "\N{RIGHT-TO-LEFT OVERRIDE}abc",
)
"""Texts that are not empty, and so have a vector."""


class EmbedderSuite:
    """A contract as tests."""

    def embedder(self) -> AbstractContextManager[Embedder]:
        raise NotImplementedError("open an embedder for one test")

    def test_it_has_a_name_and_fits_the_protocol(self) -> None:
        with self.embedder() as embedder:
            assert isinstance(embedder, Embedder)
            assert embedder.name and embedder.name == embedder.name.strip()

    def test_each_text_has_one_vector_of_the_stated_length(self) -> None:
        with self.embedder() as embedder:
            vectors = asyncio.run(embedder.embed([*NEAR, FAR]))

            assert [vector.shape for vector in vectors] == [(embedder.dims,)] * 3
            assert all(vector.dtype == np.float32 for vector in vectors)

    def test_every_vector_has_length_one_and_none_is_zero(self) -> None:
        with self.embedder() as embedder:
            vectors = asyncio.run(embedder.embed(ODD_TEXTS))

        lengths = [float(np.linalg.norm(vector)) for vector in vectors]
        assert lengths == pytest.approx([1.0] * len(ODD_TEXTS), abs=1e-4)

    def test_a_text_has_the_same_vector_alone_and_among_others(self) -> None:
        with self.embedder() as embedder:
            among = asyncio.run(embedder.embed([FAR, NEAR[0], "word " * 40]))[1]
            alone = asyncio.run(embedder.embed([NEAR[0]]))[0]

        assert np.abs(among - alone).max() < 1e-4

    def test_texts_of_one_meaning_are_nearer_than_others(self) -> None:
        with self.embedder() as embedder:
            one, two, far = asyncio.run(embedder.embed([*NEAR, FAR]))

        assert float(one @ two) > float(one @ far) + 0.2

    def test_order_is_kept(self) -> None:
        texts = [f"{word} {'and more ' * (7 * n % 5)}" for n, word in enumerate(("dog", "tax", "sea"))]
        with self.embedder() as embedder:
            together = asyncio.run(embedder.embed(texts))
            singly = [asyncio.run(embedder.embed([text]))[0] for text in texts]

        for one, other in zip(together, singly, strict=True):
            assert float(one @ other) > 0.999

    def test_no_texts_give_no_vectors(self) -> None:
        with self.embedder() as embedder:
            assert asyncio.run(embedder.embed([])) == []

    def test_an_empty_text_is_refused(self) -> None:
        with self.embedder() as embedder:
            for empty in ("", " ", "\n\t"):
                with pytest.raises(InvalidRequest, match="empty text"):
                    asyncio.run(embedder.embed(["fine", empty]))

    def test_calls_at_once_do_not_disturb_each_other(self) -> None:
        async def both(embedder: Embedder) -> list[float]:
            first, second = await asyncio.gather(
                embedder.embed([NEAR[0], FAR]), embedder.embed([FAR, NEAR[0]])
            )
            return [float(first[0] @ second[1]), float(first[1] @ second[0])]

        with self.embedder() as embedder:
            assert asyncio.run(both(embedder)) == pytest.approx([1.0, 1.0], abs=1e-3)

    def test_a_stored_vector_is_half_as_large_and_says_the_same(self) -> None:
        with self.embedder() as embedder:
            vector = asyncio.run(embedder.embed([NEAR[0]]))[0]

        blob = to_blob(vector)
        assert len(blob) == 2 * vector.size
        assert float(from_blob(blob) @ vector) == pytest.approx(1.0, abs=2e-3)
        assert len(as_list(blob)) == vector.size
