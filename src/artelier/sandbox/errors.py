"""The one error of the sandbox; its reason says what a caller can do about it."""

from __future__ import annotations

from typing import Literal

from artelier.errors import ArtelierError

Reason = Literal["syntax", "unsupported", "error", "timeout", "memory", "output", "crashed"]


class SandboxError(ArtelierError):
    """Untrusted code gave no result; nothing that it did is left behind.

    `reason`: `syntax` (not Python), `unsupported` (Python that the sandbox does not speak), `error`
    (it raised), `timeout`, `memory`, `output` (too much, or not JSON data), `crashed` (the sandbox
    itself is broken or missing). `line` counts from 1, None if unknown.
    """

    code = "sandbox_error"
    audience = "agent"

    def __init__(
        self,
        message: str,
        *,
        reason: Reason,
        line: int | None = None,
        expected: object = None,
        got: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, expected=expected, got=got, hint=hint, reason=reason, line=line)
        self.reason: Reason = reason
        self.line = line
