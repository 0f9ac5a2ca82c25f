"""The kinds of operations: template, llm, guard, rag, tool, compute, transform, and those of plugins."""

from __future__ import annotations

import importlib
from typing import Any, cast

from artelier.errors import InvalidConfig
from artelier.operations.kinds.contract import (
    OperationCall,
    OperationFailed,
    OperationKind,
    OperationResult,
    OperationScope,
    Problem,
)
from artelier.plugins import OPERATION_KINDS, PluginPoint, Plugins, active

__all__ = [
    "KINDS",
    "KIND_POINT",
    "OperationCall",
    "OperationFailed",
    "OperationKind",
    "OperationResult",
    "OperationScope",
    "Problem",
    "kind_named",
    "kind_names",
]

KINDS = ("template", "llm", "guard", "rag", "tool", "compute", "transform")
"""Those of Artelier itself."""


def kind_names() -> tuple[str, ...]:
    """Return the kinds that a profile may name in this process."""
    return (*KINDS, *active().names(KIND_POINT))


def kind_named(name: str, *, plugins: Plugins | None = None) -> OperationKind[Any]:
    """Return the kind of that name: a module here, or what one of `plugins` offers (those of the process).

    Errors: `KeyError`; `PluginBroken`.
    """
    if name in KINDS:
        return importlib.import_module(f"artelier.operations.kinds.{name}").KIND
    return (plugins or active()).load(KIND_POINT, name)


def _accepted(name: str, loaded: object) -> OperationKind[Any]:
    if not isinstance(loaded, OperationKind):
        raise InvalidConfig(
            f"{name!r} is no kind of operation",
            expected="a Kind of artelier.operations.kinds",
            got=repr(loaded)[:80],
        )
    if loaded.name != name:
        raise InvalidConfig("the kind has another name", expected=name, got=repr(loaded.name)[:80])
    return cast("OperationKind[Any]", loaded)


KIND_POINT = PluginPoint(OPERATION_KINDS, _accepted, taken=lambda: KINDS)
"""A kind of operation under its name."""
