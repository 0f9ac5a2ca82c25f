"""The old name of `artelier.operations.profile.operation_profile`; use that."""

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_moved

if TYPE_CHECKING:
    from artelier.operations.profile.operation_profile import *  # noqa: F403

__getattr__ = load_moved(__name__, "artelier.operations.profile.operation_profile")
