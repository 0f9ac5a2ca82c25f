"""The helper process that takes the steps of transforms, and matches patterns that need `regex`.

Patterns and paths of users run here, where they can be killed. It is fed only by `transform.py`.
"""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import msgspec

from artelier.child import HelperFailure, HelperValue
from artelier.child_loop import MIB, serve
from artelier.operations.transforms.steps import Extract, Step, TransformFailure, matches, run

MEMORY_BYTES_MAX = 1024 * MIB
"""Address space, for a value of some MiB and what the steps make of it."""


class TimeUp(BaseException):
    """The processor time is used up. No library catches it."""


def _time_up(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeUp


def main() -> None:
    signal.signal(signal.SIGPROF, _time_up)
    serve(_answer, memory_bytes_max=MEMORY_BYTES_MAX)


def _answer(message: dict[str, Any]) -> tuple[bytes, bool]:
    """The answer, and whether the process may go on."""
    if (asked := message.get("match")) is not None:
        if asked["dialect"] == "regex":
            importlib.import_module("regex")  # which is not the user's time
        return _run_timed(message["time_s"], lambda: msgspec.json.encode(HelperValue(value=matches(asked))))
    steps = msgspec.convert(message["steps"], tuple[Step, ...])
    if any(isinstance(step, Extract) and step.path is not None for step in steps):
        # Its import takes a while, which is not the user's time.
        importlib.import_module("jsonpath_rfc9535")
    return _run_timed(
        message["time_s"], lambda: _encode(run(steps, message["value"]), bytes_max=message["bytes_max"])
    )


def _run_timed(time_s: float, work: Callable[[], bytes]) -> tuple[bytes, bool]:
    try:
        try:
            signal.setitimer(signal.ITIMER_PROF, time_s)
            answer = work()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except TransformFailure as failure:
        return _encode_failure(failure.code, str(failure), failure.step), True
    except TimeUp:
        return _encode_failure("timeout", "it took too long", None), False
    except (MemoryError, OverflowError):
        return _encode_failure("too_large", "it needs too much memory", None), False
    except RecursionError:
        return _encode_failure("error", "the value is nested too deeply", None), True
    return answer, True


def _encode(value: object, *, bytes_max: int) -> bytes:
    encoded = msgspec.json.encode(HelperValue(value=value))
    if len(encoded) - len(b'{"value":}') > bytes_max:
        raise TransformFailure("too_large", "the result is too large")
    return encoded


def _encode_failure(code: str, message: str, step: int | None) -> bytes:
    return msgspec.json.encode(HelperFailure(failed=code, message=message, step=step))


if __name__ == "__main__":
    main()
