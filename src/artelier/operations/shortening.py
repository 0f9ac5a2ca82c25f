"""Makes what a rule includes shorter where it says so, by an auxiliary model call."""

from __future__ import annotations

from dataclasses import replace

from artelier.errors import ArtelierError, Conflict, CorruptStore, StoreUnavailable
from artelier.kernel import Run
from artelier.operations.inclusion import Included
from artelier.operations.wording import wording
from artelier.tokens.cut import cut


async def shortened(run: Run, item: Included, *, model: str, prefix: str = "") -> Included:
    """The inclusion within its limit. If the model fails, its end is cut; the run goes on."""
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
            model=model, messages=messages, key=f"{prefix}include/{item.rule.tag}",
            max_output_tokens=max(16, limit),
        )  # fmt: skip
    except (Conflict, CorruptStore, StoreUnavailable):
        raise
    except ArtelierError:
        return replace(item, text=cut(item.text, tokens=limit, where="end"))
    return replace(item, text=cut(result.text, tokens=limit, where="end") or item.dropped)
