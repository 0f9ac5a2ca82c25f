"""Sections, the builder that makes them, and the one function that makes prompts of them.

`kernel/` stores and renders what this builds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from artelier.ports.lazy_names import load_on_use

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
    "MessageBlock": "compaction",
    "CompactionStrategy": "compaction",
    "Context": "builder",
    "ContextBuilder": "builder",
    "Estimator": "compaction",
    "Section": "assembly",
    "Source": "assembly",
    "Wish": "compaction",
    "assemble": "assembly",
    "compact": "compaction",
    "cut": "assembly",
    "fence": "assembly",
    "kept_from": "compaction",
    "prompt_tokens": "assembly",
    "section_tokens": "assembly",
    "template": "builder",
}

# Lazy, because the public Kernel needs the strategy of compactions alone and must open fast.
__getattr__ = load_on_use(__name__, _HOMES)
