"""The handle of a run, as the code of an agent uses it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar, cast

import msgspec

from artelier.artifacts.media.inspection import KeptMedium, inspect_medium, keep_medium
from artelier.errors import Conflict, Flow, InvalidRequest, StoreUnavailable
from artelier.kernel import events as ev
from artelier.kernel.history import drift
from artelier.kernel.prompt.conversation import Conversation
from artelier.kernel.prompt.manifest import UNENCODABLE, canonical, comparable, encode_json
from artelier.kernel.prompt.renderer import Messages, continue_conversation
from artelier.kernel.run import waits
from artelier.kernel.run.context import RunCore, branch_key
from artelier.kernel.run.delivery import at_step
from artelier.kernel.run.pending_steps import OutOfTime, ask_apart
from artelier.kernel.run.status import Approval, CompensationResult, ModelResult, ToolResult
from artelier.kernel.run.waits import RunTimeout, first_of
from artelier.kernel.steps import model_step
from artelier.kernel.steps.failures import (
    ask_in_turn,
    check_models,
    code_of,
    raise_recorded,
    repeatable,
    words,
)
from artelier.kernel.steps.model_call import ModelCall
from artelier.kernel.steps.step_keys import notes_key
from artelier.kernel.steps.stream_reader import ModelStream
from artelier.kernel.steps.structured_output import schema_of
from artelier.kernel.tool_calls import compensation, tool_step
from artelier.kernel.tool_calls.tool_outcome import ToolAsk
from artelier.log import Blob, EventData, StreamAppend
from artelier.ports.media import ATTACH
from artelier.ports.model import OnReasoning, Part, ToolCall, ToolSchema

READING_TIMEOUT_S = 120.0
"""For one reading: a prompt that waits longer for its facts had better fail (a guess)."""

T = TypeVar("T")
E = TypeVar("E", bound=EventData)


class Run:
    """One durable execution. Made by `kernel.run(...)`; steps return what was recorded, or record it."""

    def __init__(self, core: RunCore, *, parent_key: str | None = None) -> None:
        self._core = core
        self._parent_key = parent_key
        self._result: Any = None
        self._failed: tuple[str, str] | None = None
        self.finished = False

    @property
    def id(self) -> str:
        return self._core.run_id

    @property
    def tenant_id(self) -> str:
        return self._core.tenant.id

    @property
    def status(self) -> str:
        return self._core.status

    @property
    def core(self) -> RunCore:
        """The internal state of the run, for packages that build on the kernel."""
        return self._core

    # Steps

    async def step_model(
        self,
        *,
        model: str | None = None,
        messages: Messages,
        output: object = None,
        output_schema: object = None,
        tools: Sequence[str] | Sequence[ToolSchema] | None = (),
        key: str | None = None,
        timeout_s: float | None = None,
        aside: Sequence[StreamAppend] = (),
        models: Sequence[str] = (),
        output_tokens_max: int | None = None,
        after_cut: int = 0,
        media: Sequence[KeptMedium] = (),
        **params: Any,
    ) -> ModelResult:
        """Ask a model, once: the recorded reply is returned for ever after.

        `aside` are events of other streams that belong to the request, such as the price of a part of it:
        they are appended in its batch, so once, and not when the step is recorded already.
        `media`: what messages name and is not stored yet (`attach` stores what it returns).
        `models`, in place of `model`: those to ask in turn until one answers, each as a step of its own with
        its own hold; the second has the key `<key>/fallback-1`.
        `tools`: which to offer; None offers all that the run sees (on replay those that it saw then).
        `params`: `max_output_tokens`, `temperature`, `top_p`, `seed`, `stop`. Without `max_output_tokens` a
        call asks for what the model can write, or for the largest power of two that half of the money and
        tokens left pays for; for `output_tokens_max` at most. `after_cut`: an answer was cut at so many
        tokens; ask for more, of all that is left.
        Units: `timeout_s` bounds each attempt.
        Errors: `PriceUnknown`, `NotGranted`, `UnknownModel`, `MissingKey` before anything is recorded;
        `OutputInvalid` if the reply does not fit; `TransientError` after the last attempt, other
        `External` errors at once; `ReplayMismatch`; `RunSuspended` when the budget is exhausted.
        """
        names = check_models(model, models)
        call = ModelCall(
            model=names[0],
            messages=messages,
            output=output if output is not None else output_schema,
            tools=tools or (),
            visible_tools=tools is None,
            params={name: value for name, value in params.items() if value is not None},
            timeout_s=timeout_s,
            aside=tuple(aside),
            output_tokens_max=output_tokens_max,
            after_cut=after_cut,
            media=tuple(media),
        )

        async def ask(name: str, at: str | None) -> ModelResult:
            return await model_step.model_step(self._core, replace(call, model=name), key=at)

        with self._branch():
            return await ask_in_turn(names, key, ask)

    def stream_model(
        self,
        *,
        model: str,
        messages: Messages,
        output: object = None,
        tools: Sequence[str] | Sequence[ToolSchema] | None = (),
        key: str | None = None,
        timeout_s: float | None = None,
        output_tokens_max: int | None = None,
        after_cut: int = 0,
        media: Sequence[KeptMedium] = (),
        on_reasoning: OnReasoning | None = None,
        **params: Any,
    ) -> ModelStream:
        """Like `step_model`, yielding `Delta`s as they come and the `ModelResult` last.

        The recorded step is the whole reply: a replay gives it as one piece. When its reservation is spent,
        the stream is cut and what came is kept (`finish_reason="cut"`). A reader that leaves it early cancels
        the step (`step.cancelled`): a replay gives the pieces that he was given.

        `on_reasoning` is awaited with each piece of what the model thinks before it answers, and with an
        empty one when the call is made again. A replay has none: show it, and decide nothing by it.
        """
        call = ModelCall(
            model=model,
            messages=messages,
            output=output,
            tools=tools or (),
            visible_tools=tools is None,
            params={name: value for name, value in params.items() if value is not None},
            timeout_s=timeout_s,
            is_streamed=True,
            output_tokens_max=output_tokens_max,
            after_cut=after_cut,
            media=tuple(media),
            on_reasoning=on_reasoning,
        )
        return ModelStream(self._core, call, key=key, branch=self._branch)

    async def attach(
        self, content: bytes | Callable[[], Awaitable[bytes]], *, key: str | None = None
    ) -> Part:
        """Store an image, a sound, a PDF or a text, once, and return the piece of a message that shows it.

        `{"role": "user", "content": [{"type": "text", "text": "What is this?"}, await run.attach(content)]}`.
        A function reads the content; it is not called where it is recorded.
        Errors: `InvalidRequest` for what no model takes; `BrokenMedium` for what is not whole, or locked.
        """

        async def make(full: str) -> tuple[ev.StepCompleted, list[Blob]]:
            facts = await inspect_medium(await content() if callable(content) else content)
            escape = self._core.services.escape_placeholders
            kept = await keep_medium(self.tenant_id, self._core.key, facts, escape=escape)
            ref, blobs = self._core.keep_json(msgspec.to_builtins(kept.medium.part))
            return ev.StepCompleted(key=full, name=ATTACH, result=ref), [*blobs, *kept.blobs]

        done = await self.receipt(ev.StepCompleted, make, key=key)
        return msgspec.convert(await self._core.load_json(done.result), Part)

    async def step_tool(
        self, name: str, arguments: object = None, *, key: str | None = None, call: ToolCall | None = None
    ) -> ToolResult:
        """Call a tool, once. A tool's error is a value (`is_error`), not an exception.

        `call`: the model's call that this answers, so that the result can join its conversation.
        Errors: `RunSuspended` with `unknown_outcome` if a side effect's outcome is hidden.
        """
        named, call_id = name, call.id if call else ""
        if (pii := self._core.pii) is not None:  # a model may make up any name and any id
            named, call_id = pii.scrub_name(name), pii.scrub_name(call_id)
        ask = ToolAsk(name=named, arguments={} if arguments is None else arguments, call_id=call_id)
        with self._branch():
            return await tool_step.tool_step(self._core, ask, key=key)

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, key: str | None = None
    ) -> Any:
        """A journaled computation: `function(*args)` runs once, its JSON value is recorded.

        Give what depends on time, chance or the outside here, so that a resume sees the same.
        Errors: what the function raises, recorded and the same on every replay: an `ArtelierError`, the
        nearest of Python's own exceptions, or `RecordedError`; `InvalidRequest` if the value is no JSON.
        """
        core = self._core
        if not isinstance(cast(object, name), str) or not 0 < len(name) <= 200:
            raise InvalidRequest("a step needs a name", expected="1-200 characters", got=repr(name)[:80])
        if core.pii is not None:
            core.pii.check_name(name)
        with self._branch():
            async with at_step(core, key, "compute") as step:
                step.name = name
                return await ask_apart(
                    core, step, lambda at: self._compute(at, name, function, args), runs_code=True
                )

    async def _compute(
        self, key: str, name: str, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> object:
        core = self._core
        recorded = await core.find_recorded(key, "compute")
        outcome = recorded.outcome if recorded is not None else None
        if isinstance(outcome, ev.StepCompleted | ev.StepFailed) and outcome.name != name:
            raise core.mismatch(key, "name", expected=outcome.name, got=name)
        if isinstance(outcome, ev.StepCompleted):
            return await core.load_json(outcome.result)
        if isinstance(outcome, ev.StepFailed):
            await raise_recorded(core, outcome.code, outcome.message)
        await core.delivery.wait_reaction()
        await core.boundary()
        writer = core.writer
        try:
            value = function(*args)
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            again = repeatable(error)
            ref, blobs = core.keep_json(words(error))
            beside = core.delivery.is_beside(key)
            failed = ev.StepFailed(key=key, name=name, code=code_of(again), message=ref, beside=beside)
            writer.note(failed, blobs)
            if again is error:
                raise
            raise again from error
        try:
            content = canonical(value)
        except UNENCODABLE as error:
            raise InvalidRequest(
                f"the value of step {name!r} cannot be recorded: {error}",
                expected="JSON data",
                got=type(value).__name__,
            ) from None
        if core.pii is not None:
            content = await core.pii.clean_aside(content)
        ref, blob = core.keep(content)
        beside = core.delivery.is_beside(key)
        writer.note(ev.StepCompleted(key=key, name=name, result=ref, beside=beside), [blob])
        return msgspec.json.decode(content)

    # Parallel work

    def branch(self, name: str) -> Run:
        """The same run with a parent key of its own, for steps that run beside others."""
        if not name or "/" in name:
            raise InvalidRequest("a branch needs a name without '/'", got=repr(name))
        if self._core.pii is not None:
            self._core.pii.check_name(name)
        parent = self._parent_key or self._core.parent_key
        return Run(self._core, parent_key=f"{parent}/{name}" if parent else name)

    async def gather(
        self, *work: Awaitable[Any] | Callable[[Run], Awaitable[Any]], limit: int | None = None
    ) -> list[Any]:
        """Run work in parallel; steps inside are keyed by argument position, not by who is first.

        All of it ends before an error is raised (the first by position). `limit` bounds how many are at
        work at once.
        """
        with self._branch(), _closing(work):
            parent, base = self._core.begin(None)
            try:
                gate = asyncio.Semaphore(limit or self._core.policy.parallel_max)
                tasks = [
                    asyncio.ensure_future(self._nth(gate, f"{base}/{index}", item))
                    for index, item in enumerate(work)
                ]
                return await _all_of(tasks)
            finally:
                self._core.end(parent)

    async def parallel(self, *steps: Awaitable[Any], limit: int | None = None) -> list[Any]:
        """Steps with explicit keys, side by side; all end before the first error by position is raised."""
        gate = asyncio.Semaphore(limit or self._core.policy.parallel_max)

        async def one(step: Awaitable[Any]) -> object:
            async with gate:
                return await step

        with _closing(steps):
            return await _all_of([asyncio.ensure_future(one(step)) for step in steps])

    async def first(
        self, *work: Awaitable[Any] | Callable[[Run], Awaitable[Any]], key: str | None = None
    ) -> tuple[int, Any]:
        """Run work in parallel until the first piece ends: its position and its result.

        The rest is cancelled, and its end waited for. Which was first is recorded, so that a resume sees the
        same, whatever else the pieces wait for. Steps inside are keyed by position.
        Errors: that of the piece that ended first; `InvalidRequest` for no work.
        """
        if not work:
            raise InvalidRequest("there is no first of nothing", expected="one piece of work or more")
        gate = asyncio.Semaphore(len(work))
        with self._branch(), _closing(work):
            return await first_of(
                self._core,
                lambda base: [
                    asyncio.ensure_future(self._nth(gate, f"{base}/{index}", item))
                    for index, item in enumerate(work)
                ],
                key=key,
            )

    def timeout(self, seconds: float, *, key: str | None = None) -> RunTimeout:
        """`async with run.timeout(seconds):` raises `TimeoutError` when the time is up.

        Durable: after a restart only what is left of the time counts, and a replay raises where it raised.
        Steps that it cuts off end as `step.timed_out`; of a side effect, see `step_tool`.
        Errors: `InvalidRequest` for no length of time.
        """
        return RunTimeout(self._core, seconds, key=key, branch=self._branch)

    async def _nth(
        self, gate: asyncio.Semaphore, parent_key: str, item: Awaitable[Any] | Callable[[Run], Awaitable[Any]]
    ) -> object:
        async with gate:
            branch_key.set((self._core, parent_key))
            branch = Run(self._core, parent_key=parent_key)
            return await (item(branch) if callable(item) else item)

    def _branch(self) -> AbstractContextManager[None]:
        return _KeyedBranch(self._core, self._parent_key)

    # Code that has changed, and steps that are undone

    async def compensate(
        self, *, note: str = "", upto: str | None = None, key: str | None = None
    ) -> CompensationResult:
        """Undo what this run has done, in reverse order, with the `compensate` of each tool.

        `upto`: no further back than to this step (its full key), with it. A step is undone once: whoever asks
        again goes on where it stopped. What children did is undone as their own steps, in its place in the
        order; a fork leaves what it has inherited to its origin.
        Errors: `CompensationFailed` for a step that was not undone, with those before it; `RunSuspended` with
        `unknown_outcome` if nobody knows; `NotFound` for `upto`; `Conflict` while children are at work.
        """
        with self._branch():
            async with at_step(self._core, key, "") as step:
                return await compensation.compensate(self._core, step.key, upto=upto, note=note)

    async def version(self, change: str, latest: int = 1, *, default: int = 0) -> int:
        """Return which version of a change in this code the run goes by, now and on every resume.

        A run that comes here for the first time goes by the `latest`; one that was past this point before its
        code knew of the change goes by the `default`, the code as it was. It takes no step: the call can be
        added and removed under runs that are at work.
        Errors: `InvalidRequest`.
        """
        return await drift.version(self._core, change, latest=latest, default=default)

    # People and time

    async def approve(
        self,
        question: str,
        details: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        expires_s: float | None = None,
    ) -> Approval:
        """Wait durably for a person. The process may die and restart meanwhile.

        Errors: `RunSuspended` with `on_wait="suspend"`.
        """
        core = self._core
        with self._branch():
            async with at_step(core, key, "approval") as step:
                return await ask_apart(
                    core, step, lambda at: waits.approve(core, question, details, key=at, expires_s=expires_s)
                )

    async def sleep(self, seconds: float, *, key: str | None = None) -> None:
        """Wait durably: after a restart only what is left of the time."""
        await self._wait(key=key, seconds=seconds)

    async def wait_for(self, name: str, *, timeout_s: float | None = None, key: str | None = None) -> Any:
        """The data of the next signal called `name`. Errors: `TimeoutError` after `timeout_s`."""
        outcome, data = await self._wait(key=key, name=name, seconds=timeout_s)
        if outcome == "timeout":
            raise TimeoutError(f"no signal {name!r} within {timeout_s} s")
        return data

    async def _wait(self, *, key: str | None, name: str = "", seconds: float | None) -> tuple[str, object]:
        with self._branch():
            core = self._core
            if core.pii is not None:
                core.pii.check_name(name)
            async with at_step(core, key, "wait") as step:
                return await ask_apart(
                    core, step, lambda at: waits.wait(core, key=at, name=name, seconds=seconds)
                )

    async def notes(self, *, key: str | None = None) -> list[str]:
        """Notes that people injected since the last call, oldest first; journaled.

        With a `key`, a call that finds none leaves no event.
        """
        return await self._take_notes(key)

    async def notes_anew(self, key: str, *, at_once: int | None = None) -> list[str]:
        """Return the notes of `notes` for a cycle that is asked for anew where it came to nothing: those that
        came since its first try, too, under keys of their own (`KEY-2` and so on); journaled.

        `at_once`: how many stand under one key. Of more, which earlier versions recorded, they showed the
        newest.
        """
        texts = list[str]()
        for number in count(1):
            taken = await self._take_notes(notes_key(key, number), at_once=at_once)
            if not taken:
                break
            texts += taken[-(at_once or len(taken)) :]
        return texts

    async def _take_notes(self, key: str | None, *, at_once: int | None = None) -> list[str]:
        core = self._core
        with self._branch():
            async with at_step(core, key, "compute") as step:
                full = step.key
                recorded = await core.find_recorded(full, "compute")
                if recorded is not None and isinstance(recorded.outcome, ev.StepCompleted):
                    return await core.load_json(recorded.outcome.result)
                if key is not None and (core.actor is None or not core.notes):
                    return []
                parent = full.rpartition("/")[0]
                has_gone_on = key is not None and not parent and await core.history.expects_more()
                if has_gone_on or core.history.is_bound(parent):
                    return []  # the code has gone on without them: they are for the next call
                await core.boundary()
                taken, core.notes = core.notes[:at_once], core.notes[at_once or len(core.notes) :]
                texts = [await core.told_json(ref) for _, ref in taken]
                ref, blobs = core.keep_json(texts)
                took, beside = taken[-1][0] if taken else 0, core.delivery.is_beside(full)
                done = ev.StepCompleted(key=full, result=ref, took=took, beside=beside)
                core.writer.note(done, blobs)
                return texts

    async def receipt(
        self, kind: type[E], make: Callable[[str], Awaitable[tuple[E, list[Blob]]]], *, key: str | None
    ) -> E:
        """A computed step whose outcome is an event of its own kind: the recorded one, or what `make` gives.

        `make` is given the full key; steps that it takes need keys of their own.
        """
        core = self._core
        with self._branch():
            async with at_step(core, key, "compute") as step:
                full = step.key
                recorded = await core.find_recorded(full, "compute")
                if recorded is not None and isinstance(recorded.outcome, kind):
                    core.history.pass_over(full)
                    return recorded.outcome
                await core.boundary()
                event, blobs = await make(full)
                core.writer.note(event, blobs)
                return event

    async def reading(
        self, read: Callable[[], Awaitable[Any]], *, key: str, last: str = ""
    ) -> tuple[Any, str]:
        """A JSON value from outside, and its reference; recorded only if it is not the one of `last`.

        For what a prompt depends on and seldom changes (a memory, a list of skills). `last` is the reference
        of the previous reading, `""` for none; a value of None is none. The value is what the log gives back:
        keys in order, tuples as lists.
        Errors: what `read` raises, recorded; `InvalidRequest` if the value is no JSON.
        """
        core = self._core
        with self._branch():
            async with at_step(core, key, "compute") as step:
                full = step.key
                recorded = await core.find_recorded(full, "compute")
                if recorded is not None and isinstance(recorded.outcome, ev.StepCompleted):
                    found = recorded.outcome.result
                    value = await core.load_json(found)
                    return value, "" if value is None else found
                if recorded is not None and isinstance(recorded.outcome, ev.StepFailed):
                    await raise_recorded(core, recorded.outcome.code, recorded.outcome.message)
                if core.actor is None or core.history.expects(full.partition("/")[0]):
                    return await core.load_json(last or None), last  # it had not changed then
                content = await self._read(read, full)
                value = msgspec.json.decode(content)
                if value is None:
                    return None, self._noted_reading(full, content, last, "")
                ref = core.keep(content)[0]
                return value, self._noted_reading(full, content, last, ref)

    def _noted_reading(self, key: str, content: bytes, last: str, ref: str) -> str:
        """Record a reading that is another than the last one; its reference."""
        if ref != last:
            kept, blob = self._core.keep(content)
            self._core.writer.note(ev.StepCompleted(key=key, result=kept), [blob])
        return ref

    async def _read(self, read: Callable[[], Awaitable[Any]], key: str) -> bytes:
        """Canonical JSON of what the outside says; a command or the run's deadline ends the wait for it."""
        core = self._core
        while True:
            await core.boundary()
            try:
                with core.calls.flight(harmless=True):
                    async with core.calls.within(READING_TIMEOUT_S):
                        said = encode_json(await read())
                        return said if core.pii is None else await core.pii.clean_aside(said)
            except OutOfTime:
                await core.out_of_time()
            except asyncio.CancelledError:
                if not core.calls.was_interrupted():
                    raise
            except (Flow, Conflict, StoreUnavailable):
                raise
            except Exception as error:
                again = repeatable(error)
                ref, blobs = core.keep_json(words(error))
                failed = ev.StepFailed(key=key, name="reading", code=code_of(again), message=ref)
                core.writer.note(failed, blobs)
                if again is error:
                    raise
                raise again from error

    async def poll_signal(self, name: str, *, key: str) -> Any:
        """The data of a signal that is there already, or None; none leaves no event."""
        core = self._core
        with self._branch():
            async with at_step(core, key, "compute") as step:
                full = step.key
                if not await core.history.knows(full):
                    if core.actor is None or core.history.expects(full.partition("/")[0]):
                        return None  # there was none then
                    if all(given != name for _, given, _ in core.signals):
                        return None
                return (await waits.wait(core, key=full, name=name))[1]

    # Content and the end

    def complete_cycle(self, cycle: int, state: Mapping[str, Any]) -> None:
        """A built-in loop ended a cycle: keep its state and the messages it brought, with the next batch."""
        core = self._core
        added, blobs = core.take_added()
        if core.actor is not None:
            core.actor.note(ev.CycleCompleted(cycle=cycle, state=dict(state), added=added), blobs)

    def conversation(self, name: str = "main") -> Conversation:
        """An append-only conversation of this run; hand it to `step_model` as `messages`."""
        return self._core.conversation(name)

    async def continue_conversation(
        self, name: str, base_run_id: str, base_conversation: str, upto: int, *, keep_last: int
    ) -> Conversation:
        """A conversation of this run that goes on where another run's stood at message `upto`.

        Its messages `1..upto` are those of the other one and are not written again; the next one appended
        has number `upto + 1`. Of the earlier ones the last `keep_last` are held in memory, and can be shown.

        Errors: `InvalidRequest` if something stands in it already; `NotFound` if the tenant has no such
        message.
        Cost: O(keep_last).
        """
        return await continue_conversation(
            self._core, name, base_run_id, base_conversation, upto, keep_last=keep_last
        )

    def finish(self, result: object = None) -> None:
        """Set the run's result (JSON data, or something with `model_dump`)."""
        if hasattr(result, "model_dump"):
            result = cast(Any, result).model_dump(mode="json")
        self._check_result(result)
        self._result = result
        self._failed = None
        self.finished = True

    def fail(self, reason: str, message: str = "", *, result: object = None) -> None:
        """End the run as failed for a reason that is no exception (`max_iterations`, `stuck`, ...)."""
        pii = self._core.pii
        self._check_result(result)
        self._failed = (reason if pii is None else pii.scrub_name(reason), message)
        self._result = result
        self.finished = True

    def _check_result(self, result: object) -> None:
        try:
            # An ended run is compared: its result may hold NaN that was recorded as null.
            (comparable if self._core.actor is None else canonical)(result)
        except (*UNENCODABLE, InvalidRequest) as error:
            raise InvalidRequest(f"a result must be JSON data: {error}") from None

    @property
    def outcome(self) -> tuple[object, tuple[str, str] | None]:
        """The result and, if it failed, `(reason, message)`."""
        return self._result, self._failed

    def schema_of(self, output: object) -> dict[str, Any] | None:
        """The schema of an output, whose mapping was checked at the door."""
        return schema_of(output, is_recorded=True)


async def _all_of(tasks: list[asyncio.Task[T]]) -> list[T]:
    """Results by position. A cancel from outside reaches all of them and waits until they have ended."""
    try:
        results = await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)


@contextmanager
def _closing(work: Iterable[object]) -> Generator[None]:
    """Coroutines that were handed over and never begun, since something failed before, are no leaks."""
    try:
        yield
    finally:
        for item in work:
            if inspect.iscoroutine(item):
                item.close()


class _KeyedBranch:
    """Makes a handle's parent key the one that its steps are numbered under."""

    __slots__ = ("_core", "_key", "_token")

    def __init__(self, core: RunCore, key: str | None) -> None:
        self._core = core
        self._key = key
        self._token: Any = None

    def __enter__(self) -> None:
        key = self._key
        if key is None:
            return
        # Inside a gather of this branch's own, the steps belong to the gather's branches.
        if not self._core.parent_key.startswith(f"{key}/"):
            self._token = branch_key.set((self._core, key))

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            branch_key.reset(self._token)
