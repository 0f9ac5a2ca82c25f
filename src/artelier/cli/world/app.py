"""The group `artelier world`."""

from __future__ import annotations

from typing import Annotated

import typer

from artelier.cli.command import group

app = group("world", help="Make worlds of agents, pass their ticks, look into them.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Id of the world.")]
