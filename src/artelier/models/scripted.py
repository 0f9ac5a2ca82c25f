"""A model that follows a script: the double for tests, demonstrations and simulations.

It complains of a call nobody scripted and, through `assert_done()`, of steps nobody asked for.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

from artelier.errors import External, InvalidRequest
from artelier.models.scripted_reply import PlainStep, Step, complete_reply, reply_from, tool_call
from artelier.ports.model import FREE, Delta, ModelReply, ModelRequest, Price

__all__ = ["ScriptedModel", "Step", "UnexpectedCall", "tool_call"]

_PIECE_CHARS = 16
"""Length of a streamed piece: short enough that a one-line reply comes in several."""

_CALLS_DEEP = 16
"""How often a function may return a function; more is a script that never answers."""


class UnexpectedCall(External, AssertionError):
    """The script is at its end and the model was called once more: facts `scripted`, `request`."""

    code = "unexpected_call"
    audience = "programmer"


class ScriptedModel:
    """A `ModelPort` that answers with the steps of a script, in the order of the calls.

    `script` is a list of steps (see `Step`) or one function that answers every call. `repeat_last`
    lets the last step answer all later calls too. Safe to share between threads and tasks: a step
    is taken at the moment of the call, before any delay.

    Units:  `delay_s` is the time each call takes before it answers or raises.
    Errors: `UnexpectedCall` beyond the end of the script; whatever exceptions the script holds.
    """

    def __init__(
        self,
        script: Sequence[Step] | Callable[[ModelRequest], Any],
        *,
        price: Price | None = FREE,
        delay_s: float = 0,
        repeat_last: bool = False,
    ) -> None:
        if callable(script):
            self._steps: list[Step] = [script]
            repeat_last = True
        elif isinstance(cast(object, script), list | tuple):
            self._steps = list(script)
        else:
            raise InvalidRequest(
                "not a script", expected="a list of steps or one function", got=repr(script)[:200]
            )
        self._endless = callable(script)
        self.price = price
        self.delay_s = delay_s
        self.repeat_last = repeat_last
        self.requests: list[ModelRequest] = []
        """Every request received, in order, unexpected ones included."""
        self._lock = threading.Lock()
        self._taken = 0

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        step = self._take(request)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        return complete_reply(reply_from(await _plain(step, request)), request)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        """The text in pieces of 16 characters, then the whole reply."""
        reply = await self.complete(request)
        for start in range(0, len(reply.text), _PIECE_CHARS):
            yield Delta(text=reply.text[start : start + _PIECE_CHARS])
        yield reply

    def assert_done(self) -> None:
        """Errors: `AssertionError` that names the steps which no call has taken."""
        with self._lock:
            left = [] if self._endless else self._steps[self._taken :]
        if left:
            raise AssertionError(
                f"{len(left)} of {len(self._steps)} scripted steps were never asked for; "
                f"the next is {repr(left[0])[:200]}"
            )

    def _take(self, request: ModelRequest) -> Step:
        with self._lock:
            self.requests.append(request)
            if self._taken < len(self._steps):
                self._taken += 1
                return self._steps[self._taken - 1]
            if self.repeat_last and self._steps:
                return self._steps[-1]
            number = len(self.requests)
        last = request.messages[-1] if request.messages else None
        came = f"{last.role} message {last.text[:200]!r}" if last else "no messages"
        raise UnexpectedCall(
            f"unexpected call {number} of a scripted model",
            expected=f"at most {len(self._steps)} calls, one per scripted step",
            got=f"a request for {request.model!r} that ends with {came}",
            hint="Add a step to the script, or pass repeat_last=True.",
            scripted=len(self._steps),
            request=request,
        )


async def _plain(step: Step, request: ModelRequest) -> PlainStep:
    """Raise exceptions and call functions until a plain step is left."""
    for _ in range(_CALLS_DEEP):
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, type) and issubclass(step, BaseException):
            raise step(f"scripted {step.__name__}")
        if not callable(cast(object, step)):
            return cast(PlainStep, step)  # what else it may be, reply_from refuses
        result = cast(Callable[[ModelRequest], Any], step)(request)
        step = cast(Step, await result if inspect.isawaitable(result) else result)
    raise InvalidRequest(
        "a scripted function never answers", expected="a step", got=f"{_CALLS_DEEP} functions"
    )
