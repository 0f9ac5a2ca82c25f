"""A Python file of tools: loaded by its path, and every tool that it holds as a port.

A file holds functions with `@tool`, tools of other libraries, or plain functions. An object of another
library is made a tool by an adapter: an entry point of the group `artelier.tool_adapters` under the name of
that library's package. Nothing of the library is imported unless a file has imported it.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

from artelier.errors import ArtelierError, InvalidConfig, InvalidRequest, NotFound
from artelier.plugins import TOOL_ADAPTERS, PluginPoint, Plugins
from artelier.ports.tool import ToolPort
from artelier.tools.function import SHIPPED, Tool

Adapter = Callable[[object, AsyncExitStack], Awaitable[Sequence[ToolPort] | None]]
"""`(value, stack)`: the tools that an object of the adapter's library is; None if it is none.

What must stay open while the tools are used is entered into `stack`.
"""


def _adapter(name: str, loaded: Any) -> Adapter:
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
            raise InvalidRequest(f"{error.filename or path}:{error.lineno}: {error.msg}") from error
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


def tools_in(module: ModuleType) -> list[Tool[..., Any]]:
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
