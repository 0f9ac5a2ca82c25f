"""`Durable`: the capability that makes the runs of a PydanticAI agent steps of a run.

It is an engine of `pydantic_ai.durable_exec`: that decides what a unit is, and each unit comes here. A
request to a model is a model step (a hold, a price, a manifest), a tool call is a tool step (approval, probe,
at most once), what is found or computed is a journaled computation. Outside of `Durable.within` it does
nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn, cast

from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    BoundDurableOperation,
    DurabilityEngineSpec,
    DurableOperation,
    DurableOperationBackend,
    DurableOperationId,
    DynamicToolsetCallToolParams,
    EventStreamHandlerId,
    JournalOperationNamer,
    ModelCancelSuspendedResponseId,
    ModelCompactMessagesId,
    ModelRequestId,
    ModelRequestParams,
    ToolsetCallToolId,
    ToolsetCallToolParams,
    conversation_id_from_run_id,
    durable_unit_scope,
)
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import (
    CompletedStreamedResponse,
    KnownModelName,
    Model,
    ModelRequestParameters,
    ModelResolutionContext,
    StreamedResponse,
    infer_model_profile,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import (
    AgentDepsT,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.toolsets import AbstractToolset, ExternalToolset, WrapperToolset

from artelier.errors import InvalidRequest, OutputInvalid
from artelier.integrations.pydantic_ai.messages import MediaShelf, map_request, response_of, unmapped
from artelier.integrations.pydantic_ai.tools import AgentCall, call_tool, current_call, is_in_tool, leave_tool
from artelier.kernel import Run
from artelier.kernel.steps.model_call import ModelCall
from artelier.kernel.steps.model_step import model_step
from artelier.models.provider import ProviderModel
from artelier.models.vendors import NO_KEY, Endpoint
from artelier.ports.model import ModelReply
from artelier.tokens.model_info import canonical_name, split_name

# Models of a PydanticAI agent as the kernel asks them: by name, or through the agent's own instance.


class KernelModel(Model[Any]):
    """A model that only the kernel of the run knows: it has a name and a profile, and no client."""

    def __init__(self, name: str) -> None:
        self._name = canonical_name(name)
        super().__init__(profile=_profile_of(self._name))

    @property
    def model_name(self) -> str:
        return split_name(self._name)[1] or self._name

    @property
    def system(self) -> str:
        return split_name(self._name)[0]

    @property
    def name(self) -> str:
        """The name under which the kernel knows it."""
        return self._name

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> NoReturn:
        raise InvalidRequest(
            f"{self._name!r} was asked outside of the run that knows it",
            expected="a request of a durable agent inside of Durable.within(run)",
        )


def _profile_of(name: str) -> ModelProfile:
    """Return what the name says of a model; of an unknown name, what holds for most."""
    try:
        return infer_model_profile(name)
    except Exception:  # the library raises its own for names of other people's models
        return ModelProfile(supports_tools=True, supports_json_schema_output=True)


def served_model(model: Model[Any]) -> tuple[str, Model[Any] | None]:
    """Return the canonical name of a model, and the instance to ask if it is not the kernel's."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    if isinstance(model, KernelModel):
        return model.name, None
    return canonical_name(f"{model.system}:{model.model_name}"), model


def instance_port(model: Model[Any]) -> ProviderModel:
    """Return a port for an instance: it is asked with its own client, key and address."""
    served = _WholeFunctionModel(model) if _is_unstreamed(model) else model

    def build(name: str, at: Endpoint, http: object) -> Model[Any]:
        return served

    endpoint = Endpoint(provider=model.system, api_key=NO_KEY, base_url=None, is_custom=True)
    return ProviderModel(build, endpoint, key_name="the key of the model instance", model=model.model_name)


def _is_unstreamed(model: Model[Any]) -> bool:
    return isinstance(model, FunctionModel) and model.stream_function is None


class _WholeFunctionModel(WrapperModel):
    """A `FunctionModel` without a stream function: its reply comes in one piece."""

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        response: ModelResponse = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )


_KEY_CHARS_MAX = 80


@dataclass(slots=True)
class _DurableRun:
    """A run, and what its agents have asked for so far, by which their steps are keyed."""

    run: Run
    counts: Counter[str] = field(default_factory=Counter[str])
    shelf: MediaShelf = field(default_factory=MediaShelf)
    ports: dict[int, tuple[Model[Any], ProviderModel]] = field(
        default_factory=dict[int, tuple[Model[Any], ProviderModel]]
    )
    """Of instances, by identity; each beside its instance, which keeps the identity its own."""

    def key(self, *parts: str) -> str:
        """Return the next key under a name: the same in every process that drives this run."""
        name = "/".join(_key_part(part) for part in parts)
        self.counts[name] += 1
        return f"{name}-{self.counts[name]}"

    def port(self, model: Model[Any]) -> ProviderModel:
        """Return the port of an instance, made once."""
        if id(model) not in self.ports:
            self.ports[id(model)] = (model, instance_port(model))
        return self.ports[id(model)][1]


def _key_part(text: str) -> str:
    """Return a text as a part of a key: legal, bounded and still unique."""
    if text and len(text) <= _KEY_CHARS_MAX and text.isprintable() and "/" not in text:
        return text
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


_scope: ContextVar[_DurableRun | None] = ContextVar("artelier_durable_scope", default=None)


def _open_scope() -> _DurableRun:
    scope = _scope.get()
    assert scope is not None, "an operation is dispatched in a durable context only"
    return scope


class Durable(BaseDurabilityCapability[AgentDepsT]):
    """Makes the runs of an agent durable: `Agent(..., name="support", capabilities=[Durable()])`.

    Inside of `with Durable.within(run):` an agent's calls are steps of that run: recorded, limited, priced,
    explained by manifests, and not made again when the run is resumed. Outside, the agent is a plain one.

    A model that is named by text is asked through the kernel, with its keys, prices and `models=`; a `Model`
    instance is asked itself, under the name `<system>:<model_name>`. Tools are side effects of high risk
    unless their `metadata={"artelier": {...}}` says otherwise (`side_effect`, `idempotent`, `risk`, `grant`,
    `timeout_s`, `probe`).
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Artelier",
        durable_unit_noun="step",
        durable_container_noun="run",
        codec=JSON_CODEC,
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        unsupported_runtime_toolset_kinds=frozenset(("function", "mcp", "dynamic")),
    )

    def __init__(self, *, name: str | None = None, models: Mapping[str, Model[Any]] | None = None) -> None:
        """`name`: in the keys of steps; by default the agent's. `models`: more instances, by their names."""
        super().__init__(name=name, models=models)

    @staticmethod
    @contextmanager
    def within(run: Run) -> Generator[None]:
        """Make what durable agents do in this block steps of a run."""
        token, back = _scope.set(_DurableRun(run)), leave_tool()
        try:
            yield
        finally:
            back()
            _scope.reset(token)

    @property
    def in_durable_context(self) -> bool:
        return _scope.get() is not None

    def get_durable_operation_backend(self) -> DurableOperationBackend[Any]:
        return _RunBackend(self)

    def get_default_run_id(self) -> str | None:
        """Return the id of the agent's next run: its name and how many of it there were."""
        scope = _scope.get()
        return None if scope is None else f"{scope.run.id}:{scope.key(self.name)}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        return None if _scope.get() is None else conversation_id_from_run_id(run_id)

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        if (scope := _scope.get()) is None or not scope.run.core.started_us:
            return None
        return datetime.fromtimestamp(scope.run.core.started_us / 1_000_000, UTC)

    async def resolve_model_id(
        self, ctx: ModelResolutionContext[AgentDepsT], *, model_id: KnownModelName | str
    ) -> Model[Any] | None:
        """Return a model that the kernel asks by its name, so that no key is needed here."""
        found = await super().resolve_model_id(ctx, model_id=model_id)
        return KernelModel(model_id) if found is None and self.in_durable_context else found

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask a person, durably, about each call that wants approval; calls made elsewhere are left open."""
        if (scope := _scope.get()) is None or not requests.approvals:
            return None
        answers: dict[str, bool | ToolApproved | ToolDenied] = {}
        for call in requests.approvals:
            details = {"tool": call.tool_name, "arguments": call.args_as_dict()}
            key = scope.key(_agent_run(ctx), "approval", call.tool_call_id)
            answer = await scope.run.approve(f"{call.tool_name} wants approval.", details, key=key)
            if not answer:
                why = f": {answer.note}" if answer.note else ""
                answers[call.tool_call_id] = ToolDenied(f"A person denied this call{why}.")
            else:
                edited = answer.arguments if answer.decision == "edit" else None
                answers[call.tool_call_id] = ToolApproved(override_args=edited)
        return DeferredToolResults(approvals=cast(Any, answers))

    def _wrap_leaf_toolset(self, ts: AbstractToolset[AgentDepsT]) -> WrapperToolset[AgentDepsT] | None:
        """Return a toolset whose calls are steps; None for one that its caller runs.

        Errors: `InvalidRequest` for one whose calls nobody would see.
        """
        wrapped = super()._wrap_leaf_toolset(ts)
        if wrapped is None and not isinstance(ts, ExternalToolset):
            expected = "FunctionToolset, MCPToolset, DynamicToolset or ExternalToolset"
            raise unmapped("toolset", type(ts).__name__, expected=expected)
        return wrapped

    def request_model(self, params: ModelRequestParams) -> Model[Any]:
        """Return the model that a request is for."""
        registered = self._models_by_id.get(params.model_id or "default")
        return (
            KernelModel(str(params.model_id or self.default_model_id)) if registered is None else registered
        )


def _agent_run(ctx: RunContext[Any]) -> str:
    """Return the name of an agent's run in the keys of its steps."""
    return (ctx.run_id or "agent").rpartition(":")[2]


class _RunBackend(DurableOperationBackend[None]):
    """Binds each operation of an agent to a step of the run at hand."""

    def __init__(self, owner: Durable[Any]) -> None:
        self._owner = owner

    def bind(self, operation: DurableOperation[Any, Any, Any]) -> BoundDurableOperation[Any, Any, Any]:
        return _StepOperation(self._owner, operation)

    def config_for_tool(
        self, operation: DurableOperation[Any, Any, Any], *, tool: object | None, tool_name: str
    ) -> Literal[False] | None:
        return None

    def registrations(self) -> Sequence[Callable[..., object]]:
        return ()


class _StepOperation(BoundDurableOperation[Any, Any, Any]):
    """One operation of an agent, taken as a step."""

    def __init__(self, owner: Durable[Any], operation: DurableOperation[Any, Any, Any]) -> None:
        self._owner = owner
        self._operation = operation

    @property
    def operation(self) -> DurableOperation[Any, Any, Any]:
        return self._operation

    async def __call__(self, params: Any, *, config: object | None = None) -> Any:
        scope, id_ = _open_scope(), self._operation.operation_id
        if is_in_tool():
            raise InvalidRequest(
                f"the agent {self._owner.name!r} was run inside of a tool of a durable agent",
                expected="its run in the code of the durable run, or in a run of its own",
                hint="In the tool: async with kernel.run(ID) as run: and with Durable.within(run):",
            )
        if isinstance(id_, ModelRequestId):
            return await _ask_model(scope, self._owner, params)
        if isinstance(id_, ToolsetCallToolId):
            return await self._call_tool(scope, params)
        if isinstance(id_, ModelCompactMessagesId | ModelCancelSuspendedResponseId):
            expected = "requests that end with their reply"
            raise unmapped("model operation", type(id_).__name__.removesuffix("Id"), expected=expected)
        if isinstance(id_, EventStreamHandlerId):  # who watches is told again on a resume
            return await self._operation.handler(params)
        return await self._compute(scope, id_, params)

    async def _compute(self, scope: _DurableRun, id_: DurableOperationId, params: Any) -> Any:
        name = JournalOperationNamer(self._owner.name).operation_name(id_)

        async def work() -> object:
            with durable_unit_scope():
                return self._operation.result_codec.dump(await self._operation.handler(params))

        key = scope.key("agent", name)
        return self._operation.result_codec.load(await scope.run.step(name[:200], work, key=key))

    async def _call_tool(
        self, scope: _DurableRun, params: ToolsetCallToolParams | DynamicToolsetCallToolParams
    ) -> Any:
        async def run(arguments: dict[str, Any]) -> Any:
            outcome = await self._operation.handler(replace(params, tool_args=arguments))
            return self._operation.result_codec.dump(outcome)

        tool = params.tool if isinstance(params, ToolsetCallToolParams) else None
        definition = tool.tool_def if tool is not None else getattr(params, "tool_def", None)
        assert definition is not None, "an agent resolves its tools before it calls them"

        def validate(arguments: dict[str, Any]) -> dict[str, Any]:
            if tool is None:  # of a dynamic toolset, whose validators live as long as its step
                return arguments
            return tool.args_validator.validate_python(arguments, context=params.ctx.validation_context)

        call_id = params.ctx.tool_call_id or params.name
        call = AgentCall(
            definition=definition,
            arguments=params.tool_args,
            validate=validate,
            run=run,
            tool_call_id=call_id,
        )
        key = scope.key(_agent_run(params.ctx), params.name, call_id)
        return self._operation.result_codec.load(await call_tool(scope.run, call, key=key))


async def _ask_model(scope: _DurableRun, owner: Durable[Any], params: ModelRequestParams) -> ModelResponse:
    """Take the model step of a request.

    Errors: `InvalidRequest` that names what cannot be mapped; those of `Run.step_model`, but for
    `OutputInvalid`: what does not fit its schema is the agent's to judge.
    """
    model = owner.request_model(params)
    settings, parameters = model.prepare_request(params.model_settings, params.model_request_parameters)
    core = scope.run.core
    asked = await map_request(core, scope.shelf, params.messages, settings, parameters)
    name, instance = served_model(model)
    timeout_s = asked.params.pop("timeout_s", None)
    call = ModelCall(
        model=name,
        messages=asked.messages,
        output=asked.output_schema,
        tools=asked.tools,
        params=asked.params,
        timeout_s=timeout_s,
        media=asked.media,
        port=None if instance is None else scope.port(instance),
    )
    try:
        result = await model_step(core, call, key=scope.key(_agent_run(params.run_context), "model"))
    except OutputInvalid as error:
        reply: object = error.facts.get("reply")
        if not isinstance(reply, ModelReply):
            raise
    else:
        reply = result.reply or ModelReply(
            text=result.text,
            tool_calls=result.tool_calls,
            usage=result.usage,
            finish_reason=result.finish_reason,
        )
    return response_of(reply, model=canonical_name(name))


__all__ = ["Durable", "KernelModel", "current_call", "instance_port", "served_model"]
