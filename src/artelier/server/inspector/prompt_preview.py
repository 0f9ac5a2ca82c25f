"""The prompt of an agent's next decision, section by section, for the inspector."""

from __future__ import annotations

from typing import Any

from artelier.app import TenantKernel
from artelier.kernel import RangePart
from artelier.kernel.prompt.assembly import trust_label
from artelier.kernel.prompt.manifest import PromptPart
from artelier.missions.task.prompt.next_iteration import upcoming
from artelier.missions.task.prompt.preview import PromptPreview, check_agent, preview_of, texts_of
from artelier.server.inspector.prompt_parts import reason_of

NOTHING_LEFT = "It has no open task, so it will be asked nothing."


async def looked_ahead(desk: TenantKernel, agent: str) -> dict[str, Any]:
    """Return a `wire.agents.Ahead` as data. Errors: `NotFound`; those of `preview.preview_of`."""
    comes = await upcoming(desk, agent)
    if comes is None:
        await check_agent(desk, agent)
        return {"agent": agent, "prompt": None, "why": NOTHING_LEFT}
    return {"agent": agent, "prompt": _describe_preview(await preview_of(desk, comes)), "why": None}


def _describe_preview(found: PromptPreview) -> dict[str, Any]:
    parts = found.prompt.parts
    return {
        **{name: getattr(found, name) for name in PromptPreview.__dataclass_fields__ if name != "prompt"},
        "tokens": sum(part.tokens for part in parts),
        "sections": [
            {**_facts(part), "text": text, "messages": [{"role": a, "text": b} for a, b in said]}
            for part, (text, said) in zip(parts, texts_of(found.prompt), strict=True)
        ],
        "dropped": [{"tag": d.tag, "why": d.why, "tokens": d.tokens} for d in found.prompt.dropped],
    }


def _facts(part: PromptPart) -> dict[str, Any]:
    if isinstance(part, RangePart):
        reason = reason_of(
            "append_only", shows=part.conversation, start=part.start, end=part.end, cut=part.cut
        )
        return {
            "tag": part.tag,
            "tokens": part.tokens,
            "source": [],
            "reason": reason,
            "stability": "append_only",
            "trust": trust_label(part.messages),
            "cut": part.cut,
        }
    return {
        "tag": part.tag,
        "tokens": part.tokens,
        "source": list(part.src),
        "reason": reason_of(part.stability, joined=part.joined, attach=part.attach),
        "stability": part.stability,
        "trust": part.trust,
        "cut": part.cut,
    }
