"""One run in the worker, cut into turns: from the start, or an answer of the host, to the next call.

Between turns nothing is held: the paused interpreter is a few kilobytes of bytes in this process
and its worker serves others. So runs that call runs need no more workers than one.

The library's synchronous interface is driven in threads on purpose: its asyncio one can abort the
whole process when the interpreter exits soon after its last call.
"""

from __future__ import annotations

import datetime
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from artelier.errors import (
    ArtelierError,
    Conflict,
    Corrupt,
    Flow,
    InvalidRequest,
    StoreUnavailable,
    VersionConflict,
)
from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox.dialect_check import check_code
from artelier.sandbox.values_codec import CALL_AT, HOST, PRELUDE_FILE, NotData, data, leaving, prelude

if TYPE_CHECKING:
    import pydantic_monty


# --------------------------------------------------------------------------- errors
# The one error of the sandbox; its reason says what a caller can do about it.

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


SUSPENSIONS_MAX = 1_000
"""Names looked up and host functions called in one turn."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class HostCall(NamedTuple):
    """The code waits for a function of the host."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    paused: bytes


class Done(NamedTuple):
    """The code has ended: the value of its last expression, of bounded size; it may yet be no JSON data."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFeed:
    """All that a run needs in any of its turns."""

    code: str
    inputs: dict[str, Any]
    functions: Mapping[str, Callable[..., Any]]
    limits: SandboxLimits
    at_us: int | None
    """The frozen clock; None: code that asks for the time gets an error."""
    seed: int | str
    printed: pydantic_monty.CollectString = field(repr=False)

    @property
    def file(self) -> str:
        """The name that the interpreter uses for the code in places and traces."""
        return "<python-input-1>" if self.functions else "<python-input-0>"


def start(pool: pydantic_monty.Monty, feed: TurnFeed) -> HostCall | Done:
    """The first turn. Blocks; errors: whatever the interpreter raises."""
    program = leaving(feed.code)
    with _checkout(pool, feed) as session:
        if feed.functions:
            session.feed_run(prelude(feed.functions), external_lookup=_LOOKUP)
        snapshot = session.feed_start(
            program.text, inputs=feed.inputs, external_lookup=_LOOKUP, print_callback=feed.printed
        )
        return _advance(snapshot, feed)


def proceed(
    pool: pydantic_monty.Monty, feed: TurnFeed, paused: bytes, answer: Mapping[str, Any]
) -> HostCall | Done:
    """The next turn: `answer` is `{return_value}` or `{exc_type, message}`."""
    with _checkout(pool, feed) as session:
        snapshot = session.load_snapshot(paused, external_lookup=_LOOKUP, print_callback=feed.printed)
        return _advance(cast(Any, snapshot).resume(answer), feed)


def _advance(snapshot: pydantic_monty.SyncSnapshot, feed: TurnFeed) -> HostCall | Done:
    import pydantic_monty

    while not isinstance(snapshot, pydantic_monty.MontyComplete):
        if isinstance(snapshot, pydantic_monty.FunctionSnapshot) and not snapshot.is_os_function:
            outcome = _read_handover(snapshot, feed)
            if outcome is not None:
                return outcome
            # An unknown name. Not by `resume_auto`: nobody may look at what it was called with.
            says = f"name '{snapshot.function_name}' is not defined"
            refusal: Any = {"exc_type": "NameError", "message": says}
            snapshot = snapshot.resume(refusal)
            continue
        # Everything else (clock, files, environment, imports, unknown names) gets the interpreter's
        # own refusal, because no handler was given.
        snapshot = snapshot.resume_auto()
    # Its output is never asked for: what is worth having left by a call.
    problem = leaving(feed.code).problem
    if problem:
        raise SandboxError(problem, reason="syntax")
    return Done(None)


def _read_handover(snapshot: pydantic_monty.FunctionSnapshot, feed: TurnFeed) -> HostCall | Done | None:
    """Return what was handed over; None, and nothing looked at, if it did not come by way of a check."""
    where = snapshot.position
    if feed.functions and (where.filename, where.start) == (PRELUDE_FILE, CALL_AT):
        name, args, kwargs = snapshot.args
        if isinstance(name, str) and name in feed.functions:
            return HostCall(name, args, kwargs, snapshot.dump())
        return None
    if where.filename != feed.file:
        return None
    program = leaving(feed.code)
    if where.start == program.value_at:
        return Done(snapshot.args[1])
    if where.start == program.why_at:
        problem = f"the result can't leave the sandbox: {snapshot.args[1]}"[:500]
        raise SandboxError(problem, reason="output")
    return None


def _checkout(pool: pydantic_monty.Monty, feed: TurnFeed) -> pydantic_monty.MontySession:
    limits = feed.limits
    clock = "call_host" if feed.at_us is None else _EPOCH + datetime.timedelta(microseconds=feed.at_us)
    return pool.checkout(
        limits={
            "max_feed_duration_secs": limits.time_ms / 1000,
            "max_memory": limits.memory_bytes,
            "max_recursion_depth": limits.depth,
            "max_suspensions": SUSPENSIONS_MAX,
        },
        os_policy={
            "datetime": clock,
            "timezone": "utc",
            "sleep": "zero",
            "process_time": "zero",
            "random_start": {"seed": feed.seed},
        },
    )


def _never(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("a host function is answered between turns, never within one")


_LOOKUP = {HOST: _never}


# --------------------------------------------------------------------------- calls
# Calls from the sandbox to functions of the host: what goes in, what comes back, what is kept away.


HOST_MESSAGE_CHARS_MAX = 300

_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[\\/][\w.@+~-]+){2,}[\\/]?")


async def answer_call(call: HostCall, function: Callable[..., Any], *, bytes_max: int) -> Mapping[str, Any]:
    """Call the host's function and say what the code inside shall see.

    Shapes: `{return_value}`, or `{exc_type, message}` for an exception that the code may catch.
    Errors: `InvalidRequest` if the function returns what is not JSON data (a fault of the host, so
    the run ends); flow exceptions, cancellation and other non-errors leave as they are.
    """
    try:
        args = data(list(call.args), bytes_max=bytes_max)
        kwargs = data(call.kwargs, bytes_max=bytes_max)
    except NotData as error:
        return {"exc_type": "TypeError", "message": f"{call.name}(): {error}"[:HOST_MESSAGE_CHARS_MAX]}
    try:
        value = function(*args, **kwargs)
        if inspect.isawaitable(value):
            value = await value
    except (Flow, Conflict, Corrupt, StoreUnavailable) as error:
        # The host itself can't go on; code that catches everything must not hide that.
        if not isinstance(error, VersionConflict):
            raise
        return {"exc_type": "RuntimeError", "message": clean_message(error, name=call.name)}
    # The wall: an exception of the host must not carry what it knows (paths, values, traces)
    # inside.
    except Exception as error:
        return {"exc_type": "RuntimeError", "message": clean_message(error, name=call.name)}
    try:
        return {"return_value": data(value, bytes_max=bytes_max)}
    except NotData as error:
        raise InvalidRequest(f"host function `{call.name}` gave the sandbox no JSON data: {error}") from None


def clean_message(error: Exception, *, name: str) -> str:
    """Return what sandboxed code may know of a host's exception.

    An `ArtelierError` for agents keeps its code and message, without anything like a path; of any
    other only the fact remains.
    """
    if isinstance(error, ArtelierError) and error.audience == "agent":
        return _PATH.sub("<path>", f"{error.code}: {error.message}")[:HOST_MESSAGE_CHARS_MAX]
    if isinstance(error, ArtelierError):
        return error.code
    return f"{name}() failed"
