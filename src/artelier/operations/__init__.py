"""Operations around a main model call: profiles, kinds, templates. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

if TYPE_CHECKING:
    from artelier.operations.profile.operation_profile import OperationProfile

__all__ = ["OperationProfile"]

_HOMES = {"OperationProfile": "profile.operation_profile"}

_MOVED: dict[str, str] = dict.fromkeys(
    ("RunEvent", "Session", "Turn", "TurnResult", "Variant"), "artelier.chat"
)
"""Names that were here; they load with a warning that names their package."""

__getattr__ = load_on_use(__name__, _HOMES, moved=_MOVED)
