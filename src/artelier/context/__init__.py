"""Sections, the builder that makes them, and the one function that makes prompts of them.

`kernel/` stores and renders what this builds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artelier.context.assembly import Section, Source, assemble, prompt_tokens, section_tokens
    from artelier.context.builder import Context, ContextBuilder, template
    from artelier.context.compaction import (
        CompactionStrategy,
        Estimator,
        MessageBlock,
        Wish,
        compact,
        kept_from,
    )
    from artelier.kernel.prompt.manifest import fence
    from artelier.tokens.estimate import cut

__all__ = [
    "CompactionStrategy",
    "Context",
    "ContextBuilder",
    "Estimator",
    "MessageBlock",
    "Section",
    "Source",
    "Wish",
    "assemble",
    "compact",
    "cut",
    "fence",
    "kept_from",
    "prompt_tokens",
    "section_tokens",
    "template",
]

_HOMES = {
    "MessageBlock": "artelier.context.compaction",
    "CompactionStrategy": "artelier.context.compaction",
    "Context": "artelier.context.builder",
    "ContextBuilder": "artelier.context.builder",
    "Estimator": "artelier.context.compaction",
    "Section": "artelier.context.assembly",
    "Source": "artelier.context.assembly",
    "Wish": "artelier.context.compaction",
    "assemble": "artelier.context.assembly",
    "compact": "artelier.context.compaction",
    "cut": "artelier.tokens.estimate",
    "fence": "artelier.kernel.prompt.manifest",
    "kept_from": "artelier.context.compaction",
    "prompt_tokens": "artelier.context.assembly",
    "section_tokens": "artelier.context.assembly",
    "template": "artelier.context.builder",
}


def __getattr__(name: str) -> object:
    # Lazy, because the public Kernel needs the strategy of compactions alone and must open fast.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
