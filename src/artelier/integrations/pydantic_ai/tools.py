"""Tools of a PydanticAI agent as tool steps: recorded, approved and probed like any other tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast, get_args

from pydantic import ValidationError
from pydantic_ai.durable_exec import durable_unit_scope
from pydantic_ai.tools import ToolDefinition
from pydantic_core import PydanticSerializationError, to_jsonable_python

from artelier.errors import InvalidArguments, InvalidRequest, ToolFailed
from artelier.kernel import Run
from artelier.ports.model import ToolCall, ToolSchema
from artelier.ports.tool import Risk, ToolContext
from artelier.tools import ToolResultInvalid

METADATA = "artelier"
"""The key of a tool's metadata under which its facts stand."""

OUTCOME = "pydantic_ai_outcome"
"""The key under which a result stands that is no plain value: a retry, a failure, a `ToolReturn`."""

Probe = Callable[[str, dict[str, Any]], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMetadata:
    """The facts in a tool's `metadata={"artelier": {...}}`. By default it is a side effect of high risk."""

    side_effect: bool = True
    idempotent: bool = False
    risk: Risk = "high"
    grant: str | None = None
    timeout_s: float | None = None
    probe: Probe | None = None
    """`probe(idempotency_key, arguments)`: see `ToolPort.probe`."""


_CHECKS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "side_effect": ("true or false", lambda value: isinstance(value, bool)),
    "idempotent": ("true or false", lambda value: isinstance(value, bool)),
    "risk": ("low, medium or high", lambda value: value in get_args(Risk)),
    "grant": ("the name of a grant", lambda value: isinstance(value, str)),
    "timeout_s": ("seconds above 0", lambda value: isinstance(value, int | float) and value > 0),
    "probe": ("an async function of (idempotency_key, arguments)", callable),
}


def facts_of(definition: ToolDefinition) -> ToolMetadata:
    """Return what a tool says of itself. Errors: `InvalidRequest` that names the wrong fact."""
    given: object = (definition.metadata or {}).get(METADATA, {})
    if not isinstance(given, Mapping):
        raise InvalidRequest(
            f"the metadata {METADATA!r} of tool {definition.name!r} is no mapping",
            expected='such as {"artelier": {"side_effect": False}}',
            got=repr(given)[:80],
        )
    facts = dict(cast("Mapping[str, Any]", given))
    for name, value in facts.items():
        if name not in _CHECKS:
            raise InvalidRequest(
                f"tool {definition.name!r} has a fact that no tool has",
                expected=", ".join(_CHECKS),
                got=repr(name)[:80],
            )
        expected, is_valid = _CHECKS[name]
        if value is not None and not is_valid(value):
            raise InvalidRequest(
                f"fact {name!r} of tool {definition.name!r} has a wrong value",
                expected=expected,
                got=repr(value)[:80],
            )
    facts.setdefault("timeout_s", definition.timeout)
    return ToolMetadata(**{name: value for name, value in facts.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCall:
    """One call that an agent makes: what the kernel is told of it, and how it is made."""

    definition: ToolDefinition
    arguments: dict[str, Any]
    """As PydanticAI has validated them: dates and models are objects."""
    validate: Callable[[dict[str, Any]], dict[str, Any]]
    """Return arguments as those objects. Errors: `pydantic.ValidationError`."""
    run: Callable[[dict[str, Any]], Awaitable[Any]]
    """Call the tool; its outcome as JSON data, a retry or a failure too."""
    tool_call_id: str

    @property
    def json_arguments(self) -> dict[str, Any]:
        """The arguments as JSON data. Errors: `InvalidRequest`."""
        try:
            return cast("dict[str, Any]", to_jsonable_python(self.arguments))
        except PydanticSerializationError as error:
            raise InvalidRequest(
                f"the arguments of {self.definition.name!r} cannot be recorded: {error}"[:400],
                expected="arguments that have a form as JSON",
            ) from None


_at_call: ContextVar[AgentCall | None] = ContextVar("artelier_agent_call", default=None)
_context: ContextVar[ToolContext | None] = ContextVar("artelier_tool_context", default=None)


def current_call() -> ToolContext:
    """Return the context of the tool call at hand: `idempotency_key`, `spend`, `ask`, `progress`.

    Errors: `InvalidRequest` outside of a tool of a durable agent.
    """
    if (context := _context.get()) is None:
        raise InvalidRequest(
            "no tool of a durable agent is at work here", hint="Call it inside of the tool's function."
        )
    return context


def is_in_tool() -> bool:
    """Return True inside of a tool of a durable agent."""
    return _context.get() is not None


def leave_tool() -> Callable[[], None]:
    """Count what follows as outside of any tool; call what is returned to go back."""
    token = _context.set(None)
    return lambda: _context.reset(token)


class DurableTool:
    """A tool of an agent, as the kernel drives it."""

    def __init__(self, definition: ToolDefinition) -> None:
        facts = facts_of(definition)
        self.trust = "untrusted"
        self.heartbeat_timeout_s: float | None = None
        self.name = definition.name
        self.description = definition.description or ""
        self.side_effect, self.idempotent = facts.side_effect, facts.idempotent
        self.grant, self.timeout_s = facts.grant, facts.timeout_s
        self.risk: Risk = facts.risk
        self._probe = facts.probe
        self._schema = ToolSchema(
            name=self.name, description=self.description, parameters=dict(definition.parameters_json_schema)
        )

    @property
    def schema(self) -> ToolSchema:
        return self._schema

    @property
    def probe(self) -> Probe | None:
        return self._probe

    def validate(self, arguments: object) -> dict[str, Any]:
        """Return the arguments as they came, if the tool takes them. Errors: `InvalidArguments`."""
        if not isinstance(arguments, dict):
            raise InvalidArguments(
                f"the arguments of {self.name!r} are no object",
                expected="a JSON object",
                got=type(arguments).__name__,
            )
        given = cast("dict[str, Any]", arguments)
        if (call := _at_call.get()) is not None:
            try:
                call.validate(given)
            except ValidationError as error:
                raise InvalidArguments(
                    f"the arguments of {self.name!r} do not fit: {error}"[:2_000]
                ) from None
        return given

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> object:
        """Call the tool of the agent. Errors: `ToolResultInvalid`; whatever the tool raises."""
        call = _at_call.get()
        if call is None or call.definition.name != self.name:
            raise ToolFailed(
                f"only its agent can call {self.name!r}", hint="Resume the run with the agent's own program."
            )
        is_edited = arguments != call.json_arguments
        given = call.validate(arguments) if is_edited else call.arguments
        token = _context.set(context)
        try:
            with durable_unit_scope():
                return plain_value(cast("dict[str, Any]", await call.run(given)))
        except PydanticSerializationError as error:
            raise ToolResultInvalid(
                f"the result of `{self.name}` is not JSON data: {str(error)[:300]}"
            ) from None
        finally:
            _context.reset(token)


def plain_value(payload: dict[str, Any]) -> object:
    """Return a result as it is, and any other outcome under `OUTCOME`."""
    value: object = payload.get("result")
    keys = set(cast("dict[str, Any]", value)) if isinstance(value, dict) else set[str]()
    is_plain = payload.get("kind") == "tool_return" and set(payload) <= {"kind", "result"}
    return payload["result"] if is_plain and keys.isdisjoint(("kind", OUTCOME)) else {OUTCOME: payload}


def payload_of(value: object) -> object:
    """Return the outcome that `plain_value` was given; of what a probe or a person says, a plain result."""
    found = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return found[OUTCOME] if set(found) == {OUTCOME} else {"kind": "tool_return", "result": cast(Any, value)}


async def call_tool(run: Run, call: AgentCall, *, key: str) -> object:
    """Take the step of a call, and return its outcome as PydanticAI's codec reads it.

    Errors: `pydantic_ai.exceptions.ToolFailed` for what a model is told instead of a result: a denial, a
    missing grant, a failure; `RunSuspended` with `unknown_outcome`, as of `Run.step_tool`.
    """
    from pydantic_ai.exceptions import ToolFailed as AgentToolFailed

    core, name = run.core, call.definition.name
    known = core.tools.get(name)
    if known is not None and not isinstance(known, DurableTool):
        raise InvalidRequest(
            f"the kernel and the agent each have a tool {name!r}",
            expected="one tool of a name",
            hint="Give the agent's tool another name, or leave it out of Kernel.open(tools=...).",
        )
    core.tools = {**core.tools, name: DurableTool(call.definition)}
    arguments = call.json_arguments
    token = _at_call.set(call)
    try:
        asked = ToolCall(id=call.tool_call_id, name=name, arguments=arguments)
        result = await run.step_tool(name, arguments, key=key, call=asked)
    finally:
        _at_call.reset(token)
    if result.is_error:
        raise AgentToolFailed(_message_of(result.value))
    return payload_of(result.value)


def _message_of(value: Any) -> str:
    """Return what a recorded error says to a model."""
    told: Any = cast("dict[str, Any]", value).get("error", "") if isinstance(value, dict) else value
    wire = cast("dict[str, Any]", told) if isinstance(told, dict) else {"message": told}
    said = [wire.get("message"), wire.get("expected") and f"expected: {wire['expected']}", wire.get("hint")]
    return "; ".join(str(one) for one in said if one)[:4_000]
