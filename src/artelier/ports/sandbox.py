"""The interface that runs untrusted code: a fresh, isolated interpreter per call, with hard limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    time_ms: int = 1_000
    memory_bytes: int = 64 * 1024 * 1024
    output_bytes: int = 256 * 1024
    depth: int = 200


class SandboxResult(msgspec.Struct, frozen=True, kw_only=True):
    value: Any = None
    """JSON data only."""
    printed: str = ""


class Sandbox(Protocol):
    """Errors of `run`: `artelier.sandbox.SandboxError` with a `reason` of `syntax`, `unsupported`, `error`,
    `timeout`, `memory`, `output` or `crashed`; its message never holds host paths or stack traces."""

    async def run(
        self,
        code: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        limits: SandboxLimits | None = None,
    ) -> SandboxResult: ...

    async def close(self) -> None: ...
