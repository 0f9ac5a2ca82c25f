"""The forward pass of a small BERT encoder in numpy: token ids in, one sentence vector each out.

It reads the tensors of a `safetensors` file by the names that the reference implementation gives them, and
does what inference needs and nothing else: no dropout, no gradients, no second token type.
Source: Devlin et al., BERT, 2018; mean pooling and unit length as in Sentence-BERT, 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

HEAD_SIZE = 32
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
NORM_EPSILON = 1e-12


class Bert:
    """An encoder over tensors that were loaded before."""

    def __init__(self, tensors: Mapping[str, Matrix]) -> None:
        self._tensors = tensors
        self.dims = int(tensors["embeddings.word_embeddings.weight"].shape[1])
        self.length_max = int(tensors["embeddings.position_embeddings.weight"].shape[0])
        self._layers = 1 + max(
            int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer.")
        )

    def sentences(self, batch: Sequence[Sequence[int]]) -> Matrix:
        """One vector of length 1 for each list of token ids."""
        width = max(len(ids) for ids in batch)
        ids = np.zeros((len(batch), width), dtype=np.int64)
        mask = np.zeros((len(batch), width), dtype=np.float32)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1.0
        states = self._encode(ids, mask)
        means = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1)[:, None]
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def _encode(self, ids: NDArray[np.int64], mask: Matrix) -> Matrix:
        tensors = self._tensors
        states = tensors["embeddings.word_embeddings.weight"][ids]
        states = states + tensors["embeddings.position_embeddings.weight"][: ids.shape[1]]
        states = states + tensors["embeddings.token_type_embeddings.weight"][0]
        states = self._norm(states, "embeddings.LayerNorm")
        # Padding must not be looked at: its share after the softmax is zero.
        hidden = (mask - 1.0)[:, None, None, :] * np.float32(1e9)
        for layer in range(self._layers):
            states = self._layer(states, hidden, f"encoder.layer.{layer}")
        return states

    def _layer(self, states: Matrix, hidden: Matrix, name: str) -> Matrix:
        seen = self._dense(
            self._attend(states, hidden, f"{name}.attention.self"), f"{name}.attention.output.dense"
        )
        states = self._norm(states + seen, f"{name}.attention.output.LayerNorm")
        inner = _gelu(self._dense(states, f"{name}.intermediate.dense"))
        outer = self._dense(inner, f"{name}.output.dense")
        return self._norm(states + outer, f"{name}.output.LayerNorm")

    def _attend(self, states: Matrix, hidden: Matrix, name: str) -> Matrix:
        count, width, dims = states.shape
        heads = (count, width, dims // HEAD_SIZE, HEAD_SIZE)
        query, key, value = (
            self._dense(states, f"{name}.{part}").reshape(heads).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        shares = query @ key.transpose(0, 1, 3, 2) / np.float32(HEAD_SIZE**0.5) + hidden
        shares = np.exp(shares - shares.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return (shares @ value).transpose(0, 2, 1, 3).reshape(count, width, dims)

    def _dense(self, states: Matrix, name: str) -> Matrix:
        return states @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]

    def _norm(self, states: Matrix, name: str) -> Matrix:
        centred = states - states.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + NORM_EPSILON)
        weight, bias = self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]
        return centred / scale * weight + bias


def _gelu(values: Matrix) -> Matrix:
    """`x * Phi(x)`, with erf after Abramowitz and Stegun 7.1.26 (error below 1.5e-7)."""
    scaled = np.abs(values) * np.float32(0.7071067811865476)
    t = 1.0 / (1.0 + np.float32(0.3275911) * scaled)
    poly = np.zeros_like(t)
    for factor in _ERF:
        poly = t * (np.float32(factor) + poly)
    erf = np.sign(values) * (1.0 - poly * np.exp(-scaled * scaled))
    return (values * 0.5 * (1.0 + erf)).astype(np.float32, copy=False)
