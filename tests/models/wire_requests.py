"""Requests, and a provider that talks to a scripted server."""

from __future__ import annotations

from typing import Any

from artelier.models.registry import ModelRegistry
from artelier.ports.model import ChatMessage, ModelPort, ModelRequest
from artelier.testing.openai_server import OpenAIServer

KEY = "sk-test-0123456789abcdef"


def ask(text: str = "hello", *, model: str = "openai:gpt-4o-mini", **fields: Any) -> ModelRequest:
    fields.setdefault("messages", (ChatMessage(role="user", content=text),))
    fields.setdefault("params", {"max_output_tokens": 100})
    return ModelRequest(model=model, **fields)


def port(server: OpenAIServer, model: str = "openai:gpt-4o-mini", **environ: str) -> ModelPort:
    """What the registry gives for `model` when every provider's URL is the server's."""
    urls = {
        "OPENAI_BASE_URL": server.base_url,
        "OLLAMA_BASE_URL": server.base_url,
        "ANTHROPIC_BASE_URL": server.base_url.removesuffix("/v1"),
        "DEEPSEEK_BASE_URL": server.base_url,
        "OPENROUTER_BASE_URL": server.base_url,
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY,
    }
    return ModelRegistry(environ={**urls, **environ}).resolve(model).port
