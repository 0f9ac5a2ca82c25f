"""The old name of `artelier.operations.lore.character_import`; use that."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artelier.operations.lore.character_import import *  # noqa: F403


def __getattr__(name: str) -> object:
    import warnings

    import artelier.operations.lore.character_import as successor

    value = getattr(successor, name)
    warnings.warn(
        "artelier.operations.casting is now artelier.operations.lore.character_import",
        DeprecationWarning,
        stacklevel=2,
    )
    return value
