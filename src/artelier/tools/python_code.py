"""Code that a model writes, run in the sandbox: `python`."""

from __future__ import annotations

from functools import cache
from typing import Any

from artelier.clock import Clock, SystemClock
from artelier.ports.sandbox import Sandbox, SandboxLimits
from artelier.sandbox import MontySandbox
from artelier.tools.function import Tool, tool

LIMITS = SandboxLimits(time_ms=5_000, memory_bytes=128 * 1024 * 1024)


@cache
def _shared_sandbox() -> Sandbox:
    """One pool for all tools that bring none, so that many runs do not start many workers."""
    return MontySandbox()


def python_tool(sandbox: Sandbox | None = None, *, clock: Clock | None = None) -> Tool[..., Any]:
    """Shapes: without `sandbox` a pool of this process is used, started with the first call.

    Errors of the tool: `SandboxError` with a reason and a line.
    """
    machine = clock or SystemClock()
    pool = sandbox or _shared_sandbox()

    @tool(side_effect=False, timeout_s=30)
    async def python(code: str) -> dict[str, Any]:
        """Run Python in an isolated interpreter: no files, no network, no packages, no class inheritance.
        Returns the value of the last expression (JSON data) and what was printed."""
        if isinstance(pool, MontySandbox):
            result = await pool.run(code, limits=LIMITS, at_us=machine.now_us())
        else:
            result = await pool.run(code, limits=LIMITS)
        return {"value": result.value, "printed": result.printed}

    return python
