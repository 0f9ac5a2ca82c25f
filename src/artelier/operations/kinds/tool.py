"""The kind `tool`: one call of a registered tool, through the kernel's two phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic import Field

from artelier.operations.kinds.contract import (
    OperationCall,
    OperationFailed,
    OperationKind,
    OperationResult,
    Problem,
    make_found,
    mistakes,
    render_template,
)
from artelier.operations.profile.definition import TEMPLATE_CHARS_MAX, Params

DEPTH_MAX = 16
TEXTS_MAX = 200
"""Templates in the arguments of one call."""


class ToolParams(Params):
    """A tool by name. Its permission, its approval and its risk are the run's, as for any other call."""

    name: str = Field(min_length=1, max_length=200)
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    """JSON. Each text in it is a template; what it gives is a text, and the tool checks the whole."""
    strict: bool = True


async def _run(call: OperationCall[ToolParams]) -> OperationResult:
    """Errors: those of templates; `tool_error` for what the tool says, refusals included; `too_large`."""
    params = call.params
    arguments = _fill(params.arguments, call.scope.names, strict=params.strict)
    result = await call.run.step_tool(params.name, arguments, key="tool")
    if result.is_error:
        raise _failure(params.name, result.value)
    return replace(make_found(result.value), media=result.media)


def _fill(value: object, names: Mapping[str, Any], *, strict: bool) -> object:
    """The same JSON with every text rendered once; names of fields are no templates."""
    if isinstance(value, str):
        return render_template(value, names, strict=strict)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _fill(item, names, strict=strict) for name, item in fields.items()}
    if isinstance(value, list | tuple):
        return [_fill(item, names, strict=strict) for item in cast("list[Any]", value)]
    return value


def _failure(name: str, value: object) -> OperationFailed:
    """Return what a tool answered instead of a result, as the kernel recorded it."""
    wire: object = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    told = cast("dict[str, Any]", wire) if isinstance(wire, dict) else {}
    message = str(told.get("message") or "it gave an error")
    return OperationFailed(
        "tool_error",
        f"the tool {name} failed: {message[:1_000]}",
        details={"tool": name, "code": str(told.get("code") or "error"), "message": message[:1_000]},
    )


def _problems(params: ToolParams) -> Iterable[Problem]:
    texts: dict[str, str | None] = {}
    waiting: list[tuple[str, Any, int]] = [("arguments", params.arguments, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if depth > DEPTH_MAX or len(texts) > TEXTS_MAX:
            yield Problem(
                path="arguments",
                code="too_large",
                message=f"arguments have at most {DEPTH_MAX} levels and {TEXTS_MAX} texts",
            )
            return
        if isinstance(value, str):
            if len(value) > TEMPLATE_CHARS_MAX:
                yield Problem(path=path, code="too_large", message="a template is too long")
                return
            texts[path] = value
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            waiting += [(f"{path}.{name}", item, depth + 1) for name, item in fields.items()]
        elif isinstance(value, list | tuple):
            items = cast("list[Any]", value)
            waiting += [(f"{path}[{at}]", item, depth + 1) for at, item in enumerate(items)]
    yield from mistakes(dict(sorted(texts.items())))


KIND: OperationKind[ToolParams] = OperationKind(name="tool", params=ToolParams, run=_run, problems=_problems)
