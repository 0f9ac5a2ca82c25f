"""A provider as a `ModelPort`: `pydantic-ai`'s models below, our values above, its agent loop nowhere."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from artelier.models.params import settings_of, timeout_s_of
from artelier.models.vendors import NO_KEY, Build, Endpoint, check_url, groq, openai_chat
from artelier.ports.media import LoadMedia, MediaRules, media_in
from artelier.ports.model import FREE, Delta, ModelPort, ModelReply, ModelRequest, Price, sending
from artelier.threads import read_beside_loop
from artelier.tokens.estimate import media_rules
from artelier.tokens.model_info import split_name

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model, ModelRequestParameters

    from artelier.models.failures import CallFacts
    from artelier.models.http_client import BodyContents
    from artelier.models.vendor_mapper import Output

_MODELS_MAX = 64
NAME_CHARS_MAX = 200
"""Of what a provider calls itself, which stands in spans."""
_LOCAL_HOSTS = frozenset(("localhost", "127.0.0.1", "::1"))


class _VendorRequest:
    """A request in the vendor's terms."""

    __slots__ = ("contents", "messages", "model", "output", "parameters", "settings")

    def __init__(
        self,
        *,
        model: Model[Any],
        messages: list[ModelMessage],
        settings: dict[str, Any],
        parameters: ModelRequestParameters,
        output: Output | None,
        contents: BodyContents | None,
    ) -> None:
        self.contents = contents
        self.model = model
        self.messages = messages
        self.settings = settings
        self.parameters = parameters
        self.output = output

    def arguments(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": self.messages,
            "model_settings": self.settings,
            "model_request_parameters": self.parameters,
            "instrument": False,
        }


class _VendorConnection:
    """The HTTP client of one event loop, and the vendor's models that use it."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.models: dict[str, Model[Any]] = {}


@cache
def adapter_version() -> str:
    """Return name and version of what puts requests in a provider's terms."""
    from importlib.metadata import version

    return f"artelier {version('artelier')}, pydantic-ai {version('pydantic-ai-slim')}"


class ProviderModel:
    """Answers with any model of one provider; which one, the request's name says.

    `model` fixes the name that is sent, whatever the request's name is. Retries are the kernel's: one
    call here is one HTTP request at most. Cancelling the coroutine closes the connection.

    Units:  `timeout_s` of the request's parameters covers the whole call (600 s unless given).
    Errors: `RateLimited`, `ProviderUnavailable`, `ModelTimeout`, `ModelReplyBroken` (a retry may help);
            `ContextTooLong`, `ModelRefusedCall`, `External` for a reply above 32 MB; `InvalidRequest` if
            the request cannot be put in the provider's terms, before anything is sent.
    """

    def __init__(
        self,
        build: Build,
        endpoint: Endpoint,
        *,
        key_name: str,
        model: str | None = None,
        price: Price | None = None,
    ) -> None:
        self.price = price
        self._build = build
        self._endpoint = endpoint
        self._key_name = key_name
        self._model = model
        # An HTTP connection belongs to the event loop that opened it.
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, _VendorConnection]
        self._connections = WeakKeyDictionary()

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        """Return the whole reply. It is streamed all the same: providers end long calls that are not."""
        return await _whole_reply(self.stream(request))

    def media_rules(self, model: str, /) -> MediaRules:
        """Return what the model takes, as far as its name says it."""
        return media_rules(model)

    def with_media(self, load: LoadMedia, /) -> ModelPort:
        """Return the port for one call, which loads what the request shows."""
        return _MediaCall(self, load)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[Delta | ModelReply]:
        """The text as it comes, then the whole reply. Closing the iterator closes the connection."""
        async with aclosing(self.stream_with(request, {})) as items:
            async for item in items:
                yield item

    async def stream_with(
        self, request: ModelRequest, media: Mapping[str, bytes]
    ) -> AsyncGenerator[Delta | ModelReply]:
        """The same with the bytes of what the request shows, by reference."""
        prepared = await self._prepare(request, media)
        from pydantic_ai.direct import model_request_stream

        from artelier.models.failures import failure_of
        from artelier.models.http_client import sending_contents
        from artelier.models.vendor_mapper import reply_of

        call, sent = self._call(request), sending.get()
        if sent is not None:
            sent.begin(time.monotonic())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + call.timeout_s
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(deadline):
                    with sending_contents(prepared.contents):
                        response = await stack.enter_async_context(
                            model_request_stream(**prepared.arguments())
                        )
                events = aiter(response)
                while True:
                    # Time counts while we wait for the provider, never while our caller works.
                    async with asyncio.timeout_at(deadline):
                        event = await anext(events, None)
                    if event is None:
                        break
                    text, reasoning = _text_in(event), _reasoning_in(event)
                    if sent is not None:
                        chars = len(text) or len(reasoning) or _argument_chars_in(event)
                        sent.note_piece(chars, time.monotonic())
                    if text or reasoning:
                        yielded_at = loop.time()
                        yield Delta(text=text, reasoning=reasoning)
                        deadline += loop.time() - yielded_at
                whole = response.get()
                if sent is not None:
                    sent.response_id = (whole.provider_response_id or "")[:NAME_CHARS_MAX]
                    sent.response_model = (whole.model_name or "")[:NAME_CHARS_MAX]
                reply = reply_of(
                    whole, request=request, output=prepared.output, provider=prepared.model.system
                )
            except Exception as error:
                refusal = prepared.contents and prepared.contents.refusal
                raise refusal or failure_of(error, call) from None
        yield reply

    async def aclose(self) -> None:
        """Close the connections that this event loop opened."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.http.aclose()

    async def _prepare(self, request: ModelRequest, media: Mapping[str, bytes]) -> _VendorRequest:
        settings = settings_of(request.params)
        if (sent := sending.get()) is not None:
            sent.adapter, sent.params = adapter_version(), request.params
        model = await self._vendor_model(self._wire_name(request))
        size = sum(len(message.text) for message in request.messages)
        return await read_beside_loop(size, self._in_vendor_terms, request, media, settings, model, size)

    def _in_vendor_terms(
        self,
        request: ModelRequest,
        media: Mapping[str, bytes],
        settings: dict[str, Any],
        model: Model[Any],
        size_chars: int,
    ) -> _VendorRequest:
        from artelier.models import vendor_mapper
        from artelier.models.http_client import BESIDE_BYTES, BodyContents

        # Groq's SDK takes no HTTP client of ours, and its API no image that is worth the trouble.
        is_ours = self._build is not groq
        shown = [medium.blob for medium in media_in(request.messages)] if is_ours else []
        is_held = is_ours and size_chars > BESIDE_BYTES
        contents = BodyContents(media, shown) if shown or is_held else None
        profile: dict[str, Any] = dict(model.profile)
        output = vendor_mapper.output_of(request, profile)
        return _VendorRequest(
            model=model,
            messages=vendor_mapper.messages_of(
                request,
                profile,
                provider=model.system,
                media=contents.stand_ins if contents else media,
                hold=contents.hold if contents and is_held else str,
            ),
            settings={
                **vendor_mapper.cache_settings_of(request),
                **vendor_mapper.settings_for(
                    settings, model, takes_samplers=self._takes_samplers, min_p=request.params.get("min_p")
                ),
            },
            parameters=vendor_mapper.parameters_of(request, output),
            output=output,
            contents=contents,
        )

    @property
    def _takes_samplers(self) -> bool:
        """True of servers that speak Chat Completions with samplers of open models: OpenRouter, vLLM, ..."""
        speaks_chat = self._build is openai_chat or self._endpoint.provider == "openai"
        return self._endpoint.provider == "openrouter" or (self._endpoint.is_custom and speaks_chat)

    async def _vendor_model(self, name: str) -> Model[Any]:
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is not None and name in connection.models:
            return connection.models[name]
        # The first import takes more than a second: other runs of this loop go on meanwhile.
        await asyncio.to_thread(importlib.import_module, "artelier.models.vendor_mapper")
        from artelier.models.http_client import open_client

        connection = self._connections.get(loop)  # another call may have been faster
        if connection is None:
            connection = _VendorConnection(open_client(self._endpoint.base_url))
            self._connections[loop] = connection
        model = await asyncio.to_thread(self._build, name, self._endpoint, connection.http)
        if len(connection.models) >= _MODELS_MAX:
            connection.models.clear()
        connection.models[name] = model
        return model

    def _wire_name(self, request: ModelRequest) -> str:
        return self._model or split_name(request.model)[1]

    def _call(self, request: ModelRequest) -> CallFacts:
        from artelier.models.failures import CallFacts

        return CallFacts(
            model=f"{self._endpoint.provider}:{self._wire_name(request)}",
            key_name=self._key_name,
            secret=self._endpoint.api_key,
            timeout_s=timeout_s_of(request.params),
        )


class _MediaCall:
    """A provider for one call, whose request shows media."""

    def __init__(self, provider: ProviderModel, load: LoadMedia) -> None:
        self.price = provider.price
        self._provider = provider
        self._load = load

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        return await _whole_reply(self.stream(request))

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[Delta | ModelReply]:
        media = {medium.blob: await self._load(medium) for medium in media_in(request.messages)}
        async with aclosing(self._provider.stream_with(request, media)) as items:
            async for item in items:
                yield item


def openai_compatible(
    base_url: str, *, api_key: str | None = None, model: str | None = None, price: Price | None = None
) -> ProviderModel:
    """A model port for any server that speaks Chat Completions, for use in `models={...}`.

    `base_url` ends before `/chat/completions`. `model` is the name the server knows; without it, the
    part of the request's name after the colon is sent. Without a `price`, the tenant's table decides;
    a server on this machine is free.
    """
    check_url(base_url, name="base_url")
    endpoint = Endpoint(
        provider="openai-compatible", api_key=api_key or NO_KEY, base_url=base_url, is_custom=True
    )
    return ProviderModel(
        openai_chat,
        endpoint,
        key_name="the api_key given to openai_compatible()",
        model=model,
        price=price if price is not None else local_price(base_url),
    )


def local_price(base_url: str | None) -> Price | None:
    """Free on this machine; elsewhere unknown."""
    host = urlsplit(base_url).hostname if base_url else None
    return FREE if host in _LOCAL_HOSTS else None


def _argument_chars_in(event: object) -> int:
    """Return how many characters of a tool call's arguments a vendor's stream event brought."""
    from pydantic_ai.messages import PartDeltaEvent, ToolCallPartDelta

    delta = event.delta if isinstance(event, PartDeltaEvent) else None
    if isinstance(delta, ToolCallPartDelta) and isinstance(delta.args_delta, str):
        return len(delta.args_delta)
    return 0


def _reasoning_in(event: object) -> str:
    """Return the piece of reasoning in a vendor's stream event."""
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, ThinkingPart, ThinkingPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, ThinkingPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, ThinkingPartDelta):
        return event.delta.content_delta or ""
    return ""


def _text_in(event: object) -> str:
    """Return the piece of answer text in a vendor's stream event; empty for reasoning and tool calls."""
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


async def _whole_reply(stream: AsyncGenerator[Delta | ModelReply]) -> ModelReply:
    async with aclosing(stream) as items:
        async for item in items:
            if isinstance(item, ModelReply):
                return item
    raise AssertionError("a stream ends with the whole reply")
