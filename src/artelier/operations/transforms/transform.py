"""Transforms: declared changes of one value, a text or JSON, by steps that a user wrote.

Patterns and paths of users may never end, and patches may grow without end. They run in a helper
process with a limit of processor time and memory, which is killed if it does not answer. Nothing
of a step is ever code.

Where to read next: `forms.py` (what a step may say), `operations/transforms/steps.py` (what it
does).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.errors import External, ToolFailed
from artelier.operations.transforms.steps import (
    Case,
    Extract,
    JsonPatch,
    Regex,
    Step,
    TransformFailure,
    Trim,
    run,
)

if TYPE_CHECKING:
    from artelier.child import ChildPool, HelperValue, Question
    from artelier.tools.function import DaemonThreads

__all__ = [
    "Case",
    "Extract",
    "JsonPatch",
    "Regex",
    "Step",
    "TransformFailed",
    "TransformNoMatch",
    "TransformTimeout",
    "TransformTooLarge",
    "Trim",
    "apply",
    "parse_steps",
]

TIME_S = 1.0
"""Of the processor, for all steps together."""
INPUT_BYTES_MAX = 4 * 1024 * 1024
OUTPUT_BYTES_MAX = 1024 * 1024
DIRECT_BYTES_MAX = 64 * 1024
"""Up to here `case` and `trim` run in this process; they are linear."""
DIRECT_CHARS_MAX = DIRECT_BYTES_MAX // 6
"""A text of so many characters is within `DIRECT_BYTES_MAX`, however it is escaped."""
AT_ONCE_MAX = 8
"""Transforms that run at once; more wait for one of these, each of which has its time limit."""


class TransformFailed(External):
    """A step could not be done. Fact `step`: which one from 0, None if it is about the whole."""

    code = "transform_error"


class TransformNoMatch(TransformFailed):
    """An `extract` found nothing."""

    code = "transform_no_match"


class TransformTimeout(TransformFailed):
    code = "transform_timeout"


class TransformTooLarge(TransformFailed):
    """The value, the result, or what is needed in between is over a bound."""

    code = "transform_too_large"


_FAILURES = {"no_match": TransformNoMatch, "timeout": TransformTimeout, "too_large": TransformTooLarge}


def parse_steps(raw: object) -> tuple[Step, ...]:
    """The steps of a list of objects `{"op": ..., ...}`.

    Errors: `InvalidRequest` that lists all problems; fact `problems`, a list of `{path, message}`.
    """
    from artelier.operations.transforms.forms import read

    return read(raw)


async def apply(steps: Sequence[Step], value: object, *, time_s: float = TIME_S) -> Any:
    """The value after all steps; the one that was given is not changed.

    Shapes: `value` is JSON data of at most 4 MiB (NaN counts as null), the result of at most 1 MiB.
    Errors: `TransformNoMatch`, `TransformTimeout`, `TransformTooLarge`, else `TransformFailed`.
    """
    steps = tuple(steps)
    if isinstance(value, str) and len(value) <= DIRECT_CHARS_MAX and _are_linear(steps):
        return _direct(steps, _data(value)[0])
    from artelier.child import Question

    asking = Question(_pool())
    try:
        return await _threads().run(partial(_apply, asking, steps, value, time_s=time_s))
    except asyncio.CancelledError:
        asking.stop()  # else its thread and its process would go on for nobody
        raise


def _apply(asking: Question[HelperValue], steps: Sequence[Step], value: object, *, time_s: float) -> object:
    """Apply steps to a value. Call it in a thread: encoding a large value takes a while as well."""
    from artelier.child import ChildStopped, HelperFailure

    data, size_bytes = _data(value)
    if size_bytes <= DIRECT_BYTES_MAX and _are_linear(steps):
        return _direct(steps, data)
    message = {"steps": msgspec.to_builtins(steps), "value": data, "bytes_max": OUTPUT_BYTES_MAX}
    try:
        answer = asking.ask(message, time_s=time_s)
    except (ToolFailed, ChildStopped) as error:
        raise TransformFailed(f"the helper process does not start: {error}") from None
    if isinstance(answer, HelperFailure):
        raise _error(answer.failed, answer.message, answer.step, time_s=time_s)
    return answer.value


def _are_linear(steps: Sequence[Step]) -> bool:
    return all(isinstance(step, Case | Trim) for step in steps)


def _data(value: object) -> tuple[Any, int]:
    """The value as JSON data of its own, and its size in bytes."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TransformFailed(
            "the value is no JSON data", got=str(error)[:200] or type(error).__name__
        ) from None
    if len(encoded) > INPUT_BYTES_MAX:
        raise TransformTooLarge(
            "the value is too large", expected=f"at most {INPUT_BYTES_MAX} bytes", got=len(encoded)
        )
    try:
        return msgspec.json.decode(encoded), len(encoded)
    except (ValueError, RecursionError):
        raise TransformFailed("the value is nested too deeply") from None


def _direct(steps: Sequence[Step], data: object) -> object:

    try:
        return run(steps, data)
    except TransformFailure as failure:
        raise _error(failure.code, str(failure), failure.step) from None


def _error(code: str, message: str, step: int | None, *, time_s: float = TIME_S) -> TransformFailed:
    kind = _FAILURES.get(code, TransformFailed)
    expected, hint = None, None
    if kind is TransformTimeout:
        expected = f"at most {time_s:g} s"
        hint = "Avoid nested repetition such as (a+)+, and `..` more than once in a path."
    elif kind is TransformTooLarge:
        expected = f"a result of at most {OUTPUT_BYTES_MAX} bytes"
    where = "" if step is None else f" at step {step}"
    return kind(f"the transform failed{where}: {message}", expected=expected, hint=hint, step=step)


# --------------------------------------------------------------------------- helper processes


@cache
def _threads() -> DaemonThreads:
    """Threads of their own: a transform that is slow holds up no other work, and not the program's end."""
    from artelier.tools.function import DaemonThreads

    return DaemonThreads(size_max=AT_ONCE_MAX)


@cache
def _pool() -> ChildPool[HelperValue]:
    from artelier.child import START_S, ChildPool, HelperValue
    from artelier.confinement import Needs

    nothing: dict[str, Any] = {"steps": [], "value": None, "time_s": START_S, "bytes_max": OUTPUT_BYTES_MAX}
    return ChildPool(
        "artelier.operations.transforms.worker",
        first=nothing,
        answer=HelperValue,
        needs=Needs(preload=("jsonpath_rfc9535",)),
    )
