"""A streamed model call: pieces as they come, then the recorded whole, which is all that is kept."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import cast

from artelier import errors
from artelier.errors import TransientError
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.pending_steps import OutOfTime
from artelier.kernel.run.status import ModelResult
from artelier.kernel.steps.model_call import (
    Ready,
    asked_again,
    begin_sending,
    bill_cut,
    check_reply,
    cut_short,
    next_attempt,
    record,
    record_failure,
)
from artelier.kernel.steps.structured_output import Fitted, fit_reply, fitted_at_once
from artelier.ports.model import Delta, ModelReply, StreamingModelPort, Usage
from artelier.tokens import TextMeter

Item = Delta | ModelReply

PIECE_CHARS = 16 * 1024
"""Of a reply that is searched for personal data at once, while it is written."""

PIECES_AT_ONCE = 32
"""Of a reply whose pieces come without a pause; then others have a turn of the event loop."""

CUT_PERCENT = 130
"""Of the tokens that were asked for, by estimate: English prose has 4.5 to 5 characters per token, and the
estimate counts 4, so a whole reply must not be cut for that."""


async def stream_reply(core: RunCore, ready: Ready) -> AsyncGenerator[Delta | ModelResult]:
    """Deltas, then the result. What came before a stream was cut is kept, with its cost."""
    stream, live = _StreamAttempts(core, ready), None if core.pii is None else core.pii.live()
    thought = _Reasoning(core) if ready.call.on_reasoning is not None else None
    if (step := core.delivery.steps.get(ready.key)) is not None:
        step.bill = stream.bill
    try:
        for number in itertools.count(1):
            if stream.is_done:
                return
            if number % PIECES_AT_ONCE == 0:
                await asyncio.sleep(0)
            item = await stream.next()
            if thought is not None and (piece := await thought.take(item)) is not None:
                yield Delta(reasoning=piece)
            if isinstance(item, Delta):
                if live is None:
                    if item.text:
                        yield Delta(text=item.text)
                    continue
                for at in range(0, len(item.text), PIECE_CHARS):
                    if at:
                        await asyncio.sleep(0)  # a large piece is searched in parts, others in between
                    if text := live.add(item.text[at : at + PIECE_CHARS]):
                        yield Delta(text=text)
            elif item is not None:
                result = await stream.end(item)
                if not stream.has_begun and result.text:  # it came whole: a replay gives it as a piece
                    yield Delta(text=result.text)
                elif live is not None and (text := live.rest()):
                    yield Delta(text=text)
                yield result
    finally:
        await stream.close()


REASONING_CHARS_MAX = 1_000_000
"""Of one call that are shown while they come. What is beyond is in its reply, if that keeps it."""


class _Reasoning:
    """The reasoning of a model while it streams, without personal data. Nothing of it is recorded here."""

    def __init__(self, core: RunCore) -> None:
        self._pii = core.pii
        self._live = None if core.pii is None else core.pii.live()
        self._has_begun = False
        self._left = REASONING_CHARS_MAX

    async def take(self, item: Item | None) -> str | None:
        """Return the piece to show now: empty if the call is made again, None if there is none."""
        if item is None:
            had, self._has_begun = self._has_begun, False
            self._live = None if self._pii is None else self._pii.live()
            return "" if had else None
        if isinstance(item, Delta) and item.reasoning:
            self._has_begun = True
            piece = item.reasoning[: self._left]
            self._left -= len(piece)
            return await self._clean(piece) or None
        # The answer has begun: due is what was held back, since it might have been the start of a value.
        if self._has_begun and self._live is not None:
            rest, self._live = self._live.rest(), None if self._pii is None else self._pii.live()
            return rest or None
        return None

    async def _clean(self, text: str) -> str:
        if self._live is None:
            return text
        found: list[str] = []
        for at in range(0, len(text), PIECE_CHARS):
            if at:
                await asyncio.sleep(0)
            found.append(self._live.add(text[at : at + PIECE_CHARS]))
        return "".join(found)


class _StreamAttempts:
    """One step's stream, over as many attempts as it takes until the first piece has come."""

    def __init__(self, core: RunCore, ready: Ready) -> None:
        self._core = core
        self._ready = ready
        self._pieces: list[str] = []
        self._meter = TextMeter()
        self._attempt = 0
        self._iterator: AsyncIterator[Item] | None = None
        self._fit = Fitted()
        self._cut: ModelReply | None = None
        """What stands for the reply of a stream that was cut."""
        self.is_done = False

    @property
    def has_begun(self) -> bool:
        """True if a piece with text has come."""
        return bool(self._pieces)

    async def next(self) -> Item | None:
        """The next piece, the whole reply, or None if the call has to be made again."""
        core = self._core
        if self._pieces and (core.stopping or core.cancelled_reason is not None):
            return self.cut()
        if self._is_spent():
            return self.cut()
        try:
            item = await self._piece()
        except TransientError as error:
            if self._pieces:
                await record_failure(core, self._ready, error, output_tokens=self._meter.tokens)
            await self._again()
            self._ready = await next_attempt(core, self._ready, self._attempt, error)
            return None
        except asyncio.CancelledError:
            if self._pieces and core.calls.was_interrupted():
                return self.cut()
            await self._again()
            came = self._meter.tokens
            self._ready = await asked_again(core, self._ready, output_tokens=came)
            self._attempt = 0
            return None
        except OutOfTime:  # half a reply is no outcome: a run that gets more time asks again
            await cut_short(core, self._ready, output_tokens=self._meter.tokens)
        except Exception as error:  # a port's own too: record it, then let the caller see it
            await record_failure(core, self._ready, error, output_tokens=self._meter.tokens)
        if isinstance(item, Delta) and item.text:
            self._pieces.append(item.text)
            self._meter.add(item.text)
        return item

    async def _piece(self) -> Item:
        core, ready = self._core, self._ready
        if self._iterator is None:
            assert isinstance(ready.port, StreamingModelPort)
            self._attempt += 1
            begin_sending(core, ready, self._attempt)
            self._iterator = aiter(ready.port.stream(ready.request))
        timeout_s = ready.call.timeout_s or core.policy.model_timeout_s
        try:
            with core.calls.flight(harmless=True), ready.record_sending():
                async with core.calls.within(timeout_s):
                    if ready.span is None:
                        item = cast(object, await anext(self._iterator))
                    else:
                        with ready.span:
                            item = cast(object, await anext(self._iterator))
        except StopAsyncIteration:
            raise errors.ModelReplyBroken("the stream ended without a reply") from None
        except OutOfTime:
            raise
        except TimeoutError:
            raise errors.ModelTimeout(
                "the stream brought nothing for too long", expected=f"at most {timeout_s} s"
            ) from None
        if isinstance(item, ModelReply):
            reply = (await check_reply(core, ready, item))[0]
            with core.calls.flight(harmless=True):  # in flight until it is known whether it fits
                self._fit = await fit_reply(reply, ready.call.output)
            return reply
        if not isinstance(item, Delta) or not (_is_text(item.text) and _is_text(item.reasoning)):
            raise errors.ModelReplyBroken("the stream brought no Delta", got=repr(item)[:80])
        return item

    async def _again(self) -> None:
        await self.close()
        self._iterator = None

    def _is_spent(self) -> bool:
        """Return True if it brought more tokens than are reserved, however many pieces they came in."""
        return 100 * self._meter.tokens > CUT_PERCENT * self._ready.assembled.size.output_max

    def cut(self) -> ModelReply:
        """Return what came before the stream was cut, with its cost by estimate."""
        usage = Usage(input_tokens=self._ready.assembled.size.input_tokens, output_tokens=self._meter.tokens)
        text = "".join(self._pieces)
        self._cut = ModelReply(text=text, usage=usage, finish_reason="cut")
        return self._cut

    def bill(self) -> None:
        """Settle the call, whose reader has gone away."""
        if not self.is_done:
            self.is_done = True
            bill_cut(self._core, self._ready, output_tokens=self._meter.tokens, came=self.cut())

    async def end(self, reply: ModelReply) -> ModelResult:
        """Record the whole. Errors: `OutputInvalid`."""
        try:
            _, content = await check_reply(self._core, self._ready, reply)
        except asyncio.CancelledError:
            raise  # its reader has gone: `bill` says what it cost
        except BaseException:
            self.is_done = True
            raise
        self.is_done = True
        is_ours = reply is self._cut
        fit = fitted_at_once(reply, self._ready.call.output) if is_ours else self._fit
        return record(self._core, self._ready, reply, content, fit, estimated=is_ours)

    async def close(self) -> None:
        """A cut stream must end its HTTP call now, not when it is collected as garbage."""
        if (aclose := getattr(self._iterator, "aclose", None)) is not None:
            with suppress(Exception):  # whatever a port does wrong here, the outcome stands
                await aclose()


def _is_text(value: object) -> bool:
    """Return True if a port brought text that can be stored: with lone surrogates it cannot."""
    try:
        return isinstance(value, str) and len(value.encode()) >= 0
    except UnicodeEncodeError:
        return False
