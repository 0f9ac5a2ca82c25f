"""Models of a PydanticAI agent as the kernel asks them: by name, or through the agent's own instance."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import (
    CompletedStreamedResponse,
    Model,
    ModelRequestParameters,
    StreamedResponse,
    infer_model_profile,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from artelier.errors import InvalidRequest
from artelier.models.provider import ProviderModel
from artelier.models.vendors import NO_KEY, Endpoint
from artelier.tokens.model_info import canonical_name, split_name


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
