"""A function as a tool: what the decorator makes and what the kernel drives through `ToolPort`."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import math
import queue
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, get_args, overload

from artelier.errors import InvalidConfig, InvalidRequest, NotFound, ToolResultInvalid
from artelier.plugins import TOOLS, PluginPoint
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Compensate, Happened, ProbeAnswer, Risk, ToolContext, ToolPort
from artelier.tools.json_conversion import NotJson, plain_json
from artelier.tools.parameters import Parameters

# --------------------------------------------------------------------------- thread pool
# The threads in which plain (not async) tools run, so that they do not block the event loop.
# The threads are daemons: the loop's own executor is joined when a program ends, and one hung tool would
# then keep the whole process alive after its run was stopped.


THREADS_MAX = 64
"""Plain tools that run at once; more wait for a free thread. A guess: they mostly wait for I/O."""

T = TypeVar("T")
Job = Callable[[], None]


class DaemonThreads:
    """A bounded set of reused daemon threads."""

    def __init__(self, *, size_max: int = THREADS_MAX) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._size_max = size_max
        self._size = 0
        self._pending = 0
        """Jobs that wait or run; a thread is added while there are more of them than threads."""

    async def run(self, function: Callable[[], T], *, ended: Callable[[], None] = lambda: None) -> T:
        """The function's result, or its exception, computed in a thread with this task's context.

        A cancelled caller stops waiting; the thread goes on to the end and its result is dropped. What has
        not begun by then never does. `ended` is called when the function acts no more, by the thread.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()
        is_given_up = threading.Event()

        def job() -> None:
            if is_given_up.is_set():
                ended()
                return
            try:
                result, error = context.run(function), None
            # A thread is a boundary: whatever leaves the function belongs to the waiting caller.
            except BaseException as raised:
                result, error = None, raised
            ended()
            try:
                loop.call_soon_threadsafe(_deliver, future, result, error)
            except RuntimeError:
                return  # The loop has closed; nobody waits any more.

        self._submit(job)
        try:
            return await future
        except asyncio.CancelledError:
            is_given_up.set()
            raise

    def _submit(self, job: Job) -> None:
        with self._lock:
            self._pending += 1
            grow = self._size < min(self._pending, self._size_max)
            if grow:
                self._size += 1
                name = f"artelier-tool-{self._size}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            finally:
                with self._lock:
                    self._pending -= 1
            del job


def _deliver(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | SystemExit | KeyboardInterrupt):
        # A future can't hold StopIteration, and the other two would end the program, not the tool.
        future.set_exception(RuntimeError(f"the tool raised {type(error).__name__}"))
    else:
        future.set_exception(error)


# --------------------------------------------------------------------------- function


P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Trust = Literal["trusted", "untrusted"]
Hook = Callable[..., Any]
"""`probe(idempotency_key, arguments)` or `compensate(arguments, result, context)`; async or plain."""

AT_ONCE_BYTES_MAX = 128 * 1024
"""Of a result that is made plain in the event loop; that takes some ten milliseconds."""
DESCRIPTION_CHARS_MAX = 1_024
"""The shortest limit among providers for a function's description (OpenAI's)."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider accepts as a function's name."""

_threads = DaemonThreads()


class ToolReturn:
    """The result of a tool that shows images, sounds or files (PDF, text) beside its data.

    A model that takes them sees them with the result; people find each as an artifact. In the result, `media`
    says of each where it is shown, or why it was left out: a broken one is no failure, since the call has
    been made. A value that is no object stands in it as `result`.
    Errors: `ToolResultInvalid` for a medium that is no `bytes`.
    """

    __slots__ = ("media", "value")

    def __init__(self, value: object, media: Iterable[bytes] = ()) -> None:
        self.value = value
        self.media = tuple(media)
        for one in self.media:
            if not isinstance(one, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - of anybody's code
                raise ToolResultInvalid(
                    "a tool can show media as bytes only",
                    expected="ToolReturn(value, media=[png_bytes])",
                    got=type(one).__name__,
                )


class Tool(Generic[P, R_co]):
    """A function with the facts a durable runtime needs; calling it calls the plain function."""

    def __init__(
        self,
        function: Callable[P, R_co],
        *,
        side_effect: bool | None = None,
        idempotent: bool | None = None,
        grant: str | None = None,
        timeout_s: float | None = None,
        heartbeat_timeout_s: float | None = None,
        name: str | None = None,
        description: str | None = None,
        risk: Risk | None = None,
        trust: Trust = "untrusted",
        probe: Hook | None = None,
        compensate: Hook | None = None,
        names: Mapping[str, Any] | None = None,
        reads_store: bool = False,
        acts_in_store: bool = False,
        poll: bool = False,
    ) -> None:
        # First, because it also copies whatever attributes the function carries.
        functools.update_wrapper(cast("Callable[..., Any]", self), function)
        self.name: str = _check_name(function, name)
        self.description: str = _describe(function, description)
        # Unknown means dangerous: only a tool that says so may be run a second time unasked.
        self.side_effect: bool = True if side_effect is None else side_effect
        self.idempotent: bool = bool(idempotent)
        self.grant: str | None = _check_grant(self.name, grant)
        self.timeout_s: float | None = _check_seconds(self.name, "timeout_s", timeout_s)
        self.heartbeat_timeout_s: float | None = _check_seconds(
            self.name, "heartbeat_timeout_s", heartbeat_timeout_s
        )
        # What acts and must not be repeated is of high risk, unless its author has thought about it.
        acts_once = self.side_effect and not self.idempotent
        chosen: Risk = risk if risk is not None else "high" if acts_once else "low"
        self.risk: Risk = _check_choice(self.name, "risk", chosen, get_args(Risk))
        self.trust: str = _check_choice(self.name, "trust", trust, get_args(Trust))
        self.reads_store: bool = reads_store
        """Whether its results are what this store holds; placeholders in them are no look-alikes."""
        self.acts_in_store: bool = acts_in_store
        """Whether it only starts runs below its own: each of them is held to the mode of a fork above."""
        self.poll: bool = poll
        """Whether it is called again and again to wait for something: such calls never count as being
        stuck."""
        self.function: Callable[P, R_co] = function
        self._probe = probe
        self._compensate = compensate
        self._parameters = Parameters(function, names=names)
        self._schema: ToolSchema | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, side_effect={self.side_effect}, idempotent={self.idempotent})"

    @property
    def schema(self) -> ToolSchema:
        if self._schema is None:
            self._schema = ToolSchema(
                name=self.name, description=self.description, parameters=self._parameters.json_schema()
            )
        return self._schema

    def validate(self, arguments: object) -> dict[str, Any]:
        """The arguments as JSON data that fits the schema; a dict or JSON text is accepted.

        Errors: `InvalidArguments`, at most 2 KB of text that names each bad key.
        """
        return self._parameters.check(arguments, tool=self.name)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> object:
        """Run the function; the result is JSON data, with media beside it if the function returned some.

        Errors: `InvalidArguments` before the function is entered, `ToolResultInvalid` after it has
        returned, and whatever it raises itself.
        """
        values: dict[str, Any] = self._parameters.convert(arguments, tool=self.name)
        if self._parameters.context is not None:
            values[self._parameters.context] = context
        result = await _invoke(functools.partial(cast(Hook, self.function), **values), context)
        if isinstance(result, ToolReturn):
            return await self._with_media(result)
        return await self._plain(result)

    async def _with_media(self, result: ToolReturn) -> object:
        from artelier.artifacts.media.inspection import ResultWithMedia, ShownMedia

        value = await self._plain(result.value)
        data = cast("dict[str, object]", value) if isinstance(value, dict) else {"result": value}
        shown = ShownMedia()
        notes = [await shown.add(len(one), functools.partial(bytes, one)) for one in result.media]
        told: dict[str, object] = {**data, "media": notes}
        return ResultWithMedia(value=told, media=tuple(shown.facts)) if shown.facts else told

    async def _plain(self, result: object) -> object:
        from artelier.artifacts.content import is_small

        if is_small(result, bytes_max=AT_ONCE_BYTES_MAX):
            return self._json(result)
        return await asyncio.to_thread(self._json, result)  # what it has found is as large as it likes

    @property
    def probe(self) -> Callable[[str, dict[str, Any]], Awaitable[object]] | None:
        """Asks the outside world what became of a call; it gets the values the function gets."""
        return None if self._probe is None else self._run_probe

    async def _run_probe(self, idempotency_key: str, arguments: dict[str, Any]) -> object:
        given = self._parameters.convert(arguments, tool=self.name)
        values = {**self._parameters.defaults(), **given}
        hook = cast(Hook, self._probe)
        answer = await _invoke(functools.partial(hook, idempotency_key, values))
        if isinstance(answer, Happened):
            return Happened(self._json(answer.result))
        return answer if answer is None or isinstance(answer, ProbeAnswer) else self._json(answer)

    @property
    def compensate(self) -> Compensate | None:
        """Undoes a completed call; it gets the values the function got, its recorded result and a context."""
        return None if self._compensate is None else self._run_compensate

    async def _run_compensate(
        self, arguments: dict[str, Any], result: object, context: ToolContext
    ) -> object:
        given = self._parameters.convert(arguments, tool=self.name)
        values = {**self._parameters.defaults(), **given}
        return await undo_with(cast(Hook, self._compensate), values, result, context)

    def _json(self, value: object) -> object:
        try:
            return plain_json(value)
        except NotJson as error:
            raise ToolResultInvalid(
                f"the result of `{self.name}` is not JSON data: {str(error)[:300]}",
                hint="Return text, numbers, lists, dicts, dataclasses or pydantic models.",
            ) from None


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    side_effect: bool | None = None,
    idempotent: bool | None = None,
    grant: str | None = None,
    timeout_s: float | None = None,
    heartbeat_timeout_s: float | None = None,
    name: str | None = None,
    description: str | None = None,
    risk: Risk | None = None,
    trust: Trust = "untrusted",
    probe: Hook | None = None,
    compensate: Hook | None = None,
    reads_store: bool = False,
    acts_in_store: bool = False,
    poll: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **facts: Any) -> Any:
    """Make a function a tool, bare (`@tool`) or with facts (`@tool(side_effect=False)`).

    `side_effect=False` means read-only. Without `side_effect` or `idempotent` the tool counts as
    side-effecting and is never repeated unasked; such a tool is of `high` risk unless `risk` says otherwise,
    every other one of `low` risk. `poll=True`: it is called again and again to wait for something, so that
    equal calls with equal results are no sign of being stuck. A parameter annotated `ToolContext` is supplied
    by the kernel and hidden from the model.
    Errors: `InvalidRequest` for a signature, name or fact that can't be used.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    # Types defined inside the calling function can only be found while it runs.
    names = None if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    del frame

    def decorate(decorated: Callable[..., Any]) -> Tool[..., object]:
        return Tool(decorated, names=names, **facts)

    return decorate if function is None else decorate(function)


async def undo_with(hook: Hook, arguments: dict[str, Any], result: object, context: ToolContext) -> object:
    """Call what undoes a call; its value as JSON data, or None. Errors: what it raises."""
    told = await _invoke(functools.partial(hook, arguments, result, context), context)
    try:
        return plain_json(told)
    except NotJson:
        return None  # nobody waits for it: that it came to its end is what counts


async def _invoke(function: Callable[[], Any], context: ToolContext | None = None) -> object:
    """Call a function, in a thread if it is not async. `context`: of the call that is told of the thread."""
    if not _is_async(function):
        begin = context.in_thread if context is not None else _untold
        result = await _threads.run(function, ended=begin())
        if not inspect.isawaitable(result):
            return result
        over = begin()  # if it is cut off, nobody sees what it leaves behind: never told to be over
        value = await result
        over()
        return value
    try:
        return await function()
    except SystemExit:
        # A tool may end itself, never the program that drives it.
        raise RuntimeError("the tool raised SystemExit") from None


def _untold() -> Callable[[], None]:
    return lambda: None


def _is_async(function: Callable[..., Any]) -> bool:
    inner = getattr(function, "func", function)  # Under the partial that holds the arguments.
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - the method itself is wanted
    )


def _check_name(function: Callable[..., Any], name: str | None) -> str:
    if isinstance(function, Tool | type) or not callable(cast(object, function)):
        raise InvalidRequest(
            "this can't be made a tool", expected="a function", got=type(cast(object, function)).__name__
        )
    chosen = name if name is not None else getattr(function, "__name__", "")
    if not isinstance(cast(object, chosen), str) or not _NAME.fullmatch(chosen):
        raise InvalidRequest(
            "not a tool name", expected="1-64 characters of A-Z a-z 0-9 _ -", got=repr(chosen)[:100]
        )
    return chosen


def _describe(function: Callable[..., Any], description: str | None) -> str:
    text = description if description is not None else inspect.getdoc(function) or ""
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    return " ".join(first.split())[:DESCRIPTION_CHARS_MAX]


def _check_grant(name: str, grant: str | None) -> str | None:
    if grant is not None and (not isinstance(cast(object, grant), str) or not grant.strip()):
        raise InvalidRequest(f"grant of tool `{name}` is empty", expected="such as 'payments:send'")
    return grant


def _check_seconds(name: str, what: str, seconds: float | None) -> float | None:
    if seconds is not None and (not math.isfinite(seconds) or seconds <= 0):
        raise InvalidRequest(
            f"{what} of tool `{name}` is not a duration",
            expected="a finite number of seconds above 0, or None",
            got=seconds,
        )
    return seconds


def _check_choice(name: str, what: str, value: object, choices: tuple[T, ...]) -> T:
    for one in choices:
        if one == value:
            return one
    raise InvalidRequest(
        f"{what} of tool `{name}` is unknown", expected=" or ".join(map(str, choices)), got=repr(value)
    )


# --------------------------------------------------------------------------- registry
# The tools of one place, by name.


class ToolRegistry:
    """An unchanging set of tools, ordered by name: prompts and hashes don't depend on imports."""

    def __init__(self, tools: Iterable[ToolPort] = ()) -> None:
        """Errors: `InvalidRequest` if two tools share a name."""
        self._tools: dict[str, ToolPort] = {}
        for item in sorted(tools, key=lambda each: each.name):
            if item.name in self._tools:
                raise InvalidRequest(
                    f"two tools are named `{item.name}`",
                    expected="one tool per name",
                    hint="Give one of them another name with @tool(name=...).",
                )
            self._tools[item.name] = item

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def get(self, name: str) -> ToolPort:
        """The tool of that name. Errors: `NotFound` that suggests a name that exists."""
        found = self._tools.get(name)
        if found is None:
            import difflib

            near = difflib.get_close_matches(str(name)[:64], self._tools, n=1)
            raise NotFound(
                "no such tool",
                expected=f"one of {', '.join(self._tools)[:500] or 'none'}",
                got=repr(name)[:100],
                hint=f"Did you mean `{near[0]}`?" if near else None,
            )
        return found

    def schemas(self, names: Iterable[str] | None = None) -> tuple[ToolSchema, ...]:
        """Return what a model sees of these tools (all of them by default), ordered by name."""
        chosen = self._tools if names is None else sorted(set(names))
        return tuple(self.get(name).schema for name in chosen)

    def __iter__(self) -> Iterator[ToolPort]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools


SHIPPED = frozenset(
    (
        *("ask_person", "calculator", "describe_tables", "http_json", "list_dir", "python", "query_sql"),
        *("read_file", "search_text", "write_file", "read_artifact", "delegate", "delegate_task"),
        *("skill", "load_skill", "use_skill", "unload_skill", "read_skill_file", "search_skills"),
        *("core_memory_append", "core_memory_replace", "core_memory_search", "remember", "recall", "forget"),
        "history_search",
    )
)
"""Names of tools that Artelier gives to agents itself."""


def _accepted(name: str, loaded: object) -> ToolPort:
    """Return the tool of a plugin, which must go by the name of its entry point: a list needs no import."""
    if not isinstance(getattr(loaded, "schema", None), ToolSchema):
        raise InvalidConfig(f"{name!r} is no tool", expected="a function with @tool", got=repr(loaded)[:80])
    found = cast(ToolPort, loaded)
    if found.name != name:
        raise InvalidConfig("the tool has another name", expected=name, got=repr(found.name)[:80])
    return found


TOOL_POINT = PluginPoint(TOOLS, _accepted, taken=lambda: SHIPPED)
"""A tool of every run whose kernel allows the plugin."""
