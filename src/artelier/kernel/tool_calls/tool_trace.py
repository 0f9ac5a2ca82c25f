"""Tool calls as a watcher sees them (`ports/telemetry.py`). Nothing here runs unless there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any, cast

from artelier.errors import RunStopped, RunSuspended
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.results import ToolResult
from artelier.kernel.steps.failures import code_of
from artelier.kernel.tool_calls.tool_request import ToolAsk
from artelier.ports.telemetry import Telemetry, ToolFacts, ToolSpan

_current: ContextVar[ToolSpan | None] = ContextVar("tool_span", default=None)
"""The call that the current task is in."""


async def trace_call(
    telemetry: Telemetry, core: RunCore, ask: ToolAsk, key: str, work: Awaitable[ToolResult]
) -> ToolResult:
    """A dispatched call's result, its span ended as the call did. Content is what was stored, no more."""
    facts = _facts(core, ask, key, ask.name)
    span = telemetry.tool_call(core, facts)
    token = _current.set(span)
    try:
        with span:
            result = await work
    except RunSuspended as flow:
        if flow.status == "unknown_outcome":
            span.failed(flow.status)
        else:
            span.left(flow.status)
        raise
    except (asyncio.CancelledError, RunStopped):
        span.failed("cancelled")
        raise
    except BaseException as error:
        span.failed(code_of(error))
        raise
    finally:
        _current.reset(token)
    span.completed(result.content, code=error_code(result.value) if result.is_error else "")
    return result


def trace_replay(telemetry: Telemetry, core: RunCore, result: ToolResult) -> ToolResult:
    """The recorded result that it is given; nothing was called."""
    code = error_code(result.value) if result.is_error else ""
    telemetry.step_replayed(core, operation="execute_tool", key=result.key, code=code)
    return result


def trace_refusal(telemetry: Telemetry, core: RunCore, ask: ToolAsk, key: str, code: str) -> None:
    """A call that was not dispatched."""
    name = ask.name if ask.name in core.tools else ""
    telemetry.tool_call(core, _facts(core, ask, key, name)).failed(code)


def _facts(core: RunCore, ask: ToolAsk, key: str, name: str) -> ToolFacts:
    """Return what is told of a call: of its arguments no more than is stored."""
    arguments = ask.arguments if core.pii is None else core.pii.scrub_json(ask.arguments)
    return ToolFacts(key=key, name=name, call_id=ask.call_id, arguments=arguments)


def trace_retry(attempt: int, error: BaseException, wait_s: float) -> None:
    """An attempt inside the current call failed in passing."""
    if (span := _current.get()) is not None:
        span.retried(attempt=attempt, code=code_of(error), wait_s=wait_s)


def trace_interruption() -> None:
    """The current call is cancelled; if it is made again, that is a call of its own."""
    if (span := _current.get()) is not None:
        span.failed("cancelled")


def trace_loss() -> None:
    """The current call did not happen; if it is made again, that is a call of its own."""
    if (span := _current.get()) is not None:
        span.failed("not_happened")


def error_code(value: Any) -> str:
    """The code in the value of a tool's error, as `ArtelierError.to_wire` has put it there."""
    found: object = cast(Any, value).get("error") if isinstance(value, dict) else None
    code: object = cast(Any, found).get("code") if isinstance(found, dict) else None
    return code if isinstance(code, str) else "tool_failed"
