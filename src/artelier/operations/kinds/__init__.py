"""The kinds of operations: template, llm, guard, rag, tool, compute, transform. The set is closed."""

from __future__ import annotations

import importlib
from typing import Any

from artelier.operations.kinds.contract import Call, Found, Kind, OperationFailed, Problem, Scope

__all__ = ["KINDS", "Call", "Found", "Kind", "OperationFailed", "Problem", "Scope", "kind_named"]

KINDS = ("template", "llm", "guard", "rag", "tool", "compute", "transform")


def kind_named(name: str) -> Kind[Any]:
    """The kind of that name; each lives in a module of its name. Errors: `KeyError`."""
    if name not in KINDS:
        raise KeyError(name)
    return importlib.import_module(f"artelier.operations.kinds.{name}").KIND
