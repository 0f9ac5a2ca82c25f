"""The parts of one prompt, section by section, for the Context Inspector."""

from __future__ import annotations

from typing import Any

from artelier.app import TenantKernel
from artelier.kernel import Renderer, shared_prefix
from artelier.kernel.events import PartRecord
from artelier.server.inspector.prompt_diff import changes, compare_manifests


async def manifest_of(desk: TenantKernel, run_id: str, step: str) -> dict[str, Any]:
    """Return a `wire.runs.Manifest` as data. Errors: `NotFound`, `CorruptStore`."""
    renderer = await Renderer.open(desk.services, desk.id, run_id, forgiving=True)
    found = await renderer.manifest(step)
    sections: list[dict[str, Any]] = []
    seen = 0
    for number, part in enumerate(found.parts):
        content = await renderer.content(part)
        count = 0 if isinstance(content, str) else len(content)
        sections.append(
            {
                "tag": part.tag,
                "tokens": part.tokens,
                "source": list(part.src),
                "reason": _reason(part),
                "stability": part.stability,
                "trust": part.trust,
                "cut": part.cut,
                "is_cached": number < found.cache_boundary,
                "first_message": seen if count else None,
                "messages": count,
            }
        )
        seen += count
    return {
        "run_id": run_id,
        "step": step,
        "model": found.model,
        "params": found.params,
        "has_tools": found.tools is not None,
        "tokens": sum(part.tokens for part in found.parts),
        "cache_boundary": found.cache_boundary,
        "sections": sections,
        "dropped": [{"tag": d.tag, "why": d.why, "tokens": d.tokens} for d in found.dropped],
        "scrubbed": found.pii,
        "inclusion_prices": list(found.inclusion_prices),
        "request": found.request,
        "adapter": found.adapter,
        "body": found.body,
        "not_sent": list(found.not_sent),
    }


def _reason(part: PartRecord) -> str:
    return reason_of(
        part.stability,
        joined=part.joined,
        attach=part.attach,
        shows=part.conversation,
        start=part.start,
        end=part.end,
        cut=part.cut,
    )


def reason_of(
    stability: str,
    *,
    joined: bool = False,
    attach: bool = False,
    shows: str | None = None,
    start: int = 0,
    end: int = 0,
    cut: str = "",
) -> str:
    """Return why a part stands in the prompt where it does, in words; `shows` is a conversation."""
    if shows is not None:
        said = f"messages {start}-{end} of the conversation {shows}"
        return f"{said}, from here on" if cut == "start" else said
    if attach:
        return "added to the last message: it changes from step to step"
    if joined:
        return "added to the message before it"
    return {
        "fixed": "stands in every prompt of this run",
        "slow": "stands in every prompt; changes seldom",
        "volatile": "made anew for this step",
    }.get(stability, "stays as it was said")


async def prompt_of(desk: TenantKernel, run_id: str, step: str) -> bytes:
    """The exact bytes that the model's adapter was handed, with `[erased]` for what was erased.

    Errors: `NotFound`, `CorruptStore`.
    """
    request, _ = await desk.shown(run_id, step)
    return request.canonical()


async def diff_of(desk: TenantKernel, run_id: str, a: str, b: str) -> dict[str, Any]:
    """Return a `wire.runs.PromptDiff` as data; `a` is the earlier. Errors: `NotFound`, `CorruptStore`."""
    renderer = await Renderer.open(desk.services, desk.id, run_id, forgiving=True)
    one, two = await renderer.manifest(a), await renderer.manifest(b)
    prefix = shared_prefix(one, two)
    text = changes(await renderer.render(a), await renderer.render(b), names=(a, b))
    return {
        "a": a,
        "b": b,
        "shared_tokens": prefix.shared_tokens,
        "previous_tokens": prefix.previous_tokens,
        "broken_by": prefix.broken_by,
        "why": prefix.why,
        "parts": compare_manifests(one, two),
        "diff": text,
    }
