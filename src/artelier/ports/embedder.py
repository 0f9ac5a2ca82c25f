"""The port of embedders: texts in, one vector of fixed length for each out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]
    """A vector as embedders give it: one dimension, length 1, ready for a dot product."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how near their meanings are."""

    @property
    def name(self) -> str:
        """Stored with each vector. Vectors of different names are never compared."""
        ...

    @property
    def dims(self) -> int:
        """Length of every vector; 0 while it is not known yet."""
        ...

    async def embed(self, texts: Sequence[str], /) -> list[Vector]:
        """One vector of length 1 for each text, in their order; no vector is all zeros.

        Errors: `InvalidRequest` for a text without a visible character.
        """
        ...
