"""The old name of `artelier.agents.launch`; use that."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artelier.agents.launch import *  # noqa: F403


def __getattr__(name: str) -> object:
    import warnings

    import artelier.agents.launch as successor

    value = getattr(successor, name)
    warnings.warn("artelier.agents.launching is now artelier.agents.launch", DeprecationWarning, stacklevel=2)
    return value
