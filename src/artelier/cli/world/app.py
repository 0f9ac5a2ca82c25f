"""The group `artelier world`: the world that a command is about, and the rule agents of its host."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import group
from artelier.errors import InvalidConfig

if TYPE_CHECKING:
    from artelier.app import Kernel
    from artelier.world import World

app = group("world", help="Make worlds of agents, pass their ticks, look into them.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Id of the world.")]


PolicyFile = Annotated[
    Path | None,
    typer.Option("--policies", metavar="FILE.py", help="Python file with POLICIES: name to rule agent."),
]


def policies_of(path: Path | None) -> dict[str, Any]:
    """Rule agents of the shipped examples, and those of a file. Errors: `InvalidConfig`."""
    from artelier.world.genesis import shipped_policies

    found: dict[str, Any] = dict(shipped_policies())
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
