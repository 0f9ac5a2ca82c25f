"""A prompt for people: its parts with their sources, a preview of the next one, and the difference of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.app import TenantKernel
from artelier.artifacts.content import line_diff
from artelier.errors import Conflict, NotFound
from artelier.kernel import Manifest, RangePart, Renderer, shared_prefix
from artelier.kernel.events import PartRecord
from artelier.kernel.prompt.manifest import PromptPart
from artelier.kernel.prompt.renderer import trust_label
from artelier.log import stored_blob
from artelier.missions.task.preview import PromptPreview, check_agent, preview_of, texts_of, upcoming
from artelier.ports.media import Medium, media_in, media_line
from artelier.ports.model import ModelRequest, reasoning_text
from artelier.server.security.held_bodies import hold_content, reserve_content
from artelier.threads import read_beside_loop, run_in_content_thread

if TYPE_CHECKING:
    from artelier.server.wire import agents, runs

COPIES = 2
"""Of a prompt that are held together: its messages, and what is made of them."""

# The command line uses this module too and pays for no wire models: they are imported where they are made.


async def manifest_of(desk: TenantKernel, run_id: str, step: str) -> runs.ManifestOut:
    """Return the parts of a prompt. Errors: `NotFound`, `CorruptStore`."""
    from artelier.server.wire import runs

    renderer, _ = await _open(desk, run_id, step)
    found = await renderer.manifest(step)
    sections: list[runs.SectionOut] = []
    seen = 0
    for number, part in enumerate(found.parts):
        content = await renderer.content(part)
        count = 0 if isinstance(content, str) else len(content)
        sections.append(
            runs.SectionOut(
                tag=part.tag,
                tokens=part.tokens,
                source=list(part.src),
                reason=reason_of(
                    part.stability,
                    joined=part.joined,
                    attach=part.attach,
                    shows=part.conversation,
                    start=part.start,
                    end=part.end,
                    cut=part.cut,
                ),
                stability=part.stability,
                trust=part.trust,
                cut=part.cut,
                is_cached=number < found.cache_boundary,
                first_message=seen if count else None,
                messages=count,
            )
        )
        seen += count
    return runs.ManifestOut(
        run_id=run_id,
        step=step,
        model=found.model,
        params=found.params,
        has_tools=found.tools is not None,
        tokens=sum(part.tokens for part in found.parts),
        cache_boundary=found.cache_boundary,
        sections=sections,
        dropped=[runs.Dropped.model_validate(one) for one in found.dropped],
        scrubbed=found.pii,
        inclusion_prices=list(found.inclusion_prices),
        request=found.request,
        adapter=found.adapter,
        body=found.body,
        not_sent=list(found.not_sent),
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
    renderer, size_bytes = await _open(desk, run_id, step)
    request = await renderer.render(step)
    return await read_beside_loop(size_bytes, request.canonical)


async def _open(desk: TenantKernel, run_id: str, *steps: str) -> tuple[Renderer, int]:
    """Return what renders prompts of a run to look at, and about how many bytes these take: there is room.

    Errors: `NotFound`, `TooManyAtOnce`.
    """
    renderer = await Renderer.open(desk.services, desk.id, run_id, forgiving=True)
    size_bytes = sum([await renderer.size(step) for step in steps])
    await reserve_content(COPIES * size_bytes)
    return renderer, size_bytes


async def medium_of_step(desk: TenantKernel, run_id: str, step: str, blob: str) -> tuple[Medium, bytes]:
    """Return a medium that a model step was sent, with its bytes.

    Errors: `NotFound` if the step was sent no such medium; `Erased`; `CorruptStore`.
    """
    renderer, _ = await _open(desk, run_id, step)
    request = await renderer.render(step)
    medium = next((one for one in media_in(request.messages) if one.blob == blob), None)
    if medium is None:
        raise NotFound(
            f"step {step!r} was sent no medium of that name",
            expected="the blob of a media part of its prompt",
            got=blob[:60],
        )
    await hold_content(medium.size_bytes)
    return medium, await stored_blob(desk.services.store, desk.id, medium.blob)


async def diff_of(desk: TenantKernel, run_id: str, a: str, b: str) -> runs.PromptDiff:
    """Return how two prompts differ; `a` is the earlier. Errors: `NotFound`, `CorruptStore`."""
    from artelier.server.wire import runs

    renderer, size_bytes = await _open(desk, run_id, a, b)
    one, two = await renderer.manifest(a), await renderer.manifest(b)
    prefix = shared_prefix(one, two)
    old, new = await renderer.render(a), await renderer.render(b)
    text = await run_in_content_thread(size_bytes, partial(changes, old, new, names=(a, b)))
    return runs.PromptDiff(
        a=a,
        b=b,
        shared_tokens=prefix.shared_tokens,
        previous_tokens=prefix.previous_tokens,
        broken_by=prefix.broken_by,
        why=prefix.why,
        parts=[runs.PartChange(**part) for part in compare_manifests(one, two)],
        diff=text,
    )


NOTHING_LEFT = "It has no open task, so it will be asked nothing."


async def looked_ahead(desk: TenantKernel, agent: str) -> agents.Ahead:
    """Return an agent's next prompt, or why there is none. Errors: `NotFound`; those of `preview_of`."""
    from artelier.server.wire import agents

    comes = await upcoming(desk, agent)
    if comes is None:
        await check_agent(desk, agent)
        return agents.Ahead(agent=agent, prompt=None, why=NOTHING_LEFT)
    try:
        return agents.Ahead(agent=agent, prompt=_describe_preview(await preview_of(desk, comes)), why=None)
    except Conflict as error:
        return agents.Ahead(agent=agent, prompt=None, why=str(error))


def _describe_preview(found: PromptPreview) -> agents.NextPrompt:
    from artelier.server.wire import agents

    parts = found.prompt.parts
    return agents.NextPrompt(
        agent=found.agent,
        task=found.task,
        iteration=found.iteration,
        last_iteration=found.last_iteration,
        model=found.model,
        temperature=found.temperature,
        tokens=sum(part.tokens for part in parts),
        budget_tokens=found.budget_tokens,
        sections=[
            _describe_section(part, text, said)
            for part, (text, said) in zip(parts, texts_of(found.prompt), strict=True)
        ],
        dropped=[agents.NextDropped(tag=d.tag, why=d.why, tokens=d.tokens) for d in found.prompt.dropped],
        tools=list(found.tools),
        steering=list(found.steering),
        is_begun=found.is_begun,
        asked_now=found.asked_now,
        missing=found.missing,
    )


def _describe_section(part: PromptPart, text: str, said: Sequence[tuple[str, str]]) -> agents.NextSection:
    from artelier.server.wire import agents

    is_range = isinstance(part, RangePart)
    return agents.NextSection(
        tag=part.tag,
        text=text,
        messages=[agents.NextMessage(role=role, text=content) for role, content in said],
        tokens=part.tokens,
        source=[] if is_range else list(part.src),
        reason=reason_of("append_only", shows=part.conversation, start=part.start, end=part.end, cut=part.cut)
        if is_range
        else reason_of(part.stability, joined=part.joined, attach=part.attach),
        stability="append_only" if is_range else part.stability,
        trust=trust_label(part.messages) if is_range else part.trust,
        cut=part.cut,
    )


Shown = Callable[[Any], str]
"""How arguments of calls and parameters are written."""


def as_json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def readable(request: ModelRequest, *, shown: Shown = as_json) -> str:
    """A request as text: a heading per message, tools by name."""
    lines = [f"model: {request.model}", f"params: {shown(request.params)}"]
    if request.tools:
        lines.append(f"tools: {', '.join(tool.name for tool in request.tools)}")
    for number, message in enumerate(request.messages, start=1):
        answers = f" (answers {message.tool_call_id})" if message.tool_call_id else ""
        lines += ["", f"--- {number} {message.role}{answers}"]
        if thought := reasoning_text(message.content):
            lines += ["(reasoning)", thought, ""]
        if message.text:
            lines.append(message.text)
        lines += map(media_line, media_in((message,)))
        lines += [f"calls {call.name}({shown(call.arguments)})  [{call.id}]" for call in message.tool_calls]
    return "\n".join(lines)


def changes(one: ModelRequest, two: ModelRequest, *, names: tuple[str, str], shown: Shown = as_json) -> str:
    """A unified diff of two requests; empty if they read the same."""
    old, new = (readable(request, shown=shown) for request in (one, two))
    return line_diff(old, new, names=names, context=1)


def compare_manifests(one: Manifest, two: Manifest) -> list[dict[str, str]]:
    """Parts side by side, by tag and place: `{tag, change}`."""
    found: list[dict[str, str]] = []
    for old, new in zip_longest(one.parts, two.parts):
        if old is None or new is None or old.tag != new.tag:
            found += [
                {"tag": part.tag, "change": change}
                for part, change in ((old, "only in the first"), (new, "only in the second"))
                if part is not None
            ]
        else:
            found.append({"tag": new.tag, "change": _change(old, new)})
    return found


def _change(old: PartRecord, new: PartRecord) -> str:
    if old == new:
        return "same"
    if old.conversation is not None and old.conversation == new.conversation:
        if old.start == new.start and old.end != new.end:
            return f"messages {old.start}-{old.end} -> {new.start}-{new.end}"
    return "same content" if old.blob is not None and old.blob == new.blob else "changed"
