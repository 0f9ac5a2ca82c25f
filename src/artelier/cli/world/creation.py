"""The group `artelier world`: the world that a command is about, rule agents of its host; new, list, join."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli import display
from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.cli.completion import model_names
from artelier.errors import InvalidConfig, InvalidRequest

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.world import World
    from artelier.world.deciders import Policy


app = group("world", help="Make worlds of agents, pass their ticks, look into them.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Id of the world.")]


PolicyFile = Annotated[
    Path | None,
    typer.Option("--policies", metavar="FILE.py", help="Python file with POLICIES: name to rule agent."),
]


def policies_of(path: Path | None) -> dict[str, Policy]:
    """Rule agents of the shipped examples, and those of a file. Errors: `InvalidConfig`."""
    from artelier.world.genesis import shipped_policies

    found = dict(shipped_policies())
    if path is None:
        return found
    spec = importlib.util.spec_from_file_location("artelier_policies", path)
    if spec is None or spec.loader is None or not path.exists():
        raise InvalidConfig("no Python file of policies", expected="FILE.py", got=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # somebody's own code: whatever it raises is theirs to see
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise InvalidConfig(
            f"{path} cannot be loaded: {type(error).__name__}: {error}",
            expected="Python with POLICIES, a mapping of names to functions",
            got=f"{at.filename}:{at.lineno}",
        ) from error
    given: object = getattr(module, "POLICIES", None)
    if not isinstance(given, Mapping):
        raise InvalidConfig(f"{path} has no POLICIES", expected="a mapping of names to functions")
    return found | dict(given)  # pyright: ignore[reportUnknownArgumentType] - checked by World


def world_of(call: CliCall, kernel: Kernel, name: str, policies: Path | None = None) -> World:
    from artelier.world import World

    return World.open(kernel.for_tenant(call.tenant), name, policies=policies_of(policies))


@command(app, name="new", example="artelier world new market")
async def new(
    call: CliCall,
    name: Name,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="WORLD.toml", help="Settings, agents, artifacts.")
    ] = None,
    example: Annotated[
        str | None,
        typer.Option("--example", metavar="NAME", help="A shipped world: else the one called NAME."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Instead of the file's seed.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Of agents that name none: else the file's, ARTELIER_MODEL, settings, offline.",
            autocompletion=model_names,
        ),
    ] = None,
    empty: Annotated[
        bool, typer.Option("--empty", help="No agents: only services, libraries and handbook.")
    ] = False,
) -> None:
    """Make a world from a file, or a shipped example.

    Without a file, NAME or --example must be a shipped one, such as `market`. The model is recorded with the
    world and holds for it, until `world run --model` names another.
    """
    from artelier.world.genesis import found, read_world_file, shipped, shipped_names

    if sum((file is not None, example is not None, empty)) > 1:
        raise InvalidRequest("a world is made in one way", expected="--file, --example or --empty")
    if empty:
        spec: Any = {}
    elif file is not None:
        spec = read_world_file(file)
    elif (example or name) in shipped_names():
        spec = shipped(example or name)
    else:
        raise InvalidRequest(
            f"there is no shipped world {example or name}",
            expected=", ".join(shipped_names()),
            hint="Describe your own in a file: artelier world new NAME --file world.toml",
        )
    spec = with_model(call, spec, model)
    async with call.kernel(create=True) as kernel:
        world = await found(kernel.for_tenant(call.tenant), name, spec, seed=seed, by=call.person)
        count = len(await world.agents())
        row = await world.row()
    if call.print_json({"world": name, "seed": row.seed, "agents": count}):
        return
    call.screen.line(f"made world {name} with {display.count(count, 'agent')}, seed {row.seed}")
    call.screen.note(f"pass its ticks with: {call.command_line('world', 'run', name, '--ticks', '10')}")


def with_model(call: CliCall, spec: Mapping[str, Any], model: str | None) -> dict[str, Any]:
    """Return a world with the model of its settings: as said here, else its own, else that of this call."""
    settings = dict(spec.get("world", {}))
    settings["model"] = model or settings.get("model") or call.settings.model
    return {**spec, "world": settings}


@command(app, name="list", example="artelier world list")
async def list_worlds(call: CliCall) -> None:
    """List the worlds of this tenant."""
    from artelier.world.queries.reports import interrupted_forks, worlds

    async with call.kernel() as kernel:
        found = await worlds(kernel.for_tenant(call.tenant))
        unfinished = await interrupted_forks(kernel.for_tenant(call.tenant))
    if call.print_json({"items": found, "next": None}):
        return
    rows = [
        (
            one.id,
            f"{one.tick:,}",
            f"{one.agents:,}",
            one.seed,
            "paused" if one.paused else "",
            f"{one.parent}, tick {one.forked_at:,}" if one.parent else "",
        )
        for one in found
    ]
    columns = ("world", ">tick", ">agents", ">seed", "", "forked from")
    call.screen.table(columns, rows, empty=f"no worlds in tenant {call.tenant}")
    for name, origin in unfinished:
        go_on = f"artelier world fork {origin.world} --at {origin.tick} --id {name}"
        call.screen.note(
            f"{name} is a copy of {origin.world} that is not whole yet; if nobody works on it: {go_on}"
        )


@command(app, name="join", example="artelier world join market zoe --scrip 50")
async def join(
    call: CliCall,
    name: Name,
    agents: Annotated[list[str], typer.Argument(metavar="AGENT...", help="Ids of agent artifacts.")],
    scrip: Annotated[
        int | None, typer.Option("--scrip", metavar="N", help="Instead of the start balance.")
    ] = None,
) -> None:
    """Let agents act from the next tick on."""
    from artelier.world import World

    if scrip is not None and scrip < 0:
        raise InvalidRequest("--scrip", expected="a number from 0", got=scrip)
    async with call.kernel() as kernel:
        world = World.open(kernel.for_tenant(call.tenant), name)
        await world.join(*agents, scrip=scrip, by=call.person)
    if not call.print_json({"world": name, "joined": agents}):
        call.screen.line(f"{name}: {display.count(len(agents), 'agent')} joined")
