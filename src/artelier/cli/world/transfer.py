"""Time travel and carrying: hash, diff, fork, export, import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.world.app import Name, app
from artelier.cli.world.diff_view import show_parting
from artelier.errors import InvalidRequest, NotFound, StoreUnavailable

if TYPE_CHECKING:
    from artelier.world.history.transfer import CarriedWorld

CONTENT_BYTES_MAX = 16 * 1024 * 1024
"""Of a file given to `--with`."""


@command(app, name="hash", example="artelier world hash market --at 100")
async def hash_(
    call: CliCall,
    name: Name,
    at: Annotated[
        int | None, typer.Option("--at", metavar="TICK", help="The last one covered: else the newest.")
    ] = None,
) -> None:
    """Print what is equal for equal histories.

    It depends on neither the store nor the tenant nor the name of the world, so the same seed and the same
    answers of models give the same hash anywhere.
    """
    from artelier.world.history.world_diff import hash_world

    async with call.kernel() as kernel:
        with call.screen.working(f"hashing {name}"):
            found = await hash_world(kernel.for_tenant(call.tenant), name, at=at)
    if call.as_json:
        call.screen.json(found._asdict())
        return
    call.screen.line(found.sha256)
    call.screen.note(f"{name} up to tick {found.tick:,}: {display.count(found.events, 'event')}", "dim")


@command(app, name="diff", example="artelier world diff market market.fork-1")
async def diff(
    call: CliCall,
    first: Annotated[str, typer.Argument(metavar="A", help="Id of a world.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Id of another world.")],
) -> None:
    """Show where two worlds part, and how their agents differ."""
    from artelier.world import World

    async with call.kernel() as kernel:
        tenant = kernel.for_tenant(call.tenant)
        with call.screen.working(f"comparing {first} and {second}"):
            found = await World.open(tenant, first).diff(World.open(tenant, second))
    if call.as_json:
        call.screen.json(found)
    else:
        show_parting(call, found)


@command(app, name="fork", example="artelier world fork market --at 100 --with alice_prompt=@kinder.md")
async def fork(
    call: CliCall,
    name: Name,
    at: Annotated[
        int | None, typer.Option("--at", metavar="TICK", help="Last tick that both share: else the newest.")
    ] = None,
    new_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Name of the fork: else NAME.fork-1 and so on.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="ID=TEXT|ID=@FILE", help="Another content of an artifact; repeatable."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=JSON", help="Another setting of the world; repeatable."),
    ] = None,
) -> None:
    """Branch a new world off an earlier tick of a world.

    It has everything that the other one had after that tick, and goes its own way. What is given as JSON is
    taken as JSON; a text for a prompt is its new template.
    """
    from artelier.world import World

    with_ = {id_: _content(given) for id_, given in _pairs("--with", changes or [])}
    config = {key: _value(given) for key, given in _pairs("--set", settings or [])}
    async with call.kernel() as kernel:
        world = World.open(kernel.for_tenant(call.tenant), name)
        with call.screen.working(f"forking {name}"):
            made = await world.fork(
                at=at, new_id=new_id, with_=with_ or None, config=config or None, by=call.person
            )
        row = await made.row()
    if call.as_json:
        call.screen.json(
            {
                "world": made.id,
                "parent": name,
                "tick": row.tick,
                "changed": list(with_),
                "settings": list(config),
            }
        )
        return
    call.screen.line(f"{made.id} branches off {name} after tick {row.tick}")
    call.screen.note(f"pass its ticks with: {call.command_line('world', 'run', made.id, '--ticks', '10')}")


@command(app, name="export", example="artelier world export market market.artelier")
async def export(
    call: CliCall,
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write; it is replaced.")],
) -> None:
    """Write a world into one verifiable file.

    It holds everything that the world is after its last tick, and the runs with the prompts of its agents.
    Only you may read the file.
    """
    from artelier.world.history.transfer import export_world

    async with call.kernel() as kernel:
        with call.screen.working(f"exporting {name}"):
            done = await export_world(kernel.for_tenant(call.tenant), name, file)
        head = await kernel.head()
    _print_transfer(call, done, f"{file}: ", head)


@command(app, name="import", example="artelier world import market.artelier --id market-2")
async def import_(
    call: CliCall,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file of `artelier world export`.")],
    id_: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its name here: else the one it had.")
    ] = None,
) -> None:
    """Take a world out of a file into this database.

    It goes on here where it stopped. The runs of its agents are records: new prompts stand in runs of their
    own.
    """
    from artelier.world.history.transfer import import_world

    async with call.kernel(create=True) as kernel:
        with call.screen.working(f"importing {file}"):
            done = await import_world(kernel.for_tenant(call.tenant), file, id=id_, by=call.person)
        head = await kernel.head()
    _print_transfer(call, done, "", head)


def _print_transfer(call: CliCall, done: CarriedWorld, where: str, head: str) -> None:
    import msgspec

    if call.as_json:
        call.screen.json({**msgspec.to_builtins(done), "head": head})
        return
    call.screen.line(
        f"{where}world {done.world}, tick {done.tick:,}: {display.count(done.events, 'event')},"
        f" {display.count(done.blobs, 'blob')}, {display.count(len(done.runs), 'run')}"
    )
    call.screen.note(f"sha256 {done.sha256}", "dim")
    call.screen.note(f"head {head}", "dim")


def _pairs(option: str, given: list[str]) -> list[tuple[str, str]]:
    """Errors: `InvalidRequest` for what is no pair, or for a name that is given twice."""
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise InvalidRequest(f"{option} takes a name and a value", expected="NAME=VALUE", got=text)
        if name in found:
            raise InvalidRequest(f"{option} {name} is given twice", expected="each name once")
        found[name] = value
    return list(found.items())


def _content(given: str) -> object:
    """New content: a file's after `@`, and JSON where it is one.

    Errors: `NotFound`, `StoreUnavailable`, `InvalidRequest`.
    """
    text = _file(Path(given[1:])) if given.startswith("@") else given
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # a template may begin with a brace; what must be JSON says so itself


def _file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(CONTENT_BYTES_MAX + 1)
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound("no such file", got=str(path)) from None
    except (OSError, ValueError) as error:
        raise StoreUnavailable(f"the file cannot be read: {error}", got=str(path)) from None
    if len(content) > CONTENT_BYTES_MAX:
        raise InvalidRequest(
            "the file is too large", expected=f"at most {CONTENT_BYTES_MAX} bytes", got=str(path)
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("the file holds no text", expected="UTF-8", got=str(path)) from None


def _value(given: str) -> object:
    """A setting: JSON, or else the text itself."""
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given
