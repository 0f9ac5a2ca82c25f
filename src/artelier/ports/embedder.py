"""The port of embedders: texts in, one vector of fixed length for each out; and who pays for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]
    """A vector as embedders give it: one dimension, length 1, ready for a dot product."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how near their meanings are.

    One that asks a provider calls `payer()` first, and asks through it if there is one.
    """

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


Ask: TypeAlias = Callable[[Sequence[str]], Awaitable[tuple[Sequence[Sequence[float]], int]]]
"""One request to a provider, never repeated by itself: vectors of texts, and the tokens that it counted."""


class Payer(Protocol):
    """The interface that allows, times, pays for and records embedders that cost money."""

    async def vectors(self, model: str, texts: Sequence[str], ask: Ask) -> Sequence[Sequence[float]]:
        """Return what `ask` answers, or what was recorded of it.

        Errors: those of a model call: `NotGranted`, `PriceUnknown`, `LimitReached`, the provider's; the run's
        own when its budget or its time is up.
        """
        ...


_PAYER: ContextVar[Payer | None] = ContextVar("payer", default=None)


def payer() -> Payer | None:
    """Return who pays for what is asked here; None in a program that asks on its own account."""
    return _PAYER.get()


@contextmanager
def paid_by(who: Payer) -> Generator[None]:
    """Have `who` pay for the embedders that are asked inside."""
    token = _PAYER.set(who)
    try:
        yield
    finally:
        _PAYER.reset(token)
