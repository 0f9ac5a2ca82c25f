"""Numpy arrays that grow at the end: doubling, so that adding one value is O(1) amortised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from artelier.errors import InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    AnyVector = NDArray[np.generic] | Sequence[float] | bytes

START = 64
AT_ONCE = 64
"""Vectors that are converted together: 200 KB of 768 numbers."""


Kind = TypeVar("Kind", bound=np.generic)


class GrowableArray(Generic[Kind]):
    """One value per row, of one type."""

    def __init__(self, kind: type[Kind]) -> None:
        self._rows: NDArray[Kind] = np.zeros(START, dtype=kind)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[Kind]:
        """A view of all rows; not to be kept over an append."""
        return self._rows[: self._count]

    def append(self, value: float) -> None:
        if self._count == len(self._rows):
            self._grow(1)
        self._rows[self._count] = value
        self._count += 1

    def extend(self, values: Sequence[float] | NDArray[np.generic]) -> None:
        end = self._count + len(values)
        if end > len(self._rows):
            self._grow(len(values))
        self._rows[self._count : end] = values
        self._count = end

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop the rows where the mask is False."""
        rows = self.values[mask]
        self._count = len(rows)
        self._rows = np.concatenate((rows, np.zeros(START, dtype=rows.dtype)))

    def _grow(self, by: int) -> None:
        rows = np.zeros(max(2 * len(self._rows), self._count + by), dtype=self._rows.dtype)
        rows[: self._count] = self.values
        self._rows = rows


class VectorColumn:
    """Vectors of length 1, one per row or none, as one float32 matrix."""

    def __init__(self, dims: int) -> None:
        self.dims = dims
        self._matrix: NDArray[np.float32] = np.zeros((START, dims), dtype=np.float32)
        self._has = GrowableArray(np.bool_)

    def __len__(self) -> int:
        return len(self._has)

    @property
    def matrix(self) -> NDArray[np.float32]:
        """All rows; those without a vector are zero. Not to be kept over an append."""
        return self._matrix[: len(self)]

    @property
    def there(self) -> NDArray[np.bool_]:
        """A mask of the rows that hold a vector."""
        return np.asarray(self._has.values, dtype=np.bool_)

    def append(self, vector: AnyVector | None) -> None:
        """Errors: `InvalidRequest` for another length, all zeros, or what is no number."""
        row = len(self)
        self._make_room(1)
        if vector is None:
            self._matrix[row] = 0.0
        else:
            numbers = np.frombuffer(vector, dtype="<f2") if isinstance(vector, bytes) else vector
            self._put(row, np.asarray(numbers, dtype=np.float32).reshape(1, -1))
        self._has.append(vector is not None)

    def extend(self, blobs: Sequence[bytes]) -> None:
        """Many stored vectors at once. Errors: as `append`; then none is added.

        Cost: about 3 us for one of 768 numbers.
        """
        row = len(self)
        self._make_room(len(blobs))
        # Slices that fit the cache: a vector is converted and measured while it is there.
        for start in range(0, len(blobs), AT_ONCE):
            several = blobs[start : start + AT_ONCE]
            if any(len(blob) != 2 * self.dims for blob in several):
                raise _other_length(self.dims, "another")
            numbers = np.frombuffer(b"".join(several), dtype="<f2")
            self._put(row + start, numbers.reshape(len(several), self.dims))
        self._has.extend(np.ones(len(blobs), dtype=np.bool_))

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop the rows where the mask is False."""
        self._matrix = self.matrix[mask]
        self._has.keep(mask)

    def _put(self, row: int, numbers: NDArray[np.floating]) -> None:
        if numbers.shape[1] != self.dims:
            raise _other_length(self.dims, numbers.shape[1])
        rows = self._matrix[row : row + len(numbers)]
        rows[:] = numbers
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise InvalidRequest("a vector must have a direction", expected="finite numbers, not all zero")
        # Float16 keeps a length of 1 to three digits; only vectors that never had it are scaled.
        if np.abs(lengths - 1.0).max() > 2e-3:
            rows /= lengths[:, None]

    def _make_room(self, by: int) -> None:
        if len(self) + by > len(self._matrix):
            size = max(len(self) + by, len(self._matrix) * 3 // 2, START)
            grown = np.empty((size, self.dims), dtype=np.float32)
            grown[: len(self)] = self.matrix
            self._matrix = grown


def _other_length(expected: int, got: object) -> InvalidRequest:
    return InvalidRequest("vectors of one index have one length", expected=f"{expected} numbers", got=got)
