"""Makes what a rule includes shorter where it says so, by an auxiliary model call."""

from __future__ import annotations

from dataclasses import replace

from artelier.errors import ArtelierError, Conflict, CorruptStore, StoreUnavailable
from artelier.kernel import Run
from artelier.kernel.prompt.delimiters import balance_fences
from artelier.operations.graph.inclusion import Included
from artelier.operations.graph.shipped_texts import wording
from artelier.tokens.estimate import cut


async def shorten_inclusion(run: Run, item: Included, *, model: str, prefix: str = "") -> Included:
    """The inclusion within its limit, and what was done to it, which the manifest says.

    If the model fails or gives nothing, the text is cut at its end; the run goes on.
    """
    if not item.is_long:
        return item
    limit = item.rule.max_tokens
    assert limit is not None
    messages = [
        {"role": "system", "content": f"{wording('shorten-1')} Use at most {limit} tokens."},
        {"role": "user", "content": item.text},
    ]
    try:
        result = await run.step_model(
            model=model,
            messages=messages,
            key=f"{prefix}include/{item.rule.tag}",
            max_output_tokens=max(16, limit),
        )
    except (Conflict, CorruptStore, StoreUnavailable):
        raise
    except ArtelierError as error:
        return _cut(item, item.text, limit, note=f"cut, the model failed: {error.code}")
    if not result.text.strip():
        return _cut(item, item.text, limit, note="cut, the model gave nothing")
    return _cut(item, result.text, limit, note=f"shortened by model {model}")


def _cut(item: Included, text: str, limit: int, *, note: str) -> Included:
    kept = cut(text, tokens=limit, where="end")
    if kept == text:
        return replace(item, text=text, shortened=note)
    kept = balance_fences(kept)
    if not kept:  # not even the mark of what is gone has room
        return replace(item, text="", dropped="over_limit", shortened=note)
    return replace(item, text=kept, cut="end", shortened=note)
