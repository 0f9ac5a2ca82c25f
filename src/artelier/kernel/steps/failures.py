"""The classification of failures, their recording, and their re-raising on replay."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NoReturn, cast

import msgspec

from artelier import errors
from artelier.errors import (
    ArtelierError,
    ContextTooLong,
    InvalidRequest,
    MediaNotTaken,
    ModelRefusedCall,
    TransientError,
)
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.status import ModelResult
from artelier.tokens.model_info import canonical_name


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
    try:
        text = str(error)
    except Exception:  # of a class of somebody else's, which cannot say it
        text = type(error).__name__
    return text[:4000].encode("utf-8", "replace").decode()


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


# Fallback: a model that cannot answer is followed by the next one of a list, each as a step of its own.

MODELS_MAX = 8
"""Of one list: each costs its attempts before the next is asked."""

FAILURES = (TransientError, ModelRefusedCall)
"""After these another model may answer. A prompt that is too long is its caller's to shorten."""


def check_models(model: str | None, models: Sequence[str]) -> tuple[str, ...]:
    """Return the models to ask, in order. Errors: `InvalidRequest` for none, twice the same, or too many."""
    if isinstance(models, str) or not all(isinstance(cast(object, one), str) for one in models):
        raise InvalidRequest("models is a list of names", expected="models=['a', 'b']", got=repr(models)[:80])
    if (model is None) == (not models):
        raise InvalidRequest(
            "a step needs one model, or a list of them",
            expected="model='a' or models=['a', 'b']",
            got="both" if models else "neither",
        )
    found = tuple(models) or (cast(str, model),)
    names = [canonical_name(one) for one in found]
    if len(set(names)) < len(names) or len(names) > MODELS_MAX:
        raise InvalidRequest(
            "models to fall back on", expected=f"at most {MODELS_MAX}, each once", got=", ".join(names)[:200]
        )
    return found


def with_fallbacks(first: str, others: Iterable[str]) -> tuple[str, ...]:
    """Return the models to ask, in order; the first may be among those that follow, and is asked once."""
    return (first, *(one for one in others if canonical_name(one) != canonical_name(first)))


async def ask_in_turn(
    models: Sequence[str],
    key: str | None,
    ask: Callable[[str, str | None], Awaitable[ModelResult]],
    *,
    has_begun: Callable[[], object] = lambda: False,
) -> ModelResult:
    """Ask one model after the other until one answers; `ask` takes a model and the key of its step.

    `has_begun`: whether somebody has read a part of the answer that failed; then no other model is asked.
    Errors: those of the last model; any other than `FAILURES` at once.
    """
    failed: Exception | None = None
    for number, name in enumerate(models):
        try:
            return await ask(name, _key(key, number))
        except ContextTooLong:
            raise
        except MediaNotTaken as error:
            if failed is None:
                raise
            raise _unread(error, models[number - 1], failed) from failed
        except FAILURES as error:
            if number + 1 == len(models) or has_begun():
                raise
            failed = error
    raise AssertionError("the last model answers or raises")


def _unread(error: MediaNotTaken, before: str, failed: Exception) -> MediaNotTaken:
    """Return the error of a model that cannot take over, with why it was to."""
    return MediaNotTaken(
        f"{error.message}; it was to answer since {before} failed: {str(failed)[:300]}",
        expected=error.expected,
        got=error.got,
        hint=error.hint,
    )


_FALLBACK = "/fallback-"


def _key(key: str | None, number: int) -> str | None:
    return key if key is None or not number else f"{key}{_FALLBACK}{number}"


def steps_before(key: str) -> tuple[str, ...]:
    """Return the keys of the models whose failure led to this step of a list; of any other step, none."""
    first, mark, number = key.rpartition(_FALLBACK)
    if not mark or number not in map(str, range(1, MODELS_MAX)):
        return ()
    return tuple(f"{first}{_FALLBACK}{one}" if one else first for one in range(int(number)))
