"""The names of models: `<provider>:<model>`, one canonical name for every spelling."""

from __future__ import annotations

BUILT_IN: frozenset[str] = frozenset(("offline", "scripted", "recorded"))
"""Models that come with Artelier, need no provider and have bare names."""

DEFAULT_PROVIDER = "openai"
"""The provider of a bare name such as `gpt-4o-mini`."""


def canonical_name(model: str) -> str:
    """`<provider>:<model>`, or the bare name of a built-in; a bare name means `openai:`.

    The provider is case-insensitive, the model is not; white space around both is dropped.
    """
    name = model.strip()
    provider, colon, rest = name.partition(":")
    if not colon:
        return name.lower() if name.lower() in BUILT_IN else f"{DEFAULT_PROVIDER}:{name}"
    return f"{provider.strip().lower()}:{rest.strip()}"


def split_name(model: str) -> tuple[str, str]:
    """The provider and the model of a name; a built-in is its own provider with an empty model."""
    provider, _, rest = canonical_name(model).partition(":")
    return provider, rest
