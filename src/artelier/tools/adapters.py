"""Tools that people bring: a Python file, loaded by its path, and tools of PydanticAI and LangChain as ports.

A file holds functions with `@tool`, tools of other libraries, or plain functions. An object of another
library is made a tool by an adapter: an entry point of the group `artelier.tool_adapters` under the name of
that library's package. Nothing of the library is imported unless a file has imported it.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from artelier.errors import ArtelierError, InvalidConfig, InvalidRequest, NotFound, ToolFailed
from artelier.plugins import TOOL_ADAPTERS, PluginPoint, Plugins
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Risk, ToolContext, ToolPort
from artelier.tools.function import DESCRIPTION_CHARS_MAX, SHIPPED, Tool, ToolResultInvalid
from artelier.tools.json_conversion import NotJson, plain_json
from artelier.tools.mcp.schema import ArgumentSchema, Unfit, visible

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool


Adapter = Callable[[object, AsyncExitStack], Awaitable[Sequence[ToolPort] | None]]
"""`(value, stack)`: the tools that an object of the adapter's library is; None if it is none.

What must stay open while the tools are used is entered into `stack`.
"""


def _adapter(name: str, loaded: object) -> Adapter:
    if not inspect.iscoroutinefunction(loaded):
        raise InvalidConfig(
            f"{name!r} is no adapter of tools", expected="an async function", got=repr(loaded)[:80]
        )
    return loaded


ADAPTER_POINT = PluginPoint(TOOL_ADAPTERS, _adapter)
"""An adapter for the tools of another library, by the name of the package that defines their classes."""


# Loading


def import_file(path: Path) -> ModuleType:
    """Load the module of a file that is there.

    Errors: `InvalidRequest` with the file and the line that raised; `NotFound` if there is no such file.
    """
    if not path.is_file():
        raise NotFound("the file is not there", got=str(path))
    # A name of its own: a file called json.py must not become everybody's json.
    name = f"artelier_run_{path.stem}"
    spec = spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InvalidRequest("this is no Python file", expected="a file that ends in .py", got=str(path))
    module = module_from_spec(spec)
    # Its neighbours can be imported (last, so that they hide nothing), and dataclasses find their module.
    sys.path.append(str(path.resolve().parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ArtelierError as error:
        if (place := _place(error, path)) and place not in str(error):
            error.hint = f"{error.hint or ''} It was raised at {place}.".strip()
        raise
    except (Exception, SystemExit) as error:  # whatever the file does when it is loaded
        if isinstance(error, SyntaxError):
            line = f":{error.lineno}" if error.lineno else ""
            raise InvalidRequest(f"{error.filename or path}{line}: {error.msg}") from error
        what = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else "it called sys.exit"
        raise InvalidRequest(
            f"{path} cannot be loaded", got=f"{_place(error, path) or path} {what}"[:600]
        ) from error
    return module


def _place(error: BaseException, path: Path) -> str:
    """Return `file:line` of the last line of theirs that raised: the one a person must look at."""
    own = Path(__file__).parents[1]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if own not in Path(frame.filename).parents and not frame.filename.startswith("<")
    ]
    if not frames:
        return ""
    inside = [frame for frame in frames if Path(frame.filename) == path.resolve()]
    last = inside[-1] if inside else frames[-1]
    return f"{last.filename}:{last.lineno}"


# Tools of a file


def tools_in(module: ModuleType) -> list[Tool[..., object]]:
    """Return the functions with `@tool` that a module holds, each once."""
    found: dict[int, Tool[..., Any]] = {}
    for value in vars(module).values():
        if isinstance(value, Tool):
            found[id(value)] = value  # pyright: ignore[reportUnknownArgumentType] - of any signature
    return list(found.values())


@asynccontextmanager
async def open_tool_files(
    files: Sequence[str | Path], *, plugins: Plugins | None = None
) -> AsyncGenerator[list[ToolPort]]:
    """Load files and give all their tools, as long as the context is open.

    Errors: `NotFound`; `InvalidRequest` with file and line for a file that cannot be loaded, for a function
    that cannot be a tool, for two tools of one name, and for the name of one of Artelier's own.
    """
    async with AsyncExitStack() as stack:
        found: list[ToolPort] = []
        origin: dict[str, str] = {}
        for file in files:
            path = Path(file)
            for port, line in await _tools_of(import_file(path), path, plugins or Plugins(), stack):
                place = f"{path}:{line}" if line else str(path)
                if port.name in SHIPPED:
                    raise InvalidRequest(
                        f"{place}: a tool of Artelier's own is called {port.name!r}",
                        hint="Give the function another name, or @tool(name=...).",
                    )
                if port.name in origin:
                    raise InvalidRequest(
                        f"{place}: two tools are called {port.name!r}",
                        got=origin[port.name],
                        hint="Give one of them another name, or @tool(name=...).",
                    )
                origin[port.name] = place
                found.append(port)
        yield found


async def _tools_of(
    module: ModuleType, path: Path, plugins: Plugins, stack: AsyncExitStack
) -> list[tuple[ToolPort, int]]:
    """Return the tools of a module with their lines: explicit ones if there are any, else plain functions."""
    found: list[tuple[ToolPort, int]] = [(one, _line(one.function)) for one in tools_in(module)]
    known = set(plugins.names(ADAPTER_POINT))
    seen: set[int] = set()
    for name, value in list(vars(module).items()):
        if name.startswith("__") or id(value) in seen or not (library := _library(value, known)):
            continue
        seen.add(id(value))
        adapt = plugins.load(ADAPTER_POINT, library)
        try:
            ports = await adapt(value, stack)
        except ArtelierError:
            raise
        except Exception as error:  # the boundary to a library of theirs
            raise InvalidRequest(
                f"{path}: the tools of {name!r} cannot be used", got=f"{type(error).__name__}: {error}"[:300]
            ) from error
        found += [(port, 0) for port in ports or ()]
    found = found or [(_plain_tool(one, path), _line(one)) for one in _plain_functions(module)]
    if not found:
        raise InvalidRequest(
            f"{path} holds no tool",
            expected="a function with type hints and a docstring, or one with @tool",
            got="nothing of this kind",
        )
    return found


def _library(value: object, known: set[str]) -> str:
    """Return the library of an object, if there is an adapter for it; empty for a class or function."""
    if isinstance(value, type | ModuleType | FunctionType | Tool):
        return ""
    roots = (cls.__module__.partition(".")[0] for cls in type(value).__mro__)
    return next((root for root in roots if root in known), "")


def _plain_functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions that a module defines for others: its `__all__`, else names without underscore."""
    named: Any = getattr(module, "__all__", None)
    for name, value in list(vars(module).items()):
        if not isinstance(value, FunctionType):
            continue
        is_public = name in named if named is not None else not name.startswith("_")
        if is_public and value.__module__ == module.__name__:
            yield value


def _plain_tool(function: FunctionType, path: Path) -> ToolPort:
    """Return a plain function as a tool: of unknown effect, so that it is never repeated unasked.

    Errors: `InvalidRequest` naming the line of a function without a docstring or with a parameter without a
    type.
    """
    place = f"{path}:{_line(function)}: {function.__name__}"
    keep_out = "or begin its name with an underscore to keep it out of the tools."
    if not inspect.getdoc(function):
        raise InvalidRequest(
            f"{place} has no docstring", hint=f"Say in one what it does, for the model, {keep_out}"
        )
    bare = [
        one.name for one in inspect.signature(function).parameters.values() if one.annotation is one.empty
    ]
    if bare:
        raise InvalidRequest(
            f"{place} has parameters without a type",
            got=", ".join(bare)[:200],
            hint=f"Annotate them, such as `{bare[0]}: str`, {keep_out}",
        )
    try:
        made = Tool(function)
        _ = made.schema  # now, not in the middle of a run
    except InvalidRequest as error:
        raise InvalidRequest(
            f"{place} cannot be a tool: {error.message}",
            expected=error.expected,
            got=error.got,
            hint=error.hint,
        ) from error
    return cast(ToolPort, made)


def _line(function: Callable[..., Any]) -> int:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_firstlineno if code is not None else 0


# --------------------------------------------------------------------------- PydanticAI and LangChain
# Tools of PydanticAI and LangChain as ports: reached through the entry points `artelier.tool_adapters`.
#
# Neither library says whether a tool may be called twice, so that each counts as a side effect of high risk.
# Of what they say about approval nothing is lost: a call that PydanticAI wants approved asks a person.


Invoke = Callable[[dict[str, Any], ToolContext], Awaitable[Any]]


class AdaptedTool:
    """A tool of another library: its schema, and the function that calls it."""

    def __init__(
        self,
        name: str,
        *,
        description: str,
        parameters: Mapping[str, Any],
        invoke: Invoke,
        timeout_s: float | None = None,
    ) -> None:
        """Errors: `InvalidRequest` for a schema that cannot be checked."""
        self.name = name
        self.description = visible(description, chars_max=DESCRIPTION_CHARS_MAX)
        self.side_effect = True
        self.idempotent = False
        self.grant: str | None = None
        self.timeout_s = timeout_s
        self.heartbeat_timeout_s: float | None = None
        self.risk: Risk = "high"
        self.trust = "untrusted"
        self._invoke = invoke
        try:
            self._arguments = ArgumentSchema(parameters)
        except Unfit as unfit:
            raise InvalidRequest(f"the tool {name!r} cannot be used: {unfit}") from None
        self._schema = ToolSchema(name=name, description=self.description, parameters=self._arguments.schema)

    def __repr__(self) -> str:
        return f"AdaptedTool({self.name!r})"

    @property
    def schema(self) -> ToolSchema:
        return self._schema

    @property
    def probe(self) -> None:
        """None: neither library has a way to ask what became of a call."""
        return None

    def validate(self, arguments: object) -> dict[str, Any]:
        """Return the arguments as JSON data that fits the schema. Errors: `InvalidArguments`."""
        return self._arguments.check(arguments, tool=self.name)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> object:
        """Call it. Errors: `ToolFailed` where the library says that a model should try otherwise;
        `ToolResultInvalid`; whatever else the tool raises.
        """
        value = await self._invoke(arguments, context)
        try:
            return plain_json(value)
        except NotJson as error:
            raise ToolResultInvalid(
                f"the result of `{self.name}` is not JSON data: {str(error)[:300]}"
            ) from None


# PydanticAI


async def pydantic_ai_tools(value: object, stack: AsyncExitStack) -> Sequence[ToolPort] | None:
    """Return the tools of a PydanticAI `Tool` or toolset; None for anything else of that library."""
    from pydantic_ai import FunctionToolset
    from pydantic_ai import Tool as PydanticTool
    from pydantic_ai.toolsets import AbstractToolset

    if isinstance(value, PydanticTool):
        toolset: AbstractToolset[Any] = FunctionToolset([cast("PydanticTool[Any]", value)])
    elif isinstance(value, AbstractToolset):
        toolset = cast("AbstractToolset[Any]", value)
        await stack.enter_async_context(toolset)
    else:
        return None
    context = _run_context()
    listed = await toolset.get_tools(context)
    return [_from_toolset(toolset, name, one) for name, one in listed.items()]


def _run_context() -> RunContext[Any]:
    """Return the context of a call outside of any PydanticAI agent: without dependencies or a model."""
    from pydantic_ai import RunContext
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RunUsage

    class NoModel(Model):
        """The model of a context that has none."""

        @property
        def model_name(self) -> str:
            return "none"

        @property
        def system(self) -> str:
            return "artelier"

        async def request(self, *_: Any, **__: Any) -> NoReturn:
            raise InvalidConfig("a tool of PydanticAI has no model of its own in a run of Artelier")

    return RunContext(deps=None, model=NoModel(), usage=RunUsage())


def _from_toolset(toolset: AbstractToolset[Any], name: str, one: ToolsetTool[Any]) -> ToolPort:
    from dataclasses import replace

    from pydantic import ValidationError
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolRetryError

    definition = one.tool_def
    if definition.kind not in ("function", "unapproved"):
        raise InvalidRequest(
            f"the tool {name!r} is run outside of its agent, and nobody here would run it",
            expected="a tool with a function",
            got=f"kind {definition.kind!r}",
        )

    async def invoke(arguments: dict[str, Any], context: ToolContext) -> object:
        call = replace(
            _run_context(), tool_name=name, tool_call_id=context.idempotency_key, tool_call_approved=False
        )
        try:
            given = one.args_validator.validate_python(arguments, context=call.validation_context)
        except ValidationError as error:
            raise ToolFailed(f"arguments of `{name}` do not fit: {error}"[:2_000]) from None
        if definition.kind == "unapproved":
            await approved(arguments, context)
            call = replace(call, tool_call_approved=True)
        try:
            return await toolset.call_tool(name, given, call, one)
        except ApprovalRequired:
            await approved(arguments, context)
            return await toolset.call_tool(name, given, replace(call, tool_call_approved=True), one)
        except (ModelRetry, ToolRetryError) as error:
            raise ToolFailed(f"`{name}` says: {error}"[:4_000]) from error
        except CallDeferred:
            raise ToolFailed(f"`{name}` wants to be finished outside of this run, which cannot be") from None

    async def approved(arguments: dict[str, Any], context: ToolContext) -> None:
        answer = await context.ask(
            f"{name} wants approval.", {"tool": name, "arguments": arguments}, before_acting=True
        )
        if not answer:
            why = f": {answer.note}" if answer.note else ""
            raise ToolFailed(f"a person denied `{name}`{why}", hint="Go on without it.")

    return AdaptedTool(
        name,
        description=definition.description or "",
        parameters=definition.parameters_json_schema,
        invoke=invoke,
        timeout_s=definition.timeout,
    )


# LangChain


async def langchain_tools(value: object, stack: AsyncExitStack) -> Sequence[ToolPort] | None:
    """Return the tool that a LangChain `BaseTool`, or the tools that a `BaseToolkit` is; None for others."""
    from langchain_core.tools import BaseTool, BaseToolkit

    if isinstance(value, BaseToolkit):
        return [_from_langchain(one) for one in value.get_tools()]
    if isinstance(value, BaseTool):
        return [_from_langchain(value)]
    return None


def _from_langchain(one: BaseTool) -> ToolPort:
    from langchain_core.tools import ToolException

    async def invoke(arguments: dict[str, Any], context: ToolContext) -> object:
        try:
            return await one.ainvoke(arguments)
        except ToolException as error:
            raise ToolFailed(f"`{one.name}` failed: {error}"[:4_000]) from error

    schema: Any = one.tool_call_schema  # a class of pydantic's, of version 1 or 2, or JSON Schema
    if not isinstance(schema, dict):
        schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema()
    return AdaptedTool(
        one.name, description=one.description, parameters=cast("dict[str, Any]", schema), invoke=invoke
    )
