"""Tools of PydanticAI and LangChain as ports: reached through the entry points `artelier.tool_adapters`.

Neither library says whether a tool may be called twice, so that each counts as a side effect of high risk.
Of what they say about approval nothing is lost: a call that PydanticAI wants approved asks a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, cast

from artelier.errors import InvalidConfig, InvalidRequest, ToolFailed
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Risk, ToolContext, ToolPort
from artelier.tools.function import DESCRIPTION_CHARS_MAX, ToolResultInvalid
from artelier.tools.json_conversion import NotJson, plain_json
from artelier.tools.mcp.schema import ArgumentSchema, Unfit, visible

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

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

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Return the arguments as JSON data that fits the schema. Errors: `InvalidArguments`."""
        return self._arguments.check(arguments, tool=self.name)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
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
    from pydantic_ai import FunctionToolset, Tool
    from pydantic_ai.toolsets import AbstractToolset

    if isinstance(value, Tool):
        toolset: AbstractToolset[Any] = FunctionToolset([cast("Tool[Any]", value)])
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

        async def request(self, *_: Any, **__: Any) -> Any:
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

    async def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
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

    async def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
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
