"""The providers Artelier speaks to, as data: what each needs and how its model is made.

Every builder imports its SDK when called: an SDK costs more than a second of CPU.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from artelier.errors import InvalidConfig

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.models import Model

NO_KEY = "no-key"
"""Sent where a server wants none, since the SDKs insist on one."""

_OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of calls, and their key."""

    provider: str
    api_key: str
    base_url: str | None
    is_custom: bool = False
    """Whether somebody set the URL: then the server need not be the provider's own."""

    def __repr__(self) -> str:
        return f"Endpoint(provider={self.provider!r})"  # never the key, nor a URL that may hold one


def check_url(url: str, *, name: str) -> None:
    """Refuse what is no absolute http(s) URL.

    Errors: `InvalidConfig` that names the setting, and no password that the URL may hold.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a broken IPv6 address or port
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise InvalidConfig(
            f"{name} is not a usable URL",
            expected="http://host[:port]/path or https://...",
            got=repr(url.rpartition("@")[2])[:80],
        )


Build = Callable[[str, Endpoint, "httpx2.AsyncClient"], "Model[Any]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """The requirements of a provider."""

    extra: str
    """The extra of this distribution that installs it."""
    module: str
    """What must be importable besides `pydantic_ai`."""
    key_names: tuple[str, ...]
    """Environment variables that hold the key, the first one to be named in errors."""
    build: Build
    base_url: str | None = None
    base_url_name: str | None = None
    """Environment variable that overrides `base_url`."""
    needs_key: bool = True


def openai_chat(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    """Chat Completions, which OpenAI and every OpenAI-compatible server speak."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    # A stream that ends without a finish reason was cut off, and must not pass for a whole reply.
    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    if endpoint.is_custom and not model.startswith(("gpt-", "o1", "o3", "o4", "chatgpt-")):
        # Other servers may not know the newer name, and an ignored limit is an unpaid bill.
        profile["openai_chat_supports_max_completion_tokens"] = False
    provider = OpenAIProvider(openai_client=_openai_client(endpoint, http))
    return OpenAIChatModel(model, provider=provider, profile=profile)


def openai_responses(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(openai_client=_openai_client(endpoint, http))
    # The log is the only place that keeps conversations.
    settings = OpenAIResponsesModelSettings(openai_store=False)
    return OpenAIResponsesModel(model, provider=provider, settings=settings)


def openai(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    """The Responses API, which keeps reasoning between calls; Chat Completions at another server's URL."""
    build = openai_chat if endpoint.is_custom else openai_responses
    return build(model, endpoint, http)


def anthropic(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=endpoint.api_key, base_url=endpoint.base_url, max_retries=0, http_client=http
    )
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client))


def ollama(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.providers.ollama import OllamaProvider

    provider = OllamaProvider(openai_client=_openai_client(endpoint, http))
    return OllamaModel(model, provider=provider)


def deepseek(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.deepseek import DeepSeekProvider

    provider = DeepSeekProvider(openai_client=_openai_client(endpoint, http))
    return OpenAIChatModel(model, provider=provider)


def openrouter(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from pydantic_ai.models.openrouter import OpenRouterModel
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    provider = OpenRouterProvider(openai_client=_openai_client(endpoint, http))
    return OpenRouterModel(model, provider=provider)


def google(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(api_key=endpoint.api_key, base_url=endpoint.base_url, http_client=http)
    return GoogleModel(model, provider=provider)


def groq(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from pydantic_ai.models.groq import GroqModel
    from pydantic_ai.providers.groq import GroqProvider

    # Its SDK brings an HTTP client of its own; the limit on replies does not reach it.
    provider = GroqProvider(api_key=endpoint.api_key, base_url=endpoint.base_url)
    return GroqModel(model, provider=provider)


def mistral(model: str, endpoint: Endpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from pydantic_ai.models.mistral import MistralModel
    from pydantic_ai.providers.mistral import MistralProvider

    provider = MistralProvider(api_key=endpoint.api_key, base_url=endpoint.base_url, http_client=http)
    return MistralModel(model, provider=provider)


def _openai_client(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncOpenAI:
    # The kernel retries, with a record of each attempt; the SDK must not do it unseen.
    return _openai_client_class()(
        api_key=endpoint.api_key, base_url=endpoint.base_url or _OPENAI_URL, max_retries=0, http_client=http
    )


@cache
def _openai_client_class() -> type[AsyncOpenAI]:
    from openai import AsyncOpenAI

    class Client(AsyncOpenAI):
        def __init__(self, **given: Any) -> None:  # also of the copy that is made for each request
            super().__init__(**given)
            for resource, name in ((self.chat.completions, "messages"), (self.responses, "input")):
                # Methods of the SDK have overloads, which no assignment could keep.
                setattr(resource, "create", _send_as_given(resource.create, name))  # noqa: B010

    return Client


def _send_as_given(create: Callable[..., Awaitable[Any]], name: str) -> Callable[..., Awaitable[Any]]:
    """Have the SDK send messages as they are. It would look for fields to rename in each, of which there are
    none, and nobody else has a turn before it has: two thousand take a fifth of a second.
    """

    async def send(*, extra_body: dict[str, Any] | None = None, **given: Any) -> Any:
        if isinstance(given.get(name), list):
            extra_body = {**(extra_body or {}), name: given[name]}
            given[name] = []
        return await create(**given, extra_body=extra_body)

    return send


def _openai(build: Build) -> Vendor:
    return Vendor(
        extra="openai",
        module="openai",
        key_names=("OPENAI_API_KEY",),
        base_url=_OPENAI_URL,
        base_url_name="OPENAI_BASE_URL",
        build=build,
    )


VENDORS: dict[str, Vendor] = {
    # Chat Completions is what a server behind OPENAI_BASE_URL may be expected to speak. The other two names
    # say which API it is, wherever it stands.
    "openai": _openai(openai),
    "openai-chat": _openai(openai_chat),
    "openai-responses": _openai(openai_responses),
    "anthropic": Vendor(
        extra="anthropic",
        module="anthropic",
        key_names=("ANTHROPIC_API_KEY",),
        base_url="https://api.anthropic.com",
        base_url_name="ANTHROPIC_BASE_URL",
        build=anthropic,
    ),
    "google": Vendor(
        extra="google",
        module="google.genai",
        key_names=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        base_url_name="GOOGLE_BASE_URL",
        build=google,
    ),
    "groq": Vendor(
        extra="groq",
        module="groq",
        key_names=("GROQ_API_KEY",),
        base_url="https://api.groq.com",
        base_url_name="GROQ_BASE_URL",
        build=groq,
    ),
    "mistral": Vendor(
        extra="mistral",
        module="mistralai",
        key_names=("MISTRAL_API_KEY",),
        base_url_name="MISTRAL_BASE_URL",
        build=mistral,
    ),
    "deepseek": Vendor(
        extra="openai",
        module="openai",
        key_names=("DEEPSEEK_API_KEY",),
        base_url="https://api.deepseek.com",
        base_url_name="DEEPSEEK_BASE_URL",
        build=deepseek,
    ),
    "openrouter": Vendor(
        extra="openai",
        module="openai",
        key_names=("OPENROUTER_API_KEY",),
        base_url="https://openrouter.ai/api/v1",
        base_url_name="OPENROUTER_BASE_URL",
        build=openrouter,
    ),
    "ollama": Vendor(
        extra="openai",
        module="openai",
        key_names=("OLLAMA_API_KEY",),
        base_url="http://localhost:11434/v1",
        base_url_name="OLLAMA_BASE_URL",
        needs_key=False,
        build=ollama,
    ),
}
"""Providers by the part of a model's name before the colon."""
