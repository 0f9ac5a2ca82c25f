"""Time travel and carrying: hash, diff, fork, export, import."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command
from artelier.cli.world.creation import Name, app
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
    if call.print_json(found._asdict()):
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
    if not call.print_json(found):
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
    if call.print_json(
        {"world": made.id, "parent": name, "tick": row.tick, "changed": list(with_), "settings": list(config)}
    ):
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

    if call.print_json(done, head=head):
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


# The point where two worlds part, for people to read.

AGENTS_MAX = 50
"""Agents in the table; JSON has all of them."""

VALUE_CHARS = 120

NAMES_MAX = 6
"""Of one list in a cell; JSON has all of them."""


def show_parting(call: CliCall, found: Mapping[str, Any]) -> None:
    """The result of `World.diff`."""
    a, b = found["a"], found["b"]
    if found["equal"]:
        call.screen.line(f"no difference: {a} and {b} are both at tick {found['tick_a']:,}")
    elif found["first"] is None:
        call.screen.line(
            f"no difference up to tick {found['compared_to']:,};"
            f" {a} is at tick {found['tick_a']:,}, {b} at tick {found['tick_b']:,}"
        )
    else:
        _show(call, found, found["first"])
        tick = found["first_tick"]
        if tick is None:
            call.screen.line(f"no tick up to {found['compared_to']:,} differs")
        elif tick != found["first"]:
            _show(call, found, tick)
    _show_agents(call, found)


def _show(call: CliCall, found: Mapping[str, Any], parting: Mapping[str, Any]) -> None:
    where = "after" if parting["between_ticks"] else "at"
    call.screen.line(
        f"diverges {where} tick {parting['tick']:,}: {parting['actor']}, {_what(found, parting)}", "bold"
    )
    for one in parting["differs"]:
        call.screen.line(f"  {one['field']}")
        for side in ("a", "b"):
            call.screen.line(f"    {found[side]}: {_changed_value(one[side])}")
    if not parting["differs"]:
        only = parting["a"] or parting["b"]
        call.screen.line(f"  {display.compact(only['data'], chars_max=300)}")


def _what(found: Mapping[str, Any], parting: Mapping[str, Any]) -> str:
    """Return which event it is, and on which side."""
    a, b = parting["a"], parting["b"]
    if a is None or b is None:
        return f"{parting['kind']} only in {found['a' if b is None else 'b']}"
    if a["kind"] != b["kind"]:
        return f"{a['kind']} or {b['kind']}"
    return a["kind"]


def _changed_value(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return display.line(value, chars_max=VALUE_CHARS)
    return display.compact(value, chars_max=VALUE_CHARS)


def _show_agents(call: CliCall, found: Mapping[str, Any]) -> None:
    agents: Mapping[str, Any] = found["agents"]
    if not agents:
        return
    call.screen.line()
    a, b, tick_a, tick_b = found["a"], found["b"], found["tick_a"], found["tick_b"]
    if tick_a == tick_b:
        call.screen.line(f"agents that differ at tick {tick_a:,}", "bold")
    else:
        call.screen.line(
            f"agents that differ, at different ticks: {a} at {tick_a:,}, {b} at {tick_b:,};"
            f" only actions are counted up to the same tick, {found['compared_to']:,}",
            "bold",
        )
        call.screen.note("what only the longer one did since then shows as a difference, too")
    call.screen.note(f"blank: the same in both; -: there is none; x/y: {a}/{b}")
    rows = [
        (agent, *_pair(one.get("balance")), *_pair(one.get("state")), _rest(one))
        for agent, one in list(agents.items())[:AGENTS_MAX]
    ]
    columns = ("agent", f">scrip {a}", f">scrip {b}", f"state {a}", f"state {b}", "and")
    call.screen.table(columns, rows, empty="")
    if len(agents) > AGENTS_MAX:
        call.screen.note(f"{len(agents) - AGENTS_MAX:,} more agents differ; --json has them")


def _pair(given: Mapping[str, Any] | None) -> tuple[str, str]:
    if given is None:
        return "", ""
    a, b = ("-" if given[side] is None else display.number(given[side]) for side in ("a", "b"))
    return a, b


def _rest(one: Mapping[str, Any]) -> str:
    """`song@1/2, transfer 5/4, lost hat, got 2: coat, scarf`: versions, numbers of actions, what it owns."""
    versions = [f"{id_}@{pair['a']}/{pair['b']}" for id_, pair in one.get("versions", {}).items()]
    actions = [f"{name} {pair['a']:,}/{pair['b']:,}" for name, pair in one.get("actions", {}).items()]
    owned = one.get("owned", {"a": [], "b": []})
    parts = [_cut(versions), _cut(actions), _format_ids("lost", owned["a"]), _format_ids("got", owned["b"])]
    return display.line(", ".join(filter(None, parts)), chars_max=400)


def _format_ids(verb: str, ids: Sequence[str]) -> str:
    """`lost hat`, `lost 12: poem_104, poem_110, poem_115, ...`."""
    if len(ids) < 2:
        return "".join(f"{verb} {id_}" for id_ in ids)
    return f"{verb} {len(ids):,}: {_cut(ids)}"


def _cut(names: Sequence[str]) -> str:
    return ", ".join([*names[:NAMES_MAX], "..."] if len(names) > NAMES_MAX else names)
