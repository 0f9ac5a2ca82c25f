"""Operations around a main model call: profiles, kinds, templates. Names load on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artelier.operations.profile.operation_profile import OperationProfile

__all__ = ["OperationProfile"]

_HOME = {"OperationProfile": "artelier.operations.profile.operation_profile"}

_MOVED: dict[str, str] = dict.fromkeys(
    ("RunEvent", "Session", "Turn", "TurnResult", "Variant"), "artelier.chat"
)
"""Names that were here; they load with a warning that names their package."""


def __getattr__(name: str) -> object:
    home = _HOME.get(name) or _MOVED.get(name)
    if home is None:
        raise AttributeError(f"module 'artelier.operations' has no attribute {name!r}")
    if name in _MOVED:
        import warnings

        warnings.warn(f"artelier.operations.{name} is now {home}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(home), name)
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
