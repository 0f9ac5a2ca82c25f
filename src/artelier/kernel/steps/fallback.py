"""Fallback: a model that cannot answer is followed by the next one of a list, each as a step of its own.

Each has its manifest, its hold and its record of what failed. Which one answered is decided by recorded
outcomes, so a replay takes the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from artelier.errors import ContextTooLong, InvalidRequest, MediaNotTaken, ModelRefusedCall, TransientError
from artelier.kernel.run.status import ModelResult
from artelier.tokens.model_info import canonical_name

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


async def ask_in_turn(
    models: Sequence[str], key: str | None, ask: Callable[[str, str | None], Awaitable[ModelResult]]
) -> ModelResult:
    """Ask one model after the other until one answers; `ask` takes a model and the key of its step.

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
            if number + 1 == len(models):
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


def _key(key: str | None, number: int) -> str | None:
    return key if key is None or not number else f"{key}/fallback-{number}"
