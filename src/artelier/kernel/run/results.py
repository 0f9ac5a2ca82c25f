"""The results of steps and runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, cast

from artelier.errors import ToolFailed
from artelier.kernel.run.status import RunStatus
from artelier.ports.model import ModelReply, ToolCall, Usage

RESUMABLE = frozenset(one.value for one in RunStatus if not one.is_final)
FINAL = frozenset(one.value for one in RunStatus if one.is_final)
DRIFTED = "drifted"
"""Reason of a cancelled run that goes on as a fork of itself; the fork answers for what it has done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """The outcome of a model step."""

    output: Any = None
    """The structured output, validated, if a schema was asked for."""
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost_microusd: int = 0
    replayed: bool = False
    """True if it was recorded earlier and nothing was called."""
    manifest_id: str = ""
    """`<run>:<step key>`, as `artelier manifest show` takes it."""
    finish_reason: str = "stop"
    key: str = ""
    reply: ModelReply | None = None
    max_output_tokens: int = 0
    """How much the model was allowed to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The outcome of a tool step. An error is a value too: `{"error": {code, message, ...}}`."""

    value: Any = None
    ref: str | None = None
    """The artifact that holds a large result."""
    is_error: bool = False
    replayed: bool = False
    key: str = ""
    call_id: str = ""
    content: bytes = b"null"
    """Canonical JSON of the value."""
    shown: bytes | None = None
    """What a model is shown instead of a large value: preview, size and ref, as JSON."""
    settled_by: str = ""
    """Who told the outcome of a call that was cut off, `probe` or `person`; empty of any other."""

    def unwrap(self) -> Any:
        """Return the value of a call that succeeded.

        Errors: `ToolFailed` with the message of the recorded error; `facts["code"]` is the error's own code.
        """
        if not self.is_error:
            return self.value
        value: Any = self.value
        told: Any = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
        wire = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
        raise ToolFailed(
            f"tool step {self.key} failed: {wire.get('message') or value}",
            expected=wire.get("expected"),
            got=wire.get("got"),
            hint=wire.get("hint"),
            code=wire.get("code", ToolFailed.code),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationResult:
    """The steps of a run that were undone. Steps of children are named `<run>:<key>`."""

    run_id: str
    undone: tuple[str, ...] = ()
    """In that order, those that an earlier attempt has undone left out."""
    not_undone: tuple[str, ...] = ()
    """Side effects that stay: their tool has no `compensate`, or is not here, or the outcome is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's answer; falsy if denied or expired."""

    decision: Literal["approve", "deny", "edit", "expired"]
    arguments: Any = None
    """The edited arguments, with `edit`."""
    by: str = ""
    at: int = 0
    """Microseconds since the epoch."""
    note: str = ""

    def __bool__(self) -> bool:
        return self.decision in ("approve", "edit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Caps of one run, its children included. None: no cap of its own.

    Said again of a run that exists, they must be those it was opened with, or those that hold; then the
    stored ones hold, also where an operator has raised them. Others are a `Conflict`.
    """

    usd: str | None = None
    """Dollars, such as `"0.50"`."""
    tokens: int | None = None
    steps: int | None = None
    wall_s: float | None = None
    """Seconds of wall time since its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """The result of a built-in loop."""

    status: str
    reason: str = ""
    output: Any = None
    text: str = ""
    run_id: str = ""
    usage: Usage = field(default_factory=Usage)
    """Of the run with all its children, and so is the cost."""
    cost_microusd: int = 0
    artifact: str = ""
    """Ref of the artifact that the result was written to, if any."""
