"""The arguments of a tool step, and what makes it the undoing of another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from artelier.ports.tool import ToolPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The facts that make a tool step the undoing of another one."""

    step: str
    port: ToolPort | None
    """Undoes it when it is called; None if the tool cannot be undone here any more."""
    run_id: str = ""
    """The run that has the step, if it is another one."""
    gone: tuple[str, ...] = ()
    """Placeholders of what the call was given or gave, whose values were erased since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAsk:
    """The arguments of a tool step."""

    name: str
    arguments: Any
    call_id: str = ""
    undo: Undo | None = None
