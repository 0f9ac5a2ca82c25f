"""The old name of `artelier_offline`; use that."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    import warnings
    from importlib import import_module

    from artelier.plugins import MODELS, own_members

    homes = [one.value for one in own_members() if (one.group, one.name) == (MODELS, "offline")]
    value = getattr(import_module(homes[0].partition(":")[0]), name)
    warnings.warn("artelier.models.offline is now artelier_offline", DeprecationWarning, stacklevel=2)
    return value
