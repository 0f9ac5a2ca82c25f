"""Code that a model writes, run in the sandbox: `python`."""

from __future__ import annotations

from typing import Any

from artelier.clock import Clock, SystemClock
from artelier.ports.sandbox import Sandbox, SandboxLimits
from artelier.sandbox import MontySandbox
from artelier.tools.function import Tool, tool

LIMITS = SandboxLimits(time_ms=5_000, memory_bytes=128 * 1024 * 1024)


def python_tool(sandbox: Sandbox, *, clock: Clock | None = None) -> Tool[..., Any]:
    """Errors of the tool: `SandboxError` with a reason and a line."""
    machine = clock or SystemClock()

    @tool(side_effect=False, timeout_s=30)
    async def python(code: str) -> dict[str, Any]:
        """Run Python in an isolated interpreter: no files, no network, no packages, no class inheritance.
        Returns the value of the last expression (JSON data) and what was printed."""
        if isinstance(sandbox, MontySandbox):
            result = await sandbox.run(code, limits=LIMITS, at_us=machine.now_us())
        else:
            result = await sandbox.run(code, limits=LIMITS)
        return {"value": result.value, "printed": result.printed}

    return python
