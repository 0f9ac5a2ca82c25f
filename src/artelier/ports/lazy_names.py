"""Names of packages that load on first use, and names that have moved: a package's `__getattr__`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType


def load_on_use(
    package: str, homes: Mapping[str, str], *, moved: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], object]:
    """Return what finds each name in its home, a module below the package.

    `moved`: names that were in the package, and the package that has them now; they load with a warning.
    """

    def load(name: str) -> object:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if name in moved:
            home = moved[name]
            warnings.warn(f"{package}.{name} is now {home}.{name}", DeprecationWarning, stacklevel=2)
            return getattr(import_module(home), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def load_moved(old: str, new: str) -> Callable[[str], object]:
    """Return what finds the names of a module that has a new name, and warns."""

    def load(name: str) -> object:
        value = getattr(import_module(new), name)
        warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=2)
        return value

    return load
