"""The old name of `artelier.operations.profile.validation`; use that."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artelier.operations.profile.validation import *  # noqa: F403


def __getattr__(name: str) -> Any:
    import warnings

    import artelier.operations.profile.validation as successor

    value = getattr(successor, name)
    warnings.warn(
        "artelier.operations.validation is now artelier.operations.profile.validation",
        DeprecationWarning,
        stacklevel=2,
    )
    return value
