"""The old name of `artelier.operations.profile.operation_profile`; use that."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artelier.operations.profile.operation_profile import *  # noqa: F403


def __getattr__(name: str) -> object:
    import warnings

    import artelier.operations.profile.operation_profile as successor

    value = getattr(successor, name)
    warnings.warn(
        "artelier.operations.validation is now artelier.operations.profile.operation_profile",
        DeprecationWarning,
        stacklevel=2,
    )
    return value
