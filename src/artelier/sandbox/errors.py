"""The one error of the sandbox; its reason says what a caller can do about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from artelier.errors import ArtelierError
from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox.dialect_check import check_code

if TYPE_CHECKING:
    import pydantic_monty


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


# --------------------------------------------------------------------------- error map
# The interpreter's failures as `SandboxError`: a reason, a line and one bounded sentence.


MESSAGE_CHARS_MAX = 500

_OVER_BYTES = re.compile(r"memory limit exceeded: \d+ bytes > (\d+) bytes")
_UNSUPPORTED = re.compile(
    r"The monty syntax parser does not yet support |Wildcard imports |cannot reassign read-only "
    r"|class member .* shadows|external function .* cannot suspend"
)


def judge(
    error: pydantic_monty.MontyError, *, code: str, limits: SandboxLimits, file: str = ""
) -> SandboxError:
    """Return what an interpreter error means to the caller; never holds paths or traces of the host.

    Shapes: `file` is what the interpreter calls the code, so that lines of other texts are not told as its.
    """
    import pydantic_monty

    if isinstance(error, pydantic_monty.MontySyntaxError):
        return _with_advice("syntax", error.display("msg"), code=code, line=_line(error, code, file))
    if isinstance(error, pydantic_monty.MontyCrashedError):
        return _crash(error, limits=limits)
    if not isinstance(error, pydantic_monty.MontyRuntimeError):
        return SandboxError("the sandbox broke its own rules", reason="crashed")
    return _raised_error(error, code=code, limits=limits, line=_line(error, code, file))


def _crash(error: pydantic_monty.MontyCrashedError, *, limits: SandboxLimits) -> SandboxError:
    if error.timed_out:
        return timed_out(limits)
    return SandboxError(
        "the sandbox's worker process died",
        reason="crashed",
        hint="It has been replaced; nothing of the code's work is left.",
    )


def timed_out(limits: SandboxLimits, *, line: int | None = None) -> SandboxError:
    return SandboxError(
        f"the code ran longer than {limits.time_ms} ms and was stopped", reason="timeout", line=line
    )


def _raised_error(
    error: pydantic_monty.MontyRuntimeError, *, code: str, limits: SandboxLimits, line: int | None
) -> SandboxError:
    raised = error.exception()
    text = str(raised)
    if isinstance(raised, TimeoutError) and text.startswith(("feed time limit", "turn time limit")):
        return timed_out(limits, line=line)
    if isinstance(raised, MemoryError):
        return _exceeded_error(text, line=line, limits=limits)
    if isinstance(raised, NotImplementedError) and _UNSUPPORTED.match(text):
        plain = text.removeprefix("The monty syntax parser does not yet support ")
        return _with_advice("unsupported", f"not supported: {plain}", code=code, line=line)
    if isinstance(raised, ModuleNotFoundError):
        return _with_advice("unsupported", text, code=code, line=line)
    return SandboxError(_where(error.display("type-msg"), line), reason="error", line=line)


def _exceeded_error(text: str, *, line: int | None, limits: SandboxLimits) -> SandboxError:
    over = _OVER_BYTES.match(text)
    # Printed text is bounded by a limit of its own, whose error differs only in the number.
    if over and int(over[1]) == limits.output_bytes != limits.memory_bytes:
        return SandboxError(
            f"the code printed more than {limits.output_bytes} bytes", reason="output", line=line
        )
    return SandboxError(
        f"the code needed more than {limits.memory_bytes} bytes of memory and was stopped",
        reason="memory",
        line=line,
    )


def _with_advice(reason: Reason, text: str, *, code: str, line: int | None) -> SandboxError:
    """The checker explains better, and by line; its word is used if it found something."""
    problems = check_code(code)
    if reason == "syntax":
        problems = tuple(problem for problem in problems if "not Python" in problem.message)
    if not problems:
        return SandboxError(_where(text, line), reason=reason, line=line)
    shown = "; ".join(str(problem) for problem in problems[:3])[:MESSAGE_CHARS_MAX]
    return SandboxError(shown, reason=reason, line=problems[0].line)


def _where(text: str, line: int | None) -> str:
    cut = text if len(text) <= MESSAGE_CHARS_MAX else text[:MESSAGE_CHARS_MAX] + "..."
    return cut if line is None else f"line {line}: {cut}"


def _line(
    error: pydantic_monty.MontyRuntimeError | pydantic_monty.MontySyntaxError, code: str, file: str
) -> int | None:
    """The innermost line of the code itself, not of what was put around it."""
    frames = error.traceback()
    lines = len(code.splitlines()) + 1
    for frame in reversed(frames):
        around = frame.filename.startswith("<python-input-") and frame.filename != file
        if not (file and around) and (frame.filename != file or frame.line <= lines):
            return frame.line
    return None
