"""`artelier artifacts`: what runs wrote, version by version."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.cli.completion import artifact_ids
from artelier.errors import AccessDenied, InvalidRequest
from artelier.ids import OPERATOR

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.artifacts import Artifacts

app = group("artifacts", help="Look at artifacts: what runs wrote, version by version.")

ArtifactId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the artifact.", autocompletion=artifact_ids)
]

As = Annotated[
    str | None,
    typer.Option("--as", metavar="PRINCIPAL", help="In whose name: else operator, in worlds user:<login>."),
]


World = Annotated[
    str | None, typer.Option("--world", metavar="NAME", help="In this world: else the main space.")
]


async def _of(call: CliCall, kernel: Kernel, principal: str | None, world: str | None) -> Artifacts:
    """Errors: `NotFound` for a world that is not there."""
    tenant = kernel.for_tenant(call.tenant)
    if world is not None:
        from artelier.world import World as TheWorld

        await TheWorld.open(tenant, world)
    person = call.person if world is not None else OPERATOR
    return tenant.as_principal(principal or person, world=world).artifacts


def _when(written_us: int, world: str | None, *, minute: bool = True) -> str:
    """A time; in a world the tick."""
    if world is not None:
        return f"tick {written_us}"
    return display.minute(written_us) if minute else display.moment(written_us)


@command(app, name="list", example="artelier artifacts list --kind document")
async def list_artifacts(
    call: CliCall,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only of this kind.")] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="PRINCIPAL", help="Only of this owner.")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Go on after a page's `next`.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="Artifacts at most.", min=1, max=1000)
    ] = 100,
    principal: As = None,
    world: World = None,
) -> None:
    """List the artifacts that you may read, oldest first."""
    async with call.kernel() as kernel:
        artifacts = await _of(call, kernel, principal, world)
        found = await artifacts.list(kind=kind, owner=owner, after=after, limit=limit)
    following = found[-1].id if len(found) == limit else None
    if call.print_json({"items": found, "next": following}):
        return
    rows = [
        (
            item.id,
            item.kind,
            item.version,
            display.size(item.size_bytes),
            item.owner,
            _when(item.written_us, world),
        )
        for item in found
    ]
    columns = ("artifact", "kind", ">version", ">size", "owner", "written")
    call.screen.table(columns, rows, empty=f"no artifacts in tenant {call.tenant}")
    if following is not None:
        call.screen.note(f"more: --after {following}")


@command(app, name="show", example="artelier artifacts show reports/q3-report@1 > report.md")
async def show(
    call: CliCall,
    ref: Annotated[str, typer.Argument(metavar="REF", help="id, id@VERSION, or id#PART of a library.")],
    principal: As = None,
    world: World = None,
) -> None:
    """Print the content of an artifact.

    What is known about it goes to stderr. Whoever reads pays the read price, if there is one.
    """
    async with call.kernel() as kernel:
        try:
            artifact = await (await _of(call, kernel, principal, world)).look(ref)
        except AccessDenied as error:
            error.hint = error.hint or "Read it in its owner's name with --as PRINCIPAL."
            raise
        content = artifact.content
        if not isinstance(content, bytes):
            content = await kernel.for_tenant(call.tenant).restored(content)
    if call.print_json(artifact, content=content):
        return
    came = artifact.provenance
    note = call.screen.note
    note(f"{artifact.id}@{artifact.version}  {artifact.kind} of {artifact.owner}", "bold")
    if came.run_id:
        when = _when(artifact.written_us, world, minute=False)
        note(f"written by run {came.run_id}, step {came.step}, {when}")
    if isinstance(content, bytes):
        if sys.stdout.isatty():
            note(f"{display.size(len(content))} of bytes; redirect stdout into a file to have them")
        else:
            sys.stdout.buffer.write(content)
    else:
        if artifact.kind == "memory_store":
            content = _without_vectors(content)
            note("vectors of entries are left out; --json has them")
        call.screen.text(content if isinstance(content, str) else display.json_text(content))


def _without_vectors(content: object) -> object:
    """A memory store for people: each entry but for its hundreds of numbers."""
    if not isinstance(content, dict):
        return content
    store = cast("dict[str, Any]", content)
    entries: object = store.get("entries")
    if not isinstance(entries, list):
        return store
    return {**store, "entries": [_without_vector(one) for one in cast("list[object]", entries)]}


def _without_vector(entry: object) -> object:
    if not isinstance(entry, dict):
        return entry
    fields = cast("dict[str, object]", entry)
    return {key: value for key, value in fields.items() if key != "embedding"}


@command(app, name="adopt", example="artelier artifacts adopt forks/q3.fork-1/reports/q3")
async def adopt(
    call: CliCall,
    ref: Annotated[str, typer.Argument(metavar="REF", help="What a fork has written: id or id@N.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="ID", help="Where to: else what its origin called it.")
    ] = None,
    principal: As = None,
) -> None:
    """Bring home what a fork has written.

    It becomes the newest version of what the fork's origin wrote. A fork never writes over its origin: this
    is how its work gets there, if you want it.
    """
    async with call.kernel() as kernel:
        desk = kernel.for_tenant(call.tenant)
        try:
            made = await desk.adopt(ref, to=to, principal=principal or OPERATOR)
        except AccessDenied as error:
            error.hint = error.hint or "Write it in its owner's name with --as PRINCIPAL."
            raise
    if call.print_json({"id": made.id, "version": made.version, "from": ref}):
        return
    call.screen.line(f"{made.id}@{made.version} is what {ref} says")


@command(app, name="history", example="artelier artifacts history reports/q3-report")
async def history(
    call: CliCall,
    artifact: ArtifactId,
    after: Annotated[int, typer.Option("--after", metavar="VERSION", help="Only versions above.", min=0)] = 0,
    principal: As = None,
    world: World = None,
) -> None:
    """List the versions of an artifact, oldest first."""
    async with call.kernel() as kernel:
        found = await (await _of(call, kernel, principal, world)).history(artifact, after=after)
    following = found[-1].version if len(found) == 1000 else None
    if call.print_json({"items": found, "next": following}):
        return
    rows = [
        (
            item.version,
            _when(item.written_us, world),
            item.writer,
            display.size(item.size_bytes),
            item.run_id or "",
            item.step or "",
            "pruned" if item.pruned else "",
        )
        for item in found
    ]
    columns = (">version", "written", "by", ">size", "run", "step", "")
    call.screen.table(columns, rows, empty=f"no versions above {after}")


@command(app, name="diff", example="artelier artifacts diff reports/q3-report 1 2")
async def diff(
    call: CliCall,
    artifact: ArtifactId,
    first: Annotated[int, typer.Argument(metavar="A", help="A version.", min=1)],
    second: Annotated[int, typer.Argument(metavar="B", help="Another version.", min=1)],
    principal: As = None,
    world: World = None,
) -> None:
    """Show what changed from version A to version B."""
    if first == second:
        raise InvalidRequest("two different versions are needed", got=f"{first} and {second}")
    async with call.kernel() as kernel:
        found = await (await _of(call, kernel, principal, world)).diff(artifact, first, second)
    if call.as_json:
        call.screen.json(found)
    elif found.text:
        call.screen.text(found.text)
    else:
        call.screen.note("no difference")


@command(app, name="lineage", example="artelier artifacts lineage reports/q3-report")
async def lineage(call: CliCall, artifact: ArtifactId, principal: As = None, world: World = None) -> None:
    """Show what an artifact came from, and what came from it."""
    async with call.kernel() as kernel:
        found = await (await _of(call, kernel, principal, world)).lineage(artifact)
    if call.print_json(found):
        return
    for name, refs in (("from", found.sources), ("to", found.derived)):
        for ref in refs:
            call.screen.line(f"{name:<5} {ref}")
    if not found.sources and not found.derived:
        call.screen.note(f"nothing is recorded that {artifact} came from or led to")
    # Not even their number is told: it would say that somebody works with it in private.
    call.screen.note("what came from it is shown as far as you may read it")
