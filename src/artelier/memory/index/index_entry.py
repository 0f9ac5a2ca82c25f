"""An entry as the index holds it: its record, and its vector as stored (float16) and as compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from artelier.ports.memory import Vector


BYTES_PER_NUMBER = 2
DIMS_MAX = 8_192
"""More than any embedder of today gives; a bound on what one entry may cost."""


def to_blob(vector: Vector | Sequence[float]) -> bytes:
    """The vector as little-endian float16: what is stored (1.5 KB for 768 numbers)."""
    import numpy as np

    return np.asarray(vector, dtype="<f2").tobytes()


def from_blob(blob: bytes) -> Vector:
    """A stored vector as float32.

    Errors: `InvalidRequest` for bytes that are no whole number of float16 values.
    """
    import numpy as np

    if not blob or len(blob) % BYTES_PER_NUMBER:
        raise InvalidRequest("these bytes are no vector", got=f"{len(blob)} bytes")
    return np.frombuffer(blob, dtype="<f2").astype(np.float32)


def as_list(blob: bytes) -> list[float]:
    """A stored vector as plain numbers, for JSON."""
    return [round(float(value), 6) for value in from_blob(blob)]


def as_vector(vector: NDArray[np.generic] | Sequence[float] | bytes) -> Vector:
    """A vector from whatever it came as: a blob, numbers, an array.

    Errors: `InvalidRequest` if it has no length, is all zeros or holds what is no number.
    """
    import numpy as np

    if isinstance(vector, bytes):
        array = from_blob(vector)
    else:
        array = np.ascontiguousarray(vector, dtype=np.float32)
    if array.ndim != 1 or not 0 < array.size <= DIMS_MAX:
        raise InvalidRequest(
            "a vector has one dimension", expected=f"1 to {DIMS_MAX} numbers", got=array.shape
        )
    norm = float(np.dot(array, array))
    if not np.isfinite(norm) or norm == 0.0:
        raise InvalidRequest(
            "a vector must have a direction", expected="finite numbers, not all zero", got=norm
        )
    return array


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One entry as it is searched: text and fields. The store keeps everything else."""

    id: str
    text: str
    speaker: str = ""
    """Who said it; a name in a question favours what that person said."""
    date: str = ""
    """When it was said, as free text or ISO 8601; empty if nobody knows."""
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    """From 0 to 1."""
    tick: int = 0
    """When it was written: any integer that grows with time (a tick, microseconds)."""
    trust: str = "trusted"
    caption: str = ""
    """What an attached picture or file shows."""
