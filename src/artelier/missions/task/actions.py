"""The execution of a decision: a thought, a call of a tool, a claim. Writing is in `artifact_writer.py`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

from artelier.context import fence
from artelier.errors import ArtelierError
from artelier.kernel import Run, ToolResult
from artelier.kernel.prompt.manifest import encode_json
from artelier.missions.definition import Decision
from artelier.missions.shipped_texts import template
from artelier.missions.task.delegation import DELEGATE
from artelier.missions.task.loop_state import TaskOutput, ToolSourceResult

CODE_CHARS_MAX = 64
READ = "read_artifact"
MADE_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """The outcome of a decision."""

    said: tuple[str, ...]
    """Of the message that shows it."""
    led_to: str
    """Digest of it: equal for what brings nothing new."""
    step: str = ""
    is_error: bool = False
    code: str = ""
    source: ToolSourceResult | None = None
    output: TaskOutput | None = None


def digest(*parts: str | bytes) -> str:
    found = sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode("utf-8", "replace")
        found.update(f"{len(content)}:".encode() + content)
    return found.hexdigest()[:32]


def equal_mark(decision: Decision) -> str:
    """Two decisions are equal if action, tool, input and target are; the reason may differ."""
    input_ = encode_json(decision.input) if decision.input is not None else b""
    return digest(decision.action, decision.tool or "", input_, decision.target or "")


def analysis_outcome() -> Acted:
    return Acted(said=(template("analyzed-1"),), led_to=digest("analyzed"))


def claim_outcome() -> Acted:
    return Acted(said=(template("claimed-1"),), led_to=digest("claimed"))


def lacks(decision: Decision, outputs: Collection[object]) -> bool:
    """Return True if a claim without any output names what is missing: such a claim can mean nothing else."""
    named = (decision.target or "").strip()
    return decision.action == "complete_task" and bool(named) and not outputs


async def used(run: Run, decision: Decision, *, key: str, trust: str) -> Acted:
    """Call the tool of a decision, if it is one that is on; what it says is data.

    Errors: Flow; whatever is wrong with the call is a result that the model reads.
    """
    name = decision.tool or ""
    result = await run.step_tool(name, decision.input or {}, key=key)
    shown = (result.shown or result.content).decode("utf-8", "replace")
    told = template("tool-failed-1" if result.is_error else "tool-said-1")
    source = None
    made = () if result.is_error else _outputs_of(name, result.value)
    if not result.is_error:
        given, _ = run.core.keep_json(decision.input or {})  # stored with the call
        content = run.core.keep(result.content)[0]
        source = ToolSourceResult(name[:200], result.key, content, given, made)
    # A call that was cut off before it did anything says nothing of the decision, which may be made again.
    torn = result.key if result.is_error and result.settled_by else ""
    return Acted(
        said=(told, fence(shown, source=name, trust=trust)),
        led_to=digest(name, result.content, *([torn] if torn else [])),
        step=result.key,
        is_error=result.is_error,
        code=_code(result) if result.is_error else "",
        source=source,
    )


def reads_own(decision: Decision, own: Collection[str]) -> bool:
    """Return True if a call reads on in what the task itself has made."""
    return read_id(decision) in own


def read_id(decision: Decision) -> str:
    """Id of the artifact that a call reads on in; empty for any other call."""
    if decision.tool != READ or not decision.input:
        return ""
    return str(decision.input.get("ref", "")).partition("@")[0].partition("#")[0]


def _outputs_of(name: str, value: Any) -> tuple[str, ...]:
    """Whatever a tool calls itself, these are read with the agent's own rights."""
    if name != DELEGATE or not isinstance(value, dict):
        return ()
    outputs: Any = cast("dict[str, Any]", value).get("outputs")
    listed = cast("list[Any]", outputs) if isinstance(outputs, list) else []
    return tuple(ref for ref in listed[:MADE_MAX] if isinstance(ref, str) and len(ref) <= 256)


def _code(result: ToolResult) -> str:
    value: Any = result.value
    error: Any = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    code: Any = cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None
    return str(code or "error")[:CODE_CHARS_MAX]


def refusal_outcome(error: ArtelierError) -> Acted:
    """A decision that could not be carried out, in words for the model."""
    return Acted(
        said=(template("not-written-1"), fence(str(error), source="task")),
        is_error=True,
        led_to=digest(error.code, str(error)),
        code=error.code,
    )
