"""`artelier manifest`: why a prompt was what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from artelier.app import Kernel, TenantKernel
    from artelier.kernel import Manifest
    from artelier.kernel.events import PartRecord
    from artelier.ports.model import ModelRequest
    from artelier.tokens.prompt_cache import CacheUse

app = group("manifest", help="See what every prompt was made of, and the prompt itself.")

Step = Annotated[
    str, typer.Argument(metavar="RUN:STEP", help="A model step; `artelier runs steps RUN` lists them.")
]


async def _locate_step(runs: TenantKernel, place: str) -> tuple[str, str]:
    """Run and step of `RUN:STEP`; both may contain colons, so the longest run that exists counts.

    Errors: `InvalidRequest` without a colon, `NotFound` if no beginning names a run.
    """
    cuts = [index for index, char in enumerate(place) if char == ":"]
    if not cuts:
        raise InvalidRequest("this names no step", expected="RUN:STEP, such as q3-report:c1/model", got=place)
    for cut in reversed(cuts):
        run, step = place[:cut], place[cut + 1 :]
        try:
            await runs.show(run)
        except NotFound:
            continue
        return run, step
    raise NotFound(f"no run {place[: cuts[-1]]!r}", hint="`artelier runs list` shows the runs there are.")


@command(app, name="show", example="artelier manifest show q3-report:c2/model")
async def show(call: CliCall, step: Step) -> None:
    """Show the parts of a prompt, and what was left out and why."""
    async with call.kernel() as kernel:
        runs = kernel.for_tenant(call.tenant)
        manifest = await runs.manifest(*await _locate_step(runs, step))
        receipts = await _receipts(runs, manifest)
        cache = await runs.cache_forecast(manifest.run_id, manifest.key)
    if call.as_json:
        import msgspec

        shown = msgspec.to_builtins(manifest)
        if cache is not None:
            shown["cache"] = msgspec.to_builtins(cache)
        call.screen.json({**shown, "compactions": receipts} if receipts else shown)
        return
    call.screen.facts(
        [
            ("step", f"{manifest.run_id}:{manifest.key}"),
            ("model", manifest.model),
            ("params", display.arguments(manifest.params)),
            ("tools", "offered" if manifest.tools else "none"),
            ("scrubbed", display.arguments(manifest.pii) if manifest.pii else None),
            ("request", manifest.request),
            ("sent by", manifest.adapter or None),
            ("body", manifest.body or None),
            ("not sent", ", ".join(manifest.not_sent) or None),
        ]
    )
    call.screen.line()
    rows = [
        (
            index,
            part.tag,
            _content(part),
            part.tokens or "",
            part.stability,
            part.trust,
            ", ".join(part.src),
            part.cut,
        )
        for index, part in enumerate(manifest.parts, start=1)
    ]
    columns = (">", "part", "content", ">tokens", "stability", "trust", "from", "cut")
    call.screen.table(columns, rows, empty="no parts")
    call.screen.line(f"the first {display.count(manifest.cache_boundary, 'part')} can be cached")
    if cache is not None:
        call.screen.line(f"expected in the provider's cache: {_format_use(cache.expected)}")
        if cache.billed is not None:
            call.screen.line(f"billed by the provider: {_format_use(cache.billed)}")
    for dropped in manifest.dropped:
        call.screen.line(f"left out: {dropped.tag} ({dropped.why}, {dropped.tokens:,} tokens)")
    for paid in manifest.inclusion_prices:
        call.screen.line(f"paid: {paid}")
    for receipt in receipts:
        _show_receipt(call, receipt)


def _format_use(use: CacheUse) -> str:
    return f"{use.read_tokens:,} read, {use.written_tokens:,} written, {use.fresh_tokens:,} fresh tokens"


def _show_receipt(call: CliCall, receipt: dict[str, Any]) -> None:
    """Print what the summary in this prompt stands for, and what it no longer says."""
    how = f"model {receipt['model']}" if receipt["how"] == "model" else "an extract"
    if failure := receipt.get("failure"):
        how += f", since {receipt['model']} failed ({failure})"
    call.screen.line()
    call.screen.line(
        f"summary: messages {receipt['start']}-{receipt['end']} of {receipt['conversation']}, by {how}"
        f" ({receipt['why']}); {receipt.get('tokens_before', 0):,} ->"
        f" {receipt.get('tokens_after', 0):,} tokens"
    )
    loss: dict[str, list[str]] = receipt["loss"] or {}
    for kind, facts in loss.items():
        shown = ", ".join(facts[:12]) + (", ..." if len(facts) > 12 else "")
        call.screen.line(f"no longer said ({kind}, {len(facts)}): {shown}")


async def _receipts(runs: TenantKernel, manifest: Manifest) -> list[dict[str, Any]]:
    """Receipts of the compactions whose summaries stand in a prompt."""
    refs = {ref for part in manifest.parts if part.tag == "summary" for ref in part.src}
    if not refs:
        return []
    found = await runs.compactions(manifest.run_id)
    return [
        one
        for one in found
        if one["kind"] == "context.compacted"
        and any(ref.startswith(f"{manifest.run_id}:{one['step']} ") for ref in refs)
    ]


def _content(part: PartRecord) -> str:
    if part.conversation is not None:
        return f"messages {part.start}-{part.end} of {part.conversation}"
    where = "added to the last message, " if part.attach else ""
    where = "added to the message before, " if part.joined else where
    return where + (part.blob or "")[:14]


@command(app, name="render", example="artelier manifest render q3-report:c2/model --json | sha256sum")
async def render(call: CliCall, step: Step) -> None:
    """Print the request that was sent to the model.

    With --json byte for byte, and a line break. What was erased is [erased], what the vault key would
    open is [locked]; both are named on stderr.
    """
    async with call.kernel() as kernel:
        runs = kernel.for_tenant(call.tenant)
        request, erased = await runs.shown(*await _locate_step(runs, step))
    from artelier.kernel.erasure import LOCKED

    for what in erased:
        locked = what.removesuffix(f" {LOCKED}")
        call.screen.note(f"erased: {what}" if locked == what else f"locked: {locked}")
    if call.as_json:
        call.screen.text(request.canonical().decode())
    else:
        call.screen.text(readable(request))


def readable(request: ModelRequest) -> str:
    """A request as text: a heading per message, tools by name."""
    from artelier.server.prompt_inspector import readable

    return readable(request, shown=_format_value)


def _format_value(value: object) -> str:
    return display.arguments(value, chars_max=10_000)


@command(app, name="diff", example="artelier manifest diff q3-report:c1/model q3-report:c2/model")
async def diff(
    call: CliCall,
    first: Step,
    second: Annotated[str, typer.Argument(metavar="RUN:STEP", help="Another model step.")],
) -> None:
    """Show how two prompts differ, and what broke the cached prefix."""
    async with call.kernel() as kernel:
        one, two = [await _both(call, kernel, place) for place in (first, second)]
    from artelier.kernel import shared_prefix
    from artelier.server.prompt_inspector import changes, compare_manifests

    parts = compare_manifests(one[0], two[0])
    text = changes(one[1], two[1], names=(first, second), shown=_format_value)

    prefix = shared_prefix(one[0], two[0])
    if call.as_json:
        shared = {
            "shared_tokens": prefix.shared_tokens,
            "previous_tokens": prefix.previous_tokens,
            "broken_by": prefix.broken_by,
            "why": prefix.why,
        }
        call.screen.json({"a": first, "b": second, "prefix": shared, "parts": parts, "diff": text})
        return
    rows = [(part["tag"], part["change"]) for part in parts]
    call.screen.table(("part", "change"), rows, empty="no parts")
    call.screen.line(
        f"shared from the beginning: about {prefix.shared_tokens:,} of"
        f" {prefix.previous_tokens:,} tokens"
        + (f"; ended by {prefix.broken_by}: {prefix.why}" if prefix.broken_by else "")
    )
    if text:
        call.screen.line()
        call.screen.text(text)
    else:
        call.screen.note("the two requests are the same")


async def _both(call: CliCall, kernel: Kernel, place: str) -> tuple[Manifest, ModelRequest]:
    runs = kernel.for_tenant(call.tenant)
    located = await _locate_step(runs, place)
    return await runs.manifest(*located), (await runs.shown(*located))[0]
