"""The cache of a provider as a model step meets it: what will be read and written, what was billed, and why
it was missed: the prefix that two prompts share, and what ends it.

The forecast reads only what the log held before the call: the prompts that were sent before, and how many
tokens their provider counted. So it is the same before the call and after it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from artelier.errors import Erased, NotFound
from artelier.kernel import events as ev
from artelier.kernel.events import PartRecord
from artelier.kernel.prompt.manifest import Manifest
from artelier.kernel.prompt.renderer import Renderer
from artelier.kernel.queries.runs import run_row
from artelier.kernel.queries.steps import StepRow, find_step, steps_before
from artelier.kernel.run.services import Services
from artelier.log.queries import EventRow, events_at
from artelier.ports.model import Usage
from artelier.tokens.prompt_cache import (
    CacheRules,
    CacheUse,
    EarlierCall,
    Outline,
    Scale,
    cache_rules,
    forecast,
    outline,
)

EARLIER_MAX = 4
"""How many model steps before one are compared with it. Older ones share no more than these."""


class CacheForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that a call is expected to read from and write to its provider's prompt cache."""

    expected: CacheUse
    """By what was sent before it."""
    billed: CacheUse | None = None
    """As its provider has counted; None before the reply."""
    lifetime_s: int
    """How long what it writes lives after its last use."""
    prefix_tokens_min: int
    """Shorter prefixes are neither written nor read."""


class _RequestBefore(NamedTuple):
    outline: Outline
    at_us: int
    usage: Usage | None
    """None without a reply, or with an estimate of ours."""


async def cache_forecast(services: Services, tenant: str, run_id: str, key: str) -> CacheForecast | None:
    """Return the forecast of a model step; None where nothing is known of its provider's cache.

    None too if what it needs was erased, or was sent by another run that this one goes on from.
    Errors: `NotFound`. Cost: five prompts are rendered at most.
    """
    stream_id = (await run_row(services.store, tenant, run_id)).id
    renderer = await Renderer.open(services, tenant, run_id, forgiving=True)
    model = (await renderer.manifest(key)).model
    rules = cache_rules(model)
    step = await find_step(services.store, stream_id, key)
    if rules is None or step is None:
        return None
    try:
        now, *earlier = [
            await _call(services, renderer, stream_id, one, rules)
            for one in (
                step,
                *await steps_before(
                    services.store, stream_id, "model", before=step.requested, limit=EARLIER_MAX
                ),
            )
        ]
    except (Erased, NotFound):
        return None
    if renderer.erased:
        return None
    same = [call for call in earlier if call.outline.model == now.outline.model]
    scale = Scale.of(
        [(call.outline.sizes()[-1], call.usage.input_tokens) for call in same if call.usage is not None]
    )
    calls = [EarlierCall(call.outline, (now.at_us - call.at_us) / 1_000_000) for call in same]
    return CacheForecast(
        expected=forecast(now.outline, calls, rules, scale=scale),
        billed=None if now.usage is None else billed_use(now.usage),
        lifetime_s=rules.lifetimes_s[0],
        prefix_tokens_min=rules.prefix_tokens_min,
    )


def billed_use(usage: Usage) -> CacheUse:
    """Return a usage as a cache sees it."""
    read, written = usage.cached_input_tokens, usage.cache_write_input_tokens
    return CacheUse(
        read_tokens=read, written_tokens=written, fresh_tokens=max(0, usage.input_tokens - read - written)
    )


async def _call(
    services: Services, renderer: Renderer, stream_id: int, step: StepRow, rules: CacheRules
) -> _RequestBefore:
    seqs = [seq for seq in (step.requested, step.completed) if seq is not None]
    events = await events_at(services.store, stream_id, seqs)
    request = await renderer.render(step.key)
    return _RequestBefore(
        outline(request, rules), events[step.requested].at_us, _usage(events.get(step.completed or 0))
    )


def _usage(outcome: EventRow | None) -> Usage | None:
    if outcome is None or outcome.kind != ev.ModelCompleted.KIND:
        return None
    said = outcome.read(ev.ModelCompleted)
    if said.estimated or not said.input_tokens:
        return None
    return Usage(
        input_tokens=said.input_tokens,
        cached_input_tokens=said.cached_input_tokens,
        cache_write_input_tokens=said.cache_write_input_tokens,
    )


# --------------------------------------------------------------------------- shared prefix


class SharedPrefix(msgspec.Struct, frozen=True, kw_only=True):
    """The common beginning of two prompts."""

    shared_tokens: int
    """Estimate, of whole parts and messages."""
    previous_tokens: int
    """Of the earlier prompt without its tail."""
    broken_by: str | None = None
    """Tag of the part that ended the common prefix early; `tools`, `model` or `params` stand before all
    parts. None: the later prompt only goes on."""
    why: str = ""

    @property
    def ratio(self) -> float:
        """Shared tokens to those of the earlier prompt without its tail."""
        return self.shared_tokens / self.previous_tokens if self.previous_tokens else 1.0


def shared_prefix(earlier: Manifest, later: Manifest) -> SharedPrefix:
    """Compare two prompts by their manifests. Pure; no content is read."""
    old = [part for part in earlier.parts if not part.attach and part.stability != "volatile"]
    new = [part for part in later.parts if not part.attach and part.stability != "volatile"]
    total = sum(part.tokens for part in old)
    for name, why in (
        ("model", f"{earlier.model} -> {later.model}"),
        ("tools", "the list of tools changed"),
        ("output_schema", "the schema of the output changed"),
    ):
        if getattr(earlier, name) != getattr(later, name):
            return SharedPrefix(shared_tokens=0, previous_tokens=total, broken_by=name, why=why)
    shared = 0
    for index, part in enumerate(old):
        if index >= len(new):
            return SharedPrefix(
                shared_tokens=shared, previous_tokens=total, broken_by=part.tag, why="left out"
            )
        following = new[index]
        if _continues(part, following):
            shared += part.tokens
            continue
        return SharedPrefix(
            shared_tokens=shared,
            previous_tokens=total,
            broken_by=following.tag if following.tag != part.tag else part.tag,
            why=_why(part, following),
        )
    return SharedPrefix(shared_tokens=shared, previous_tokens=total)


def _continues(old: PartRecord, new: PartRecord) -> bool:
    """Return True if the later part begins with all of the earlier one."""
    if old.form or new.form:
        return old == new
    if old.conversation is not None:
        same = old.conversation == new.conversation and old.start == new.start
        return same and new.end >= old.end
    return old.blob is not None and (old.blob, old.joined) == (new.blob, new.joined)


def _why(old: PartRecord, new: PartRecord) -> str:
    if old.tag != new.tag:
        return f"{new.tag!r} stands where {old.tag!r} stood"
    if old.conversation is not None:
        if old.conversation != new.conversation:
            return "another conversation"
        return f"its messages begin at {new.start} instead of {old.start}"
    return "its text changed"
