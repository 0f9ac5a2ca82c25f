"""The classification of failures, their recording, and their re-raising on replay."""

from __future__ import annotations

import asyncio
from typing import NoReturn, cast

import msgspec

from artelier import errors
from artelier.errors import ArtelierError
from artelier.kernel.run.context import RunCore


def family_of(error: BaseException) -> str:
    """`transient`, `timeout`, `policy`, `budget`, `cancelled` or `permanent`."""
    if isinstance(error, errors.ModelTimeout | TimeoutError):
        return "timeout"
    if isinstance(error, errors.TransientError):
        return "transient"
    if isinstance(error, errors.Refused):
        return "policy"
    if isinstance(error, errors.Exhausted):
        return "budget"
    if isinstance(error, asyncio.CancelledError | errors.RunStopped):
        return "cancelled"
    return "permanent"


BREAKING_OFF = (
    errors.Flow,
    errors.LeaseLost,
    errors.ReplayMismatch,
    errors.RunEnded,
    errors.StoreUnavailable,
)
"""Errors that break a drive off and say nothing about the work that they came through."""


def unwrap(error: BaseException | None) -> BaseException | None:
    """Return what broke the drive off where a `TaskGroup` has wrapped it; else the error itself."""
    left: list[BaseException] = [] if error is None else [error]
    while left:
        one = left.pop(0)
        if isinstance(one, BREAKING_OFF):
            return one
        if isinstance(one, BaseExceptionGroup):
            left.extend(cast(BaseExceptionGroup[BaseException], one).exceptions)
    return error


def is_own(error: asyncio.CancelledError) -> bool:
    """Return whether a `CancelledError` was raised though nobody has cancelled the current task."""
    task = asyncio.current_task()
    return task is None or not task.cancelling()


def own_cancellation(error: BaseException | None, *, cancelling: int = 0) -> BaseException | None:
    """Return the failure of code that raises `CancelledError` though nobody has cancelled its task.

    Any other error is returned as it is. `cancelling`: of the task before the code began.
    """
    task = asyncio.current_task()
    if not isinstance(error, asyncio.CancelledError) or task is None:
        return error
    if task.cancelling() > cancelling:
        return error
    failure = RuntimeError(
        "the run's code raised CancelledError, and nobody cancelled the run: it awaits a task or a"
        " future that was cancelled. Catch CancelledError there."
    )
    failure.__cause__ = error
    return failure


def is_end(error: BaseException) -> bool:
    """Return True if an error of the run's code ends the run, and not only this drive of it."""
    passing = isinstance(error, errors.Flow | errors.LeaseLost | errors.StoreUnavailable)
    return isinstance(error, Exception) and not passing


def verdict_on(core: RunCore, error: BaseException | None) -> BaseException | None:
    """Return what a drive ends with, whatever its code has made of that; None if the code came to its end."""
    said = unwrap(error)
    if core.delivery.is_ordered:
        said = own_cancellation(said, cancelling=core.delivery.base)
    if core.cancelled_reason is not None or not (said is None or is_end(said)):
        return said
    if core.suspended is None and (unsettled := core.delivery.effects.unsettled):
        core.suspend("unknown_outcome", unsettled[0])
    return core.suspended or said


def words(error: BaseException) -> str:
    """The text of an error as it can be stored: bounded, and valid UTF-8 (file names may not be)."""
    return str(error)[:4000].encode("utf-8", "replace").decode()


def code_of(error: BaseException) -> str:
    if isinstance(error, RecordedError):
        return str(error.facts.get("name") or error.code)
    return error.code if isinstance(error, ArtelierError) else type(error).__name__


_BUILT_IN: dict[str, type[Exception]] = {
    cls.__name__: cls
    for cls in (
        ArithmeticError,
        AssertionError,
        AttributeError,
        BufferError,
        ConnectionError,
        EOFError,
        FileExistsError,
        FileNotFoundError,
        ImportError,
        IndexError,
        KeyError,
        LookupError,
        MemoryError,
        NameError,
        NotImplementedError,
        OSError,
        OverflowError,
        PermissionError,
        RecursionError,
        RuntimeError,
        TimeoutError,
        TypeError,
        UnicodeError,
        ValueError,
        ZeroDivisionError,
    )
}
"""Exceptions of Python that can be raised again from a name in the log: a closed list."""


def repeatable(error: Exception) -> Exception:
    """The error as a replay can raise it too, so that the same `except` catches it both times.

    Ours is itself; another becomes its nearest ancestor among Python's own, or a `RecordedError`.
    """
    if isinstance(error, ArtelierError):
        return error
    for cls in type(error).__mro__:
        if _BUILT_IN.get(cls.__name__) is cls:
            return cls(words(error))
    return RecordedError(words(error), name=type(error).__name__)


def _by_code() -> dict[str, type[ArtelierError]]:
    found: dict[str, type[ArtelierError]] = {}
    pending: list[type[ArtelierError]] = [ArtelierError]
    while pending:
        cls = pending.pop()
        found.setdefault(cls.code, cls)
        pending.extend(cls.__subclasses__())
    return found


class RecordedError(ArtelierError):
    """A recorded failure whose class is not ours: its name is in `facts["name"]`."""

    code = "recorded_error"


async def raise_recorded(core: RunCore, code: str, message: str | None) -> NoReturn:
    """Raise a recorded failure again, as the class that its code names."""
    text = code if message is None else msgspec.json.decode(await core.load(message), type=str)
    if (built_in := _BUILT_IN.get(code)) is not None:
        raise built_in(text)
    cls = _by_code().get(code)
    if cls is None:
        raise RecordedError(text, name=code)
    raise cls(text)
