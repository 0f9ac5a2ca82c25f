"""The lookup of embedders by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from artelier.errors import InvalidConfig, InvalidRequest
from artelier.plugins import EMBEDDERS, PluginPoint, active

if TYPE_CHECKING:
    from artelier.ports.embedder import Embedder

KNOWN = "hashing, minilm or openai:MODEL"

REGISTERED: dict[str, Embedder] = {}
"""Embedders of this process's own, by name."""


def register_embedder(embedder: Embedder) -> None:
    """Offer an embedder of your own under its name, to everything in this process that names one."""
    REGISTERED[embedder.name] = embedder


def embedder_named(name: str, *, base_url: str | None = None) -> Embedder:
    """The embedder of that name: one that was registered, `hashing`, `minilm`, `openai:MODEL` over the
    network, or one that an allowed plugin offers.

    `base_url`: of a server that speaks OpenAI's protocol, for `openai:MODEL`; else OpenAI's own or that of
    the environment.
    Errors: `InvalidRequest` for a name that nobody knows. Keys, packages and models are looked for on
    first use; `PluginBroken`.
    """
    if base_url is None and name in REGISTERED:
        return REGISTERED[name]
    provider, colon, model = name.partition(":")
    if provider == "openai" and colon and model.strip():
        from artelier.memory.embedders.provider import ProviderEmbedder

        return ProviderEmbedder(model.strip(), base_url=base_url)
    if base_url is not None:
        raise InvalidRequest("only openai:MODEL takes a base_url", got=name)
    if name == "hashing":
        from artelier.memory.embedders.hashing import HashingEmbedder

        return HashingEmbedder()
    if name == "minilm":
        from artelier.memory.embedders.minilm import MiniLMEmbedder

        return MiniLMEmbedder()
    if active().has(EMBEDDER_POINT, name):
        return active().load(EMBEDDER_POINT, name)
    known = ", ".join((*sorted(REGISTERED), *active().names(EMBEDDER_POINT), KNOWN))
    raise InvalidRequest("no such embedder", expected=known, got=f"{name!r:.80}")


def _made(name: str, loaded: Any) -> Embedder:
    """Return the embedder of a plugin: what it offers, or what that returns when it is called."""
    is_embedder = not isinstance(loaded, type) and callable(getattr(loaded, "embed", None))
    embedder = loaded if is_embedder or not callable(loaded) else loaded()
    if not callable(getattr(embedder, "embed", None)) or getattr(embedder, "name", None) != name:
        raise InvalidConfig(
            f"{name!r} is no embedder of this name",
            expected="an object with `name`, `dims` and an async embed(texts), or what makes one",
            got=repr(embedder)[:80],
        )
    return cast("Embedder", embedder)


EMBEDDER_POINT = PluginPoint(EMBEDDERS, _made, taken=lambda: ("hashing", "minilm", "openai"))
"""An embedder under its name."""
